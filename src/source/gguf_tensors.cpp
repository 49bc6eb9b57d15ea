// See gguf_tensors.h.
#include "source/gguf_tensors.h"

#include "source/hf_tensors.h"

namespace qinfer::source {
namespace {

using model::Role;

/// The name of a tensor of a layer, after "blk.<i>.".
std::string_view name_in_layer(Role role) {
  switch (role) {
    case Role::attn_norm: return "attn_norm.weight";
    case Role::attn_post_norm: return "post_attention_norm.weight";
    case Role::ffn_norm: return "ffn_norm.weight";
    case Role::ffn_post_norm: return "post_ffw_norm.weight";
    case Role::q_norm: return "attn_q_norm.weight";
    case Role::k_norm: return "attn_k_norm.weight";
    case Role::q_bias: return "attn_q.bias";
    case Role::k_bias: return "attn_k.bias";
    case Role::v_bias: return "attn_v.bias";
    case Role::o_bias: return "attn_output.bias";
    case Role::gate_bias: return "ffn_gate.bias";
    case Role::up_bias: return "ffn_up.bias";
    case Role::down_bias: return "ffn_down.bias";
    case Role::q: return "attn_q.weight";
    case Role::k: return "attn_k.weight";
    case Role::v: return "attn_v.weight";
    case Role::o: return "attn_output.weight";
    case Role::gate: return "ffn_gate.weight";
    case Role::up: return "ffn_up.weight";
    case Role::down: return "ffn_down.weight";
    case Role::router: return "ffn_gate_inp.weight";
    case Role::shared_router: return "ffn_gate_inp_shexp.weight";
    case Role::shared_gate: return "ffn_gate_shexp.weight";
    case Role::shared_up: return "ffn_up_shexp.weight";
    case Role::shared_down: return "ffn_down_shexp.weight";
    case Role::embedding:
    case Role::final_norm:
    case Role::lm_head:
    case Role::dense_first:
    case Role::dense_second:
    case Role::dense_first_bias:
    case Role::dense_second_bias:
    case Role::final_norm_bias:
    case Role::positions:
    case Role::types:
    case Role::classifier_dense:
    case Role::classifier_dense_bias:
    case Role::classifier_norm:
    case Role::classifier_norm_bias:
    case Role::classifier_out:
    case Role::classifier_out_bias:
    case Role::attn_norm_bias:
    case Role::ffn_norm_bias: break;  // of encoders, which have their own places
  }
  return {};
}

/// An expert's matrix is one of a tensor of three dimensions.
GgufPlace expert_place(const model::ModelSpec& spec, const model::TensorId& id, const std::string& layer) {
  const model::FfnSpec& ffn = spec.layers[id.layer].ffn;
  const std::string_view kind = id.role == Role::gate ? "ffn_gate" : id.role == Role::up ? "ffn_up" : "ffn_down";
  const std::uint64_t rows = id.role == Role::down ? spec.n_embd : ffn.width;
  return {format_text("{}{}.{}.weight", layer, kind, id.expert), format_text("{}{}_exps.weight", layer, kind),
          id.expert * rows, rows, ffn.experts * rows};
}

/// Queries, keys and values in one matrix, gate and up in another that has the name of up.
std::optional<GgufPlace> fused_place(const model::ModelSpec& spec, const model::TensorId& id,
                                     const std::string& layer) {
  if (const model::AttentionSpec* attention = spec.layers[id.layer].attention()) {
    const std::uint64_t q = attention->q_dim(), kv = attention->kv_dim();
    const std::string qkv = layer + "attn_qkv.weight";
    if (id.role == Role::q) return GgufPlace{layer + "attn_q.weight", qkv, 0, q, q + 2 * kv};
    if (id.role == Role::k) return GgufPlace{layer + "attn_k.weight", qkv, q, kv, q + 2 * kv};
    if (id.role == Role::v) return GgufPlace{layer + "attn_v.weight", qkv, q + kv, kv, q + 2 * kv};
  }
  if (id.role != Role::gate && id.role != Role::up) return std::nullopt;
  const std::uint64_t width = spec.layers[id.layer].ffn.width;
  const std::string up = layer + "ffn_up.weight";
  const bool is_up = id.role == Role::up;
  return GgufPlace{layer + (is_up ? "ffn_up (second half)" : "ffn_gate"), up, is_up ? width : 0, width, 2 * width};
}

}  // namespace

GgufPlace gguf_place(const model::ModelSpec& spec, const GgufArchitecture& architecture, const model::TensorId& id) {
  if (id.role == Role::dense_first && spec.score.kind == model::ScoreKind::dense) return {"cls.output.weight", {}};
  for (std::size_t i = 0; i < model::kMaxDense; ++i) {
    if (id.role == model::kDenseRoles[i].matrix) return {format_text("dense_{}.weight", i + 2), {}};
    if (id.role == model::kDenseRoles[i].bias) return {format_text("dense_{}.bias", i + 2), {}};
  }
  if (architecture.place != nullptr) return architecture.place(spec, id);
  if (id.role == Role::embedding) return {"token_embd.weight", {}};
  if (id.role == Role::final_norm) return {"output_norm.weight", {}};
  if (id.role == Role::lm_head) return {"output.weight", {}};
  const std::string layer = format_text("blk.{}.", id.layer);
  if (id.layer < spec.n_layers()) {
    if (id.expert != model::kNoExpert) return expert_place(spec, id, layer);
    if (architecture.fused)
      if (auto place = fused_place(spec, id, layer)) return *place;
  }
  std::string_view own;
  if (architecture.tensor_name != nullptr) own = architecture.tensor_name(id.role);
  return {layer + std::string(own.empty() ? name_in_layer(id.role) : own), {}};
}

model::RowOrder gguf_row_order(const model::ModelSpec& spec, const GgufArchitecture& architecture,
                               const model::TensorId& id) {
  return architecture.interleaved ? interleaved_order(spec, id) : partial_order(spec, id);
}

}  // namespace qinfer::source
