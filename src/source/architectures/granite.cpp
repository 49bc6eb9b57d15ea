// Granite: a Llama whose embeddings, scores, residuals and logits have factors of their own.
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

constexpr std::string_view kGraniteFields[] = {"attention_multiplier", "residual_multiplier", "embedding_multiplier",
                                               "logits_scaling"};
constexpr std::string_view kGraniteKeys[] = {"attention.scale", "embedding_scale", "residual_scale", "logit_scale"};

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
  return Status();
}

void write_granite_keys(const ModelSpec& spec, GgufKeys& keys) {
  const AttentionSpec attention = spec.largest_attention();
  if (attention.scale != 0) keys.f32("attention.scale", attention.scale);
  keys.f32("embedding_scale", spec.embedding_scale);
  keys.f32("residual_scale", spec.layers.front().residual_scale);
  keys.f32("logit_scale", 1.0 / static_cast<double>(spec.logit_scale));
}

}  // namespace

constexpr Architecture kGranite{.name = "GraniteForCausalLM",
                                .attention_bias = true,
                                .mlp_bias = true,
                                .own_fields = kGraniteFields,
                                .read_own = read_multipliers};

constexpr GgufArchitecture kGgufGranite{.name = "granite",
                                        .hugging_face = "GraniteForCausalLM",
                                        .interleaved = true,
                                        .own_keys = kGraniteKeys,
                                        .read_own = read_granite_keys,
                                        .write_own = write_granite_keys};

}  // namespace qinfer::source
