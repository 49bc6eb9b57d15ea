// See gguf_tensors.h.
#include "source/gguf_tensors.h"

#include "source/hf_tensors.h"
#include "source/tensor_table.h"

namespace qinfer::source {
namespace {

using model::Role;

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
  if (architecture.names != nullptr) return gguf_table_place(*architecture.names, spec, id);
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
  return {layer + std::string(own.empty() ? layer_tensor(id.role).gguf : own), {}};
}

model::RowOrder gguf_row_order(const model::ModelSpec& spec, const GgufArchitecture& architecture,
                               const model::TensorId& id) {
  return architecture.interleaved ? interleaved_order(spec, id) : partial_order(spec, id);
}

}  // namespace qinfer::source
