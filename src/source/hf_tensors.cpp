// See hf_tensors.h.
#include "source/hf_tensors.h"

#include "base/format.h"
#include "model/rope.h"

namespace qinfer::source {
namespace {

using model::Role;

/// The name of a tensor of a layer, after "layers.<i>.". In models with four norms to a layer the norm before the
/// feed-forward network has a name of its own, and the name that other models give to it means the norm after
/// attention.
std::string_view name_in_layer(const model::ModelSpec& spec, const model::TensorId& id) {
  const model::NormPlaces norms = id.layer < spec.n_layers() ? spec.layers[id.layer].norms : model::NormPlaces();
  switch (id.role) {
    case Role::attn_norm: return "input_layernorm.weight";
    case Role::attn_post_norm: return "post_attention_layernorm.weight";
    case Role::ffn_norm:
      return norms.after_attention ? "pre_feedforward_layernorm.weight" : "post_attention_layernorm.weight";
    case Role::ffn_post_norm: return "post_feedforward_layernorm.weight";
    case Role::q_norm: return "self_attn.q_norm.weight";
    case Role::k_norm: return "self_attn.k_norm.weight";
    case Role::q_bias: return "self_attn.q_proj.bias";
    case Role::k_bias: return "self_attn.k_proj.bias";
    case Role::v_bias: return "self_attn.v_proj.bias";
    case Role::o_bias: return "self_attn.o_proj.bias";
    case Role::gate_bias: return "mlp.gate_proj.bias";
    case Role::up_bias: return "mlp.up_proj.bias";
    case Role::down_bias: return "mlp.down_proj.bias";
    case Role::q: return "self_attn.q_proj.weight";
    case Role::k: return "self_attn.k_proj.weight";
    case Role::v: return "self_attn.v_proj.weight";
    case Role::o: return "self_attn.o_proj.weight";
    case Role::gate: return "mlp.gate_proj.weight";
    case Role::up: return "mlp.up_proj.weight";
    case Role::down: return "mlp.down_proj.weight";
    case Role::router: return "mlp.gate.weight";
    case Role::shared_router: return "mlp.shared_expert_gate.weight";
    case Role::shared_gate: return "mlp.shared_expert.gate_proj.weight";
    case Role::shared_up: return "mlp.shared_expert.up_proj.weight";
    case Role::shared_down: return "mlp.shared_expert.down_proj.weight";
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
    case Role::ffn_norm_bias: break;  // of encoders, which name all of their tensors
  }
  return {};
}

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

}  // namespace

std::string hf_tensor_name(const model::ModelSpec& spec, const model::TensorId& id, const HfNames& names) {
  for (std::size_t i = 0; i < model::kMaxDense; ++i) {
    const auto& [matrix, bias] = model::kDenseRoles[i];
    if (id.role != matrix && id.role != bias) continue;
    const std::string folder = i < names.dense.size() ? names.dense[i] : format_text("{}_Dense", i + 2);
    return folder + (id.role == matrix ? "/linear.weight" : "/linear.bias");
  }
  if (names.architecture != nullptr && names.architecture->whole_name != nullptr)
    return names.architecture->whole_name(spec, id, names.prefix);
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
  if (names.architecture == nullptr || names.architecture->part == nullptr || id.layer >= spec.n_layers())
    return std::nullopt;
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
