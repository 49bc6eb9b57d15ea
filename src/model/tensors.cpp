// See tensors.h: which tensors a spec needs, as one table of roles.
#include "model/tensors.h"

namespace qinfer::model {
namespace {

using SizeOf = std::uint32_t (*)(const ModelSpec&, const LayerSpec&);
using Wanted = bool (*)(const LayerSpec&);

constexpr SizeOf kHidden = [](const ModelSpec& s, const LayerSpec&) { return s.n_embd; };
constexpr SizeOf kQuery = [](const ModelSpec&, const LayerSpec& l) { return l.attention()->q_dim(); };
constexpr SizeOf kKeyValue = [](const ModelSpec&, const LayerSpec& l) { return l.attention()->kv_dim(); };
constexpr SizeOf kQNormSize = [](const ModelSpec&, const LayerSpec& l) {
  return l.attention()->qk_norm == QkNorm::whole ? l.attention()->q_dim() : l.attention()->head_dim;
};
constexpr SizeOf kKNormSize = [](const ModelSpec&, const LayerSpec& l) {
  return l.attention()->qk_norm == QkNorm::whole ? l.attention()->kv_dim() : l.attention()->head_dim;
};
constexpr SizeOf kFfn = [](const ModelSpec&, const LayerSpec& l) { return l.ffn.width; };
constexpr SizeOf kExperts = [](const ModelSpec&, const LayerSpec& l) { return l.ffn.experts; };
constexpr SizeOf kShared = [](const ModelSpec&, const LayerSpec& l) { return l.ffn.shared_width; };
constexpr SizeOf kOne = [](const ModelSpec&, const LayerSpec&) { return 1u; };

/// Layers that read another's keys and values have none of what makes them.
bool has_own_kv(const LayerSpec& l) { return l.attention() != nullptr && l.attention()->has_own_kv(); }
bool has_qk_norm(const LayerSpec& l) { return l.attention() != nullptr && l.attention()->qk_norm != QkNorm::none; }
bool has_qkv_bias(const LayerSpec& l) { return l.attention() != nullptr && l.attention()->qkv_bias; }

constexpr Wanted kAlways = [](const LayerSpec&) { return true; };
constexpr Wanted kAttention = [](const LayerSpec& l) { return l.attention() != nullptr; };
constexpr Wanted kOwnKv = has_own_kv;
constexpr Wanted kAttnNorm = [](const LayerSpec& l) { return l.norms.before_attention; };
constexpr Wanted kAttnPostNorm = [](const LayerSpec& l) { return l.norms.after_attention; };
constexpr Wanted kFfnNorm = [](const LayerSpec& l) { return l.norms.before_ffn; };
constexpr Wanted kFfnPostNorm = [](const LayerSpec& l) { return l.norms.after_ffn; };
constexpr Wanted kQNorm = has_qk_norm;
constexpr Wanted kKNorm = [](const LayerSpec& l) { return has_qk_norm(l) && has_own_kv(l); };
constexpr Wanted kQBias = has_qkv_bias;
constexpr Wanted kKvBias = [](const LayerSpec& l) { return has_qkv_bias(l) && has_own_kv(l); };
constexpr Wanted kOBias = [](const LayerSpec& l) { return l.attention() != nullptr && l.attention()->o_bias; };
constexpr Wanted kMlpBias = [](const LayerSpec& l) { return l.ffn.bias; };
constexpr Wanted kRouter = [](const LayerSpec& l) { return l.ffn.has_experts(); };
constexpr Wanted kSharedNetwork = [](const LayerSpec& l) { return l.ffn.shared_width != 0; };

struct RoleRow {
  Role role;
  std::string_view name;
  bool is_vector;
  SizeOf rows, cols;
  Wanted wanted;
};

/// The tensors of a layer, in the order in which they are loaded.
constexpr RoleRow kLayerRoles[] = {
    {Role::attn_norm, "attn_norm", true, kOne, kHidden, kAttnNorm},
    {Role::attn_post_norm, "attn_post_norm", true, kOne, kHidden, kAttnPostNorm},
    {Role::ffn_norm, "ffn_norm", true, kOne, kHidden, kFfnNorm},
    {Role::ffn_post_norm, "ffn_post_norm", true, kOne, kHidden, kFfnPostNorm},
    {Role::q_norm, "q_norm", true, kOne, kQNormSize, kQNorm},
    {Role::k_norm, "k_norm", true, kOne, kKNormSize, kKNorm},
    {Role::q_bias, "q_bias", true, kOne, kQuery, kQBias},
    {Role::k_bias, "k_bias", true, kOne, kKeyValue, kKvBias},
    {Role::v_bias, "v_bias", true, kOne, kKeyValue, kKvBias},
    {Role::o_bias, "o_bias", true, kOne, kHidden, kOBias},
    {Role::gate_bias, "gate_bias", true, kOne, kFfn, kMlpBias},
    {Role::up_bias, "up_bias", true, kOne, kFfn, kMlpBias},
    {Role::down_bias, "down_bias", true, kOne, kHidden, kMlpBias},
    {Role::q, "q", false, kQuery, kHidden, kAttention},
    {Role::k, "k", false, kKeyValue, kHidden, kOwnKv},
    {Role::v, "v", false, kKeyValue, kHidden, kOwnKv},
    {Role::o, "o", false, kHidden, kQuery, kAttention},
    {Role::gate, "gate", false, kFfn, kHidden, kAlways},
    {Role::up, "up", false, kFfn, kHidden, kAlways},
    {Role::down, "down", false, kHidden, kFfn, kAlways},
    {Role::router, "router", false, kExperts, kHidden, kRouter},
    {Role::shared_router, "shared router", false, kOne, kHidden, kSharedNetwork},
    {Role::shared_gate, "shared gate", false, kShared, kHidden, kSharedNetwork},
    {Role::shared_up, "shared up", false, kShared, kHidden, kSharedNetwork},
    {Role::shared_down, "shared down", false, kHidden, kShared, kSharedNetwork},
};
static_assert(std::size(kLayerRoles) == kRoles - kGlobalRoles);

/// Whether each expert of a layer has its own tensor of this role.
bool is_of_expert(Role role) { return role == Role::gate || role == Role::up || role == Role::down; }

}  // namespace

std::string describe(const TensorId& id) {
  if (id.role == Role::embedding) return "embedding";
  if (id.role == Role::final_norm) return "final_norm";
  if (id.role == Role::lm_head) return "lm_head";
  std::string_view name;
  for (const RoleRow& row : kLayerRoles)
    if (row.role == id.role) name = row.name;
  if (id.expert != kNoExpert) return format_text("{} of expert {} of layer {}", name, id.expert, id.layer);
  return format_text("{} of layer {}", name, id.layer);
}

std::string TensorInfo::quoted() const {
  if (part_of.empty()) return format_text("\"{}\"", name);
  return format_text("\"{}\" (rows of \"{}\")", name, part_of);
}

std::vector<TensorNeed> tensors_of(const ModelSpec& spec) {
  std::vector<TensorNeed> needs;
  needs.push_back({{Role::embedding}, false, spec.n_vocab, spec.n_embd});
  for (std::uint32_t i = 0; i < spec.n_layers(); ++i) {
    const LayerSpec& layer = spec.layers[i];
    for (const RoleRow& row : kLayerRoles) {
      if (!row.wanted(layer)) continue;
      TensorNeed need{
          {row.role, static_cast<std::uint16_t>(i)}, row.is_vector, row.rows(spec, layer), row.cols(spec, layer)};
      const bool by_expert = layer.ffn.has_experts() && is_of_expert(row.role);
      if (!by_expert) needs.push_back(need);
      for (std::uint32_t e = 0; by_expert && e < layer.ffn.experts; ++e) {
        need.id.expert = static_cast<std::uint16_t>(e);
        needs.push_back(need);
      }
    }
  }
  needs.push_back({{Role::final_norm}, true, 1, spec.n_embd});
  if (spec.gives_logits() && !spec.tied_embeddings)
    needs.push_back({{Role::lm_head}, false, spec.n_vocab, spec.n_embd});
  return needs;
}

}  // namespace qinfer::model
