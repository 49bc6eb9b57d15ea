// Granite: a Llama whose embeddings, scores, residuals and logits have factors of their own. The dense models of
// Granite 4 are "hybrid" ones without recurrent layers and experts, whose network is what these call the shared one.
#include <cmath>

#include "source/architectures/rows.h"
#include "source/gguf_fields.h"
#include "source/gguf_keys.h"

namespace qinfer::source {
namespace {

using formats::FieldReader;
using formats::Json;
using model::AttentionSpec;
using model::LayerSpec;
using model::ModelSpec;

constexpr OwnName kGraniteFields[] = {
    {"attention_multiplier", 0}, {"residual_multiplier", 1}, {"embedding_multiplier", 1}, {"logits_scaling", 1}};
// Those of recurrent layers are there, and mean nothing, where no layer is one.
constexpr OwnName kGraniteKeys[] = {
    "attention.scale", "embedding_scale", "residual_scale",  "logit_scale",    "expert_shared_feed_forward_length",
    "ssm.conv_kernel", "ssm.state_size",  "ssm.group_count", "ssm.inner_size", "ssm.time_step_rank"};

/// A factor that is 1 where the field is absent.
Result<double> read_multiplier(const FieldReader& fields, std::string_view key) {
  const Json* stated = fields.object().find(key);
  if (stated == nullptr) return 1.0;
  QINFER_ASSIGN(const auto value, fields.number(key));
  if (!value || !(*value >= 1e-6 && *value <= 1e6))
    return error_at(Code::format, -1, "{}: \"{}\" is {}, expected 1e-6 to 1e6, or no field", fields.where(), key,
                    formats::json_text(*stated));
  return *value;
}

/// Granite's, of which logits_scaling is what logits are divided by: they are multiplied by its inverse, rounded to
/// f32.
Status read_multipliers(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  QINFER_ASSIGN(const double embedding, read_multiplier(fields, "embedding_multiplier"));
  QINFER_ASSIGN(const double attention, read_multiplier(fields, "attention_multiplier"));
  QINFER_ASSIGN(const double residual, read_multiplier(fields, "residual_multiplier"));
  QINFER_ASSIGN(const double logits, read_multiplier(fields, "logits_scaling"));
  spec.embedding_scale = static_cast<float>(embedding);
  spec.each_attention([&](AttentionSpec& layer) { layer.scale = static_cast<float>(attention); });
  for (LayerSpec& layer : spec.layers) layer.residual_scale = static_cast<float>(residual);
  spec.logit_scale = static_cast<float>(1.0 / logits);
  return Status();
}

/// A dense model of Granite 4 states the width of its network as that of the shared one. What llama.cpp takes for
/// whether there are rotary embeddings is the key rope.scaling.finetuned.
Status read_dense_hybrid(GgufFields& fields) {
  QINFER_ASSIGN(const auto width, fields.integer("expert_shared_feed_forward_length", 0, kMaxDim));
  QINFER_ASSIGN(const auto turned, fields.metadata().boolean(fields.key("rope.scaling.finetuned")));
  if (width.value_or(0) == 0 && turned.value_or(true)) return Status();
  fields.set_hugging_face("GraniteMoeHybridForCausalLM");
  fields.add("num_local_experts", std::int64_t{0});
  fields.add("shared_intermediate_size", width.value_or(0) != 0 ? *width : fields.ffn);
  const std::vector<std::string_view> types(static_cast<std::size_t>(fields.n_layers), "attention");
  fields.add_list("layer_types", types);
  fields.add_text("position_embedding_type", turned.value_or(true) ? "rope" : "nope");
  return Status();
}

Status read_granite_keys(GgufFields& fields) {
  constexpr std::string_view kNames[][2] = {{"attention.scale", "attention_multiplier"},
                                            {"embedding_scale", "embedding_multiplier"},
                                            {"residual_scale", "residual_multiplier"},
                                            {"logit_scale", "logits_scaling"}};
  for (const auto& [name, field] : kNames) {
    QINFER_ASSIGN(const auto value, fields.number(name, 0, 1e6));
    if (value.value_or(0) != 0) fields.add(field, *value);
    // Without the key scores are divided by the root of the dimensions.
    if (value.value_or(0) == 0 && name == "attention.scale")
      fields.add(field, 1 / std::sqrt(static_cast<double>(fields.head_dim)));
    if (!value && name == "logit_scale") return fields.missing(name);
  }
  return read_dense_hybrid(fields);
}

void write_granite_keys(const ModelSpec& spec, GgufKeys& keys) {
  const AttentionSpec attention = spec.largest_attention();
  if (attention.scale != 0) keys.f32("attention.scale", attention.scale);
  keys.f32("embedding_scale", spec.embedding_scale);
  keys.f32("residual_scale", spec.layers.front().residual_scale);
  keys.f32("logit_scale", 1.0 / static_cast<double>(spec.logit_scale));
  keys.boolean("rope.scaling.finetuned", !attention.no_rope);
}

}  // namespace

constexpr Architecture kGranite{.name = "GraniteForCausalLM",
                                .attention_bias = true,
                                .mlp_bias = true,
                                .own_fields = kGraniteFields,
                                .read_own = read_multipliers};

namespace {

constexpr OwnName kHybridFields[] = {"attention_multiplier", "residual_multiplier", "embedding_multiplier",
                                     "logits_scaling", "num_local_experts"};

/// Layers must have attention and no experts; transformers assumes eight where the field is absent, and recurrent
/// layers where layer_types is.
Status check_dense(const FieldReader& fields, const ModelSpec& spec) {
  constexpr std::int64_t kUsualExperts = 8;
  QINFER_ASSIGN(const auto experts, fields.integer("num_local_experts", 0, kMaxDim));
  if (experts.value_or(kUsualExperts) != 0)
    return error(Code::unsupported,
                 "{}: \"num_local_experts\" is {}, of this architecture only models without experts "
                 "are supported (0)",
                 fields.where(), experts.value_or(kUsualExperts));
  const Json* types = formats::find_field(fields.object(), "layer_types");
  if (types == nullptr || !types->is_array() || types->size() != spec.layers.size())
    return error_at(Code::format, -1, "{}: \"layer_types\" must list {} layers", fields.where(), spec.layers.size());
  for (const Json& item : *types)
    if (item.text() != "attention" && item.text() != "full_attention")
      return error(Code::unsupported,
                   "{}: \"layer_types\" holds {}, of this architecture only layers of \"attention\" are "
                   "supported",
                   fields.where(), formats::json_text(item));
  return Status();
}

Status read_hybrid(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  constexpr std::int64_t kUsualWidth = 1024;
  QINFER_TRY(check_dense(fields, spec));
  QINFER_ASSIGN(const auto width, fields.integer("shared_intermediate_size", 1, kMaxDim));
  for (LayerSpec& layer : spec.layers) layer.ffn.width = static_cast<std::uint32_t>(width.value_or(kUsualWidth));
  QINFER_ASSIGN(const auto positions, fields.string("position_embedding_type"));
  if (positions && *positions != "rope" && *positions != "nope")
    return error(Code::unsupported, "{}: \"position_embedding_type\" is \"{}\", known are rope and nope",
                 fields.where(), *positions);
  spec.each_attention([&](AttentionSpec& layer) { layer.no_rope = positions != "rope"; });
  return read_multipliers(fields, architecture, spec);
}

/// What layers are was read before.
Status ignore_windows(const FieldReader&, const Architecture&, ModelSpec&) { return Status(); }

std::string hybrid_name(const model::TensorId& id) {
  return id.role == model::Role::down ? "shared_mlp.output_linear.weight" : std::string();
}

std::optional<HfPart> hybrid_part(const ModelSpec& spec, const model::TensorId& id, const std::string& layer) {
  if (id.role != model::Role::gate && id.role != model::Role::up) return std::nullopt;
  const std::uint64_t width = spec.layers[id.layer].ffn.width;
  const std::uint64_t first = id.role == model::Role::up ? width : 0;
  return HfPart{layer + "shared_mlp.input_linear.weight", {2 * width, spec.n_embd}, first, width};
}

constexpr std::string_view kGraniteAlso[] = {"GraniteMoeHybridForCausalLM"};

}  // namespace

constexpr Architecture kGraniteHybrid{.name = "GraniteMoeHybridForCausalLM",
                                      .attention_bias = true,
                                      .default_bos = 1,
                                      .default_end = 2,
                                      .own_fields = kHybridFields,
                                      .read_own = read_hybrid,
                                      .read_windows = ignore_windows,
                                      .tensor_name = hybrid_name,
                                      .part = hybrid_part};

constexpr GgufArchitecture kGgufGranite{.name = "granite",
                                        .hugging_face = "GraniteForCausalLM",
                                        .also = kGraniteAlso,
                                        .interleaved = true,
                                        .own_keys = kGraniteKeys,
                                        .read_own = read_granite_keys,
                                        .write_own = write_granite_keys};

}  // namespace qinfer::source
