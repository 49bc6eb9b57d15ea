// See hf_config.h. Field semantics follow transformers' configuration classes; where versions 4 and 5 spell a field
// differently both are read, and a contradiction between the two is an error.
#include "source/hf_config.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/format.h"
#include "source/hf_experts.h"
#include "source/hf_modules.h"

namespace qinfer::source {
namespace {

using formats::FieldReader;
using formats::find_field;
using formats::Json;
using model::AttentionSpec;
using model::LayerSpec;
using model::ModelSpec;

/// Fields that would change the result: refused unless they have the value that means "off", or the architecture names
/// them as its own. Those of one architecture alone are in its row.
struct ForeignField {
  std::string_view name;
  double off;
};
constexpr ForeignField kForeignFields[] = {
    {"partial_rotary_factor", 1},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"clip_qkv", 0},
    {"logit_scale", 1},
    {"num_experts", 0},
    {"num_local_experts", 0},
    {"num_nextn_predict_layers", 0},
    {"hidden_size_per_layer_input", 0},
};

bool is_own(const Architecture& architecture, std::string_view field) {
  const auto own = architecture.own_fields;
  return std::any_of(own.begin(), own.end(), [field](const OwnName& row) { return row.name == field; });
}

/// The ending of classes with a layer over the last token in the place of the LM head.
constexpr std::string_view kClassifies = "ForSequenceClassification";

/// A decoder that classifies is read as the one that writes: "Qwen3ForSequenceClassification" as "Qwen3ForCausalLM".
/// Empty for other names.
std::string decoder_of(std::string_view name) {
  if (!name.ends_with(kClassifies)) return {};
  name.remove_suffix(kClassifies.size());
  return std::string(name) + "ForCausalLM";
}

bool classifies(const FieldReader& fields) {
  return find_field(fields.object(), "architectures")->begin()->text().ends_with(kClassifies);
}

Result<const Architecture*> find_architecture(const FieldReader& fields) {
  const Json* list = find_field(fields.object(), "architectures");
  if (list == nullptr) return error_at(Code::format, -1, "{}: the field \"architectures\" is missing", fields.where());
  if (!list->is_array() || list->size() != 1 || !list->begin()->is_string())
    return error_at(Code::format, -1, "{}: \"architectures\" must be a list of one name", fields.where());
  const std::string_view name = list->begin()->text();
  const std::string decoder = decoder_of(name);
  std::string known;
  for (const Architecture* architecture : all_architectures()) {
    const auto also = architecture->also;
    if (architecture->name == name || std::find(also.begin(), also.end(), name) != also.end()) return architecture;
    if (architecture->name == decoder || architecture->classifier == name) return architecture;
    known.append(known.empty() ? "" : ", ").append(architecture->name);
  }
  return error(Code::unsupported, "{}: \"architectures\" names {}, known are {}", fields.where(), name, known);
}

constexpr std::string_view kTextConfig = "text_config";

/// The fields of a model's text, and how they are read.
struct Text {
  FieldReader fields;
  const Architecture* architecture;
};

/// Where the row says that a model has other parts than its text, the text.
Result<Text> find_text(const FieldReader& fields, const Architecture& row) {
  if (row.texts.empty()) return Text{fields, &row};
  const Json* object = find_field(fields.object(), kTextConfig);
  if (object == nullptr) {
    for (const TextModel& text : row.texts)
      if (text.model_type.empty()) return Text{fields, text.architecture};
    return error_at(Code::format, -1, "{}: the field \"{}\" is missing", fields.where(), kTextConfig);
  }
  if (!object->is_object())
    return error_at(Code::format, -1, "{}: \"{}\" must be an object, not {}", fields.where(), kTextConfig,
                    formats::type_name(object->type()));
  const FieldReader inner(*object, format_text("{}: {}", fields.where(), kTextConfig));
  QINFER_ASSIGN(const auto type, inner.string("model_type"));
  if (!type) return Text{inner, row.texts.front().architecture};
  std::string known;
  for (const TextModel& text : row.texts) {
    if (text.model_type == *type) return Text{inner, text.architecture};
    if (!text.model_type.empty()) known.append(known.empty() ? "" : ", ").append(text.model_type);
  }
  return error(Code::unsupported, "{}: \"model_type\" is \"{}\", known for {} are {}", inner.where(), *type, row.name,
               known);
}

/// Whether the LM head is the embedding. A model and its text may both say so; where they contradict each other, the
/// checkpoint decides, as where neither does.
Result<Tied> read_tied(const FieldReader& all, const FieldReader& text) {
  const auto state = [](bool tied) { return tied ? Tied::yes : Tied::no; };
  QINFER_ASSIGN(const auto outer, all.boolean("tie_word_embeddings"));
  QINFER_ASSIGN(const auto inner, text.boolean("tie_word_embeddings"));
  if (outer && inner && *outer != *inner) return Tied::unstated;
  return outer ? state(*outer) : inner ? state(*inner) : Tied::unstated;
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
  } else if (!both_ways.value_or(!architecture.states_direction)) {
    return error(Code::unsupported,
                 "{}: \"use_bidirectional_attention\" is not true, {} is run as a bidirectional encoder only",
                 fields.where(), architecture.name);
  }
  return Status();
}

Status refuse_quantised(const FieldReader& fields) {
  if (!fields.has("quantization_config")) return Status();
  return error(Code::unsupported, "{}: \"quantization_config\": quantized checkpoints are not supported",
               fields.where());
}

Status refuse_foreign_field(const FieldReader& fields, const Architecture& architecture, std::string_view name,
                            double off) {
  QINFER_ASSIGN(const auto value, fields.number(name));
  if (!value || *value == off || is_own(architecture, name)) return Status();
  return error(Code::unsupported, "{}: \"{}\" is {}, only {} is supported for this architecture", fields.where(), name,
               *value, off);
}

Status refuse_foreign_fields(const FieldReader& fields, const Architecture& architecture) {
  QINFER_TRY(refuse_quantised(fields));
  for (const ForeignField& field : kForeignFields)
    QINFER_TRY(refuse_foreign_field(fields, architecture, field.name, field.off));
  for (const Architecture* row : all_architectures())
    for (const OwnName& field : row->own_fields)
      if (field.off) QINFER_TRY(refuse_foreign_field(fields, architecture, field.name, *field.off));
  return check_causality(fields, architecture);
}

/// The activation of all networks.
Status read_activation(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  Activation activation = architecture.activation;
  for (const std::string_view key : {"hidden_act", "hidden_activation"}) {
    QINFER_ASSIGN(const auto stated, fields.string(key));
    const std::string_view alias = architecture.activation_alias;
    const bool is_alias = !alias.empty() && key == "hidden_act" && stated == alias;
    if (!stated || *stated == architecture.activation_name || is_alias) continue;
    const auto others = architecture.activations;
    const auto found =
        std::find_if(others.begin(), others.end(), [&](const ActivationName& row) { return row.name == *stated; });
    if (found == others.end()) {
      std::string known = format_text("{}\"{}\"", others.empty() ? "only " : "", architecture.activation_name);
      for (const ActivationName& row : others) known += format_text(", \"{}\"", row.name);
      return error(Code::unsupported, "{}: \"{}\" is \"{}\", {} {} supported", fields.where(), key, *stated, known,
                   others.empty() ? "is" : "are");
    }
    activation = found->activation;
  }
  for (LayerSpec& layer : spec.layers) layer.ffn.activation = activation;
  return Status();
}

/// What an architecture has without a field.
Status read_defaults(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  spec.causal = architecture.causal;
  for (LayerSpec& layer : spec.layers) layer.norms = architecture.norms;
  spec.norm_kind = architecture.norm_kind;
  // As in f32; transformers rounds it to the type that it computes in.
  if (architecture.scaled_embedding)
    spec.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(spec.n_embd)));
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

/// The field of a size, by the architecture's name or the usual one.
std::string_view size_field(const FieldReader& fields, const Architecture& architecture, std::string_view usual) {
  for (const FieldName& name : architecture.field_names)
    if (name.usual == usual && fields.has(name.own)) return name.own;
  return usual;
}

/// A size that must be there where the architecture has no default (0).
Result<std::int64_t> read_size(const FieldReader& fields, const Architecture& architecture, std::string_view usual,
                               std::int64_t otherwise, std::int64_t max) {
  const std::string_view key = size_field(fields, architecture, usual);
  if (otherwise == 0) return fields.required_integer(key, 1, max);
  QINFER_ASSIGN(const auto value, fields.integer(key, 1, max));
  return value.value_or(otherwise);
}

Status read_eps(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  const std::string_view name = size_field(fields, architecture, architecture.eps_field);
  QINFER_ASSIGN(auto eps, fields.number(name));
  if (!eps && architecture.sizes.norm_eps != 0) eps = architecture.sizes.norm_eps;
  if (!eps) return error_at(Code::format, -1, "{}: the field \"{}\" is missing", fields.where(), name);
  if (!(*eps >= 0 && *eps <= 1))
    return error_at(Code::format, -1, "{}: \"{}\" is {}, expected 0 to 1", fields.where(), name, *eps);
  spec.norm_eps = static_cast<float>(*eps);
  return Status();
}

Status read_sizes(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  const auto u32 = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const SizeDefaults& otherwise = architecture.sizes;
  const auto read = [&](std::string_view usual, std::int64_t max, std::int64_t absent = 0) {
    return read_size(fields, architecture, usual, absent, max);
  };
  QINFER_ASSIGN(const std::int64_t vocab, read("vocab_size", kMaxVocab, otherwise.vocab));
  QINFER_ASSIGN(const std::int64_t hidden, read("hidden_size", kMaxDim));
  QINFER_ASSIGN(const std::int64_t ffn, read("intermediate_size", kMaxDim));
  QINFER_ASSIGN(const std::int64_t layers, read("num_hidden_layers", kMaxLayers));
  QINFER_ASSIGN(const std::int64_t heads, read("num_attention_heads", kMaxDim, otherwise.heads));
  QINFER_ASSIGN(const auto kv_heads, fields.integer("num_key_value_heads", 1, kMaxDim));
  QINFER_ASSIGN(const auto head_dim, fields.integer("head_dim", 2, 1024));
  QINFER_ASSIGN(const std::int64_t context, read("max_position_embeddings", kMaxContext, otherwise.context));
  spec.n_vocab = u32(vocab);
  spec.n_embd = u32(hidden);
  AttentionSpec attention;
  attention.n_heads = u32(heads);
  const bool states_kv_heads = fields.object().find("num_key_value_heads") != nullptr;
  const std::int64_t usual =
      states_kv_heads || architecture.default_kv_heads == 0 ? heads : architecture.default_kv_heads;
  attention.n_kv_heads = u32(kv_heads.value_or(usual));
  spec.context_tokens = u32(context);
  if (heads % attention.n_kv_heads != 0)
    return error_at(Code::format, -1,
                    "{}: \"num_attention_heads\" ({}) must be a multiple of \"num_key_value_heads\" ({})",
                    fields.where(), heads, attention.n_kv_heads);
  if (head_dim || architecture.default_head_dim != 0) {
    attention.head_dim = u32(head_dim.value_or(architecture.default_head_dim));
  } else {
    if (hidden % heads != 0)
      return error_at(
          Code::format, -1,
          "{}: \"hidden_size\" ({}) must be a multiple of \"num_attention_heads\" ({}) where \"head_dim\" is absent",
          fields.where(), hidden, heads);
    attention.head_dim = u32(hidden / heads);
  }
  if (attention.head_dim % 2 != 0 || attention.head_dim > 1024)
    return error(Code::unsupported, "{}: a head of {} dimensions: rotary embedding needs an even number up to 1024",
                 fields.where(), attention.head_dim);
  // With this bound no sum of sizes can overflow 64 bits.
  if (heads * attention.head_dim > kMaxDim)
    return error_at(Code::format, -1, "{}: \"num_attention_heads\" ({}) times \"head_dim\" ({}) is above {}",
                    fields.where(), heads, attention.head_dim, kMaxDim);
  QINFER_TRY(read_eps(fields, architecture, spec));
  LayerSpec layer;
  layer.mixer = attention;
  layer.ffn.width = u32(ffn);
  spec.layers.resize(static_cast<std::size_t>(layers), layer);
  return Status();
}

Status read_biases(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  QINFER_ASSIGN(const auto attention_bias, fields.boolean("attention_bias"));
  QINFER_ASSIGN(const auto mlp_bias, fields.boolean("mlp_bias"));
  QINFER_ASSIGN(const auto lm_head_bias, fields.boolean("lm_head_bias"));
  const bool attention = attention_bias.value_or(false);
  std::optional<bool> qkv_bias;
  if (architecture.qkv_bias_field) {
    QINFER_ASSIGN(qkv_bias, fields.boolean("qkv_bias"));
  }
  if (attention && !architecture.attention_bias && !architecture.qkv_bias)
    return error(Code::unsupported, "{}: \"attention_bias\" is true, which {} does not have", fields.where(),
                 architecture.name);
  if (mlp_bias.value_or(false) && !architecture.mlp_bias)
    return error(Code::unsupported, "{}: \"mlp_bias\" is true, which {} does not have", fields.where(),
                 architecture.name);
  if (lm_head_bias.value_or(false))
    return error(Code::unsupported, "{}: \"lm_head_bias\" is true, which {} does not have", fields.where(),
                 architecture.name);
  spec.each_attention([&](AttentionSpec& layer) {
    layer.qkv_bias = qkv_bias.value_or(architecture.qkv_bias || attention);
    layer.o_bias = attention && !architecture.qkv_bias;
    layer.qk_norm = architecture.qk_norm;
  });
  for (LayerSpec& layer : spec.layers) layer.ffn.bias = mlp_bias.value_or(false);
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
    AttentionSpec& reader = *spec.layers[i].attention();
    for (std::size_t j = 0; j < first; ++j) {
      const AttentionSpec& writer = *spec.layers[j].attention();
      if (writer.window == reader.window && writer.no_rope == reader.no_rope)
        reader.kv_source = static_cast<std::int32_t>(j);
    }
    if (reader.has_own_kv())
      return error_at(Code::format, -1,
                      "{}: \"num_kv_shared_layers\" is {}, but before layer {} there is none of its kind to share with",
                      fields.where(), *shared, i);
  }
  return Status();
}

/// A token id or a list of them, appended to `ids`. Some files write -1 for "none".
Status read_token_list(const FieldReader& fields, std::string_view key, const Json& value, std::uint32_t n_vocab,
                       std::vector<std::int32_t>& ids, Notes& notes) {
  const auto add = [&](const Json& item) {
    if (!item.is_integer() || item.integer() < -1)
      return error_at(Code::format, -1, "{}: \"{}\" holds {}, expected token ids below {}", fields.where(), key,
                      formats::json_text(item), n_vocab);
    if (item.integer() >= n_vocab)
      notes.add("{}: \"{}\" holds {}, but the model has only ids below {}: it is passed over", fields.where(), key,
                item.integer(), n_vocab);
    else if (item.integer() >= 0)
      ids.push_back(static_cast<std::int32_t>(item.integer()));
    return Status();
  };
  if (!value.is_array()) return add(value);
  for (const Json& item : value) QINFER_TRY(add(item));
  return Status();
}

Status read_tokens(const FieldReader& fields, ModelSpec& spec, Notes& notes) {
  if (const Json* value = find_field(fields.object(), "bos_token_id")) {
    std::vector<std::int32_t> ids;
    QINFER_TRY(read_token_list(fields, "bos_token_id", *value, spec.n_vocab, ids, notes));
    spec.bos_token = ids.empty() ? -1 : ids.front();
  }
  if (const Json* value = find_field(fields.object(), "eos_token_id")) {
    spec.end_tokens.clear();
    QINFER_TRY(read_token_list(fields, "eos_token_id", *value, spec.n_vocab, spec.end_tokens, notes));
  }
  return Status();
}

/// What makes the vector of a text, as a GGUF file says it (gguf_config.cpp); a directory has other files for that
/// (hf_modules.h).
Status read_embedding(const FieldReader& fields, ModelSpec& spec) {
  QINFER_ASSIGN(const auto pooling, fields.string("qinfer_pooling"));
  spec.embedding.pooling = spec.causal ? model::Pooling::last : model::Pooling::mean;
  if (pooling == "mean") spec.embedding.pooling = model::Pooling::mean;
  if (pooling == "first") spec.embedding.pooling = model::Pooling::first;
  if (pooling == "last") spec.embedding.pooling = model::Pooling::last;
  const Json* dense = find_field(fields.object(), "qinfer_dense");
  if (dense == nullptr || !dense->is_array()) return Status();
  for (const Json& outputs : *dense) {
    if (!outputs.is_integer() || outputs.integer() < 1 || outputs.integer() > kMaxDim ||
        spec.embedding.dense.size() == model::kMaxDense)
      return error_at(Code::format, -1, "{}: \"qinfer_dense\" is {}, expected at most {} widths", fields.where(),
                      formats::json_text(*dense), model::kMaxDense);
    spec.embedding.dense.push_back({spec.embedding_dims(), static_cast<std::uint32_t>(outputs.integer())});
  }
  return Status();
}

/// The layer over a decoder's last token.
Status read_classifier(const FieldReader& fields, ModelSpec& spec) {
  QINFER_ASSIGN(spec.classifier.n_labels, read_labels(fields));
  spec.classifier.is_last = true;
  spec.no_lm_head = true;
  return Status();
}

/// What gives a score: a classifier of one label, or two rows that a GGUF file has (gguf_config.cpp).
Status read_score(const FieldReader& fields, ModelSpec& spec) {
  if (spec.classifier.n_labels == 1) {
    spec.score.kind = model::ScoreKind::classifier;
    QINFER_TRY(read_score_activation(fields, spec));
  }
  QINFER_ASSIGN(const auto scores, fields.boolean("qinfer_scores"));
  if (!scores.value_or(false)) return Status();
  if (spec.embedding.dense.size() != 1 || spec.embedding_dims() != 2 || !spec.causal)
    return error_at(Code::format, -1, "{}: \"qinfer_scores\" is true, which needs a layer of two rows in a decoder",
                    fields.where());
  spec.score.kind = model::ScoreKind::dense;
  QINFER_ASSIGN(const auto tied, fields.boolean("tie_word_embeddings"));
  spec.no_lm_head = tied.value_or(false);  // a file of such a kind has no LM head, whether the model was tied or not
  return Status();
}

}  // namespace

const Json& text_fields(const Json& config) {
  const Json* text = config.is_object() ? find_field(config, kTextConfig) : nullptr;
  return text != nullptr ? *text : config;
}

Result<ParsedConfig> parse_hf_config(const formats::Json& config, std::string_view name, Notes& notes) {
  if (!config.is_object()) return error_at(Code::format, 0, "{}: expected a JSON object", name);
  const FieldReader all(config, std::string(name));
  QINFER_ASSIGN(const Architecture* row, find_architecture(all));
  QINFER_TRY(refuse_quantised(all));
  QINFER_ASSIGN(const Text text, find_text(all, *row));
  const FieldReader& fields = text.fields;
  const Architecture* architecture = text.architecture;
  ParsedConfig parsed;
  parsed.architecture = architecture;
  ModelSpec& spec = parsed.spec;
  spec.architecture = architecture->name;
  if (architecture != row)
    notes.add("{}: of {} the text alone is run, as {}: parts for images and sound are passed over", name, row->name,
              architecture->name);
  QINFER_TRY(refuse_foreign_fields(fields, *architecture));
  QINFER_TRY(read_sizes(fields, *architecture, spec));
  QINFER_TRY(read_activation(fields, *architecture, spec));
  QINFER_TRY(read_biases(fields, *architecture, spec));
  QINFER_TRY(read_experts(fields, architecture->experts, spec));
  QINFER_TRY(read_defaults(fields, *architecture, spec));
  if (architecture->read_own != nullptr) QINFER_TRY(architecture->read_own(fields, *architecture, spec));
  QINFER_TRY(architecture->read_windows(fields, *architecture, spec));
  QINFER_TRY(architecture->read_ropes(fields, *architecture, spec));
  QINFER_TRY(read_shared_kv(fields, spec));
  group_layers(spec);
  QINFER_TRY(read_tokens(fields, spec, notes));
  if (&fields.object() != &config) QINFER_TRY(read_tokens(all, spec, notes));
  QINFER_ASSIGN(parsed.tied, read_tied(all, fields));
  if (architecture->tied_by_default && parsed.tied == Tied::unstated) parsed.tied = Tied::yes;
  if (!spec.causal) parsed.tied = Tied::yes;  // there is no separate LM head
  if (spec.causal && classifies(all)) {
    QINFER_TRY(read_classifier(all, spec));
    parsed.tied = Tied::yes;
  }
  QINFER_TRY(read_embedding(fields, spec));
  QINFER_TRY(read_score(fields, spec));
  QINFER_ASSIGN(auto label, all.string("_name_or_path"));
  if (label) spec.name = std::move(*label);
  return parsed;
}

Status apply_generation_config(const formats::Json& config, std::string_view name, ModelSpec& spec, Notes& notes) {
  if (!config.is_object()) return error_at(Code::format, 0, "{}: expected a JSON object", name);
  return read_tokens(FieldReader(config, std::string(name)), spec, notes);
}

}  // namespace qinfer::source
