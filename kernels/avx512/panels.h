// Activations as the inner loops want them: panels of 12 tokens, [k][tokens] dwords, and an exponent per token.
//
// For f32 sums a dword is the value, for products of bf16 it is two of them, k and k + 1, each rounded. For f16 sums it
// is the value as f16, twice, scaled by a power of two per token so that no sum of 64 products can overflow: with
// |x| * 2^e <= limit and limit * max|w| <= 992, every partial sum of a run stays under 64 * 992 = 63488, plus at most
// 16 of rounding for each of the 32 steps beyond 32768 (the spacing there is 32), which is under 65504. NaN and
// infinities are passed on and do not count for the scale.
#pragma once

#include <bit>

#include "avx512/gemm_kernels.h"
#include "common/units.h"
#include "kernel_set.h"

namespace qinfer::kernels::avx512 {
namespace {

/// Up to this many rows every worker packs all of them for itself: cheaper than a barrier. (No measurement of other
/// numbers is kept.)
inline constexpr std::int64_t kLocalRows = 8;

inline std::int64_t panel_count(std::int64_t n) { return units_of(n, kPanelTokens); }

/// Panels of n rows of `width` values, and after them in memory the exponents.
struct Panels {
  std::uint32_t* data = nullptr;
  float* exponents = nullptr;  ///< of token m: the dwords hold x[m] * 2^exponents[m]
  std::int64_t width = 0;
  std::int64_t cols = 0;    ///< dwords of a row
  std::int64_t stride = 0;  ///< with its sums, where there are any

  /// Values of a row that a sum is of.
  static constexpr std::int64_t kSummed = 32;

  Panels(std::byte* memory, std::int64_t n, std::int64_t row_values, std::int64_t per_dword = 1, bool sums = false)
      : data(reinterpret_cast<std::uint32_t*>(memory)),
        exponents(reinterpret_cast<float*>(memory + n * row_values * 4)),
        width(row_values),
        cols((row_values + per_dword - 1) / per_dword),
        stride(cols + (sums ? units_of(row_values, kSummed) : 0)) {}
  /// Room for panels of any kind.
  static std::uint64_t bytes(std::uint64_t n, std::uint64_t width) { return (n * width * 4 + n * 4 + 63) / 64 * 64; }
  std::uint32_t* panel(std::int64_t p) const { return data + p * kPanelTokens * stride; }
};

/// Values as they are.
struct F32Values {
  static constexpr std::int64_t kPerDword = 1;
  static constexpr bool kSums = false;
  static float exponent(const float*, std::int64_t, float) { return 0; }
  /// The 16 dwords of a row of `width` values that begin with dword k.
  static __m512i load(const float* row, std::int64_t k, std::int64_t width, float) {
    return _mm512_castps_si512(_mm512_maskz_loadu_ps(first_lanes(width - k), row + k));
  }
};

/// Pairs of bf16.
struct Bf16Values {
  static constexpr std::int64_t kPerDword = 2;
  static constexpr bool kSums = false;
  static float exponent(const float*, std::int64_t, float) { return 0; }
  static __m512i load(const float* row, std::int64_t k, std::int64_t width, float) {
    const std::int64_t rest = width - 2 * k;
    const __m512 low = _mm512_maskz_loadu_ps(first_lanes(rest), row + 2 * k);
    const __m512 high = _mm512_maskz_loadu_ps(rest > 16 ? first_lanes(rest - 16) : __mmask16{0}, row + 2 * k + 16);
    return bf16_pairs(low, high);
  }
};

/// With the sum of each 32 rounded values of a row, as f32, after a panel's dwords: [width / 32][tokens]. There is room
/// for them where rows have at least 32 values.
struct Bf16SummedValues : Bf16Values {
  static constexpr bool kSums = true;
  static_assert(Panels::kSummed == 2 * 16, "a run is what pack_panel() has in 16 registers of pairs");
};

/// The same f16 twice.
struct F16Values {
  static constexpr std::int64_t kPerDword = 1;
  static constexpr bool kSums = false;
  /// The exponent for a row: 0 if it has no finite value but zero.
  static float exponent(const float* x, std::int64_t cols, float limit_exponent) {
    const __m512i infinity = _mm512_set1_epi32(0x7f800000), sign_off = _mm512_set1_epi32(0x7fffffff);
    __m512i largest = _mm512_setzero_si512();
    for (std::int64_t k = 0; k < cols; k += 16) {
      const __m512i bits = _mm512_maskz_loadu_epi32(first_lanes(cols - k), x + k);
      const __m512i magnitude = _mm512_and_si512(bits, sign_off);
      largest = _mm512_mask_max_epi32(largest, _mm512_cmplt_epi32_mask(magnitude, infinity), largest, magnitude);
    }
    const int bits = _mm512_reduce_max_epi32(largest);
    if (bits == 0) return 0;
    // getexp is floor(log2), also for subnormals; |x| < 2^(floor + 1).
    const __m128 floor_log2 = _mm_getexp_ss(_mm_setzero_ps(), _mm_castsi128_ps(_mm_cvtsi32_si128(bits)));
    return limit_exponent - 1 - _mm_cvtss_f32(floor_log2);
  }
  static __m512i load(const float* row, std::int64_t k, std::int64_t width, float exponent) {
    const __m512 x = _mm512_maskz_loadu_ps(first_lanes(width - k), row + k);
    const __m512i half =
        _mm512_cvtepu16_epi32(_mm512_cvtps_ph(_mm512_scalef_ps(x, _mm512_set1_ps(exponent)), kNearest));
    return _mm512_or_si512(half, _mm512_slli_epi32(half, 16));
  }
};

/// The largest exponent e with 2^e * largest_weight <= 992, and 2^e within f16.
inline float limit_exponent(float largest_weight) {
  if (!(largest_weight > 0)) return 15;
  const __m128 ratio = _mm_set_ss(992.0f / largest_weight);
  const float e = _mm_cvtss_f32(_mm_getexp_ss(ratio, ratio));
  return e < 15 ? e : 15;
}

inline __m512 sum_each_pair(__m512i pairs) {
  const Lanes32 values = widen_pairs(pairs);
  return _mm512_add_ps(values.low, values.high);
}

/// The sum of 16 pairs: each pair's, then i and i + 8 together, then i and i + 4, and so on. In this function and the
/// next one the order is the same, so that a sum does not depend on how many tokens a panel has.
inline float sum_lanes(__m512i pairs) {
  const __m512 each = sum_each_pair(pairs);
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(each), _mm512_extractf32x8_ps(each, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/// The same of each lane, whose pairs are in 16 registers.
inline __m512 sum_registers(const __m512i* pairs) {
  __m512 sums[8];
  for (std::int64_t i = 0; i < 8; ++i) sums[i] = _mm512_add_ps(sum_each_pair(pairs[i]), sum_each_pair(pairs[i + 8]));
  for (std::int64_t step = 4; step > 0; step /= 2)
    for (std::int64_t i = 0; i < step; ++i) sums[i] = _mm512_add_ps(sums[i], sums[i + step]);
  return sums[0];
}

/// Packs the panel of rows [first, first + tokens), row m of which is at row(m).
template <typename Values, typename RowAt>
inline void pack_panel(RowAt row, std::int64_t first, std::int64_t tokens, float limit, const Panels& panels) {
  std::uint32_t* out = panels.panel(first / kPanelTokens);
  float* exponents = panels.exponents + first;
  for (std::int64_t m = 0; m < tokens; ++m) exponents[m] = Values::exponent(row(first + m), panels.width, limit);
  const auto load = [&](std::int64_t m, std::int64_t k) {
    return Values::load(row(first + m), k, panels.width, exponents[m]);
  };
  if (tokens == 1) {
    for (std::int64_t k = 0; k < panels.cols; k += 16) {
      const __m512i dwords = load(0, k);
      _mm512_mask_storeu_epi32(out + k, first_lanes(panels.cols - k), dwords);
      if constexpr (Values::kSums) out[panels.cols + k / 16] = std::bit_cast<std::uint32_t>(sum_lanes(dwords));
    }
    return;
  }
  for (std::int64_t k = 0; k < panels.cols; k += 16) {
    __m512i block[16];
    for (std::int64_t m = 0; m < 16; ++m) block[m] = m < tokens ? load(m, k) : _mm512_setzero_si512();
    transpose16(block);
    const std::int64_t count = panels.cols - k < 16 ? panels.cols - k : 16;
    for (std::int64_t i = 0; i < count; ++i)
      _mm512_mask_storeu_epi32(out + (k + i) * tokens, first_lanes(tokens), block[i]);
    if constexpr (Values::kSums)
      _mm512_mask_storeu_ps(out + (panels.cols + k / 16) * tokens, first_lanes(tokens), sum_registers(block));
  }
}

/// Packs panels [begin, end) of n rows, row m of which is at row(m).
template <typename Values, typename RowAt>
inline void pack_rows(RowAt row, std::int64_t n, float limit, const Panels& panels, std::int64_t begin,
                      std::int64_t end) {
  for (std::int64_t p = begin; p < end; ++p) {
    const std::int64_t first = p * kPanelTokens;
    pack_panel<Values>(row, first, n - first < kPanelTokens ? n - first : kPanelTokens, limit, panels);
  }
}

template <typename Values>
inline void pack_panels(const Activations& x, std::int64_t n, float limit, const Panels& panels, std::int64_t begin,
                        std::int64_t end) {
  pack_rows<Values>([&x](std::int64_t m) { return x.row(m); }, n, limit, panels, begin, end);
}

}  // namespace
}  // namespace qinfer::kernels::avx512
