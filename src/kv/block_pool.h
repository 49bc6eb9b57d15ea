// The memory behind a KV cache: a fixed number of equal blocks in one arena, handed out and taken back under a lock.
//
// Sessions hold lists of block numbers (block tables); what a block contains is KvLayout's and the kernels' business.
// Pages behind free blocks go back to the operating system at once.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/kv_layout.h"
#include "base/status.h"
#include "platform/memory.h"

namespace qinfer::kv {

struct PoolStats {
  std::uint64_t blocks_total = 0, blocks_used = 0;
  std::uint64_t bytes_reserved = 0, bytes_committed = 0;
};

class BlockPool {
 public:
  static constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << 31;

  /// `commit`: touch all pages now and keep them.
  static Result<std::unique_ptr<BlockPool>> create(const KvLayout& layout, std::uint64_t n_blocks, bool commit,
                                                   const platform::Allocator& allocator);

  const KvLayout& layout() const { return layout_; }
  std::byte* arena() const { return arena_.data(); }

  /// Fills all of `out` with free blocks, or takes none and returns false.
  bool take(std::span<std::uint32_t> out);
  void give_back(std::span<const std::uint32_t> blocks);

  PoolStats stats() const;

 private:
  BlockPool() = default;
  std::uint64_t n_free() const { return free_.size() + (n_blocks_ - n_touched_); }

  KvLayout layout_;
  platform::Buffer arena_;
  bool committed_ = false;
  mutable std::mutex mutex_;
  std::vector<std::uint32_t> free_;  ///< a stack of the blocks that came back
  std::uint64_t n_blocks_ = 0;
  std::int32_t process_ = 0;
  std::uint64_t n_touched_ = 0;  ///< blocks from this one on were never taken: a huge pool costs nothing up front
};

}  // namespace qinfer::kv
