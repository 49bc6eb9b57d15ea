// The tensors of a model: which ones an architecture has, where they come from and how they are kept in memory.
//
// plan_weights() decides for each tensor whether it is used in the mapped file or converted into private memory, and
// adds up the bytes; load_weights() then does exactly that. Norm weights and biases are always private f32, and a
// matrix whose rows come in another order than the file's is never used in the file.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernel_set.h"
#include "model/spec.h"
#include "model/tensors.h"
#include "platform/file.h"
#include "platform/memory.h"

namespace qinfer::model {

/// The tensors of a loaded model, by what they are for.
class Weights {
 public:
  Weights() = default;
  explicit Weights(const ModelSpec& spec);

  bool empty() const { return matrices_.empty(); }
  /// Without data where the model has none.
  const kernels::Matrix& matrix(Role role, std::uint32_t layer = 0) const { return matrices_[index(role, layer)]; }
  const kernels::Matrix& matrix(const TensorId& id) const {
    return id.expert == kNoExpert ? matrix(id.role, id.layer) : experts_[expert_index(id.role, id.layer, id.expert)];
  }
  /// A matrix with its bias, where the model has one.
  kernels::Linear linear(Role role, std::uint32_t layer = 0, float scale = 1) const {
    const std::optional<Role> bias = bias_of(role);
    return {matrix(role, layer), bias ? vector(*bias, layer) : nullptr, scale};
  }
  /// Gate, up or down of all experts of a layer, one after the other; null where it has none.
  const kernels::Linear* experts(Role role, std::uint32_t layer) const {
    return experts_of_layer_[layer].count != 0 ? experts_.data() + expert_index(role, layer, 0) : nullptr;
  }
  /// Null where the model has none.
  const float* vector(Role role, std::uint32_t layer = 0) const { return vectors_[index(role, layer)]; }
  void set(const TensorId& id, const kernels::Matrix& matrix) {
    if (id.expert == kNoExpert) {
      matrices_[index(id.role, id.layer)] = matrix;
    } else {
      experts_[expert_index(id.role, id.layer, id.expert)] = matrix;
    }
  }
  void set(const TensorId& id, const float* vector) { vectors_[index(id.role, id.layer)] = vector; }

  platform::Buffer memory;                                      ///< all private tensors
  std::vector<std::shared_ptr<platform::MappedFile>> mappings;  ///< the files that mapped tensors are in

 private:
  static constexpr std::size_t kLayerRoleCount = kRoles - kGlobalRoles;
  static std::size_t index(Role role, std::uint32_t layer) {
    const auto i = static_cast<std::size_t>(role);
    return i < kGlobalRoles ? i : i + layer * kLayerRoleCount;
  }
  /// Where the matrices of a layer's experts are among all: gates, then ups, then downs.
  struct ExpertRange {
    std::size_t first = 0, count = 0;
  };
  std::size_t expert_index(Role role, std::uint32_t layer, std::size_t expert) const {
    const ExpertRange& range = experts_of_layer_[layer];
    const auto kind = static_cast<std::size_t>(role) - static_cast<std::size_t>(Role::gate);
    return range.first + kind * range.count + expert;
  }
  std::vector<kernels::Matrix> matrices_;
  std::vector<kernels::Linear> experts_;
  std::vector<ExpertRange> experts_of_layer_;
  std::vector<const float*> vectors_;
};

struct WeightsOptions {
  std::optional<Encoding> weight_format;  ///< of matrices; absent: what the kernel set wants
  bool exact = false;                     ///< refuse a format that cannot hold the file's values
  bool use_mmap = true;
  bool verify = false;  ///< look at what is otherwise used unseen: QINFER_LOAD_VERIFY says what
  bool lock = false;    ///< keep resident
  bool pack = false;    ///< copy into the form that the set multiplies fastest, though it could map the file
  bool separate_embedding = false;  ///< tied embeddings: a table to look rows up in, in addition to the LM head
};

/// One tensor to load.
struct WeightItem {
  TensorNeed need;
  TensorInfo stored;  ///< where it comes from; without tensors to plan for, what they are assumed to be
  kernels::WeightFormat format;
  bool serves_as_head = false;  ///< an embedding that is the LM head, too
  bool mapped = false;
  std::uint64_t bytes = 0;   ///< resident
  std::uint64_t offset = 0;  ///< in Weights::memory, unless mapped
};

/// Adds up amounts, parameters or bytes, of which one token needs all, but of a layer's experts only those that it is
/// routed to: the share top_k / experts of what they have together.
class ActiveSum {
 public:
  explicit ActiveSum(const ModelSpec& spec) : spec_(spec), of_experts_(spec.n_layers()) {}
  void add(const TensorId& id, std::uint64_t amount) {
    (id.expert == kNoExpert ? of_all_tokens_ : of_experts_[id.layer]) += amount;
  }
  /// Of what was added, what one token needs.
  std::uint64_t active() const;
  /// Of what was added, what experts have, chosen or not.
  std::uint64_t experts() const;

 private:
  const ModelSpec& spec_;
  std::uint64_t of_all_tokens_ = 0;
  std::vector<std::uint64_t> of_experts_;  ///< by layer
};

struct WeightsPlan {
  std::vector<WeightItem> items;
  std::uint64_t mapped_bytes = 0, private_bytes = 0;
  std::uint64_t n_params = 0, n_active_params = 0;  ///< active: those that one token is computed with
  std::uint64_t active_bytes = 0;                   ///< read for one token; a table of rows is not
  std::uint64_t expert_bytes = 0;                   ///< of all experts together
  std::uint64_t staging_bytes = 0;                  ///< a buffer for rows that are converted (step_rows())
};

/// Rows of a tensor that are read or converted at once: some 16 MiB, in whole runs of its order and whole tiles.
std::uint64_t step_rows(const TensorInfo& tensor);

/// `assumed`: the source has no tensors, and every one is taken to be as the spec asks for, in this encoding.
/// `packed_for`: the kernel set that the source was packed for, or empty. Errors name the tensor that is missing or has
/// another shape or encoding than the spec asks for. spec.tied_embeddings must be decided.
Result<WeightsPlan> plan_weights(const ModelSpec& spec, const TensorSource& source, std::optional<Encoding> assumed,
                                 std::string_view packed_for, const kernels::KernelSet& kernels,
                                 const WeightsOptions& options);

/// Whether the kernel set would keep every matrix with the values that the source has, which is not packed: in the
/// encoding that it has there, or as f32. An encoder, which gives vectors and scores of texts, may have its plain
/// matrices rounded to what the set multiplies with. False where a matrix is missing, or in an encoding that is not
/// accepted.
bool holds_well(const ModelSpec& spec, const TensorSource& source, std::optional<Encoding> assumed,
                const kernels::KernelSet& kernels, const WeightsOptions& options,
                const std::function<bool(Encoding)>& accepts);

/// Whether the kernel set would multiply any matrix as quantised as the source has it.
bool multiplies_quantised(const ModelSpec& spec, const TensorSource& source, std::optional<Encoding> assumed,
                          const kernels::KernelSet& kernels, const WeightsOptions& options);

/// Called with bytes done and in total; false cancels.
using LoadProgress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

Result<Weights> load_weights(const WeightsPlan& plan, TensorSource& source, const kernels::KernelSet& kernels,
                             const WeightsOptions& options, const platform::Allocator& allocator, const ModelSpec& spec,
                             const ParallelFor& parallel_for, const LoadProgress& progress);

}  // namespace qinfer::model
