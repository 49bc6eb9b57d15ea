// See block_pool.h.
#include "kv/block_pool.h"

#include <algorithm>
#include <cstring>

#include "platform/thread.h"

namespace qinfer::kv {

Result<std::unique_ptr<BlockPool>> BlockPool::create(const KvLayout& layout, std::uint64_t n_blocks, bool commit,
                                                     const platform::Allocator& allocator) {
  const auto bytes = checked_mul(n_blocks, layout.block_bytes());
  if (n_blocks > kMaxBlocks || !bytes)
    return error(Code::no_memory, "{} KV blocks of {} bytes are more than can be addressed", n_blocks,
                 layout.block_bytes());
  std::unique_ptr<BlockPool> pool(new BlockPool);
  pool->layout_ = layout;
  pool->n_blocks_ = n_blocks;
  pool->process_ = platform::process_id();
  QINFER_ASSIGN(pool->arena_, platform::Buffer::allocate(allocator, *bytes, "the KV cache"));
  pool->committed_ = commit || !allocator.is_mapping();
  if (commit) pool->arena_.commit();
  pool->free_.reserve(n_blocks);
  return pool;
}

bool BlockPool::take(std::span<std::uint32_t> out) {
  const std::lock_guard lock(mutex_);
  if (out.size() > n_free()) return false;
  for (std::uint32_t& block : out) {
    if (free_.empty()) {
      block = static_cast<std::uint32_t>(n_touched_++);
    } else {
      block = free_.back();
      free_.pop_back();
    }
  }
  return true;
}

void BlockPool::give_back(std::span<const std::uint32_t> blocks) {
  // In a fork()ed child the lock may be held by a thread that does not exist there.
  if (platform::process_id() != process_) return;
  const std::lock_guard lock(mutex_);
  const std::uint64_t bytes = layout_.block_bytes();
  for (const std::uint32_t block : blocks) {
#if defined(QINFER_POISON)
    // What a former user leaves behind must never matter: NaN in every type makes sure that tests notice.
    std::memset(arena_.data() + block * bytes, 0xff, bytes);
#else
    if (!committed_) arena_.discard(block * bytes, bytes);
#endif
    free_.push_back(block);  // never grows: its capacity is all blocks
  }
}

PoolStats BlockPool::stats() const {
  const std::lock_guard lock(mutex_);
  PoolStats stats;
  stats.blocks_total = n_blocks_;
  stats.blocks_used = n_blocks_ - n_free();
  stats.bytes_reserved = n_blocks_ * layout_.block_bytes();
  stats.bytes_committed = (committed_ ? n_blocks_ : stats.blocks_used) * layout_.block_bytes();
  return stats;
}

}  // namespace qinfer::kv
