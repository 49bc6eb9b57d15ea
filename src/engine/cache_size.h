// How large a KV cache is: from its options and the layouts of its groups of layers to bytes and blocks.
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

/// How large a cache is. Groups share the bytes, and each may have as many blocks as fit into all of them; where memory
/// is taken at once, each has its own part.
struct CacheSize {
  std::uint64_t bytes = 0;
  std::uint64_t list_bytes = 0;       ///< beside the blocks
  bool groups_share_bytes = false;    ///< groups share the bytes
  std::uint64_t blocks_total = 0;     ///< the most that can be held of all groups together
  std::vector<std::uint64_t> blocks;  ///< at most, of each group
};

/// What the pool of a group of layers is made with.
kv::PoolOptions pool_options(const CacheSize& size, const KvCacheOptions& options, std::size_t group);

/// `batch_capacity`: tokens evaluated at once at most; `all_at_once`: memory is taken when the cache is created.
/// QINFER_E_NO_MEMORY if the budget is too small for a block of each group.
Result<CacheSize> cache_size(const model::ModelSpec& spec, std::span<const KvLayout> layouts,
                             std::uint32_t batch_capacity, const KvCacheOptions& options, bool all_at_once);

/// Bytes of the blocks that a session of `tokens` tokens holds at most.
std::uint64_t session_block_bytes(const model::ModelSpec& spec, std::span<const KvLayout> layouts, std::uint64_t tokens,
                                  std::uint32_t batch_capacity);

}  // namespace qinfer::engine
