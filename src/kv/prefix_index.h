// Which full blocks hold which tokens, so that a prompt that begins like an earlier one finds its keys and values.
//
// An entry is known by the tokens of its block and by the entry before it, all the way to the start of the sequence:
// equal tokens behind other tokens have other keys. The hash is chained the same way; a hit compares tokens and
// parent, not hashes. Blocks that nobody holds any more are retired: they stay findable, in the order in which they
// came, until one is evicted to be used for something else. Nothing is allocated after creation, and no page is touched
// for blocks that were never registered. The block pool, which owns the index, does the locking.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "platform/memory.h"

namespace qinfer::kv {

/// An entry of the index; it stops being current when its block is evicted or written to.
struct PrefixName {
  std::uint32_t block = 0;
  std::uint32_t generation = 0;  ///< even (0): names nothing
};

class PrefixIndex {
 public:
  /// What stands before the first block.
  static constexpr PrefixName kStart{};

  /// Without block_tokens the entries are known by names of another index alone: `parent` below is one of those, and
  /// `tokens` are empty. An entry whose name has gone there is never found again, and evicted in its turn.
  static Result<PrefixIndex> create(std::uint64_t n_blocks, std::uint32_t block_tokens,
                                    const platform::Allocator& allocator);
  /// What it takes from the allocator.
  static std::uint64_t memory_bytes(std::uint64_t n_blocks, std::uint32_t block_tokens);
  bool enabled() const { return entries_.size() != 0; }

  /// The entry for `tokens` (one block of them) behind `parent`, or kStart if there is none.
  PrefixName find(PrefixName parent, std::span<const std::int32_t> tokens) const;
  /// Registers a block; if the same is registered already, returns that entry and leaves `block` unregistered.
  PrefixName add(PrefixName parent, std::span<const std::int32_t> tokens, std::uint32_t block);
  bool is_current(PrefixName name) const {
    return name.generation % 2 == 1 && of(name.block).generation == name.generation;
  }
  bool contains(std::uint32_t block) const { return enabled() && of(block).generation % 2 == 1; }
  void remove(std::uint32_t block);

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
