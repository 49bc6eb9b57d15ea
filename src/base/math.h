// Elementary functions with fixed results: the C library's differ between versions and CPUs in the last bit, and
// qinfer promises the same answer every time. Written so that loops over them vectorise.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace qinfer {

/// e^x with a relative error under 2e-7 (one ulp and a half), for every float: 0 below -104, infinity above 88.73, NaN
/// for NaN. Cody-Waite reduction in two constants and a degree-7 polynomial (the Taylor terms of e^r, |r| <= ln2/2,
/// truncation under 8e-9), scaled in two steps so that subnormal results come out right.
inline float exp_f32(float x) {
  const float clamped = x < -105.0f ? -105.0f : (x > 89.0f ? 89.0f : x);  // NaN passes both comparisons
  const float magic = 12582912.0f;                                        // 1.5 * 2^23: adding it rounds to integer
  const float shifted = clamped * 1.44269504088896341f + magic;
  const float n = shifted - magic;
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  const std::int32_t whole = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - 0x4B400000u);
  const std::int32_t half = whole >> 1;
  const std::int32_t rest = whole - half;
  const float scale_a = std::bit_cast<float>(static_cast<std::uint32_t>(half + 127) << 23);
  const float scale_b = std::bit_cast<float>(static_cast<std::uint32_t>(rest + 127) << 23);
  const float result = p * scale_a * scale_b;
  return x != x ? x : result;
}

/// x * sigmoid(x); exact zero times sign for large negative x, x for large positive x.
inline float silu_f32(float x) { return x / (1.0f + exp_f32(-x)); }

/// GELU by tanh, as base/activation.h has it. The cube may overflow, to the right side.
inline float gelu_tanh_f32(float x) {
  const float twice_u = 1.5957691216057308f * (x + 0.044715f * x * x * x);
  return x / (1.0f + exp_f32(-twice_u));
}

/// GELU by the normal distribution, with an error under 3e-7 of |x|: P(X <= -a) = t q(t) e^(-a^2 / 2) for a >= 0 and
/// t = 1 / (1 + 0.3 a / sqrt(2)), where q is the polynomial of degree 8 whose largest relative error is smallest,
/// 2.0e-8 (found by reweighted least squares in float64).
inline float gelu_erf_f32(float x) {
  const float t = 1.0f / (1.0f + 0.212132037f * (x < 0 ? -x : x));
  float p = -0.0647611022f;
  p = p * t + 0.242779955f;
  p = p * t - 0.256135732f;
  p = p * t + 0.273856312f;
  p = p * t - 0.0473228544f;
  p = p * t + 0.107461981f;
  p = p * t + 0.0741698518f;
  p = p * t + 0.0853575766f;
  p = p * t + 0.0845940039f;
  const float tail = p * t * exp_f32(-0.5f * x * x);
  return x < 0 ? x * tail : x * (1.0f - tail);
}

/// tanh(x) with an absolute error under 2e-7 and, near zero, a relative one under 2e-7: the Taylor terms up to x^9
/// below 1/4 (the next is under 3e-9 of x), and 1 - 2 / (e^2x + 1) above.
inline float tanh_f32(float x) {
  const float square = x * x;
  float p = 62.0f / 2835.0f;
  p = p * square - 17.0f / 315.0f;
  p = p * square + 2.0f / 15.0f;
  p = p * square - 1.0f / 3.0f;
  const float series = x + x * square * p;
  const float quotient = 1.0f - 2.0f / (exp_f32(2.0f * x) + 1.0f);
  return square < 0.0625f ? series : quotient;
}

}  // namespace qinfer
