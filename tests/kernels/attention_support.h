// What the tests of projections to keys and values share with those of attention: a cache, and the shape of a case.
#pragma once

#include "kernels/support.h"

namespace qinfer::test {

/// A KV cache of its own, everything NaN at first; the blocks of its sequences lie in descending order.
struct TestCache {
  KvLayout layout;
  std::vector<std::byte> arena;
  std::vector<std::vector<std::uint32_t>> tables;

  TestCache(const KvLayout& l, const std::vector<std::uint32_t>& lengths) : layout(l) {
    std::uint32_t next = 0;
    for (const std::uint32_t n : lengths) next += l.blocks_for(n);
    arena.assign(next * l.block_bytes(), std::byte{0xff});
    for (const std::uint32_t n : lengths) {
      tables.emplace_back();
      for (std::uint32_t i = 0; i < l.blocks_for(n); ++i) tables.back().push_back(--next);
    }
  }
  KvView view(std::size_t sequence) { return {arena.data(), tables[sequence].data()}; }
};

/// The shape of one attention test.
struct AttentionCase {
  std::uint32_t n_heads = 0, n_kv_heads = 0, head_dim = 0, block_tokens = 32, window = 0;
  std::vector<std::uint32_t> lengths = {};
  bool split = false;
  float softcap = 0;
  bool causal = true;
  float rise = 1;          ///< the keys of later positions, from 40 on, are this many times as long
  float value_unit = 1;    ///< of values
  std::int32_t reach = 0;  ///< of numbers that are added by distance; 0: none
  std::int64_t hidden = 33;
};

}  // namespace qinfer::test
