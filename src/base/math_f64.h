// Logarithm and exponential in double with fixed results, as math.h has them in float. Not written for speed: the
// sampler needs a few of each for a token.
#pragma once

#include <cmath>
#include <limits>

namespace qinfer {

/// ln(x) for x > 0, with a relative error under 1e-15: x = 2^k m with m between 1/sqrt(2) and sqrt(2), and
/// ln(m) = 2 artanh(s), s = (m - 1) / (m + 1), by the Taylor terms up to s^25 (|s| < 0.1716: the next is under 5e-22 of
/// it). -infinity for 0, infinity for infinity, NaN for NaN and below 0.
inline double log_f64(double x) {
  if (!(x > 0)) return x == 0 ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (x > std::numeric_limits<double>::max()) return x;
  int k = 0;
  double m = std::frexp(x, &k);  // exact, so the same everywhere
  if (m < 0.70710678118654752) m *= 2, --k;
  const double s = (m - 1) / (m + 1), square = s * s;
  double sum = 0;
  for (int n = 25; n >= 3; n -= 2) sum = (sum + 1.0 / n) * square;
  // The first constant has 21 bits less than a double, so that its product with k is exact.
  return k * 0x1.62e42feep-1 + (2 * s + (2 * s * sum + k * 0x1.a39ef35793c76p-33));
}

/// e^x with a relative error under 1e-15 for |x| <= 700; beyond, 0 or infinity from -745 and 710 on, NaN for NaN. The
/// reduction is that of exp_f32, the Taylor terms go up to r^14 (|r| <= ln2/2: the next is under 1e-19).
inline double exp_f64(double x) {
  if (!(x < 710)) return x * std::numeric_limits<double>::infinity();  // NaN stays
  if (x < -745) return 0;
  const double n = std::floor(x * 1.4426950408889634 + 0.5);
  const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  double sum = 1;
  for (int i = 14; i >= 1; --i) sum = 1 + sum * r / i;
  return std::ldexp(sum, static_cast<int>(n));
}

}  // namespace qinfer
