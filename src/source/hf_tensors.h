// What Hugging Face checkpoints call the tensors of a model, and what must be done with the stored values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/tensors.h"
#include "source/architecture.h"

namespace qinfer::source {

/// What the names of a model's tensors follow from.
struct HfNames {
  std::string_view prefix = "model.";          ///< what they begin with; nothing in a bare model
  const Architecture* architecture = nullptr;  ///< null: the names that most have
  std::vector<std::string> dense = {};         ///< folders of the layers after pooling; empty: 2_Dense and 3_Dense
  std::string_view head = "lm_head.weight";    ///< the LM head
  bool old_norms = false;                      ///< of a table of names: a norm has gamma and beta
};

/// What most checkpoints call a tensor of a layer, after "layers.<i>.", and GGUF files, after "blk.<i>.".
struct LayerTensor {
  model::Role role;
  std::string_view name, gguf;
};
/// Without names for what decoders do not have in a layer: others have tables of their own (tensor_table.h).
LayerTensor layer_tensor(model::Role role);

/// The name of a tensor.
std::string hf_tensor_name(const model::ModelSpec& spec, const model::TensorId& id, const HfNames& names);

/// Where the architecture stores several tensors as one; none for other roles.
std::optional<HfPart> hf_part(const model::ModelSpec& spec, const model::TensorId& id, const HfNames& names);

/// Of checkpoints that store the matrices of all experts of a layer as one tensor, [expert][row][column], gate and up
/// in one: the form in which transformers 5 has them in memory, and may save them. None for other roles.
std::optional<HfPart> hf_expert_part(const model::ModelSpec& spec, const model::TensorId& id, const HfNames& names);

/// The order of rows in a checkpoint.
model::RowOrder hf_row_order(const model::ModelSpec& spec, const model::TensorId& id, const HfNames& names);

/// Of queries and keys where a part of each head is turned.
model::RowOrder partial_order(const model::ModelSpec& spec, const model::TensorId& id);

/// Of queries and keys whose pairs are neighbours: row i of a head of the model is stored row 2 i, and row h + i stored
/// row 2 i + 1, h being half of the dimensions.
model::RowOrder interleaved_order(const model::ModelSpec& spec, const model::TensorId& id);

/// `norms_add_one`: the architecture's norms are stored less one.
model::Transform hf_transform(const model::TensorId& id, bool norms_add_one);

}  // namespace qinfer::source
