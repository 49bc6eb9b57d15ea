// An architecture as data: everything that the forward pass needs to know about a model, and nothing about files.
// One interpreter (engine/forward) runs every spec; a new decoder is a new reader of config.json, not a new class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/activation.h"
#include "base/status.h"

namespace qinfer::model {

/// divisors: each frequency has its own, as llama.cpp stores what llama3 scaling gives.
enum class RopeScaling : std::uint8_t { none, linear, llama3, yarn, divisors };

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
  std::vector<float> divisors;                           ///< of each frequency
  std::uint32_t rotary_dims = 0;  ///< of each head that are turned; 0 = all. See partial_rotary_order()
};

/// The feed-forward network of a layer: down(activation(gate(x)) * up(x)), or a mixture of such networks, which a
/// router chooses for each token (kernels::MoeArgs).
struct FfnSpec {
  std::uint32_t width = 0;  ///< of gate and up; of each expert, where there are some
  Activation activation = Activation::silu;
  bool bias = false;               ///< of gate, up and down
  std::uint32_t experts = 0;       ///< 0: one network for all tokens
  std::uint32_t top_k = 0;         ///< experts that each token goes through
  bool normalise = false;          ///< the weights of a token's experts are divided by their sum
  std::uint32_t shared_width = 0;  ///< of the shared network, which every token goes through; 0: none
  bool has_experts() const { return experts != 0; }
};

/// Where a layer normalises: its residual stream before an operation reads it, or what the operation gives before it is
/// added to the stream.
struct NormPlaces {
  bool before_attention = true, after_attention = false;
  bool before_ffn = true, after_ffn = false;
};

struct LayerSpec {
  FfnSpec ffn;
  std::uint32_t window = 0;     ///< positions that attention sees, the token itself included; 0 = all
  std::uint32_t rope = 0;       ///< which of ModelSpec::ropes turns queries and keys
  bool no_rope = false;         ///< queries and keys are not turned
  std::int32_t kv_source = -1;  ///< the earlier layer whose keys and values it reads; -1: it has its own
  std::uint32_t kv_group = 0;   ///< where they are kept: group of layers with the same policy
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
  std::uint32_t n_vocab = 0, n_embd = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0;
  std::uint32_t context_tokens = 0;
  float norm_eps = 0;
  bool qkv_bias = false, o_bias = false;
  bool qk_norm = false;        ///< RMSNorm of each query and key head
  bool qk_norm_whole = false;  ///< with qk_norm: of all query heads together, and of all key heads
  bool tied_embeddings = false;
  bool causal = true;         ///< false: every token sees those after it too, and there is no LM head
  bool no_lm_head = false;    ///< of a causal model: its files have none; tied_embeddings is true
  bool mean_pooling = false;  ///< of a causal model: embeddings are means of all tokens where a host does not say
  NormPlaces norms;           ///< of every layer
  float embedding_scale = 1;
  float attention_scale = 0;    ///< of scores; 0 = 1 / sqrt(head_dim)
  float residual_scale = 1;     ///< of what attention and network give, before it is normalised or added
  float attention_softcap = 0;  ///< scores s become cap * tanh(s / cap); 0 = off
  float logit_scale = 1;        ///< of logits, before the soft cap
  float logit_softcap = 0;      ///< as attention_softcap, of logits
  std::vector<RopeSpec> ropes;  ///< one, or one for each kind of attention
  std::vector<LayerSpec> layers;
  std::vector<KvGroup> kv_groups;  ///< by group_layers(); none in an encoder, which keeps nothing

  std::int32_t bos_token = -1;
  std::vector<std::int32_t> end_tokens;
  /// How many of them, at the end of the list, were found by their names or by the chat template. Fingerprints leave
  /// them out: a template may be changed without making saved sessions and packed files another model's.
  std::size_t n_found_ends = 0;

  std::uint32_t n_layers() const { return static_cast<std::uint32_t>(layers.size()); }
  std::uint32_t q_dim() const { return n_heads * head_dim; }
  std::uint32_t kv_dim() const { return n_kv_heads * head_dim; }
  std::uint32_t n_ropes() const { return static_cast<std::uint32_t>(ropes.size()); }
  /// Of the widest feed-forward network; 0 where all layers have experts.
  std::uint32_t ffn_width() const;
  /// False: it gives embeddings only.
  bool gives_logits() const { return causal && !no_lm_head; }
  /// QINFER_E_UNSUPPORTED if it does not.
  Status check_gives_logits() const;
  /// The largest of each number among the layers that have experts; all 0 without such layers.
  FfnSpec largest_mixture() const;
};

/// Sorts the layers that have keys and values of their own by window, the one that keeps everything first, and tells
/// each layer where its keys and values are kept.
void group_layers(ModelSpec& spec);

/// All that a spec says about results, one field to a line, in an order and notation that stay; fields with the value
/// that means "off" are left out, so that a field that is added later changes no text of a model that does without it.
/// What fingerprints are made of.
std::string canonical_text(const ModelSpec& spec);

}  // namespace qinfer::model
