// See gguf_config.h. Every key of the architecture must be known: one that is not could change the result.
#include "source/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/format.h"
#include "formats/checkpoint.h"
#include "source/gguf_fields.h"
#include "source/hf_experts.h"

namespace qinfer::source {
namespace {

using formats::Gguf;
using formats::GgufMetadata;
using formats::GgufValue;

/// Keys that are read here or elsewhere for every architecture, or that change no result.
constexpr std::string_view kKnownKeys[] = {"block_count",
                                           "pooling_type",
                                           "dense_2_feat_in",
                                           "dense_2_feat_out",
                                           "dense_3_feat_in",
                                           "dense_3_feat_out",
                                           "context_length",
                                           "embedding_length",
                                           "feed_forward_length",
                                           "classifier.output_labels",
                                           "vocab_size",
                                           "tensor_data_layout",
                                           "attention.head_count",
                                           "attention.head_count_kv",
                                           "attention.key_length",
                                           "attention.value_length",
                                           "attention.layer_norm_rms_epsilon",
                                           "attention.layer_norm_epsilon",
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

/// Keys that others than the architectures which name them as their own may state as "off".
struct OptionalKey {
  std::string_view name;
  double off;
};
constexpr OptionalKey kOptionalKeys[] = {
    {"attention.sliding_window", 0},
    {"attention.sliding_window_pattern", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"rope.freq_base_swa", 0},
    {"attention.scale", 0},
    {"embedding_scale", 0},
    {"residual_scale", 0},
    {"logit_scale", 0},
    {"expert_count", 0},
    {"expert_used_count", 0},
    {"expert_feed_forward_length", 0},
    {"expert_shared_feed_forward_length", 0},
    {"expert_shared_count", 0},
    {"expert_weights_scale", 1},
    {"expert_gating_func", 1},
    {"nextn_predict_layers", 0},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
};
/// Rows of the LM head that make a score.
constexpr std::string_view kScoreTensor = "cls.output.weight";

/// Booleans and what they must be.
constexpr struct {
  std::string_view name;
  bool value;
} kBooleanKeys[] = {{"attention.causal", true}, {"use_parallel_residual", false}};

bool is_own(const GgufArchitecture& architecture, std::string_view key) {
  const auto own = architecture.own_keys;
  return std::any_of(own.begin(), own.end(), [key](const OwnName& row) { return row.name == key; });
}

/// What a key that the architecture does not have may say; none where it must not be there.
std::optional<double> off_value(std::string_view key) {
  for (const OptionalKey& row : kOptionalKeys)
    if (row.name == key) return row.off;
  for (const GgufArchitecture* architecture : all_gguf_architectures())
    for (const OwnName& row : architecture->own_keys)
      if (row.name == key && row.off) return row.off;
  return std::nullopt;
}

Status check_keys(const GgufFields& fields) {
  const GgufMetadata& metadata = fields.metadata();
  const std::string prefix = fields.key("");
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    if (!metadata[i].key.starts_with(prefix)) continue;
    const std::string_view name = metadata[i].key.substr(prefix.size());
    if (std::find(std::begin(kKnownKeys), std::end(kKnownKeys), name) != std::end(kKnownKeys)) continue;
    if (is_own(fields.architecture(), name)) continue;
    bool known = false;
    if (const std::optional<double> off = off_value(name)) {
      known = true;
      QINFER_ASSIGN(const auto value, metadata.number(metadata[i].key));
      if (*value != *off)
        return error(Code::unsupported, "{}: key \"{}\" is {}, only {} is supported for this architecture",
                     fields.file(), metadata[i].key, *value, *off);
    }
    for (const auto& boolean : kBooleanKeys) {
      if (boolean.name != name) continue;
      known = true;
      QINFER_ASSIGN(const auto value, metadata.boolean(metadata[i].key));
      if (*value != boolean.value)
        return error(Code::unsupported, "{}: key \"{}\" is {}, only {} is supported", fields.file(), metadata[i].key,
                     *value, boolean.value);
    }
    if (!known)
      return error(Code::unsupported, "{}: the key \"{}\" is not known, and may change what the model computes",
                   fields.file(), metadata[i].key);
  }
  QINFER_ASSIGN(const auto version, metadata.integer("general.quantization_version", 0, 1 << 20));
  if (version.value_or(2) != 2)
    return error(Code::unsupported, "{}: key \"general.quantization_version\" is {}, supported is 2", fields.file(),
                 *version);
  return Status();
}

Status read_sizes(GgufFields& fields) {
  QINFER_ASSIGN(fields.n_layers, fields.required("block_count", 1, kMaxLayers));
  QINFER_ASSIGN(fields.hidden, fields.required("embedding_length", 1, kMaxDim));
  QINFER_ASSIGN(const std::int64_t context, fields.required("context_length", 1, kMaxContext));
  QINFER_ASSIGN(const auto heads, fields.same_in_layers("attention.head_count", 1, kMaxDim));
  if (!heads) return fields.missing("attention.head_count");
  fields.heads = *heads;
  QINFER_ASSIGN(const auto kv_heads, fields.same_in_layers("attention.head_count_kv", 1, kMaxDim));
  QINFER_ASSIGN(const auto key_length, fields.integer("attention.key_length", 2, 1024));
  QINFER_ASSIGN(const auto value_length, fields.integer("attention.value_length", 2, 1024));
  if (!key_length && fields.hidden % fields.heads != 0) return fields.missing("attention.key_length");
  fields.head_dim = key_length.value_or(fields.hidden / fields.heads);
  if (value_length.value_or(fields.hidden / fields.heads) != fields.head_dim && (value_length || key_length))
    return error(Code::unsupported, "{}: values of {} dimensions and keys of {}, expected as many", fields.file(),
                 value_length.value_or(fields.hidden / fields.heads), fields.head_dim);
  QINFER_ASSIGN(const auto ffn, fields.same_in_layers("feed_forward_length", 0, kMaxDim));
  QINFER_ASSIGN(const auto expert_ffn, fields.integer("expert_feed_forward_length", 0, kMaxDim));
  fields.ffn = ffn.value_or(0) != 0 ? *ffn : expert_ffn.value_or(0);
  if (fields.ffn == 0) return fields.missing("feed_forward_length");
  QINFER_ASSIGN(auto eps, fields.number(fields.architecture().eps_key, 0, 1));
  if (const std::string_view other = fields.architecture().other_eps_key; !eps && !other.empty()) {
    QINFER_ASSIGN(eps, fields.number(other, 0, 1));
  }
  if (!eps) return fields.missing(fields.architecture().eps_key);
  const formats::GgufTensor* embedding = fields.gguf().find("token_embd.weight");
  const GgufValue* tokens = fields.metadata().find("tokenizer.ggml.tokens");
  const std::uint64_t vocab = embedding != nullptr ? embedding->dims[1] : tokens != nullptr ? tokens->count : 0;
  if (vocab < 1 || vocab > static_cast<std::uint64_t>(kMaxVocab))
    return error_at(Code::format, -1, "{}: a vocabulary of {} tokens, expected 1 to {}", fields.file(), vocab,
                    kMaxVocab);
  fields.vocab = static_cast<std::int64_t>(vocab);
  fields.add("vocab_size", fields.vocab);
  fields.add("hidden_size", fields.hidden);
  fields.add("intermediate_size", fields.ffn);
  fields.add("num_hidden_layers", fields.n_layers);
  fields.add("num_attention_heads", fields.heads);
  fields.add("num_key_value_heads", kv_heads.value_or(fields.heads));
  fields.add("head_dim", fields.head_dim);
  fields.add("max_position_embeddings", context);
  for (const Architecture* row : all_architectures())
    if (row->name == fields.architecture().hugging_face) fields.add(row->eps_field, *eps);
  return Status();
}

Status add_yarn_scaling(GgufFields& fields, double factor) {
  QINFER_ASSIGN(const auto original, fields.integer("rope.scaling.original_context_length", 1, kMaxContext));
  QINFER_ASSIGN(const auto fast, fields.number("rope.scaling.yarn_beta_fast", 1e-3, 1e6));
  QINFER_ASSIGN(const auto slow, fields.number("rope.scaling.yarn_beta_slow", 1e-3, 1e6));
  QINFER_ASSIGN(const auto attention, fields.number("rope.scaling.attn_factor", 1e-3, 1e3));
  QINFER_ASSIGN(const auto yarn_attention, fields.number("rope.scaling.yarn_attn_factor", 1e-3, 1e3));
  QINFER_ASSIGN(const auto extrapolation, fields.number("rope.scaling.yarn_ext_factor", -1, 1));
  if (extrapolation && *extrapolation != -1 && *extrapolation != 1)
    return error(Code::unsupported, "{}: key \"{}\" is {}, supported is 1", fields.file(),
                 fields.key("rope.scaling.yarn_ext_factor"), *extrapolation);
  fields.begin_object("rope_scaling");
  fields.add_text("rope_type", "yarn");
  fields.add("factor", factor);
  if (original) fields.add("original_max_position_embeddings", *original);
  if (fast) fields.add("beta_fast", *fast);
  if (slow) fields.add("beta_slow", *slow);
  // The second is what the checkpoint had; llama.cpp multiplies the paper's factor with the first.
  const double papers = factor <= 1 ? 1.0 : 0.1 * std::log(factor) + 1.0;
  bool own_factor = false;
  if (fields.architecture().read_yarn != nullptr) {
    QINFER_ASSIGN(own_factor, fields.architecture().read_yarn(fields));
  }
  if (!own_factor && (attention || yarn_attention))
    fields.add("attention_factor", yarn_attention.value_or(attention.value_or(1) * papers));
  fields.end_object();
  return Status();
}

/// Two divisors of each frequency, and the key of the attention factor, which has the whole of it here.
Status add_longrope(GgufFields& fields, const GgufDivisors& divisors) {
  QINFER_ASSIGN(const std::int64_t original, fields.required("rope.scaling.original_context_length", 1, kMaxContext));
  QINFER_ASSIGN(const auto attention, fields.number("rope.scaling.attn_factor", 1e-3, 1e3));
  if (divisors.short_context.empty() || divisors.long_context.empty())
    return error_at(Code::format, -1, "{}: of the tensors \"{}\" and \"{}\" one is missing", fields.file(),
                    kShortDivisors, kLongDivisors);
  fields.begin_object("rope_scaling");
  fields.add_text("rope_type", "longrope");
  fields.add_list("short_factor", divisors.short_context);
  fields.add_list("long_factor", divisors.long_context);
  fields.add("original_max_position_embeddings", original);
  fields.add("attention_factor", attention.value_or(1));
  fields.end_object();
  return Status();
}

/// The object rope_scaling, if the file has one.
Status add_rope_scaling(GgufFields& fields, const GgufDivisors& divisors) {
  QINFER_ASSIGN(const auto type, fields.text("rope.scaling.type"));
  QINFER_ASSIGN(auto factor, fields.number("rope.scaling.factor", 0, 1e6));
  QINFER_ASSIGN(const auto legacy, fields.number("rope.scale_linear", 0, 1e6));
  if (!factor) factor = legacy;
  if (factor.value_or(0) != 0 && *factor < 1e-3)
    return error_at(Code::format, -1, "{}: key \"{}\" is {}, expected 0 (none), or 0.001 to 1e6", fields.file(),
                    fields.key("rope.scaling.factor"), *factor);
  const std::string_view kind = type.value_or(factor ? "linear" : "none");
  if (kind != "none" && kind != "linear" && kind != "yarn" && kind != "longrope")
    return error(Code::unsupported, "{}: key \"{}\" is \"{}\", known are none, linear, yarn and longrope",
                 fields.file(), fields.key("rope.scaling.type"), formats::printable(kind));
  const bool longrope = !divisors.short_context.empty() || !divisors.long_context.empty();
  if (longrope && (!divisors.all.empty() || kind == "linear" || kind == "yarn"))
    return error(Code::unsupported, "{}: both \"{}\" and {} scale rotary embeddings", fields.file(), kLongDivisors,
                 divisors.all.empty() ? fields.key("rope.scaling.type") : std::string(kRopeDivisors));
  if (longrope || kind == "longrope") return add_longrope(fields, divisors);
  const bool scales = kind != "none" && factor.value_or(0) != 0 && *factor != 1;
  if (!divisors.all.empty()) {
    if (scales)
      return error(Code::unsupported, "{}: both \"{}\" and the tensor \"rope_freqs.weight\" scale rotary embeddings",
                   fields.file(), fields.key("rope.scaling.factor"));
    fields.begin_object("rope_scaling");
    fields.add_text("rope_type", "divisors");
    fields.add_list("divisors", divisors.all);
    fields.end_object();
    return Status();
  }
  if (!scales) return Status();
  if (kind == "yarn") return add_yarn_scaling(fields, *factor);
  fields.begin_object("rope_scaling");
  fields.add_text("rope_type", "linear");
  fields.add("factor", *factor);
  fields.end_object();
  return Status();
}

Status read_rope(GgufFields& fields, const GgufDivisors& divisors) {
  QINFER_ASSIGN(const auto base, fields.number("rope.freq_base", 1e-3, 1e15));
  if (!base && fields.architecture().needs_rope_base) return fields.missing("rope.freq_base");
  fields.add("rope_theta", base.value_or(10000.0));
  QINFER_ASSIGN(const auto dims, fields.integer("rope.dimension_count", 0, 1024));
  if (dims.value_or(fields.head_dim) != fields.head_dim) {
    if (!fields.architecture().fused)
      return error(Code::unsupported, "{}: key \"{}\" is {}, of {} dimensions of a head: expected all of them",
                   fields.file(), fields.key("rope.dimension_count"), *dims, fields.head_dim);
    fields.add("partial_rotary_factor", static_cast<double>(*dims) / static_cast<double>(fields.head_dim));
  }
  return add_rope_scaling(fields, divisors);
}

/// Files do not say which biases a model has; their tensors do.
Status read_biases(GgufFields& fields) {
  const bool attention = fields.has_tensor("blk.0.attn_q.bias");
  if (fields.architecture().names != nullptr) return Status();  // its kind says it
  if (attention && !fields.architecture().qkv_bias) fields.add("attention_bias", true);
  if (fields.has_tensor("blk.0.ffn_down.bias")) fields.add("mlp_bias", true);
  return Status();
}

Status read_experts(GgufFields& fields) {
  const GgufExperts kind = fields.architecture().experts;
  if (kind == GgufExperts::none) return Status();
  const bool mixtral = kind == GgufExperts::mixtral;
  QINFER_ASSIGN(const auto count, fields.integer("expert_count", 0, kMaxExperts));
  if (count.value_or(0) == 0) {
    if (mixtral) return Status();
    return fields.missing("expert_count");
  }
  QINFER_ASSIGN(const std::int64_t used, fields.required("expert_used_count", 1, kMaxExperts));
  fields.add("num_experts_per_tok", used);
  if (mixtral) {
    fields.set_hugging_face("MixtralForCausalLM");
    fields.add("num_local_experts", *count);
    return Status();
  }
  fields.add("num_experts", *count);
  QINFER_ASSIGN(const auto width, fields.integer("expert_feed_forward_length", 0, kMaxDim));
  fields.add("moe_intermediate_size", width.value_or(0) != 0 ? *width : fields.ffn / used);
  fields.add("norm_topk_prob", kind == GgufExperts::qwen3);
  std::vector<std::int64_t> dense;
  for (std::int64_t i = 0; i < fields.n_layers; ++i)
    if (!fields.has_tensor(format_text("blk.{}.ffn_gate_inp.weight", i))) dense.push_back(i);
  if (!dense.empty()) fields.add_list("mlp_only_layers", dense);
  if (kind == GgufExperts::qwen2) {
    QINFER_ASSIGN(const std::int64_t shared, fields.required("expert_shared_feed_forward_length", 1, kMaxDim));
    fields.add("shared_expert_intermediate_size", shared);
  }
  return Status();
}

bool is_causal(const GgufArchitecture& architecture) {
  for (const Architecture* row : all_architectures())
    if (row->name == architecture.hugging_face) return row->causal;
  return true;
}

/// A decoder whose score for a pair of texts is the logit of "yes" less that of "no": the file has these two rows of
/// the LM head alone.
Status read_score(GgufFields& fields) {
  const formats::GgufTensor* tensor = fields.gguf().find(kScoreTensor);
  QINFER_ASSIGN(const auto labels, fields.metadata().strings(fields.key("classifier.output_labels")));
  const bool is_yes_no = labels && labels->size() == 2 && (*labels)[0] == "yes" && (*labels)[1] == "no";
  if (!is_yes_no || tensor->n_dims != 2 || tensor->dims[0] != static_cast<std::uint64_t>(fields.hidden) ||
      tensor->dims[1] != 2)
    return error(
        Code::unsupported,
        "{}: tensor \"{}\" has the shape {} and key \"{}\" {} labels, supported are [2, {}] and the labels yes "
        "and no",
        fields.file(), kScoreTensor, model::shape_text(tensor->shape()), fields.key("classifier.output_labels"),
        labels ? labels->size() : 0, fields.hidden);
  fields.add_text("qinfer_pooling", "last");
  fields.add_list("qinfer_dense", std::vector<std::int64_t>{2});
  fields.add("qinfer_scores", true);
  return Status();
}

/// What makes one vector of a text: the mean of all tokens, the first or the last one; a file may say that nothing
/// does. In decoders the first token does not see the text.
Status read_pooling(GgufFields& fields) {
  QINFER_ASSIGN(const auto pooling, fields.integer("pooling_type", -1, INT32_MAX));
  if (!pooling || *pooling == -1 || *pooling == 0) return Status();
  if (fields.architecture().names != nullptr && *pooling == 4) return Status();  // ranks are what its classifier gives
  const bool causal = is_causal(fields.architecture());
  if (*pooling == 4 && causal && fields.has_tensor(kScoreTensor)) return read_score(fields);
  const std::string_view name = *pooling == 1              ? "mean"
                                : *pooling == 2 && !causal ? "first"
                                : *pooling == 3            ? "last"
                                                           : "";
  if (name.empty())
    return error(Code::unsupported, "{}: key \"{}\" is {}, supported are 0 (none), 1 (mean){} and 3 (last)",
                 fields.file(), fields.key("pooling_type"), *pooling, causal ? "" : ", 2 (first)");
  fields.add_text("qinfer_pooling", name);
  return Status();
}

/// The layers after pooling, whose tensors tell their widths; keys may tell them, too.
Status read_dense(GgufFields& fields) {
  std::vector<std::int64_t> widths;
  std::uint64_t inputs = static_cast<std::uint64_t>(fields.hidden);
  for (const std::string_view name : {"dense_2", "dense_3"}) {
    const formats::GgufTensor* tensor = fields.gguf().find(format_text("{}.weight", name));
    if (tensor == nullptr) continue;
    if (tensor->n_dims != 2 || tensor->dims[0] != inputs || tensor->dims[1] > static_cast<std::uint64_t>(kMaxDim))
      return error_at(Code::format, static_cast<std::int64_t>(tensor->offset),
                      "{}: tensor \"{}\" has the shape {}, expected rows of {}", fields.file(), tensor->name,
                      model::shape_text(tensor->shape()), inputs);
    const std::uint64_t outputs = tensor->dims[1];
    for (const auto& [end, width] : {std::pair("_feat_in", inputs), std::pair("_feat_out", outputs)}) {
      const std::string key = format_text("{}{}", name, end);
      QINFER_ASSIGN(const auto stated, fields.integer(key, 0, kMaxDim));
      if (stated && static_cast<std::uint64_t>(*stated) != width)
        return error_at(Code::format, -1, "{}: key \"{}\" is {}, tensor \"{}\" has {}", fields.file(), fields.key(key),
                        *stated, tensor->name, width);
    }
    widths.push_back(static_cast<std::int64_t>(outputs));
    inputs = outputs;
  }
  if (!widths.empty()) fields.add_list("qinfer_dense", widths);
  return Status();
}

/// Files say that there is no such token by no key, or by -1 in 32 bits.
Status read_tokens(GgufFields& fields) {
  const formats::GgufValue* tokens = fields.metadata().find("tokenizer.ggml.tokens");
  const std::int64_t count =
      tokens != nullptr ? std::min(fields.vocab, static_cast<std::int64_t>(tokens->count)) : fields.vocab;
  QINFER_ASSIGN(const auto model, fields.metadata().string("tokenizer.ggml.model"));
  const bool by_scores = model.value_or("") == "llama" && !fields.metadata().has("tokenizer.huggingface.json");
  const auto token = [&](std::string_view name, std::int64_t otherwise) -> Result<std::int64_t> {
    QINFER_ASSIGN(const auto id,
                  fields.metadata().integer(format_text("tokenizer.ggml.{}_token_id", name), -1, UINT32_MAX));
    const std::int64_t known = id.value_or(otherwise < count ? otherwise : -1);
    return known < count ? known : -1;  // the reader of the tokenizer has a note on one that is beyond
  };
  QINFER_ASSIGN(const std::int64_t bos, token("bos", by_scores ? 1 : -1));
  fields.add("bos_token_id", bos);
  std::vector<std::int64_t> ends;
  for (const std::string_view name : {"eos", "eot", "eom"}) {
    QINFER_ASSIGN(const std::int64_t end, token(name, by_scores && name == "eos" ? 2 : -1));
    if (end >= 0 && std::find(ends.begin(), ends.end(), end) == ends.end()) ends.push_back(end);
  }
  fields.add_list("eos_token_id", ends);
  return Status();
}

}  // namespace

Result<const GgufArchitecture*> find_gguf_architecture(const GgufMetadata& metadata) {
  QINFER_ASSIGN(const auto name, metadata.string("general.architecture"));
  if (!name) return error_at(Code::format, -1, "{}: the key \"general.architecture\" is missing", metadata.file());
  std::string known;
  for (const GgufArchitecture* architecture : all_gguf_architectures()) {
    if (architecture->name == *name) return architecture;
    known.append(known.empty() ? "" : ", ").append(architecture->name);
  }
  return error(Code::unsupported, "{}: key \"general.architecture\" is \"{}\", known are {}", metadata.file(),
               formats::printable(*name), known);
}

Result<formats::JsonDocument> gguf_config(const Gguf& gguf, const GgufArchitecture& architecture,
                                          const GgufDivisors& divisors) {
  GgufFields fields(gguf, architecture);
  QINFER_TRY(check_keys(fields));
  QINFER_TRY(read_sizes(fields));
  QINFER_TRY(read_rope(fields, divisors));
  QINFER_TRY(read_biases(fields));
  QINFER_TRY(read_experts(fields));
  if (architecture.read_own != nullptr) QINFER_TRY(architecture.read_own(fields));
  QINFER_TRY(read_tokens(fields));
  QINFER_TRY(read_pooling(fields));
  QINFER_TRY(read_dense(fields));
  fields.add("tie_word_embeddings", !fields.has_tensor("output.weight"));
  return fields.take();
}

}  // namespace qinfer::source
