// See hf_rope.h. The meaning of each field is that of transformers' modeling_rope_utils.
#include "source/hf_rope.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

namespace qinfer::source {
namespace {

using formats::FieldReader;
using formats::find_field;
using formats::Json;
using model::LayerSpec;
using model::ModelSpec;
using model::RopeScaling;
using model::RopeSpec;

/// Peng et al. 2023 (YaRN), section 3.4, and its generalisation by DeepSeek-V2 with mscale and mscale_all_dim.
Result<double> yarn_attention_factor(const FieldReader& rope, double factor) {
  QINFER_ASSIGN(const auto stated, rope.number("attention_factor"));
  if (stated) return rope_number(rope, "attention_factor", std::nullopt);
  const auto scale = [factor](double m) { return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1.0; };
  QINFER_ASSIGN(const auto mscale, rope.number("mscale"));
  QINFER_ASSIGN(const auto mscale_all, rope.number("mscale_all_dim"));
  if (mscale.value_or(0) != 0 && mscale_all.value_or(0) != 0) return scale(*mscale) / scale(*mscale_all);
  return scale(1.0);
}

/// A parameter that qinfer does not know would change the angles. The caller has read partial_rotary_factor where its
/// architecture has it.
Status refuse_unknown_rope_fields(const FieldReader& rope, const RopeRules& rules, bool is_longrope) {
  constexpr std::string_view kKnown[] = {"rope_type",
                                         "type",
                                         "rope_theta",
                                         "factor",
                                         "low_freq_factor",
                                         "high_freq_factor",
                                         "original_max_position_embeddings",
                                         "beta_fast",
                                         "beta_slow",
                                         "attention_factor",
                                         "truncate",
                                         "divisors",
                                         "mscale",
                                         "mscale_all_dim"};
  for (const Json& value : rope.object()) {
    const bool is_partial = value.key() == "partial_rotary_factor" && value.is_number();
    const bool is_factor = value.key() == "short_factor" || value.key() == "long_factor";
    const auto own = rules.own_fields;
    const bool is_own = std::find(own.begin(), own.end(), value.key()) != own.end();
    const bool off = value.is_null() || is_own || (is_factor && is_longrope) ||
                     (is_partial && (rules.partial || value.number() == 1));
    if (!off && std::find(std::begin(kKnown), std::end(kKnown), value.key()) == std::end(kKnown))
      return error(Code::unsupported, "{}: the field \"{}\" is not known", rope.where(), value.key());
  }
  return Status();
}

/// A list of a number for each frequency.
Status read_divisors(const FieldReader& rope, std::string_view key, const RopeSpec& of, std::vector<float>& out) {
  const std::uint32_t count = (of.rotary_dims != 0 ? of.rotary_dims : of.head_dim) / 2;
  const Json* list = find_field(rope.object(), key);
  if (list == nullptr || !list->is_array() || list->size() != count)
    return error_at(Code::format, -1, "{}: \"{}\" must be a list of {} numbers", rope.where(), key, count);
  for (const Json& item : *list) {
    const auto divisor = static_cast<float>(item.is_number() ? item.number() : 0);
    if (!(divisor > 0) || !std::isfinite(divisor))
      return error_at(Code::format, -1, "{}: \"{}\" holds {}, expected positive numbers", rope.where(), key,
                      formats::json_text(item));
    out.push_back(divisor);
  }
  return Status();
}

/// The context before scaling. Phi-3 has the field outside of the object too.
Status read_original_context(const FieldReader& fields, const FieldReader& rope, const RopeRules& rules,
                             std::uint32_t context_tokens, RopeSpec& out) {
  constexpr std::string_view kName = "original_max_position_embeddings";
  QINFER_ASSIGN(auto original, rope.integer(kName, 1, kMaxContext));
  if (rules.longrope) {
    constexpr std::int64_t kUsual = 4096;
    QINFER_ASSIGN(const auto outer, fields.integer(kName, 1, kMaxContext));
    if (outer && original && *outer != *original)
      return error_at(Code::format, -1, "{}: \"{}\" is {}, but {} outside", rope.where(), kName, *original, *outer);
    original = outer ? *outer : original.value_or(kUsual);
  }
  out.original_context = static_cast<std::uint32_t>(original.value_or(context_tokens));
  return Status();
}

/// Ding et al. 2024; the attention factor, where it is not stated, follows from how much longer the context is.
Status read_longrope(const FieldReader& rope, std::uint32_t context_tokens, RopeSpec& out) {
  out.scaling = RopeScaling::longrope;
  QINFER_TRY(read_divisors(rope, "short_factor", out, out.divisors));
  QINFER_TRY(read_divisors(rope, "long_factor", out, out.long_divisors));
  const double original = out.original_context, longer = context_tokens / original;
  QINFER_ASSIGN(const auto factor, rope.number("factor"));
  if (factor && *factor != longer)
    return error(Code::unsupported,
                 "{}: \"factor\" is {}, and the context {} times as long as before scaling: versions of transformers "
                 "take one or the other",
                 rope.where(), *factor, longer);
  if (longer > 1 && out.original_context < 2)
    return error_at(Code::format, -1, "{}: \"original_max_position_embeddings\" is {}, expected at least 2",
                    rope.where(), out.original_context);
  const double usual = longer <= 1 ? 1.0 : std::sqrt(1 + std::log(longer) / std::log(original));
  QINFER_ASSIGN(const double attention, rope_number(rope, "attention_factor", usual));
  out.attention_factor = static_cast<double>(static_cast<float>(attention));  // as GGUF files have it
  out.long_context = context_tokens > out.original_context;
  return Status();
}

Status read_rope_scaling(const FieldReader& fields, const FieldReader& rope, const RopeRules& rules,
                         std::uint32_t context_tokens, RopeSpec& out) {
  QINFER_ASSIGN(auto type, rope.string("rope_type"));
  QINFER_ASSIGN(auto legacy, rope.string("type"));
  for (auto* name : {&type, &legacy})
    if (*name && !rules.default_alias.empty() && **name == rules.default_alias) *name = "default";
  if (type && legacy && *type != *legacy)
    return error_at(Code::format, -1, "{}: \"rope_type\" is \"{}\" but \"type\" is \"{}\"", rope.where(), *type,
                    *legacy);
  const std::string kind = type ? *type : legacy.value_or("default");
  const bool is_longrope = kind == "longrope" || (rules.longrope && (kind == "su" || kind == "yarn"));
  if (rules.longrope && kind != "default" && !is_longrope)
    return error(Code::unsupported, "{}: \"rope_type\" is \"{}\", known for this architecture are default and longrope",
                 rope.where(), kind);
  QINFER_TRY(refuse_unknown_rope_fields(rope, rules, is_longrope));
  if (kind == "default") return Status();
  if (kind == "divisors") {
    out.scaling = RopeScaling::divisors;
    return read_divisors(rope, "divisors", out, out.divisors);
  }
  if (rules.read_own != nullptr) {
    QINFER_ASSIGN(const bool read, rules.read_own(rope, kind, out));
    if (read) return Status();
  }
  // NTK-aware scaling: the base depends on the length of a sequence, but is the stated one up to
  // max_position_embeddings, beyond which no session goes.
  if (kind == "dynamic") return rope_number(rope, "factor", std::nullopt).take_status();
  if (!is_longrope && kind != "linear" && kind != "llama3" && kind != "yarn")
    return error(Code::unsupported,
                 "{}: \"rope_type\" is \"{}\", known are default, linear, dynamic, llama3, longrope and yarn",
                 rope.where(), kind);
  QINFER_TRY(read_original_context(fields, rope, rules, context_tokens, out));
  if (is_longrope) return read_longrope(rope, context_tokens, out);
  QINFER_ASSIGN(out.factor, rope_number(rope, "factor", std::nullopt));
  if (kind == "linear") {
    out.scaling = RopeScaling::linear;
    out.original_context = 0;
    return Status();
  }
  if (kind == "llama3") {
    out.scaling = RopeScaling::llama3;
    QINFER_ASSIGN(out.low_freq_factor, rope_number(rope, "low_freq_factor", std::nullopt));
    QINFER_ASSIGN(out.high_freq_factor, rope_number(rope, "high_freq_factor", std::nullopt));
    if (out.high_freq_factor <= out.low_freq_factor)
      return error_at(Code::format, -1, "{}: \"high_freq_factor\" must be above \"low_freq_factor\"", rope.where());
    return Status();
  }
  out.scaling = RopeScaling::yarn;
  QINFER_ASSIGN(out.beta_fast, rope_number(rope, "beta_fast", 32.0));
  QINFER_ASSIGN(out.beta_slow, rope_number(rope, "beta_slow", 1.0));
  QINFER_ASSIGN(const auto truncate, rope.boolean("truncate"));
  out.truncate = truncate.value_or(true);
  QINFER_ASSIGN(out.attention_factor, yarn_attention_factor(rope, out.factor));
  return Status();
}

/// rope_scaling and rope_parameters, where they are; one that is not an object is an error.
struct RopeObjects {
  const Json *scaling = nullptr, *parameters = nullptr;
};

Result<RopeObjects> find_rope_objects(const FieldReader& fields) {
  const RopeObjects found{find_field(fields.object(), "rope_scaling"), find_field(fields.object(), "rope_parameters")};
  for (const Json* object : {found.scaling, found.parameters}) {
    if (object != nullptr && !object->is_object())
      return error_at(Code::format, -1, "{}: \"{}\" must be an object", fields.where(),
                      object == found.scaling ? "rope_scaling" : "rope_parameters");
  }
  return found;
}

bool is_by_layer_type(const Json& parameters) {
  return parameters.find("full_attention") != nullptr || parameters.find("sliding_attention") != nullptr;
}

/// How many dimensions of a head are turned: partial_rotary_factor, which may be inside of `object`, or null, or
/// outside.
Status read_rotary_dims(const FieldReader& fields, const Json* object, std::uint32_t head_dim, RopeSpec& out) {
  constexpr std::string_view kName = "partial_rotary_factor";
  QINFER_ASSIGN(auto factor, fields.number(kName));
  if (object != nullptr) {
    QINFER_ASSIGN(const auto inner, FieldReader(*object, fields.where()).number(kName));
    if (inner && factor && *inner != *factor)
      return error_at(Code::format, -1, "{}: \"{}\" is {} and, in the object of the rotary embedding, {}",
                      fields.where(), kName, *factor, *inner);
    if (inner) factor = inner;
  }
  if (!factor || *factor == 1) return Status();
  if (!(*factor > 0 && *factor < 1))
    return error_at(Code::format, -1, "{}: \"{}\" is {}, expected a number above 0 and at most 1", fields.where(),
                    kName, *factor);
  const auto dims = static_cast<std::uint32_t>(head_dim * *factor);
  if (dims == 0 || dims % 2 != 0)
    return error(Code::unsupported,
                 "{}: \"{}\" is {}: {} of the {} dimensions of a head would be turned, expected an even number",
                 fields.where(), kName, *factor, dims, head_dim);
  out.rotary_dims = dims;
  return Status();
}

/// One embedding out of its object; the base may be outside, and must not be another there.
Status read_rope_object(const FieldReader& fields, const Json& object, std::string where, const RopeRules& rules,
                        std::optional<double> theta, const ModelSpec& spec, RopeSpec& out) {
  const FieldReader rope(object, std::move(where));
  QINFER_ASSIGN(const auto inner, rope.number("rope_theta"));
  if (inner && theta && *inner != *theta)
    return error_at(Code::format, -1, "{}: \"rope_theta\" is {}, but {} outside", rope.where(), *inner, *theta);
  QINFER_ASSIGN(out.theta, rope_number(rope, "rope_theta", theta.value_or(rules.default_theta)));
  return read_rope_scaling(fields, rope, rules, spec.context_tokens, out);
}

}  // namespace

Result<double> rope_number(const FieldReader& rope, std::string_view key, std::optional<double> fallback) {
  QINFER_ASSIGN(const auto value, rope.number(key));
  if (!value && !fallback) return error_at(Code::format, -1, "{}: the field \"{}\" is missing", rope.where(), key);
  const double number = value.value_or(fallback.value_or(0));
  if (!(number > 0) || !std::isfinite(number))
    return error_at(Code::format, -1, "{}: \"{}\" is {}, expected a positive number", rope.where(), key, number);
  return number;
}

Status read_rope(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  const RopeRules& rules = architecture.rope;
  QINFER_ASSIGN(const RopeObjects objects, find_rope_objects(fields));
  QINFER_ASSIGN(const auto theta, fields.number("rope_theta"));
  if (objects.parameters != nullptr && is_by_layer_type(*objects.parameters))
    return error(Code::unsupported, "{}: \"rope_parameters\" for each kind of attention are not supported for {}",
                 fields.where(), spec.architecture);
  if (objects.scaling != nullptr && objects.parameters != nullptr &&
      !formats::same_value(*objects.scaling, *objects.parameters))
    return error_at(Code::format, -1, "{}: \"rope_scaling\" and \"rope_parameters\" contradict each other",
                    fields.where());
  RopeSpec& out = spec.ropes.emplace_back();
  out.head_dim = spec.largest_attention().head_dim;
  const Json* object = objects.parameters != nullptr ? objects.parameters : objects.scaling;
  if (rules.partial) QINFER_TRY(read_rotary_dims(fields, object, out.head_dim, out));
  if (object != nullptr) {
    const char* name = objects.parameters != nullptr ? ": rope_parameters" : ": rope_scaling";
    return read_rope_object(fields, *object, fields.where() + name, rules, theta, spec, out);
  }
  QINFER_ASSIGN(out.theta, rope_number(fields, "rope_theta", rules.default_theta));
  return Status();
}

Status read_ropes_by_layer_type(const FieldReader& fields, const Architecture& architecture, const RopeBases& bases,
                                ModelSpec& spec) {
  QINFER_ASSIGN(const RopeObjects objects, find_rope_objects(fields));
  if (objects.parameters != nullptr && objects.scaling != nullptr)
    return error_at(Code::format, -1, "{}: \"rope_scaling\" and \"rope_parameters\" are both there", fields.where());
  if (objects.parameters != nullptr && !is_by_layer_type(*objects.parameters))
    return error_at(Code::format, -1, "{}: \"rope_parameters\" must have \"full_attention\" and \"sliding_attention\"",
                    fields.where());
  const struct {
    std::string_view type, theta;
    double base;
  } kinds[] = {{"full_attention", "rope_theta", bases.full},
               {"sliding_attention", "rope_local_base_freq", bases.local}};
  for (const auto& kind : kinds) {
    RopeSpec& out = spec.ropes.emplace_back();
    out.head_dim = spec.largest_attention().head_dim;
    QINFER_ASSIGN(const double base, rope_number(fields, kind.theta, kind.base));
    const bool is_full = spec.ropes.size() == 1;
    const Json* object = objects.parameters != nullptr ? find_field(*objects.parameters, kind.type)
                         : is_full                     ? objects.scaling
                                                       : nullptr;
    out.theta = base;
    if (object == nullptr) continue;
    std::string where = fields.where();
    where.append(": ").append(objects.parameters != nullptr ? kind.type : "rope_scaling");
    if (!object->is_object()) return error_at(Code::format, -1, "{} must be an object", where);
    const FieldReader rope(*object, std::move(where));
    QINFER_ASSIGN(out.theta, rope_number(rope, "rope_theta", base));
    QINFER_TRY(read_rope_scaling(fields, rope, architecture.rope, spec.context_tokens, out));
  }
  spec.each_attention([](model::AttentionSpec& layer) { layer.rope = layer.window != 0 ? 1 : 0; });
  return Status();
}

}  // namespace qinfer::source
