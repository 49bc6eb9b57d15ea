// The inner loops with f16 sums over runs of 64 products (tiled/gemm.h), by AVX512-FP16.
#pragma once

#include "tiled/gemm.h"

namespace qinfer::kernels::avx512 {
namespace {

struct F16Sums {
  static constexpr std::int64_t kLine = 64;
  static constexpr std::int64_t tile_bytes(std::int64_t cols) { return cols * kLine; }
  static constexpr int tiles_for(int tokens) { return tokens <= 2 ? 8 : tokens <= 6 ? 4 : tokens <= 8 ? 3 : 2; }

  template <int tokens, int tiles>
  static inline void step(const std::uint32_t* x, const std::byte* const (&w)[tiles], __m512h (&sums)[tokens][tiles]) {
    __m512h line[tiles];
#pragma GCC unroll 8
    for (int t = 0; t < tiles; ++t) line[t] = _mm512_loadu_ph(w[t]);
#pragma GCC unroll 12
    for (int m = 0; m < tokens; ++m) {
      const __m512h value = _mm512_castsi512_ph(_mm512_set1_epi32(static_cast<int>(x[m])));
#pragma GCC unroll 8
      for (int t = 0; t < tiles; ++t) sums[m][t] = _mm512_fmadd_ph(line[t], value, sums[m][t]);
    }
  }

  /// c = or += the sums of one run, in f32. They go through memory: widening half a register costs an extraction and a
  /// shuffle, widening half a line does not (2 % of a whole projection).
  template <int tokens, int tiles>
  static inline void promote(const __m512h (&sums)[tokens][tiles], bool first, float* c, std::int64_t ldc) {
    alignas(64) std::byte lines[tokens][tiles][64];
#pragma GCC unroll 12
    for (int m = 0; m < tokens; ++m)
#pragma GCC unroll 8
      for (int t = 0; t < tiles; ++t) _mm512_store_ph(lines[m][t], sums[m][t]);
    asm volatile("" : : "r"(&lines) : "memory");  // otherwise the compiler takes them from the registers again
#pragma GCC unroll 12
    for (int m = 0; m < tokens; ++m)
#pragma GCC unroll 8
      for (int t = 0; t < tiles; ++t) {
        float* at = c + m * ldc + 32 * t;
        Lanes32 wide = load32<DType::f16>(lines[m][t]);
        if (!first) {
          wide.low = _mm512_add_ps(_mm512_loadu_ps(at), wide.low);
          wide.high = _mm512_add_ps(_mm512_loadu_ps(at + 16), wide.high);
        }
        _mm512_storeu_ps(at, wide.low);
        _mm512_storeu_ps(at + 16, wide.high);
      }
  }

  template <int tokens, int tiles>
  static void run(const std::uint32_t* panel, std::int64_t cols, const TileGroup& group, float* c, std::int64_t ldc) {
    const std::uint32_t* x = panel;
    const std::byte* w[tiles];
    for (int t = 0; t < tiles; ++t) w[t] = group.tiles[t];
    for (std::int64_t begin = 0; begin < cols; begin += kRun) {
      const std::int64_t count = cols - begin < kRun ? cols - begin : kRun;
      const std::byte* ahead[tiles];
      for (int t = 0; t < tiles; ++t) ahead[t] = group.ahead<kAhead / tiles * 64 / kLine, kLine>(t, w[t], begin, cols);
      __m512h sums[tokens][tiles];
#pragma GCC unroll 12
      for (int m = 0; m < tokens; ++m)
#pragma GCC unroll 8
        for (int t = 0; t < tiles; ++t) sums[m][t] = _mm512_setzero_ph();
      for (std::int64_t k = 0; k < count; ++k, x += tokens) {
        step<tokens, tiles>(x, w, sums);
#pragma GCC unroll 8
        for (int t = 0; t < tiles; ++t) {
          prefetch_line(ahead[t] + k * kLine);
          w[t] += kLine;
        }
      }
      promote<tokens, tiles>(sums, begin == 0, c, ldc);
    }
  }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
