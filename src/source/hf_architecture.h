// What distinguishes the architectures of Hugging Face's models: the columns of the table in hf_config.cpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/spec.h"
#include "source/hf_rope.h"

namespace qinfer::source {

inline constexpr std::int64_t kMaxDim = 1 << 20;
inline constexpr std::int64_t kMaxVocab = 1 << 24;
inline constexpr std::int64_t kMaxLayers = 4096;

/// Which layers have a sliding window where "layer_types" does not say so.
enum class Windows : std::uint8_t {
  none,
  all_layers,
  as_stated,     ///< all layers, or none where the field is absent
  qwen,          ///< those from max_window_layers on, if use_sliding_window
  without_rope,  ///< those without rotary embedding, if use_sliding_window
  all_if_used,   ///< all layers, if use_sliding_window
  by_type_only,  ///< none, and use_sliding_window is refused: versions of transformers disagree on which layers it
                 ///< means
  pattern        ///< all but each n-th
};

/// A soft cap that config.json may state; 0 = off.
struct CapField {
  bool known = false;   ///< the architecture has the field
  double fallback = 0;  ///< where it is absent
};

/// Which fields say that layers are mixtures of experts, and what such layers are like (hf_experts.h).
enum class Experts : std::uint8_t {
  none,
  qwen3,   ///< moe_intermediate_size, norm_topk_prob; some layers may be dense
  qwen2,   ///< as qwen3, and with a network that all tokens go through
  mixtral  ///< in all layers, of intermediate_size, weights always divided by their sum
};

/// What distinguishes the architectures: one row each, in which a member that is left out means "as most have it".
struct Architecture {
  std::string_view name;
  bool qkv_bias = false;        ///< always there, without a field
  bool qkv_bias_field = false;  ///< with qkv_bias: the field qkv_bias may switch them off
  bool attention_bias = false;  ///< the field attention_bias switches q, k, v and o biases
  bool mlp_bias = false;        ///< the field mlp_bias is read
  model::QkNorm qk_norm = model::QkNorm::none;
  bool needs_kv_heads = false;        ///< num_key_value_heads must be there
  std::int64_t default_kv_heads = 0;  ///< if the field is absent; 0, or the field is null: num_attention_heads
  std::int64_t default_head_dim = 0;  ///< if the field is absent; 0 = hidden_size / num_attention_heads
  Windows windows = Windows::none;
  std::int64_t full_layer_every = 0;  ///< Windows::pattern: each n-th layer sees everything
  bool pattern_field = false;         ///< n may be stated by the field sliding_window_pattern
  bool causal = true;
  bool ropes_by_layer_type = false;  ///< another embedding for layers with a window
  bool rope_by_layer = false;        ///< no_rope_layers and no_rope_layer_interval say which layers have none
  RopeRules rope = {};
  std::string_view activation_name = "silu";
  Activation activation = Activation::silu;
  model::NormPlaces norms = {};
  bool norms_add_one = false;     ///< the weights of norms are stored less one
  bool scaled_embedding = false;  ///< by sqrt(hidden_size)
  bool multipliers = false;       ///< it has embedding_multiplier, attention_multiplier and so on, 1 by default
  double query_scalar = 0;        ///< default of query_pre_attn_scalar; 0: it has no such field
  CapField attention_cap = {}, logit_cap = {};
  std::int32_t default_bos = -1, default_end = -1;
  bool tied_by_default = false;
  Experts experts = Experts::none;
  bool fused_projections = false;  ///< one tensor holds q, k and v, and one gate and up
};

}  // namespace qinfer::source
