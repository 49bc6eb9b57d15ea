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

/// The fields of config.json. `rope_divisors`: of rope_freqs.weight, empty without it.
Result<formats::JsonDocument> gguf_config(const formats::Gguf& gguf, const GgufArchitecture& architecture,
                                          const std::vector<float>& rope_divisors);

}  // namespace qinfer::source
