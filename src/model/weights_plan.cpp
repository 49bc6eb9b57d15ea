// Which tensors a spec needs, and how each will lie in memory. See weights.h.
#include <algorithm>

#include "model/weights.h"

namespace qinfer::model {
namespace {

using kernels::WeightRole;
using SizeOf = std::uint32_t (*)(const ModelSpec&);
using Wanted = bool (*)(const ModelSpec&);

constexpr SizeOf kHidden = [](const ModelSpec& s) { return s.n_embd; };
constexpr SizeOf kQuery = [](const ModelSpec& s) { return s.q_dim(); };
constexpr SizeOf kKeyValue = [](const ModelSpec& s) { return s.kv_dim(); };
constexpr SizeOf kFfn = [](const ModelSpec& s) { return s.n_ffn; };
constexpr SizeOf kHead = [](const ModelSpec& s) { return s.head_dim; };

struct MatrixRow {
  std::string_view name;  ///< after "model.layers.<i>."
  WeightRole role;
  kernels::Matrix LayerWeights::*slot;
  SizeOf rows, cols;
  bool makes_kv = false;  ///< layers that read another's keys and values have none
};

constexpr MatrixRow kMatrices[] = {
    {"self_attn.q_proj.weight", WeightRole::q, &LayerWeights::q, kQuery, kHidden},
    {"self_attn.k_proj.weight", WeightRole::k, &LayerWeights::k, kKeyValue, kHidden, true},
    {"self_attn.v_proj.weight", WeightRole::v, &LayerWeights::v, kKeyValue, kHidden, true},
    {"self_attn.o_proj.weight", WeightRole::o, &LayerWeights::o, kHidden, kQuery},
    {"mlp.gate_proj.weight", WeightRole::gate, &LayerWeights::gate, kFfn, kHidden},
    {"mlp.up_proj.weight", WeightRole::up, &LayerWeights::up, kFfn, kHidden},
    {"mlp.down_proj.weight", WeightRole::down, &LayerWeights::down, kHidden, kFfn},
};

struct VectorRow {
  std::string_view name;
  const float* LayerWeights::*slot;
  SizeOf size;
  Wanted wanted;
  bool makes_kv = false;
};

constexpr Wanted kAlways = [](const ModelSpec&) { return true; };
constexpr Wanted kPreNorms = [](const ModelSpec& s) { return !s.post_norms; };
constexpr Wanted kPostNorms = [](const ModelSpec& s) { return s.post_norms; };
constexpr Wanted kQkNorm = [](const ModelSpec& s) { return s.qk_norm; };
constexpr Wanted kQkvBias = [](const ModelSpec& s) { return s.qkv_bias; };
constexpr Wanted kOBias = [](const ModelSpec& s) { return s.o_bias; };
constexpr Wanted kMlpBias = [](const ModelSpec& s) { return s.mlp_bias; };

constexpr VectorRow kVectors[] = {
    {"input_layernorm.weight", &LayerWeights::attn_norm, kHidden, kAlways},
    // The same name for two things: the norm before the network, or, where there are four norms, behind attention.
    {"post_attention_layernorm.weight", &LayerWeights::ffn_norm, kHidden, kPreNorms},
    {"post_attention_layernorm.weight", &LayerWeights::attn_post_norm, kHidden, kPostNorms},
    {"pre_feedforward_layernorm.weight", &LayerWeights::ffn_norm, kHidden, kPostNorms},
    {"post_feedforward_layernorm.weight", &LayerWeights::ffn_post_norm, kHidden, kPostNorms},
    {"self_attn.q_norm.weight", &LayerWeights::q_norm, kHead, kQkNorm},
    {"self_attn.k_norm.weight", &LayerWeights::k_norm, kHead, kQkNorm, true},
    {"self_attn.q_proj.bias", &LayerWeights::q_bias, kQuery, kQkvBias},
    {"self_attn.k_proj.bias", &LayerWeights::k_bias, kKeyValue, kQkvBias, true},
    {"self_attn.v_proj.bias", &LayerWeights::v_bias, kKeyValue, kQkvBias, true},
    {"self_attn.o_proj.bias", &LayerWeights::o_bias, kHidden, kOBias},
    {"mlp.gate_proj.bias", &LayerWeights::gate_bias, kFfn, kMlpBias},
    {"mlp.up_proj.bias", &LayerWeights::up_bias, kFfn, kMlpBias},
    {"mlp.down_proj.bias", &LayerWeights::down_bias, kHidden, kMlpBias},
};

/// What tensor names begin with: a bare model saved by itself has no "model." before them.
std::string_view name_prefix(const ModelSpec& spec, const formats::Checkpoint* checkpoint) {
  const bool bare =
      spec.bare_names && (checkpoint == nullptr || checkpoint->find("model.embed_tokens.weight") == nullptr);
  return bare ? "" : "model.";
}

/// `split`: tied embeddings are looked up in the file's own rows, beside the LM head.
std::vector<WeightItem> list_tensors(const ModelSpec& spec, std::string_view outer, bool split) {
  std::vector<WeightItem> items;
  const auto global = [&items](std::string name, WeightRole role, bool is_vector, std::uint32_t rows,
                               std::uint32_t cols) {
    WeightItem item;
    item.name = std::move(name);
    item.role = role;
    item.is_global = true;
    item.is_vector = is_vector;
    item.rows = rows;
    item.cols = cols;
    items.push_back(std::move(item));
  };
  const std::string embedding = std::string(outer) + "embed_tokens.weight";
  global(embedding, spec.causal && spec.tied_embeddings && !split ? WeightRole::tied : WeightRole::embedding, false,
         spec.n_vocab, spec.n_embd);
  for (std::uint32_t layer = 0; layer < spec.n_layers(); ++layer) {
    const std::string prefix = fmt::format("{}layers.{}.", outer, layer);
    const bool own_kv = spec.layers[layer].has_own_kv();
    for (const VectorRow& row : kVectors) {
      if (!row.wanted(spec) || (row.makes_kv && !own_kv)) continue;
      WeightItem item;
      item.name = prefix + std::string(row.name);
      item.is_vector = true;
      item.layer = layer;
      item.vector = row.slot;
      item.rows = 1;
      item.cols = row.size(spec);
      item.add_one = spec.norms_add_one && row.name.ends_with("norm.weight");
      items.push_back(std::move(item));
    }
    for (const MatrixRow& row : kMatrices) {
      if (row.makes_kv && !own_kv) continue;
      WeightItem item;
      item.name = prefix + std::string(row.name);
      item.role = row.role;
      item.layer = layer;
      item.matrix = row.slot;
      item.rows = row.rows(spec);
      item.cols = row.cols(spec);
      items.push_back(std::move(item));
    }
  }
  global(std::string(outer) + "norm.weight", WeightRole::lm_head, true, 1, spec.n_embd);
  items.back().add_one = spec.norms_add_one;
  if (spec.causal && (!spec.tied_embeddings || split))
    global(spec.tied_embeddings ? embedding : "lm_head.weight", WeightRole::lm_head, false, spec.n_vocab, spec.n_embd);
  return items;
}

Status check_tensor(const formats::Checkpoint& checkpoint, WeightItem& item) {
  const formats::Tensor* tensor = checkpoint.find(item.name);
  if (tensor == nullptr) return error(Code::not_found, "the checkpoint has no tensor \"{}\"", item.name);
  const std::string& file = checkpoint.shard_name(tensor->shard);
  const auto stored = formats::find_stored_encoding(tensor->dtype);
  if (!stored)
    return error(Code::unsupported, "{}: tensor \"{}\" is {}, supported are F32, F16 and BF16", file, item.name,
                 tensor->dtype);
  item.stored = *stored;
  std::vector<std::uint64_t> expected;
  if (!item.is_vector) expected.push_back(static_cast<std::uint64_t>(item.rows));
  expected.push_back(static_cast<std::uint64_t>(item.cols));
  if (tensor->shape != expected)
    return error_at(Code::format, static_cast<std::int64_t>(tensor->begin),
                    "{}: tensor \"{}\" has the shape {}, config.json asks for {}", file, item.name,
                    formats::shape_text(tensor->shape), formats::shape_text(expected));
  return Status();
}

Status choose_format(const kernels::KernelSet& kernels, const WeightsOptions& options, WeightItem& item) {
  if (item.is_vector) return Status();
  const Encoding* wanted = options.weight_format ? &*options.weight_format : nullptr;
  if (!kernels.weight_format(item.role, item.stored, wanted, options.exact, item.format)) {
    return error(Code::invalid_argument, "kernel set {} cannot hold tensor \"{}\" ({}) as {}{}", kernels.name,
                 item.name, encoding_name(item.stored),
                 wanted != nullptr ? encoding_name(*wanted) : "any format it has",
                 options.exact ? " exactly, as QINFER_RUNTIME_EXACT asks" : "");
  }
  return Status();
}

/// Matrices that one operation reads together, its inner loop having one type of weights; 0: read alone.
int fused_group(const WeightItem& item) {
  if (item.is_vector || item.format.layout == kernels::WeightLayout::row_major) return 0;
  switch (item.role) {
    case WeightRole::q:
    case WeightRole::k:
    case WeightRole::v: return 1;
    case WeightRole::gate:
    case WeightRole::up:
    case WeightRole::down: return 2;
    default: return 0;
  }
}

/// A checkpoint may mix types within a layer: packed matrices of one operation then all become f32.
void unify_types(std::vector<WeightItem>& items) {
  for (std::size_t first = 0, end = 0; first < items.size(); first = end) {
    while (end < items.size() && items[end].layer == items[first].layer) ++end;
    for (const int group : {1, 2}) {
      std::optional<Encoding> type;
      for (std::size_t i = first; i < end; ++i) {
        if (fused_group(items[i]) != group) continue;
        type = !type || *type == items[i].format.encoding ? items[i].format.encoding : Encoding::f32;
      }
      for (std::size_t i = first; i < end; ++i)
        if (fused_group(items[i]) == group) items[i].format.encoding = *type;
    }
  }
}

/// The shape a tensor has in a packed file.
std::vector<std::uint64_t> packed_shape(const WeightItem& item, const kernels::WeightFormat& format) {
  if (item.is_vector) return {static_cast<std::uint64_t>(item.cols)};
  const kernels::StoredShape shape = kernels::weight_shape(format, item.rows, item.cols);
  return {shape.lengths, shape.lengths + shape.n};
}

Status check_packed(const PackedFile& packed, WeightItem& item) {
  const formats::Tensor* tensor = packed.checkpoint.find(item.name);
  const PackedTensor* info = packed.find(item.name);
  if (tensor == nullptr || info == nullptr)
    return error(Code::not_found, "the packed model has no tensor \"{}\"", item.name);
  const std::string& file = packed.checkpoint.shard_name(tensor->shard);
  const auto encoding = formats::find_stored_encoding(tensor->dtype);
  if (!encoding || (item.is_vector && *encoding != Encoding::f32))
    return error_at(Code::format, static_cast<std::int64_t>(tensor->begin), "{}: tensor \"{}\" is {}", file, item.name,
                    tensor->dtype);
  const kernels::WeightFormat format{*encoding, info->layout};
  const auto expected = packed_shape(item, format);
  if (tensor->shape != expected || info->rows != item.rows || info->cols != item.cols)
    return error_at(Code::format, static_cast<std::int64_t>(tensor->begin),
                    "{}: tensor \"{}\" has the shape {}, its config.json asks for {}", file, item.name,
                    formats::shape_text(tensor->shape), formats::shape_text(expected));
  const std::uint64_t alignment = kernels::weight_alignment(format);
  if (tensor->begin % alignment != 0)
    return error_at(Code::format, static_cast<std::int64_t>(tensor->begin),
                    "{}: tensor \"{}\" begins at byte {}, expected a multiple of {}", file, item.name, tensor->begin,
                    alignment);
  if (info->layout == kernels::WeightLayout::row_major && info->pack.scale != 1)
    return error_at(Code::format, static_cast<std::int64_t>(tensor->begin),
                    "{}: tensor \"{}\" has the scale {}, rows have 1", file, item.name, info->pack.scale);
  item.stored = info->source;
  item.format = format;
  item.packed = true;
  item.pack = info->pack;
  return Status();
}

/// The kernel set must want a matrix in just the format that it has.
Status accept_packed(const PackedFile& packed, const kernels::KernelSet& kernels, const WeightsOptions& options,
                     const WeightItem& item) {
  if (item.is_vector) return Status();
  const Encoding wanted = options.weight_format.value_or(item.format.encoding);
  kernels::WeightFormat format;
  const bool possible = kernels.weight_format(item.role, item.stored, &wanted, options.exact, format);
  if (possible && format == item.format) return Status();
  return error(Code::unsupported,
               "tensor \"{}\" was packed as {} for kernel set {}; {}{} does not take it so: pack the checkpoint again",
               item.name, encoding_name(item.format.encoding), packed.kernel_set, kernels.name,
               options.exact ? " with QINFER_RUNTIME_EXACT" : "");
}

/// Where each tensor lies, and the sums.
void lay_out(WeightsPlan& plan, const WeightsOptions& options) {
  for (WeightItem& item : plan.items) {
    const std::uint64_t elements = static_cast<std::uint64_t>(item.rows) * static_cast<std::uint64_t>(item.cols);
    const bool as_in_file =
        !item.is_vector && item.format == kernels::WeightFormat{item.stored, kernels::WeightLayout::row_major};
    item.mapped = options.use_mmap && (as_in_file || item.packed);
    item.bytes = item.is_vector ? elements * sizeof(float) : kernels::weight_bytes(item.format, item.rows, item.cols);
    // Tied embeddings that are split are one tensor of the file, listed twice.
    const bool again = item.role == WeightRole::lm_head && !item.is_vector && item.name == plan.items[0].name;
    if (!again) plan.n_params += elements;
    if (item.mapped) {
      if (!again || !plan.items[0].mapped) plan.mapped_bytes += item.bytes;
      continue;
    }
    item.offset = round_up(plan.private_bytes, platform::Buffer::kAlignment);
    plan.private_bytes = item.offset + item.bytes;
    // A mapped file is read in place; without mmap a tensor that changes its form passes through a buffer.
    if (!as_in_file && !item.packed && !options.use_mmap)
      plan.staging_bytes = std::max(plan.staging_bytes, encoded_bytes(item.stored, elements));
  }
}

}  // namespace

Result<WeightsPlan> plan_packed_weights(const ModelSpec& spec, const PackedFile& packed,
                                        const kernels::KernelSet& kernels, const WeightsOptions& options) {
  if (options.split_tied && spec.tied_embeddings)
    return error(Code::invalid_argument,
                 "QINFER_LOAD_EMBED_ROWS: a packed model has tied embeddings once, in the LM head's layout");
  WeightsPlan plan;
  plan.items = list_tensors(spec, name_prefix(spec, &packed.checkpoint), options.split_tied);
  for (WeightItem& item : plan.items) {
    QINFER_TRY(check_packed(packed, item));
    QINFER_TRY(accept_packed(packed, kernels, options, item));
  }
  // What one operation reads together has one type: qinfer writes no other file.
  std::vector<WeightItem> unified = plan.items;
  unify_types(unified);
  for (std::size_t i = 0; i < unified.size(); ++i)
    if (unified[i].format != plan.items[i].format)
      return error_at(Code::format, -1, "tensor \"{}\" is {}, unlike those that are multiplied together with it",
                      plan.items[i].name, encoding_name(plan.items[i].format.encoding));
  lay_out(plan, options);
  return plan;
}

Result<WeightsPlan> plan_weights(const ModelSpec& spec, const formats::Checkpoint* checkpoint, Encoding assumed,
                                 const kernels::KernelSet& kernels, const WeightsOptions& options) {
  WeightsPlan plan;
  plan.items = list_tensors(spec, name_prefix(spec, checkpoint), options.split_tied);
  for (WeightItem& item : plan.items) {
    item.stored = assumed;
    if (checkpoint != nullptr) QINFER_TRY(check_tensor(*checkpoint, item));
    QINFER_TRY(choose_format(kernels, options, item));
  }
  unify_types(plan.items);
  lay_out(plan, options);
  return plan;
}

}  // namespace qinfer::model
