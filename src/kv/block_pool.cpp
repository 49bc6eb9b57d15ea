// See block_pool.h.
#include "kv/block_pool.h"

#include <cstring>

#include "platform/thread.h"

namespace qinfer::kv {

Result<std::unique_ptr<BlockPool>> BlockPool::create(const KvLayout& layout, const PoolOptions& options,
                                                     const platform::Allocator& allocator) {
  const std::uint64_t n_blocks = options.n_blocks;
  const auto bytes = checked_mul(n_blocks, layout.block_bytes());
  if (n_blocks > kMaxBlocks || !bytes)
    return error(Code::no_memory, "{} KV blocks of {} bytes are more than can be addressed", n_blocks,
                 layout.block_bytes());
  std::unique_ptr<BlockPool> pool(new BlockPool);
  pool->layout_ = layout;
  pool->n_blocks_ = n_blocks;
  pool->process_ = platform::process_id();
  pool->committed_ = options.commit || !allocator.is_mapping();
  if (options.storage == Storage::contiguous) {
    if (!allocator.is_mapping())
      return error(Code::unsupported, "contiguous storage maps memory itself: it cannot use the host's allocator");
    if (layout.block_bytes() % platform::page_bytes() != 0)
      return error(Code::unsupported, "contiguous storage cannot map blocks of {} bytes, the system's pages have {}",
                   layout.block_bytes(), platform::page_bytes());
    QINFER_ASSIGN(pool->memory_, platform::SharedMemory::create(*bytes, options.commit));
  } else {
    QINFER_ASSIGN(pool->arena_, platform::Buffer::allocate(allocator, *bytes, "the KV cache"));
    if (options.commit) pool->arena_.commit();
  }
  const auto list = [&] {
    return platform::Buffer::allocate(platform::Allocator(), n_blocks * sizeof(std::uint32_t), "lists of KV blocks");
  };
  QINFER_ASSIGN(pool->refs_, list());
  QINFER_ASSIGN(pool->stack_, list());
  if (options.prefix) {
    QINFER_ASSIGN(pool->index_, PrefixIndex::create(n_blocks, layout.block_tokens));
  }
  return pool;
}

#if defined(QINFER_POISON)
// What a former user left in a block must never matter; NaN in every type makes sure that tests notice.
constexpr int kUnused = 0xff;
#else
constexpr int kUnused = 0;
#endif

/// A block that is not its former holder's any more, and reads as unused.
std::uint32_t BlockPool::next_free() {
  if (n_stacked_ > 0) return stack_.as<std::uint32_t>()[--n_stacked_];
  if (n_touched_ < n_blocks_) return static_cast<std::uint32_t>(n_touched_++);
  const std::uint32_t block = index_.evict();
  fill_all(block, kUnused);
  return block;
}

void BlockPool::fill_all(std::uint32_t block, int value) {
  const std::uint64_t at = block * layout_.block_bytes();
  if (!is_contiguous()) {
    std::memset(arena_.data() + at, value, layout_.block_bytes());
    return;
  }
  std::byte page[4096];
  std::memset(page, value, sizeof page);
  for (std::uint64_t i = 0; i < layout_.block_bytes(); i += sizeof page) memory_.write(at + i, page, sizeof page);
}

Result<platform::AddressRange> BlockPool::reserve_range(std::uint64_t n_blocks) {
  const std::uint64_t most = platform::max_mappings() / 2;
  QINFER_ASSIGN(platform::AddressRange range,
                platform::AddressRange::reserve(n_blocks * layout_.block_bytes(), "the keys and values of a session"));
  const std::lock_guard lock(mutex_);
  if (n_mappable_ + n_blocks > most)
    return error(
        Code::unsupported,
        "contiguous storage of {} blocks beside {} of other sessions needs more than {} mappings, half of what "
        "the system allows (vm.max_map_count): take larger blocks or paged storage",
        n_blocks, n_mappable_, most);
  n_mappable_ += n_blocks;
  return range;
}

void BlockPool::release_range(platform::AddressRange& range) {
  const std::uint64_t n_blocks = range.size() / layout_.block_bytes();
  range = platform::AddressRange();
  if (platform::process_id() != process_) return;
  const std::lock_guard lock(mutex_);
  n_mappable_ -= n_blocks;
}

bool BlockPool::map(platform::AddressRange& range, std::size_t first, std::span<const std::uint32_t> blocks,
                    bool merged) const {
  const std::uint64_t bytes = layout_.block_bytes();
  for (std::size_t i = 0; i < blocks.size();) {
    std::size_t n = 1;
    while (merged && i + n < blocks.size() && blocks[i + n] == blocks[i] + n) ++n;
    if (!range.map((first + i) * bytes, memory_, blocks[i] * bytes, n * bytes, committed_)) return false;
    i += n;
  }
  return true;
}

bool BlockPool::take(std::span<std::uint32_t> out) {
  const std::lock_guard lock(mutex_);
  if (out.size() > n_free() + index_.n_retired()) return false;
  for (std::uint32_t& block : out) {
    block = next_free();
    refs(block) = 1;
  }
  return true;
}

void BlockPool::share(std::span<const std::uint32_t> blocks) {
  const std::lock_guard lock(mutex_);
  for (const std::uint32_t block : blocks)
    if (++refs(block) == 2) ++n_shared_;
}

void BlockPool::give_back(std::span<const std::uint32_t> blocks) {
  // In a fork()ed child the lock may be held by a thread that does not exist there.
  if (platform::process_id() != process_) return;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = blocks.size(); i-- > 0;) release(blocks[i]);
}

void BlockPool::release(std::uint32_t block) {
  const std::uint32_t left = --refs(block);
  if (left == 1) --n_shared_;
  if (left != 0) return;
  if (index_.contains(block)) return index_.retire(block);
  const std::uint64_t bytes = layout_.block_bytes();
  if (committed_ || kUnused != 0) {
    fill_all(block, kUnused);
  } else {
    is_contiguous() ? memory_.discard(block * bytes, bytes) : arena_.discard(block * bytes, bytes);
  }
  stack_.as<std::uint32_t>()[n_stacked_++] = block;
}

bool BlockPool::make_writable(std::uint32_t block) {
  const std::lock_guard lock(mutex_);
  if (refs(block) != 1) return false;
  if (index_.contains(block)) index_.remove(block);
  return true;
}

bool BlockPool::fill(std::uint32_t block, const std::byte* from) {
  const std::uint64_t bytes = layout_.block_bytes();
  if (is_contiguous()) return memory_.write(block * bytes, from, bytes);
  std::memcpy(arena_.data() + block * bytes, from, bytes);
  return true;
}

bool BlockPool::back(std::span<const std::uint32_t> blocks) const {
  if (!is_contiguous() || committed_) return true;
  for (const std::uint32_t block : blocks)
    if (!memory_.allocate(block * layout_.block_bytes(), layout_.block_bytes())) return false;
  return true;
}

std::size_t BlockPool::count_shared(std::span<const std::uint32_t> blocks) const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const std::uint32_t block : blocks) count += refs(block) > 1 ? 1 : 0;
  return count;
}

std::size_t BlockPool::adopt(PrefixName parent, std::span<const std::int32_t> tokens, std::span<std::uint32_t> blocks,
                             std::span<PrefixName> names) {
  const std::lock_guard lock(mutex_);
  if (parent.generation != 0 && !index_.is_current(parent)) return 0;
  std::size_t n = 0;
  for (; (n + 1) * layout_.block_tokens <= tokens.size(); ++n) {
    const PrefixName name = index_.find(parent, tokens.subspan(n * layout_.block_tokens, layout_.block_tokens));
    if (name.generation == 0) break;
    const std::uint32_t holders = ++refs(name.block);
    if (holders == 1) index_.revive(name.block);
    if (holders == 2) ++n_shared_;
    blocks[n] = name.block;
    names[n] = parent = name;
  }
  return n;
}

PrefixName BlockPool::publish(PrefixName parent, std::span<const std::int32_t> tokens, std::uint32_t block) {
  const std::lock_guard lock(mutex_);
  if (parent.generation != 0 && !index_.is_current(parent)) return PrefixIndex::kStart;
  const PrefixName known = index_.find(parent, tokens);
  if (known.generation != 0 && known.block == block) return known;
  // Under another name where its holder was cut back into it, or where the names before it are gone.
  if (index_.contains(block)) index_.remove(block);
  return known.generation != 0 ? known : index_.add(parent, tokens, block);
}

std::size_t BlockPool::count_current(std::span<const PrefixName> names) const {
  const std::lock_guard lock(mutex_);
  std::size_t n = 0;
  while (n < names.size() && index_.is_current(names[n])) ++n;
  return n;
}

std::uint32_t BlockPool::holders(std::uint32_t block) const {
  const std::lock_guard lock(mutex_);
  return refs(block);
}

PoolStats BlockPool::stats() const {
  const std::lock_guard lock(mutex_);
  PoolStats stats;
  stats.blocks_total = n_blocks_;
  stats.blocks_cached = index_.n_retired();
  stats.blocks_used = n_blocks_ - n_free() - stats.blocks_cached;
  stats.blocks_shared = n_shared_;
  stats.bytes_reserved = n_blocks_ * layout_.block_bytes();
  stats.bytes_committed = (committed_ ? n_blocks_ : stats.blocks_used + stats.blocks_cached) * layout_.block_bytes();
  return stats;
}

const char* BlockPool::find_inconsistency(std::span<const std::uint32_t> holders) const {
  const std::lock_guard lock(mutex_);
  std::uint64_t unheld = 0, shared = 0, cached = 0;
  for (std::uint32_t block = 0; block < n_touched_; ++block) {
    if (refs(block) != holders[block]) return "a block's count of holders is wrong";
    shared += holders[block] > 1 ? 1 : 0;
    if (holders[block] != 0) continue;
    ++unheld;
    cached += index_.contains(block) ? 1 : 0;
  }
  for (std::uint64_t block = n_touched_; block < n_blocks_; ++block)
    if (holders[block] != 0) return "a block is held that was never taken";
  if (shared != n_shared_) return "the number of shared blocks is wrong";
  if (cached != index_.n_retired()) return "a block that nobody holds is in the index but not retired";
  if (unheld != n_stacked_ + cached) return "a block is neither held, nor free, nor cached";
  for (std::uint64_t i = 0; i < n_stacked_; ++i) {
    const std::uint32_t block = stack_.as<std::uint32_t>()[i];
    if (block >= n_touched_ || holders[block] != 0 || index_.contains(block))
      return "the free list holds a wrong block";
    for (std::uint64_t j = 0; j < i; ++j)
      if (stack_.as<std::uint32_t>()[j] == block) return "the free list holds a block twice";
  }
  return nullptr;
}

}  // namespace qinfer::kv
