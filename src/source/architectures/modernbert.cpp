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
using model::TensorId;

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

std::string modernbert_name(const ModelSpec&, const TensorId& id, std::string_view prefix) {
  const std::string_view end = name_end(id.role);
  const std::string layer = format_text("{}layers.{}.", prefix, id.layer);
  switch (id.role) {
    case Role::embedding: return format_text("{}embeddings.tok_embeddings.weight", prefix);
    case Role::attn_norm:
    case Role::attn_norm_bias:
      return id.layer == 0 ? format_text("{}embeddings.norm{}", prefix, end) : format_text("{}attn_norm{}", layer, end);
    case Role::ffn_norm:
    case Role::ffn_norm_bias: return format_text("{}mlp_norm{}", layer, end);
    case Role::final_norm:
    case Role::final_norm_bias: return format_text("{}final_norm{}", prefix, end);
    case Role::q: return layer + "attn.Wq.weight";
    case Role::k: return layer + "attn.Wk.weight";
    case Role::v: return layer + "attn.Wv.weight";
    case Role::o: return layer + "attn.Wo.weight";
    case Role::gate: return layer + "mlp.Wi_gate.weight";
    case Role::up: return layer + "mlp.Wi_up.weight";
    case Role::down: return layer + "mlp.Wo.weight";
    case Role::classifier_dense:
    case Role::classifier_dense_bias: return format_text("head.dense{}", end);
    case Role::classifier_norm:
    case Role::classifier_norm_bias: return format_text("head.norm{}", end);
    case Role::classifier_out:
    case Role::classifier_out_bias: return format_text("classifier{}", end);
    case Role::lm_head:
    case Role::positions:
    case Role::types:
    case Role::attn_post_norm:
    case Role::ffn_post_norm:
    case Role::q_norm:
    case Role::k_norm:
    case Role::q_bias:
    case Role::k_bias:
    case Role::v_bias:
    case Role::o_bias:
    case Role::gate_bias:
    case Role::up_bias:
    case Role::down_bias:
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

std::optional<HfPart> modernbert_part(const ModelSpec& spec, const TensorId& id, const std::string& layer) {
  if (id.role != Role::gate && id.role != Role::up) return qkv_part(spec, id, layer + "attn.Wqkv.weight");
  const std::uint64_t width = spec.layers[id.layer].ffn.width;
  return HfPart{layer + "mlp.Wi.weight", {2 * width, spec.n_embd}, id.role == Role::up ? width : 0, width};
}

constexpr std::string_view kAlso[] = {"ModernBertForMaskedLM"};

}  // namespace

constexpr Architecture kModernBert{.name = "ModernBertModel",
                                   .also = kAlso,
                                   .causal = false,
                                   .activation_name = "gelu",
                                   .activation = Activation::gelu_erf,
                                   .norm_kind = model::NormKind::centred,
                                   .eps_field = "norm_eps",
                                   .read_own = read_modernbert,
                                   .read_windows = read_local_windows,
                                   .read_ropes = read_two_ropes,
                                   .whole_name = modernbert_name,
                                   .part = modernbert_part};

namespace {

constexpr Architecture classifier() {
  Architecture row = kModernBert;
  row.name = "ModernBertForSequenceClassification";
  row.also = {};
  row.read_own = read_classifying;
  return row;
}

constexpr std::string_view kKeys[] = {
    "attention.causal",   "attention.sliding_window", "attention.sliding_window_pattern",
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
  return add_encoder_fields(fields);
}

GgufPlace place(const ModelSpec& spec, const TensorId& id) {
  const std::string_view end = name_end(id.role);
  switch (id.role) {
    case Role::attn_norm:
    case Role::attn_norm_bias:
      return {id.layer == 0 ? format_text("token_embd_norm{}", end) : format_text("blk.{}.attn_norm{}", id.layer, end),
              {}};
    case Role::ffn_norm:
    case Role::ffn_norm_bias: return {format_text("blk.{}.ffn_norm{}", id.layer, end), {}};
    case Role::final_norm:
    case Role::final_norm_bias: return {format_text("output_norm{}", end), {}};
    case Role::gate:
    case Role::up: {
      const std::uint64_t width = spec.layers[id.layer].ffn.width;
      const bool is_up = id.role == Role::up;
      return {format_text("blk.{}.ffn_up ({} half)", id.layer, is_up ? "second" : "first"),
              format_text("blk.{}.ffn_up.weight", id.layer), is_up ? width : 0, width, 2 * width};
    }
    case Role::embedding:
    case Role::lm_head:
    case Role::positions:
    case Role::types:
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
    case Role::q_bias:
    case Role::k_bias:
    case Role::v_bias:
    case Role::o_bias:
    case Role::gate_bias:
    case Role::up_bias:
    case Role::down_bias:
    case Role::q:
    case Role::k:
    case Role::v:
    case Role::o:
    case Role::down:
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
  return gguf_encoder_place(spec, id);
}

}  // namespace

constexpr Architecture kModernBertClassifier = classifier();

constexpr GgufArchitecture kGgufModernBert{.name = "modern-bert",
                                           .hugging_face = "ModernBertModel",
                                           .also = kModernAlsoInGguf,
                                           .eps_key = "attention.layer_norm_epsilon",
                                           .own_keys = kKeys,
                                           .read_own = read_keys,
                                           .place = place};

}  // namespace qinfer::source
