// What GGUF files call the tensors of a model, and how converting from a checkpoint has stored them.
#pragma once

#include <optional>
#include <string>

#include "model/tensors.h"
#include "source/architecture.h"

namespace qinfer::source {

/// The tensor of the file that holds one of the model, and which rows of it that is.
struct GgufPlace {
  std::string name;
  std::string part_of;  ///< the tensor of the file, where it holds more than this one; otherwise empty
  /// Of what is a part: rows of the file's tensor, all its matrices one after the other.
  std::uint64_t first_row = 0, rows = 0, all_rows = 0;

  const std::string& stored_name() const { return part_of.empty() ? name : part_of; }
};

GgufPlace gguf_place(const model::ModelSpec& spec, const GgufArchitecture& architecture, const model::TensorId& id);

/// The model has rows in another order where they are stored for rotation by interleaved pairs, or where a part of each
/// head is turned.
model::RowOrder gguf_row_order(const model::ModelSpec& spec, const GgufArchitecture& architecture,
                               const model::TensorId& id);

}  // namespace qinfer::source
