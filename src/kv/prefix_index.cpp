// See prefix_index.h.
#include "kv/prefix_index.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "base/checked.h"

namespace qinfer::kv {

std::uint64_t PrefixIndex::memory_bytes(std::uint64_t n_blocks, std::uint32_t block_tokens) {
  return n_blocks * (sizeof(Entry) + block_tokens * sizeof(std::int32_t)) +
         std::bit_ceil(n_blocks) * sizeof(std::uint32_t);
}

Result<PrefixIndex> PrefixIndex::create(std::uint64_t n_blocks, std::uint32_t block_tokens,
                                        const platform::Allocator& allocator) {
  PrefixIndex index;
  index.block_tokens_ = block_tokens;
  index.n_buckets_ = std::bit_ceil(n_blocks);
  const auto allocate = [&](std::uint64_t bytes) {
    return platform::Buffer::allocate(allocator, bytes, "the index of cached prefixes");
  };
  QINFER_ASSIGN(index.entries_, allocate(n_blocks * sizeof(Entry)));
  QINFER_ASSIGN(index.tokens_, allocate(n_blocks * block_tokens * sizeof(std::int32_t)));
  QINFER_ASSIGN(index.buckets_, allocate(index.n_buckets_ * sizeof(std::uint32_t)));
  return index;
}

std::uint64_t PrefixIndex::hash_of(PrefixName parent, std::span<const std::int32_t> tokens) const {
  if (block_tokens_ == 0) return XXH3_64bits(&parent, sizeof parent);
  const std::uint64_t before = parent.generation == 0 ? parent.block : of(parent.block).hash;
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), before);
}

PrefixName PrefixIndex::find(PrefixName parent, std::span<const std::int32_t> tokens) const {
  const std::uint64_t hash = hash_of(parent, tokens);
  for (std::uint32_t link = bucket(hash); link != 0; link = of(link - 1).next) {
    const Entry& entry = of(link - 1);
    if (entry.hash == hash && entry.parent.generation == parent.generation && entry.parent.block == parent.block &&
        std::equal(tokens.begin(), tokens.end(), tokens_of(link - 1)))
      return {link - 1, entry.generation};
  }
  return kStart;
}

PrefixName PrefixIndex::add(PrefixName parent, std::span<const std::int32_t> tokens, std::uint32_t block) {
  const PrefixName known = find(parent, tokens);
  if (known.generation != 0) return known;
  Entry& entry = of(block);
  entry.hash = hash_of(parent, tokens);
  entry.parent = parent;
  std::copy(tokens.begin(), tokens.end(), tokens_of(block));
  entry.next = bucket(entry.hash);
  bucket(entry.hash) = block + 1;
  return {block, ++entry.generation};
}

void PrefixIndex::remove(std::uint32_t block) {
  Entry& entry = of(block);
  std::uint32_t* link = &bucket(entry.hash);
  while (*link != block + 1) link = &of(*link - 1).next;
  *link = entry.next;
  ++entry.generation;
}

void PrefixIndex::retire(std::uint32_t block) {
  Entry& entry = of(block);
  entry.older = newest_;
  entry.newer = 0;
  (newest_ != 0 ? of(newest_ - 1).newer : oldest_) = block + 1;
  newest_ = block + 1;
  ++n_retired_;
}

void PrefixIndex::revive(std::uint32_t block) {
  const Entry& entry = of(block);
  (entry.older != 0 ? of(entry.older - 1).newer : oldest_) = entry.newer;
  (entry.newer != 0 ? of(entry.newer - 1).older : newest_) = entry.older;
  --n_retired_;
}

std::uint32_t PrefixIndex::evict() {
  const std::uint32_t block = oldest_ - 1;
  revive(block);
  remove(block);
  return block;
}

}  // namespace qinfer::kv
