// Activations as this backend has them between its operations, 16 tokens side by side (kernel_set.h, Layout): panels of
// f32, which is what the sums of a tile multiplication are, features as lines; and panels of bf16, its second operand,
// [k / 2][16] dwords of two values that follow each other in k (rounded to nearest even, subnormals to zero), zeros
// after the last k. Lanes after the last token hold anything: no lane reaches another. Batches of few rows are
// row-major, and every worker packs them for itself.
#pragma once

#include "amx/tiles.h"
#include "common/units.h"
#include "kernel_set.h"
#include "tiled/math.h"

namespace qinfer::kernels::amx {
namespace {

using avx512::first_lanes;
using avx512::larger;
using avx512::smaller;

/// Tokens of a panel: the lanes of a register of sums. The same as kPanelRows of kernel_set.h.
inline constexpr std::int64_t kPanelLanes = 16;
static_assert(kPanelLanes == kPanelRows && kStep == kPanelFeatures);
/// Bytes of a step of 16 rows or tokens by 32 columns of bf16, and its dwords.
inline constexpr std::int64_t kPairStepBytes = 16 * 64, kPairStepDwords = kPairStepBytes / 4;
/// Tokens that AVX-512 multiplies, at most, where weights are in pairs: with more it would be held up by its
/// multiply-adds.
inline constexpr std::int64_t kVectorTokens = 3;
/// Batches of at most this many rows are row-major: padding them to 16 would at least double the bytes that go from
/// core to core, since threads read what other threads have written.
inline constexpr std::int64_t kMaxRowMajor = 8;

inline std::int64_t panel_count(std::int64_t n) { return units_of(n, kPanelLanes); }
inline std::int64_t padded_k(std::int64_t k) { return (k + kStep - 1) / kStep * kStep; }
/// Dwords of one panel.
inline std::int64_t panel_dwords(std::int64_t cols) { return padded_k(cols) / 2 * kPanelLanes; }
/// From one panel to the next where all workers share turned ones: an odd number of pages, so that the same columns of
/// all panels, which pass a block of weights, lie in different sets of the caches. (Those of 4,096 columns
/// would use an eighth of the L2.)
inline std::int64_t spread_dwords(std::int64_t cols) {
  constexpr std::int64_t kPage = 4096 / 4;
  const std::int64_t pages = (panel_dwords(cols) + kPage - 1) / kPage;
  return (pages | 1) * kPage;
}
inline std::uint64_t panels_bytes(std::int64_t n, std::int64_t cols) {
  return static_cast<std::uint64_t>(panel_count(n) * panel_dwords(cols)) * 4;
}

/// Rounds 32 values, low ones first.
inline __m512i to_bf16_pairs(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

/// Two features of 16 tokens as one line of a panel.
inline __m512i interleave(__m512 even, __m512 odd) {
  alignas(64) static constexpr std::uint16_t kIndex[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                           21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                           11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kIndex), to_bf16_pairs(even, odd));
}

/// The next 32 columns of a row, of which `rest` exist, zeros after them.
inline avx512::Lanes32 load_columns(const float* at, std::int64_t rest) {
  return {_mm512_maskz_loadu_ps(first_lanes(rest), at),
          _mm512_maskz_loadu_ps(rest > 16 ? first_lanes(rest - 16) : __mmask16{0}, at + 16)};
}

/// Up to 16 rows of `cols` values, row m at row(m), as a panel.
template <typename RowAt>
inline void pack_panel(std::int64_t tokens, std::int64_t cols, RowAt row, std::uint32_t* panel) {
  for (std::int64_t k = 0; k < cols; k += kStep) {
    __m512i block[16];
    for (std::int64_t m = 0; m < 16; ++m) {
      if (m >= tokens) {
        block[m] = _mm512_setzero_si512();
        continue;
      }
      const avx512::Lanes32 values = load_columns(row(m) + k, cols - k);
      block[m] = to_bf16_pairs(values.low, values.high);
    }
    avx512::transpose16(block);
    for (std::int64_t i = 0; i < 16; ++i) _mm512_store_si512(panel + (k / 2 + i) * kPanelLanes, block[i]);
  }
}

/// The same as rows, [k / 32][16 tokens][32]: what a tile multiplication has as its first operand. Rows after the last
/// token are zero; of up to kVectorTokens tokens, most of which AVX-512 multiplies, they are not written. A tile
/// multiplication reads them all the same: each row gives sums of its own, and those after the last token are ignored.
template <typename RowAt>
inline void pack_rows(std::int64_t tokens, std::int64_t cols, RowAt row, std::uint32_t* out) {
  const std::int64_t written = tokens > kVectorTokens ? kPanelLanes : tokens;
  for (std::int64_t k = 0; k < cols; k += kStep, out += kPairStepDwords)
    for (std::int64_t m = 0; m < written; ++m) {
      const avx512::Lanes32 values = m < tokens ? load_columns(row(m) + k, cols - k) : avx512::Lanes32{};
      _mm512_store_si512(out + m * 16, to_bf16_pairs(values.low, values.high));
    }
}

/// The line of one feature in the panel of f32 that holds rows 16 * panel and up.
inline float* f32_line(const Activations& panels, std::int64_t panel, std::int64_t feature) {
  return panels.f32() + (panel * panels.ld + feature) * kPanelLanes;
}

/// Sixteen lines of 16 tokens, or 16 rows of 16 features, become the other.
inline void transpose(const __m512 (&from)[16], __m512 (&to)[16]) {
  __m512i block[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) block[i] = _mm512_castps_si512(from[i]);
  avx512::transpose16(block);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) to[i] = _mm512_castsi512_ps(block[i]);
}

/// The mean over features of each of 16 rows; add(feature, sum) adds a feature's line to a sum. There are sixteen sums
/// of every sixteenth feature, which are added pairwise.
template <typename Add>
inline __m512 mean_lines(std::int64_t width, Add add) {
  __m512 sums[16];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  std::int64_t k = 0;
  for (; k + 16 <= width; k += 16) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) sums[i] = add(k + i, sums[i]);
  }
  for (int i = 0; k + i < width; ++i) sums[i] = add(k + i, sums[i]);
#pragma GCC unroll 4
  for (int half = 8; half > 0; half /= 2)
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i) sums[i] = _mm512_add_ps(sums[i], sums[i + half]);
  return _mm512_div_ps(sums[0], _mm512_set1_ps(static_cast<float>(width)));
}

/// 1 / sqrt(mean of squares + eps) of each of 16 rows, line(feature) being their values.
template <typename Line>
inline __m512 inverse_rms(std::int64_t width, float eps, Line line) {
  const __m512 mean = mean_lines(width, [&](std::int64_t k, __m512 sum) {
    const __m512 value = line(k);
    return _mm512_fmadd_ps(value, value, sum);
  });
  return _mm512_div_ps(_mm512_set1_ps(1.0f), _mm512_sqrt_ps(_mm512_add_ps(mean, _mm512_set1_ps(eps))));
}

}  // namespace
}  // namespace qinfer::kernels::amx
