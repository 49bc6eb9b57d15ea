// The tensors of a model: which ones an architecture has, where they come from and how they lie in memory.
//
// plan_weights() decides for each tensor whether it is used in the mapped file or converted into private memory, and
// adds up the bytes; load_weights() then does exactly that. Norm weights and biases are always private f32.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/checkpoint.h"
#include "kernel_set.h"
#include "model/packed.h"
#include "model/spec.h"
#include "platform/file.h"
#include "platform/memory.h"

namespace qinfer::model {

struct LayerWeights {
  kernels::Matrix q, k, v, o, gate, up, down;
  const float *attn_norm = nullptr, *ffn_norm = nullptr, *q_norm = nullptr, *k_norm = nullptr;
  const float *attn_post_norm = nullptr, *ffn_post_norm = nullptr;
  const float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr, *o_bias = nullptr;
  const float *gate_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;
};

struct Weights {
  kernels::Matrix embedding, lm_head;
  const float* final_norm = nullptr;
  std::vector<LayerWeights> layers;

  platform::Buffer memory;                                      ///< all private tensors
  std::vector<std::shared_ptr<platform::MappedFile>> mappings;  ///< the files that mapped tensors lie in
};

struct WeightsOptions {
  std::optional<Encoding> weight_format;  ///< of matrices; absent: what the kernel set wants
  bool exact = false;                     ///< refuse a format that cannot hold the file's values
  bool use_mmap = true;
  bool verify = false;      ///< norm weights and biases must be finite
  bool lock = false;        ///< keep resident
  bool split_tied = false;  ///< tied embeddings: a table of rows beside the LM head
};

/// One tensor to load.
struct WeightItem {
  std::string name;
  kernels::WeightRole role = kernels::WeightRole::q;
  bool is_vector = false;  ///< norm weight or bias: f32
  std::uint32_t layer = 0;
  bool is_global = false;
  kernels::Matrix LayerWeights::*matrix = nullptr;
  const float* LayerWeights::*vector = nullptr;
  bool add_one = false;             ///< the file has a norm's weights less one
  std::int64_t rows = 0, cols = 0;  ///< a vector has cols only
  Encoding stored = Encoding::f32;  ///< in the file
  kernels::WeightFormat format;
  bool packed = false;     ///< already in its format
  kernels::PackInfo pack;  ///< of a packed matrix
  bool mapped = false;
  std::uint64_t bytes = 0;   ///< resident
  std::uint64_t offset = 0;  ///< in Weights::memory, unless mapped
};

struct WeightsPlan {
  std::vector<WeightItem> items;
  std::uint64_t mapped_bytes = 0, private_bytes = 0;
  std::uint64_t n_params = 0;
  std::uint64_t staging_bytes = 0;  ///< the largest tensor that passes through a temporary buffer
};

/// `checkpoint` null: for a lone config.json, every tensor being of `assumed` encoding. Errors name the tensor that is
/// missing or has another shape or encoding than the spec asks for. spec.tied_embeddings must be decided.
Result<WeightsPlan> plan_weights(const ModelSpec& spec, const formats::Checkpoint* checkpoint, Encoding assumed,
                                 const kernels::KernelSet& kernels, const WeightsOptions& options);
/// The same for a packed model, whose tensors have their formats already.
Result<WeightsPlan> plan_packed_weights(const ModelSpec& spec, const PackedFile& packed,
                                        const kernels::KernelSet& kernels, const WeightsOptions& options);

/// Called with bytes done and in total; false cancels.
using LoadProgress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

/// Calls body(begin, end) for parts of [0, n), on several threads at once, and returns when all are done.
using ParallelFor =
    std::function<void(std::int64_t n, const std::function<void(std::int64_t begin, std::int64_t end)>& body)>;

/// `packed`: the packed model that `checkpoint` belongs to, or null.
Result<Weights> load_weights(const WeightsPlan& plan, formats::Checkpoint& checkpoint, const PackedFile* packed,
                             const kernels::KernelSet& kernels, const WeightsOptions& options,
                             const platform::Allocator& allocator, std::uint32_t n_layers,
                             const ParallelFor& parallel_for, const LoadProgress& progress);

}  // namespace qinfer::model
