// The integers of quantised weights as bf16, which holds them exactly, in pairs (quant_pairs.h).
#pragma once

#include "avx512/quant_fields.h"

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

}  // namespace
}  // namespace qinfer::kernels::avx512
