// Attention over bf16 caches in pairs (KvOrder::key_pairs) by products of bf16, scores too.
#pragma once

#include "avx512/gemm_bf16.h"
#include "avx512/values.h"
#include "tiled/attention.h"

namespace qinfer::kernels::avx512 {
namespace {

/// Features [d, d + 16 * groups) of add_values_bf16(); `pairs`: of positions that are seen.
template <int count, int groups, bool masked>
inline void add_pairs_strip(const ValueTile& tile, std::int64_t padded, Range<std::uint32_t> pairs, std::int64_t d) {
  const std::int64_t row_bytes = padded * 4;
  __m512 sums[count][groups];
#pragma GCC unroll 12
  for (int m = 0; m < count; ++m)
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) sums[m][g] = _mm512_loadu_ps(tile.out + m * padded + d + 16 * g);
  const StripFetch<64 * groups> fetch(tile, d * 4, row_bytes, pairs, kTileTokens / 2);
  const std::byte* row = tile.values + pairs.begin * row_bytes + d * 4;
  for (std::uint32_t j = pairs.begin; j < pairs.end; ++j, row += row_bytes) {
    __m512i values[groups];
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) {
      fetch.line(row, j, 64 * g);
      values[g] = _mm512_loadu_si512(row + 64 * g);
    }
    const auto* weights = reinterpret_cast<const std::uint32_t*>(tile.weights) + j;
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      const __m512i weight = _mm512_set1_epi32(static_cast<int>(weights[m * kWeightsLd]));
      if constexpr (masked) {
        const std::uint32_t seen = tile.seen[m] >> (2 * j) & 3u;
        if (seen == 0) continue;
        const __m512i kept = _mm512_set1_epi32(static_cast<int>((seen & 1u) * 0xffffu | (seen >> 1) * 0xffff0000u));
#pragma GCC unroll 8
        for (int g = 0; g < groups; ++g) sums[m][g] = add_pairs(sums[m][g], _mm512_and_si512(values[g], kept), weight);
      } else {
#pragma GCC unroll 8
        for (int g = 0; g < groups; ++g) sums[m][g] = add_pairs(sums[m][g], values[g], weight);
      }
    }
  }
#pragma GCC unroll 12
  for (int m = 0; m < count; ++m)
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) _mm512_storeu_ps(tile.out + m * padded + d + 16 * g, sums[m][g]);
}

/// out += weights x V with products of bf16: V is [16 pairs of positions][padded][2]. A pair of which a query sees one
/// position has its product and zero. Not `masked`: all queries see the same whole pairs.
template <int count, bool masked>
void add_values_bf16(const ValueTile* tile, std::int64_t padded, Range<std::uint32_t> lanes) {
  for_each_strip<groups_for(count)>(padded, 0, [&]<int groups>(std::int64_t d) {
    add_pairs_strip<count, groups, masked>(*tile, padded, {lanes.begin / 2, (lanes.end + 1) / 2}, d);
  });
}

/// As add_two_strips(), for whole pairs.
template <int groups>
inline void add_two_pairs_strips(const ValueTile* tiles, std::int64_t padded, Range<std::uint32_t> pairs, int query,
                                 std::int64_t d) {
  const std::int64_t row_bytes = padded * 4;
  __m512 sums[2][groups];
#pragma GCC unroll 2
  for (int t = 0; t < 2; ++t)
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) sums[t][g] = _mm512_loadu_ps(tiles[t].out + query * padded + d + 16 * g);
  const StripFetch<64 * groups> fetch[2] = {{tiles[0], d * 4, row_bytes, pairs, kTileTokens / 2},
                                            {tiles[1], d * 4, row_bytes, pairs, kTileTokens / 2}};
  const auto weight = [&](int t, std::uint32_t j) {
    return _mm512_set1_epi32(reinterpret_cast<const std::int32_t*>(tiles[t].weights + query * kWeightsLd)[j]);
  };
  for (std::uint32_t j = pairs.begin; j < pairs.end; ++j) {
    const __m512i weights[2] = {weight(0, j), weight(1, j)};
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g)
#pragma GCC unroll 2
      for (int t = 0; t < 2; ++t) {
        const std::byte* row = tiles[t].values + j * row_bytes + d * 4;
        fetch[t].line(row, j, 64 * g);
        sums[t][g] = add_pairs(sums[t][g], _mm512_loadu_si512(row + 64 * g), weights[t]);
      }
  }
#pragma GCC unroll 2
  for (int t = 0; t < 2; ++t)
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) _mm512_storeu_ps(tiles[t].out + query * padded + d + 16 * g, sums[t][g]);
}

template <int count>
void add_two_values_bf16(const ValueTile* tiles, std::int64_t padded, Range<std::uint32_t> lanes) {
  for (int query = 0; query < count; ++query)
    for_each_strip<groups_for(2)>(padded, 0, [&]<int groups>(std::int64_t d) {
      add_two_pairs_strips<groups>(tiles, padded, {lanes.begin / 2, lanes.end / 2}, query, d);
    });
}

struct Bf16Arithmetic : F32Arithmetic {
  using Queries = Bf16Values;
  template <DType>
  using Scores = Bf16Sums;
  static constexpr bool kWidens = false;
  static constexpr std::uint32_t kPositions = 2;
  static void store_weights(float* at, __m512 low, __m512 high) { _mm512_storeu_si512(at, bf16_pairs(low, high)); }
  template <DType, int count, bool masked>
  static void add_values(const ValueTile* tile, std::int64_t padded, Range<std::uint32_t> lanes) {
    add_values_bf16<count, masked>(tile, padded, lanes);
  }
  template <DType, int count>
  static void add_two_values(const ValueTile* tiles, std::int64_t padded, Range<std::uint32_t> lanes) {
    add_two_values_bf16<count>(tiles, padded, lanes);
  }
  template <typename F>
  static void with_kv_type(DType, F f) {
    f.template operator()<DType::bf16>();
  }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
