// Qwen2 and Qwen3, and their mixtures of experts.
#include "source/architectures/rows.h"
#include "source/hf_windows.h"

namespace qinfer::source {

constexpr Architecture kQwen2{.name = "Qwen2ForCausalLM", .qkv_bias = true, .read_windows = read_windows_of_last};

constexpr Architecture kQwen3{.name = "Qwen3ForCausalLM",
                              .attention_bias = true,
                              .qk_norm = model::QkNorm::heads,
                              .default_head_dim = 128,
                              .read_windows = read_windows_of_last};

namespace {

constexpr std::string_view kExpertFields[] = {"num_experts", "num_local_experts"};

}  // namespace

constexpr Architecture kQwen2Moe{
    .name = "Qwen2MoeForCausalLM",
    .qkv_bias = true,
    .qkv_bias_field = true,
    .default_kv_heads = 16,
    .experts = {.experts = 60, .top_k = 4, .width = 1408, .shared = 5632, .local_experts = false},
    .own_fields = kExpertFields,
    .read_windows = read_windows_by_type};

constexpr Architecture kQwen3Moe{.name = "Qwen3MoeForCausalLM",
                                 .attention_bias = true,
                                 .qk_norm = model::QkNorm::heads,
                                 .default_kv_heads = 4,
                                 .experts = {.experts = 128, .top_k = 8, .width = 768},
                                 .own_fields = kExpertFields,
                                 .read_windows = read_windows_if_used};

constexpr GgufArchitecture kGgufQwen2{.name = "qwen2", .hugging_face = "Qwen2ForCausalLM", .qkv_bias = true};

constexpr GgufArchitecture kGgufQwen3{.name = "qwen3", .hugging_face = "Qwen3ForCausalLM"};

namespace {

constexpr std::string_view kExpertKeys[] = {"expert_count", "expert_used_count", "expert_feed_forward_length"};
constexpr std::string_view kSharedExpertKeys[] = {"expert_count", "expert_used_count", "expert_feed_forward_length",
                                                  "expert_shared_feed_forward_length"};

}  // namespace

constexpr GgufArchitecture kGgufQwen2Moe{.name = "qwen2moe",
                                         .hugging_face = "Qwen2MoeForCausalLM",
                                         .experts = GgufExperts::qwen2,
                                         .qkv_bias = true,
                                         .own_keys = kSharedExpertKeys};

constexpr GgufArchitecture kGgufQwen3Moe{
    .name = "qwen3moe", .hugging_face = "Qwen3MoeForCausalLM", .experts = GgufExperts::qwen3, .own_keys = kExpertKeys};

}  // namespace qinfer::source
