// The inner loops with sums in f32 (tiled/gemm.h), for weights of every plain type.
#pragma once

#include "tiled/gemm.h"

namespace qinfer::kernels::avx512 {
namespace {

/// 32 weights of a line as two registers in the order that costs least: for bf16 the even rows and the odd ones;
/// in_order() then puts the sums right.
template <DType type>
inline Lanes32 widen_line(const std::byte* at) {
  if constexpr (type != DType::bf16) return load32<type>(at);
  return widen_pairs(_mm512_loadu_si512(at));
}

template <DType type>
inline Lanes32 in_order(__m512 low, __m512 high) {
  if constexpr (type != DType::bf16) return {low, high};
  const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return {_mm512_permutex2var_ps(low, first, high),
          _mm512_permutex2var_ps(low, _mm512_add_epi32(first, _mm512_set1_epi32(8)), high)};
}

template <DType weights>
struct F32Sums {
  static constexpr std::int64_t kLine = kTileRows * static_cast<std::int64_t>(dtype_bytes(weights));
  static constexpr std::int64_t tile_bytes(std::int64_t cols) { return cols * kLine; }

  /// Tiles at a time: 24 sums in registers at most, two for each token and tile. One token takes one: a single stream
  /// is read fastest from memory, on Zen 4 by a third faster than eight.
  static constexpr int tiles_for(int tokens) { return tokens == 1 ? 1 : tokens <= 3 ? 4 : tokens <= 6 ? 2 : 1; }

  /// Lines from what is read to what is prefetched: with one token 4 KiB, at once into the L1; otherwise in two steps,
  /// for the L1 can wait for few lines at a time: memory is read a tenth faster where a panel takes one tile at a time.
  static constexpr std::int64_t distance(int tokens, int tiles) {
    return (tokens == 1 ? 4096 : kAhead / tiles * 64) / kLine;
  }

  template <int tokens, int tiles>
  static inline void step(const float* x, const std::byte* const (&w)[tiles], __m512 (&sums)[tokens][tiles][2]) {
    Lanes32 line[tiles];
#pragma GCC unroll 8
    for (int t = 0; t < tiles; ++t) line[t] = widen_line<weights>(w[t]);
#pragma GCC unroll 12
    for (int m = 0; m < tokens; ++m) {
      const __m512 value = _mm512_set1_ps(x[m]);
#pragma GCC unroll 8
      for (int t = 0; t < tiles; ++t) {
        sums[m][t][0] = _mm512_fmadd_ps(line[t].low, value, sums[m][t][0]);
        sums[m][t][1] = _mm512_fmadd_ps(line[t].high, value, sums[m][t][1]);
      }
    }
  }

  template <int tokens, int tiles>
  static void run(const std::uint32_t* panel, std::int64_t cols, const TileGroup& group, float* c, std::int64_t ldc) {
    const float* x = reinterpret_cast<const float*>(panel);
    __m512 sums[tokens][tiles][2] = {};
    const std::byte* w[tiles];
    for (int t = 0; t < tiles; ++t) w[t] = group.tiles[t];
    for (std::int64_t begin = 0; begin < cols;) {
      const std::int64_t count = TileGroup::run_length(begin, cols);
      const std::byte *ahead[tiles], *near[tiles];
      for (int t = 0; t < tiles; ++t) {
        ahead[t] = group.ahead<distance(tokens, tiles), kLine>(t, w[t], begin, cols);
        near[t] = group.near<kLine>(t, w[t], begin, cols);
      }
      for (std::int64_t k = 0; k < count; ++k, x += tokens) {
        step<tokens, tiles>(x, w, sums);
#pragma GCC unroll 8
        for (int t = 0; t < tiles; ++t) {
          for (std::int64_t part = 0; part < kLine; part += 64) {
            if constexpr (tokens == 1) {
              prefetch_line(ahead[t] + k * kLine + part);
            } else {
              prefetch_far(ahead[t] + k * kLine + part);
              prefetch_line(near[t] + k * kLine + part);
            }
          }
          w[t] += kLine;
        }
      }
      begin += count;
    }
    for (int m = 0; m < tokens; ++m)
      for (int t = 0; t < tiles; ++t) {
        const Lanes32 rows = in_order<weights>(sums[m][t][0], sums[m][t][1]);
        _mm512_storeu_ps(c + m * ldc + 32 * t, rows.low);
        _mm512_storeu_ps(c + m * ldc + 32 * t + 16, rows.high);
      }
  }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
