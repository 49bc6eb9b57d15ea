// ERNIE 4.5, the dense models: a Llama whose checkpoints have the rows of queries and keys in pairs that are
// neighbours, with one field for all biases.
#include "source/architectures/rows.h"
#include "source/gguf_fields.h"

namespace qinfer::source {
namespace {

using formats::FieldReader;
using model::ModelSpec;

Status read_ernie_biases(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  QINFER_ASSIGN(const auto stated, fields.boolean("use_bias"));
  const bool bias = stated.value_or(false);
  spec.each_attention([&](model::AttentionSpec& layer) { layer.qkv_bias = layer.o_bias = bias; });
  for (model::LayerSpec& layer : spec.layers) layer.ffn.bias = bias;
  return Status();
}

Status read_ernie_keys(GgufFields& fields) {
  fields.add("use_bias", fields.has_tensor("blk.0.attn_q.bias"));
  return Status();
}

void add_ernie_notes(const ModelSpec& spec, std::vector<std::string>& notes) {
  if (spec.layers.front().ffn.bias) notes.emplace_back("it knows no biases of this architecture's networks");
}

}  // namespace

constexpr Architecture kErnie4_5{.name = "Ernie4_5ForCausalLM",
                                 .attention_bias = true,
                                 .mlp_bias = true,
                                 .default_kv_heads = 2,
                                 .default_head_dim = 128,
                                 .rope = {.default_theta = 5e5},
                                 .default_bos = 1,
                                 .default_end = 2,
                                 .tied_by_default = true,
                                 .read_own = read_ernie_biases,
                                 .interleaved = true};

constexpr GgufArchitecture kGgufErnie4_5{.name = "ernie4_5",
                                         .hugging_face = "Ernie4_5ForCausalLM",
                                         .interleaved = true,
                                         .read_own = read_ernie_keys,
                                         .add_notes = add_ernie_notes};

}  // namespace qinfer::source
