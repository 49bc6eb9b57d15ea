// The scalar functions of base/: exp, silu and the 16-bit conversions.
#include <cmath>

#include "base/dtype.h"
#include "base/math.h"
#include "support/catch.h"

using namespace qinfer;

TEST_CASE("exp_f32 is within 2e-7 for every exponent range", "[kernels]") {
  double worst = 0;
  for (double x = -87.3; x < 88.7; x += 0.00037) {
    const float f = static_cast<float>(x);
    const double want = std::exp(static_cast<double>(f));
    worst = std::max(worst, std::fabs(exp_f32(f) - want) / want);
  }
  CHECK(worst < 2e-7);
  double worst_subnormal = 0;  // in units of 2^-149, the smallest subnormal
  for (double x = -104; x < -87.34; x += 0.0037) {
    const float f = static_cast<float>(x);
    const double want = std::exp(static_cast<double>(f));
    worst_subnormal = std::max(worst_subnormal, (std::fabs(exp_f32(f) - want) - 2e-7 * want) * 0x1p149);
  }
  CHECK(worst_subnormal <= 0.501);  // one rounding to a subnormal on top of the relative error
  CHECK(exp_f32(0.0f) == 1.0f);
  CHECK(exp_f32(-INFINITY) == 0.0f);
  CHECK(exp_f32(-200.0f) == 0.0f);
  CHECK(exp_f32(INFINITY) == INFINITY);
  CHECK(exp_f32(90.0f) == INFINITY);
  CHECK(std::isnan(exp_f32(NAN)));
  CHECK(silu_f32(-100.0f) == 0.0f);
  CHECK(silu_f32(100.0f) == 100.0f);
}

TEST_CASE("tanh and GELU are within their stated errors for every float", "[kernels]") {
  double worst = 0, worst_relative = 0, worst_gelu = 0;
  for (double x = -20; x < 20; x += 0.00037) {
    const float f = static_cast<float>(x);
    const double want = std::tanh(static_cast<double>(f)), error = std::fabs(tanh_f32(f) - want);
    worst = std::max(worst, error);
    if (std::fabs(f) < 0.25) worst_relative = std::max(worst_relative, error / std::fabs(want));
    const double u = std::sqrt(2 / M_PI) * (f + 0.044715 * std::pow(static_cast<double>(f), 3));
    const double gelu = 0.5 * f * (1 + std::tanh(u));
    // exp(-2u) with its own 2e-7 and with the rounding of u, which is 2^-22 of it after four operations.
    worst_gelu = std::max(
        worst_gelu, (std::fabs(gelu_tanh_f32(f) - gelu) - 1e-12) / ((1 + std::fabs(u)) * std::fabs(gelu) + 1e-30));
  }
  CHECK(worst < 2e-7);
  CHECK(worst_relative < 2e-7);
  CHECK(worst_gelu < 1e-6);
  CHECK(tanh_f32(1e-30f) == 1e-30f);
  CHECK(tanh_f32(INFINITY) == 1.0f);
  CHECK(tanh_f32(-INFINITY) == -1.0f);
  CHECK(std::isnan(tanh_f32(NAN)));
  CHECK(gelu_tanh_f32(1e30f) == 1e30f);
  CHECK(gelu_tanh_f32(-1e30f) == 0.0f);
  CHECK(gelu_tanh_f32(INFINITY) == INFINITY);
  CHECK(std::isnan(gelu_tanh_f32(NAN)));
}

TEST_CASE("16-bit conversions are exact and round to nearest even", "[kernels]") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto h = static_cast<std::uint16_t>(bits);
    const float f = f16_to_f32(h);
    const int exponent = (h >> 10) & 31, fraction = h & 1023;
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) {
      REQUIRE((fraction == 0 ? std::isinf(f) : std::isnan(f)));
    } else {
      REQUIRE(f == ((h & 0x8000) != 0 ? -magnitude : magnitude));
      REQUIRE(f32_to_f16(f) == h);
      const float above = std::nextafter(f, INFINITY * (h & 0x8000 ? -1.0f : 1.0f));
      if (f != 0) REQUIRE(f32_to_f16(above) == h);
    }
    const float b = bf16_to_f32(h);
    if (!std::isnan(b)) REQUIRE(f32_to_bf16(b) == h);
    if (std::isnan(b)) REQUIRE(std::isnan(bf16_to_f32(f32_to_bf16(b))));
  }
  CHECK(f32_to_f16(65519.0f) == 0x7bff);
  CHECK(f32_to_f16(65520.0f) == 0x7c00);
  CHECK(f32_to_f16(0x1p-25f) == 0);  // a tie to even zero
  CHECK(f32_to_f16(0x1.8p-25f) == 1);
  CHECK(f32_to_bf16(bf16_to_f32(0x3f80) + 0x1p-8f) == 0x3f80);  // ties to even
  CHECK(std::isnan(f16_to_f32(f32_to_f16(NAN))));
}
