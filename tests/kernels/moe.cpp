// Mixtures of experts: every kernel set against float64 over all tails, what torch.topk chooses among equal values, the
// same bits whatever else is in the batch, and what is not finite.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "common/routes.h"
#include "kernels/support.h"
#include "support/skip.h"

namespace qinfer::test {
namespace {

struct MoeCase {
  std::int64_t n = 0, hidden = 0, width = 0, shared = 0;
  std::uint32_t experts = 0, top_k = 0;
  bool normalise = true, accumulate = true;
  float scale = 1;
  bool biased() const { return n % 3 != 0; }
  Activation activation() const { return n % 2 == 0 ? Activation::silu : Activation::gelu_tanh; }
};

/// Types of the matrices of a network.
struct MoeTypes {
  DType gate, up, down;
  /// What says how gate and up are summed: in f32 where they differ.
  DType of_inner() const { return gate == up ? gate : DType::f32; }
};
MoeTypes all_of(DType dtype) { return {dtype, dtype, dtype}; }

struct Network {
  TestMatrix gate, up, down;
  std::vector<float> gate_bias, up_bias, down_bias;
};

/// Of the layers of every network, where they have biases.
constexpr float kGateScale = 0.75f, kUpScale = 1.25f, kDownScale = 0.5f;

/// A mixture with random weights, and what one run of it gave.
class Mixture {
 public:
  Mixture(const KernelSet& set, const MoeTypes& types, const MoeCase& c, unsigned seed)
      : set_(set), c_(c), random_(seed) {
    const DType of_router = router_type(types.gate);
    router_ = matrix(of_router, c.experts, c.hidden, WeightRole::router);
    for (std::uint32_t e = 0; e < c.experts; ++e) networks_.push_back(network(types, c.width));
    if (c.shared != 0) {
      networks_.push_back(network(types, c.shared));
      shared_router_ = matrix(of_router, 1, c.hidden, WeightRole::router);
    }
    router_bias_ = random_.values(c.experts);
    x_ = as_activations(set, random_.values(static_cast<std::size_t>(c.n * c.hidden)));
    before_ = random_.values(static_cast<std::size_t>(c.n * c.hidden));
  }

  /// Rows [first, first + n) of the batch alone.
  std::vector<float> run(int workers, std::int64_t first, std::int64_t n) {
    const std::vector<float> x(x_.begin() + first * c_.hidden, x_.begin() + (first + n) * c_.hidden);
    const std::vector<float> before(before_.begin() + first * c_.hidden, before_.begin() + (first + n) * c_.hidden);
    ActivationBuffer in = operand(set_, x.data(), n, c_.hidden);
    ActivationBuffer out = c_.accumulate ? residual(set_, before, n, c_.hidden) : residual(set_, n, c_.hidden);
    std::vector<Linear> gates, ups, downs;
    for (const Network& network : networks_) {
      gates.push_back(layer(network.gate, network.gate_bias, kGateScale));
      ups.push_back(layer(network.up, network.up_bias, kUpScale));
      downs.push_back(layer(network.down, network.down_bias, kDownScale));
    }
    MoeArgs args;
    args.n = n, args.x = in.view(), args.out = out.view();
    args.router = {router_.view, c_.biased() ? router_bias_.data() : nullptr};
    args.gate = gates.data(), args.up = ups.data(), args.down = downs.data();
    args.experts = c_.experts, args.top_k = c_.top_k;
    if (c_.shared != 0) {
      args.shared_router = shared_router_.view;
      args.shared_gate = gates.back(), args.shared_up = ups.back(), args.shared_down = downs.back();
    }
    args.normalise = c_.normalise, args.accumulate = c_.accumulate, args.scale = c_.scale;
    args.activation = c_.activation();
    usage_.assign(c_.experts, 0);
    args.usage = usage_.data();
    Shape shape;
    shape.batch = static_cast<std::uint32_t>(n), shape.hidden = static_cast<std::uint32_t>(c_.hidden);
    shape.experts = c_.experts, shape.top_k = c_.top_k;
    shape.expert_width = static_cast<std::uint32_t>(c_.width);
    shape.shared_width = static_cast<std::uint32_t>(c_.shared);
    const MoeWorkspace size = set_.moe_workspace(shape);
    buffers_.assign(size.routes + size.gathered + size.inner + 256, std::byte{0xff});
    std::byte* at = buffers_.data() + (64 - reinterpret_cast<std::uintptr_t>(buffers_.data()) % 64) % 64;
    args.buffers = {at, at + size.routes, at + size.routes + size.gathered};
    std::vector<std::byte> memory;
    run_all(set_.moe_ffn, args, {0, size.per_worker}, memory, workers);
    const Routes routes(args);
    logits_.assign(routes.logits, routes.logits + n * routes.ld);
    chosen_.assign(routes.chosen, routes.chosen + n * c_.top_k);
    weights_.assign(routes.weights, routes.weights + n * c_.top_k);
    return out.rows();
  }

  std::vector<float>& x() { return x_; }
  TestMatrix& router() { return router_; }
  Network& network(std::size_t i) { return networks_[i]; }
  const std::vector<std::int32_t>& chosen() const { return chosen_; }

  /// Compares a run of all rows with float64.
  void check(const std::vector<float>& out, const MoeTypes& types) const {
    for (std::int64_t m = 0; m < c_.n; ++m) {
      check_logits(m, types.gate);
      check_choice(m);
      check_row(out, m, types);
    }
    std::vector<std::uint64_t> counts(c_.experts);
    for (const std::int32_t e : chosen_) ++counts[static_cast<std::size_t>(e)];
    CHECK(usage_ == counts);
  }

 private:
  DType router_type(DType dtype) const {
    WeightFormat format;
    const Encoding wanted = encoding_of(dtype);
    set_.weight_format(WeightRole::router, wanted, &wanted, false, format);
    return element_type(format.encoding);
  }

  TestMatrix matrix(DType dtype, std::int64_t rows, std::int64_t cols, WeightRole role) {
    TestMatrix m;
    m.values = random_.values(static_cast<std::size_t>(rows * cols));
    for (float& v : m.values) {
      v *= role == WeightRole::router ? 0.1f : 0.3f;
      if (dtype == DType::f16) v = f16_to_f32(f32_to_f16(v));
      if (dtype == DType::bf16) v = bf16_to_f32(f32_to_bf16(v));
    }
    const Matrix source{
        reinterpret_cast<const std::byte*>(m.values.data()), {Encoding::f32, WeightLayout::row_major}, rows, cols, {}};
    const Encoding encoding = encoding_of(dtype);
    WeightFormat format;
    REQUIRE(set_.weight_format(role, encoding, &encoding, false, format));
    m.bytes.resize(weight_bytes(format, rows, cols) + 2, std::byte{0xff});
    std::byte* at = m.bytes.data() + (dtype == DType::f32 ? 0 : 2);
    const float largest = set_.pack(source, format, {}, at, 0, rows);
    m.view = {at, format, rows, cols, {1, largest}};
    return m;
  }

  Linear layer(const TestMatrix& matrix, const std::vector<float>& bias, float scale) const {
    return c_.biased() ? Linear(matrix.view, bias.data(), scale) : Linear(matrix.view);
  }

  Network network(const MoeTypes& types, std::int64_t width) {
    Network out;
    out.gate = matrix(types.gate, width, c_.hidden, WeightRole::gate);
    out.up = matrix(types.up, width, c_.hidden, WeightRole::up);
    out.down = matrix(types.down, c_.hidden, width, WeightRole::down);
    out.gate_bias = random_.values(static_cast<std::size_t>(width));
    out.up_bias = random_.values(static_cast<std::size_t>(width));
    out.down_bias = random_.values(static_cast<std::size_t>(c_.hidden));
    return out;
  }

  std::int64_t ld() const { return c_.experts + (c_.shared != 0 ? 1 : 0); }
  std::string where(std::int64_t m) const {
    return fmt::format("{} n {} hidden {} width {} shared {} experts {} top {} row {}", set_.name, c_.n, c_.hidden,
                       c_.width, c_.shared, c_.experts, c_.top_k, m);
  }

  void check_logits(std::int64_t m, DType dtype) const {
    const float* x = x_.data() + m * c_.hidden;
    for (std::int64_t e = 0; e < ld(); ++e) {
      const TestMatrix& w = e < c_.experts ? router_ : shared_router_;
      const std::int64_t row = e < c_.experts ? e : 0;
      Sum sum = dot(x, w.values.data() + row * c_.hidden, c_.hidden);
      if (c_.biased() && e < c_.experts) add_bias(sum, router_bias_[static_cast<std::size_t>(e)], 1);
      const double got = logits_[static_cast<std::size_t>(m * ld() + e)];
      // Routers are summed in f32 whatever the set does with other matrices of this type.
      const double bound = sum_bound(set_, uses_tiles(set_.name) ? dtype : DType::f32, sum, c_.hidden);
      if (std::fabs(got - sum.value) > bound)
        FAIL(where(m) << ": logit " << e << " is " << got << ", want " << sum.value << " within " << bound);
    }
  }

  /// The experts of a row are those with the largest logits, and their weights the softmax of the logits there are.
  void check_choice(std::int64_t m) const {
    const float* logits = logits_.data() + m * ld();
    std::vector<std::int32_t> order(c_.experts);
    for (std::uint32_t e = 0; e < c_.experts; ++e) order[e] = static_cast<std::int32_t>(e);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return logits[a] > logits[b]; });
    std::vector<std::int32_t> want(order.begin(), order.begin() + c_.top_k);
    std::sort(want.begin(), want.end());
    const auto first = static_cast<std::ptrdiff_t>(m * c_.top_k);
    INFO(where(m));
    REQUIRE(std::vector<std::int32_t>(chosen_.begin() + first, chosen_.begin() + first + c_.top_k) == want);
    double all = 0, of_chosen = 0;
    const double largest = logits[order[0]];
    for (std::uint32_t e = 0; e < c_.experts; ++e) all += std::exp(logits[e] - largest);
    for (const std::int32_t e : want) of_chosen += std::exp(logits[e] - largest);
    for (std::uint32_t i = 0; i < c_.top_k; ++i) {
      const double exact = std::exp(logits[want[i]] - largest) / (c_.normalise ? of_chosen : all);
      CHECK(std::fabs(weight(m, i) - exact) <= weight_error(m, want[i]) * exact);
    }
  }

  static void add_bias(Sum& sum, float bias, float scale) {
    sum.value = (sum.value + bias) * scale;
    sum.magnitude = (sum.magnitude + std::fabs(bias)) * scale;
  }

  double weight(std::int64_t m, std::size_t i) const { return weights_[static_cast<std::size_t>(m * c_.top_k) + i]; }
  /// Of e^x (two units), of its argument, and of sums of all.
  double weight_error(std::int64_t m, std::int32_t e) const {
    const float* logits = logits_.data() + m * ld();
    const double spread = *std::max_element(logits, logits + c_.experts) - logits[e];
    return (2 * spread + 12 + c_.experts) * kEps;
  }

  void check_row(const std::vector<float>& out, std::int64_t m, const MoeTypes& types) const {
    std::vector<double> want(static_cast<std::size_t>(c_.hidden)), bound(want.size()), size(want.size());
    for (std::uint32_t i = 0; i < c_.top_k; ++i) {
      const std::int32_t e = chosen_[static_cast<std::size_t>(m * c_.top_k) + i];
      add_network(networks_[static_cast<std::size_t>(e)], c_.width, m, weight(m, i), types, want, bound, size);
    }
    if (c_.shared != 0) {
      const double logit = logits_[static_cast<std::size_t>(m * ld() + c_.experts)];
      add_network(networks_.back(), c_.shared, m, 1 / (1 + std::exp(-logit)), types, want, bound, size);
    }
    for (std::size_t j = 0; j < want.size(); ++j) {
      const auto at = static_cast<std::size_t>(m * c_.hidden) + j;
      const double before = c_.accumulate ? before_[at] : 0;
      const double exact = before + want[j];
      // Each slot is one more addition.
      const double allowed = bound[j] + (c_.top_k + 3) * kEps * (std::fabs(before) + size[j]);
      if (std::fabs(out[at] - exact) <= allowed) continue;
      FAIL(where(m) << " output " << j << ": got " << out[at] << ", want " << exact << " within " << allowed);
    }
  }

  /// Adds weight * network(row m) * scale, and how far off it may be.
  void add_network(const Network& w, std::int64_t width, std::int64_t m, double weight, const MoeTypes& types,
                   std::vector<double>& want, std::vector<double>& bound, std::vector<double>& size) const {
    const float* x = x_.data() + m * c_.hidden;
    std::vector<double> act(static_cast<std::size_t>(width)), error(act.size());
    for (std::int64_t j = 0; j < width; ++j) {
      const auto at = static_cast<std::size_t>(j);
      Sum g = dot(x, w.gate.values.data() + j * c_.hidden, c_.hidden);
      Sum u = dot(x, w.up.values.data() + j * c_.hidden, c_.hidden);
      if (c_.biased()) add_bias(g, w.gate_bias[at], kGateScale), add_bias(u, w.up_bias[at], kUpScale);
      const double a = g.value, b = u.value;
      const double cubic = std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a);
      const bool silu = c_.activation() == Activation::silu;
      act[at] = silu ? a / (1 + std::exp(-a)) * b : 0.5 * a * (1 + std::tanh(cubic)) * b;
      // As in the test of the feed-forward network.
      error[at] = (silu ? 0 : 40 * kEps * std::fabs(a * b)) +
                  1.13 * sum_bound(set_, types.of_inner(), g, c_.hidden) * std::fabs(b) +
                  sum_bound(set_, types.of_inner(), u, c_.hidden) * std::fabs(a) + 16 * kEps * std::fabs(act[at]) +
                  (rounds_to_bf16(set_) ? kBf16 * std::fabs(act[at]) : 0) +
                  4 * kEps * (std::fabs(a) * u.magnitude + g.magnitude * std::fabs(b));
    }
    for (std::size_t i = 0; i < want.size(); ++i) {
      Sum sum;
      double carried = 0;
      const float* row = w.down.values.data() + i * static_cast<std::size_t>(width);
      for (std::size_t j = 0; j < act.size(); ++j) {
        sum.value += act[j] * row[j];
        sum.magnitude += std::fabs(act[j] * row[j]);
        carried += error[j] * std::fabs(row[j]);
      }
      if (c_.biased()) add_bias(sum, w.down_bias[i], kDownScale), carried *= kDownScale;
      const double factor = weight * c_.scale;
      want[i] += factor * sum.value;
      size[i] += factor * sum.magnitude;
      bound[i] += factor * (carried + sum_bound(set_, types.down, sum, width) +
                            (c_.top_k + 12 + c_.experts) * kEps * sum.magnitude);
    }
  }

  const KernelSet& set_;
  MoeCase c_;
  Random random_;
  TestMatrix router_, shared_router_;
  std::vector<Network> networks_;
  std::vector<float> router_bias_, x_, before_, logits_, weights_;
  std::vector<std::int32_t> chosen_;
  std::vector<std::uint64_t> usage_;
  std::vector<std::byte> buffers_;
};

}  // namespace

void test_moe_ffn(const KernelSet& set, DType dtype) {
  std::vector<MoeCase> cases = {
      {.n = 1, .hidden = 65, .width = 33, .experts = 1, .top_k = 1},
      {.n = 1, .hidden = 144, .width = 70, .experts = 8, .top_k = 8},
      {.n = 2, .hidden = 65, .width = 33, .shared = 50, .experts = 3, .top_k = 2, .normalise = false},
      {.n = 5, .hidden = 33, .width = 97, .experts = 40, .top_k = 3},
      {.n = 9, .hidden = 144, .width = 70, .shared = 31, .experts = 6, .top_k = 2},
      {.n = 12, .hidden = 65, .width = 32, .shared = 64, .experts = 4, .top_k = 1, .normalise = false},
      {.n = 13, .hidden = 64, .width = 64, .experts = 5, .top_k = 5},
      {.n = 17, .hidden = 40, .width = 33, .experts = 70, .top_k = 2},
      {.n = 33, .hidden = 65, .width = 70, .experts = 2, .top_k = 1},
      {.n = 40, .hidden = 97, .width = 31, .shared = 130, .experts = 7, .top_k = 3},
      {.n = 70, .hidden = 65, .width = 33, .experts = 3, .top_k = 2},
      {.n = 100, .hidden = 33, .width = 40, .shared = 33, .experts = 1, .top_k = 1},
      {.n = 24, .hidden = 65, .width = 33, .experts = 4, .top_k = 2, .accumulate = false},
      {.n = 3,
       .hidden = 65,
       .width = 33,
       .shared = 20,
       .experts = 4,
       .top_k = 2,
       .normalise = false,
       .accumulate = false,
       .scale = 0.3f}};
  for (std::int64_t n = 4; n < 24; ++n)
    cases.push_back({.n = n, .hidden = 48, .width = 35, .shared = n % 3 == 0 ? 21 : 0, .experts = 6, .top_k = 2});
  unsigned seed = 1;
  for (const MoeCase& c : cases) {
    Mixture mixture(set, all_of(dtype), c, seed++);
    mixture.check(mixture.run(3, 0, c.n), all_of(dtype));
  }
  // Each matrix may have a type of its own.
  for (const DType up : weight_dtypes(set))
    for (const DType down : weight_dtypes(set))
      for (const std::int64_t n : {2, 13}) {
        Mixture mixture(set, {dtype, up, down}, {n, 45, 70, 33, 4, 2}, seed++);
        mixture.check(mixture.run(3, 0, n), {dtype, up, down});
      }
}

void test_moe_invariance(const KernelSet& set) {
  for (const DType dtype : weight_dtypes(set)) {
    const MoeCase c{.n = 41, .hidden = 65, .width = 70, .shared = 33, .experts = 9, .top_k = 2};
    Mixture mixture(set, all_of(dtype), c, 5);
    const std::vector<float> all = mixture.run(1, 0, c.n);
    for (const int workers : {2, 3, 7}) CHECK(mixture.run(workers, 0, c.n) == all);
    for (const std::int64_t size : {1, 2, 3, 5, 8, 9, 13, 20})
      for (std::int64_t first = 0; first + size <= c.n; first += size) {
        const std::vector<float> out = mixture.run(2, first, size);
        INFO(set.name << " " << dtype_name(dtype) << " rows " << first << " to " << first + size);
        REQUIRE(std::memcmp(out.data(), all.data() + first * c.hidden, out.size() * sizeof(float)) == 0);
      }
  }
}

namespace {

bool all_nan(const std::vector<float>& out, std::int64_t row, std::int64_t width) {
  return std::all_of(out.begin() + row * width, out.begin() + (row + 1) * width, [](float v) { return std::isnan(v); });
}

bool same_row(const std::vector<float>& a, const std::vector<float>& b, std::int64_t row, std::int64_t width) {
  return std::memcmp(a.data() + row * width, b.data() + row * width, static_cast<std::size_t>(width) * 4) == 0;
}

}  // namespace

void test_moe_not_finite(const KernelSet& set) {
  for (const std::int64_t n : {1, 3, 9, 30}) {
    const DType dtype = weight_dtypes(set).front();
    const MoeCase c{.n = n, .hidden = 65, .width = 33, .shared = n == 9 ? 20 : 0, .experts = 6, .top_k = 2};
    for (const float poison : {NAN, INFINITY, -INFINITY}) {
      Mixture mixture(set, all_of(dtype), c, 8);
      const std::vector<float> before = mixture.run(2, 0, n);
      const std::int64_t bad = n / 2;
      mixture.x()[static_cast<std::size_t>(bad * c.hidden + 7)] = poison;
      const std::vector<float> out = mixture.run(2, 0, n);
      for (std::int64_t m = 0; m < n; ++m) {
        INFO(set.name << " n " << n << " row " << m << " value " << poison);
        CHECK((m == bad ? all_nan(out, m, c.hidden) : same_row(out, before, m, c.hidden)));
      }
    }
    // In the weights of one expert it reaches the rows that chose the expert, and no other.
    Mixture mixture(set, all_of(dtype), c, 8);
    const std::vector<float> before = mixture.run(2, 0, n);
    const std::int32_t bad = mixture.chosen().front();
    TestMatrix& up = mixture.network(static_cast<std::size_t>(bad)).up;
    std::memset(const_cast<std::byte*>(up.view.data), 0xff, up.bytes.size() - 2);
    const std::vector<float> out = mixture.run(2, 0, n);
    for (std::int64_t m = 0; m < n; ++m) {
      INFO(set.name << " n " << n << " row " << m << " expert " << bad);
      const auto first = mixture.chosen().begin() + m * c.top_k;
      const bool reached = std::find(first, first + c.top_k, bad) != first + c.top_k;
      CHECK((reached ? all_nan(out, m, c.hidden) : same_row(out, before, m, c.hidden)));
    }
  }
}

}  // namespace qinfer::test

using namespace qinfer;
using namespace qinfer::test;

TEST_CASE("a row's experts do not depend on the other rows, the slices or the threads", "[kernels]") {
  for (const std::string& target : usable_targets()) test_moe_invariance(*usable_set(target));
}

TEST_CASE("what is not finite reaches its own rows of a mixture alone", "[kernels]") {
  for (const KernelSet* set : usable_sets()) test_moe_not_finite(*set);
}

TEST_CASE("of equal probabilities those are chosen that torch.topk chooses", "[kernels]") {
  std::ifstream file(QINFER_TEST_FIXTURES "/topk_ties.json");
  const nlohmann::json cases = nlohmann::json::parse(file)["cases"];
  REQUIRE(cases.size() > 100);
  std::size_t compared = 0;
  for (const nlohmann::json& item : cases) {
    const auto values = item["values"].get<std::vector<float>>();
    const auto n = static_cast<std::int32_t>(values.size());
    std::vector<std::byte> scratch(choice_bytes(static_cast<std::uint32_t>(n)));
    for (const nlohmann::json& set : item["chosen"]) {
      const auto want = set.get<std::vector<std::int32_t>>();
      std::vector<std::int32_t> chosen(want.size());
      choose_largest(values.data(), n, static_cast<std::int32_t>(want.size()), scratch.data(), chosen.data());
      INFO(n << " values, top " << want.size() << ": " << item["values"].dump());
      CHECK(chosen == want);
      ++compared;
    }
  }
  CHECK(compared > 500);
}
