// ModernBERT (GTE, Granite, Ettin): a norm of the embedding in the place of the first layer's, windows to both sides in
// most layers, and rotary embeddings of two kinds. One tensor holds q, k and v, and one gate and up.
#include "base/format.h"
#include "source/architectures/rows.h"
#include "source/hf_encoder.h"
#include "source/hf_rope.h"
#include "source/hf_windows.h"

namespace qinfer::source {
namespace {

using formats::FieldReader;
using model::AttentionSpec;
using model::ModelSpec;
using model::Role;

Status read_modernbert(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  QINFER_ASSIGN(const auto norm_bias, fields.boolean("norm_bias"));
  if (norm_bias.value_or(false)) spec.norm_kind = model::NormKind::centred_with_bias;
  spec.layers.front().norms.attention_replaces = true;
  return Status();
}

Status read_classifying(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  QINFER_TRY(read_modernbert(fields, architecture, spec));
  QINFER_ASSIGN(const auto activation, fields.string("classifier_activation"));
  if (activation.value_or("gelu") != "gelu")
    return error(Code::unsupported, "{}: \"classifier_activation\" is \"{}\", only \"gelu\" is supported",
                 fields.where(), *activation);
  QINFER_ASSIGN(const auto pooling, fields.string("classifier_pooling"));
  const std::string pools = pooling.value_or("cls");
  if (pools != "cls" && pools != "mean")
    return error(Code::unsupported, "{}: \"classifier_pooling\" is \"{}\", supported are \"cls\" and \"mean\"",
                 fields.where(), pools);
  QINFER_ASSIGN(const auto bias, fields.boolean("classifier_bias"));
  QINFER_ASSIGN(const std::uint32_t n_labels, read_labels(fields));
  spec.classifier = {n_labels, false, bias.value_or(false), true, pools == "mean"};
  return Status();
}

/// Half of local_attention is seen to each side, and the token itself, but in each third layer from the first on.
Status read_local_windows(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  QINFER_ASSIGN(const auto local, fields.integer("local_attention", 1, kMaxContext));
  const auto window = static_cast<std::uint32_t>(local.value_or(128) / 2 + 1);
  QINFER_ASSIGN(const bool listed, read_layer_types(fields, window, spec));
  if (listed) return Status();
  QINFER_ASSIGN(const auto every, fields.integer("global_attn_every_n_layers", 1, kMaxLayers));
  const auto n = static_cast<std::size_t>(every.value_or(3));
  for (std::size_t i = 0; i < spec.layers.size(); ++i)
    if (i % n != 0) spec.layers[i].attention()->window = window;
  return Status();
}

Status read_two_ropes(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  RopeBases bases{.full = 160000, .local = 10000};
  for (const auto& [name, base] :
       {std::pair("global_rope_theta", &bases.full), std::pair("local_rope_theta", &bases.local)}) {
    QINFER_ASSIGN(const auto stated, fields.number(name));
    if (stated && !(*stated >= 1e-3 && *stated <= 1e15))
      return error_at(Code::format, -1, "{}: \"{}\" is {}, expected 0.001 to 1e15", fields.where(), name, *stated);
    if (stated) *base = *stated;
  }
  return read_ropes_by_layer_type(fields, architecture, bases, spec);
}

constexpr NamedTensor kModernTensors[] = {
    {Role::embedding, "embeddings.tok_embeddings", "token_embd"},
    {Role::attn_norm, "attn_norm", "attn_norm"},
    {Role::ffn_norm, "mlp_norm", "ffn_norm"},
    {Role::final_norm, "final_norm", "output_norm"},
    {Role::q, "attn.Wq", "attn_q", "attn.Wqkv", "attn_qkv"},
    {Role::k, "attn.Wk", "attn_k", "attn.Wqkv", "attn_qkv"},
    {Role::v, "attn.Wv", "attn_v", "attn.Wqkv", "attn_qkv"},
    {Role::o, "attn.Wo", "attn_output"},
    {Role::gate, "mlp.Wi_gate", "ffn_gate", "mlp.Wi", "ffn_up"},
    {Role::up, "mlp.Wi_up", "ffn_up_half", "mlp.Wi", "ffn_up"},
    {Role::down, "mlp.Wo", "ffn_down"},
};
constexpr NamedTensor kModernClassifies[] = {
    {Role::classifier_dense, "head.dense", "cls", {}, {}, true},
    {Role::classifier_norm, "head.norm", "cls.norm", {}, {}, true},
    {Role::classifier_out, "classifier", "cls.output", {}, {}, true},
};
constexpr TensorTable kModernNames = {
    "layers.", {Role::attn_norm, "embeddings.norm", "token_embd_norm"}, false, kModernTensors, kModernClassifies};

constexpr std::string_view kAlso[] = {"ModernBertForMaskedLM"};

}  // namespace

constexpr Architecture kModernBert{.name = "ModernBertModel",
                                   .also = kAlso,
                                   .attention_bias = true,
                                   .mlp_bias = true,
                                   .causal = false,
                                   .activation_name = "gelu",
                                   .activation = Activation::gelu_erf,
                                   .activations = kEncoderActivations,
                                   .norm_kind = model::NormKind::centred,
                                   .eps_field = "norm_eps",
                                   .read_own = read_modernbert,
                                   .read_windows = read_local_windows,
                                   .read_ropes = read_two_ropes,
                                   .other_prefixes = kEncoderPrefixes,
                                   .names = &kModernNames};

namespace {

constexpr Architecture classifier() {
  Architecture row = kModernBert;
  row.name = "ModernBertForSequenceClassification";
  row.also = {};
  row.read_own = read_classifying;
  return row;
}

constexpr std::string_view kConvertersEps =
    "attention.layer_norm_rms_epsilon";  // llama.cpp's takes it for an RMSNorm's
constexpr OwnName kKeys[] = {"attention.causal",   "attention.sliding_window", "attention.sliding_window_pattern",
                             "rope.freq_base_swa", "hidden_activation",        "classifier.pooling_type"};
constexpr std::string_view kModernAlsoInGguf[] = {"ModernBertForSequenceClassification"};

Status read_keys(GgufFields& fields) {
  if (fields.has_tensor("cls.output.weight")) fields.set_hugging_face("ModernBertForSequenceClassification");
  QINFER_ASSIGN(const auto activation, fields.text("hidden_activation"));
  if (activation) fields.add_text("hidden_activation", *activation);
  QINFER_ASSIGN(const auto pooling, fields.integer("classifier.pooling_type", 1, 2));
  fields.add_text("classifier_pooling", pooling == 2 ? "cls" : "mean");  // which llama.cpp takes where nothing is said
  QINFER_ASSIGN(const auto window, fields.integer("attention.sliding_window", 1, kMaxContext));
  if (window) fields.add("local_attention", *window);
  QINFER_ASSIGN(const auto every, fields.integer("attention.sliding_window_pattern", 1, kMaxLayers));
  if (every) fields.add("global_attn_every_n_layers", *every);
  QINFER_ASSIGN(const auto local, fields.number("rope.freq_base_swa", 1e-3, 1e15));
  if (local) fields.add("local_rope_theta", *local);
  if (fields.has_tensor("cls.bias")) fields.add("classifier_bias", true);
  if (fields.has_tensor("output_norm.bias")) fields.add("norm_bias", true);
  if (fields.has_tensor("blk.0.attn_qkv.bias")) fields.add("attention_bias", true);
  if (fields.has_tensor("blk.0.ffn_down.bias")) fields.add("mlp_bias", true);
  return add_encoder_fields(fields);
}

/// The first layer of those after the first that has no window; the number of layers, if all have one.
std::uint32_t window_period(const ModelSpec& spec) {
  std::uint32_t i = 1;
  while (i < spec.n_layers() && spec.layers[i].attention()->window != 0) ++i;
  return i;
}

void write_keys(const ModelSpec& spec, GgufKeys& keys) {
  write_encoder_keys(spec, keys);
  keys.f32(kConvertersEps, spec.norm_eps);
  keys.u32("attention.sliding_window_pattern", window_period(spec));
  if (spec.n_ropes() == 1) keys.f32("rope.freq_base_swa", spec.ropes.front().theta);
  keys.text("rope.scaling.type", "none");
  keys.text("hidden_activation", spec.layers.front().ffn.activation == Activation::silu ? "silu" : "gelu");
  keys.u32("classifier.pooling_type", spec.classifier.mean ? 1 : 2);
}

void add_modernbert_notes(const ModelSpec& spec, std::vector<std::string>& notes) {
  const model::LayerSpec& layer = spec.layers.front();
  const bool norms = spec.norm_kind == model::NormKind::centred_with_bias;
  if (layer.attention()->qkv_bias || layer.ffn.bias || norms ||
      (spec.classifier.n_labels != 0 && spec.classifier.dense_bias))
    notes.emplace_back("it refuses this architecture with biases");
}

}  // namespace

constexpr Architecture kModernBertClassifier = classifier();

constexpr GgufArchitecture kGgufModernBert{.name = "modern-bert",
                                           .hugging_face = "ModernBertModel",
                                           .also = kModernAlsoInGguf,
                                           .eps_key = "attention.layer_norm_epsilon",
                                           .other_eps_key = kConvertersEps,
                                           .own_keys = kKeys,
                                           .read_own = read_keys,
                                           .write_own = write_keys,
                                           .names = &kModernNames,
                                           .add_notes = add_modernbert_notes};

}  // namespace qinfer::source
