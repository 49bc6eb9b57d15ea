// The integers and scales of quantised tiles (common/quant_tiles.h) in registers: 16 rows at a time, a lane each.
#pragma once

#include <array>

#include "avx512/vec.h"
#include "base/block_formats.h"
#include "common/quant_tiles.h"

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

/// The bits above the nibbles of a group in every byte, once its even or its odd nibbles are at the bytes' beginnings.
constexpr int plane_bytes(TileIntegers integers) {
  return integers == TileIntegers::six_bits ? 0x30303030 : 0x10101010;
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

inline __m512 f16_at(const std::byte* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}
inline __m512i u8_at(const std::byte* at) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}
inline __m512i i8_at(const std::byte* at) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

/// 2^(e - 128), as blocks::e8m0_half() has it.
inline __m512 e8m0_half_at(const std::byte* at) {
  const __m512i e = u8_at(at);
  const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
  const __mmask16 small = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
  return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, small, _mm512_set1_epi32(0x200000), e));
}

/// What 16 rows of a run of values (32, or 16 where scales are of 16) have in common: a value is scale * integer -
/// minimum. `minimum` is set where the encoding has one.
struct RunScales {
  __m512 scale, minimum;
};

constexpr bool has_minima(TileScales scales) {
  return scales == TileScales::d_and_m || scales == TileScales::long_minima;
}
/// Runs of a sub-block that have scales of their own.
constexpr int runs_of(TileScales scales) { return scales == TileScales::long_16 ? 2 : 1; }

/// Of run `run` of the sub-block at `sub`, rows 16 * half and up; the block begins at `block`. All products are exact.
template <TileScales scales>
inline RunScales scales_at(const std::byte* block, const std::byte* sub, int run, int half) {
  constexpr std::int64_t kF16 = 2 * kQuantRows;
  const __m512 zero = _mm512_setzero_ps();
  if constexpr (scales == TileScales::e8m0) return {e8m0_half_at(sub + 16 * half), zero};
  if constexpr (scales == TileScales::d) return {f16_at(sub + 32 * half), zero};
  if constexpr (scales == TileScales::d_and_m) {
    const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000u));
    const __m512 added = f16_at(sub + kF16 + 32 * half);
    return {f16_at(sub + 32 * half), _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(added), sign))};
  }
  const __m512 d = f16_at(block + 32 * half);
  if constexpr (scales == TileScales::long_minima) {
    const __m512 minimum = _mm512_cvtepi32_ps(u8_at(sub + kQuantRows + 16 * half));
    return {_mm512_mul_ps(d, _mm512_cvtepi32_ps(u8_at(sub + 16 * half))),
            _mm512_mul_ps(f16_at(block + kF16 + 32 * half), minimum)};
  }
  return {_mm512_mul_ps(d, _mm512_cvtepi32_ps(i8_at(sub + kQuantRows * run + 16 * half))), zero};
}

/// What an integer is before it is scaled: less an offset, or an entry of a table.
enum class Meaning : std::uint8_t { whole, less_4, less_8, less_16, less_32, iq4, fp4 };

constexpr Meaning meaning_of(Encoding encoding) {
  switch (encoding) {
    case Encoding::q4_0: return Meaning::less_8;
    case Encoding::q5_0: return Meaning::less_16;
    case Encoding::q3_k: return Meaning::less_4;
    case Encoding::q6_k: return Meaning::less_32;
    case Encoding::iq4_nl:
    case Encoding::iq4_xs: return Meaning::iq4;
    case Encoding::mxfp4: return Meaning::fp4;
    case Encoding::q8_0:
    case Encoding::q4_1:
    case Encoding::q5_1:
    case Encoding::q4_k:
    case Encoding::q5_k:
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16: break;
  }
  return Meaning::whole;
}

constexpr float offset_of(Meaning meaning) {
  return meaning == Meaning::less_4    ? 4
         : meaning == Meaning::less_8  ? 8
         : meaning == Meaning::less_16 ? 16
         : meaning == Meaning::less_32 ? 32
                                       : 0;
}

constexpr bool is_table(Meaning meaning) { return meaning == Meaning::iq4 || meaning == Meaning::fp4; }

/// The value of every integer of up to five bits.
constexpr std::array<float, 32> table_of(Meaning meaning) {
  std::array<float, 32> out{};
  for (std::size_t i = 0; i < 32; ++i)
    out[i] = meaning == Meaning::iq4   ? static_cast<float>(blocks::kIq4Values[i % 16])
             : meaning == Meaning::fp4 ? static_cast<float>(blocks::kFp4Doubled[i % 16])
                                       : static_cast<float>(i) - offset_of(meaning);
  return out;
}

}  // namespace
}  // namespace qinfer::kernels::avx512
