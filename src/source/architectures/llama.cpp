// Llama, and what was made after it: Mistral with windows, Mixtral with experts. GGUF files call all three "llama".
#include "source/architectures/rows.h"
#include "source/gguf_fields.h"
#include "source/hf_experts.h"
#include "source/hf_windows.h"

namespace qinfer::source {

constexpr Architecture kLlama{.name = "LlamaForCausalLM", .attention_bias = true, .mlp_bias = true};

constexpr Architecture kMistral{.name = "MistralForCausalLM", .read_windows = read_windows_of_all};

namespace {

constexpr std::string_view kMixtralFields[] = {"num_experts", "num_local_experts"};

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

constexpr std::string_view kLlamaKeys[] = {"attention.sliding_window", "expert_count", "expert_used_count",
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

constexpr GgufArchitecture kGgufLlama{.name = "llama",
                                      .hugging_face = "LlamaForCausalLM",
                                      .also = kLlamaAlso,
                                      .interleaved = true,
                                      .experts = GgufExperts::mixtral,
                                      .own_keys = kLlamaKeys,
                                      .read_own = read_llama_keys,
                                      .add_notes = add_llama_notes};

}  // namespace qinfer::source
