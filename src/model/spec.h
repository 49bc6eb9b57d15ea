// An architecture as data: everything that the forward pass needs to know about a model, and nothing about files.
// One interpreter (engine/forward) runs every spec; a new decoder is a new reader of config.json, not a new class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/activation.h"

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
  std::uint32_t window = 0;     ///< positions that attention sees, the token itself included; 0 = all
  std::uint32_t rope = 0;       ///< which of ModelSpec::ropes turns queries and keys
  std::int32_t kv_source = -1;  ///< the earlier layer whose keys and values it reads; -1: it has its own
  std::uint32_t kv_group = 0;   ///< where they lie: group of layers with the same policy
  std::uint32_t kv_index = 0;   ///< layer within the group
  bool has_own_kv() const { return kv_source < 0; }
};

/// Layers whose keys and values are kept alike: all of them, or those of the last `window` positions.
struct KvGroup {
  std::uint32_t window = 0, n_layers = 0;
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
  bool causal = true;          ///< false: every token sees those behind it too, and there is no LM head
  bool post_norms = false;     ///< attention and feed-forward network are normalised again before they are added
  bool norms_add_one = false;  ///< the stored weights of norms are the true ones minus one
  bool bare_names = false;     ///< tensors are not below "model."
  Activation activation = Activation::silu;
  float embedding_scale = 1;
  float attention_scale = 0;    ///< of scores; 0 = 1 / sqrt(head_dim)
  float attention_softcap = 0;  ///< scores s become cap * tanh(s / cap); 0 = off
  float logit_softcap = 0;      ///< the same for logits
  std::vector<RopeSpec> ropes;  ///< one, or one for each kind of attention
  std::vector<LayerSpec> layers;
  std::vector<KvGroup> kv_groups;  ///< by group_layers(); none in an encoder, which keeps nothing

  std::int32_t bos_token = -1;
  std::vector<std::int32_t> end_tokens;

  std::uint32_t n_layers() const { return static_cast<std::uint32_t>(layers.size()); }
  std::uint32_t q_dim() const { return n_heads * head_dim; }
  std::uint32_t kv_dim() const { return n_kv_heads * head_dim; }
  std::uint32_t n_ropes() const { return static_cast<std::uint32_t>(ropes.size()); }
};

/// Sorts the layers that have keys and values of their own by window, the one that keeps everything first, and tells
/// each layer where its keys and values lie.
void group_layers(ModelSpec& spec);

}  // namespace qinfer::model
