// One forward pass: the interpreter of a ModelSpec over a batch of rows that belong to any number of sessions.
//
// Every row is a token: its embedding goes through all layers, with a norm before (or after) attention and the
// feed-forward network, and the results are added to the residual stream h. Rows meet in attention alone, where a row
// sees the keys and values of the earlier tokens of its own session. What differs between architectures is data of the
// ModelSpec; what differs between CPUs is in the kernel set.
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
  std::size_t n_sequences = 0;
  std::int64_t n_logits = 0;
  std::size_t n_embeddings = 0;       ///< sessions whose hidden states are gathered
  std::uint32_t longest_context = 0;  ///< positions, after this batch
};

/// The arrays of the scratch arena that a caller fills.
struct BatchArrays {
  std::int32_t* tokens;
  std::int32_t *positions, *types;  ///< rows of the model's tables; only where it has them
  std::int32_t* logit_rows;
  float** logit_out;
  kernels::Sequence* sequences;  ///< [group][stride]: groups differ in where keys and values are
  HiddenStateRows* embeddings;
  HiddenRows* hidden;  ///< of each sequence; only where the model is a stage

  kernels::Sequence* sequences_of(std::size_t group) const { return sequences + group * stride; }
  std::size_t stride;  ///< the capacity of a batch
};
BatchArrays batch_arrays(const Model& model);

/// False if `cancelled` became true between two layers: the batch's tokens then have no usable keys, and no logits.
/// The caller holds the runtime's eval mutex.
/// `kv_layouts`: of each group of layers.
bool forward(const Model& model, std::span<const KvLayout> kv_layouts, const Batch& batch,
             const std::atomic<bool>* cancelled);

}  // namespace qinfer::engine
