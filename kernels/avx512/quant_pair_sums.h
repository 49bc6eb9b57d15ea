// The inner loops of projections with quantised weights that are decoded in registers to pairs of neighbours in k, and
// multiplied with pairs of activations: those of bf16 (quant_bf16_loops.h) and of 16-bit integers
// (quant_int16_loops.h).
#pragma once

#include "avx512/quant_pairs.h"

namespace qinfer::kernels::avx512 {
namespace {

/// `Products` says what the pairs are and how they are multiplied:
///   Integers                      what each_pair() decodes to
///   Sum, zero()                   a register of sums of a run's products
///   add(sum, pairs, activations)  adds the products of pairs with one pair of activations
///   tiles_for(tokens)             how many tiles at a time
///   kExtras                       dwords of each token that follow a panel for each 32 values (panels.h)
///   Extras<tokens>                of a sub-block: value(sum, m), a run's sum as f32, and sum(m), that of its
///   activations
template <Encoding encoding, typename Products>
struct QuantPairSums : PairLayout<encoding> {
  using Layout = PairLayout<encoding>;
  using Layout::kLayout, Layout::kScales, Layout::kRuns, Layout::kPairs;
  using Sum = typename Products::Sum;
  template <int tokens>
  using Extras = typename Products::template Extras<tokens>;

  /// Up to this many tokens both halves of a tile are taken together, with more one after the other: two sums of each
  /// fit into registers.
  static constexpr int kTogether = 6;
  static constexpr int tiles_for(int tokens) { return Products::tiles_for(tokens); }

  /// 16 rows of a tile, on their way along k.
  struct Strip {
    const std::byte* tile;
    int half;
  };

  template <int tokens, int strips>
  static inline void add(const __m512i (&pairs)[strips], const std::uint32_t* x, Sum (&sums)[strips][tokens]) {
#pragma GCC unroll 12
    for (int m = 0; m < tokens; ++m)
#pragma GCC unroll 8
      for (int s = 0; s < strips; ++s)
        sums[s][m] = Products::add(sums[s][m], pairs[s], _mm512_set1_epi32(static_cast<int>(x[m])));
  }

  /// Adds a sub-block, `at` bytes after the beginning of the tiles, to the totals. Its block begins at `block`.
  template <int tokens, int strips, int tiles>
  static inline void add_sub(const Strip (&from)[strips], std::int64_t block, std::int64_t at, const std::uint32_t* x,
                             const Extras<tokens>& extras, Ahead<tiles> ahead, __m512 (&totals)[strips][tokens]) {
#pragma GCC unroll 2
    for (int i = 0; i < kRuns; ++i, x += kPairs * tokens) {
      Sum sums[strips][tokens];
#pragma GCC unroll 8
      for (int s = 0; s < strips; ++s)
#pragma GCC unroll 12
        for (int m = 0; m < tokens; ++m) sums[s][m] = Products::zero();
      const std::byte* integers[strips];
#pragma GCC unroll 8
      for (int s = 0; s < strips; ++s)
        integers[s] =
            from[s].tile + at + kLayout.sub_scales + i * Layout::kRunBytes + Layout::kStripBytes * from[s].half;
      each_pair<encoding, typename Products::Integers, strips, tiles>(
          integers, ahead, [&](int j, const __m512i(&pairs)[strips]) __attribute__((always_inline)) {
            add<tokens, strips>(pairs, x + j * tokens, sums);
          });
#pragma GCC unroll 8
      for (int s = 0; s < strips; ++s) {
        const RunScales run = scales_at<kScales>(from[s].tile + block, from[s].tile + at, i, from[s].half);
#pragma GCC unroll 12
        for (int m = 0; m < tokens; ++m) {
          totals[s][m] = _mm512_fmadd_ps(extras.value(sums[s][m], m), run.scale, totals[s][m]);
          if constexpr (has_minima(kScales))
            totals[s][m] = _mm512_fnmadd_ps(run.minimum, _mm512_set1_ps(extras.sum(m)), totals[s][m]);
        }
      }
    }
  }

  /// Bytes to prefetch ahead, of all tiles together.
  static constexpr std::int64_t kAheadBytes = 8192;

  /// Some strips of tiles along all of k. `fetches`: they prefetch what is ahead.
  template <int tokens, int strips, int tiles>
  static inline void run_strips(const Strip (&from)[strips], const std::uint32_t* x, const std::uint32_t* extras,
                                std::int64_t bytes, const TileLines& lines, bool fetches,
                                __m512 (&totals)[strips][tokens]) {
    for (std::int64_t begin = 0; begin < bytes; begin += kLayout.block)
      for (std::int64_t at = begin + kLayout.header; at < begin + kLayout.block;
           at += kLayout.sub, x += kQuantSub / 2 * tokens, extras += Products::kExtras * tokens) {
        const std::int64_t further = at + kAheadBytes / tiles, beyond = further - bytes;
        Ahead<tiles> ahead;
        for (int t = 0; t < tiles && fetches; ++t)
          ahead.at[t] = beyond < 0 ? lines.tiles[t] + further : lines.next[t] + beyond;
        add_sub<tokens, strips, tiles>(from, begin, at, x, Extras<tokens>{extras}, ahead, totals);
      }
  }

  /// `pairs`: dwords of a row of the panel, which its extras follow.
  template <int tokens, int tiles>
  static void run(const std::uint32_t* x, std::int64_t pairs, const TileLines& lines, float* c, std::int64_t ldc) {
    static_assert(tiles == 1 || tokens <= kTogether, "halves of one tile alone are taken one after the other");
    const std::int64_t bytes = 2 * pairs / kLayout.block_cols * kLayout.block;
    constexpr int kStrips = (tokens <= kTogether ? 2 : 1) * tiles;
    for (int first = 0; first < 2 * tiles; first += kStrips) {
      __m512 totals[kStrips][tokens] = {};
      Strip from[kStrips];
      for (int s = 0; s < kStrips; ++s) from[s] = {lines.tiles[(first + s) / 2], (first + s) % 2};
      run_strips<tokens, kStrips, tiles>(from, x, x + pairs * tokens, bytes, lines, first == 0, totals);
      for (int s = 0; s < kStrips; ++s)
        for (int m = 0; m < tokens; ++m) _mm512_storeu_ps(c + m * ldc + 16 * (first + s), totals[s][m]);
    }
  }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
