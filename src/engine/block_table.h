// The blocks of one session in one group of layers: which block holds which positions, and how the table grows, shrinks
// and is shared. Entry i is the block of positions [i * block_tokens, (i + 1) * block_tokens).
//
// The table holds entries [first, end): `first` is above 0 once a window has moved on. In an evaluation
//   obtain_promise()     has the pool set aside what all tokens of the call will need;
//   extend()             before each batch, gives back blocks that the window does not see any more, takes those for
//                        the batch's tokens, and copies the last block if it is not full and others hold it;
//   give_back_unused()   afterwards, ends promises and gives back blocks of tokens that were not evaluated;
//   give_back_unseen()   gives back what the window of the next token does not see.
//
// A window needs no more room for a long prompt than for a short one. Example: a window of 512, blocks of 32, a prompt
// of 10,000 tokens in batches of 512. At most (511 + 512) / 32 rounded up, plus one, are 33 blocks held at once, so 33
// are promised, although 313 will be taken. Before each batch the blocks that have left the window are given back, and
// as many as are still to come are promised to this session again in the same step: no other session can take them in
// between, and the prompt cannot run out of blocks half way.
//
// Copy on write: a fork shares all entries and copies nothing. When a session is about to write a token to a block that
// others hold as well, extend() copies that block first. The last holder writes to the block itself.
#pragma once

#include <atomic>
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

  /// `entries`: memory for as many blocks as the longest session has.
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
  /// How many; from any thread.
  std::size_t n_held() const { return n_held_.load(std::memory_order_relaxed); }
  std::uint64_t reserved_bytes() const { return range_.size(); }

  /// The first block that a token at this position, or the token before it, sees.
  std::size_t first_seen(std::size_t position) const { return first_seen(window_, layout().block_tokens, position); }
  static std::size_t first_seen(std::uint32_t window, std::uint32_t block_tokens, std::size_t position);
  /// Whether the table holds all positions before this one that a token here sees.
  bool reaches_back_from(std::size_t position) const;

  /// The block that the token at `position` goes to, if that block holds earlier tokens already; otherwise kNoBlock.
  std::uint32_t partial_block(std::size_t position) const;
  /// How many blocks must be promised for tokens [position, position + n), evaluated in chunks of at most `chunk`.
  /// Counts one for a copy of the partial block, unless it has no other holder left when `earlier` holders have copied
  /// theirs.
  std::size_t blocks_to_promise(std::size_t position, std::size_t n, std::size_t chunk, std::size_t earlier) const;
  /// Has `blocks` blocks promised, for tokens [position, position + n). False, and nothing done, if there is no room.
  bool obtain_promise(std::size_t blocks, std::size_t position, std::size_t n);
  /// Makes room for tokens [position, position + n): gives back blocks that are out of the window, takes new ones, and
  /// copies the partial block if others hold it. Code::no_memory (nothing can be mapped) or Code::kv_full (nothing was
  /// promised, and no block is free).
  Code extend(std::size_t position, std::size_t n);
  /// Gives back the blocks that evaluated tokens [0, position) do not need, and ends all promises.
  void give_back_unused(std::size_t position);
  /// Gives back the blocks that no token from position - 1 on sees.
  void give_back_unseen(std::size_t position);

  /// Shares all blocks of another table of the same pool. False if the system maps no more memory.
  bool share(const BlockTable& other);
  /// Takes over entries [first, end), after the table's end: the caller has filled them in with blocks that it holds.
  /// False, and they are given back, if they cannot be mapped.
  bool accept(std::size_t first, std::size_t end);
  std::span<std::uint32_t> entries(std::size_t first, std::size_t end) { return entries_.subspan(first, end - first); }
  /// For a loaded session, whose window had moved on when it was saved: the table is empty, and will hold nothing
  /// before this position.
  void begin_at(std::size_t position);
  /// Gives all blocks back; begin_where_left(): begin_at() the first position that was held then.
  void leave();
  void begin_where_left() { begin_at(left_at_); }
  /// The first position that is held.
  std::size_t first_position() const;

  /// What is wrong with the table, or null. For debug builds.
  const char* find_inconsistency(std::size_t n_evaluated) const;

 private:
  void note_held() { n_held_.store(end_ - first_, std::memory_order_relaxed); }
  bool take(std::span<std::uint32_t> out);
  bool map(std::size_t first, std::size_t n, bool merged);
  /// Gives back blocks [n, end).
  void give_back_from(std::size_t n);
  /// Gives back blocks [first_, first), of which as many as are still wanted are promised to this table again.
  void give_back_before(std::size_t first);
  Code own_partial(std::size_t position);

  kv::BlockPool* pool_ = nullptr;
  std::uint32_t window_ = 0;
  std::span<std::uint32_t> entries_;
  platform::AddressRange range_;  ///< contiguous storage: where the blocks are mapped side by side
  std::size_t first_ = 0, end_ = 0;
  std::size_t begin_ = 0;    ///< position before which even the first block holds nothing
  std::size_t left_at_ = 0;  ///< see leave()
  std::size_t promised_ = 0;
  std::atomic<std::size_t> n_held_{0};
  std::size_t wanted_ = 0;  ///< blocks that this evaluation still has to take, promised already or not
};

}  // namespace qinfer::engine
