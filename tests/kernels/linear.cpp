// The linear layer of every kernel set: against float64 over all tails, against a scalar model of f16 sums bit for bit,
// the same bits for any number of rows and any slices, and what NaN, infinities and huge values do.
#include "kernels/support.h"
#include "support/skip.h"

namespace qinfer::test {
namespace {

std::vector<float> run_linear(const KernelSet& set, const TestMatrix& w, const std::vector<float>& x, std::int64_t n,
                              std::int64_t ld, int workers, const float* bias = nullptr,
                              const std::vector<float>* before = nullptr, float scale = 1) {
  const std::int64_t outputs = w.view.rows;
  ActivationBuffer in = operand(set, x.data(), n, w.view.cols, ld);
  ActivationBuffer out = before != nullptr ? residual(set, *before, n, outputs) : residual(set, n, outputs);
  LinearArgs args{n, in.view(), {w.view, bias, scale}, before != nullptr, out.view(), {}};
  const Shape shape = linear_shape(n, w.view.cols);
  std::vector<std::byte> memory;
  run_all(set.linear, args, set.linear_workspace(shape), memory, workers);
  return out.rows();
}

void linear_case(const KernelSet& set, DType dtype, std::int64_t n, std::int64_t cols, std::int64_t outputs) {
  Random random(static_cast<unsigned>(n * 1000 + cols + outputs));
  const TestMatrix w = make_matrix(set, random, dtype, outputs, cols);
  const std::int64_t ld = cols + 1;
  const std::vector<float> x = as_activations(set, random.values(static_cast<std::size_t>(n * ld)));
  const std::vector<float> bias = random.values(static_cast<std::size_t>(outputs));
  const std::vector<float> before = random.values(static_cast<std::size_t>(n * outputs));
  const std::vector<float> out = run_linear(set, w, x, n, ld, 3, bias.data(), &before);
  for (std::int64_t m = 0; m < n; ++m)
    for (std::int64_t j = 0; j < outputs; ++j) {
      const Sum sum = dot(x.data() + m * ld, w.values.data() + j * cols, cols);
      const auto at = static_cast<std::size_t>(m * outputs + j);
      const double want = sum.value + bias[static_cast<std::size_t>(j)] + before[at];
      const double bound =
          sum_bound(set, dtype, sum, cols) + 3 * kEps * (std::fabs(want) + std::fabs(before[at]) + sum.magnitude);
      if (std::fabs(out[at] - want) <= bound) continue;
      FAIL(set.name << " " << dtype_name(dtype) << " n " << n << " cols " << cols << " outputs " << outputs << " row "
                    << m << " output " << j << ": got " << out[at] << ", want " << want << " within " << bound);
    }
  // A scale is one more rounding, of sum and bias together, before the old values are added.
  const float scale = 0.22f;
  const std::vector<float> alone = run_linear(set, w, x, n, ld, 2, bias.data());
  const std::vector<float> scaled = run_linear(set, w, x, n, ld, 3, bias.data(), &before, scale);
  for (std::size_t at = 0; at < scaled.size(); ++at) {
    const float product = alone[at] * scale;
    if (scaled[at] != before[at] + product)
      FAIL(set.name << " " << dtype_name(dtype) << " n " << n << " cols " << cols << " outputs " << outputs << " at "
                    << at << ": scaled it is " << scaled[at] << ", want " << before[at] + product);
  }
}

}  // namespace

void test_linear(const KernelSet& set, DType dtype) {
  std::vector<std::int64_t> rows = {63, 64, 65, 500, 512};
  for (std::int64_t n = 1; n <= 40; ++n) rows.push_back(n);
  for (const std::int64_t n : rows) {
    linear_case(set, dtype, n, 144, 70);
    linear_case(set, dtype, n, 65, 33);
  }
  for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 25})
    for (const std::int64_t cols : {1, 2, 15, 16, 17, 31, 33, 63, 64, 127, 128, 129, 300})
      for (const std::int64_t outputs : {1, 31, 32, 64, 97, 128, 160, 199}) linear_case(set, dtype, n, cols, outputs);
}

}  // namespace qinfer::test

namespace {

using namespace qinfer;
using namespace qinfer::test;

/// The f16 nearest to a value that double holds exactly or to within a small part of the rounding's distance.
double to_f16(double value) {
  if (value == 0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - 11, -24));
  return std::nearbyint(value / unit) * unit;
}

/// What F16Sums computes, step by step: activations scaled by a power of two and rounded, runs of 64 products cut at
/// absolute k, each step rounded once, runs added in f32.
float f16_model(const float* x, const float* w, std::int64_t cols, float largest_weight) {
  float largest = 0;
  for (std::int64_t k = 0; k < cols; ++k) largest = std::max(largest, std::fabs(x[k]));
  const int limit = std::min(15, std::ilogb(992.0f / largest_weight));
  const int exponent = largest == 0 ? 0 : limit - 1 - std::ilogb(largest);
  float total = 0;
  for (std::int64_t begin = 0; begin < cols; begin += 64) {
    double run = 0;
    for (std::int64_t k = begin; k < std::min(begin + 64, cols); ++k)
      run = to_f16(run + to_f16(std::ldexp(x[k], exponent)) * w[k]);
    total = begin == 0 ? static_cast<float>(run) : total + static_cast<float>(run);
  }
  return std::ldexp(total, -exponent);
}

/// The set whose products of f16 are summed in f16, if this CPU can run one.
const KernelSet* f16_set() { return emulable_set("avx512_fp16"); }

}  // namespace

TEST_CASE("f16 sums equal their scalar model bit for bit", "[kernels]") {
  const KernelSet* set = f16_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  for (const std::int64_t cols : {1, 63, 64, 65, 200, 1024}) {
    for (const std::int64_t n : {1, 5, 12, 29}) {
      Random random(static_cast<unsigned>(cols + n));
      const TestMatrix w = make_matrix(*set, random, DType::f16, 70, cols);
      std::vector<float> x = random.values(static_cast<std::size_t>(n * cols));
      x[0] *= 1e4f;  // an outlier
      const std::vector<float> out = run_linear(*set, w, x, n, cols, 2);
      double squares = 0, error = 0;
      for (std::int64_t m = 0; m < n; ++m)
        for (std::int64_t j = 0; j < 70; ++j) {
          const float got = out[static_cast<std::size_t>(m * 70 + j)];
          const float want = f16_model(x.data() + m * cols, w.values.data() + j * cols, cols, w.view.pack.largest);
          INFO("cols " << cols << " n " << n << " row " << m << " output " << j);
          REQUIRE(got == want);
          const double exact = dot(x.data() + m * cols, w.values.data() + j * cols, cols).value;
          squares += exact * exact;
          error += (got - exact) * (got - exact);
        }
      INFO("relative error of the whole " << std::sqrt(error / squares));
      // Each of up to 64 roundings of a partial sum errs by 2^-12 of it on average at most: sqrt(64) * 2^-12 = 2e-3.
      CHECK(std::sqrt(error / squares) < 2e-3);
    }
  }
}

TEST_CASE("f16 sums cannot overflow, and scale with their input", "[kernels]") {
  const KernelSet* set = f16_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  const std::int64_t cols = 192;
  for (const float weight : {65504.0f, 1024.0f, 1023.5f, 992.0f, 1.0f, 0x1p-14f, 0x1p-24f}) {
    const TestMatrix w = pack_matrix(*set, std::vector<float>(33 * cols, weight), DType::f16, 33, cols);
    REQUIRE(w.view.pack.largest == weight);
    for (const float value : {1.0f, 1.999f, 0x1p-126f, 0x1p-149f, 3e33f, 1e30f, -7.0f}) {
      const std::vector<float> out = run_linear(*set, w, std::vector<float>(cols, value), 1, cols, 1);
      const double want = static_cast<double>(value) * weight * cols;
      INFO(weight << " x " << value);
      // Equal products: the partial sums lose up to half a unit in the last place each.
      if (std::fabs(want) < 3e38) CHECK(std::fabs(out[32] - want) <= std::fabs(want) * 64 * 0x1p-11 + 0x1p-149);
    }
  }
  const TestMatrix w = pack_matrix(*set, std::vector<float>(32 * 20, 0.5f), DType::f16, 32, 20);
  CHECK(run_linear(*set, w, std::vector<float>(20, 0.0f), 1, 20, 1) == std::vector<float>(32, 0.0f));
}

void qinfer::test::test_linear_invariance(const KernelSet& set) {
  for (const DType dtype : weight_dtypes(set)) {
    Random random(9);
    const std::int64_t cols = 200, outputs = 230, n = 41;
    const TestMatrix w = make_matrix(set, random, dtype, outputs, cols);
    const std::vector<float> x = random.values(static_cast<std::size_t>(n * cols));
    const std::vector<float> all = run_linear(set, w, x, n, cols, 1);
    for (const int workers : {2, 3, 7}) CHECK(run_linear(set, w, x, n, cols, workers) == all);
    for (std::int64_t size = 1; size <= 13; ++size)
      for (std::int64_t first = 0; first + size <= n; first += size) {
        const std::vector<float> part(x.begin() + first * cols, x.begin() + (first + size) * cols);
        const std::vector<float> out = run_linear(set, w, part, size, cols, 2);
        INFO(set.name << " " << dtype_name(dtype) << " rows " << first << " to " << first + size);
        REQUIRE(std::memcmp(out.data(), all.data() + first * outputs, out.size() * sizeof(float)) == 0);
      }
    // Longer sums, which wait in memory while many rows pass.
    for (const auto& [many, k] : {std::pair<std::int64_t, std::int64_t>{41, 544}, {41, 1100}, {530, 2100}}) {
      const TestMatrix v = make_matrix(set, random, dtype, 40, k);
      const std::vector<float> rows = random.values(static_cast<std::size_t>(many * k));
      const std::vector<float> together = run_linear(set, v, rows, many, k, 2);
      for (const std::int64_t size : {1, 17, 32, 33})
        for (const std::int64_t first : {std::int64_t{0}, many - size}) {
          INFO(set.name << " " << dtype_name(dtype) << " " << k << " columns, rows " << first << " to "
                        << first + size);
          const std::vector<float> part(rows.begin() + first * k, rows.begin() + (first + size) * k);
          const std::vector<float> out = run_linear(set, v, part, size, k, 1);
          REQUIRE(std::memcmp(out.data(), together.data() + first * 40, out.size() * sizeof(float)) == 0);
        }
    }
  }
}

TEST_CASE("a row's outputs do not depend on the other rows, the slices or the threads", "[kernels]") {
  for (const std::string& target : usable_targets()) test_linear_invariance(*usable_set(target));
}

TEST_CASE("not a number and infinity pass through linear layers", "[kernels]") {
  for (const KernelSet* set : usable_sets()) {
    for (const DType dtype : weight_dtypes(*set)) {
      for (const float poison : {NAN, INFINITY, -INFINITY}) {
        for (const std::int64_t n : {1, 9, 13}) {
          INFO(set->name << " " << dtype_name(dtype) << " poison " << poison << " rows " << n);
          std::vector<float> weights(3 * 20, 1.0f), x(static_cast<std::size_t>(n * 20), 1.0f);
          x[17] = poison;
          weights[20 + 17] = 0.0f;  // infinity times zero is NaN, not silently zero
          const std::vector<float> out = run_linear(*set, pack_matrix(*set, weights, dtype, 3, 20), x, n, 20, 2);
          CHECK(!std::isfinite(out[0]));
          CHECK(std::isnan(out[1]));
          if (n > 1) CHECK(out[3] == 20);  // other rows stay clean
          // And in a weight.
          weights[40] = poison;
          const std::vector<float> spoiled =
              run_linear(*set, pack_matrix(*set, weights, dtype, 3, 20), std::vector<float>(x.size(), 1.0f), n, 20, 2);
          CHECK(spoiled[0] == 20);
          CHECK(!std::isfinite(spoiled[2]));
        }
      }
    }
  }
}
