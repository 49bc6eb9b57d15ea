// The memory behind one group of layers of a KV cache: a fixed number of equal blocks, handed out and taken back under
// a lock, within a budget of bytes that the pools of all groups share.
//
// The arena is one allocation (paged: kernels find blocks through the session's block table) or memory without an
// address of its own (contiguous: each session maps its blocks side by side into address space that it reserved).
//
// Sessions hold lists of block numbers (block tables); what a block contains is KvLayout's and the kernels' business.
// Whoever needs blocks has them promised first, all that a computation will need: then taking them cannot fail. A block
// may have several holders; who wants to write to one that others hold, or that the prefix index knows, asks for a
// block of its own first. What nobody holds goes back to the operating system at once, or, if the prefix index knows
// it, stays until the space is needed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/kv_layout.h"
#include "base/mutex.h"
#include "base/status.h"
#include "kv/prefix_index.h"
#include "platform/memory.h"
#include "platform/shared_memory.h"

namespace qinfer::kv {

class BlockPool;

enum class Storage : std::uint8_t { paged, contiguous };

/// What the pools of a cache have in common: a lock, and the bytes that their blocks may take together.
class Budget {
 public:
  explicit Budget(std::uint64_t bytes) : bytes_(bytes) {}

  std::uint64_t bytes() const { return bytes_; }
  /// Bytes neither held nor promised.
  std::uint64_t free_bytes() const;

 private:
  friend class BlockPool;
  mutable Mutex mutex_;
  const std::uint64_t bytes_;
  std::uint64_t spoken_for_ ABSL_GUARDED_BY(mutex_) = 0;   ///< held or promised
  std::uint64_t in_memory_ ABSL_GUARDED_BY(mutex_) = 0;    ///< held, or kept as prefixes
  std::vector<BlockPool*> pools_ ABSL_GUARDED_BY(mutex_);  ///< that could give up prefixes
};

struct PoolOptions {
  std::uint64_t n_blocks = 0;
  bool commit = false;  ///< touch all pages now and keep them
  /// Keep what is freed for sequences that begin alike: `chain` finds blocks by their tokens, one behind the other;
  /// `beside` finds those that were published together with a block of a chain.
  enum Prefix : std::uint8_t { none, chain, beside } prefix = none;
  Storage storage = Storage::paged;
};

struct PoolStats {
  std::uint64_t blocks_total = 0;
  std::uint64_t blocks_used = 0;    ///< held by somebody
  std::uint64_t blocks_shared = 0;  ///< of them, by several
  std::uint64_t blocks_cached = 0;  ///< held by nobody, but findable as a prefix
  std::uint64_t bytes_reserved = 0, bytes_committed = 0;
};

class BlockPool {
 public:
  static constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << 31;

  /// QINFER_E_UNSUPPORTED for contiguous storage with a host allocator, or where the system cannot map memory twice.
  /// `budget`: shared with other pools; null: one of the pool's own, of all its blocks.
  static Result<std::unique_ptr<BlockPool>> create(const KvLayout& layout, const PoolOptions& options,
                                                   const platform::Allocator& allocator,
                                                   std::shared_ptr<Budget> budget = nullptr);
  ~BlockPool();
  /// What a pool takes from the allocator beside its blocks.
  static std::uint64_t list_bytes(const KvLayout& layout, const PoolOptions& options);

  const KvLayout& layout() const { return layout_; }
  const Budget& budget() const { return *budget_; }
  bool is_contiguous() const { return memory_.size() != 0; }
  std::byte* arena() const { return arena_.data(); }  ///< paged

  /// Contiguous: address space for a session of so many blocks. QINFER_E_UNSUPPORTED if all sessions of this pool could
  /// need more than half of the mappings that the process may have. To be given back by release_range().
  Result<platform::AddressRange> reserve_range(std::uint64_t n_blocks);
  void release_range(platform::AddressRange& range);
  /// Contiguous: lets blocks appear at places first, first + 1, ... of a range, with one mapping each or, `merged`, one
  /// for each run of neighbours. False if the system refuses one.
  bool map(platform::AddressRange& range, std::size_t first, std::span<const std::uint32_t> blocks, bool merged) const;
  /// Contiguous: gives memory to blocks now, so that writing to them cannot end in SIGBUS. Code::no_memory or, where
  /// RLIMIT_FSIZE does not allow it, Code::io.
  Code back(std::span<const std::uint32_t> blocks) const;
  bool keeps_prefixes() const { return keeps_prefixes_; }

  /// Sets n blocks aside. False, and nothing done, if there are not so many.
  bool promise(std::size_t n);
  void withdraw(std::size_t n);
  /// Fills `out` with blocks of the caller's own, which were promised to it.
  void take_promised(std::span<std::uint32_t> out);
  /// Both at once: fills all of `out`, or takes none and returns false.
  bool take(std::span<std::uint32_t> out);

  /// One more holder for each, who must be given them by a present one.
  void share(std::span<const std::uint32_t> blocks);
  /// One holder less for each, from the last to the first: of a sequence that nobody holds the end is evicted first. Of
  /// those that nobody holds then, at most `promise` become promises to the caller, which are counted.
  std::size_t give_back(std::span<const std::uint32_t> blocks, std::size_t promise = 0);

  /// True if the caller, a holder, may write to the block: no one else holds it. Then no one will find it either.
  bool make_writable(std::uint32_t block);
  /// Fills a block with a copy of what is at `from`. Fails as back() does.
  Code fill(std::uint32_t block, const std::byte* from);
  std::uint32_t holders(std::uint32_t block) const;
  /// How many of these blocks have other holders too.
  std::size_t count_shared(std::span<const std::uint32_t> blocks) const;

  /// Names of the blocks that hold `tokens`, one behind the other after `parent`: as many of the whole blocks of tokens
  /// as are known; returns how many. (chain)
  std::size_t find(PrefixName parent, std::span<const std::int32_t> tokens, std::span<PrefixName> names) const;
  /// Makes the caller a holder of all blocks of these names, or of none: false if one is not current any more. (chain)
  bool adopt(std::span<const PrefixName> names, std::span<std::uint32_t> blocks);
  /// How many of these names there are up to the last that has no block beside it; 0: all have one. (beside)
  std::size_t count_to_last_missing(std::span<const PrefixName> names) const;
  /// The same for the blocks that were published beside these names. (beside)
  bool adopt_beside(std::span<const PrefixName> names, std::span<std::uint32_t> blocks);
  /// Makes a full block of the caller's findable. kStart if `parent` is not current any more. (chain)
  PrefixName publish(PrefixName parent, std::span<const std::int32_t> tokens, std::uint32_t block);
  void publish_beside(PrefixName name, std::uint32_t block);
  /// How many names are current before the first that is not.
  std::size_t count_current(std::span<const PrefixName> names) const;

  PoolStats stats() const;
  /// Of the arena, as the operating system counts.
  std::uint64_t resident_bytes() const {
    return is_contiguous() ? memory_.committed_bytes() : platform::resident_bytes(arena_.data(), arena_.size());
  }
  /// Whether counts, lists and index agree; the blocks' holders are counted in `holders`, one entry for each block, or
  /// not compared where it is empty. Returns what is wrong, or null. For tests and debug builds.
  const char* find_inconsistency(std::span<const std::uint32_t> holders) const;

 private:
  BlockPool() = default;
  /// For the analysis, which does not know that the pools of a budget share its lock, and that it is held.
  void lock_is_held() const ABSL_ASSERT_EXCLUSIVE_LOCK(budget_->mutex_) {}
  std::uint32_t& refs(std::uint32_t block) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(budget_->mutex_) {
    return refs_.as<std::uint32_t>()[block];
  }
  /// Never taken, or come back and of no further use.
  std::uint64_t n_free() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(budget_->mutex_) {
    return n_stacked_ + (n_blocks_ - n_touched_);
  }
  std::uint64_t n_held() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(budget_->mutex_) {
    return n_blocks_ - n_free() - index_.n_retired();
  }
  bool promise_locked(std::size_t n) ABSL_EXCLUSIVE_LOCKS_REQUIRED(budget_->mutex_);
  std::uint32_t next_free() ABSL_EXCLUSIVE_LOCKS_REQUIRED(budget_->mutex_);
  void evict_one() ABSL_EXCLUSIVE_LOCKS_REQUIRED(budget_->mutex_);
  bool release(std::uint32_t block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(budget_->mutex_);
  void hold(std::uint32_t block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(budget_->mutex_);
  void empty(std::uint32_t block);
  void fill_all(std::uint32_t block, int value);

  KvLayout layout_;
  std::shared_ptr<Budget> budget_;
  platform::Buffer arena_;         ///< paged
  platform::SharedMemory memory_;  ///< contiguous
  bool committed_ = false, keeps_prefixes_ = false;
  std::uint64_t n_blocks_ = 0;
  std::int32_t process_ = 0;
  // A huge pool costs nothing up front: these are zero pages until a block is taken.
  platform::Buffer refs_ ABSL_GUARDED_BY(budget_->mutex_);   ///< u32 [n_blocks]: holders
  platform::Buffer stack_ ABSL_GUARDED_BY(budget_->mutex_);  ///< u32 [n_blocks]: free blocks that were taken before
  PrefixIndex index_ ABSL_GUARDED_BY(budget_->mutex_);
  std::uint64_t n_mappable_ ABSL_GUARDED_BY(budget_->mutex_) = 0;  ///< blocks that the ranges could hold
  std::uint64_t n_stacked_ ABSL_GUARDED_BY(budget_->mutex_) = 0;
  std::uint64_t n_shared_ ABSL_GUARDED_BY(budget_->mutex_) = 0;
  std::uint64_t n_promised_ ABSL_GUARDED_BY(budget_->mutex_) = 0;
  std::uint64_t n_touched_ ABSL_GUARDED_BY(budget_->mutex_) = 0;  ///< blocks from this one on were never taken
};

}  // namespace qinfer::kv
