// Activations as pairs of bf16, and as the same f16 twice: what the inner loops with such products take
// (tiled/panels.h).
#pragma once

#include "tiled/panels.h"

namespace qinfer::kernels::avx512 {
namespace {

/// Pairs of bf16.
struct Bf16Values {
  static constexpr std::int64_t kPerDword = 2;
  static constexpr std::int64_t kExtras = 0;
  static constexpr bool kScaledRuns = false;
  static float exponent(const float*, std::int64_t, float) { return 0; }
  static I32x16 load(const float* row, std::int64_t k, std::int64_t width, float) {
    const std::int64_t rest = width - 2 * k;
    const F32x16 low = avx512::load(first_lanes(rest), row + 2 * k);
    const F32x16 high = avx512::load(rest > 16 ? first_lanes(rest - 16) : Lanes{0}, row + 2 * k + 16);
    return bf16_pairs(low, high);
  }
};

/// The sum of 16 pairs: each pair's, as Values::sum_each() has them, then i and i + 8 together, then i and i + 4, and
/// so on. In this function and the next one the order is the same, so that a sum does not depend on how many tokens a
/// panel has.
template <typename Values>
inline float sum_of_pairs(I32x16 pairs) {
  return sum_lanes(Values::sum_each(pairs));
}

/// The same of each lane, whose pairs are in 16 registers.
template <typename Values>
inline F32x16 sum_registers(const I32x16* pairs) {
  F32x16 sums[8];
  for (std::int64_t i = 0; i < 8; ++i) sums[i] = add(Values::sum_each(pairs[i]), Values::sum_each(pairs[i + 8]));
  for (std::int64_t step = 4; step > 0; step /= 2)
    for (std::int64_t i = 0; i < step; ++i) sums[i] = add(sums[i], sums[i + step]);
  return sums[0];
}

static_assert(Panels::kRunValues == 2 * 16, "a run is what pack_panel() has in 16 registers of pairs");

/// With the sum of each 32 rounded values of a row, as f32, after a panel's dwords: [width / 32][tokens]. There is room
/// for them where rows have at least 32 values.
struct Bf16SummedValues : Bf16Values {
  static constexpr std::int64_t kExtras = 1;
  static F32x16 sum_each(I32x16 pairs) {
    const Lanes32 values = widen_pairs(pairs);
    return add(values.low, values.high);
  }
  static void extras_of_row(I32x16 pairs, float, std::uint32_t* out) {
    *out = std::bit_cast<std::uint32_t>(sum_of_pairs<Bf16SummedValues>(pairs));
  }
  static void extras_of_rows(const I32x16* pairs, const float*, I32x16 (&out)[kExtras]) {
    out[0] = bits_of(sum_registers<Bf16SummedValues>(pairs));
  }
};

/// The same f16 twice.
struct F16Values {
  static constexpr std::int64_t kPerDword = 1;
  static constexpr std::int64_t kExtras = 0;
  static constexpr bool kScaledRuns = false;
  /// The exponent for a row: 0 if it has no finite value but zero.
  static float exponent(const float* x, std::int64_t cols, float limit_exponent) {
    const I32x16 infinity = splat_bits(0x7f800000), sign_off = splat_bits(0x7fffffff);
    I32x16 largest = no_bits();
    for (std::int64_t k = 0; k < cols; k += 16) {
      const I32x16 bits = load_dwords(first_lanes(cols - k), x + k);
      const I32x16 magnitude = and_bits(bits, sign_off);
      largest = _mm512_mask_max_epi32(largest, _mm512_cmplt_epi32_mask(magnitude, infinity), largest, magnitude);
    }
    const int bits = largest_lane(largest);
    if (bits == 0) return 0;
    // getexp is floor(log2), also for subnormals; |x| < 2^(floor + 1).
    const __m128 floor_log2 = _mm_getexp_ss(_mm_setzero_ps(), _mm_castsi128_ps(_mm_cvtsi32_si128(bits)));
    return limit_exponent - 1 - _mm_cvtss_f32(floor_log2);
  }
  static I32x16 load(const float* row, std::int64_t k, std::int64_t width, float exponent) {
    const F32x16 x = avx512::load(first_lanes(width - k), row + k);
    const I32x16 half = _mm512_cvtepu16_epi32(_mm512_cvtps_ph(times_power_of_2(x, splat(exponent)), kNearest));
    return or_bits(half, shift_left<16>(half));
  }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
