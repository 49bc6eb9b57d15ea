// Activations as the second operand of a tile multiplication: panels of 16 tokens, [k / 2][16] dwords of two bf16 that
// follow each other in k (rounded to nearest even, subnormals to zero), zeros behind the last token and the last k.
#pragma once

#include "amx/tiles.h"
#include "avx512/vec.h"
#include "kernel_set.h"

namespace qinfer::kernels::amx {
namespace {

using avx512::first_lanes;
using avx512::larger;
using avx512::smaller;

inline constexpr std::int64_t kPanelTokens = 16;

inline std::int64_t panel_count(std::int64_t n) { return (n + kPanelTokens - 1) / kPanelTokens; }
inline std::int64_t padded_k(std::int64_t k) { return (k + kStep - 1) / kStep * kStep; }
/// Dwords of one panel.
inline std::int64_t panel_dwords(std::int64_t cols) { return padded_k(cols) / 2 * kPanelTokens; }
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

/// Columns [begin, end) of up to 16 rows of `cols` values, row m at row(m), into their place in a panel; begin and end
/// are multiples of 32, or end is behind the last column.
template <typename RowAt>
inline void pack_panel(std::int64_t tokens, std::int64_t cols, std::int64_t begin, std::int64_t end, RowAt row,
                       std::uint32_t* panel) {
  for (std::int64_t k = begin; k < end; k += kStep) {
    const std::int64_t rest = cols - k;
    const __mmask16 low = first_lanes(rest), high = rest > 16 ? first_lanes(rest - 16) : __mmask16{0};
    __m512i block[16];
    for (std::int64_t m = 0; m < 16; ++m) {
      if (m >= tokens) {
        block[m] = _mm512_setzero_si512();
        continue;
      }
      const float* at = row(m) + k;
      block[m] = to_bf16_pairs(_mm512_maskz_loadu_ps(low, at), _mm512_maskz_loadu_ps(high, at + 16));
    }
    avx512::transpose16(block);
    for (std::int64_t i = 0; i < 16; ++i) _mm512_store_si512(panel + (k / 2 + i) * kPanelTokens, block[i]);
  }
}

/// Columns that one unit of a packing phase takes.
inline constexpr std::int64_t kPackColumns = 512;

inline std::int64_t pack_parts(std::int64_t cols) { return (cols + kPackColumns - 1) / kPackColumns; }

/// Packs units [begin, end) of the panels of n rows: parts of the first panel, then of the second, ...
inline void pack_rows(const Rows& x, std::int64_t n, std::int64_t cols, std::uint32_t* panels, std::int64_t begin,
                      std::int64_t end) {
  for (std::int64_t u = begin; u < end; ++u) {
    const std::int64_t p = u / pack_parts(cols), k = u % pack_parts(cols) * kPackColumns, first = p * kPanelTokens;
    pack_panel(
        smaller(n - first, kPanelTokens), cols, k, smaller(k + kPackColumns, cols),
        [&](std::int64_t m) { return x.row(first + m); }, panels + p * panel_dwords(cols));
  }
}

}  // namespace
}  // namespace qinfer::kernels::amx
