// The table of rotary position embedding: cosine and sine for each position and pair of dimensions, f32
// [ropes][positions][head_dim / 2][2]. A model may name millions of positions of which its sessions use few, so address
// space is reserved for the table, and rows are computed when a session is created that needs them. The table never
// moves, and rows that are there never change, so that evaluations go on meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "engine/runtime.h"
#include "model/spec.h"
#include "platform/memory.h"
#include "platform/shared_memory.h"

namespace qinfer::engine {

class RopeTable {
 public:
  /// More than any model in use needs: a table beyond it comes from a damaged or hostile file.
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{4} << 30;

  /// Bytes of the rows of `tokens` positions. QINFER_E_NO_MEMORY above kMaxBytes, with the max_tokens that would do.
  static Result<std::uint64_t> bytes_of(const model::ModelSpec& spec, std::uint64_t tokens);
  /// Whether all rows are taken at once: a host's allocator has no address space to reserve.
  static bool takes_all_at_once(const platform::Allocator& allocator) { return !allocator.is_mapping(); }

  /// Address space for all rows or, from a host's allocator, their memory.
  Status reserve(const model::ModelSpec& spec, const platform::Allocator& allocator);
  /// Computes the first `tokens` rows of each rope, as far as they are not there yet, and takes memory for them.
  /// Threads may call it at once; `charge` takes the new bytes out of the model's budget, and may refuse.
  template <typename Charge>
  Status fill(const model::ModelSpec& spec, std::uint32_t tokens, Runtime& runtime, Charge charge) {
    const Lock lock(mutex_);
    if (tokens <= rows_) return Status();
    QINFER_ASSIGN(const std::uint64_t bytes, bytes_of(spec, tokens));
    if (memory_.size() == 0) {
      QINFER_ASSIGN(auto taken, charge(bytes - bytes_));
      QINFER_TRY(compute(spec, tokens, runtime));
      taken.keep();
      bytes_ = bytes;
    } else {
      QINFER_TRY(compute(spec, tokens, runtime));
    }
    rows_ = tokens;
    return Status();
  }

  /// The table of one rope.
  const float* data(std::uint32_t rope) const { return first_ + values_before_[rope] * reserved_; }
  /// Bytes of memory that are taken.
  std::uint64_t bytes() const { return bytes_; }

 private:
  Status compute(const model::ModelSpec& spec, std::uint32_t tokens, Runtime& runtime)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  platform::AddressRange range_;
  platform::Buffer memory_;  ///< from a host's allocator, instead of range_
  float* first_ = nullptr;
  std::uint64_t reserved_ = 0;                      ///< rows of each rope that there is room for
  std::vector<std::uint64_t> values_before_;        ///< of one position, in the tables before each rope's
  std::uint32_t rows_ ABSL_GUARDED_BY(mutex_) = 0;  ///< of each rope that are computed
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace qinfer::engine
