// Names of tensors as a table, of families that share few names with others: in checkpoints and in GGUF files.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "source/architecture.h"
#include "source/gguf_tensors.h"

namespace qinfer::source {

/// A tensor of a family: what checkpoints and GGUF files call it, without the end, which is ".weight", or
/// ".bias" of its bias. The name of a layer's tensor follows what those of a layer begin with.
struct NamedTensor {
  model::Role role;  ///< of the matrix or norm; its bias has the same name
  std::string_view name, gguf;
  /// Where one tensor holds several: its name. Its rows are those of all that name it, in the order of the table.
  std::string_view whole = {}, gguf_whole = {};
  bool outside = false;  ///< of what is around the layers: its name has no prefix
};

/// All names of a family, whose layers are others than those that hf_tensors.h names.
struct TensorTable {
  std::string_view layer;      ///< names of a layer's tensors begin with it, the layer's number and "."
  NamedTensor embedding_norm;  ///< which is the norm before attention of layer 0
  /// The norm before attention of each other layer, and the last norm, are named as a tensor of the layer before: as
  /// that of the layer's sum, which the table has as attn_norm.
  bool norms_of_sums = true;
  std::span<const NamedTensor> tensors, classifier = {};
};

/// What a tensor is called: in a checkpoint, and in a GGUF file. Empty names: the family has no such tensor.
/// `old_norms`: HfNames.
std::string table_name(const TensorTable& names, const model::ModelSpec& spec, const model::TensorId& id,
                       std::string_view prefix, bool old_norms = false);
GgufPlace gguf_table_place(const TensorTable& names, const model::ModelSpec& spec, const model::TensorId& id);
/// The larger tensor of a checkpoint that it is rows of; none where it is a separate one.
std::optional<HfPart> table_part(const TensorTable& names, const model::ModelSpec& spec, const model::TensorId& id,
                                 std::string_view prefix);

}  // namespace qinfer::source
