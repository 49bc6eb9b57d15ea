// The blocks of one session in one group of layers: which block holds which positions, and how the table grows, is cut,
// leaves behind what a window does not see any more, and is shared.
//
// The table holds blocks [first, end) of the session. What an evaluation will take is promised beforehand, at most what
// a window needs at once; while it advances, blocks that leave the window are exchanged for promises, so that a long
// prompt needs no more room than its window and cannot run out of it half way.
#pragma once

#include <cstdint>
#include <span>

#include "base/kv_layout.h"
#include "base/status.h"
#include "kv/block_pool.h"
#include "platform/shared_memory.h"

namespace qinfer::engine {

class BlockTable {
 public:
  static constexpr std::uint32_t kNoBlock = UINT32_MAX;

  /// `entries`: memory for the blocks of the longest session.
  Status open(kv::BlockPool& pool, std::uint32_t window, std::span<std::uint32_t> entries);
  BlockTable() = default;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;
  ~BlockTable();

  kv::BlockPool& pool() const { return *pool_; }
  const KvLayout& layout() const { return pool_->layout(); }
  KvView view() const;
  std::uint32_t window() const { return window_; }
  std::size_t first() const { return first_; }
  std::size_t end() const { return end_; }
  bool holds(std::size_t i) const { return i >= first_ && i < end_; }
  std::uint32_t operator[](std::size_t i) const { return entries_[i]; }
  /// Blocks first .. end - 1.
  std::span<const std::uint32_t> held() const { return entries_.subspan(first_, end_ - first_); }
  std::uint64_t reserved_bytes() const { return range_.size(); }

  /// The first block that a token at this position, or the one before it, sees.
  std::size_t first_seen(std::size_t position) const;
  /// Whether all that a token at this position sees of the positions before it is held.
  bool reaches_back_from(std::size_t position) const;

  /// The block that the token at `position` goes to, if it holds tokens already, or kNoBlock.
  std::uint32_t partial_block(std::size_t position) const;
  /// How many blocks must be promised for tokens [position, position + n), evaluated in chunks of at most `chunk`, when
  /// `earlier` of the partial block's holders have gone.
  std::size_t blocks_to_promise(std::size_t position, std::size_t n, std::size_t chunk, std::size_t earlier) const;
  /// Has them promised for taking `n` tokens in all. False, and nothing done, if there is no room.
  bool obtain_promise(std::size_t blocks, std::size_t position, std::size_t n);
  /// Room for tokens [position, position + n): takes blocks, copies one that others hold, and leaves behind what is out
  /// of the window. Code::no_memory (nothing can be mapped) or Code::kv_full (nothing was promised, and there is none).
  Code extend(std::size_t position, std::size_t n);
  /// Drops what evaluated tokens [0, position) do not need, and promises.
  void give_back_unused(std::size_t position);
  /// Drops what no token from position - 1 on sees.
  void give_back_unseen(std::size_t position);

  /// Shares all blocks of another table of the same pool. False if the system maps no more memory.
  bool share(const BlockTable& other);
  /// Blocks [first, end), which were written to the table's memory behind its end by somebody who made the session a
  /// holder of them, belong to it now. False, and they are given back, if they cannot be mapped.
  bool accept(std::size_t first, std::size_t end);
  std::span<std::uint32_t> entries(std::size_t first, std::size_t end) { return entries_.subspan(first, end - first); }
  /// A session that begins in the middle: nothing is held so far, and nothing before this position ever will be.
  void begin_at(std::size_t position);
  /// The first position that is held.
  std::size_t first_position() const;

  /// What is wrong with the table, or null. For debug builds.
  const char* find_inconsistency(std::size_t n_evaluated) const;

 private:
  bool take(std::span<std::uint32_t> out);
  bool map(std::size_t first, std::size_t n, bool merged);
  /// Gives back the blocks behind the first n.
  void give_back_from(std::size_t n);
  void give_back_before(std::size_t first);
  Code own_partial(std::size_t position);

  kv::BlockPool* pool_ = nullptr;
  std::uint32_t window_ = 0;
  std::span<std::uint32_t> entries_;
  platform::AddressRange range_;  ///< contiguous storage: where the blocks lie side by side
  std::size_t first_ = 0, end_ = 0;
  std::size_t begin_ = 0;  ///< position before which even the first block holds nothing
  std::size_t promised_ = 0;
  std::size_t wanted_ = 0;  ///< blocks that are still to be taken out of promises
};

}  // namespace qinfer::engine
