// See hf_config.h. Field semantics follow transformers' configuration classes; where versions 4 and 5 spell a field
// differently both are read, and a contradiction between the two is an error.
#include "source/hf_config.h"

#include <cmath>
#include <optional>

#include "source/hf_rope.h"

namespace qinfer::source {
namespace {

using formats::FieldReader;
using formats::find_field;
using formats::Json;
using model::LayerSpec;
using model::ModelSpec;
using model::NormPlaces;

constexpr std::int64_t kMaxDim = 1 << 20;
constexpr std::int64_t kMaxVocab = 1 << 24;
constexpr std::int64_t kMaxLayers = 4096;

/// Which layers have a sliding window where "layer_types" does not say so.
enum class Windows : std::uint8_t {
  none,
  all_layers,
  as_stated,     ///< all layers, or none where the field is absent
  qwen,          ///< those from max_window_layers on, if use_sliding_window
  without_rope,  ///< those without rotary embedding, if use_sliding_window
  pattern        ///< all but each n-th
};

/// A soft cap that config.json may state; 0 = off.
struct CapField {
  bool known = false;   ///< the architecture has the field
  double fallback = 0;  ///< where it is absent
};

/// What distinguishes the architectures: one row each, in which a member that is left out means "as most have it".
struct Architecture {
  std::string_view name;
  bool qkv_bias = false;              ///< always there, without a field
  bool attention_bias = false;        ///< the field attention_bias switches q, k, v and o biases
  bool mlp_bias = false;              ///< the field mlp_bias is read
  bool qk_norm = false;               ///< RMSNorm of each query and key head
  bool qk_norm_whole = false;         ///< with qk_norm: of all query heads together, and of all key heads
  bool needs_kv_heads = false;        ///< num_key_value_heads must be there
  std::int64_t default_kv_heads = 0;  ///< if the field is absent; 0, or the field is null: num_attention_heads
  std::int64_t default_head_dim = 0;  ///< if the field is absent; 0 = hidden_size / num_attention_heads
  Windows windows = Windows::none;
  std::int64_t full_layer_every = 0;  ///< Windows::pattern: each n-th layer sees everything
  bool pattern_field = false;         ///< n may be stated by the field sliding_window_pattern
  bool causal = true;
  bool ropes_by_layer_type = false;  ///< another embedding for layers with a window
  bool rope_by_layer = false;        ///< no_rope_layers and no_rope_layer_interval say which layers have none
  RopeRules rope = {};
  std::string_view activation_name = "silu";
  Activation activation = Activation::silu;
  NormPlaces norms = {};
  bool norms_add_one = false;     ///< the weights of norms are stored less one
  bool scaled_embedding = false;  ///< by sqrt(hidden_size)
  bool multipliers = false;       ///< it has embedding_multiplier, attention_multiplier and so on, 1 by default
  double query_scalar = 0;        ///< default of query_pre_attn_scalar; 0: it has no such field
  CapField attention_cap = {}, logit_cap = {};
  std::int32_t default_bos = -1, default_end = -1;
  bool tied_by_default = false;
  bool fused_projections = false;  ///< one tensor holds q, k and v, and one gate and up
  /// The tokenizer names tokens, for images, that the embedding has no rows for.
  bool names_tokens_beyond = false;
};

constexpr NormPlaces kBeforeAndAfter{true, true, true, true}, kAfter{false, true, false, true};

constexpr Architecture kGemma2{.name = "Gemma2ForCausalLM",
                               .attention_bias = true,
                               .needs_kv_heads = true,
                               .default_head_dim = 256,
                               .windows = Windows::pattern,
                               .full_layer_every = 2,
                               .activation_name = "gelu_pytorch_tanh",
                               .activation = Activation::gelu_tanh,
                               .norms = kBeforeAndAfter,
                               .norms_add_one = true,
                               .scaled_embedding = true,
                               .query_scalar = 256,
                               .attention_cap = {true, 50},
                               .logit_cap = {true, 30},
                               .default_bos = 2,
                               .default_end = 1,
                               .tied_by_default = true};

constexpr Architecture gemma3(std::string_view name, bool causal) {
  Architecture row = kGemma2;
  row.name = name;
  row.causal = causal;
  row.qk_norm = true;
  row.full_layer_every = 6;
  row.pattern_field = true;
  row.ropes_by_layer_type = true;
  row.attention_cap = {};
  row.logit_cap = {true, 0};
  row.names_tokens_beyond = true;
  return row;
}

constexpr Architecture kArchitectures[] = {
    {.name = "Qwen3ForCausalLM",
     .attention_bias = true,
     .qk_norm = true,
     .default_head_dim = 128,
     .windows = Windows::qwen},
    {.name = "Qwen2ForCausalLM", .qkv_bias = true, .windows = Windows::qwen},
    {.name = "LlamaForCausalLM", .attention_bias = true, .mlp_bias = true},
    {.name = "MistralForCausalLM", .windows = Windows::all_layers},
    {.name = "Phi3ForCausalLM",
     .windows = Windows::as_stated,
     .rope = {.partial = true, .default_only = true},
     .fused_projections = true},
    {.name = "SmolLM3ForCausalLM",
     .attention_bias = true,
     .mlp_bias = true,
     .default_kv_heads = 4,
     .windows = Windows::without_rope,
     .rope_by_layer = true,
     .rope = {.default_theta = 2e6},
     .tied_by_default = true},
    {.name = "GraniteForCausalLM", .attention_bias = true, .mlp_bias = true, .multipliers = true},
    {.name = "Olmo2ForCausalLM", .attention_bias = true, .qk_norm = true, .qk_norm_whole = true, .norms = kAfter},
    kGemma2,
    gemma3("Gemma3ForCausalLM", true),
    gemma3("Gemma3TextModel", false),
};

/// Fields of other architectures that would change the result: refused unless they have the value that means "off".
struct ForeignField {
  std::string_view name;
  double off;
  bool (*known)(const Architecture& architecture) = nullptr;  ///< to those that have it
};
constexpr bool has_multipliers(const Architecture& architecture) { return architecture.multipliers; }
constexpr ForeignField kForeignFields[] = {
    {"partial_rotary_factor", 1, [](const Architecture& a) { return a.rope.partial; }},
    {"attn_logit_softcapping", 0, [](const Architecture& a) { return a.attention_cap.known; }},
    {"final_logit_softcapping", 0, [](const Architecture& a) { return a.logit_cap.known; }},
    {"clip_qkv", 0},
    {"query_pre_attn_scalar", 0, [](const Architecture& a) { return a.query_scalar != 0; }},
    {"attention_multiplier", 0, has_multipliers},
    {"residual_multiplier", 1, has_multipliers},
    {"embedding_multiplier", 1, has_multipliers},
    {"logits_scaling", 1, has_multipliers},
    {"logit_scale", 1},
    {"num_experts", 0},
    {"num_local_experts", 0},
    {"num_nextn_predict_layers", 0},
    {"hidden_size_per_layer_input", 0},
};

Result<const Architecture*> find_architecture(const FieldReader& fields) {
  const Json* list = find_field(fields.object(), "architectures");
  if (list == nullptr) return error_at(Code::format, -1, "{}: the field \"architectures\" is missing", fields.where());
  if (!list->is_array() || list->size() != 1 || !list->begin()->is_string())
    return error_at(Code::format, -1, "{}: \"architectures\" must be a list of one name", fields.where());
  const std::string_view name = list->begin()->text();
  for (const Architecture& architecture : kArchitectures)
    if (architecture.name == name) return &architecture;
  std::string known;
  for (const Architecture& architecture : kArchitectures)
    known.append(known.empty() ? "" : ", ").append(architecture.name);
  return error(Code::unsupported, "{}: \"architectures\" names {}, known are {}", fields.where(), name, known);
}

/// The direction of attention must be the architecture's.
Status check_causality(const FieldReader& fields, const Architecture& architecture) {
  QINFER_ASSIGN(const auto is_causal, fields.boolean("is_causal"));
  QINFER_ASSIGN(const auto both_ways, fields.boolean("use_bidirectional_attention"));
  if (!is_causal.value_or(true))
    return error(Code::unsupported, "{}: \"is_causal\" is false, which is not supported for {}", fields.where(),
                 architecture.name);
  if (architecture.causal) {
    if (both_ways.value_or(false))
      return error(Code::unsupported, "{}: \"use_bidirectional_attention\" is true, {} is run as a causal model only",
                   fields.where(), architecture.name);
  } else if (!both_ways.value_or(false)) {
    return error(Code::unsupported,
                 "{}: \"use_bidirectional_attention\" is not true, {} is run as a bidirectional encoder only",
                 fields.where(), architecture.name);
  }
  return Status();
}

Status refuse_foreign_fields(const FieldReader& fields, const Architecture& architecture) {
  if (fields.has("quantization_config"))
    return error(Code::unsupported, "{}: \"quantization_config\": quantized checkpoints are not supported",
                 fields.where());
  for (const ForeignField& field : kForeignFields) {
    QINFER_ASSIGN(const auto value, fields.number(field.name));
    if (value && *value != field.off && (field.known == nullptr || !field.known(architecture)))
      return error(Code::unsupported, "{}: \"{}\" is {}, only {} is supported for this architecture", fields.where(),
                   field.name, *value, field.off);
  }
  const std::string_view expected = architecture.activation_name;
  for (const std::string_view key : {"hidden_act", "hidden_activation"}) {
    QINFER_ASSIGN(const auto activation, fields.string(key));
    if (activation && *activation != expected)
      return error(Code::unsupported, "{}: \"{}\" is \"{}\", only \"{}\" is supported", fields.where(), key,
                   *activation, expected);
  }
  return check_causality(fields, architecture);
}

/// A soft cap; `fallback` where the field is absent, off where it is null.
Result<float> read_soft_cap(const FieldReader& fields, std::string_view key, double fallback) {
  if (fields.object().find(key) == nullptr) return static_cast<float>(fallback);
  QINFER_ASSIGN(const auto value, fields.number(key));
  if (!value) return 0.0f;
  if (!(*value >= 1e-3 && *value <= 1e6))
    return error_at(Code::format, -1, "{}: \"{}\" is {}, expected 0.001 to 1e6, or null", fields.where(), key, *value);
  return static_cast<float>(*value);
}

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
Status read_multipliers(const FieldReader& fields, ModelSpec& spec) {
  QINFER_ASSIGN(const double embedding, read_multiplier(fields, "embedding_multiplier"));
  QINFER_ASSIGN(const double attention, read_multiplier(fields, "attention_multiplier"));
  QINFER_ASSIGN(const double residual, read_multiplier(fields, "residual_multiplier"));
  QINFER_ASSIGN(const double logits, read_multiplier(fields, "logits_scaling"));
  spec.embedding_scale = static_cast<float>(embedding);
  spec.attention_scale = static_cast<float>(attention);
  spec.residual_scale = static_cast<float>(residual);
  spec.logit_scale = static_cast<float>(1.0 / logits);
  return Status();
}

/// Scales, soft caps, and what an architecture has without a field.
Status read_scales(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  spec.causal = architecture.causal;
  spec.norms = architecture.norms;
  // As in f32; transformers rounds it to the type that it computes in.
  if (architecture.scaled_embedding)
    spec.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(spec.n_embd)));
  if (architecture.multipliers) QINFER_TRY(read_multipliers(fields, spec));
  if (architecture.query_scalar != 0) {
    QINFER_ASSIGN(const auto scalar, fields.number("query_pre_attn_scalar"));
    if (scalar && !(*scalar >= 1e-6 && *scalar <= 1e9))
      return error_at(Code::format, -1, "{}: \"query_pre_attn_scalar\" is {}, expected 1e-6 to 1e9", fields.where(),
                      *scalar);
    spec.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar.value_or(architecture.query_scalar)));
  }
  if (architecture.attention_cap.known) {
    QINFER_ASSIGN(spec.attention_softcap,
                  read_soft_cap(fields, "attn_logit_softcapping", architecture.attention_cap.fallback));
  }
  if (architecture.logit_cap.known) {
    QINFER_ASSIGN(spec.logit_softcap,
                  read_soft_cap(fields, "final_logit_softcapping", architecture.logit_cap.fallback));
  }
  const auto in_vocabulary = [&](std::int32_t token) {
    return token >= 0 && static_cast<std::uint32_t>(token) < spec.n_vocab;
  };
  if (fields.object().find("bos_token_id") == nullptr && in_vocabulary(architecture.default_bos))
    spec.bos_token = architecture.default_bos;
  if (fields.object().find("eos_token_id") == nullptr && in_vocabulary(architecture.default_end))
    spec.end_tokens = {architecture.default_end};
  if (architecture.needs_kv_heads && !fields.has("num_key_value_heads"))
    return error_at(Code::format, -1, "{}: the field \"num_key_value_heads\" is missing", fields.where());
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
  spec.n_heads = u32(heads);
  const bool states_kv_heads = fields.object().find("num_key_value_heads") != nullptr;
  const std::int64_t usual =
      states_kv_heads || architecture.default_kv_heads == 0 ? heads : architecture.default_kv_heads;
  spec.n_kv_heads = u32(kv_heads.value_or(usual));
  spec.context_tokens = u32(context);
  LayerSpec layer;
  layer.ffn.width = u32(ffn);
  layer.ffn.activation = architecture.activation;
  spec.layers.resize(static_cast<std::size_t>(layers), layer);
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
  QINFER_ASSIGN(const auto lm_head_bias, fields.boolean("lm_head_bias"));
  const bool attention = attention_bias.value_or(false);
  if (attention && !architecture.attention_bias && !architecture.qkv_bias)
    return error(Code::unsupported, "{}: \"attention_bias\" is true, which {} does not have", fields.where(),
                 architecture.name);
  if (mlp_bias.value_or(false) && !architecture.mlp_bias)
    return error(Code::unsupported, "{}: \"mlp_bias\" is true, which {} does not have", fields.where(),
                 architecture.name);
  if (lm_head_bias.value_or(false))
    return error(Code::unsupported, "{}: \"lm_head_bias\" is true, which {} does not have", fields.where(),
                 architecture.name);
  spec.qkv_bias = architecture.qkv_bias || attention;
  spec.o_bias = attention && !architecture.qkv_bias;
  for (LayerSpec& layer : spec.layers) layer.ffn.bias = mlp_bias.value_or(false);
  spec.qk_norm = architecture.qk_norm;
  spec.qk_norm_whole = architecture.qk_norm_whole;
  return Status();
}

/// The window of each layer from "layer_types" (version 5), which wins over the older rules.
Status read_layer_types(const FieldReader& fields, const Json& types, std::uint32_t window, ModelSpec& spec) {
  if (!types.is_array() || types.size() != spec.layers.size())
    return error_at(Code::format, -1, "{}: \"layer_types\" must list {} layers", fields.where(), spec.layers.size());
  auto layer = spec.layers.begin();
  for (const Json& item : types) {
    LayerSpec& of_type = *layer++;
    const std::string_view type = item.is_string() ? item.text() : formats::type_name(item.type());
    if (type == "full_attention") continue;
    if (type != "sliding_attention")
      return error(Code::unsupported,
                   "{}: \"layer_types\" holds \"{}\", known are full_attention and sliding_attention", fields.where(),
                   type);
    if (window == 0)
      return error_at(Code::format, -1, "{}: \"layer_types\" has sliding_attention but \"sliding_window\" is not set",
                      fields.where());
    of_type.window = window;
  }
  return Status();
}

/// Layers without rotary embedding have a window, or those that "layer_types" names. transformers applies the latter
/// without use_sliding_window in some of its attention functions and not in others, so that is refused.
Status read_windows_without_rope(const FieldReader& fields, std::uint32_t window, bool use, ModelSpec& spec) {
  if (const Json* types = find_field(fields.object(), "layer_types")) {
    QINFER_TRY(read_layer_types(fields, *types, window, spec));
    for (const LayerSpec& layer : spec.layers)
      if (layer.window != 0 && !use)
        return error_at(Code::format, -1,
                        "{}: \"layer_types\" has sliding_attention but \"use_sliding_window\" is not true",
                        fields.where());
    return Status();
  }
  if (use && window == 0 && fields.has("sliding_window"))
    return error_at(Code::format, -1, "{}: \"sliding_window\" is 0, expected a positive number, or null",
                    fields.where());
  for (LayerSpec& layer : spec.layers) layer.window = use && layer.no_rope ? window : 0;
  return Status();
}

/// All but each n-th layer have a window. A bidirectional layer sees half of it to each side, so its `window` counts
/// the token itself and the tokens of one side.
Status read_window_pattern(const FieldReader& fields, const Architecture& architecture, std::uint32_t window,
                           ModelSpec& spec) {
  if (fields.object().find("sliding_window") == nullptr) window = 4096;
  if (!architecture.causal && window != 0) window = window / 2 + 1;
  if (const Json* types = find_field(fields.object(), "layer_types"))
    return read_layer_types(fields, *types, window, spec);
  std::int64_t every = architecture.full_layer_every;
  if (architecture.pattern_field) {
    QINFER_ASSIGN(const auto stated, fields.integer("sliding_window_pattern", 1, kMaxLayers));
    every = stated.value_or(every);
  }
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    if ((static_cast<std::int64_t>(i) + 1) % every == 0) continue;
    if (window == 0)
      return error_at(Code::format, -1, "{}: \"sliding_window\" is not set, layer {} has one", fields.where(), i);
    spec.layers[i].window = window;
  }
  return Status();
}

/// sliding_window alone says which window all layers have; files in which other fields, which transformers does not
/// read for these models, say something else are refused. A window of the whole context is none.
Status read_stated_window(const FieldReader& fields, std::optional<bool> use, std::uint32_t window, ModelSpec& spec) {
  if (use && *use != (window != 0))
    return error(Code::unsupported, "{}: \"use_sliding_window\" is {}, but \"sliding_window\" is {}", fields.where(),
                 *use, window);
  if (const Json* types = find_field(fields.object(), "layer_types")) {
    QINFER_TRY(read_layer_types(fields, *types, window, spec));
    for (std::size_t i = 0; i < spec.layers.size(); ++i)
      if (spec.layers[i].window != window)
        return error(Code::unsupported,
                     "{}: \"layer_types\" has full_attention in layer {}, but \"sliding_window\" is {} for all layers",
                     fields.where(), i, window);
  }
  for (LayerSpec& layer : spec.layers) layer.window = window < spec.context_tokens ? window : 0;
  return Status();
}

/// An architecture without windows has full attention in every layer.
Status refuse_layer_types(const FieldReader& fields, const Architecture& architecture) {
  const Json* types = find_field(fields.object(), "layer_types");
  if (types == nullptr) return Status();
  if (!types->is_array())
    return error_at(Code::format, -1, "{}: \"layer_types\" must be a list, not {}", fields.where(),
                    formats::type_name(types->type()));
  for (const Json& item : *types)
    if (!item.is_string() || item.text() != "full_attention")
      return error(Code::unsupported, "{}: \"layer_types\" holds {}, {} has full_attention only", fields.where(),
                   formats::json_text(item), architecture.name);
  return Status();
}

Status read_windows(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  QINFER_ASSIGN(const auto size, fields.integer("sliding_window", 0, kMaxContext));
  QINFER_ASSIGN(const auto use, fields.boolean("use_sliding_window"));
  QINFER_ASSIGN(const auto first, fields.integer("max_window_layers", 0, kMaxDim));
  std::uint32_t window = static_cast<std::uint32_t>(size.value_or(0));
  if (architecture.windows == Windows::none) {
    if (use.value_or(false))
      return error(Code::unsupported, "{}: \"use_sliding_window\" is true, which {} does not have", fields.where(),
                   architecture.name);
    return refuse_layer_types(fields, architecture);
  }
  if (architecture.windows == Windows::pattern) return read_window_pattern(fields, architecture, window, spec);
  if (architecture.windows == Windows::without_rope)
    return read_windows_without_rope(fields, window, use.value_or(false), spec);
  if (architecture.windows == Windows::as_stated) return read_stated_window(fields, use, window, spec);
  // Released Qwen2.5 files name a window that use_sliding_window switches off; Mistral has no such switch, and 4096 is
  // what transformers assumes where an (old) Mistral file has no field at all.
  if (architecture.windows == Windows::qwen && !use.value_or(false)) window = 0;
  const bool absent = fields.object().find("sliding_window") == nullptr;
  if (absent && (architecture.windows == Windows::all_layers || use.value_or(false))) window = 4096;
  if (const Json* types = find_field(fields.object(), "layer_types"))
    return read_layer_types(fields, *types, window, spec);
  const std::size_t full = architecture.windows == Windows::qwen ? static_cast<std::size_t>(first.value_or(28)) : 0;
  for (std::size_t i = full; i < spec.layers.size(); ++i) spec.layers[i].window = window;
  return Status();
}

/// The last layers may read the keys and values of the last layer of their kind (with the same window, and turned or
/// not) that has its own (as in Gemma 3n, whose configuration the field comes from).
Status read_shared_kv(const FieldReader& fields, ModelSpec& spec) {
  const auto n_layers = static_cast<std::int64_t>(spec.layers.size());
  QINFER_ASSIGN(const auto shared, fields.integer("num_kv_shared_layers", 0, n_layers - 1));
  const auto first = static_cast<std::size_t>(n_layers - shared.value_or(0));
  if (first < spec.layers.size() && !spec.causal)
    return error(Code::unsupported, "{}: \"num_kv_shared_layers\" is {}, {} has none", fields.where(), *shared,
                 spec.architecture);
  for (std::size_t i = first; i < spec.layers.size(); ++i) {
    for (std::size_t j = 0; j < first; ++j)
      if (spec.layers[j].window == spec.layers[i].window && spec.layers[j].no_rope == spec.layers[i].no_rope)
        spec.layers[i].kv_source = static_cast<std::int32_t>(j);
    if (spec.layers[i].has_own_kv())
      return error_at(Code::format, -1,
                      "{}: \"num_kv_shared_layers\" is {}, but before layer {} there is none of its kind to share with",
                      fields.where(), *shared, i);
  }
  return Status();
}

/// A token id or a list of them, appended to `ids`; ids beyond the vocabulary are errors. Some files write -1 for
/// "none".
Status read_token_list(const FieldReader& fields, std::string_view key, const Json& value, std::uint32_t n_vocab,
                       std::vector<std::int32_t>& ids) {
  const auto add = [&](const Json& item) {
    if (!item.is_integer() || item.integer() < -1 || item.integer() >= n_vocab)
      return error_at(Code::format, -1, "{}: \"{}\" holds {}, expected token ids below {}", fields.where(), key,
                      formats::json_text(item), n_vocab);
    if (item.integer() >= 0) ids.push_back(static_cast<std::int32_t>(item.integer()));
    return Status();
  };
  if (!value.is_array()) return add(value);
  for (const Json& item : value) QINFER_TRY(add(item));
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
  QINFER_TRY(refuse_foreign_fields(fields, *architecture));
  QINFER_TRY(read_sizes(fields, *architecture, spec));
  QINFER_TRY(read_biases(fields, *architecture, spec));
  QINFER_TRY(read_scales(fields, *architecture, spec));
  if (architecture->rope_by_layer) QINFER_TRY(read_layers_without_rope(fields, spec));
  QINFER_TRY(read_windows(fields, *architecture, spec));
  QINFER_TRY(architecture->ropes_by_layer_type ? read_ropes_by_layer_type(fields, spec)
                                               : read_rope(fields, architecture->rope, spec));
  QINFER_TRY(read_shared_kv(fields, spec));
  group_layers(spec);
  QINFER_TRY(read_tokens(fields, spec));
  QINFER_ASSIGN(const auto tied, fields.boolean("tie_word_embeddings"));
  if (tied) parsed.tied = *tied ? Tied::yes : Tied::no;
  if (architecture->tied_by_default && parsed.tied == Tied::unstated) parsed.tied = Tied::yes;
  if (!spec.causal) parsed.tied = Tied::yes;  // there is no LM head of its own
  parsed.norms_add_one = architecture->norms_add_one;
  parsed.names_tokens_beyond = architecture->names_tokens_beyond;
  parsed.bare_names = !architecture->causal;
  parsed.fused_projections = architecture->fused_projections;
  QINFER_ASSIGN(auto label, fields.string("_name_or_path"));
  if (label) spec.name = std::move(*label);
  return parsed;
}

Status apply_generation_config(const formats::Json& config, std::string_view name, ModelSpec& spec) {
  if (!config.is_object()) return error_at(Code::format, 0, "{}: expected a JSON object", name);
  return read_tokens(FieldReader(config, std::string(name)), spec);
}

}  // namespace qinfer::source
