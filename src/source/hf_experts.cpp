// See hf_experts.h. What a missing field means is that of transformers' configuration classes.
#include "source/hf_experts.h"

#include <optional>

namespace qinfer::source {
namespace {

using formats::FieldReader;
using formats::find_field;
using formats::Json;
using model::FfnSpec;
using model::LayerSpec;
using model::ModelSpec;

/// num_experts, which newer files call num_local_experts.
Result<std::int64_t> read_count(const FieldReader& fields, const ExpertRules& rules) {
  const std::int64_t min = rules.width == 0 ? 1 : 0;
  QINFER_ASSIGN(const auto count, fields.integer("num_experts", min, kMaxExperts));
  if (!rules.local_experts) return count.value_or(rules.experts);
  QINFER_ASSIGN(const auto local, fields.integer("num_local_experts", min, kMaxExperts));
  if (count && local && *count != *local)
    return error_at(Code::format, -1, "{}: \"num_experts\" is {} and \"num_local_experts\" is {}, expected the same",
                    fields.where(), *count, *local);
  return count ? *count : local.value_or(rules.experts);
}

/// Whether each layer is a mixture: each decoder_sparse_step-th, but for those that mlp_only_layers lists.
Result<std::vector<bool>> read_sparse_layers(const FieldReader& fields, std::size_t n_layers) {
  QINFER_ASSIGN(const auto step, fields.integer("decoder_sparse_step", 1, kMaxLayers));
  std::vector<bool> sparse(n_layers);
  for (std::size_t i = 0; i < n_layers; ++i) sparse[i] = (i + 1) % static_cast<std::size_t>(step.value_or(1)) == 0;
  const Json* dense = find_field(fields.object(), "mlp_only_layers");
  if (dense == nullptr) return sparse;
  if (!dense->is_array())
    return error_at(Code::format, -1, "{}: \"mlp_only_layers\" must be a list, not {}", fields.where(),
                    formats::type_name(dense->type()));
  for (const Json& item : *dense) {
    if (!item.is_integer() || item.integer() < 0 || item.integer() >= static_cast<std::int64_t>(n_layers))
      return error_at(Code::format, -1, "{}: \"mlp_only_layers\" holds {}, expected layers below {}", fields.where(),
                      formats::json_text(item), n_layers);
    sparse[static_cast<std::size_t>(item.integer())] = false;
  }
  return sparse;
}

}  // namespace

Status read_experts(const FieldReader& fields, const ExpertRules& rules, ModelSpec& spec) {
  if (rules.experts == 0) return Status();
  QINFER_ASSIGN(const std::int64_t experts, read_count(fields, rules));
  if (experts == 0) return Status();  // every layer is dense
  QINFER_ASSIGN(const auto stated_top_k, fields.integer("num_experts_per_tok", 1, kMaxExperts));
  const std::int64_t top_k = stated_top_k.value_or(rules.top_k);
  if (top_k > experts)
    return error_at(Code::format, -1, "{}: \"num_experts_per_tok\" is {}, there are only {} experts", fields.where(),
                    top_k, experts);
  FfnSpec mixture = spec.layers.front().ffn;
  mixture.experts = static_cast<std::uint32_t>(experts);
  mixture.top_k = static_cast<std::uint32_t>(top_k);
  mixture.normalise = true;
  std::vector<bool> sparse(spec.layers.size(), true);
  if (rules.width != 0) {
    QINFER_ASSIGN(const auto width, fields.integer("moe_intermediate_size", 1, kMaxDim));
    QINFER_ASSIGN(const auto normalise, fields.boolean("norm_topk_prob"));
    mixture.width = static_cast<std::uint32_t>(width.value_or(rules.width));
    if (rules.normalises && !normalise.value_or(true))
      return error(Code::unsupported, "{}: \"norm_topk_prob\" is false, only true is supported for this architecture",
                   fields.where());
    mixture.normalise = normalise.value_or(rules.normalises);
    QINFER_ASSIGN(sparse, read_sparse_layers(fields, spec.layers.size()));
  }
  if (rules.shared != 0) {
    QINFER_ASSIGN(const auto shared, fields.integer("shared_expert_intermediate_size", 1, kMaxDim));
    mixture.shared_width = static_cast<std::uint32_t>(shared.value_or(rules.shared));
  }
  std::int64_t all = 0;
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    if (!sparse[i]) continue;
    spec.layers[i].ffn = mixture;
    all += experts;
  }
  if (all > kMaxExpertsOfModel)
    return error(Code::unsupported, "{}: {} experts in all layers together, at most {} are supported", fields.where(),
                 all, kMaxExpertsOfModel);
  return Status();
}

}  // namespace qinfer::source
