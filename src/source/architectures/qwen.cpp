// Qwen2 and Qwen3, their mixtures of experts, and the text of those that see images.
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

constexpr OwnName kExpertFields[] = {"num_experts", "num_local_experts"};

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

// ---- the text of models that see images: rotary embedding as everywhere where a token has one position

namespace {

/// A token has three positions, which in text are the same.
constexpr std::string_view kSectionFields[] = {"mrope_section", "mrope_interleaved"};
constexpr RopeRules sections(double theta) {
  return {.own_fields = kSectionFields, .default_alias = "mrope", .default_theta = theta};
}

constexpr Architecture kQwen2VlText{.name = "Qwen2ForCausalLM",
                                    .qkv_bias = true,
                                    .default_kv_heads = 8,
                                    .rope = sections(1e6),
                                    .default_bos = 151643,
                                    .default_end = 151645,
                                    .read_windows = read_windows_by_type};
/// Released files have the fields of the text among those of the whole.
constexpr TextModel kQwen2VlTexts[] = {{"qwen2_vl_text", &kQwen2VlText}, {"", &kQwen2VlText}};
constexpr TextModel kQwen25VlTexts[] = {{"qwen2_5_vl_text", &kQwen2VlText}, {"", &kQwen2VlText}};

constexpr Architecture kQwen3VlText{.name = "Qwen3ForCausalLM",
                                    .attention_bias = true,
                                    .qk_norm = model::QkNorm::heads,
                                    .default_kv_heads = 32,
                                    .default_head_dim = 128,
                                    .rope = sections(5e5)};
constexpr TextModel kQwen3VlTexts[] = {{"qwen3_vl_text", &kQwen3VlText}};

constexpr Architecture kQwen3VlMoeText{.name = "Qwen3MoeForCausalLM",
                                       .attention_bias = true,
                                       .qk_norm = model::QkNorm::heads,
                                       .default_kv_heads = 16,
                                       .rope = sections(5e5),
                                       .experts = {.experts = 60, .top_k = 4, .width = 1408, .normalises = true},
                                       .own_fields = kExpertFields,
                                       .experts_transposed = true};
constexpr TextModel kQwen3VlMoeTexts[] = {{"qwen3_vl_moe_text", &kQwen3VlMoeText}};

}  // namespace

constexpr Architecture kQwen2Vl{.name = "Qwen2VLForConditionalGeneration", .texts = kQwen2VlTexts};
constexpr Architecture kQwen25Vl{.name = "Qwen2_5_VLForConditionalGeneration", .texts = kQwen25VlTexts};
constexpr Architecture kQwen3Vl{.name = "Qwen3VLForConditionalGeneration", .texts = kQwen3VlTexts};
constexpr Architecture kQwen3VlMoe{.name = "Qwen3VLMoeForConditionalGeneration", .texts = kQwen3VlMoeTexts};

constexpr GgufArchitecture kGgufQwen2{.name = "qwen2", .hugging_face = "Qwen2ForCausalLM", .qkv_bias = true};

constexpr GgufArchitecture kGgufQwen3{.name = "qwen3", .hugging_face = "Qwen3ForCausalLM"};

namespace {

constexpr OwnName kExpertKeys[] = {"expert_count", "expert_used_count", "expert_feed_forward_length"};
constexpr OwnName kSharedExpertKeys[] = {"expert_count", "expert_used_count", "expert_feed_forward_length",
                                         "expert_shared_feed_forward_length"};

/// Of the text they say only where images would be.
constexpr OwnName kVlKeys[] = {"rope.dimension_sections", "n_deepstack_layers"};
constexpr OwnName kVlExpertKeys[] = {"rope.dimension_sections", "n_deepstack_layers", "expert_count",
                                     "expert_used_count", "expert_feed_forward_length"};

}  // namespace

constexpr GgufArchitecture kGgufQwen2Vl{
    .name = "qwen2vl", .hugging_face = "Qwen2ForCausalLM", .qkv_bias = true, .own_keys = kVlKeys};
constexpr GgufArchitecture kGgufQwen3Vl{.name = "qwen3vl", .hugging_face = "Qwen3ForCausalLM", .own_keys = kVlKeys};
constexpr GgufArchitecture kGgufQwen3VlMoe{.name = "qwen3vlmoe",
                                           .hugging_face = "Qwen3MoeForCausalLM",
                                           .experts = GgufExperts::qwen3,
                                           .own_keys = kVlExpertKeys};

constexpr GgufArchitecture kGgufQwen2Moe{.name = "qwen2moe",
                                         .hugging_face = "Qwen2MoeForCausalLM",
                                         .experts = GgufExperts::qwen2,
                                         .qkv_bias = true,
                                         .own_keys = kSharedExpertKeys};

constexpr GgufArchitecture kGgufQwen3Moe{
    .name = "qwen3moe", .hugging_face = "Qwen3MoeForCausalLM", .experts = GgufExperts::qwen3, .own_keys = kExpertKeys};

}  // namespace qinfer::source
