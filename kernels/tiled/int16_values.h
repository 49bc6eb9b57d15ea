// Activations as pairs of 16-bit integers, which inner loops multiply with integers of weights
// (avx2/quant_int16_loops.h, avx512/quant_int16_loops.h); and the definition of what such products are.
//
// Each 32 values of a row have a power of two of their own: x becomes round(x * 2^e), at most 2^15 - 1, where e is the
// largest with |x| * 2^e < 2^15 for all of them, but not above 126. So no value is off by more than 2^-15 of the
// largest one among its 32, or than 2^-127 where all are below 2^-112. Where one of them is 2^115 or more, so that sums
// could overflow, or is not finite, the outputs of their row are NaN.
//
// An output is one chain over the runs of values that share a scale (32 or 16), in ascending k, whatever the number of
// tokens at a time:
//   sum = the sum over the run of (integer of the weight) * (integer of the activation), exact, then rounded to f32
//   total = (sum * 2^-e) * scale of the weights + total, fused
//   with minima: total = total - minimum * (the sum of the run's integers of activations * 2^-e), fused
// A sum has at most 32 products, of at most 128 and 2^15: it is at most 2^27, and sum * 2^-e is exact and finite.
#pragma once

#include "tiled/panels.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

/// Follows a panel's dwords for each 32 values of its rows, [4][tokens]: the sums of the first and of the last 16
/// integers, as integers; 2^-e as f32, which is NaN where the values have no integers; and the sum of all of them times
/// that, as f32.
struct Int16Values {
  static constexpr std::int64_t kPerDword = 2;
  static constexpr std::int64_t kExtras = 4;
  static constexpr bool kScaledRuns = true;
  /// Dwords of a row of `cols` dwords, whole runs of 32 values, with its extras: Panels::stride.
  static constexpr std::int64_t stride(std::int64_t cols) {
    return cols + kExtras * (cols * kPerDword / Panels::kRunValues);
  }
  static float exponent(const float*, std::int64_t, float) { return 0; }

  /// The dwords of 32 values, and in `scale` what their integers are to be multiplied by.
  static I32x16 load_run(const float* x, float& scale) {
    const F32x16 low = QINFER_ISA::load(x), high = QINFER_ISA::load(x + 16);
    const I32x16 sign_off = splat_bits(0x7fffffff);
    const I32x16 first = and_bits(bits_of(low), sign_off), second = and_bits(bits_of(high), sign_off);
    const std::int32_t exponent = largest_lane(select(is_less(first, second), second, first)) >> 23;  // biased
    // Biased, too: of 2^e, which ends at 2^126.
    const std::int32_t power = smaller(127 + 14 + 127 - exponent, 126 + 127);
    const F32x16 factor = splat(std::bit_cast<float>(power << 23));
    constexpr std::int32_t kTooLarge = 127 + 115;
    scale = std::bit_cast<float>(exponent < kTooLarge ? (2 * 127 - power) << 23 : 0x7fc00000);
    return words_of(nearest_integers(mul(low, factor)), nearest_integers(mul(high, factor)));
  }

  static void extras_of_row(I32x16 pairs, float scale, std::uint32_t* out) {
    std::int32_t halves[2];
    sum_halves(multiply_pairs(pairs, splat_bits(0x10001)), halves);
    for (int half = 0; half < 2; ++half) out[half] = static_cast<std::uint32_t>(halves[half]);
    out[2] = std::bit_cast<std::uint32_t>(scale);
    out[3] = std::bit_cast<std::uint32_t>(static_cast<float>(halves[0] + halves[1]) * scale);
  }
  /// The last of them.
  static float scaled_sum_of_row(I32x16 pairs, float scale) {
    std::uint32_t extras[kExtras];
    extras_of_row(pairs, scale, extras);
    return std::bit_cast<float>(extras[3]);
  }
  /// `pairs`: [16] of each lane.
  static void extras_of_rows(const I32x16* pairs, const float* scales, I32x16 (&out)[kExtras]) {
    const I32x16 ones = splat_bits(0x10001);
    for (int half = 0; half < 2; ++half) {
      out[half] = no_bits();
      for (int i = 0; i < 8; ++i) out[half] = add_bits(out[half], multiply_pairs(pairs[8 * half + i], ones));
    }
    const F32x16 scale = QINFER_ISA::load(scales);
    out[2] = bits_of(scale);
    out[3] = bits_of(mul(as_floats(add_bits(out[0], out[1])), scale));
  }
};

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
