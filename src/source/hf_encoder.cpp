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

namespace {

/// The row of a tensor, and the layer by whose number it is named; none for what a model has once.
struct Named {
  const EncoderTensor* row = nullptr;
  std::optional<std::uint32_t> layer;
  std::string_view end;
};

Named find_named(const EncoderNames& names, const ModelSpec& spec, const TensorId& id) {
  Role role = id.role;
  Named named{nullptr, std::nullopt, ".weight"};
  for (const model::BiasRow& row : model::kBiases)
    if (row.bias == role) role = row.matrix, named.end = ".bias";
  if (role == Role::attn_norm && id.layer == 0) {
    named.row = &names.embedding_norm;
    return named;
  }
  const bool of_sum = names.norms_of_sums && (role == Role::final_norm || role == Role::attn_norm);
  if (of_sum) {
    named.layer = (role == Role::final_norm ? spec.n_layers() : id.layer) - 1;
    role = Role::attn_norm;
  } else if (static_cast<std::size_t>(role) >= model::kGlobalRoles) {
    named.layer = id.layer;
  }
  for (const auto& table : {names.tensors, names.classifier})
    for (const EncoderTensor& row : table)
      if (row.role == role) named.row = &row;
  return named;
}

/// Of a larger tensor the rows before one of its parts, those of the part, and all.
struct PartRows {
  std::uint64_t before = 0, own = 0, all = 0;
};

PartRows part_rows(const EncoderNames& names, const ModelSpec& spec, const TensorId& id, const Named& named,
                   std::string_view EncoderTensor::*whole) {
  const bool is_bias = named.end == ".bias";
  PartRows rows;
  for (const EncoderTensor& row : names.tensors) {
    if (row.*whole != named.row->*whole) continue;
    const model::TensorNeed need =
        model::need_of(spec, {is_bias ? *model::bias_of(row.role) : row.role, id.layer, id.expert});
    const auto n = static_cast<std::uint64_t>(is_bias ? need.cols : need.rows);
    if (&row == named.row) rows.before = rows.all, rows.own = n;
    rows.all += n;
  }
  return rows;
}

std::string join_name(std::string_view prefix, const Named& named, std::string_view layers, std::string_view name) {
  if (!named.layer) return format_text("{}{}{}", prefix, name, named.end);
  return format_text("{}{}{}.{}{}", prefix, layers, *named.layer, name, named.end);
}

}  // namespace

std::string encoder_name(const EncoderNames& names, const ModelSpec& spec, const TensorId& id, std::string_view prefix,
                         bool old_norms) {
  Named named = find_named(names, spec, id);
  if (named.row == nullptr) return {};
  const Role role = named.row->role;
  const bool is_norm = role == Role::attn_norm || role == Role::ffn_norm || role == Role::final_norm;
  if (old_norms && is_norm) named.end = named.end == ".weight" ? ".gamma" : ".beta";
  return join_name(named.row->outside ? std::string_view() : prefix, named, names.layer, named.row->name);
}

std::optional<HfPart> encoder_part(const EncoderNames& names, const ModelSpec& spec, const TensorId& id,
                                   std::string_view prefix) {
  const Named named = find_named(names, spec, id);
  if (named.row == nullptr || named.row->whole.empty()) return std::nullopt;
  const PartRows rows = part_rows(names, spec, id, named, &EncoderTensor::whole);
  HfPart part{join_name(prefix, named, names.layer, named.row->whole), {rows.all}, rows.before, rows.own};
  if (named.end == ".weight") part.shape.push_back(static_cast<std::uint64_t>(model::need_of(spec, id).cols));
  return part;
}

GgufPlace gguf_encoder_place(const EncoderNames& names, const ModelSpec& spec, const TensorId& id) {
  const Named named = find_named(names, spec, id);
  if (named.row == nullptr) return {};
  GgufPlace place{join_name("", named, "blk.", named.row->gguf), {}};
  if (named.row->gguf_whole.empty()) return place;
  const PartRows rows = part_rows(names, spec, id, named, &EncoderTensor::gguf_whole);
  place.part_of = join_name("", named, "blk.", named.row->gguf_whole);
  place.first_row = rows.before, place.rows = rows.own, place.all_rows = rows.all;
  return place;
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
