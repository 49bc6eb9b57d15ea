// An architecture as data: everything that the forward pass needs to know about a model, and nothing about files.
// One interpreter (engine/forward) runs every spec; a new decoder is a new reader of config.json, not a new class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace qinfer::model {

enum class RopeScaling : std::uint8_t { none, linear, llama3, yarn };

/// Rotary position embedding; the formulas are in rope.cpp.
struct RopeSpec {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  ///< llama3
  double beta_fast = 32.0, beta_slow = 1.0;              ///< yarn
  double attention_factor = 1.0;                         ///< yarn: multiplies cos and sin
  bool truncate = true;                                  ///< yarn: round the ends of the ramp
  std::uint32_t original_context = 0;                    ///< llama3, yarn
};

struct LayerSpec {
  std::uint32_t window = 0;  ///< positions that attention sees, the token itself included; 0 = all
};

struct ModelSpec {
  std::string architecture;  ///< "Qwen3ForCausalLM"
  std::string name;          ///< as the checkpoint calls itself, or empty
  std::uint32_t n_vocab = 0, n_embd = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, n_ffn = 0;
  std::uint32_t context_tokens = 0;
  float norm_eps = 0;
  bool qkv_bias = false, o_bias = false, mlp_bias = false;
  bool qk_norm = false;  ///< RMSNorm of each query and key head
  bool tied_embeddings = false;
  RopeSpec rope;
  std::vector<LayerSpec> layers;

  std::int32_t bos_token = -1;
  std::vector<std::int32_t> end_tokens;

  std::uint32_t n_layers() const { return static_cast<std::uint32_t>(layers.size()); }
  std::uint32_t q_dim() const { return n_heads * head_dim; }
  std::uint32_t kv_dim() const { return n_kv_heads * head_dim; }
};

}  // namespace qinfer::model
