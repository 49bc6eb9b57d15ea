// What encoders add to operations, on every kernel set, against float64: rows of further tables in the embedding,
// LayerNorm with and without a bias whose results may become what was normalised, networks of two matrices, and exact
// GELU. The forms that decoders have are in table.cpp.
#include "kernels/support.h"
#ifdef QINFER_HAVE_AMX
#include "kernels/amx_kernels.h"
#endif

namespace qinfer::test {
namespace {

std::size_t floats(std::int64_t count) { return static_cast<std::size_t>(count); }

void check_added_rows(const KernelSet& set, DType dtype, std::int64_t n, std::int64_t width) {
  Random random(static_cast<unsigned>(n + width));
  const TestMatrix table = make_matrix(set, random, dtype, 11, width, WeightRole::embedding),
                   types = make_matrix(set, random, DType::f32, 2, width, WeightRole::embedding),
                   positions = make_matrix(set, random, dtype, 50, width, WeightRole::embedding);
  std::vector<std::int32_t> tokens, type, position;
  for (std::int64_t m = 0; m < n; ++m) {
    tokens.push_back(random.integer(11));
    type.push_back(m > n / 2 ? 1 : 0);
    position.push_back(static_cast<std::int32_t>(m + 2));
  }
  ActivationBuffer out = residual(set, n, width);
  EmbedArgs args{n,          tokens.data(), table.view,
                 out.view(), 0.5f,          {{type.data(), types.view}, {position.data(), positions.view}}};
  std::vector<std::byte> memory;
  run_all(set.embed, args, {}, memory, 2);
  for (std::int64_t m = 0; m < n; ++m)
    for (std::int64_t i = 0; i < width; ++i) {
      const auto value = [&](const TestMatrix& of, std::int32_t row) { return of.values[floats(row * width + i)]; };
      const float of_token = value(table, tokens[floats(m)]) * 0.5f;
      const float with_type = of_token + value(types, type[floats(m)]);
      INFO(set.name << " " << dtype_name(dtype) << " " << n << " rows of " << width << ", row " << m << " value " << i);
      REQUIRE(out.get(m, i) == with_type + value(positions, position[floats(m)]));
    }
}

struct CentredCase {
  std::int64_t n, width;
  bool bias, replaces, accumulates, gathers, to_rows;
};

void check_centred(const KernelSet& set, const CentredCase& c) {
  Random random(3);
  std::vector<float> x = random.values(floats(c.n * c.width));
  for (float& value : x) value += 1;  // a mean that is not zero
  const std::vector<float> weight = random.values(floats(c.width)), bias = random.values(floats(c.width));
  std::vector<std::int32_t> gather;
  for (std::int64_t m = 0; m < c.n; ++m) gather.push_back(static_cast<std::int32_t>((7 * m + 2) % c.n));
  const ActivationLayout layout = c.to_rows       ? ActivationLayout::row_major
                                  : c.accumulates ? set.layouts.residual_of(c.n)
                                                  : set.layouts.operand_of(c.n);
  ActivationBuffer in = residual(set, x, c.n, c.width), out(layout, c.n, c.width);
  for (std::int64_t m = 0; m < c.n; ++m)
    for (std::int64_t i = 0; i < c.width; ++i) out.set(m, i, 0.5f);
  NormArgs args{
      c.n,           c.width, c.gathers ? gather.data() : nullptr, in.view(), weight.data(), 1e-5f, out.view(),
      c.accumulates, true,    c.bias ? bias.data() : nullptr,      c.replaces};
  std::vector<std::byte> memory;
  run_all(set.norm, args, {}, memory, 2);
  CHECK(out.filled_up());
  for (std::int64_t m = 0; m < c.n; ++m) {
    const float* row = x.data() + (c.gathers ? gather[floats(m)] : m) * c.width;
    double sum = 0, magnitude = 0, squares = 0;
    for (std::int64_t i = 0; i < c.width; ++i) sum += row[i], magnitude += std::fabs(row[i]);
    const auto width = static_cast<double>(c.width);
    const double mean = sum / width;
    for (std::int64_t i = 0; i < c.width; ++i) squares += (row[i] - mean) * (row[i] - mean);
    const double variance = squares / width + 1e-5f, scale = 1 / std::sqrt(variance);
    // The mean errs by depth * eps of the mean magnitude, which moves every difference; and the sum of squares as in
    // RMSNorm, to which the differences' own errors, of sizes up to the magnitude, add.
    const double depth = width / 16 + 10, of_mean = depth * kEps * magnitude / width;
    for (std::int64_t i = 0; i < c.width; ++i) {
      const double start = c.accumulates ? 0.5 : 0, difference = row[i] - mean;
      const double normed = difference * scale * weight[floats(i)];
      const double want = start + normed + (c.bias ? bias[floats(i)] : 0.0f);
      const double relative = depth * kEps + 2 * of_mean * scale;
      double bound = std::fabs(weight[floats(i)]) * scale * (of_mean + kEps * std::fabs(row[i])) +
                     relative * std::fabs(normed) + 4 * kEps * (std::fabs(want) + std::fabs(normed) + start) + 1e-30;
      INFO(set.name << " " << c.n << " rows of " << c.width << (c.bias ? " bias" : "")
                    << (c.replaces ? " replaces" : "") << ", row " << m << " value " << i);
      if (c.replaces) REQUIRE(std::fabs(in.get(m, i) - want) <= bound);
      if (!c.replaces && !c.gathers) REQUIRE(in.get(m, i) == row[i]);
      if (layout == ActivationLayout::bf16_panels) bound += kBf16 * std::fabs(want);
      REQUIRE(std::fabs(out.get(m, i) - want) <= bound);
    }
  }
}

struct TwoMatrices {
  DType inner, outer;
  std::int64_t n, hidden, ffn;
  Activation activation;
};

double activated_by(Activation activation, double x) {
  switch (activation) {
    case Activation::silu: break;
    case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  }
  return x / (1 + std::exp(-x));
}

void check_two_matrices(const KernelSet& set, const TwoMatrices& c) {
  Random random(static_cast<unsigned>(c.n + c.ffn));
  const TestMatrix inner = make_matrix(set, random, c.inner, c.ffn, c.hidden),
                   outer = make_matrix(set, random, c.outer, c.hidden, c.ffn);
  const std::vector<float> bias = random.values(floats(c.ffn)), out_bias = random.values(floats(c.hidden));
  const std::vector<float> x = as_activations(set, random.values(floats(c.n * c.hidden)));
  ActivationBuffer in = operand(set, x.data(), c.n, c.hidden), out = residual(set, c.n, c.hidden, 1.0f);
  FfnArgs args{c.n,          in.view(), {inner.view, bias.data()}, {}, {outer.view, out_bias.data()}, out.view(), {},
               c.activation, true};
  Shape shape = linear_shape(c.n, c.hidden);
  shape.ffn = static_cast<std::uint32_t>(c.ffn);
  std::vector<std::byte> memory;
  run_all(set.ffn, args, set.ffn_workspace(shape), memory, 3);
  const double rounding = rounds_to_bf16(set) ? kBf16 : 0;
  std::vector<double> act(floats(c.ffn)), error(act.size());
  for (std::int64_t m = 0; m < c.n; ++m) {
    for (std::int64_t j = 0; j < c.ffn; ++j) {
      const Sum sum = dot(x.data() + m * c.hidden, inner.values.data() + j * c.hidden, c.hidden);
      const double a = sum.value + bias[floats(j)];
      act[floats(j)] = activated_by(c.activation, a);
      // The slope of all three is at most 1.13; exact GELU errs by 3e-7 of its argument, of the others the exponent is
      // of a number up to 10 where the result is not yet a or zero.
      error[floats(j)] = 1.13 * (sum_bound(set, c.inner, sum, c.hidden) + 2 * kEps * (std::fabs(a) + sum.magnitude)) +
                         40 * kEps * std::fabs(a) + rounding * std::fabs(act[floats(j)]);
    }
    for (std::int64_t i = 0; i < c.hidden; ++i) {
      double want = 1.0 + out_bias[floats(i)], magnitude = 0, allowed = 0;
      for (std::int64_t j = 0; j < c.ffn; ++j) {
        const double w = outer.values[floats(i * c.ffn + j)];
        want += act[floats(j)] * w;
        magnitude += std::fabs(act[floats(j)] * w);
        allowed += error[floats(j)] * std::fabs(w);
      }
      const double bound = allowed + sum_bound(set, c.outer, {0, magnitude}, c.ffn) + 4 * kEps * (2 + std::fabs(want));
      const double got = out.get(m, i);
      if (std::fabs(got - want) <= bound) continue;
      FAIL(set.name << " " << dtype_name(c.inner) << " " << dtype_name(c.outer) << " n " << c.n << " hidden "
                    << c.hidden << " ffn " << c.ffn << " row " << m << " output " << i << ": got " << got << ", want "
                    << want << " within " << bound);
    }
  }
}

void check_encoder_forms(const KernelSet& set) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const std::int64_t width : {1, 5, 144, 300})
      for (const std::int64_t n : {1, 5, 9, 16, 37}) check_added_rows(set, dtype, n, width);
  for (const std::int64_t width : {1, 2, 15, 16, 17, 33, 144, 1024})
    for (const std::int64_t n : {3, 8, 9, 16, 37})
      for (const bool bias : {false, true}) {
        check_centred(set, {n, width, bias, false, false, false, false});
        check_centred(set, {n, width, bias, false, false, false, true});
        check_centred(set, {n, width, bias, false, false, true, false});
        check_centred(set, {n, width, bias, true, false, false, false});
        check_centred(set, {n, width, bias, true, false, false, true});
        if (!bias) check_centred(set, {n, width, bias, false, true, false, false});
      }
  const TwoMatrices sizes[] = {
      {{}, {}, 1, 45, 67, Activation::gelu_erf},    {{}, {}, 2, 45, 67, Activation::gelu_erf},
      {{}, {}, 4, 33, 290, Activation::gelu_erf},   {{}, {}, 9, 45, 67, Activation::silu},
      {{}, {}, 13, 45, 67, Activation::gelu_tanh},  {{}, {}, 40, 45, 290, Activation::gelu_erf},
      {{}, {}, 16, 130, 128, Activation::gelu_erf}, {{}, {}, 3, 1, 1, Activation::gelu_erf},
      {{}, {}, 100, 64, 540, Activation::gelu_erf}};
  for (const DType inner : weight_dtypes(set))
    for (const DType outer : weight_dtypes(set))
      for (TwoMatrices c : sizes) {
        c.inner = inner, c.outer = outer;
        check_two_matrices(set, c);
      }
}

}  // namespace
}  // namespace qinfer::test

using namespace qinfer;
using namespace qinfer::test;

TEST_CASE("the forms of operations that encoders have equal their definition in float64", "[kernels]") {
  for (const KernelSet* set : usable_sets()) check_encoder_forms(*set);
}

#ifdef QINFER_HAVE_AMX
TEST_CASE("AMX: the forms of operations that encoders have equal their definition in float64", "[amx]") {
  SKIP_UNLESS_CPU_HAS(emulated_set() != nullptr, "AVX-512");
  check_encoder_forms(*emulated_set());
}
#endif

TEST_CASE("exact gelu is within 3e-7 of its argument over the whole range", "[kernels]") {
  const auto check = [](double x, double got) {
    const double want = activated_by(Activation::gelu_erf, x);
    if (!(std::fabs(got - want) <= 3e-7 * std::fabs(x) + 0x1p-149)) FAIL("gelu(" << x << ") is " << got);
  };
  for (double x = -20; x < 20; x += 0.00037) check(static_cast<float>(x), gelu_erf_f32(static_cast<float>(x)));
  for (double x = 1e-40; x < 1e38; x *= 1.37) {
    check(static_cast<float>(x), gelu_erf_f32(static_cast<float>(x)));
    check(-static_cast<float>(x), gelu_erf_f32(-static_cast<float>(x)));
  }
  CHECK(gelu_erf_f32(INFINITY) == INFINITY);
  CHECK(std::isnan(gelu_erf_f32(NAN)));
  // The two kinds of GELU differ by up to 4.7e-4 (here by 2.7e-4): a set that takes one for the other is told.
  CHECK(std::fabs(gelu_erf_f32(2.2f) - gelu_tanh_f32(2.2f)) > 2e-4);
}
