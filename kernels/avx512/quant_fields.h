// The integers of quantised tiles (common/quant_tiles.h) in registers: 16 rows at a time, a lane each.
#pragma once

#include "tiled/quant_scales.h"

namespace qinfer::kernels::avx512 {
namespace {

/// Eight values of each row, those at even p and those at odd ones: see at().
struct Fields {
  __m512i even, odd;
  /// In a dword the integer of value 2p begins at bit 0, that of 2p + 1 at bit 16. What is above them in each half
  /// belongs to others.
  __m512i at(int p) const {
    const __m512i word = p % 2 == 0 ? even : odd;
    return p < 2 ? word : _mm512_srli_epi32(word, 8);
  }
};

inline __m512i dwords_at(const std::byte* at) { return _mm512_loadu_si512(at); }

/// `low`, but with the bits of `high` that `mask` has.
inline __m512i with_bits(__m512i low, __m512i high, __m512i mask) {
  return _mm512_ternarylogic_epi32(low, high, mask, 0xd8);
}

/// Bits of an integer.
constexpr int integer_bits(TileIntegers integers) {
  return integers == TileIntegers::bytes       ? 8
         : integers == TileIntegers::nibbles   ? 4
         : integers == TileIntegers::five_bits ? 5
                                               : 6;
}

/// `nibbles`: the dwords of a group. `plane`: its plane, shifted right by plane_shift(); not looked at where there is
/// none.
template <TileIntegers integers>
inline Fields fields_of(__m512i nibbles, __m512i plane) {
  const __m512i odd = _mm512_srli_epi32(nibbles, 4);
  if constexpr (integers == TileIntegers::nibbles) return {nibbles, odd};
  const __m512i mask = _mm512_set1_epi32(plane_bytes(integers));
  return {with_bits(nibbles, _mm512_slli_epi32(plane, 4), mask), with_bits(odd, plane, mask)};
}

}  // namespace
}  // namespace qinfer::kernels::avx512
