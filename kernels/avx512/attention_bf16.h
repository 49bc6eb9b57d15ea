// Attention over bf16 caches in pairs (KvOrder::key_pairs) by products of bf16, scores too.
#pragma once

#include "avx512/gemm_bf16.h"
#include "avx512/values.h"
#include "tiled/attention.h"

namespace qinfer::kernels::avx512 {
namespace {

/// out += weights x V with products of bf16: V is [16 pairs of positions][padded][2]. A pair of which a query sees one
/// position has its product and zero. Not `masked`: all queries see the same whole pairs.
template <int count, bool masked>
void add_values_bf16(const Panel& panel, const ValueTile& tile) {
  const std::int64_t padded = panel.padded;
  const auto* pairs = reinterpret_cast<const std::uint32_t*>(tile.weights);
  for (std::int64_t d = 0; d < padded; d += 32) {
    const bool both = padded - d >= 32;  // otherwise only the last 16 features are left
    __m512 sums[count][2];
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      const float* out = panel.out + m * padded + d;
      sums[m][0] = _mm512_loadu_ps(out);
      sums[m][1] = _mm512_maskz_loadu_ps(both ? 0xffff : 0, out + 16);
    }
    const std::uint32_t end = (tile.end + 1) / 2;
    const std::byte* line = tile.values + (tile.begin / 2 * padded + d) * 4;
    for (std::uint32_t j = tile.begin / 2; j < end; ++j, line += padded * 4) {
      prefetch_line(tile.next + (d / 2 + j) * 128);
      prefetch_line(tile.next + (d / 2 + j) * 128 + 64);
      const __m512i low = _mm512_loadu_si512(line), high = _mm512_loadu_si512(both ? line + 64 : line);
#pragma GCC unroll 12
      for (int m = 0; m < count; ++m) {
        const __m512i weight = _mm512_set1_epi32(static_cast<int>(pairs[m * kWeightsLd + static_cast<int>(j)]));
        if constexpr (masked) {
          const std::uint32_t seen = panel.seen[m] >> (2 * j) & 3u;
          if (seen == 0) continue;
          const __m512i kept = _mm512_set1_epi32(static_cast<int>((seen & 1u) * 0xffffu | (seen >> 1) * 0xffff0000u));
          sums[m][0] = add_pairs(sums[m][0], _mm512_and_si512(low, kept), weight);
          sums[m][1] = add_pairs(sums[m][1], _mm512_and_si512(high, kept), weight);
        } else {
          sums[m][0] = add_pairs(sums[m][0], low, weight);
          sums[m][1] = add_pairs(sums[m][1], high, weight);
        }
      }
    }
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      float* out = panel.out + m * padded + d;
      _mm512_storeu_ps(out, sums[m][0]);
      if (both) _mm512_storeu_ps(out + 16, sums[m][1]);
    }
  }
}

struct Bf16Arithmetic : F32Arithmetic {
  using Queries = Bf16Values;
  template <DType>
  using Scores = Bf16Sums;
  static constexpr bool kWidens = false;
  static constexpr std::uint32_t kPositions = 2;
  static void store_weights(float* at, __m512 low, __m512 high) { _mm512_storeu_si512(at, bf16_pairs(low, high)); }
  template <DType, int count, bool masked>
  static void add_values(const Panel& panel, const ValueTile& tile) {
    add_values_bf16<count, masked>(panel, tile);
  }
  template <typename F>
  static void with_kv_type(DType, F f) {
    f.template operator()<DType::bf16>();
  }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
