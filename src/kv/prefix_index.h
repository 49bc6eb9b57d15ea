// Which full blocks hold which tokens, so that a prompt that begins like an earlier one finds its keys and values.
//
// An entry is found by the tokens of its block and by the entry before it, its parent, back to the start of the
// sequence: the same tokens after other tokens have other keys. So a prompt is looked up block by block. Example, with
// blocks of 32 tokens: after a prompt of 100 tokens was evaluated, the index has three entries, A (tokens 0 to 31,
// parent kStart), B (32 to 63, parent A) and C (64 to 95, parent B); the last 4 tokens have no full block. A prompt
// that shares 70 tokens with it finds A and B.
//
// Entries are numbered like the blocks that they describe, so the index is a hash table of chains through an array with
// an entry for each block. The hash of a block's tokens is seeded with its parent's hash; a hit compares tokens and
// parent, not hashes. A name is a block's number with its generation, which changes when the block is registered and
// when it is removed: names of what was removed are recognised as not current, and nothing has to look for them.
//
// Blocks without holders are retired (cached, in the pool's words): they stay findable, in a list ordered by when they
// were retired, until the oldest one is evicted for its space, or one is revived because a session holds it again.
// Nothing is allocated after creation, and no page is touched for blocks that were never registered. The block pool,
// which owns the index, does the locking.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "platform/memory.h"

namespace qinfer::kv {

/// Names an entry of the index. It stops being current when its block is evicted or written to.
struct PrefixName {
  std::uint32_t block = 0;
  std::uint32_t generation = 0;  ///< odd; 0: names nothing
};

class PrefixIndex {
 public:
  /// The parent of the first block of a sequence; as a result: nothing was found.
  static constexpr PrefixName kStart{};
  /// The same of a space of its own: what is registered in one is not found in another. 0: kStart.
  static constexpr PrefixName start_of(std::uint32_t space) { return {space, 0}; }

  /// With block_tokens 0 the entries are found by names of another index alone: `parent` below is one of those, and
  /// `tokens` are empty. An entry whose name is no longer current there is never found again, and evicted in its turn.
  static Result<PrefixIndex> create(std::uint64_t n_blocks, std::uint32_t block_tokens,
                                    const platform::Allocator& allocator);
  /// Bytes that it takes from the allocator.
  static std::uint64_t memory_bytes(std::uint64_t n_blocks, std::uint32_t block_tokens);
  bool enabled() const { return entries_.size() != 0; }

  /// The entry for `tokens` (one block of them) after `parent`, or kStart if there is none.
  PrefixName find(PrefixName parent, std::span<const std::int32_t> tokens) const;
  /// Registers a block; if the same is registered already, returns that entry and leaves `block` unregistered.
  PrefixName add(PrefixName parent, std::span<const std::int32_t> tokens, std::uint32_t block);
  bool is_current(PrefixName name) const {
    return name.generation % 2 == 1 && of(name.block).generation == name.generation;
  }
  bool contains(std::uint32_t block) const { return enabled() && of(block).generation % 2 == 1; }
  /// The block is registered no longer.
  void remove(std::uint32_t block);

  /// A registered block has lost its last holder, or has one again.
  void retire(std::uint32_t block);
  void revive(std::uint32_t block);
  /// Removes the block that was retired longest ago; there must be one.
  std::uint32_t evict();
  std::uint64_t n_retired() const { return n_retired_; }

 private:
  /// Links are block numbers plus one, so that zeroed memory is an empty index.
  struct Entry {
    std::uint64_t hash;
    PrefixName parent;
    std::uint32_t generation;    ///< odd while registered
    std::uint32_t next;          ///< in the same bucket
    std::uint32_t older, newer;  ///< neighbours among the retired
  };

  Entry& of(std::uint32_t block) const { return entries_.as<Entry>()[block]; }
  std::int32_t* tokens_of(std::uint32_t block) const {
    return tokens_.as<std::int32_t>() + std::uint64_t{block} * block_tokens_;
  }
  std::uint32_t& bucket(std::uint64_t hash) const { return buckets_.as<std::uint32_t>()[hash & (n_buckets_ - 1)]; }
  std::uint64_t hash_of(PrefixName parent, std::span<const std::int32_t> tokens) const;

  platform::Buffer entries_, tokens_, buckets_;
  std::uint64_t n_buckets_ = 0, n_retired_ = 0;
  std::uint32_t block_tokens_ = 0;
  std::uint32_t oldest_ = 0, newest_ = 0;
};

}  // namespace qinfer::kv
