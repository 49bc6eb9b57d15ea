// The key-values of a GGUF file about its architecture, as the config.json that the model would have: what the keys
// state, and what files leave out because llama.cpp knows it.
#pragma once

#include <vector>

#include "formats/gguf.h"
#include "formats/json.h"
#include "source/architecture.h"

namespace qinfer::source {

/// QINFER_E_UNSUPPORTED, naming the known ones, for another.
Result<const GgufArchitecture*> find_gguf_architecture(const formats::GgufMetadata& metadata);

/// Tensors that divide the frequencies of the rotary embedding: at all positions or, of longrope, in contexts up to the
/// original one and in longer ones.
inline constexpr std::string_view kRopeDivisors = "rope_freqs.weight", kShortDivisors = "rope_factors_short.weight",
                                  kLongDivisors = "rope_factors_long.weight";

/// Their values; empty where there is no such tensor.
struct GgufDivisors {
  std::vector<float> all, short_context, long_context;
};

/// The fields of config.json.
Result<formats::JsonDocument> gguf_config(const formats::Gguf& gguf, const GgufArchitecture& architecture,
                                          const GgufDivisors& divisors);

}  // namespace qinfer::source
