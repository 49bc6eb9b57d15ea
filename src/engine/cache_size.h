// How large a KV cache is: from its options and the layouts of its groups of layers to bytes and blocks.
//
// Groups with a window need fewer blocks for a session than those without, in a ratio that depends on how long sessions
// are. So that a host need not choose it, the groups share one budget of bytes, and the pool of each has as many block
// numbers as would fit if it took all of them. Where memory must be there from the beginning (QINFER_CACHE_COMMIT, or a
// host's allocator) that is not possible, and the bytes are divided: into whole sessions of the full context, and the
// remainder into one shorter session.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/layout.h"
#include "engine/options.h"
#include "kv/block_pool.h"
#include "model/spec.h"

namespace qinfer::engine {

/// How large a cache is.
struct CacheSize {
  std::uint64_t bytes = 0;
  std::uint64_t list_bytes = 0;       ///< besides the blocks
  bool groups_share_bytes = false;    ///< otherwise each has its own part
  std::uint64_t blocks_total = 0;     ///< the most blocks that can be held, all groups together
  std::vector<std::uint64_t> blocks;  ///< block numbers of each group's pool
};

/// What the pool of a group of layers is made with.
kv::PoolOptions pool_options(const CacheSize& size, const KvCacheOptions& options, std::size_t group);

/// `batch_capacity`: tokens evaluated at once at most; `all_at_once`: memory is taken when the cache is created.
/// QINFER_E_NO_MEMORY if the budget is too small for a block of each group.
Result<CacheSize> cache_size(const model::ModelSpec& spec, std::span<const KvLayout> layouts,
                             std::uint32_t batch_capacity, const KvCacheOptions& options, bool all_at_once);

/// Blocks that a session of `tokens` tokens holds at most, of each group.
std::vector<std::uint64_t> session_blocks(const model::ModelSpec& spec, std::span<const KvLayout> layouts,
                                          std::uint64_t tokens, std::uint32_t batch_capacity);
/// Bytes of the blocks that a session of `tokens` tokens holds at most.
std::uint64_t session_block_bytes(const model::ModelSpec& spec, std::span<const KvLayout> layouts, std::uint64_t tokens,
                                  std::uint32_t batch_capacity);

}  // namespace qinfer::engine
