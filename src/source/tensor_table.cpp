// See tensor_table.h.
#include "source/tensor_table.h"

#include "base/format.h"

namespace qinfer::source {

using model::ModelSpec;
using model::Role;
using model::TensorId;

namespace {

/// The row of a tensor, and the layer by whose number it is named; none for what a model has once.
struct Named {
  const NamedTensor* row = nullptr;
  std::optional<std::uint32_t> layer;
  std::string_view end;
};

Named find_named(const TensorTable& names, const ModelSpec& spec, const TensorId& id) {
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
    for (const NamedTensor& row : table)
      if (row.role == role) named.row = &row;
  return named;
}

/// Of a larger tensor the rows before one of its parts, those of the part, and all.
struct PartRows {
  std::uint64_t before = 0, own = 0, all = 0;
};

PartRows part_rows(const TensorTable& names, const ModelSpec& spec, const TensorId& id, const Named& named,
                   std::string_view NamedTensor::*whole) {
  const bool is_bias = named.end == ".bias";
  PartRows rows;
  for (const NamedTensor& row : names.tensors) {
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

std::string table_name(const TensorTable& names, const ModelSpec& spec, const TensorId& id, std::string_view prefix,
                       bool old_norms) {
  Named named = find_named(names, spec, id);
  if (named.row == nullptr) return {};
  const Role role = named.row->role;
  const bool is_norm = role == Role::attn_norm || role == Role::ffn_norm || role == Role::final_norm;
  if (old_norms && is_norm) named.end = named.end == ".weight" ? ".gamma" : ".beta";
  return join_name(named.row->outside ? std::string_view() : prefix, named, names.layer, named.row->name);
}

std::optional<HfPart> table_part(const TensorTable& names, const ModelSpec& spec, const TensorId& id,
                                 std::string_view prefix) {
  const Named named = find_named(names, spec, id);
  if (named.row == nullptr || named.row->whole.empty()) return std::nullopt;
  const PartRows rows = part_rows(names, spec, id, named, &NamedTensor::whole);
  HfPart part{join_name(prefix, named, names.layer, named.row->whole), {rows.all}, rows.before, rows.own};
  if (named.end == ".weight") part.shape.push_back(static_cast<std::uint64_t>(model::need_of(spec, id).cols));
  return part;
}

GgufPlace gguf_table_place(const TensorTable& names, const ModelSpec& spec, const TensorId& id) {
  const Named named = find_named(names, spec, id);
  if (named.row == nullptr) return {};
  GgufPlace place{join_name("", named, "blk.", named.row->gguf), {}};
  if (named.row->gguf_whole.empty()) return place;
  const PartRows rows = part_rows(names, spec, id, named, &NamedTensor::gguf_whole);
  place.part_of = join_name("", named, "blk.", named.row->gguf_whole);
  place.first_row = rows.before, place.rows = rows.own, place.all_rows = rows.all;
  return place;
}

}  // namespace qinfer::source
