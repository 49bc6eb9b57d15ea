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
#include "avx512/quant_pair_sums.h"
#include "avx512/values.h"

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

struct Bf16PairProducts {
  using Integers = Bf16Integers;
  using Sum = __m512;
  static constexpr std::int64_t kExtras = Bf16SummedValues::kExtras;
  /// From memory two at once were read half as fast on Zen 4.
  static constexpr int tiles_for(int) { return 1; }
  static inline Sum zero() { return _mm512_setzero_ps(); }
  static inline Sum add(Sum sum, __m512i pairs, __m512i activations) { return add_pairs(sum, pairs, activations); }

  template <int tokens>
  struct Extras {
    const std::uint32_t* at;
    static __m512 value(Sum sum, int) { return sum; }
    float sum(int m) const { return std::bit_cast<float>(at[m]); }
  };
};

template <Encoding encoding>
using QuantBf16Sums = QuantPairSums<encoding, Bf16PairProducts>;

}  // namespace
}  // namespace qinfer::kernels::avx512
