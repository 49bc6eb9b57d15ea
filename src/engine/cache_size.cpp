// See cache_size.h.
#include "engine/cache_size.h"

#include <algorithm>

#include "base/checked.h"

namespace qinfer::engine {
namespace {

/// The blocks that a session of `tokens` tokens holds of each group at most.
std::vector<std::uint64_t> blocks_for_tokens(const model::ModelSpec& spec, std::span<const KvLayout> layouts,
                                             std::uint64_t tokens, std::uint32_t batch_capacity) {
  std::vector<std::uint64_t> blocks;
  blocks.reserve(layouts.size());
  for (std::size_t g = 0; g < layouts.size(); ++g)
    blocks.push_back(blocks_of_session(layouts[g], spec.kv_groups[g].window, tokens, batch_capacity));
  return blocks;
}

std::uint64_t bytes_of(std::span<const KvLayout> layouts, std::span<const std::uint64_t> blocks) {
  std::uint64_t bytes = 0;
  for (std::size_t g = 0; g < layouts.size(); ++g) bytes += blocks[g] * layouts[g].block_bytes();
  return bytes;
}

/// Divides bytes among groups: as many sessions of the whole context as fit, then one session that is as long as the
/// rest allows.
std::vector<std::uint64_t> divide(const model::ModelSpec& spec, std::span<const KvLayout> layouts, std::uint64_t bytes,
                                  std::uint32_t batch_capacity) {
  std::vector<std::uint64_t> blocks = blocks_for_tokens(spec, layouts, spec.context_tokens, batch_capacity);
  const std::uint64_t one_session = std::max<std::uint64_t>(bytes_of(layouts, blocks), 1);
  const std::uint64_t sessions = bytes / one_session;
  const std::uint64_t rest = bytes % one_session;
  std::uint64_t tokens = 0, too_many = spec.context_tokens;
  while (too_many - tokens > 1) {
    const std::uint64_t middle = tokens + (too_many - tokens) / 2;
    const bool fits = bytes_of(layouts, blocks_for_tokens(spec, layouts, middle, batch_capacity)) <= rest;
    (fits ? tokens : too_many) = middle;
  }
  const std::vector<std::uint64_t> more = blocks_for_tokens(spec, layouts, tokens, batch_capacity);
  for (std::size_t g = 0; g < blocks.size(); ++g) blocks[g] = blocks[g] * sessions + (tokens != 0 ? more[g] : 0);
  return blocks;
}

Status check_addressable(std::uint64_t blocks) {
  if (blocks <= kv::BlockPool::kMaxBlocks) return Status();
  return error(Code::no_memory, "budget_bytes and budget_blocks ask for {} KV blocks, at most {} can be addressed",
               blocks, kv::BlockPool::kMaxBlocks);
}

}  // namespace

kv::PoolOptions pool_options(const CacheSize& size, const KvCacheOptions& options, std::size_t group) {
  kv::PoolOptions pool{size.blocks[group], options.commit, kv::PoolOptions::none, options.storage};
  if (options.prefix) pool.prefix = group == 0 ? kv::PoolOptions::chain : kv::PoolOptions::beside;
  return pool;
}

Result<CacheSize> cache_size(const model::ModelSpec& spec, std::span<const KvLayout> layouts,
                             std::uint32_t batch_capacity, const KvCacheOptions& options, bool all_at_once) {
  CacheSize size;
  std::uint64_t set_bytes = 0;  // one block of each group
  for (const KvLayout& layout : layouts) set_bytes += layout.block_bytes();
  if (set_bytes == 0) return size;  // an encoder
  const bool stated = options.budget_bytes != 0 || options.budget_blocks != 0;
  size.bytes =
      stated ? UINT64_MAX : bytes_of(layouts, blocks_for_tokens(spec, layouts, spec.context_tokens, batch_capacity));
  if (options.budget_blocks != 0) {
    QINFER_TRY(check_addressable(options.budget_blocks));
    const auto bytes = checked_mul(options.budget_blocks, set_bytes);
    size.bytes = bytes.value_or(UINT64_MAX);
  }
  if (options.budget_bytes != 0) size.bytes = std::min(size.bytes, options.budget_bytes);
  if (size.bytes < set_bytes)
    return error_at(Code::no_memory, static_cast<std::int64_t>(set_bytes), "budget_bytes is {}, one KV block needs {}",
                    options.budget_bytes, set_bytes);
  if (size.bytes > UINT64_MAX / 4)
    return error(Code::no_memory, "{} bytes of KV blocks cannot be addressed", size.bytes);
  if (all_at_once && layouts.size() > 1) {
    size.blocks = divide(spec, layouts, size.bytes, batch_capacity);
  } else {
    for (const KvLayout& layout : layouts) size.blocks.push_back(size.bytes / layout.block_bytes());
  }
  for (const std::uint64_t blocks : size.blocks) QINFER_TRY(check_addressable(blocks));
  for (std::size_t g = 0; g < layouts.size(); ++g)
    size.list_bytes += kv::BlockPool::list_bytes(layouts[g], pool_options(size, options, g));
  if (all_at_once || layouts.size() == 1) {
    size.bytes = bytes_of(layouts, size.blocks);
    for (const std::uint64_t blocks : size.blocks) size.blocks_total += blocks;
  } else {
    size.groups_share_bytes = true;
    size.blocks_total = *std::max_element(size.blocks.begin(), size.blocks.end());
  }
  return size;
}

std::vector<std::uint64_t> session_blocks(const model::ModelSpec& spec, std::span<const KvLayout> layouts,
                                          std::uint64_t tokens, std::uint32_t batch_capacity) {
  return blocks_for_tokens(spec, layouts, tokens, batch_capacity);
}

std::uint64_t session_block_bytes(const model::ModelSpec& spec, std::span<const KvLayout> layouts, std::uint64_t tokens,
                                  std::uint32_t batch_capacity) {
  return bytes_of(layouts, blocks_for_tokens(spec, layouts, tokens, batch_capacity));
}

}  // namespace qinfer::engine
