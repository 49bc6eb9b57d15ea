// Attention over f16 caches with f16 sums of the 32 products of weights and values in a tile.
#pragma once

#include "tiled/attention.h"

namespace qinfer::kernels::avx512 {
namespace {

/// out += weights x V with f16 sums over the tile; 64 lanes of V at a time, or the last 16, 32 or 48.
template <int count, bool masked>
void add_values_fp16(const ValueTile& tile, std::int64_t padded, Range<std::uint32_t> seen) {
  const auto* pairs = reinterpret_cast<const std::uint32_t*>(tile.weights);
  for (std::int64_t d = 0; d < padded; d += 64) {
    const auto lanes_of_half = [&](std::int64_t half) {
      const std::int64_t rest = padded - d - 32 * half;
      return rest >= 32 ? ~__mmask32{0} : rest <= 0 ? __mmask32{0} : (__mmask32{1} << rest) - 1;
    };
    const __mmask32 lanes[2] = {lanes_of_half(0), lanes_of_half(1)};
    __m512h sums[count][2];
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) sums[m][0] = sums[m][1] = _mm512_setzero_ph();
    const std::byte* line = tile.values + (seen.begin * padded + d) * 2;
    for (std::uint32_t j = seen.begin; j < seen.end; ++j, line += padded * 2) {
      prefetch_line(tile.next + (d + j) * 64);
      prefetch_line(tile.next + (d + 32 + j) * 64);
      const __m512h low = _mm512_castsi512_ph(_mm512_maskz_loadu_epi16(lanes[0], line)),
                    high = _mm512_castsi512_ph(_mm512_maskz_loadu_epi16(lanes[1], line + 64));
#pragma GCC unroll 12
      for (int m = 0; m < count; ++m) {
        const __m512h weight =
            _mm512_castsi512_ph(_mm512_set1_epi32(static_cast<int>(pairs[m * kWeightsLd + static_cast<int>(j)])));
        if constexpr (masked) {
          const auto taken = static_cast<__mmask32>(-(tile.seen[m] >> j & 1u));
          sums[m][0] = _mm512_mask3_fmadd_ph(low, weight, sums[m][0], taken);
          sums[m][1] = _mm512_mask3_fmadd_ph(high, weight, sums[m][1], taken);
        } else {
          sums[m][0] = _mm512_fmadd_ph(low, weight, sums[m][0]);
          sums[m][1] = _mm512_fmadd_ph(high, weight, sums[m][1]);
        }
      }
    }
    // Widened through memory, as in gemm_fp16.h.
    alignas(64) std::byte halves[count][2][64];
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      _mm512_store_ph(halves[m][0], sums[m][0]);
      _mm512_store_ph(halves[m][1], sums[m][1]);
    }
    asm volatile("" : : "r"(&halves) : "memory");
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      float* out = tile.out + m * padded + d;
#pragma GCC unroll 4
      for (int quarter = 0; quarter < 4; ++quarter) {
        if (quarter > 0 && d + 16 * quarter >= padded) break;
        const __m512 sum = load16<DType::f16>(halves[m][quarter / 2] + 32 * (quarter % 2));
        _mm512_storeu_ps(out + 16 * quarter, _mm512_add_ps(_mm512_loadu_ps(out + 16 * quarter), sum));
      }
    }
  }
}

/// Word i / 2 of 16 words in place i.
inline I32x16 twice_index() {
  alignas(64) static constexpr std::uint16_t kIndex[32] = {0, 0, 1, 1, 2,  2,  3,  3,  4,  4,  5,  5,  6,  6,  7,  7,
                                                           8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15};
  return _mm512_load_si512(kIndex);
}

/// The same f16 twice.
inline __m512i twice(__m512 weights) {
  const __m512i halves = _mm512_castsi256_si512(_mm512_cvtps_ph(weights, kNearest));
  return _mm512_permutexvar_epi16(twice_index(), halves);
}

struct F16Arithmetic : F32Arithmetic {
  static constexpr float kWeightExponent = -6.0f;
  static void store_weights(float* at, __m512 low, __m512 high) {
    _mm512_storeu_si512(at, twice(low));
    _mm512_storeu_si512(at + 16, twice(high));
  }
  /// No CPU with these products was at hand to measure more.
  static constexpr int kScoreTiles = 1;
  static constexpr bool takes_two(int) { return false; }
  template <DType, int count, bool masked>
  static void add_values(const ValueTile* tile, std::int64_t padded, Range<std::uint32_t> lanes) {
    add_values_fp16<count, masked>(*tile, padded, lanes);
  }
  template <typename F>
  static void with_kv_type(DType, F f) {
    f.template operator()<DType::f16>();
  }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
