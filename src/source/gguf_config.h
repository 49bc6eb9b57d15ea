// The key-values of a GGUF file about its architecture, as the config.json that the model would have: what the keys
// state, and what files leave out because llama.cpp knows it, in one table. hf_config.h reads the result, so that an
// architecture is described once.
#pragma once

#include <string>
#include <vector>

#include "formats/gguf.h"
#include "model/spec.h"

namespace qinfer::source {

/// Experts of a layer's feed-forward network, by the architecture.
enum class GgufExperts : std::uint8_t { none, mixtral, qwen2, qwen3 };

/// What llama.cpp knows of an architecture, and files therefore do not say.
struct GgufArchitecture {
  std::string_view name;          ///< general.architecture
  std::string_view hugging_face;  ///< architectures of config.json
  /// Rows of queries and keys are in the order of rotation by interleaved pairs: of each head rows 0, h, 1, h + 1, ...
  /// (h: half of its dimensions) of the checkpoint that was converted.
  bool interleaved = false;
  GgufExperts experts = GgufExperts::none;
  bool fused = false;              ///< one tensor holds q, k and v, and one gate and up
  bool gemma = false;              ///< norms before and after; the soft caps, scales and windows of Gemma
  std::uint32_t large_layers = 0;  ///< Gemma: as many layers have the models whose queries are scaled by
                                   ///< 1 / sqrt(hidden / heads), and not by 1 / sqrt(head_dim)
};

/// QINFER_E_UNSUPPORTED, naming the known ones, for another.
Result<const GgufArchitecture*> find_gguf_architecture(const formats::GgufMetadata& metadata);

/// The one that files of a model with this spec have; null if there is none.
const GgufArchitecture* find_gguf_architecture(const model::ModelSpec& spec);

/// `rope_divisors`: of rope_freqs.weight, empty without it.
Result<std::string> gguf_config_text(const formats::Gguf& gguf, const GgufArchitecture& architecture,
                                     const std::vector<float>& rope_divisors);

}  // namespace qinfer::source
