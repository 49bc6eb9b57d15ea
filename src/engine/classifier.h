// The classifier by which models that rank give a pair of texts a score: two small linear layers over one hidden state
// of an encoder, one over that of a decoder's last token. It is computed where its numbers are asked for, on the
// caller's thread.
#pragma once

#include <span>

#include "engine/model.h"

namespace qinfer::engine {

/// `state`: the pooled hidden state; `inner`: room for as many values; `out`: a number for each label. False where one
/// of them is not finite.
bool classify(const Model& model, std::span<const float> state, std::span<float> inner, std::span<float> out);

}  // namespace qinfer::engine
