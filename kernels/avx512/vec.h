// The vector layer of tiled/vec.h for AVX-512, where 16 lanes are one register and a mask is one of its masks; and what
// only kernels with these instructions need.
//
// Everything is in an unnamed namespace: files with different instruction sets include this header, and the linker
// must never hand the code of one to the other.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace qinfer::kernels::avx512 {
namespace {

using F32x16 = __m512;
using I32x16 = __m512i;
using Lanes = __mmask16;
using Mask = __mmask16;

/// How many sums an inner loop keeps in registers: for this many tokens, of this many times 16 outputs each.
inline constexpr int kSumTokens = 12, kSumGroups = 2;

inline constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

/// All lanes below `count`.
inline Lanes first_lanes(std::int64_t count) {
  return count >= 16 ? Lanes{0xffff} : static_cast<Lanes>((1u << count) - 1);
}

inline F32x16 zeros() { return _mm512_setzero_ps(); }
inline F32x16 splat(float x) { return _mm512_set1_ps(x); }
inline F32x16 add(F32x16 a, F32x16 b) { return _mm512_add_ps(a, b); }
inline F32x16 sub(F32x16 a, F32x16 b) { return _mm512_sub_ps(a, b); }
inline F32x16 mul(F32x16 a, F32x16 b) { return _mm512_mul_ps(a, b); }
inline F32x16 divide(F32x16 a, F32x16 b) { return _mm512_div_ps(a, b); }
inline F32x16 mul_add(F32x16 a, F32x16 b, F32x16 c) { return _mm512_fmadd_ps(a, b, c); }
inline F32x16 mul_sub(F32x16 a, F32x16 b, F32x16 c) { return _mm512_fmsub_ps(a, b, c); }
inline F32x16 neg_mul_add(F32x16 a, F32x16 b, F32x16 c) { return _mm512_fnmadd_ps(a, b, c); }
inline F32x16 larger_of(F32x16 a, F32x16 b) { return _mm512_max_ps(a, b); }
inline F32x16 smaller_of(F32x16 a, F32x16 b) { return _mm512_min_ps(a, b); }

inline F32x16 round_to_nearest(F32x16 x) { return _mm512_roundscale_ps(x, kNearest); }
/// 0 for the infinities.
inline F32x16 above_floor(F32x16 x) { return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
inline F32x16 times_power_of_2(F32x16 p, F32x16 n) { return _mm512_scalef_ps(p, n); }
inline F32x16 times_power_of_2(F32x16 p, float n) { return times_power_of_2(p, splat(n)); }

inline I32x16 bits_of(F32x16 x) { return _mm512_castps_si512(x); }
inline F32x16 floats_of(I32x16 x) { return _mm512_castsi512_ps(x); }
inline I32x16 no_bits() { return _mm512_setzero_si512(); }
inline I32x16 splat_bits(std::uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
inline I32x16 add_bits(I32x16 a, I32x16 b) { return _mm512_add_epi32(a, b); }
inline I32x16 and_bits(I32x16 a, I32x16 b) { return _mm512_and_si512(a, b); }
inline I32x16 or_bits(I32x16 a, I32x16 b) { return _mm512_or_si512(a, b); }
inline I32x16 xor_bits(I32x16 a, I32x16 b) { return _mm512_xor_si512(a, b); }
template <int n>
inline I32x16 shift_left(I32x16 x) {
  return _mm512_slli_epi32(x, n);
}
template <int n>
inline I32x16 shift_right(I32x16 x) {
  return _mm512_srli_epi32(x, n);
}
inline F32x16 as_floats(I32x16 x) { return _mm512_cvtepi32_ps(x); }

inline Mask is_less(F32x16 a, F32x16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
inline Mask is_less(I32x16 a, I32x16 b) { return _mm512_cmplt_epi32_mask(a, b); }
inline Mask is_nan(F32x16 x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }
/// Lane i where bit i is set.
inline Mask mask_of_bits(std::uint32_t bits) { return static_cast<Mask>(bits); }
inline F32x16 select(Mask mask, F32x16 yes, F32x16 no) { return _mm512_mask_mov_ps(no, mask, yes); }
inline I32x16 select(Mask mask, I32x16 yes, I32x16 no) { return _mm512_mask_mov_epi32(no, mask, yes); }

inline F32x16 load(const void* at) { return _mm512_loadu_ps(at); }
inline F32x16 load(Lanes lanes, const void* at) { return _mm512_maskz_loadu_ps(lanes, at); }
inline void store(void* at, F32x16 x) { _mm512_storeu_ps(at, x); }
inline void store(void* at, Lanes lanes, F32x16 x) { _mm512_mask_storeu_ps(at, lanes, x); }
inline I32x16 load_dwords(const void* at) { return _mm512_loadu_si512(at); }
inline I32x16 load_dwords(Lanes lanes, const void* at) { return _mm512_maskz_loadu_epi32(lanes, at); }
inline void store_dwords(void* at, I32x16 x) { _mm512_storeu_si512(at, x); }
inline void store_dwords(void* at, Lanes lanes, I32x16 x) { _mm512_mask_storeu_epi32(at, lanes, x); }
inline I32x16 load_halves(Lanes lanes, const void* at) {
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, at));
}
inline void store_halves(void* at, Lanes lanes, I32x16 x) {
  _mm256_mask_storeu_epi16(at, lanes, _mm512_cvtepi32_epi16(x));
}
/// 16 signed or unsigned bytes.
inline I32x16 load_i8(const std::byte* at) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}
inline I32x16 load_u8(const std::byte* at) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

template <DType type>
inline F32x16 widen(I32x16 halves) {
  if constexpr (type == DType::f16) return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(halves));
  return _mm512_castsi512_ps(_mm512_slli_epi32(halves, 16));
}

template <DType type>
inline __m512 load16(const std::byte* at) {
  if constexpr (type == DType::f32) {
    return _mm512_loadu_ps(at);
  } else if constexpr (type == DType::f16) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  } else {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
}

/// Rounded to the nearest bf16, ties to even, in the upper half of each lane; NaN stays NaN, as in base/dtype.h.
inline __m512i rounded_to_bf16(__m512 value) {
  const __m512i bits = bits_of(value);
  const __m512i odd = and_bits(shift_right<16>(bits), splat_bits(1));
  const __m512i rounded = add_bits(bits, add_bits(odd, splat_bits(0x7fff)));
  return select(is_nan(value), or_bits(bits, splat_bits(0x400000)), rounded);
}

/// 32 values as bf16, in order.
inline __m512i bf16_pairs(__m512 low, __m512 high) {
  alignas(64) static constexpr std::uint16_t kOdd[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                         23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                         45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  return _mm512_permutex2var_epi16(rounded_to_bf16(low), _mm512_load_si512(kOdd), rounded_to_bf16(high));
}

/// Narrowed and stored.
template <DType type>
inline void store16(std::byte* at, Lanes lanes, F32x16 value) {
  if constexpr (type == DType::f32) {
    _mm512_mask_storeu_ps(at, lanes, value);
  } else if constexpr (type == DType::f16) {
    _mm256_mask_storeu_epi16(at, lanes, _mm512_cvtps_ph(value, kNearest));
  } else {
    store_halves(at, lanes, shift_right<16>(rounded_to_bf16(value)));
  }
}

/// Values 0, 2, 4 .. 30 of the 32 in `low` and `high`, and the others.
inline void split_pairs(F32x16 low, F32x16 high, F32x16& even, F32x16& odd) {
  const __m512i first = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  even = _mm512_permutex2var_ps(low, first, high);
  odd = _mm512_permutex2var_ps(low, or_bits(first, splat_bits(1)), high);
}

inline float first_lane(F32x16 x) { return _mm512_cvtss_f32(x); }
inline float largest_lane(F32x16 x) { return _mm512_reduce_max_ps(x); }
inline std::int32_t largest_lane(I32x16 x) { return _mm512_reduce_max_epi32(x); }

/// Sums the lanes pairwise: j with j + 8, + 4, + 2, + 1.
inline float sum_lanes(__m512 v) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline I32x16 nearest_integers(F32x16 x) { return _mm512_cvtps_epi32(x); }
inline I32x16 words_of(I32x16 low, I32x16 high) {
  const __m256i first = _mm512_cvtsepi32_epi16(low), second = _mm512_cvtsepi32_epi16(high);
  return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}
inline I32x16 multiply_pairs(I32x16 a, I32x16 b) { return _mm512_madd_epi16(a, b); }
inline void sum_halves(I32x16 x, std::int32_t (&out)[2]) {
  out[0] = _mm512_mask_reduce_add_epi32(0x00ff, x), out[1] = _mm512_mask_reduce_add_epi32(0xff00, x);
}

/// Transposes 16 registers of 16 dwords.
inline void transpose16(__m512i (&r)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
  }
}

}  // namespace
}  // namespace qinfer::kernels::avx512
