// Llama, and what was made after it: Mistral with windows, Mixtral with experts, Ministral 3 with queries that grow
// with their position. GGUF files call the first three "llama".
#include "source/architectures/rows.h"
#include "source/gguf_fields.h"
#include "source/gguf_keys.h"
#include "source/hf_experts.h"
#include "source/hf_windows.h"

namespace qinfer::source {

constexpr Architecture kLlama{.name = "LlamaForCausalLM", .attention_bias = true, .mlp_bias = true};

constexpr Architecture kMistral{.name = "MistralForCausalLM", .read_windows = read_windows_of_all};

namespace {

using formats::FieldReader;
using model::ModelSpec;

/// Fields of the rotary embedding's object that are not of angles.
constexpr std::string_view kQueryFields[] = {"llama_4_scaling_beta", "max_position_embeddings"};

/// Queries of Ministral 3 grow with each original_max_position_embeddings positions.
Status read_query_scaling(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  constexpr std::string_view kObject = "rope_parameters", kScaling = kQueryFields[0],
                             kContext = "original_max_position_embeddings";
  const formats::Json* object = formats::find_field(fields.object(), kObject);
  if (object == nullptr) object = formats::find_field(fields.object(), "rope_scaling");
  if (object == nullptr || !object->is_object())
    return error_at(Code::format, -1, "{}: \"{}\" must be an object", fields.where(), kObject);
  const FieldReader rope(*object, format_text("{}: {}", fields.where(), kObject));
  QINFER_ASSIGN(const auto scaling, rope.number(kScaling));
  if (!scaling || !(*scaling >= 0 && *scaling <= 1e3))
    return error_at(Code::format, -1, "{}: \"{}\" is {}, expected 0 to 1000", rope.where(), kScaling,
                    scaling ? format_text("{}", *scaling) : "missing");
  QINFER_ASSIGN(const std::int64_t tokens, rope.required_integer(kContext, 1, kMaxContext));
  spec.each_attention([&](model::AttentionSpec& layer) {
    layer.rules.query_scaling = static_cast<float>(*scaling);
    if (*scaling != 0) layer.rules.query_scale_tokens = static_cast<std::uint32_t>(tokens);
  });
  return Status();
}

}  // namespace

constexpr Architecture kMinistral3{.name = "Ministral3ForCausalLM",
                                   .default_kv_heads = 8,
                                   .default_head_dim = 128,
                                   .rope = {.own_fields = kQueryFields, .default_theta = 1e6},
                                   .default_bos = 1,
                                   .default_end = 2,
                                   .read_own = read_query_scaling,
                                   .read_windows = read_stated_windows};

namespace {

constexpr TextModel kMistral3Texts[] = {{"mistral", &kMistral}, {"ministral3", &kMinistral3}};

}  // namespace

/// Mistral Small 3.1 and later, which see images.
constexpr Architecture kMistral3{.name = "Mistral3ForConditionalGeneration", .texts = kMistral3Texts};

namespace {

constexpr OwnName kMixtralFields[] = {"num_experts", "num_local_experts"};

std::string mixtral_name(const model::TensorId& id) {
  using model::Role;
  if (id.role == Role::router) return "block_sparse_moe.gate.weight";
  if (id.expert == model::kNoExpert) return {};
  const char* matrix = id.role == Role::gate ? "w1" : id.role == Role::up ? "w3" : "w2";
  return format_text("block_sparse_moe.experts.{}.{}.weight", id.expert, matrix);
}

}  // namespace

constexpr Architecture kMixtral{.name = "MixtralForCausalLM",
                                .default_kv_heads = 8,
                                .rope = {.default_theta = 1e6},
                                .default_bos = 1,
                                .default_end = 2,
                                .experts = {.experts = 8, .top_k = 2},
                                .own_fields = kMixtralFields,
                                .read_windows = read_stated_windows,
                                .tensor_name = mixtral_name};

namespace {

constexpr OwnName kLlamaKeys[] = {"attention.sliding_window", "expert_count", "expert_used_count",
                                  "expert_feed_forward_length"};
constexpr std::string_view kLlamaAlso[] = {"MistralForCausalLM", "MixtralForCausalLM"};

/// With a window it is Mistral, unless it has experts.
Status read_llama_keys(GgufFields& fields) {
  QINFER_ASSIGN(const std::int64_t window, fields.add_window());
  QINFER_ASSIGN(const auto experts, fields.integer("expert_count", 0, kMaxExperts));
  if (window != 0 && experts.value_or(0) == 0) fields.set_hugging_face("MistralForCausalLM");
  return Status();
}

void add_llama_notes(const model::ModelSpec& spec, std::vector<std::string>& notes) {
  if (spec.largest_attention().window != 0)
    notes.emplace_back("it knows no sliding window of this architecture: beyond the window results differ");
}

}  // namespace

namespace {

constexpr const char* kQueryKey = "attention.temperature_scale";
constexpr const char* kYarnKey = "rope.scaling.yarn_log_multiplier";
constexpr OwnName kMistral3Keys[] = {{kQueryKey, 0}, {kYarnKey, 0}};

/// Without the scale of queries it is Mistral, without a window.
Status read_mistral3_keys(GgufFields& fields) {
  fields.add_null("sliding_window");
  QINFER_ASSIGN(const auto scaling, fields.number(kQueryKey, 0, 1e3));
  if (scaling.value_or(0) == 0) fields.set_hugging_face("MistralForCausalLM");
  return Status();
}

void write_mistral3_keys(const model::ModelSpec& spec, GgufKeys& keys) {
  keys.f32(kQueryKey, static_cast<double>(spec.largest_attention().rules.query_scaling));
}

/// The multiplier says that cosines and sines of yarn have no factor.
Result<bool> read_mistral3_yarn(GgufFields& fields) {
  QINFER_ASSIGN(const auto queries, fields.number(kQueryKey, 0, 1e3));
  QINFER_ASSIGN(const auto multiplier, fields.number(kYarnKey, 0, 1e3));
  if (queries.value_or(0) != 0) fields.add(kQueryFields[0], *queries);
  if (multiplier.value_or(0) == 0) return false;
  fields.add("mscale", 1.0);
  fields.add("mscale_all_dim", *multiplier);
  return true;
}

bool write_mistral3_yarn(const model::RopeSpec& rope, GgufKeys& keys) {
  if (rope.attention_factor != 1) return false;
  keys.f32(kYarnKey, 1);
  return true;
}

}  // namespace

constexpr GgufArchitecture kGgufMistral3{.name = "mistral3",
                                         .hugging_face = "Ministral3ForCausalLM",
                                         .interleaved = true,
                                         .own_keys = kMistral3Keys,
                                         .read_own = read_mistral3_keys,
                                         .write_own = write_mistral3_keys,
                                         .read_yarn = read_mistral3_yarn,
                                         .write_yarn = write_mistral3_yarn};

constexpr GgufArchitecture kGgufLlama{.name = "llama",
                                      .hugging_face = "LlamaForCausalLM",
                                      .also = kLlamaAlso,
                                      .interleaved = true,
                                      .experts = GgufExperts::mixtral,
                                      .own_keys = kLlamaKeys,
                                      .read_own = read_llama_keys,
                                      .add_notes = add_llama_notes};

}  // namespace qinfer::source
