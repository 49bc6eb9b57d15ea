// The layers after pooling: what makes the vector of a text of its pooled hidden states, where a model has such layers.
#pragma once

#include <span>

#include "engine/model.h"

namespace qinfer::engine {

/// Runs the model's layers on `pooled` (n_embd values) and puts what they give, spec().embedding_dims() values, into
/// `out`. Takes the runtime's eval mutex, for the team and the scratch arena are those of evaluations.
void apply_dense(const Model& model, std::span<const float> pooled, std::span<float> out);

}  // namespace qinfer::engine
