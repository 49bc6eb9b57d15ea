// Seed-OSS: a Llama with biases of queries, keys and values, and a field for the bias of what attention gives.
#include "source/architectures/rows.h"
#include "source/gguf_fields.h"

namespace qinfer::source {
namespace {

using formats::FieldReader;
using model::ModelSpec;

Status read_seed_biases(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  QINFER_ASSIGN(const auto qkv, fields.boolean("attention_bias"));
  QINFER_ASSIGN(const auto output, fields.boolean("attention_out_bias"));
  spec.each_attention([&](model::AttentionSpec& layer) {
    layer.qkv_bias = qkv.value_or(true);
    layer.o_bias = output.value_or(false);
  });
  return Status();
}

Status read_seed_keys(GgufFields& fields) {
  fields.add("attention_bias", fields.has_tensor("blk.0.attn_q.bias"));
  fields.add("attention_out_bias", fields.has_tensor("blk.0.attn_output.bias"));
  return Status();
}

std::string_view seed_name(model::Role role) {
  return role == model::Role::ffn_norm ? "post_attention_norm.weight" : std::string_view();
}

void add_seed_notes(const ModelSpec& spec, std::vector<std::string>& notes) {
  if (spec.largest_attention().o_bias || spec.layers.front().ffn.bias)
    notes.emplace_back("it knows no biases of this architecture but those of queries, keys and values");
}

}  // namespace

constexpr Architecture kSeedOss{.name = "SeedOssForCausalLM",
                                .attention_bias = true,
                                .mlp_bias = true,
                                .default_kv_heads = 8,
                                .default_head_dim = 128,
                                .default_bos = 0,
                                .default_end = 2,
                                .read_own = read_seed_biases};

constexpr GgufArchitecture kGgufSeedOss{.name = "seed_oss",
                                        .hugging_face = "SeedOssForCausalLM",
                                        .qkv_bias = true,
                                        .read_own = read_seed_keys,
                                        .tensor_name = seed_name,
                                        .add_notes = add_seed_notes};

}  // namespace qinfer::source
