// See hf_encoder.h.
#include "source/hf_encoder.h"

#include "base/format.h"

namespace qinfer::source {

using formats::FieldReader;
using model::ModelSpec;

Status read_no_rope(const FieldReader&, const Architecture&, ModelSpec& spec) {
  spec.each_attention([](model::AttentionSpec& layer) { layer.no_rope = true; });
  return Status();
}

Status read_encoder(const FieldReader& fields, bool biases, ModelSpec& spec) {
  for (const std::string_view name : {"is_decoder", "add_cross_attention"}) {
    QINFER_ASSIGN(const auto set, fields.boolean(name));
    if (set.value_or(false))
      return error(Code::unsupported, "{}: \"{}\" is true, {} is run as an encoder only", fields.where(), name,
                   spec.architecture);
  }
  QINFER_ASSIGN(const auto positions, fields.string("position_embedding_type"));
  if (positions && *positions != "absolute")
    return error(Code::unsupported, "{}: \"position_embedding_type\" is \"{}\", only \"absolute\" is supported",
                 fields.where(), *positions);
  QINFER_ASSIGN(const auto types, fields.integer("type_vocab_size", 1, kMaxVocab));
  spec.n_types = static_cast<std::uint32_t>(types.value_or(2));
  spec.each_attention([&](model::AttentionSpec& layer) { layer.qkv_bias = layer.o_bias = biases; });
  for (model::LayerSpec& layer : spec.layers) layer.ffn.bias = biases;
  return Status();
}

void add_positions(std::uint32_t unused, ModelSpec& spec) {
  spec.n_positions = spec.context_tokens;
  spec.first_position = unused;
  spec.context_tokens -= unused;
}

Status add_encoder_fields(GgufFields& fields) {
  QINFER_ASSIGN(const auto causal, fields.metadata().boolean(fields.key("attention.causal")));
  if (causal.value_or(false))
    return error(Code::unsupported, "{}: key \"{}\" is true, {} is run as an encoder only", fields.file(),
                 fields.key("attention.causal"), fields.architecture().name);
  const auto rows_of = [&](std::string_view name) -> std::int64_t {
    const formats::GgufTensor* tensor = fields.gguf().find(name);
    if (tensor == nullptr || tensor->n_dims > 2) return 0;
    return tensor->n_dims == 1 ? 1 : static_cast<std::int64_t>(tensor->dims[1]);
  };
  if (const std::int64_t types = rows_of("token_types.weight"); types != 0) fields.add("type_vocab_size", types);
  if (const std::int64_t labels = rows_of("cls.output.weight"); labels != 0) fields.add("num_labels", labels);
  return Status();
}

void write_encoder_keys(const ModelSpec& spec, GgufKeys& keys) {
  keys.boolean("attention.causal", false);
  std::vector<std::string> labels;
  for (std::uint32_t i = 0; i < spec.classifier.n_labels; ++i) labels.push_back(format_text("LABEL_{}", i));
  if (!labels.empty()) keys.texts("classifier.output_labels", labels);
}

}  // namespace qinfer::source
