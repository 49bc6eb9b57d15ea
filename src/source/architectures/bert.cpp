// BERT (MiniLM, BGE, E5, GTE, mxbai, Arctic), RoBERTa (XLM-R: BGE-M3, multilingual E5) and MPNet: learned positions,
// norms of sums, and networks of two matrices. They differ in where positions begin, in names of tensors, and in that
// the first two have token types and MPNet adds to scores what the distance of two tokens says.
#include "base/format.h"
#include "model/distances.h"
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

/// Scores have added what the distance says. The position of a token is counted from 2 on whatever the padding's id is,
/// and there are 32 buckets whatever the field says: transformers fixes both.
Status read_mpnet(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  constexpr std::uint32_t kUnused = 2;
  QINFER_ASSIGN(const auto buckets, fields.integer("relative_attention_num_buckets", 1, kMaxDim));
  if (buckets.value_or(model::kDistanceBuckets) != model::kDistanceBuckets)
    return error(Code::unsupported, "{}: \"relative_attention_num_buckets\" is {}, only {} is supported",
                 fields.where(), *buckets, model::kDistanceBuckets);
  if (spec.context_tokens <= kUnused)
    return error_at(Code::format, -1, "{}: \"max_position_embeddings\" is {}, expected more than {}", fields.where(),
                    spec.context_tokens, kUnused);
  QINFER_TRY(read_bert(fields, architecture, spec));
  add_positions(kUnused, spec);
  spec.n_types = 0;
  spec.has_distances = true;
  return Status();
}

template <ReadFields read>
Status read_classifying(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  QINFER_TRY(read(fields, architecture, spec));
  QINFER_ASSIGN(spec.classifier.n_labels, read_labels(fields));
  return Status();
}

constexpr NamedTensor kBertTensors[] = {
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
/// Scores by distance have no name in GGUF files: llama.cpp does not know MPNet.
constexpr NamedTensor kMpnetTensors[] = {
    {Role::embedding, "embeddings.word_embeddings", {}},
    {Role::positions, "embeddings.position_embeddings", {}},
    {Role::distances, "encoder.relative_attention_bias", {}},
    {Role::attn_norm, "output.LayerNorm", {}},
    {Role::ffn_norm, "attention.LayerNorm", {}},
    {Role::q, "attention.attn.q", {}},
    {Role::k, "attention.attn.k", {}},
    {Role::v, "attention.attn.v", {}},
    {Role::o, "attention.attn.o", {}},
    {Role::gate, "intermediate.dense", {}},
    {Role::down, "output.dense", {}},
};
constexpr NamedTensor kBertClassifies[] = {
    {Role::classifier_dense, "pooler.dense", "cls"},
    {Role::classifier_out, "classifier", "cls.output", {}, {}, true},
};
constexpr NamedTensor kRobertaClassifies[] = {
    {Role::classifier_dense, "classifier.dense", "cls", {}, {}, true},
    {Role::classifier_out, "classifier.out_proj", "cls.output", {}, {}, true},
};
constexpr NamedTensor kBertEmbeddingNorm = {Role::attn_norm, "embeddings.LayerNorm", "token_embd_norm"};
constexpr TensorTable kBertNames = {"encoder.layer.", kBertEmbeddingNorm, true, kBertTensors, kBertClassifies};
constexpr TensorTable kMpnetNames = {"encoder.layer.", kBertEmbeddingNorm, true, kMpnetTensors, kRobertaClassifies};
constexpr TensorTable kRobertaNames = {"encoder.layer.", kBertEmbeddingNorm, true, kBertTensors, kRobertaClassifies};

constexpr std::string_view kAlsoBert[] = {"BertForMaskedLM", "BertForPreTraining"};
constexpr std::string_view kAlsoRoberta[] = {"RobertaForMaskedLM", "XLMRobertaModel", "XLMRobertaForMaskedLM",
                                             "CamembertModel", "CamembertForMaskedLM"};
constexpr std::string_view kAlsoMpnet[] = {"MPNetForMaskedLM"};
constexpr std::string_view kAlsoClassifying[] = {"XLMRobertaForSequenceClassification"};

}  // namespace

constexpr Architecture kBert{.name = "BertModel",
                             .also = kAlsoBert,
                             .causal = false,
                             .activation_name = "gelu",
                             .activation = Activation::gelu_erf,
                             .activations = kEncoderActivations,
                             .norms = kNormsOfSums,
                             .norm_kind = model::NormKind::centred_with_bias,
                             .eps_field = "layer_norm_eps",
                             .read_own = read_bert,
                             .read_ropes = read_no_rope,
                             .prefix = "bert.",
                             .other_prefixes = kEncoderPrefixes,
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

constexpr Architecture mpnet() {
  Architecture row = kBert;
  row.name = "MPNetModel";
  row.also = kAlsoMpnet;
  row.read_own = read_mpnet;
  row.prefix = "mpnet.";
  row.names = &kMpnetNames;
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
constexpr Architecture kMpnet = mpnet();
constexpr Architecture kMpnetClassifier =
    classifying(kMpnet, "MPNetForSequenceClassification", read_classifying<read_mpnet>, {});
constexpr Architecture kBertClassifier =
    classifying(kBert, "BertForSequenceClassification", read_classifying<read_bert>, {});
constexpr Architecture kRobertaClassifier =
    classifying(kRoberta, "RobertaForSequenceClassification", read_classifying<read_roberta>, kAlsoClassifying);

namespace {

constexpr OwnName kBertKeys[] = {"attention.causal"};
constexpr std::string_view kAlsoInGguf[] = {"BertForSequenceClassification", "RobertaModel",
                                            "RobertaForSequenceClassification"};

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
                                     .write_own = write_encoder_keys,
                                     .names = &kBertNames};

}  // namespace qinfer::source
