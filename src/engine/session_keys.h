// The keys and values of a session: those of its first tokens, the evaluated ones, are in the blocks of its block
// tables, one table for each group of layers that keep theirs alike. An encoder's session has no table: nothing is
// kept, and "evaluated" says that its hidden states are there.
//
// Blocks are shared in two ways. A fork holds all blocks of its original. And where the cache keeps prefixes, each
// block that is full is published in the prefix index under a name; an evaluation first *adopts* the blocks of a known
// beginning of its pending tokens, which then need no computation. A block that others hold is copied before it is
// written to (block_table.h).
//
// What a session computed must be reproducible, so blocks that were loaded from a snapshot are *untrusted*: they may
// have been computed by other kernels, or made up. They are used by this session and its forks, and never published.
//
// The list of tokens is the session's; functions that need it are given all of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/block_table.h"
#include "engine/kv_cache.h"
#include "engine/layout.h"

namespace qinfer::kv {
class Snapshot;
}

namespace qinfer::engine {

class SessionKeys {
 public:
  using Tokens = std::span<const std::int32_t>;

  /// `memory`: of the session, as `layout` divides it. Both must outlive this object, as must the cache.
  Status open(KvCache& cache, const SessionLayout& layout, std::byte* memory);
  /// Becomes as those of the session that this one is a fork of.
  Status share(const SessionKeys& original);

  /// How many tokens are evaluated.
  std::size_t evaluated() const { return n_evaluated_; }
  std::size_t n_groups() const { return layout_->n_groups; }
  std::span<BlockTable> tables() { return {tables_.get(), n_groups()}; }
  std::span<const BlockTable> tables() const { return {tables_.get(), n_groups()}; }
  KvView view(std::size_t group = 0) const { return tables_[group].view(); }

  // ---- Room for blocks ----

  /// Turns promised blocks into held ones for the next n tokens, in all tables. Code::kv_full where nothing was
  /// promised and no block is free, Code::no_memory or Code::io where the system refuses memory.
  Code extend(std::size_t n);
  /// Has room for n tokens promised and takes that of the first batch. After an error nothing is taken. For tests and
  /// benchmarks, which evaluate nothing.
  Code reserve(std::size_t n);
  /// Ends promises and gives back the blocks that the evaluated tokens do not need.
  void give_back_unused();
  /// After an evaluation: gives back also the blocks that windows do not see any more from position `shown` on, up to
  /// which tokens are evaluated; the drafts after it may be dropped.
  void finish_evaluation(std::size_t shown);
  /// What is wrong with tables and pools, or null. For debug builds.
  const char* find_inconsistency() const;

  // ---- Progress ----

  /// The next n tokens, or drafts after them, are evaluated now; publishes blocks that tokens have filled.
  void advance(std::size_t n, Tokens tokens);
  /// Only the first n tokens are evaluated any more.
  void go_back(std::size_t n);
  /// Whether every window still has the blocks that a token at `position` sees.
  bool reach_back_from(std::size_t position) const;
  /// Adopts published blocks of the cache that hold pending tokens, but not the last `keep` tokens, and returns how
  /// many. Ends all promises.
  std::size_t adopt_prefix(Tokens tokens, std::size_t keep);
  /// From now on it finds, and publishes, prefixes of this space alone; before anything is evaluated.
  void enter(std::uint32_t prefix_space) { start_ = kv::PrefixIndex::start_of(prefix_space); }
  /// Whether it finds what the other publishes.
  bool has_prefixes_of(const SessionKeys& other) const {
    return cache_->keeps_prefixes() && start_.block == other.start_.block;
  }
  /// How many tokens it would adopt now at most; less where a window sees blocks that are not there.
  std::size_t count_adoptable(Tokens tokens, std::size_t keep);
  /// Undoes adopt_prefix(): the tokens of so many blocks are pending again.
  void drop_adopted(std::size_t n_blocks);

  // ---- Elsewhere for a while (parking.h) ----

  std::size_t n_held() const;
  /// Held block i of all tables together: those of the first group first.
  std::span<std::byte> held_block(std::size_t i);
  /// The held blocks were copied elsewhere: gives them back. No token is evaluated until come_back().
  void leave();
  /// Takes blocks for what has left, to be filled in by the caller as it left. After an error nothing is taken.
  Code make_place();
  /// They are filled: all is as it was before leave().
  void come_back();

  // ---- What they are ----

  struct Bytes {
    std::uint64_t own, shared;
    std::uint64_t reserved;  ///< address space of contiguous storage
  };
  Bytes bytes() const;
  /// A failure, with where it comes from if that is a key or value that the cache cannot hold: f16 ends at 65504.
  Status explained(Status status) const;
  /// What computed them: kernel set and options, or kMixedOrigin.
  std::string origin() const { return untrusted_ ? origin_ : cache_->model().origin(); }
  /// Whether some came out of a snapshot.
  bool untrusted() const { return untrusted_; }
  /// Those of a snapshot, evaluated by what it names. There must be none yet.
  Status read(const kv::Snapshot& snapshot, const std::string& path);

 private:
  std::size_t block_tokens() const { return cache_->block_tokens(); }
  Tokens tokens_of_blocks(Tokens tokens, std::size_t block, std::size_t n) const {
    return tokens.subspan(block * block_tokens(), n * block_tokens());
  }
  std::size_t find_blocks(Tokens tokens, std::size_t keep);
  std::size_t shorten_to_windows(std::size_t first, std::size_t n) const;
  bool adopt_blocks(std::size_t first, std::size_t n);
  void publish_full_blocks(Tokens tokens);
  /// Forgets the names of blocks that the evaluated tokens do not fill.
  void forget_names();
  Status read_tables(const kv::Snapshot& snapshot, const std::string& path);
  Status read_blocks(const kv::Snapshot& snapshot, std::size_t group);

  KvCache* cache_ = nullptr;
  const SessionLayout* layout_ = nullptr;
  std::unique_ptr<BlockTable[]> tables_;  ///< one for each group
  kv::PrefixName start_;                  ///< before its first block
  kv::PrefixName* names_ = nullptr;       ///< of full blocks in the prefix index, [max_blocks]
  std::size_t n_evaluated_ = 0;
  std::size_t n_named_ = 0;  ///< full blocks whose names are known
  bool untrusted_ = false;   ///< keys and values came out of a snapshot: they are not published
  std::string origin_;       ///< then what computed them; kMixedOrigin once this model has added others with other bits
  bool same_origin_ = true;  ///< origin_ is this model's
  std::size_t away_evaluated_ = 0, away_named_ = 0;     ///< those of leave()
  static constexpr const char* kMixedOrigin = "mixed";  // short: assigning it allocates nothing
};

}  // namespace qinfer::engine
