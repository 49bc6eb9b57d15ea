// The inner loops of projections with quantised weights and products of bf16: integers, which bf16 holds exactly, are
// decoded in registers to pairs of neighbours in k and multiplied with activations rounded to bf16 by VDPBF16PS. Only
// the activations are rounded: scales are applied in f32, after the sum of the values that share them.
//
// An output is one chain in ascending k, whatever the number of tokens at a time:
//   for each run of values that share scales (32 or 16):
//     t = the sum of the run's products of pairs, from zero; total = t * scale + total, fused
//     with minima: total = total - minimum * (the sum of the run's rounded activations, panels.h), fused
#pragma once

#include "avx512/gemm_bf16.h"
#include "avx512/quant_pairs.h"

namespace qinfer::kernels::avx512 {
namespace {

/// Integers as bf16.
struct Bf16Integers {
  /// What every integer of up to six bits stands for.
  template <TileIntegers integers, Meaning meaning>
  static constexpr std::array<std::uint16_t, 64> table() {
    std::array<std::uint16_t, 64> out{};
    const std::array<float, 32> values = table_of(meaning);
    for (std::size_t i = 0; i < 64; ++i) {
      const float value = integers == TileIntegers::six_bits  ? static_cast<float>(i) - offset_of(meaning)
                          : integers == TileIntegers::nibbles ? values[i % 16]
                                                              : values[i % 32];
      out[i] = f32_to_bf16(value);
    }
    return out;
  }

  template <TileIntegers integers, Meaning meaning>
  static inline __m512i of_field(__m512i field) {
    alignas(64) static constexpr std::array<std::uint16_t, 64> kTable = table<integers, meaning>();
    const __m512i first = _mm512_load_si512(kTable.data());
    if constexpr (integers != TileIntegers::six_bits) return _mm512_permutexvar_epi16(field, first);
    return _mm512_permutex2var_epi16(first, field, _mm512_load_si512(kTable.data() + 32));
  }

  /// Signed bytes of a column and of the next one, 16 rows each.
  static inline __m512i of_bytes(const std::byte* at) {
    const __m512i first = _mm512_castps_si512(_mm512_cvtepi32_ps(load_i8(at)));
    const __m512i second = _mm512_castps_si512(_mm512_cvtepi32_ps(load_i8(at + kTileRows)));
    return _mm512_or_si512(_mm512_srli_epi32(first, 16), second);
  }
};

template <Encoding encoding>
struct QuantBf16Sums : PairLayout<encoding> {
  using Layout = PairLayout<encoding>;
  using Layout::kLayout, Layout::kScales, Layout::kRuns, Layout::kPairs;

  /// Up to this many tokens both halves of a tile are taken together, with more one after the other: two sums of each
  /// fit into registers. One tile at a time: from memory two at once were read half as fast on Zen 4.
  static constexpr int kTogether = 6;
  static constexpr int tiles_for(int) { return 1; }

  /// 16 rows of a tile, on their way along k.
  struct Strip {
    const std::byte* tile;
    int half;
  };

  template <int tokens, int strips>
  static inline void add(const __m512i (&pairs)[strips], const std::uint32_t* x, __m512 (&sums)[strips][tokens]) {
#pragma GCC unroll 12
    for (int m = 0; m < tokens; ++m)
#pragma GCC unroll 8
      for (int s = 0; s < strips; ++s)
        sums[s][m] = add_pairs(sums[s][m], pairs[s], _mm512_set1_epi32(static_cast<int>(x[m])));
  }

  /// Adds a sub-block, `at` bytes after the beginning of the tiles, to the totals. Its block begins at `block`;
  /// `activations`: the sums of its activations.
  template <int tokens, int strips>
  static inline void add_sub(const Strip (&from)[strips], std::int64_t block, std::int64_t at, const std::uint32_t* x,
                             const float* activations, const std::byte* ahead, __m512 (&totals)[strips][tokens]) {
#pragma GCC unroll 2
    for (int i = 0; i < kRuns; ++i, x += kPairs * tokens) {
      __m512 sums[strips][tokens] = {};
      const std::byte* integers[strips];
#pragma GCC unroll 8
      for (int s = 0; s < strips; ++s)
        integers[s] =
            from[s].tile + at + kLayout.sub_scales + i * Layout::kRunBytes + Layout::kStripBytes * from[s].half;
      each_pair<encoding, Bf16Integers, strips>(
          integers, ahead, [&](int j, const __m512i(&pairs)[strips]) __attribute__((always_inline)) {
            add<tokens, strips>(pairs, x + j * tokens, sums);
          });
#pragma GCC unroll 8
      for (int s = 0; s < strips; ++s) {
        const RunScales run = scales_at<kScales>(from[s].tile + block, from[s].tile + at, i, from[s].half);
#pragma GCC unroll 12
        for (int m = 0; m < tokens; ++m) {
          totals[s][m] = _mm512_fmadd_ps(sums[s][m], run.scale, totals[s][m]);
          if constexpr (has_minima(kScales))
            totals[s][m] = _mm512_fnmadd_ps(run.minimum, _mm512_set1_ps(activations[m]), totals[s][m]);
        }
      }
    }
  }

  /// Bytes to prefetch ahead.
  static constexpr std::int64_t kAheadBytes = 8192;

  /// Some strips of a tile along all of k. `fetches`: they prefetch what is ahead.
  template <int tokens, int strips>
  static inline void run_strips(const Strip (&from)[strips], const std::uint32_t* x, const float* activations,
                                std::int64_t bytes, const TileLines& lines, bool fetches,
                                __m512 (&totals)[strips][tokens]) {
    for (std::int64_t begin = 0; begin < bytes; begin += kLayout.block)
      for (std::int64_t at = begin + kLayout.header; at < begin + kLayout.block;
           at += kLayout.sub, x += kQuantSub / 2 * tokens, activations += tokens) {
        const std::int64_t ahead = at + kAheadBytes, beyond = ahead - bytes;
        const std::byte* fetched = beyond < 0 ? lines.tiles[0] + ahead : lines.next[0] + beyond;
        add_sub<tokens, strips>(from, begin, at, x, activations, fetches ? fetched : nullptr, totals);
      }
  }

  /// `pairs`: dwords of a row of the panel, which its sums follow.
  template <int tokens, int tiles>
  static void run(const std::uint32_t* x, std::int64_t pairs, const TileLines& lines, float* c, std::int64_t ldc) {
    static_assert(tiles == 1);
    const std::int64_t bytes = 2 * pairs / kLayout.block_cols * kLayout.block;
    const auto* activations = reinterpret_cast<const float*>(x + pairs * tokens);
    constexpr int kStrips = tokens <= kTogether ? 2 : 1;
    for (int first = 0; first < 2; first += kStrips) {
      __m512 totals[kStrips][tokens] = {};
      Strip from[kStrips];
      for (int s = 0; s < kStrips; ++s) from[s] = {lines.tiles[0], first + s};
      run_strips<tokens, kStrips>(from, x, activations, bytes, lines, first == 0, totals);
      for (int s = 0; s < kStrips; ++s)
        for (int m = 0; m < tokens; ++m) _mm512_storeu_ps(c + m * ldc + 16 * (first + s), totals[s][m]);
    }
  }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
