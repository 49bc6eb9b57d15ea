// The memory of one group of layers of a KV cache: a fixed number of equal blocks, handed out and taken back under a
// lock, within a budget of bytes that the pools of all groups share.
//
// The arena is one allocation (paged: kernels find blocks through the session's block table) or memory without an
// address of its own (contiguous: each session maps its blocks side by side into address space that it reserved).
// Sessions hold lists of block numbers (engine/block_table.h); what a block contains is known to KvLayout and the
// kernels alone.
//
// The life of a block, in the order in which an evaluation (engine/eval.cpp) calls these, through its block tables:
//   promise(n)       sets n blocks aside without choosing them: no other caller can have them. An evaluation has all
//                    promised that it will need before it computes anything: it is refused here, with everything as it
//                    was, or taking its blocks cannot fail.
//   take_promised()  turns promises into blocks, before each batch: each has a number, and the caller as its holder.
//   publish()        makes a full block findable by its tokens (prefix_index.h); adopt() makes another session a holder
//                    of blocks found that way, and share() a fork.
//   give_back()      takes one holder off each block. A block without holders is free, and its memory goes back to the
//                    operating system; if it is findable, it is *cached* instead until its space is needed. A window
//                    that moves on gives blocks back in the middle of an evaluation, and has up to `promise` of those
//                    that became free promised to itself in the same step, before another session can take them.
//   withdraw(n)      ends promises that were not needed, after the evaluation.
// Example: of 10 blocks 4 are held and 2 cached. promise(7) is refused, promise(6) is not; cached blocks are evicted as
// take_promised() comes to need their space, the one that was cached first before the others.
//
// A block with several holders is not written to. A session whose next token belongs in such a block asks
// make_writable(), and where that is refused takes a block of its own and fill()s it with a copy: copy on write.
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
  /// Bytes neither held nor promised; cached blocks count as free.
  std::uint64_t free_bytes() const;

 private:
  friend class BlockPool;
  mutable Mutex mutex_;
  const std::uint64_t bytes_;
  std::uint64_t spoken_for_ ABSL_GUARDED_BY(mutex_) = 0;   ///< held or promised
  std::uint64_t in_memory_ ABSL_GUARDED_BY(mutex_) = 0;    ///< held or cached
  std::vector<BlockPool*> pools_ ABSL_GUARDED_BY(mutex_);  ///< whose cached blocks can be evicted
};

struct PoolOptions {
  std::uint64_t n_blocks = 0;
  bool commit = false;  ///< touch all pages now and keep them
  /// Whether findable blocks without holders stay cached, for sequences that begin alike. `chain`: found by their
  /// tokens and the block before them. `beside`, for all groups but the first: found by the name of the block of the
  /// first group, a chain, that holds the same positions.
  enum Prefix : std::uint8_t { none, chain, beside } prefix = none;
  Storage storage = Storage::paged;
};

struct PoolStats {
  std::uint64_t blocks_total = 0;
  std::uint64_t blocks_used = 0;    ///< with a holder
  std::uint64_t blocks_shared = 0;  ///< of them, with several
  std::uint64_t blocks_cached = 0;  ///< without a holder, but findable as a prefix
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
  /// Bytes that a pool takes from the allocator besides its blocks.
  static std::uint64_t list_bytes(const KvLayout& layout, const PoolOptions& options);

  const KvLayout& layout() const { return layout_; }
  const Budget& budget() const { return *budget_; }
  bool is_contiguous() const { return memory_.size() != 0; }
  std::byte* arena() const { return arena_.data(); }  ///< paged

  /// Contiguous: address space for a session of n_blocks blocks. QINFER_E_UNSUPPORTED if all sessions of this pool
  /// could need more than half of the mappings that the process may have. To be given back by release_range().
  Result<platform::AddressRange> reserve_range(std::uint64_t n_blocks);
  void release_range(platform::AddressRange& range);
  /// Contiguous: lets blocks appear at places first, first + 1, ... of a range, with one mapping each or, `merged`, one
  /// for each run of neighbours. False if the system refuses one.
  bool map(platform::AddressRange& range, std::size_t first, std::span<const std::uint32_t> blocks, bool merged) const;
  /// Contiguous: allocates the pages of blocks now, so that a later write cannot end in SIGBUS. Code::no_memory or,
  /// where RLIMIT_FSIZE does not allow it, Code::io.
  Code ensure_backed(std::span<const std::uint32_t> blocks) const;
  bool keeps_prefixes() const { return keeps_prefixes_; }

  /// Sets n blocks aside. False, and nothing done, if fewer are free.
  bool promise(std::size_t n);
  /// Ends n promises.
  void withdraw(std::size_t n);
  /// Fills `out` with blocks that were promised to the caller, who becomes their only holder.
  void take_promised(std::span<std::uint32_t> out);
  /// promise() and take_promised() in one: fills all of `out`, or takes none and returns false.
  bool take(std::span<std::uint32_t> out);

  /// Adds a holder to each block; every block must have one already.
  void share(std::span<const std::uint32_t> blocks);
  /// Takes a holder off each block, the last block first, so that of a cached sequence the end is evicted before the
  /// beginning. Up to `promise` of the blocks that have no holder left are promised to the caller; returns how many.
  std::size_t give_back(std::span<const std::uint32_t> blocks, std::size_t promise = 0);

  /// True if the caller, a holder, may write to the block, because it is the only holder; the block is then not
  /// findable any more. False: the caller needs a copy.
  bool make_writable(std::uint32_t block);
  /// Fills a block with a copy of what is at `from`. Fails as ensure_backed() does.
  Code fill(std::uint32_t block, const std::byte* from);
  std::uint32_t holders(std::uint32_t block) const;
  /// How many of these blocks have other holders too.
  std::size_t count_shared(std::span<const std::uint32_t> blocks) const;

  /// Names of the blocks that hold `tokens`, which follow the block `parent`: as many of the whole blocks of tokens as
  /// are known; returns how many. (chain)
  std::size_t find(PrefixName parent, std::span<const std::int32_t> tokens, std::span<PrefixName> names) const;
  /// Makes the caller a holder of all blocks of these names, or of none: false if one is not current any more. (chain)
  bool adopt(std::span<const PrefixName> names, std::span<std::uint32_t> blocks);
  /// 1 + the index of the last of these names that has no block beside it; 0 if there is none. (beside)
  std::size_t count_to_last_missing(std::span<const PrefixName> names) const;
  /// The same for the blocks that were published beside these names. (beside)
  bool adopt_beside(std::span<const PrefixName> names, std::span<std::uint32_t> blocks);
  /// Makes a full block of the caller's findable, and returns its name. kStart if `parent` is not current any more.
  /// (chain)
  PrefixName publish(PrefixName parent, std::span<const std::int32_t> tokens, std::uint32_t block);
  /// Makes a block findable by the name of another pool's block for the same positions. (beside)
  void publish_beside(PrefixName name, std::uint32_t block);
  /// How many names are current before the first that is not.
  std::size_t count_current(std::span<const PrefixName> names) const;

  PoolStats stats() const;
  /// Bytes of the arena that are in memory, as the operating system counts them.
  std::uint64_t resident_bytes() const {
    return is_contiguous() ? memory_.committed_bytes() : platform::resident_bytes(arena_.data(), arena_.size());
  }
  /// Says where counts, lists and index disagree; null if nowhere. `holders`: the number of holders that each block
  /// must have, or empty: not compared. For tests and debug builds.
  const char* find_inconsistency(std::span<const std::uint32_t> holders) const;

 private:
  BlockPool() = default;
  /// Tells clang's thread analysis, which does not know that the pools of a budget share its lock, that it is held.
  void lock_is_held() const ABSL_ASSERT_EXCLUSIVE_LOCK(budget_->mutex_) {}
  std::uint32_t& refs(std::uint32_t block) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(budget_->mutex_) {
    return refs_.as<std::uint32_t>()[block];
  }
  /// Blocks that were never taken, or that came back and are not cached.
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
