// The inner loops of projections over bf16 weights in pairs, [K/2][32][2], with VDPBF16PS: a dword of a tile is two
// weights of a row, a dword of a panel two activations of a token, rounded to bf16.
//
// Every output is one sum in f32 over the pairs in ascending order, whatever the number of tokens and tiles at a time.
// The instruction rounds each addition to nearest even, whatever the rounding mode, and takes numbers smaller than
// 2^-126 as zero.
#pragma once

#include "tiled/gemm.h"

namespace qinfer::kernels::avx512 {
namespace {

/// sums + the products of 16 pairs.
inline __m512 add_pairs(__m512 sums, __m512i a, __m512i b) { return _mm512_dpbf16_ps(sums, (__m512bh)a, (__m512bh)b); }

struct Bf16Sums {
  /// One pair of columns of 32 rows.
  static constexpr std::int64_t kLine = kTileRows * 4;
  static constexpr std::int64_t tile_bytes(std::int64_t cols) { return (cols + 1) / 2 * kLine; }

  /// Tiles at a time: 24 sums in registers at most, two for each token and tile. On Zen 4 memory is read fastest by
  /// four tiles or three: 30 GB/s for a token, of one thread, where eight read 23; from five tokens on by one.
  static constexpr int tiles_for(int tokens) { return tokens <= 2 ? 4 : tokens <= 4 ? 3 : 1; }

  template <int tokens, int tiles>
  static inline void step(const std::uint32_t* x, const std::byte* const (&w)[tiles],
                          __m512 (&sums)[tokens][tiles][2]) {
    __m512i line[tiles][2];
#pragma GCC unroll 8
    for (int t = 0; t < tiles; ++t) {
      line[t][0] = _mm512_loadu_si512(w[t]);
      line[t][1] = _mm512_loadu_si512(w[t] + 64);
    }
#pragma GCC unroll 12
    for (int m = 0; m < tokens; ++m) {
      const __m512i pair = _mm512_set1_epi32(static_cast<int>(x[m]));
#pragma GCC unroll 8
      for (int t = 0; t < tiles; ++t) {
        sums[m][t][0] = add_pairs(sums[m][t][0], line[t][0], pair);
        sums[m][t][1] = add_pairs(sums[m][t][1], line[t][1], pair);
      }
    }
  }

  /// `pairs`: dwords of a row of the panel.
  template <int tokens, int tiles>
  static void run(const std::uint32_t* x, std::int64_t pairs, const TileGroup& group, float* c, std::int64_t ldc) {
    __m512 sums[tokens][tiles][2] = {};
    const std::byte* w[tiles];
    for (int t = 0; t < tiles; ++t) w[t] = group.tiles[t];
    for (std::int64_t begin = 0; begin < pairs;) {
      const std::int64_t count = TileGroup::run_length(begin, pairs);
      const std::byte *ahead[tiles], *near[tiles];
      for (int t = 0; t < tiles; ++t) {
        ahead[t] = group.ahead<kAhead / tiles * 64 / kLine, kLine>(t, w[t], begin, pairs);
        near[t] = group.near<kLine>(t, w[t], begin, pairs);
      }
      for (std::int64_t k = 0; k < count; ++k, x += tokens) {
        step<tokens, tiles>(x, w, sums);
#pragma GCC unroll 8
        for (int t = 0; t < tiles; ++t) {
          for (std::int64_t part = 0; part < kLine; part += 64) {
            prefetch_far(ahead[t] + k * kLine + part);
            prefetch_line(near[t] + k * kLine + part);
          }
          w[t] += kLine;
        }
      }
      begin += count;
    }
    for (int m = 0; m < tokens; ++m)
      for (int t = 0; t < tiles; ++t) {
        _mm512_storeu_ps(c + m * ldc + 32 * t, sums[m][t][0]);
        _mm512_storeu_ps(c + m * ldc + 32 * t + 16, sums[m][t][1]);
      }
  }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
