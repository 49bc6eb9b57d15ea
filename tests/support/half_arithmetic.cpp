// See half_arithmetic.h.
#include "support/half_arithmetic.h"

#include <cmath>
#include <cstring>

namespace qinfer::test::emulator {
namespace {

double f16_value(std::uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  double value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction | 1024, exponent - 25);
  if (exponent == 31) value = fraction != 0 ? std::nan("") : HUGE_VAL;
  return (half & 0x8000) != 0 ? -value : value;
}

/// a + b in f64, rounded to odd: what is rounded to fewer bits afterwards is as if rounded once (Boldo and Melquiond
/// 2008). Both are finite.
double sum_to_odd(double a, double b) {
  volatile double sum = a + b, b_part = sum - a, error = (a - (sum - b_part)) + (b - b_part);  // Knuth's two-sum
  const double found = sum;
  std::uint64_t bits = 0;
  std::memcpy(&bits, &found, 8);
  if (error == 0 || (bits & 1) != 0) return found;
  return std::nextafter(found, error > 0 ? HUGE_VAL : -HUGE_VAL);
}

/// To nearest, ties to even.
std::uint16_t to_f16(double x) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
  const double magnitude = std::fabs(x);
  if (std::isnan(x)) return 0x7e00;
  if (magnitude == 0) return sign;
  if (magnitude >= 65520) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int lowest = exponent - 11 < -24 ? -24 : exponent - 11;  // the place of the last bit
  const double scaled = std::ldexp(magnitude, -lowest);          // below 2^11, exact
  double whole = std::floor(scaled);
  const double rest = scaled - whole;
  if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) != 0)) whole += 1;
  // Units of 2^-24 below 1024 are denormals; a carry into the next exponent comes out right by itself.
  return static_cast<std::uint16_t>(sign | (static_cast<unsigned>(lowest + 24) * 1024 + static_cast<unsigned>(whole)));
}

}  // namespace

std::uint16_t fma_f16(std::uint16_t a, std::uint16_t b, std::uint16_t c) {
  const double product = f16_value(a) * f16_value(b), summand = f16_value(c);  // 22 bits: exact
  if (!std::isfinite(product) || !std::isfinite(summand)) return to_f16(product + summand);
  return to_f16(sum_to_odd(product, summand));
}

std::uint16_t add_f16(std::uint16_t a, std::uint16_t b) { return fma_f16(a, 0x3c00, b); }

std::uint16_t i16_to_f16(std::int16_t x) { return to_f16(x); }

}  // namespace qinfer::test::emulator
