// See gguf_config.h. Every key of the architecture must be known: one that is not could change the result.
#include "source/gguf_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/format.h"
#include "formats/json.h"
#include "source/hf_architecture.h"
#include "source/hf_experts.h"

namespace qinfer::source {
namespace {

using formats::Gguf;
using formats::GgufMetadata;
using formats::GgufValue;

constexpr GgufArchitecture kArchitectures[] = {
    {.name = "llama", .hugging_face = "LlamaForCausalLM", .interleaved = true, .experts = GgufExperts::mixtral},
    {.name = "qwen2", .hugging_face = "Qwen2ForCausalLM"},
    {.name = "qwen3", .hugging_face = "Qwen3ForCausalLM"},
    {.name = "qwen2moe", .hugging_face = "Qwen2MoeForCausalLM", .experts = GgufExperts::qwen2},
    {.name = "qwen3moe", .hugging_face = "Qwen3MoeForCausalLM", .experts = GgufExperts::qwen3},
    {.name = "phi3", .hugging_face = "Phi3ForCausalLM", .fused = true},
    {.name = "olmo2", .hugging_face = "Olmo2ForCausalLM"},
    {.name = "smollm3", .hugging_face = "SmolLM3ForCausalLM", .interleaved = true},
    {.name = "granite", .hugging_face = "GraniteForCausalLM", .interleaved = true},
    {.name = "gemma2", .hugging_face = "Gemma2ForCausalLM", .gemma = true, .large_layers = 46},
    {.name = "gemma3", .hugging_face = "Gemma3ForCausalLM", .gemma = true, .large_layers = 62},
};

/// Keys that are read here or elsewhere for every architecture, or that change no result.
constexpr std::string_view kKnownKeys[] = {"block_count",
                                           "pooling_type",
                                           "context_length",
                                           "embedding_length",
                                           "feed_forward_length",
                                           "vocab_size",
                                           "tensor_data_layout",
                                           "attention.head_count",
                                           "attention.head_count_kv",
                                           "attention.key_length",
                                           "attention.value_length",
                                           "attention.layer_norm_rms_epsilon",
                                           "rope.freq_base",
                                           "rope.dimension_count",
                                           "rope.scaling.type",
                                           "rope.scaling.factor",
                                           "rope.scaling.original_context_length",
                                           "rope.scaling.finetuned",
                                           "rope.scaling.attn_factor",
                                           "rope.scaling.yarn_ext_factor",
                                           "rope.scaling.yarn_attn_factor",
                                           "rope.scaling.yarn_beta_fast",
                                           "rope.scaling.yarn_beta_slow",
                                           "rope.scale_linear"};

/// Keys that some architectures have and others may state as "off".
struct OptionalKey {
  std::string_view name;
  double off;
  bool (*known)(const GgufArchitecture& architecture) = nullptr;
};
constexpr bool has_experts(const GgufArchitecture& a) { return a.experts != GgufExperts::none; }
constexpr bool is_granite(const GgufArchitecture& a) { return a.name == "granite"; }
constexpr OptionalKey kOptionalKeys[] = {
    {"attention.sliding_window", 0, [](const GgufArchitecture& a) { return a.gemma || a.fused || a.name == "llama"; }},
    {"attn_logit_softcapping", 0, [](const GgufArchitecture& a) { return a.name == "gemma2"; }},
    {"final_logit_softcapping", 0, [](const GgufArchitecture& a) { return a.gemma; }},
    {"rope.freq_base_swa", 0, [](const GgufArchitecture& a) { return a.name == "gemma3"; }},
    {"attention.scale", 0, is_granite},
    {"embedding_scale", 0, is_granite},
    {"residual_scale", 0, is_granite},
    {"logit_scale", 0, is_granite},
    {"expert_count", 0, has_experts},
    {"expert_used_count", 0, has_experts},
    {"expert_feed_forward_length", 0, has_experts},
    {"expert_shared_feed_forward_length", 0, [](const GgufArchitecture& a) { return a.experts == GgufExperts::qwen2; }},
    {"expert_shared_count", 0},
    {"expert_weights_scale", 1},
    {"expert_gating_func", 1},
    {"nextn_predict_layers", 0},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
    {"rope.scaling.yarn_log_multiplier", 0},
};
/// Booleans and what they must be.
constexpr struct {
  std::string_view name;
  bool value;
} kBooleanKeys[] = {{"attention.causal", true}, {"use_parallel_residual", false}};

/// Writes config.json while it reads keys "<architecture>.<name>".
class Converter {
 public:
  Converter(const Gguf& gguf, const GgufArchitecture& architecture)
      : gguf_(gguf), metadata_(gguf.metadata()), architecture_(architecture) {}

  Result<std::string> run(const std::vector<float>& rope_divisors) {
    QINFER_TRY(check_keys());
    QINFER_TRY(read_sizes());
    QINFER_TRY(read_rope(rope_divisors));
    QINFER_TRY(read_biases());
    QINFER_TRY(read_experts());
    QINFER_TRY(read_scales());
    QINFER_TRY(read_tokens());
    QINFER_TRY(read_pooling());
    add("tie_word_embeddings", gguf_.find("output.weight") == nullptr);
    std::string name = json_string(hugging_face_);
    return format_text("{{\"architectures\": [{}]{}}}", name, fields_);
  }

 private:
  std::string key(std::string_view name) const { return format_text("{}.{}", architecture_.name, name); }
  bool has(std::string_view name) const { return metadata_.has(key(name)); }

  static std::string json_string(std::string_view text) {
    std::string out;
    formats::append_json_string(text, out);
    return out;
  }
  void add_text(std::string_view field, std::string_view json) { fields_ += format_text(", \"{}\": {}", field, json); }
  void add(std::string_view field, std::int64_t value) { add_text(field, format_text("{}", value)); }
  void add(std::string_view field, bool value) { add_text(field, value ? "true" : "false"); }
  void add(std::string_view field, double value) { add_text(field, format_text("{}", value)); }

  /// f32 as the shortest decimal that gives the same f32, as config.json would have it: 1e-06,
  /// not 9.999999974752427e-7.
  static double shortest(double value) {
    const auto narrow = static_cast<float>(value);
    if (static_cast<double>(narrow) != value || !std::isfinite(value)) return value;
    const std::string text = format_text("{}", narrow);
    double out = value;
    std::from_chars(text.data(), text.data() + text.size(), out);
    return out;
  }

  Result<std::optional<double>> number(std::string_view name, double min, double max) const {
    QINFER_ASSIGN(auto value, metadata_.number(key(name)));
    if (value && !(*value >= min && *value <= max))
      return error_at(Code::format, -1, "{}: key \"{}\" is {}, expected {} to {}", metadata_.file(), key(name), *value,
                      min, max);
    if (value) value = shortest(*value);
    return value;
  }

  /// A value for all layers: one, or an array with one for each, which must agree. Only after layers_ is known.
  Result<std::optional<std::int64_t>> same_in_layers(std::string_view name, std::int64_t min, std::int64_t max) const {
    const GgufValue* stored = metadata_.find(key(name));
    if (stored != nullptr && stored->is_array && stored->count != static_cast<std::uint64_t>(layers_))
      return error_at(Code::format, -1, "{}: key \"{}\" has {} values, expected {}, one for each layer",
                      metadata_.file(), key(name), stored->count, layers_);
    QINFER_ASSIGN(const auto values, metadata_.integers(key(name), min, max, true));
    if (!values) return std::optional<std::int64_t>();
    for (const std::int64_t value : *values)
      if (value != values->front())
        return error(Code::unsupported, "{}: key \"{}\" has {} and {}: layers that differ are not supported",
                     metadata_.file(), key(name), values->front(), value);
    return std::optional<std::int64_t>(values->front());
  }

  Status missing(std::string_view name) const {
    return error_at(Code::format, -1, "{}: the key \"{}\" is missing", metadata_.file(), key(name));
  }

  Result<std::int64_t> required(std::string_view name, std::int64_t min, std::int64_t max) const {
    QINFER_ASSIGN(const auto value, metadata_.integer(key(name), min, max));
    if (!value) return missing(name);
    return *value;
  }

  Status check_keys() const;
  Status read_sizes();
  Status read_rope(const std::vector<float>& divisors);
  Result<std::string> rope_scaling(const std::vector<float>& divisors);
  Result<std::string> yarn_scaling(double factor);
  Status read_biases();
  Status read_experts();
  Status read_scales();
  Status read_gemma();
  Status read_tokens();
  Status read_pooling();

  const Gguf& gguf_;
  const GgufMetadata& metadata_;
  const GgufArchitecture& architecture_;
  std::string_view hugging_face_ = architecture_.hugging_face;
  std::string fields_;
  std::int64_t layers_ = 0, hidden_ = 0, heads_ = 0, head_dim_ = 0, ffn_ = 0, vocab_ = 0;
};

Status Converter::check_keys() const {
  const std::string prefix = key("");
  for (std::size_t i = 0; i < metadata_.size(); ++i) {
    if (!metadata_[i].key.starts_with(prefix)) continue;
    const std::string_view name = metadata_[i].key.substr(prefix.size());
    if (std::find(std::begin(kKnownKeys), std::end(kKnownKeys), name) != std::end(kKnownKeys)) continue;
    bool known = false;
    for (const OptionalKey& optional : kOptionalKeys) {
      if (optional.name != name) continue;
      known = true;
      if (optional.known != nullptr && optional.known(architecture_)) break;
      QINFER_ASSIGN(const auto value, metadata_.number(metadata_[i].key));
      if (*value != optional.off)
        return error(Code::unsupported, "{}: key \"{}\" is {}, only {} is supported for this architecture",
                     metadata_.file(), metadata_[i].key, *value, optional.off);
    }
    for (const auto& boolean : kBooleanKeys) {
      if (boolean.name != name) continue;
      known = true;
      QINFER_ASSIGN(const auto value, metadata_.boolean(metadata_[i].key));
      if (*value != boolean.value)
        return error(Code::unsupported, "{}: key \"{}\" is {}, only {} is supported", metadata_.file(),
                     metadata_[i].key, *value, boolean.value);
    }
    if (!known)
      return error(Code::unsupported, "{}: the key \"{}\" is not known, and may change what the model computes",
                   metadata_.file(), metadata_[i].key);
  }
  QINFER_ASSIGN(const auto version, metadata_.integer("general.quantization_version", 0, 1 << 20));
  if (version.value_or(2) != 2)
    return error(Code::unsupported, "{}: key \"general.quantization_version\" is {}, supported is 2", metadata_.file(),
                 *version);
  return Status();
}

Status Converter::read_sizes() {
  QINFER_ASSIGN(layers_, required("block_count", 1, kMaxLayers));
  QINFER_ASSIGN(hidden_, required("embedding_length", 1, kMaxDim));
  QINFER_ASSIGN(const std::int64_t context, required("context_length", 1, kMaxContext));
  QINFER_ASSIGN(const auto heads, same_in_layers("attention.head_count", 1, kMaxDim));
  if (!heads) return missing("attention.head_count");
  heads_ = *heads;
  QINFER_ASSIGN(const auto kv_heads, same_in_layers("attention.head_count_kv", 1, kMaxDim));
  QINFER_ASSIGN(const auto key_length, metadata_.integer(key("attention.key_length"), 2, 1024));
  QINFER_ASSIGN(const auto value_length, metadata_.integer(key("attention.value_length"), 2, 1024));
  if (!key_length && hidden_ % heads_ != 0) return missing("attention.key_length");
  head_dim_ = key_length.value_or(hidden_ / heads_);
  if (value_length.value_or(hidden_ / heads_) != head_dim_ && (value_length || key_length))
    return error(Code::unsupported, "{}: values of {} dimensions and keys of {}, expected as many", metadata_.file(),
                 value_length.value_or(hidden_ / heads_), head_dim_);
  QINFER_ASSIGN(const auto ffn, same_in_layers("feed_forward_length", 0, kMaxDim));
  QINFER_ASSIGN(const auto expert_ffn, metadata_.integer(key("expert_feed_forward_length"), 0, kMaxDim));
  ffn_ = ffn.value_or(0) != 0 ? *ffn : expert_ffn.value_or(0);
  if (ffn_ == 0) return missing("feed_forward_length");
  QINFER_ASSIGN(const auto eps, number("attention.layer_norm_rms_epsilon", 0, 1));
  if (!eps) return missing("attention.layer_norm_rms_epsilon");
  const formats::GgufTensor* embedding = gguf_.find("token_embd.weight");
  const GgufValue* tokens = metadata_.find("tokenizer.ggml.tokens");
  const std::uint64_t vocab = embedding != nullptr ? embedding->dims[1] : tokens != nullptr ? tokens->count : 0;
  if (vocab < 1 || vocab > static_cast<std::uint64_t>(kMaxVocab))
    return error_at(Code::format, -1, "{}: a vocabulary of {} tokens, expected 1 to {}", metadata_.file(), vocab,
                    kMaxVocab);
  vocab_ = static_cast<std::int64_t>(vocab);
  add("vocab_size", vocab_);
  add("hidden_size", hidden_);
  add("intermediate_size", ffn_);
  add("num_hidden_layers", layers_);
  add("num_attention_heads", heads_);
  add("num_key_value_heads", kv_heads.value_or(heads_));
  add("head_dim", head_dim_);
  add("max_position_embeddings", context);
  add("rms_norm_eps", *eps);
  return Status();
}

Result<std::string> Converter::yarn_scaling(double factor) {
  QINFER_ASSIGN(const auto original, metadata_.integer(key("rope.scaling.original_context_length"), 1, kMaxContext));
  QINFER_ASSIGN(const auto fast, number("rope.scaling.yarn_beta_fast", 1e-3, 1e6));
  QINFER_ASSIGN(const auto slow, number("rope.scaling.yarn_beta_slow", 1e-3, 1e6));
  QINFER_ASSIGN(const auto attention, number("rope.scaling.attn_factor", 1e-3, 1e3));
  QINFER_ASSIGN(const auto yarn_attention, number("rope.scaling.yarn_attn_factor", 1e-3, 1e3));
  QINFER_ASSIGN(const auto extrapolation, number("rope.scaling.yarn_ext_factor", -1, 1));
  if (extrapolation && *extrapolation != -1 && *extrapolation != 1)
    return error(Code::unsupported, "{}: key \"{}\" is {}, supported is 1", metadata_.file(),
                 key("rope.scaling.yarn_ext_factor"), *extrapolation);
  std::string out = format_text("{{\"rope_type\": \"yarn\", \"factor\": {}", factor);
  if (original) out += format_text(", \"original_max_position_embeddings\": {}", *original);
  if (fast) out += format_text(", \"beta_fast\": {}", *fast);
  if (slow) out += format_text(", \"beta_slow\": {}", *slow);
  // llama.cpp multiplies what the paper's factor gives.
  const double times = attention.value_or(1) * yarn_attention.value_or(1);
  if (times != 1)
    out += format_text(", \"attention_factor\": {}", times * (factor <= 1 ? 1.0 : 0.1 * std::log(factor) + 1.0));
  return out + "}";
}

/// The object rope_scaling, or an empty text.
Result<std::string> Converter::rope_scaling(const std::vector<float>& divisors) {
  QINFER_ASSIGN(const auto type, metadata_.string(key("rope.scaling.type")));
  QINFER_ASSIGN(auto factor, number("rope.scaling.factor", 0, 1e6));
  QINFER_ASSIGN(const auto legacy, number("rope.scale_linear", 0, 1e6));
  if (!factor) factor = legacy;
  if (factor.value_or(0) != 0 && *factor < 1e-3)
    return error_at(Code::format, -1, "{}: key \"{}\" is {}, expected 0 (none), or 0.001 to 1e6", metadata_.file(),
                    key("rope.scaling.factor"), *factor);
  const std::string_view kind = type.value_or(factor ? "linear" : "none");
  if (kind != "none" && kind != "linear" && kind != "yarn")
    return error(Code::unsupported, "{}: key \"{}\" is \"{}\", known are none, linear and yarn", metadata_.file(),
                 key("rope.scaling.type"), formats::printable(kind));
  const bool scales = kind != "none" && factor.value_or(0) != 0 && *factor != 1;
  if (!divisors.empty()) {
    if (scales)
      return error(Code::unsupported, "{}: both \"{}\" and the tensor \"rope_freqs.weight\" scale rotary embeddings",
                   metadata_.file(), key("rope.scaling.factor"));
    return format_text("{{\"rope_type\": \"divisors\", \"divisors\": [{}]}}", join_texts(divisors, ", "));
  }
  if (!scales) return std::string();
  if (kind == "yarn") return yarn_scaling(*factor);
  return format_text("{{\"rope_type\": \"linear\", \"factor\": {}}}", *factor);
}

Status Converter::read_rope(const std::vector<float>& divisors) {
  QINFER_ASSIGN(const auto base, number("rope.freq_base", 1e-3, 1e15));
  if (!base && architecture_.name == "gemma3") return missing("rope.freq_base");
  add("rope_theta", base.value_or(10000));
  QINFER_ASSIGN(const auto dims, metadata_.integer(key("rope.dimension_count"), 0, 1024));
  if (dims.value_or(head_dim_) != head_dim_) {
    if (!architecture_.fused)
      return error(Code::unsupported, "{}: key \"{}\" is {}, of {} dimensions of a head: expected all of them",
                   metadata_.file(), key("rope.dimension_count"), *dims, head_dim_);
    add("partial_rotary_factor", static_cast<double>(*dims) / static_cast<double>(head_dim_));
  }
  for (const std::string_view name : {"rope_factors_long.weight", "rope_factors_short.weight"})
    if (gguf_.find(name) != nullptr)
      return error(Code::unsupported,
                   "{}: the tensor \"{}\" is of longrope, which is not supported: use a model that was trained for its "
                   "whole context without scaling",
                   metadata_.file(), name);
  QINFER_ASSIGN(const std::string scaling, rope_scaling(divisors));
  if (!scaling.empty()) add_text("rope_scaling", scaling);
  return Status();
}

/// Files do not say which biases a model has; their tensors do.
Status Converter::read_biases() {
  const bool attention = gguf_.find("blk.0.attn_q.bias") != nullptr;
  if (attention && architecture_.name != "qwen2" && architecture_.name != "qwen2moe") add("attention_bias", true);
  if (gguf_.find("blk.0.ffn_down.bias") != nullptr) add("mlp_bias", true);
  return Status();
}

Status Converter::read_experts() {
  if (architecture_.experts == GgufExperts::none) return Status();
  const bool mixtral = architecture_.experts == GgufExperts::mixtral;
  QINFER_ASSIGN(const auto count, metadata_.integer(key("expert_count"), 0, kMaxExperts));
  if (count.value_or(0) == 0) {
    if (mixtral) return Status();
    return missing("expert_count");
  }
  QINFER_ASSIGN(const std::int64_t used, required("expert_used_count", 1, kMaxExperts));
  add("num_experts_per_tok", used);
  if (mixtral) {
    hugging_face_ = "MixtralForCausalLM";
    add("num_local_experts", *count);
    return Status();
  }
  add("num_experts", *count);
  QINFER_ASSIGN(const auto width, metadata_.integer(key("expert_feed_forward_length"), 0, kMaxDim));
  add("moe_intermediate_size", width.value_or(0) != 0 ? *width : ffn_ / used);
  add("norm_topk_prob", architecture_.experts == GgufExperts::qwen3);
  std::vector<std::int64_t> dense;
  for (std::int64_t i = 0; i < layers_; ++i)
    if (gguf_.find(format_text("blk.{}.ffn_gate_inp.weight", i)) == nullptr) dense.push_back(i);
  if (!dense.empty()) add_text("mlp_only_layers", format_text("[{}]", join_texts(dense, ", ")));
  if (architecture_.experts == GgufExperts::qwen2) {
    QINFER_ASSIGN(const std::int64_t shared, required("expert_shared_feed_forward_length", 1, kMaxDim));
    add("shared_expert_intermediate_size", shared);
  }
  return Status();
}

Status Converter::read_gemma() {
  // transformers states the number under the root.
  const bool large = layers_ == architecture_.large_layers;
  add("query_pre_attn_scalar",
      large ? static_cast<double>(hidden_) / static_cast<double>(heads_) : static_cast<double>(head_dim_));
  QINFER_ASSIGN(const auto window, metadata_.integer(key("attention.sliding_window"), 0, kMaxContext));
  if (window.value_or(0) != 0) add("sliding_window", *window);
  if (architecture_.name == "gemma2") {
    QINFER_ASSIGN(const auto cap, number("attn_logit_softcapping", 1e-3, 1e6));
    if (cap) add("attn_logit_softcapping", *cap);
  } else {
    if (window.value_or(0) == 0) {
      std::string types;
      for (std::int64_t i = 0; i < layers_; ++i) types += i == 0 ? "\"full_attention\"" : ", \"full_attention\"";
      add_text("layer_types", format_text("[{}]", types));
    }
    QINFER_ASSIGN(const auto local, number("rope.freq_base_swa", 1e-3, 1e15));
    add("rope_local_base_freq", local.value_or(10000));
  }
  QINFER_ASSIGN(const auto cap, number("final_logit_softcapping", 0, 1e6));
  if (cap.value_or(0) != 0) add("final_logit_softcapping", *cap);
  return Status();
}

Status Converter::read_scales() {
  if (architecture_.gemma) return read_gemma();
  if (is_granite(architecture_)) {
    constexpr std::string_view kNames[][2] = {{"attention.scale", "attention_multiplier"},
                                              {"embedding_scale", "embedding_multiplier"},
                                              {"residual_scale", "residual_multiplier"},
                                              {"logit_scale", "logits_scaling"}};
    for (const auto& [name, field] : kNames) {
      QINFER_ASSIGN(const auto value, number(name, 0, 1e6));
      if (value.value_or(0) != 0) add(field, *value);
      // Without the key scores are divided by the root of the dimensions.
      if (value.value_or(0) == 0 && name == "attention.scale")
        add(field, 1 / std::sqrt(static_cast<double>(head_dim_)));
      if (!value && name == "logit_scale") return missing(name);
    }
    return Status();
  }
  QINFER_ASSIGN(const auto window, metadata_.integer(key("attention.sliding_window"), 0, kMaxContext));
  if (window.value_or(0) == 0) return Status();
  if (architecture_.name == "llama" && hugging_face_ == architecture_.hugging_face)
    hugging_face_ = "MistralForCausalLM";
  add("sliding_window", *window);
  return Status();
}

/// What makes one vector of a text: the mean of all tokens or the last one; a file may say that nothing does. Decoders
/// have no token that stands for the text, nor a head for ranks.
Status Converter::read_pooling() {
  QINFER_ASSIGN(const auto pooling, metadata_.integer(key("pooling_type"), -1, INT32_MAX));
  if (pooling == 1) add_text("qinfer_pooling", "\"mean\"");
  if (!pooling || *pooling == -1 || *pooling == 0 || *pooling == 1 || *pooling == 3) return Status();
  return error(Code::unsupported, "{}: key \"{}\" is {}, supported are 0 (none), 1 (mean) and 3 (last)",
               metadata_.file(), key("pooling_type"), *pooling);
}

/// Files say that there is no such token by no key, or by -1 in 32 bits.
Status Converter::read_tokens() {
  const formats::GgufValue* tokens = metadata_.find("tokenizer.ggml.tokens");
  const std::int64_t count = tokens != nullptr ? std::min(vocab_, static_cast<std::int64_t>(tokens->count)) : vocab_;
  QINFER_ASSIGN(const auto model, metadata_.string("tokenizer.ggml.model"));
  const bool by_scores = model.value_or("") == "llama" && !metadata_.has("tokenizer.huggingface.json");
  const auto token = [&](std::string_view name, std::int64_t otherwise) -> Result<std::int64_t> {
    QINFER_ASSIGN(const auto id, metadata_.integer(format_text("tokenizer.ggml.{}_token_id", name), -1, UINT32_MAX));
    const std::int64_t known = id.value_or(otherwise < count ? otherwise : -1);
    return known < count ? known : -1;  // the reader of the tokenizer has a note on one that is beyond
  };
  QINFER_ASSIGN(const std::int64_t bos, token("bos", by_scores ? 1 : -1));
  add("bos_token_id", bos);
  std::vector<std::int64_t> ends;
  for (const std::string_view name : {"eos", "eot", "eom"}) {
    QINFER_ASSIGN(const std::int64_t end, token(name, by_scores && name == "eos" ? 2 : -1));
    if (end >= 0 && std::find(ends.begin(), ends.end(), end) == ends.end()) ends.push_back(end);
  }
  add_text("eos_token_id", format_text("[{}]", join_texts(ends, ", ")));
  return Status();
}

}  // namespace

Result<const GgufArchitecture*> find_gguf_architecture(const GgufMetadata& metadata) {
  QINFER_ASSIGN(const auto name, metadata.string("general.architecture"));
  if (!name) return error_at(Code::format, -1, "{}: the key \"general.architecture\" is missing", metadata.file());
  std::string known;
  for (const GgufArchitecture& architecture : kArchitectures) {
    if (architecture.name == *name) return &architecture;
    known.append(known.empty() ? "" : ", ").append(architecture.name);
  }
  return error(Code::unsupported, "{}: key \"general.architecture\" is \"{}\", known are {}", metadata.file(),
               formats::printable(*name), known);
}

const GgufArchitecture* find_gguf_architecture(const model::ModelSpec& spec) {
  std::string_view name = spec.architecture;
  if (name == "MistralForCausalLM" || name == "MixtralForCausalLM") name = "LlamaForCausalLM";
  for (const GgufArchitecture& architecture : kArchitectures)
    if (architecture.hugging_face == name) return &architecture;
  return nullptr;
}

Result<std::string> gguf_config_text(const Gguf& gguf, const GgufArchitecture& architecture,
                                     const std::vector<float>& rope_divisors) {
  return Converter(gguf, architecture).run(rope_divisors);
}

}  // namespace qinfer::source
