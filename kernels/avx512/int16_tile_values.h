// Activations as quant_int16_tiles.h multiplies them: panels of up to 12 rows as those that are the first operand of
// tile multiplications.
#pragma once

#include "tiled/int16_values.h"

namespace qinfer::kernels::avx512 {
namespace {

/// A panel of at least kFewestInTiles rows, `tokens`, holds, for each 32 columns, [l, h][tokens][32] bf16, where
/// (256 h + l) 2^-e is the value that Int16Values has, h and l being integers; after them, [width / 32][tokens], the
/// sums of the rows' 32 values as f32. One of fewer rows is as Int16Values has it.
struct Int16TileValues : Int16Values {
  static constexpr std::int64_t kExtras = 17;  ///< two dwords instead of one for each two values, and one for the sum
  static constexpr std::int64_t stride(std::int64_t cols) {
    return cols + kExtras * (cols * kPerDword / Panels::kRunValues);
  }
  /// (On a Granite Rapids tiles take 0.93 of the time for 8 rows of Q4_0, and 1.27 for 5.)
  static constexpr std::int64_t kFewestInTiles = 7;
  using InPairs = Int16Values;

  /// Values of f32 whose lower halves are zero, narrowed to bf16 in order.
  static inline I32x16 narrowed(F32x16 low, F32x16 high) {
    const __m256i first = _mm512_cvtepi32_epi16(shift_right<16>(bits_of(low))),
                  second = _mm512_cvtepi32_epi16(shift_right<16>(bits_of(high)));
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
  }

  /// Row m of a panel of `tokens` rows from its values, `width` of them.
  static inline void pack_row(const float* row, std::int64_t width, std::int64_t m, std::int64_t tokens,
                              std::uint32_t* out) {
    constexpr std::int64_t kDwords = 16;
    auto* sums = reinterpret_cast<float*>(out + width * tokens) + m;
    for (std::int64_t k = 0; k < width; k += Panels::kRunValues, out += 2 * tokens * kDwords, sums += tokens) {
      float scale = 0;
      const I32x16 words = load_run(row + k, scale);
      const F32x16 times = splat(scale), byte = splat(256), part = splat(1.0f / 256);
      F32x16 low[2], high[2];
      const __m256i parts[] = {_mm512_castsi512_si256(words), _mm512_extracti64x4_epi64(words, 1)};
      for (int half = 0; half < 2; ++half) {
        const F32x16 value = as_floats(_mm512_cvtepi16_epi32(parts[half]));
        const F32x16 h = mul(round_to_nearest(mul(value, part)), byte);
        low[half] = mul(sub(value, h), times), high[half] = mul(h, times);
      }
      store_dwords(out + m * kDwords, narrowed(low[0], low[1]));
      store_dwords(out + (tokens + m) * kDwords, narrowed(high[0], high[1]));
      *sums = scaled_sum_of_row(words, scale);
    }
  }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
