// The inner loops of projections with quantised weights and sums of f16 products, by AVX512-FP16: integers, which f16
// holds exactly, are decoded to pairs of neighbours in k and multiplied with activations rounded to f16. Scales are
// applied in f32, after the sum of the values that share them.
//
// An output is one chain in ascending k, whatever the number of tokens at a time:
//   for each run of values that share scales (32 or 16):
//     even, odd = the sums of the run's products at even k and at odd k, each from zero, in f16
//     t = even + odd, in f16; total = t * scale + total, fused, in f32
//     with minima: total = total - minimum * (the sum of the run's rounded activations, panels.h), fused
// Integers of encodings with minima are taken from the middle of their range, which the minimum makes up for: sums are
// half as large, and so are their errors. panels.h shows that no sum of a run can overflow (kIntegerLimit). Totals have
// the activations' power of two until the end: scales of mxfp4 near 2^128 overflow them sooner than they would
// otherwise.
//
// A dword of a register of sums has a row's even sum and its odd one. Those of both halves of a tile become one
// register of 32 sums of f16 with two blends, a turn and an addition: words are rows 0, 16, 1, 17 .. 15, 31. Totals are
// kept in that order, which the scales are brought into once for all tokens.
#pragma once

#include "avx512/quant_pairs.h"

namespace qinfer::kernels::avx512 {
namespace {

/// Encodings with minima have integers from 0 on: the middle of their range.
constexpr float middle_of(TileIntegers integers, TileScales scales) {
  if (!has_minima(scales)) return 0;
  return integers == TileIntegers::nibbles ? 8 : 16;
}

/// Integers as f16, less the middle of their range.
template <TileScales scales>
struct F16Integers {
  /// What every integer of up to five bits stands for.
  template <TileIntegers integers, Meaning meaning>
  static constexpr std::array<std::uint16_t, 32> table() {
    std::array<std::uint16_t, 32> out{};
    const std::array<float, 32> values = table_of(meaning);
    for (std::size_t i = 0; i < 32; ++i)
      out[i] = f32_to_f16(values[integers == TileIntegers::nibbles ? i % 16 : i] - middle_of(integers, scales));
    return out;
  }

  template <TileIntegers integers, Meaning meaning>
  static inline __m512i of_field(__m512i field) {
    if constexpr (integers == TileIntegers::six_bits) {
      // With the bits of 1024 above them they are 1024 + q: a lookup in 64 numbers would take longer.
      const __m512i sums = _mm512_ternarylogic_epi32(field, _mm512_set1_epi16(63), _mm512_set1_epi16(0x6400), 0xea);
      const __m512h base = _mm512_castsi512_ph(
          _mm512_set1_epi16(static_cast<short>(f32_to_f16(-1024 - offset_of(meaning)))));  // NOLINT(google-runtime-int)
      return _mm512_castph_si512(_mm512_add_ph(_mm512_castsi512_ph(sums), base));
    } else {
      alignas(64) static constexpr std::array<std::uint16_t, 32> kTable = table<integers, meaning>();
      return _mm512_permutexvar_epi16(field, _mm512_load_si512(kTable.data()));
    }
  }

  /// Signed bytes of a column and of the next one, 16 rows each.
  static inline __m512i of_bytes(const std::byte* at) {
    const __m512i second = _mm512_slli_epi32(load_i8(at + kTileRows), 16);
    return _mm512_castph_si512(_mm512_cvtepi16_ph(_mm512_mask_blend_epi16(0xaaaaaaaa, load_i8(at), second)));
  }
};

/// Values for rows 0 to 15 and rows 16 to 31, in the order of the totals.
inline Lanes32 in_turns(F32x16 low, F32x16 high) {
  const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return {_mm512_permutex2var_ps(low, first, high),
          _mm512_permutex2var_ps(low, _mm512_add_epi32(first, _mm512_set1_epi32(8)), high)};
}

template <Encoding encoding>
struct QuantF16Sums : PairLayout<encoding> {
  using Layout = PairLayout<encoding>;
  using Layout::kLayout, Layout::kScales, Layout::kRuns, Layout::kPairs;
  using Integers = F16Integers<kScales>;

  /// Up to this many tokens pairs are multiplied as they are decoded; with more, the registers are sums, and a run is
  /// decoded into memory first.
  static constexpr int kDirect = 8;
  static constexpr int tiles_for(int) { return 1; }

  template <int tokens>
  static inline void add(const __m512i (&pairs)[2], const std::uint32_t* x, __m512h (&sums)[2][tokens]) {
#pragma GCC unroll 12
    for (int m = 0; m < tokens; ++m) {
      const __m512h value = _mm512_castsi512_ph(_mm512_set1_epi32(static_cast<int>(x[m])));
#pragma GCC unroll 2
      for (int s = 0; s < 2; ++s) sums[s][m] = _mm512_fmadd_ph(_mm512_castsi512_ph(pairs[s]), value, sums[s][m]);
    }
  }

  /// Adds the products of a run. `at`: where the integers of both halves begin.
  template <int tokens>
  static inline void add_run(const std::byte* const (&at)[2], const std::uint32_t* x, const std::byte*& ahead,
                             __m512h (&sums)[2][tokens]) {
    if constexpr (tokens <= kDirect) {
      each_pair<encoding, Integers, 2>(
          at, ahead, [&](int j, const __m512i(&pairs)[2]) __attribute__((always_inline)) {
            add<tokens>(pairs, x + j * tokens, sums);
          });
    } else {
      alignas(64) std::byte lines[kPairs][2][64];
      each_pair<encoding, Integers, 2>(
          at, ahead, [&](int j, const __m512i(&pairs)[2]) __attribute__((always_inline)) {
            for (int s = 0; s < 2; ++s) _mm512_store_si512(lines[j][s], pairs[s]);
          });
      for (int j = 0; j < kPairs; ++j) {
        const __m512i pairs[2] = {_mm512_load_si512(lines[j][0]), _mm512_load_si512(lines[j][1])};
        add<tokens>(pairs, x + j * tokens, sums);
      }
    }
  }

  /// What a run's sums are multiplied by, in the order of the totals.
  struct Scales {
    Lanes32 scale, minimum;
    Scales(const std::byte* block, const std::byte* sub, int run) {
      const RunScales low = scales_at<kScales>(block, sub, run, 0), high = scales_at<kScales>(block, sub, run, 1);
      scale = in_turns(low.scale, high.scale);
      if constexpr (!has_minima(kScales)) return;
      const F32x16 middle = splat(middle_of(Layout::kIntegers, kScales));
      minimum = in_turns(neg_mul_add(low.scale, middle, low.minimum), neg_mul_add(high.scale, middle, high.minimum));
    }
  };

  /// The even and odd sums of both halves together, in f32. They go through memory, as in F16Sums.
  static inline Lanes32 widened(__m512h low, __m512h high) {
    const __m512i a = _mm512_castph_si512(low), b = _mm512_castph_si512(high);
    const __m512i own = _mm512_mask_blend_epi16(0xaaaaaaaa, a, b), other = _mm512_mask_blend_epi16(0xaaaaaaaa, b, a);
    alignas(64) std::byte line[64];
    _mm512_store_ph(line, _mm512_add_ph(_mm512_castsi512_ph(own), _mm512_castsi512_ph(_mm512_rol_epi32(other, 16))));
    asm volatile("" : : "r"(&line) : "memory");  // otherwise the compiler takes them from the register again
    return load32<DType::f16>(line);
  }

  template <int tokens>
  static inline void add_to_totals(const __m512h (&sums)[2][tokens], const Scales& scales, const float* activations,
                                   float (&totals)[tokens][kTileRows]) {
#pragma GCC unroll 12
    for (int m = 0; m < tokens; ++m) {
      const Lanes32 t = widened(sums[0][m], sums[1][m]);
      F32x16 low = mul_add(t.low, scales.scale.low, load(totals[m]));
      F32x16 high = mul_add(t.high, scales.scale.high, load(totals[m] + 16));
      if constexpr (has_minima(kScales)) {
        const F32x16 sum = splat(activations[m]);
        low = neg_mul_add(scales.minimum.low, sum, low), high = neg_mul_add(scales.minimum.high, sum, high);
      }
      store(totals[m], low), store(totals[m] + 16, high);
    }
  }

  /// Bytes to prefetch ahead.
  static constexpr std::int64_t kAheadBytes = 8192;

  /// `pairs`: dwords of a row of the panel, which its sums follow.
  template <int tokens, int tiles>
  static void run(const std::uint32_t* x, std::int64_t pairs, const TileLines& lines, float* c, std::int64_t ldc) {
    static_assert(tiles == 1);
    const std::int64_t bytes = 2 * pairs / kLayout.block_cols * kLayout.block;
    const auto* activations = reinterpret_cast<const float*>(x + pairs * tokens);
    const std::byte* tile = lines.tiles[0];
    alignas(64) float totals[tokens][kTileRows] = {};
    for (std::int64_t block = 0; block < bytes; block += kLayout.block)
      for (std::int64_t sub = block + kLayout.header; sub < block + kLayout.block;
           sub += kLayout.sub, activations += tokens) {
        const std::int64_t further = sub + kAheadBytes, beyond = further - bytes;
        const std::byte* ahead = beyond < 0 ? tile + further : lines.next[0] + beyond;
#pragma GCC unroll 2
        for (int i = 0; i < kRuns; ++i, x += kPairs * tokens) {
          const std::byte* integers = tile + sub + kLayout.sub_scales + i * Layout::kRunBytes;
          const std::byte* const halves[] = {integers, integers + Layout::kStripBytes};
          __m512h sums[2][tokens] = {};
          add_run<tokens>(halves, x, ahead, sums);
          add_to_totals<tokens>(sums, Scales(tile + block, tile + sub, i), activations, totals);
        }
      }
    for (int m = 0; m < tokens; ++m) {
      F32x16 low, high;
      split_pairs(load(totals[m]), load(totals[m] + 16), low, high);
      store(c + m * ldc, low), store(c + m * ldc + 16, high);
    }
  }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
