// Elementary functions over 16 lanes: the same operations in the same order, and so the same bits, whatever the
// instruction set.
#pragma once

#include "common/elementwise.h"
#include "tiled/vec.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

// exp_ps() and exp2_ps() are inlined by order: on AVX2 16 lanes are two registers, which a call passes in memory, and a
// prefill of 512 tokens calls them some six million times (Qwen3-0.6B).

/// e^x within 2e-7 relative: 0 below -104, infinity above 88.73, NaN for NaN. The reduction and the Taylor polynomial
/// are those of base/math.h, with fused multiply-adds. `x` is the second operand of
/// smaller_of() and larger_of(), which keeps NaN.
[[gnu::always_inline]] inline F32x16 exp_ps(F32x16 x) {
  const F32x16 clamped = larger_of(splat(-105.0f), smaller_of(splat(89.0f), x));
  const F32x16 n = round_to_nearest(mul(clamped, splat(1.44269504088896341f)));
  F32x16 r = neg_mul_add(n, splat(0.693359375f), clamped);
  r = neg_mul_add(n, splat(-2.12194440e-4f), r);
  F32x16 p = splat(1.0f / 5040.0f);
  p = mul_add(p, r, splat(1.0f / 720.0f));
  p = mul_add(p, r, splat(1.0f / 120.0f));
  p = mul_add(p, r, splat(1.0f / 24.0f));
  p = mul_add(p, r, splat(1.0f / 6.0f));
  p = mul_add(p, r, splat(0.5f));
  p = mul_add(p, r, splat(1.0f));
  p = mul_add(p, r, splat(1.0f));
  return times_power_of_2(p, n);
}

/// 2^x within 1e-7 relative, for NaN NaN. The polynomial is the one of degree 6 with p(0) = 1 whose largest relative
/// error on [0, 1) is smallest, 2.0e-9 (found by reweighted least squares in float64); times_power_of_2() takes
/// floor(x) itself.
[[gnu::always_inline]] inline F32x16 exp2_ps(F32x16 x) {
  const F32x16 r = above_floor(x);
  F32x16 p = splat(0.000216129149f);
  p = mul_add(p, r, splat(0.0012467847f));
  p = mul_add(p, r, splat(0.00967545155f));
  p = mul_add(p, r, splat(0.0554852821f));
  p = mul_add(p, r, splat(0.240229309f));
  p = mul_add(p, r, splat(0.693147063f));
  p = mul_add(p, r, splat(1.0f));
  return times_power_of_2(p, x);
}

/// x * sigmoid(x).
inline F32x16 silu_ps(F32x16 x) {
  const F32x16 negated = floats_of(xor_bits(bits_of(x), splat_bits(0x80000000u)));
  return divide(x, add(splat(1.0f), exp_ps(negated)));
}

/// GELU by tanh, as base/activation.h has it.
inline F32x16 gelu_tanh_ps(F32x16 x) {
  const F32x16 cube = mul(mul(x, x), x);
  const F32x16 minus_twice_u = mul(splat(-1.5957691216057308f), mul_add(splat(0.044715f), cube, x));
  return divide(x, add(splat(1.0f), exp_ps(minus_twice_u)));
}

/// GELU by the normal distribution as in base/math.h, with fused multiply-adds.
inline F32x16 gelu_erf_ps(F32x16 x) {
  const F32x16 one = splat(1.0f), size = floats_of(and_bits(bits_of(x), splat_bits(0x7fffffffu)));
  const F32x16 t = divide(one, mul_add(splat(0.212132037f), size, one));
  F32x16 p = splat(-0.0647611022f);
  p = mul_add(p, t, splat(0.242779955f));
  p = mul_add(p, t, splat(-0.256135732f));
  p = mul_add(p, t, splat(0.273856312f));
  p = mul_add(p, t, splat(-0.0473228544f));
  p = mul_add(p, t, splat(0.107461981f));
  p = mul_add(p, t, splat(0.0741698518f));
  p = mul_add(p, t, splat(0.0853575766f));
  p = mul_add(p, t, splat(0.0845940039f));
  const F32x16 tail = mul(mul(p, t), exp_ps(mul(mul(splat(-0.5f), x), x)));
  return mul(x, select(is_less(x, zeros()), tail, sub(one, tail)));
}

/// tanh as in base/math.h, with fused multiply-adds.
inline F32x16 tanh_ps(F32x16 x) {
  const F32x16 square = mul(x, x), one = splat(1.0f);
  F32x16 p = splat(62.0f / 2835.0f);
  p = mul_add(p, square, splat(-17.0f / 315.0f));
  p = mul_add(p, square, splat(2.0f / 15.0f));
  p = mul_add(p, square, splat(-1.0f / 3.0f));
  const F32x16 series = mul_add(mul(x, square), p, x);
  const F32x16 e = exp_ps(add(x, x));
  const F32x16 quotient = sub(one, divide(splat(2.0f), add(e, one)));
  return select(is_less(square, splat(0.0625f)), series, quotient);
}

/// The vector operations of common/elementwise.h, over 16 values.
struct VectorOps {
  using V = F32x16;
  static V mul(V a, V b) { return QINFER_ISA::mul(a, b); }
  static V mul_add(V a, V b, V c) { return QINFER_ISA::mul_add(a, b, c); }
  static V mul_sub(V a, V b, V c) { return QINFER_ISA::mul_sub(a, b, c); }
  static V silu(V x) { return silu_ps(x); }
  static V gelu_tanh(V x) { return gelu_tanh_ps(x); }
  static V gelu_erf(V x) { return gelu_erf_ps(x); }
  static V tanh(V x) { return tanh_ps(x); }
};

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
