// See hf_tensors.h.
#include "source/hf_tensors.h"

#include "base/format.h"
#include "model/rope.h"
#include "source/tensor_table.h"

namespace qinfer::source {
namespace {

using model::Role;

/// The name of an expert's matrix, after "experts.<i>.".
std::string_view name_in_expert(Role role) {
  if (role == Role::gate) return "gate_proj.weight";
  if (role == Role::up) return "up_proj.weight";
  if (role == Role::down) return "down_proj.weight";
  return {};  // experts have no other tensors
}

bool is_norm(Role role) {
  return role == Role::final_norm || role == Role::attn_norm || role == Role::attn_post_norm ||
         role == Role::ffn_norm || role == Role::ffn_post_norm || role == Role::q_norm || role == Role::k_norm;
}

/// Whether what it gives is turned by rotary position embedding.
bool is_turned(Role role) {
  return role == Role::q || role == Role::k || role == Role::q_bias || role == Role::k_bias || role == Role::q_norm ||
         role == Role::k_norm;
}

constexpr LayerTensor kLayerTensors[] = {
    {Role::attn_norm, "input_layernorm.weight", "attn_norm.weight"},
    {Role::attn_post_norm, "post_attention_layernorm.weight", "post_attention_norm.weight"},
    {Role::ffn_norm, "post_attention_layernorm.weight", "ffn_norm.weight"},
    {Role::ffn_post_norm, "post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
    {Role::q_norm, "self_attn.q_norm.weight", "attn_q_norm.weight"},
    {Role::k_norm, "self_attn.k_norm.weight", "attn_k_norm.weight"},
    {Role::q_bias, "self_attn.q_proj.bias", "attn_q.bias"},
    {Role::k_bias, "self_attn.k_proj.bias", "attn_k.bias"},
    {Role::v_bias, "self_attn.v_proj.bias", "attn_v.bias"},
    {Role::o_bias, "self_attn.o_proj.bias", "attn_output.bias"},
    {Role::gate_bias, "mlp.gate_proj.bias", "ffn_gate.bias"},
    {Role::up_bias, "mlp.up_proj.bias", "ffn_up.bias"},
    {Role::down_bias, "mlp.down_proj.bias", "ffn_down.bias"},
    {Role::q, "self_attn.q_proj.weight", "attn_q.weight"},
    {Role::k, "self_attn.k_proj.weight", "attn_k.weight"},
    {Role::v, "self_attn.v_proj.weight", "attn_v.weight"},
    {Role::o, "self_attn.o_proj.weight", "attn_output.weight"},
    {Role::gate, "mlp.gate_proj.weight", "ffn_gate.weight"},
    {Role::up, "mlp.up_proj.weight", "ffn_up.weight"},
    {Role::down, "mlp.down_proj.weight", "ffn_down.weight"},
    {Role::router, "mlp.gate.weight", "ffn_gate_inp.weight"},
    {Role::shared_router, "mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"},
    {Role::shared_gate, "mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
    {Role::shared_up, "mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
    {Role::shared_down, "mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
};

/// In models with four norms to a layer the norm before the feed-forward network has a name of its own, and the name
/// that other models give to it means the norm after attention.
std::string_view name_in_layer(const model::ModelSpec& spec, const model::TensorId& id) {
  const model::NormPlaces norms = id.layer < spec.n_layers() ? spec.layers[id.layer].norms : model::NormPlaces();
  if (id.role == Role::ffn_norm && norms.after_attention) return "pre_feedforward_layernorm.weight";
  return layer_tensor(id.role).name;
}

}  // namespace

LayerTensor layer_tensor(Role role) {
  for (const LayerTensor& row : kLayerTensors)
    if (row.role == role) return row;
  return {role, {}, {}};
}

std::string hf_tensor_name(const model::ModelSpec& spec, const model::TensorId& id, const HfNames& names) {
  for (std::size_t i = 0; i < model::kMaxDense; ++i) {
    const auto& [matrix, bias] = model::kDenseRoles[i];
    if (id.role != matrix && id.role != bias) continue;
    const std::string folder = i < names.dense.size() ? names.dense[i] : format_text("{}_Dense", i + 2);
    return folder + (id.role == matrix ? "/linear.weight" : "/linear.bias");
  }
  if (names.architecture != nullptr && names.architecture->names != nullptr)
    return table_name(*names.architecture->names, spec, id, names.prefix, names.old_norms);
  if (id.role == Role::embedding) return format_text("{}embed_tokens.weight", names.prefix);
  if (id.role == Role::final_norm) return format_text("{}norm.weight", names.prefix);
  if (id.role == Role::lm_head) return std::string(names.head);
  if (id.role == Role::classifier_out) return "score.weight";
  const std::string layer = format_text("{}layers.{}.", names.prefix, id.layer);
  std::string own;
  if (names.architecture != nullptr && names.architecture->tensor_name != nullptr)
    own = names.architecture->tensor_name(id);
  if (!own.empty()) return layer + own;
  if (id.expert != model::kNoExpert)
    return format_text("{}mlp.experts.{}.{}", layer, id.expert, name_in_expert(id.role));
  return layer + std::string(name_in_layer(spec, id));
}

std::optional<HfPart> hf_part(const model::ModelSpec& spec, const model::TensorId& id, const HfNames& names) {
  if (names.architecture == nullptr || id.layer >= spec.n_layers()) return std::nullopt;
  if (names.architecture->names != nullptr) return table_part(*names.architecture->names, spec, id, names.prefix);
  if (names.architecture->part == nullptr) return std::nullopt;
  return names.architecture->part(spec, id, format_text("{}layers.{}.", names.prefix, id.layer));
}

std::optional<HfPart> hf_expert_part(const model::ModelSpec& spec, const model::TensorId& id, const HfNames& names) {
  if (id.expert == model::kNoExpert || id.layer >= spec.n_layers()) return std::nullopt;
  const model::FfnSpec& ffn = spec.layers[id.layer].ffn;
  const std::uint64_t width = ffn.width, hidden = spec.n_embd, experts = ffn.experts, expert = id.expert;
  const std::string block = format_text("{}layers.{}.mlp.experts.", names.prefix, id.layer);
  if (id.role == Role::down) return HfPart{block + "down_proj", {experts, hidden, width}, expert * hidden, hidden};
  const std::uint64_t first = expert * 2 * width + (id.role == Role::up ? width : 0);
  return HfPart{block + "gate_up_proj", {experts, 2 * width, hidden}, first, width};
}

model::RowOrder partial_order(const model::ModelSpec& spec, const model::TensorId& id) {
  if (!is_turned(id.role) || id.layer >= spec.n_layers()) return {};
  const model::AttentionSpec* attention = spec.layers[id.layer].attention();
  if (attention == nullptr || attention->rope >= spec.n_ropes()) return {};
  const std::uint32_t turned = spec.ropes[attention->rope].rotary_dims;
  return turned == 0 ? model::RowOrder() : model::partial_rotary_order(attention->head_dim, turned);
}

model::RowOrder interleaved_order(const model::ModelSpec& spec, const model::TensorId& id) {
  const bool turned = id.role == Role::q || id.role == Role::k || id.role == Role::q_bias || id.role == Role::k_bias;
  if (!turned || id.layer >= spec.n_layers() || spec.layers[id.layer].attention() == nullptr) return {};
  const std::uint32_t head_dim = spec.layers[id.layer].attention()->head_dim;
  model::RowOrder order(head_dim);
  for (std::uint32_t i = 0; i < head_dim; ++i)
    order[i] = static_cast<std::uint16_t>(i < head_dim / 2 ? 2 * i : 2 * (i - head_dim / 2) + 1);
  return order;
}

model::RowOrder hf_row_order(const model::ModelSpec& spec, const model::TensorId& id, const HfNames& names) {
  const bool interleaved = names.architecture != nullptr && names.architecture->interleaved;
  return interleaved ? interleaved_order(spec, id) : partial_order(spec, id);
}

model::Transform hf_transform(const model::TensorId& id, bool norms_add_one) {
  return norms_add_one && is_norm(id.role) ? model::Transform::add_one : model::Transform::none;
}

}  // namespace qinfer::source
