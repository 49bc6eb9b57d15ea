// See hf_config.h. Field semantics follow transformers' configuration classes; where versions 4 and 5 spell a field
// differently both are read, and a contradiction between the two is an error.
#include "model/hf_config.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace qinfer::model {
namespace {

using formats::FieldReader;
using formats::find_field;
using formats::Json;

constexpr std::int64_t kMaxDim = 1 << 20;
constexpr std::int64_t kMaxVocab = 1 << 24;
constexpr std::int64_t kMaxContext = 1 << 24;  // the largest contexts published are 10 million tokens
constexpr std::int64_t kMaxLayers = 4096;

/// What distinguishes the architectures: one row each.
struct Architecture {
  std::string_view name;
  bool qkv_bias;        ///< always there (Qwen2), without a field
  bool attention_bias;  ///< the field attention_bias switches q, k, v and o biases
  bool mlp_bias;        ///< the field mlp_bias is read
  bool qk_norm;
  std::int64_t default_head_dim;  ///< if the field is absent; 0 = hidden_size / num_attention_heads
  enum Window { none, all_layers, qwen } window;
};

constexpr Architecture kArchitectures[] = {
    {"Qwen3ForCausalLM", false, true, false, true, 128, Architecture::qwen},
    {"Qwen2ForCausalLM", true, false, false, false, 0, Architecture::qwen},
    {"LlamaForCausalLM", false, true, true, false, 0, Architecture::none},
    {"MistralForCausalLM", false, false, false, false, 0, Architecture::all_layers},
};

/// Fields of other architectures that would change the result: refused unless they have the value that means "off".
struct ForeignField {
  std::string_view name;
  double off;
};
constexpr ForeignField kForeignFields[] = {
    {"partial_rotary_factor", 1}, {"attn_logit_softcapping", 0}, {"final_logit_softcapping", 0},
    {"query_pre_attn_scalar", 0}, {"attention_multiplier", 0},   {"residual_multiplier", 1},
    {"embedding_multiplier", 1},  {"logits_scaling", 1},         {"logit_scale", 1},
    {"num_experts", 0},           {"num_local_experts", 0},      {"num_nextn_predict_layers", 0},
};

Result<const Architecture*> find_architecture(const FieldReader& fields) {
  const Json* list = find_field(fields.object(), "architectures");
  if (list == nullptr) return error_at(Code::format, -1, "{}: the field \"architectures\" is missing", fields.where());
  if (!list->is_array() || list->size() != 1 || !(*list)[0].is_string())
    return error_at(Code::format, -1, "{}: \"architectures\" must be a list of one name", fields.where());
  const std::string name = (*list)[0].get<std::string>();
  for (const Architecture& architecture : kArchitectures)
    if (architecture.name == name) return &architecture;
  return error(Code::unsupported,
               "{}: \"architectures\" names {}, known are Qwen3ForCausalLM, Qwen2ForCausalLM, "
               "LlamaForCausalLM and MistralForCausalLM",
               fields.where(), name);
}

Status refuse_foreign_fields(const FieldReader& fields) {
  if (fields.has("quantization_config"))
    return error(Code::unsupported, "{}: \"quantization_config\": quantized checkpoints are not supported",
                 fields.where());
  for (const ForeignField& field : kForeignFields) {
    QINFER_ASSIGN(const auto value, fields.number(field.name));
    if (value && *value != field.off)
      return error(Code::unsupported, "{}: \"{}\" is {}, only {} is supported for this architecture", fields.where(),
                   field.name, *value, field.off);
  }
  for (const std::string_view key : {"hidden_act", "hidden_activation"}) {
    QINFER_ASSIGN(const auto activation, fields.string(key));
    if (activation && *activation != "silu")
      return error(Code::unsupported, "{}: \"{}\" is \"{}\", only \"silu\" is supported", fields.where(), key,
                   *activation);
  }
  return Status();
}

Status read_sizes(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  const auto u32 = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  QINFER_ASSIGN(const std::int64_t vocab, fields.required_integer("vocab_size", 1, kMaxVocab));
  QINFER_ASSIGN(const std::int64_t hidden, fields.required_integer("hidden_size", 1, kMaxDim));
  QINFER_ASSIGN(const std::int64_t ffn, fields.required_integer("intermediate_size", 1, kMaxDim));
  QINFER_ASSIGN(const std::int64_t layers, fields.required_integer("num_hidden_layers", 1, kMaxLayers));
  QINFER_ASSIGN(const std::int64_t heads, fields.required_integer("num_attention_heads", 1, kMaxDim));
  QINFER_ASSIGN(const auto kv_heads, fields.integer("num_key_value_heads", 1, kMaxDim));
  QINFER_ASSIGN(const auto head_dim, fields.integer("head_dim", 2, 1024));
  QINFER_ASSIGN(const std::int64_t context, fields.required_integer("max_position_embeddings", 1, kMaxContext));
  spec.n_vocab = u32(vocab);
  spec.n_embd = u32(hidden);
  spec.n_ffn = u32(ffn);
  spec.n_heads = u32(heads);
  spec.n_kv_heads = u32(kv_heads.value_or(heads));
  spec.context_tokens = u32(context);
  spec.layers.resize(static_cast<std::size_t>(layers));
  if (heads % spec.n_kv_heads != 0)
    return error_at(Code::format, -1,
                    "{}: \"num_attention_heads\" ({}) must be a multiple of \"num_key_value_heads\" ({})",
                    fields.where(), heads, spec.n_kv_heads);
  if (head_dim || architecture.default_head_dim != 0) {
    spec.head_dim = u32(head_dim.value_or(architecture.default_head_dim));
  } else {
    if (hidden % heads != 0)
      return error_at(
          Code::format, -1,
          "{}: \"hidden_size\" ({}) must be a multiple of \"num_attention_heads\" ({}) where \"head_dim\" is absent",
          fields.where(), hidden, heads);
    spec.head_dim = u32(hidden / heads);
  }
  if (spec.head_dim % 2 != 0 || spec.head_dim > 1024)
    return error(Code::unsupported, "{}: a head of {} dimensions: rotary embedding needs an even number up to 1024",
                 fields.where(), spec.head_dim);
  // With this bound no sum of sizes can overflow 64 bits.
  if (heads * spec.head_dim > kMaxDim)
    return error_at(Code::format, -1, "{}: \"num_attention_heads\" ({}) times \"head_dim\" ({}) is above {}",
                    fields.where(), heads, spec.head_dim, kMaxDim);
  QINFER_ASSIGN(const auto eps, fields.number("rms_norm_eps"));
  if (!eps) return error_at(Code::format, -1, "{}: the field \"rms_norm_eps\" is missing", fields.where());
  if (!(*eps >= 0 && *eps <= 1))
    return error_at(Code::format, -1, "{}: \"rms_norm_eps\" is {}, expected 0 to 1", fields.where(), *eps);
  spec.norm_eps = static_cast<float>(*eps);
  return Status();
}

Status read_biases(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  QINFER_ASSIGN(const auto attention_bias, fields.boolean("attention_bias"));
  QINFER_ASSIGN(const auto mlp_bias, fields.boolean("mlp_bias"));
  const bool attention = attention_bias.value_or(false);
  if (attention && !architecture.attention_bias && !architecture.qkv_bias)
    return error(Code::unsupported, "{}: \"attention_bias\" is true, which {} does not have", fields.where(),
                 architecture.name);
  if (mlp_bias.value_or(false) && !architecture.mlp_bias)
    return error(Code::unsupported, "{}: \"mlp_bias\" is true, which {} does not have", fields.where(),
                 architecture.name);
  spec.qkv_bias = architecture.qkv_bias || attention;
  spec.o_bias = attention && !architecture.qkv_bias;
  spec.mlp_bias = mlp_bias.value_or(false);
  spec.qk_norm = architecture.qk_norm;
  return Status();
}

/// The window of each layer from "layer_types" (version 5), which wins over the older rules.
Status read_layer_types(const FieldReader& fields, const Json& types, std::uint32_t window, ModelSpec& spec) {
  if (!types.is_array() || types.size() != spec.layers.size())
    return error_at(Code::format, -1, "{}: \"layer_types\" must list {} layers", fields.where(), spec.layers.size());
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::string type = types[i].is_string() ? types[i].get<std::string>() : std::string(types[i].type_name());
    if (type == "full_attention") continue;
    if (type != "sliding_attention")
      return error(Code::unsupported,
                   "{}: \"layer_types\" holds \"{}\", known are full_attention and sliding_attention", fields.where(),
                   type);
    if (window == 0)
      return error_at(Code::format, -1, "{}: \"layer_types\" has sliding_attention but \"sliding_window\" is not set",
                      fields.where());
    spec.layers[i].window = window;
  }
  return Status();
}

Status read_windows(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  QINFER_ASSIGN(const auto size, fields.integer("sliding_window", 0, kMaxContext));
  QINFER_ASSIGN(const auto use, fields.boolean("use_sliding_window"));
  QINFER_ASSIGN(const auto first, fields.integer("max_window_layers", 0, kMaxDim));
  std::uint32_t window = static_cast<std::uint32_t>(size.value_or(0));
  if (architecture.window == Architecture::none) {
    if (use.value_or(false))
      return error(Code::unsupported, "{}: \"use_sliding_window\" is true, which {} does not have", fields.where(),
                   architecture.name);
    return Status();
  }
  // Released Qwen2.5 files name a window that use_sliding_window switches off; Mistral has no such switch, and 4096 is
  // what transformers assumes where an (old) Mistral file has no field at all.
  if (architecture.window == Architecture::qwen && !use.value_or(false)) window = 0;
  const bool absent = !fields.object().contains("sliding_window");
  if (absent && (architecture.window == Architecture::all_layers || use.value_or(false))) window = 4096;
  if (const Json* types = find_field(fields.object(), "layer_types"))
    return read_layer_types(fields, *types, window, spec);
  const std::size_t full = architecture.window == Architecture::qwen ? static_cast<std::size_t>(first.value_or(28)) : 0;
  for (std::size_t i = full; i < spec.layers.size(); ++i) spec.layers[i].window = window;
  return Status();
}

/// A positive number of the rope object; `fallback` if it is absent.
Result<double> rope_number(const FieldReader& rope, std::string_view key, std::optional<double> fallback) {
  QINFER_ASSIGN(const auto value, rope.number(key));
  if (!value && !fallback) return error_at(Code::format, -1, "{}: the field \"{}\" is missing", rope.where(), key);
  const double number = value.value_or(fallback.value_or(0));
  if (!(number > 0) || !std::isfinite(number))
    return error_at(Code::format, -1, "{}: \"{}\" is {}, expected a positive number", rope.where(), key, number);
  return number;
}

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

/// A parameter that qinfer does not know would change the angles.
Status refuse_unknown_rope_fields(const FieldReader& rope) {
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
                                         "mscale",
                                         "mscale_all_dim"};
  for (const auto& [key, value] : rope.object().items()) {
    const bool off = value.is_null() || (key == "partial_rotary_factor" && value == 1);
    if (!off && std::find(std::begin(kKnown), std::end(kKnown), key) == std::end(kKnown))
      return error(Code::unsupported, "{}: the field \"{}\" is not known", rope.where(), key);
  }
  return Status();
}

Status read_rope_scaling(const FieldReader& rope, ModelSpec& spec) {
  RopeSpec& out = spec.rope;
  QINFER_TRY(refuse_unknown_rope_fields(rope));
  QINFER_ASSIGN(const auto type, rope.string("rope_type"));
  QINFER_ASSIGN(const auto legacy, rope.string("type"));
  if (type && legacy && *type != *legacy)
    return error_at(Code::format, -1, "{}: \"rope_type\" is \"{}\" but \"type\" is \"{}\"", rope.where(), *type,
                    *legacy);
  const std::string kind = type ? *type : legacy.value_or("default");
  if (kind == "default") return Status();
  if (kind != "linear" && kind != "llama3" && kind != "yarn")
    return error(Code::unsupported, "{}: \"rope_type\" is \"{}\", known are default, linear, llama3 and yarn",
                 rope.where(), kind);
  QINFER_ASSIGN(out.factor, rope_number(rope, "factor", std::nullopt));
  if (kind == "linear") {
    out.scaling = RopeScaling::linear;
    return Status();
  }
  QINFER_ASSIGN(const auto original, rope.integer("original_max_position_embeddings", 1, kMaxContext));
  out.original_context = static_cast<std::uint32_t>(original.value_or(spec.context_tokens));
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

/// Version 4 has rope_theta and rope_scaling, version 5 rope_parameters with both inside.
Status read_rope(const FieldReader& fields, ModelSpec& spec) {
  const Json* scaling = find_field(fields.object(), "rope_scaling");
  const Json* parameters = find_field(fields.object(), "rope_parameters");
  QINFER_ASSIGN(const auto theta, fields.number("rope_theta"));
  for (const Json* object : {scaling, parameters}) {
    if (object != nullptr && !object->is_object())
      return error_at(Code::format, -1, "{}: \"{}\" must be an object", fields.where(),
                      object == scaling ? "rope_scaling" : "rope_parameters");
  }
  if (parameters != nullptr && (parameters->contains("full_attention") || parameters->contains("sliding_attention")))
    return error(Code::unsupported, "{}: \"rope_parameters\" for each kind of attention are not supported",
                 fields.where());
  if (scaling != nullptr && parameters != nullptr && *scaling != *parameters)
    return error_at(Code::format, -1, "{}: \"rope_scaling\" and \"rope_parameters\" contradict each other",
                    fields.where());
  const Json* chosen = parameters != nullptr ? parameters : scaling;
  if (chosen != nullptr) {
    const FieldReader rope(*chosen, fields.where() + (parameters != nullptr ? ": rope_parameters" : ": rope_scaling"));
    QINFER_ASSIGN(const auto inner, rope.number("rope_theta"));
    if (inner && theta && *inner != *theta)
      return error_at(Code::format, -1, "{}: \"rope_theta\" is {} and, in \"rope_parameters\", {}", fields.where(),
                      *theta, *inner);
    QINFER_ASSIGN(spec.rope.theta, rope_number(rope, "rope_theta", theta.value_or(10000.0)));
    return read_rope_scaling(rope, spec);
  }
  QINFER_ASSIGN(spec.rope.theta, rope_number(fields, "rope_theta", 10000.0));
  return Status();
}

/// A token id or a list of them, appended to `ids`; ids beyond the vocabulary are errors. Some files write -1 for
/// "none".
Status read_token_list(const FieldReader& fields, std::string_view key, const Json& value, std::uint32_t n_vocab,
                       std::vector<std::int32_t>& ids) {
  const Json list = value.is_array() ? value : Json::array({value});
  for (const Json& item : list) {
    if (!item.is_number_integer() || item.get<double>() < -1 || item.get<double>() >= n_vocab)
      return error_at(Code::format, -1, "{}: \"{}\" holds {}, expected token ids below {}", fields.where(), key,
                      item.dump(-1, ' ', false, Json::error_handler_t::replace), n_vocab);
    if (item.get<std::int64_t>() >= 0) ids.push_back(item.get<std::int32_t>());
  }
  return Status();
}

Status read_tokens(const FieldReader& fields, ModelSpec& spec) {
  if (const Json* value = find_field(fields.object(), "bos_token_id")) {
    std::vector<std::int32_t> ids;
    QINFER_TRY(read_token_list(fields, "bos_token_id", *value, spec.n_vocab, ids));
    spec.bos_token = ids.empty() ? -1 : ids.front();
  }
  if (const Json* value = find_field(fields.object(), "eos_token_id")) {
    spec.end_tokens.clear();
    QINFER_TRY(read_token_list(fields, "eos_token_id", *value, spec.n_vocab, spec.end_tokens));
  }
  return Status();
}

}  // namespace

Result<ParsedConfig> parse_hf_config(const formats::Json& config, std::string_view name) {
  if (!config.is_object()) return error_at(Code::format, 0, "{}: expected a JSON object", name);
  const FieldReader fields(config, std::string(name));
  QINFER_ASSIGN(const Architecture* architecture, find_architecture(fields));
  ParsedConfig parsed;
  ModelSpec& spec = parsed.spec;
  spec.architecture = architecture->name;
  QINFER_TRY(refuse_foreign_fields(fields));
  QINFER_TRY(read_sizes(fields, *architecture, spec));
  QINFER_TRY(read_biases(fields, *architecture, spec));
  QINFER_TRY(read_windows(fields, *architecture, spec));
  QINFER_TRY(read_rope(fields, spec));
  QINFER_TRY(read_tokens(fields, spec));
  QINFER_ASSIGN(const auto tied, fields.boolean("tie_word_embeddings"));
  if (tied) parsed.tied = *tied ? Tied::yes : Tied::no;
  QINFER_ASSIGN(auto label, fields.string("_name_or_path"));
  if (label) spec.name = std::move(*label);
  return parsed;
}

Status apply_generation_config(const formats::Json& config, std::string_view name, ModelSpec& spec) {
  if (!config.is_object()) return error_at(Code::format, 0, "{}: expected a JSON object", name);
  return read_tokens(FieldReader(config, std::string(name)), spec);
}

}  // namespace qinfer::model
