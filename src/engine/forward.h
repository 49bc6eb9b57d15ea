// One forward pass: the interpreter of a ModelSpec over a batch of rows that belong to any number of sessions.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "engine/model.h"

namespace qinfer::engine {

/// Views into the model's scratch arena, filled by the caller: tokens (arena), sequences, and for each of n_logits
/// wanted rows its batch row and the address of its n_vocab results.
struct Batch {
  std::int64_t n_rows = 0;
  std::span<const kernels::Sequence> sequences;
  std::int64_t n_logits = 0;
  std::uint32_t longest_context = 0;  ///< positions, after this batch
};

/// The arrays of the scratch arena that a caller fills.
struct BatchArrays {
  std::int32_t* tokens;
  std::int32_t* logit_rows;
  float** logit_out;
  kernels::Sequence* sequences;
};
BatchArrays batch_arrays(const Model& model);

/// False if `cancelled` became true between two layers: the batch's tokens then have no usable keys, and no logits.
/// The caller holds the runtime's eval mutex.
bool forward(const Model& model, const KvLayout& kv, const Batch& batch, const std::atomic<bool>* cancelled);

}  // namespace qinfer::engine
