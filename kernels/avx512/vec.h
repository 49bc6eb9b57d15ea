// Vector helpers of the AVX-512 kernels: loads of 32 weights of any type, elementary functions, reductions, and the
// transposition that turns rows into columns.
//
// Everything is in an unnamed namespace: files with different instruction sets include this header, and the linker
// must never hand the code of one to the other.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "common/elementwise.h"

namespace qinfer::kernels::avx512 {
namespace {

/// Rows of a weight tile, and positions of a KV tile: the lanes of one line of 16-bit values.
inline constexpr std::int64_t kTileRows = 32;

template <typename T>
inline T smaller(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
inline T larger(T a, T b) {
  return a < b ? b : a;
}

/// 32 consecutive values as two registers of f32.
struct Lanes32 {
  __m512 low, high;
};

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

template <DType type>
inline Lanes32 load32(const std::byte* at) {
  return {load16<type>(at), load16<type>(at + 16 * dtype_bytes(type))};
}

/// A line of bf16 as its even values and its odd ones, a shift and a mask: in order it would cost two shuffles more.
inline Lanes32 widen_pairs(__m512i line) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(line, 16)),
          _mm512_castsi512_ps(_mm512_and_si512(line, _mm512_set1_epi32(static_cast<int>(0xffff0000u))))};
}

inline constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

/// Rounded to the nearest bf16, ties to even, in the upper half of each lane; NaN stays NaN, as in base/dtype.h.
inline __m512i rounded_to_bf16(__m512 value) {
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  return _mm512_mask_mov_epi32(rounded, nan, quiet);
}
inline __m256i to_bf16(__m512 value) { return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded_to_bf16(value), 16)); }

/// 32 values as bf16, in order.
inline __m512i bf16_pairs(__m512 low, __m512 high) {
  alignas(64) static constexpr std::uint16_t kOdd[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                         23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                         45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  return _mm512_permutex2var_epi16(rounded_to_bf16(low), _mm512_load_si512(kOdd), rounded_to_bf16(high));
}

/// The first lanes that `mask` selects, narrowed and stored.
template <DType type>
inline void store16(std::byte* at, __mmask16 mask, __m512 value) {
  if constexpr (type == DType::f32) {
    _mm512_mask_storeu_ps(at, mask, value);
  } else if constexpr (type == DType::f16) {
    _mm256_mask_storeu_epi16(at, mask, _mm512_cvtps_ph(value, kNearest));
  } else {
    _mm256_mask_storeu_epi16(at, mask, to_bf16(value));
  }
}

inline __mmask16 first_lanes(std::int64_t count) {
  return count >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1u << count) - 1);
}

/// Calls f(integral constant of the type) for a type known at run time.
template <typename F>
inline void with_dtype(DType type, F f) {
  switch (type) {
    case DType::f32: f.template operator()<DType::f32>(); break;
    case DType::f16: f.template operator()<DType::f16>(); break;
    case DType::bf16: f.template operator()<DType::bf16>(); break;
  }
}

/// e^x within 2e-7 relative: 0 below -104, infinity above 88.73, NaN for NaN. The reduction and the Taylor polynomial
/// are those of base/math.h, with fused multiply-adds. `x` is the second operand of min and max, which keeps NaN.
inline __m512 exp_ps(__m512 x) {
  const __m512 clamped = _mm512_max_ps(_mm512_set1_ps(-105.0f), _mm512_min_ps(_mm512_set1_ps(89.0f), x));
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(clamped, _mm512_set1_ps(1.44269504088896341f)), kNearest);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), clamped);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 p = _mm512_set1_ps(1.0f / 5040.0f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 720.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, n);
}

/// 2^x within 1e-7 relative, for NaN NaN. The polynomial is the one of degree 6 with p(0) = 1 whose largest relative
/// error on [0, 1) is smallest, 2.0e-9 (found by reweighted least squares in float64); scalef takes floor(x) itself.
inline __m512 exp2_ps(__m512 x) {
  const __m512 r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  __m512 p = _mm512_set1_ps(0.000216129149f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.0012467847f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.00967545155f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.0554852821f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.240229309f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.693147063f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, x);
}

/// x * sigmoid(x).
inline __m512 silu_ps(__m512 x) {
  const __m512 negated =
      _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(x), _mm512_set1_epi32(static_cast<int>(0x80000000u))));
  return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), exp_ps(negated)));
}

/// GELU by tanh, as base/activation.h has it.
inline __m512 gelu_tanh_ps(__m512 x) {
  const __m512 cube = _mm512_mul_ps(_mm512_mul_ps(x, x), x);
  const __m512 minus_twice_u =
      _mm512_mul_ps(_mm512_set1_ps(-1.5957691216057308f), _mm512_fmadd_ps(_mm512_set1_ps(0.044715f), cube, x));
  return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), exp_ps(minus_twice_u)));
}

/// tanh as in base/math.h, with fused multiply-adds.
inline __m512 tanh_ps(__m512 x) {
  const __m512 square = _mm512_mul_ps(x, x), one = _mm512_set1_ps(1.0f);
  __m512 p = _mm512_set1_ps(62.0f / 2835.0f);
  p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(-17.0f / 315.0f));
  p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(2.0f / 15.0f));
  p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(-1.0f / 3.0f));
  const __m512 series = _mm512_fmadd_ps(_mm512_mul_ps(x, square), p, x);
  const __m512 e = exp_ps(_mm512_add_ps(x, x));
  const __m512 quotient = _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2.0f), _mm512_add_ps(e, one)));
  return _mm512_mask_mov_ps(quotient, _mm512_cmp_ps_mask(square, _mm512_set1_ps(0.0625f), _CMP_LT_OQ), series);
}

/// The vector operations of common/elementwise.h, over 16 values.
struct VectorOps {
  using V = __m512;
  static V mul(V a, V b) { return _mm512_mul_ps(a, b); }
  static V mul_add(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static V mul_sub(V a, V b, V c) { return _mm512_fmsub_ps(a, b, c); }
  static V silu(V x) { return silu_ps(x); }
  static V gelu_tanh(V x) { return gelu_tanh_ps(x); }
  static V tanh(V x) { return tanh_ps(x); }
};

/// Sums the lanes pairwise: j with j + 8, + 4, + 2, + 1.
inline float sum_lanes(__m512 v) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
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
