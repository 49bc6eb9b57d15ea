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

constexpr EncoderTensor kBertTensors[] = {
    {Role::embedding, "embeddings.word_embeddings", "token_embd"},
    {Role::positions, "embeddings.position_embeddings", "position_embd"},
    {Role::types, "embeddings.token_type_embeddings", "token_types"},
    {Role::attn_norm, "output.LayerNorm", "layer_output_norm"},
    {Role::ffn_norm, "attention.output.LayerNorm", "attn_output_norm"},
    {Role::q, "attention.self.query", "attn_q"},
    {Role::k, "attention.self.key", "attn_k"},
    {Role::v, "attention.self.value", "attn_v"},
    {Role::o, "attention.output.dense", "attn_output"},
    {Role::gate, "intermediate.dense", "ffn_up"},
    {Role::down, "output.dense", "ffn_down"},
};
constexpr EncoderTensor kBertClassifies[] = {
    {Role::classifier_dense, "pooler.dense", "cls"},
    {Role::classifier_out, "classifier", "cls.output", {}, {}, true},
};
constexpr EncoderTensor kRobertaClassifies[] = {
    {Role::classifier_dense, "classifier.dense", "cls", {}, {}, true},
    {Role::classifier_out, "classifier.out_proj", "cls.output", {}, {}, true},
};
constexpr EncoderTensor kBertEmbeddingNorm = {Role::attn_norm, "embeddings.LayerNorm", "token_embd_norm"};
constexpr EncoderNames kBertNames = {"encoder.layer.", kBertEmbeddingNorm, true, kBertTensors, kBertClassifies};
constexpr EncoderNames kRobertaNames = {"encoder.layer.", kBertEmbeddingNorm, true, kBertTensors, kRobertaClassifies};

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
                             .names = &kBertNames};

namespace {

constexpr Architecture roberta() {
  Architecture row = kBert;
  row.name = "RobertaModel";
  row.also = kAlsoRoberta;
  row.read_own = read_roberta;
  row.prefix = "roberta.";
  row.names = &kRobertaNames;
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

}  // namespace

constexpr GgufArchitecture kGgufBert{.name = "bert",
                                     .hugging_face = "BertModel",
                                     .also = kAlsoInGguf,
                                     .eps_key = "attention.layer_norm_epsilon",
                                     .own_keys = kBertKeys,
                                     .read_own = read_bert_keys,
                                     .names = &kBertNames};

}  // namespace qinfer::source
