// See block_pool.h.
#include "kv/block_pool.h"

#include <algorithm>
#include <cstring>

#include "platform/thread.h"

namespace qinfer::kv {

std::uint64_t Budget::free_bytes() const {
  const Lock lock(mutex_);
  return bytes_ - spoken_for_;
}

namespace {

std::uint32_t indexed_tokens(const KvLayout& layout, const PoolOptions& options) {
  return options.prefix == PoolOptions::chain ? layout.block_tokens : 0;
}

}  // namespace

std::uint64_t BlockPool::list_bytes(const KvLayout& layout, const PoolOptions& options) {
  std::uint64_t bytes = 2 * options.n_blocks * sizeof(std::uint32_t);
  if (options.prefix != PoolOptions::none)
    bytes += PrefixIndex::memory_bytes(options.n_blocks, indexed_tokens(layout, options));
  return bytes;
}

Result<std::unique_ptr<BlockPool>> BlockPool::create(const KvLayout& layout, const PoolOptions& options,
                                                     const platform::Allocator& allocator,
                                                     std::shared_ptr<Budget> budget) {
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
    // A block that is not taken must not be in memory, unless all are: only then may a page hold several.
    const platform::Pages pages = options.commit ? platform::Pages::huge : platform::Pages::normal;
    QINFER_ASSIGN(pool->arena_, platform::Buffer::allocate(allocator, *bytes, "the KV cache", pages));
    pool->arena_.hide_from_children();
    if (options.commit) pool->arena_.commit();
  }
  const auto list = [&] {
    return platform::Buffer::allocate(allocator, n_blocks * sizeof(std::uint32_t), "lists of KV blocks");
  };
  QINFER_ASSIGN(platform::Buffer refs, list());
  QINFER_ASSIGN(platform::Buffer stack, list());
  PrefixIndex index;
  if (options.prefix != PoolOptions::none) {
    QINFER_ASSIGN(index, PrefixIndex::create(n_blocks, indexed_tokens(layout, options), allocator));
  }
  pool->keeps_prefixes_ = index.enabled();
  pool->budget_ = budget != nullptr ? std::move(budget) : std::make_shared<Budget>(*bytes);
  const Lock lock(pool->budget_->mutex_);
  pool->refs_ = std::move(refs);
  pool->stack_ = std::move(stack);
  pool->index_ = std::move(index);
  pool->budget_->pools_.push_back(pool.get());
  return pool;
}

BlockPool::~BlockPool() {
  if (platform::process_id() != process_) arena_.forget();  // not there in a fork()ed child
  if (platform::process_id() != process_ || budget_ == nullptr) return;
  const Lock lock(budget_->mutex_);
  const auto end = std::remove(budget_->pools_.begin(), budget_->pools_.end(), this);
  budget_->pools_.erase(end, budget_->pools_.end());
}

#if defined(QINFER_POISON)
// What an earlier holder left in a block must never matter: NaN in every type, so that tests notice if it does.
constexpr int kUnused = 0xff;
#else
constexpr int kUnused = 0;
#endif

/// Forgets the contents of a block. Its memory goes back to the operating system unless the pool keeps all of it.
void BlockPool::empty(std::uint32_t block) {
  const std::uint64_t bytes = layout_.block_bytes();
  if (committed_ || kUnused != 0) {
    fill_all(block, kUnused);
  } else {
    is_contiguous() ? memory_.discard(block * bytes, bytes) : arena_.discard(block * bytes, bytes);
  }
}

/// Frees the cached block that was retired longest ago.
void BlockPool::evict_one() {
  const std::uint32_t block = index_.evict();
  empty(block);
  stack_.as<std::uint32_t>()[n_stacked_++] = block;
  budget_->in_memory_ -= layout_.block_bytes();
}

/// A free block. Where the pool has none, or the budget has no bytes for it, cached blocks are evicted: this pool's
/// first, then those of the other pools. A promise was made before, so there is always enough to evict.
std::uint32_t BlockPool::next_free() {
  const std::uint64_t bytes = layout_.block_bytes();
  while ((n_free() == 0 || budget_->in_memory_ + bytes > budget_->bytes_) && index_.n_retired() > 0) evict_one();
  for (BlockPool* pool : budget_->pools_) {
    pool->lock_is_held();
    while (budget_->in_memory_ + bytes > budget_->bytes_ && pool->index_.n_retired() > 0) pool->evict_one();
  }
  budget_->in_memory_ += bytes;
  if (n_stacked_ > 0) return stack_.as<std::uint32_t>()[--n_stacked_];
  return static_cast<std::uint32_t>(n_touched_++);
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
  const Lock lock(budget_->mutex_);
  std::uint64_t others = 0;  // of all groups: the limit is the process's
  for (const BlockPool* pool : budget_->pools_) {
    pool->lock_is_held();
    others += pool->n_mappable_;
  }
  if (others + n_blocks > most)
    return error(
        Code::unsupported,
        "contiguous storage of {} blocks beside {} of other sessions needs more than {} mappings, half of what "
        "the system allows (vm.max_map_count): take larger blocks or paged storage",
        n_blocks, others, most);
  n_mappable_ += n_blocks;
  return range;
}

void BlockPool::release_range(platform::AddressRange& range) {
  const std::uint64_t n_blocks = range.size() / layout_.block_bytes();
  range = platform::AddressRange();
  if (platform::process_id() != process_) return;
  const Lock lock(budget_->mutex_);
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

bool BlockPool::promise_locked(std::size_t n) {
  const std::uint64_t bytes = layout_.block_bytes();
  if (n > n_blocks_ - n_held() - n_promised_ || n > (budget_->bytes_ - budget_->spoken_for_) / bytes) return false;
  n_promised_ += n;
  budget_->spoken_for_ += n * bytes;
  return true;
}

bool BlockPool::promise(std::size_t n) {
  const Lock lock(budget_->mutex_);
  return promise_locked(n);
}

void BlockPool::withdraw(std::size_t n) {
  if (platform::process_id() != process_) return;
  const Lock lock(budget_->mutex_);
  n_promised_ -= n;
  budget_->spoken_for_ -= n * layout_.block_bytes();
}

void BlockPool::take_promised(std::span<std::uint32_t> out) {
  const Lock lock(budget_->mutex_);
  for (std::uint32_t& block : out) {
    block = next_free();
    refs(block) = 1;
  }
  n_promised_ -= out.size();
}

bool BlockPool::take(std::span<std::uint32_t> out) {
  if (!promise(out.size())) return false;
  take_promised(out);
  return true;
}

void BlockPool::share(std::span<const std::uint32_t> blocks) {
  const Lock lock(budget_->mutex_);
  for (const std::uint32_t block : blocks)
    if (++refs(block) == 2) ++n_shared_;
}

std::size_t BlockPool::give_back(std::span<const std::uint32_t> blocks, std::size_t promise) {
  // In a fork()ed child the lock may be held by a thread that does not exist there.
  if (platform::process_id() != process_) return 0;
  const Lock lock(budget_->mutex_);
  std::size_t promised = 0;
  for (std::size_t i = blocks.size(); i-- > 0;)
    if (release(blocks[i]) && promised < promise) ++promised;
  n_promised_ += promised;
  budget_->spoken_for_ += promised * layout_.block_bytes();
  return promised;
}

/// Takes a holder off a block; true if none is left.
bool BlockPool::release(std::uint32_t block) {
  const std::uint32_t left = --refs(block);
  if (left == 1) --n_shared_;
  if (left != 0) return false;
  budget_->spoken_for_ -= layout_.block_bytes();
  if (index_.contains(block)) {
    index_.retire(block);
    return true;
  }
  empty(block);
  budget_->in_memory_ -= layout_.block_bytes();
  stack_.as<std::uint32_t>()[n_stacked_++] = block;
  return true;
}

bool BlockPool::make_writable(std::uint32_t block) {
  const Lock lock(budget_->mutex_);
  if (refs(block) != 1) return false;
  if (index_.contains(block)) index_.remove(block);
  return true;
}

Code BlockPool::fill(std::uint32_t block, const std::byte* from) {
  const std::uint64_t bytes = layout_.block_bytes();
  if (is_contiguous()) return memory_.write(block * bytes, from, bytes);
  std::memcpy(arena_.data() + block * bytes, from, bytes);
  return Code::ok;
}

Code BlockPool::ensure_backed(std::span<const std::uint32_t> blocks) const {
  Code code = Code::ok;
  if (is_contiguous() && !committed_)
    for (const std::uint32_t block : blocks)
      if (code == Code::ok) code = memory_.allocate(block * layout_.block_bytes(), layout_.block_bytes());
  return code;
}

std::size_t BlockPool::count_shared(std::span<const std::uint32_t> blocks) const {
  const Lock lock(budget_->mutex_);
  std::size_t count = 0;
  for (const std::uint32_t block : blocks) count += refs(block) > 1 ? 1 : 0;
  return count;
}

std::size_t BlockPool::find(PrefixName parent, std::span<const std::int32_t> tokens,
                            std::span<PrefixName> names) const {
  const Lock lock(budget_->mutex_);
  if (parent.generation != 0 && !index_.is_current(parent)) return 0;
  const std::size_t size = layout_.block_tokens;
  std::size_t n = 0;
  for (; (n + 1) * size <= tokens.size() && n < names.size(); ++n) {
    const PrefixName name = index_.find(parent, tokens.subspan(n * size, size));
    if (name.generation == 0) break;
    names[n] = parent = name;
  }
  return n;
}

/// Adds a holder to a findable block, which may be cached.
void BlockPool::hold(std::uint32_t block) {
  const std::uint32_t holders = ++refs(block);
  if (holders == 2) ++n_shared_;
  if (holders != 1) return;
  index_.revive(block);
  budget_->spoken_for_ += layout_.block_bytes();
}

bool BlockPool::adopt(std::span<const PrefixName> names, std::span<std::uint32_t> blocks) {
  const Lock lock(budget_->mutex_);
  std::size_t revived = 0;
  for (const PrefixName name : names) {
    if (!index_.is_current(name)) return false;
    revived += refs(name.block) == 0 ? 1 : 0;
  }
  // A cached block counts as free, and free blocks may be promised to others: then they are not to be had.
  const std::uint64_t free = (budget_->bytes_ - budget_->spoken_for_) / layout_.block_bytes();
  if (revived > free || revived > n_blocks_ - n_held() - n_promised_) return false;
  for (std::size_t i = 0; i < names.size(); ++i) hold(blocks[i] = names[i].block);
  return true;
}

std::size_t BlockPool::count_to_last_missing(std::span<const PrefixName> names) const {
  const Lock lock(budget_->mutex_);
  std::size_t n = names.size();
  while (n != 0 && index_.find(names[n - 1], {}).generation != 0) --n;
  return n;
}

bool BlockPool::adopt_beside(std::span<const PrefixName> names, std::span<std::uint32_t> blocks) {
  const Lock lock(budget_->mutex_);
  std::size_t revived = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const PrefixName found = index_.find(names[i], {});
    if (found.generation == 0) return false;
    blocks[i] = found.block;
    revived += refs(found.block) == 0 ? 1 : 0;
  }
  const std::uint64_t free = (budget_->bytes_ - budget_->spoken_for_) / layout_.block_bytes();
  if (revived > free || revived > n_blocks_ - n_held() - n_promised_) return false;
  for (const std::uint32_t block : blocks) hold(block);
  return true;
}

PrefixName BlockPool::publish(PrefixName parent, std::span<const std::int32_t> tokens, std::uint32_t block) {
  const Lock lock(budget_->mutex_);
  if (parent.generation != 0 && !index_.is_current(parent)) return PrefixIndex::kStart;
  const PrefixName known = index_.find(parent, tokens);
  if (known.generation != 0 && known.block == block) return known;
  // It has another name if its session was truncated into it and went on differently, or if the names of the blocks
  // before it are gone.
  if (index_.contains(block)) index_.remove(block);
  return known.generation != 0 ? known : index_.add(parent, tokens, block);
}

void BlockPool::publish_beside(PrefixName name, std::uint32_t block) {
  const Lock lock(budget_->mutex_);
  const PrefixName known = index_.find(name, {});
  if (known.generation != 0 && known.block == block) return;
  if (index_.contains(block)) index_.remove(block);
  if (known.generation == 0) index_.add(name, {}, block);
}

std::size_t BlockPool::count_current(std::span<const PrefixName> names) const {
  const Lock lock(budget_->mutex_);
  std::size_t n = 0;
  while (n < names.size() && index_.is_current(names[n])) ++n;
  return n;
}

std::uint32_t BlockPool::holders(std::uint32_t block) const {
  const Lock lock(budget_->mutex_);
  return refs(block);
}

PoolStats BlockPool::stats() const {
  const Lock lock(budget_->mutex_);
  PoolStats stats;
  stats.blocks_total = n_blocks_;
  stats.blocks_cached = index_.n_retired();
  stats.blocks_used = n_held();
  stats.blocks_shared = n_shared_;
  stats.bytes_reserved = n_blocks_ * layout_.block_bytes();
  stats.bytes_committed = (committed_ ? n_blocks_ : stats.blocks_used + stats.blocks_cached) * layout_.block_bytes();
  return stats;
}

namespace {

/// Two lists of blocks with equal sums of these hold, almost certainly, the same blocks.
std::uint64_t mixed(std::uint64_t block) {
  block = (block + 1) * 0x9e3779b97f4a7c15u;
  return (block ^ block >> 29) * 0xbf58476d1ce4e5b9u;
}

}  // namespace

const char* BlockPool::find_inconsistency(std::span<const std::uint32_t> holders) const {
  const Lock lock(budget_->mutex_);
  std::uint64_t shared = 0, unheld = 0, cached = 0, free_sum = 0;
  if (n_touched_ > n_blocks_ || n_stacked_ > n_touched_) return "more blocks were taken than there are";
  for (std::uint32_t block = 0; block < n_touched_; ++block) {
    const std::uint32_t held = refs(block);
    if (!holders.empty() && held != holders[block]) return "a block's count of holders is wrong";
    shared += held > 1 ? 1 : 0;
    if (held != 0) continue;
    ++unheld;
    cached += index_.contains(block) ? 1 : 0;
    if (!index_.contains(block)) free_sum += mixed(block);
  }
  for (std::uint64_t block = n_touched_; block < holders.size(); ++block)
    if (holders[block] != 0) return "a block is held that was never taken";
  if (shared != n_shared_) return "the number of shared blocks is wrong";
  if (cached != index_.n_retired()) return "a block without holders is in the index but not retired";
  if (unheld != n_stacked_ + cached) return "a block is neither held, nor free, nor cached";
  for (std::uint64_t i = 0; i < n_stacked_; ++i) {
    const std::uint32_t block = stack_.as<std::uint32_t>()[i];
    if (block >= n_touched_ || refs(block) != 0 || index_.contains(block)) return "the free list holds a wrong block";
    free_sum -= mixed(block);
  }
  if (free_sum != 0) return "the free list holds a block twice";
  std::uint64_t spoken_for = 0, in_memory = 0;
  for (const BlockPool* pool : budget_->pools_) {
    pool->lock_is_held();
    spoken_for += (pool->n_held() + pool->n_promised_) * pool->layout_.block_bytes();
    in_memory += (pool->n_held() + pool->index_.n_retired()) * pool->layout_.block_bytes();
  }
  if (spoken_for != budget_->spoken_for_ || in_memory != budget_->in_memory_) return "the budget's sums are wrong";
  if (spoken_for > budget_->bytes_ || in_memory > budget_->bytes_) return "the budget is exceeded";
  return nullptr;
}

}  // namespace qinfer::kv
