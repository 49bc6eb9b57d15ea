// BERT (MiniLM, BGE, E5, GTE, mxbai, Arctic) and RoBERTa (XLM-R: BGE-M3, multilingual E5): learned positions and token
// types, norms of sums, and networks of two matrices. They differ in where positions begin, and in the names of the
// layers that classify.
#include "base/format.h"
#include "source/architectures/rows.h"
#include "source/hf_encoder.h"

namespace qinfer::source {
namespace {

using formats::FieldReader;
using model::ModelSpec;
using model::Role;
using model::TensorId;

Status read_bert(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  QINFER_TRY(read_encoder(fields, true, spec));
  for (model::LayerSpec& layer : spec.layers) layer.ffn.has_up = false;
  add_positions(0, spec);
  return Status();
}

/// The position of a token is counted from that after the padding's id on.
Status read_roberta(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  QINFER_ASSIGN(const auto padding, fields.integer("pad_token_id", 0, kMaxVocab));
  const std::int64_t unused = padding.value_or(1) + 1;
  if (unused >= spec.context_tokens)
    return error_at(Code::format, -1,
                    "{}: \"max_position_embeddings\" is {}, which leaves no position after \"pad_token_id\" ({})",
                    fields.where(), spec.context_tokens, unused - 1);
  QINFER_TRY(read_bert(fields, architecture, spec));
  add_positions(static_cast<std::uint32_t>(unused), spec);
  return Status();
}

template <ReadFields read>
Status read_classifying(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  QINFER_TRY(read(fields, architecture, spec));
  QINFER_ASSIGN(spec.classifier.n_labels, read_labels(fields));
  return Status();
}

/// The name of a tensor after the prefix, without its end.
std::string stem_of(const ModelSpec& spec, const TensorId& id) {
  const std::string layer = format_text("encoder.layer.{}.", id.layer);
  switch (id.role) {
    case Role::embedding: return "embeddings.word_embeddings";
    case Role::positions: return "embeddings.position_embeddings";
    case Role::types: return "embeddings.token_type_embeddings";
    case Role::ffn_norm:
    case Role::ffn_norm_bias: return layer + "attention.output.LayerNorm";
    case Role::attn_norm:
    case Role::attn_norm_bias:
    case Role::final_norm:
    case Role::final_norm_bias: {
      const auto sum = layer_of_sum(spec, id);
      return sum ? format_text("encoder.layer.{}.output.LayerNorm", *sum) : "embeddings.LayerNorm";
    }
    case Role::q:
    case Role::q_bias: return layer + "attention.self.query";
    case Role::k:
    case Role::k_bias: return layer + "attention.self.key";
    case Role::v:
    case Role::v_bias: return layer + "attention.self.value";
    case Role::o:
    case Role::o_bias: return layer + "attention.output.dense";
    case Role::gate:
    case Role::gate_bias: return layer + "intermediate.dense";
    case Role::down:
    case Role::down_bias: return layer + "output.dense";
    case Role::lm_head:
    case Role::classifier_dense:
    case Role::classifier_dense_bias:
    case Role::classifier_norm:
    case Role::classifier_norm_bias:
    case Role::classifier_out:
    case Role::classifier_out_bias:
    case Role::attn_post_norm:
    case Role::ffn_post_norm:
    case Role::q_norm:
    case Role::k_norm:
    case Role::up_bias:
    case Role::up:
    case Role::router:
    case Role::shared_router:
    case Role::shared_gate:
    case Role::shared_up:
    case Role::shared_down:
    case Role::dense_first:
    case Role::dense_first_bias:
    case Role::dense_second:
    case Role::dense_second_bias: break;
  }
  return {};
}

bool is_of_classifier(Role role, Role matrix, Role bias) { return role == matrix || role == bias; }

std::string bert_name(const ModelSpec& spec, const TensorId& id, std::string_view prefix) {
  const std::string_view end = name_end(id.role);
  if (is_of_classifier(id.role, Role::classifier_dense, Role::classifier_dense_bias))
    return format_text("{}pooler.dense{}", prefix, end);
  if (is_of_classifier(id.role, Role::classifier_out, Role::classifier_out_bias))
    return format_text("classifier{}", end);
  return format_text("{}{}{}", prefix, stem_of(spec, id), end);
}

std::string roberta_name(const ModelSpec& spec, const TensorId& id, std::string_view prefix) {
  const std::string_view end = name_end(id.role);
  if (is_of_classifier(id.role, Role::classifier_dense, Role::classifier_dense_bias))
    return format_text("classifier.dense{}", end);
  if (is_of_classifier(id.role, Role::classifier_out, Role::classifier_out_bias))
    return format_text("classifier.out_proj{}", end);
  return format_text("{}{}{}", prefix, stem_of(spec, id), end);
}

constexpr std::string_view kAlsoBert[] = {"BertForMaskedLM", "BertForPreTraining"};
constexpr std::string_view kAlsoRoberta[] = {"RobertaForMaskedLM", "XLMRobertaModel", "XLMRobertaForMaskedLM",
                                             "CamembertModel", "CamembertForMaskedLM"};
constexpr std::string_view kAlsoClassifying[] = {"XLMRobertaForSequenceClassification"};

}  // namespace

constexpr Architecture kBert{.name = "BertModel",
                             .also = kAlsoBert,
                             .causal = false,
                             .activation_name = "gelu",
                             .activation = Activation::gelu_erf,
                             .norms = kNormsOfSums,
                             .norm_kind = model::NormKind::centred_with_bias,
                             .eps_field = "layer_norm_eps",
                             .read_own = read_bert,
                             .read_ropes = read_no_rope,
                             .prefix = "bert.",
                             .whole_name = bert_name};

namespace {

constexpr Architecture roberta() {
  Architecture row = kBert;
  row.name = "RobertaModel";
  row.also = kAlsoRoberta;
  row.read_own = read_roberta;
  row.prefix = "roberta.";
  row.whole_name = roberta_name;
  return row;
}

constexpr Architecture classifying(const Architecture& of, std::string_view name, ReadFields read,
                                   std::span<const std::string_view> also) {
  Architecture row = of;
  row.name = name;
  row.also = also;
  row.read_own = read;
  return row;
}

}  // namespace

constexpr Architecture kRoberta = roberta();
constexpr Architecture kBertClassifier =
    classifying(kBert, "BertForSequenceClassification", read_classifying<read_bert>, {});
constexpr Architecture kRobertaClassifier =
    classifying(kRoberta, "RobertaForSequenceClassification", read_classifying<read_roberta>, kAlsoClassifying);

namespace {

constexpr std::string_view kBertKeys[] = {"attention.causal"};
constexpr std::string_view kAlsoInGguf[] = {"BertForSequenceClassification"};

/// Files of RoBERTa have no rows of positions before that of the first token, and are as BERT's.
Status read_bert_keys(GgufFields& fields) {
  if (fields.has_tensor("cls.output.weight")) fields.set_hugging_face("BertForSequenceClassification");
  if (fields.has_tensor("cls.output.weight") && !fields.has_tensor("cls.weight"))
    return error(Code::unsupported,
                 "{}: the classifier \"cls.output.weight\" is there without \"cls.weight\", the layer before it, which "
                 "llama.cpp's converter leaves out of BERT: use the checkpoint",
                 fields.file());
  return add_encoder_fields(fields);
}

GgufPlace bert_place(const ModelSpec& spec, const TensorId& id) { return {gguf_encoder_name(spec, id), {}}; }

}  // namespace

constexpr GgufArchitecture kGgufBert{.name = "bert",
                                     .hugging_face = "BertModel",
                                     .also = kAlsoInGguf,
                                     .eps_key = "attention.layer_norm_epsilon",
                                     .own_keys = kBertKeys,
                                     .read_own = read_bert_keys,
                                     .place = bert_place};

}  // namespace qinfer::source
