// See hf_encoder.h.
#include "source/hf_encoder.h"

#include "base/format.h"

namespace qinfer::source {

using formats::FieldReader;
using formats::Json;
using model::ModelSpec;
using model::Role;
using model::TensorId;

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

Result<std::uint32_t> read_labels(const FieldReader& fields) {
  QINFER_ASSIGN(const auto stated, fields.integer("num_labels", 1, kMaxDim));
  if (stated) return static_cast<std::uint32_t>(*stated);
  const Json* labels = formats::find_field(fields.object(), "id2label");
  if (labels == nullptr) return 2u;
  if (!labels->is_object() || labels->size() < 1 || labels->size() > static_cast<std::size_t>(kMaxDim))
    return error_at(Code::format, -1, "{}: \"id2label\" must be an object of 1 to {} labels", fields.where(), kMaxDim);
  return static_cast<std::uint32_t>(labels->size());
}

std::string_view name_end(Role role) {
  for (const model::BiasRow& row : model::kBiases)
    if (row.bias == role) return ".bias";
  return ".weight";
}

std::optional<std::uint32_t> layer_of_sum(const ModelSpec& spec, const TensorId& id) {
  if (id.role == Role::final_norm || id.role == Role::final_norm_bias) return spec.n_layers() - 1;
  if (id.role == Role::ffn_norm || id.role == Role::ffn_norm_bias) return id.layer;
  return id.layer == 0 ? std::nullopt : std::optional<std::uint32_t>(id.layer - 1u);
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

std::string gguf_encoder_name(const ModelSpec& spec, const TensorId& id) {
  const std::string_view end = name_end(id.role);
  const std::string layer = format_text("blk.{}.", id.layer);
  switch (id.role) {
    case Role::embedding: return "token_embd.weight";
    case Role::positions: return "position_embd.weight";
    case Role::types: return "token_types.weight";
    case Role::classifier_dense:
    case Role::classifier_dense_bias: return format_text("cls{}", end);
    case Role::classifier_norm:
    case Role::classifier_norm_bias: return format_text("cls.norm{}", end);
    case Role::classifier_out:
    case Role::classifier_out_bias: return format_text("cls.output{}", end);
    case Role::ffn_norm:
    case Role::ffn_norm_bias: return format_text("{}attn_output_norm{}", layer, end);
    case Role::attn_norm:
    case Role::attn_norm_bias:
    case Role::final_norm:
    case Role::final_norm_bias: {
      const auto sum = layer_of_sum(spec, id);
      return sum ? format_text("blk.{}.layer_output_norm{}", *sum, end) : format_text("token_embd_norm{}", end);
    }
    case Role::q:
    case Role::q_bias: return format_text("{}attn_q{}", layer, end);
    case Role::k:
    case Role::k_bias: return format_text("{}attn_k{}", layer, end);
    case Role::v:
    case Role::v_bias: return format_text("{}attn_v{}", layer, end);
    case Role::o:
    case Role::o_bias: return format_text("{}attn_output{}", layer, end);
    // The one matrix of a network without up is called up.
    case Role::gate:
    case Role::gate_bias:
      return format_text("{}{}{}", layer, spec.layers.front().ffn.has_up ? "ffn_gate" : "ffn_up", end);
    case Role::up:
    case Role::up_bias: return format_text("{}ffn_up{}", layer, end);
    case Role::down:
    case Role::down_bias: return format_text("{}ffn_down{}", layer, end);
    case Role::lm_head:
    case Role::attn_post_norm:
    case Role::ffn_post_norm:
    case Role::q_norm:
    case Role::k_norm:
    case Role::router:
    case Role::shared_router:
    case Role::shared_gate:
    case Role::dense_first:
    case Role::dense_first_bias:
    case Role::dense_second:
    case Role::dense_second_bias:
    case Role::shared_up:
    case Role::shared_down: break;
  }
  return {};
}

std::optional<HfPart> qkv_part(const ModelSpec& spec, const TensorId& id, std::string name) {
  if (id.role != Role::q && id.role != Role::k && id.role != Role::v) return std::nullopt;
  const model::AttentionSpec& attention = *spec.layers[id.layer].attention();
  const std::uint64_t q = attention.q_dim(), kv = attention.kv_dim();
  const std::uint64_t first = id.role == Role::q ? 0 : id.role == Role::k ? q : q + kv;
  return HfPart{std::move(name), {q + 2 * kv, spec.n_embd}, first, id.role == Role::q ? q : kv};
}

GgufPlace gguf_encoder_place(const ModelSpec& spec, const TensorId& id) {
  std::string name = gguf_encoder_name(spec, id);
  const auto part = qkv_part(spec, id, format_text("blk.{}.attn_qkv.weight", id.layer));
  if (!part) return {std::move(name), {}};
  return {std::move(name), part->name, part->first_row, part->rows, part->shape.front()};
}

}  // namespace qinfer::source
