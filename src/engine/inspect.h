// What a model is, from the headers of its files: for qinfer_model_inspect(), which reads no weights.
#pragma once

#include <cstdint>
#include <string>

#include "model/spec.h"
#include "source/model_source.h"

namespace qinfer::engine {

/// The mixtures of experts of a model: the largest of each number among its layers; all 0 without experts.
struct Mixtures {
  std::uint32_t n_experts = 0;
  std::uint32_t n_active = 0;                 ///< experts that each token goes through
  std::uint32_t n_layers = 0;                 ///< that are mixtures
  std::uint32_t width = 0, shared_width = 0;  ///< of each expert; of the network that all tokens share
};
Mixtures mixtures_of(const model::ModelSpec& spec);

struct ModelDetails {
  model::ModelSpec spec;
  bool packed = false, has_tokenizer = false;
  std::string weight_types;  ///< of the matrices in the files, "bf16 f32"; for a lone config.json the one it names
  std::uint64_t n_params = 0;
  std::uint64_t n_active_params = 0;  ///< those that one token is computed with
  std::uint64_t file_bytes = 0;
  std::uint32_t n_window_layers = 0;  ///< layers whose attention sees a window only
  std::uint32_t window_tokens = 0;    ///< the largest of their windows
  std::uint32_t max_token_bytes = 0;
};

/// Fails as loading the files would, as far as headers tell: a tensor may be missing or have another shape.
Result<ModelDetails> inspect_model(const source::ModelSource& source);

}  // namespace qinfer::engine
