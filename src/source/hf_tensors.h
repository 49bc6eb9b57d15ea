// What Hugging Face checkpoints call the tensors of a model, and what must be done with the stored values.
#pragma once

#include <string>
#include <string_view>

#include "model/tensors.h"

namespace qinfer::source {

/// The name of a tensor; `prefix`: what the names begin with ("model.", or nothing in a bare model).
std::string hf_tensor_name(const model::ModelSpec& spec, const model::TensorId& id, std::string_view prefix);

/// `norms_add_one`: the architecture's norms are stored less one.
model::Transform hf_transform(const model::TensorId& id, bool norms_add_one);

}  // namespace qinfer::source
