// What Hugging Face checkpoints call the tensors of a model, and what must be done with the stored values.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/tensors.h"

namespace qinfer::source {

/// The name of a tensor; `prefix`: what the names begin with ("model.", or nothing in a bare model).
std::string hf_tensor_name(const model::ModelSpec& spec, const model::TensorId& id, std::string_view prefix);

/// A tensor of the file that several tensors of the model are rows of, and which rows one of them is.
struct HfPart {
  std::string name;
  std::uint64_t all_rows = 0, first_row = 0, rows = 0;
};

/// Of models that store q, k and v, and gate and up, as one matrix each, in this order; none for other roles.
std::optional<HfPart> hf_part(const model::ModelSpec& spec, const model::TensorId& id, std::string_view prefix);

/// Of queries and keys where a part of each head is turned.
model::RowOrder hf_row_order(const model::ModelSpec& spec, const model::TensorId& id);

/// `norms_add_one`: the architecture's norms are stored less one.
model::Transform hf_transform(const model::TensorId& id, bool norms_add_one);

}  // namespace qinfer::source
