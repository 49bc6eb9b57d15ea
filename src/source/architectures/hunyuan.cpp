// Hunyuan, the dense models: a Llama that normalises queries and keys after they were turned, and stretches the base of
// the rotary embedding by a fixed alpha.
#include <cmath>

#include "source/architectures/rows.h"
#include "source/gguf_keys.h"
#include "source/hf_rope.h"

namespace qinfer::source {
namespace {

using formats::FieldReader;
using model::ModelSpec;

/// Fields that released files have and transformers does not read.
Status read_hunyuan(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  constexpr struct {
    std::string_view name;
    bool value;
  } kFixed[] = {{"use_qk_norm", true}, {"use_cla", false}};
  for (const auto& field : kFixed) {
    QINFER_ASSIGN(const auto stated, fields.boolean(field.name));
    if (stated.value_or(field.value) != field.value)
      return error(Code::unsupported, "{}: \"{}\" is {}, only {} is supported", fields.where(), field.name, *stated,
                   field.value);
  }
  spec.each_attention([](model::AttentionSpec& layer) { layer.rules.norm_after_rope = true; });
  return Status();
}

constexpr std::string_view kRopeFields[] = {"alpha"};

/// NTK-aware scaling by a fixed alpha: the base is another one.
Result<bool> read_alpha(const FieldReader& rope, std::string_view kind, model::RopeSpec& out) {
  if (kind != "dynamic" || !rope.has("alpha")) return false;
  QINFER_ASSIGN(const double alpha, rope_number(rope, "alpha", std::nullopt));
  const double dims = out.rotary_dims != 0 ? out.rotary_dims : out.head_dim;
  if (dims <= 2)
    return error(Code::unsupported, "{}: \"alpha\" with heads of {} dimensions, expected more than 2", rope.where(),
                 dims);
  out.theta *= std::pow(alpha, dims / (dims - 2));
  if (!std::isfinite(out.theta))
    return error_at(Code::format, -1, "{}: \"alpha\" is {}: the base would be beyond any number", rope.where(), alpha);
  return true;
}

std::string hunyuan_name(const model::TensorId& id) {
  if (id.role == model::Role::q_norm) return "self_attn.query_layernorm.weight";
  if (id.role == model::Role::k_norm) return "self_attn.key_layernorm.weight";
  return {};
}

}  // namespace

constexpr Architecture kHunyuan{.name = "HunYuanDenseV1ForCausalLM",
                                .attention_bias = true,
                                .qk_norm = model::QkNorm::heads,
                                .rope = {.own_fields = kRopeFields, .read_own = read_alpha},
                                .default_bos = 1,
                                .default_end = 2,
                                .read_own = read_hunyuan,
                                .tensor_name = hunyuan_name};

namespace {

/// Its files have the stretched base, and say that nothing else is scaled.
void write_hunyuan_keys(const ModelSpec& spec, GgufKeys& keys) {
  if (spec.ropes.front().scaling != model::RopeScaling::none) return;
  keys.text("rope.scaling.type", "none");
  keys.f32("rope.scaling.factor", 1);
}

}  // namespace

constexpr GgufArchitecture kGgufHunyuan{
    .name = "hunyuan-dense", .hugging_face = "HunYuanDenseV1ForCausalLM", .write_own = write_hunyuan_keys};

}  // namespace qinfer::source
