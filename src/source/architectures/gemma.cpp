// Gemma: a Llama with a scaled embedding, norms whose weights are stored less one, and GELU. Gemma 2 and 3 have norms
// before and after, soft caps, windows in most layers, and in Gemma 3 another rotary embedding there. Gemma3TextModel
// is EmbeddingGemma's encoder.
#include <cmath>

#include "source/architectures/rows.h"
#include "source/gguf_fields.h"
#include "source/gguf_keys.h"
#include "source/hf_rope.h"
#include "source/hf_windows.h"

namespace qinfer::source {
namespace {

using formats::FieldReader;
using model::AttentionSpec;
using model::ModelSpec;

/// A soft cap; `fallback` where the field is absent, off where it is null.
Result<float> read_soft_cap(const FieldReader& fields, std::string_view key, double fallback) {
  if (fields.object().find(key) == nullptr) return static_cast<float>(fallback);
  QINFER_ASSIGN(const auto value, fields.number(key));
  if (!value) return 0.0f;
  if (!(*value >= 1e-3 && *value <= 1e6))
    return error_at(Code::format, -1, "{}: \"{}\" is {}, expected 0.001 to 1e6, or null", fields.where(), key, *value);
  return static_cast<float>(*value);
}

/// Scores are divided by the root of query_pre_attn_scalar. Gemma 2 has caps where the fields are absent.
Status read_gemma_scales(const FieldReader& fields, double attention_cap, double logit_cap, ModelSpec& spec) {
  constexpr double kUsualScalar = 256;
  QINFER_ASSIGN(const auto scalar, fields.number("query_pre_attn_scalar"));
  if (scalar && !(*scalar >= 1e-6 && *scalar <= 1e9))
    return error_at(Code::format, -1, "{}: \"query_pre_attn_scalar\" is {}, expected 1e-6 to 1e9", fields.where(),
                    *scalar);
  const auto scale = static_cast<float>(1.0 / std::sqrt(scalar.value_or(kUsualScalar)));
  float cap = 0;
  if (attention_cap != 0) {
    QINFER_ASSIGN(cap, read_soft_cap(fields, "attn_logit_softcapping", attention_cap));
  }
  spec.each_attention([&](AttentionSpec& layer) { layer.scale = scale, layer.softcap = cap; });
  QINFER_ASSIGN(spec.logit_softcap, read_soft_cap(fields, "final_logit_softcapping", logit_cap));
  return Status();
}

Status read_gemma2(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  return read_gemma_scales(fields, 50, 30, spec);
}

Status read_gemma3(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  return read_gemma_scales(fields, 0, 0, spec);
}

Status read_gemma2_windows(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  return read_window_pattern(fields, 2, spec);
}

Status read_gemma3_windows(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  std::int64_t every = 6;
  if (!fields.has("layer_types")) {
    QINFER_ASSIGN(const auto stated, fields.integer("sliding_window_pattern", 1, kMaxLayers));
    every = stated.value_or(every);
  }
  return read_window_pattern(fields, every, spec);
}

Status read_gemma3_ropes(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  return read_ropes_by_layer_type(fields, architecture, {.full = 1e6, .local = 1e4}, spec);
}

constexpr OwnName kGemma2Fields[] = {"attn_logit_softcapping", "final_logit_softcapping", {"query_pre_attn_scalar", 0}};
constexpr OwnName kGemma3Fields[] = {"final_logit_softcapping", {"query_pre_attn_scalar", 0}};

}  // namespace

/// Its first files say "gelu" and mean the approximation.
constexpr Architecture kGemma{.name = "GemmaForCausalLM",
                              .attention_bias = true,
                              .default_kv_heads = 16,
                              .default_head_dim = 256,
                              .activation_name = "gelu_pytorch_tanh",
                              .activation_alias = "gelu",
                              .activation = Activation::gelu_tanh,
                              .norms_add_one = true,
                              .scaled_embedding = true,
                              .default_bos = 2,
                              .default_end = 1,
                              .tied_by_default = true};

constexpr Architecture kGemma2{.name = "Gemma2ForCausalLM",
                               .attention_bias = true,
                               .needs_kv_heads = true,
                               .default_head_dim = 256,
                               .activation_name = "gelu_pytorch_tanh",
                               .activation = Activation::gelu_tanh,
                               .norms = {true, true, true, true},
                               .norms_add_one = true,
                               .scaled_embedding = true,
                               .default_bos = 2,
                               .default_end = 1,
                               .tied_by_default = true,
                               .own_fields = kGemma2Fields,
                               .read_own = read_gemma2,
                               .read_windows = read_gemma2_windows};

namespace {

constexpr Architecture gemma3(std::string_view name, bool causal) {
  Architecture row = kGemma2;
  row.name = name;
  if (causal) row.classifier = "Gemma3TextForSequenceClassification";
  row.causal = causal;
  row.states_direction = !causal;
  row.qk_norm = model::QkNorm::heads;
  row.own_fields = kGemma3Fields;
  row.read_own = read_gemma3;
  row.read_windows = read_gemma3_windows;
  row.read_ropes = read_gemma3_ropes;
  return row;
}

}  // namespace

constexpr Architecture kGemma3 = gemma3("Gemma3ForCausalLM", true);

namespace {

/// Released files state few of the text's sizes.
constexpr Architecture gemma3_text() {
  Architecture row = gemma3("Gemma3ForCausalLM", true);
  row.sizes = {.vocab = 262208, .heads = 8, .context = 131072, .norm_eps = 1e-6};
  row.needs_kv_heads = false;
  row.default_kv_heads = 4;
  return row;
}
constexpr Architecture kGemma3Text = gemma3_text();
constexpr TextModel kGemma3Texts[] = {{"gemma3_text", &kGemma3Text}};

}  // namespace

constexpr Architecture kGemma3Whole{.name = "Gemma3ForConditionalGeneration", .texts = kGemma3Texts};
constexpr Architecture kGemma3Encoder = gemma3("Gemma3TextModel", false);

namespace {

/// transformers states the number under the root. `large`: as many layers have the models whose queries are scaled by
/// 1 / sqrt(hidden / heads), and not by 1 / sqrt(head_dim).
void add_query_scalar(GgufFields& fields, std::int64_t large) {
  const auto of = [](std::int64_t value) { return static_cast<double>(value); };
  fields.add("query_pre_attn_scalar",
             fields.n_layers == large ? of(fields.hidden) / of(fields.heads) : of(fields.head_dim));
}

Status add_logit_cap(GgufFields& fields) {
  QINFER_ASSIGN(const auto cap, fields.number("final_logit_softcapping", 0, 1e6));
  if (cap.value_or(0) != 0) fields.add("final_logit_softcapping", *cap);
  return Status();
}

Status read_gemma2_keys(GgufFields& fields) {
  add_query_scalar(fields, 46);
  QINFER_TRY(fields.add_window().take_status());
  QINFER_ASSIGN(const auto cap, fields.number("attn_logit_softcapping", 1e-3, 1e6));
  if (cap) fields.add("attn_logit_softcapping", *cap);
  return add_logit_cap(fields);
}

Status read_gemma3_keys(GgufFields& fields) {
  add_query_scalar(fields, 62);
  QINFER_ASSIGN(const std::int64_t window, fields.add_window());
  if (window == 0)
    fields.add_list("layer_types",
                    std::vector<std::string_view>(static_cast<std::size_t>(fields.n_layers), "full_attention"));
  QINFER_ASSIGN(const auto local, fields.number("rope.freq_base_swa", 1e-3, 1e15));
  fields.add("rope_local_base_freq", local.value_or(10000.0));
  return add_logit_cap(fields);
}

constexpr OwnName kGemma2Keys[] = {"attention.sliding_window", "attn_logit_softcapping", "final_logit_softcapping"};
constexpr OwnName kGemma3Keys[] = {"attention.sliding_window", "final_logit_softcapping", "rope.freq_base_swa"};

void add_gemma_notes(const ModelSpec& spec, std::vector<std::string>& notes) {
  if (!spec.tied_embeddings) notes.emplace_back("it takes the embedding for the LM head of this architecture");
}

}  // namespace

constexpr GgufArchitecture kGgufGemma{
    .name = "gemma", .hugging_face = "GemmaForCausalLM", .add_notes = add_gemma_notes};

constexpr GgufArchitecture kGgufGemma2{
    .name = "gemma2", .hugging_face = "Gemma2ForCausalLM", .own_keys = kGemma2Keys, .read_own = read_gemma2_keys};

namespace {

/// EmbeddingGemma's encoder. Windows are where the pattern of Gemma 3 has them, unless the file has another.
Status read_gemma_embedding_keys(GgufFields& fields) {
  const std::string direction = fields.key("attention.causal");
  QINFER_ASSIGN(const auto causal, fields.metadata().boolean(direction));
  if (causal.value_or(false))
    return error(Code::unsupported, "{}: key \"{}\" is true, only false is supported", fields.file(), direction);
  fields.add("use_bidirectional_attention", true);
  fields.add("query_pre_attn_scalar", static_cast<double>(fields.head_dim));
  QINFER_ASSIGN(const std::int64_t window, fields.add_window());
  if (window == 0) return fields.missing("attention.sliding_window");
  QINFER_TRY(fields.add_window_pattern(6));
  QINFER_ASSIGN(const auto local, fields.number("rope.freq_base_swa", 1e-3, 1e15));
  fields.add("rope_local_base_freq", local.value_or(10000.0));
  return Status();
}

void write_gemma_embedding_keys(const ModelSpec& spec, GgufKeys& keys) {
  keys.window_pattern(spec);
  keys.boolean("attention.causal", false);
}

constexpr OwnName kGemmaEmbeddingKeys[] = {"attention.sliding_window", "attention.sliding_window_pattern",
                                           "attention.causal", "rope.freq_base_swa"};

}  // namespace

constexpr GgufArchitecture kGgufGemmaEmbedding{.name = "gemma-embedding",
                                               .hugging_face = "Gemma3TextModel",
                                               .needs_rope_base = true,
                                               .dense = true,
                                               .own_keys = kGemmaEmbeddingKeys,
                                               .read_own = read_gemma_embedding_keys,
                                               .write_own = write_gemma_embedding_keys};

constexpr GgufArchitecture kGgufGemma3{.name = "gemma3",
                                       .hugging_face = "Gemma3ForCausalLM",
                                       .needs_rope_base = true,
                                       .own_keys = kGemma3Keys,
                                       .read_own = read_gemma3_keys};

}  // namespace qinfer::source
