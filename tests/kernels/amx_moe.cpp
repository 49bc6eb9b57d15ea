// Mixtures of experts on the AMX backend, every operand between pages that cannot be read: against float64 with all
// tails, what is read and how often, the same bits in any batch and any slices, and what is not finite.
#ifdef QINFER_HAVE_AMX
#include <fmt/format.h>

#include <memory>
#include <set>

#include "common/routes.h"
#include "kernels/amx_kernels.h"

namespace {

using namespace qinfer;
using namespace qinfer::test;

struct MoeShape {
  std::int64_t n, hidden, width, shared;  // shared: width of the shared network, 0 where there is none
  std::uint32_t experts, top_k;
  bool normalise = true, accumulate = true;
  float scale = 1;
};

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

/// A bf16 matrix at the end of memory, and its values.
struct Weights {
  std::vector<float> values;
  std::unique_ptr<Guarded> memory;
  Matrix view;

  Weights() = default;
  Weights(Random& random, float size, std::int64_t rows, std::int64_t cols)
      : values(random.values(static_cast<std::size_t>(rows * cols))),
        memory(std::make_unique<Guarded>(values.size() * 2)),
        view{memory->data(), {Encoding::bf16, WeightLayout::row_major}, rows, cols, {}} {
    for (std::size_t i = 0; i < values.size(); ++i) put(i, size * values[i]);
  }
  void put(std::size_t i, float value) {
    const std::uint16_t bits = bf16_of(value);
    std::memcpy(memory->data() + 2 * i, &bits, 2);
    values[i] = bf16_to_f32(bits);
  }
};

struct Network {
  Weights gate, up, down;
};

/// What one run gave.
struct Result {
  std::vector<float> out, logits, weights;
  std::vector<std::int32_t> chosen;
  emulator::Counts counts;
  std::int64_t slots = 0;
};

class Mixture {
 public:
  Mixture(const MoeShape& shape, unsigned seed) : shape_(shape) {
    Random random(seed);
    router_ = Weights(random, 0.1f, shape.experts, shape.hidden);
    const auto add = [&](std::int64_t width) {
      Weights gate(random, 0.3f, width, shape.hidden), up(random, 0.3f, width, shape.hidden),
          down(random, 0.3f, shape.hidden, width);
      networks_.push_back({std::move(gate), std::move(up), std::move(down)});
    };
    for (std::uint32_t e = 0; e < shape.experts; ++e) add(shape.width);
    if (shape.shared != 0) {
      add(shape.shared);
      shared_router_ = Weights(random, 0.1f, 1, shape.hidden);
    }
    x_ = random.values(static_cast<std::size_t>(shape.n * shape.hidden));
    for (float& value : x_) value = bf16_to_f32(bf16_of(value));
    before_ = random.values(x_.size());
  }

  int own_byte = 0xff;  ///< what the workers' own memory is full of

  const MoeShape& shape() const { return shape_; }
  float& x(std::int64_t row, std::int64_t k) { return x_[static_cast<std::size_t>(row * shape_.hidden + k)]; }
  float before(std::int64_t row, std::int64_t k) const {
    return shape_.accumulate ? before_[static_cast<std::size_t>(row * shape_.hidden + k)] : 0;
  }
  const float* row(std::int64_t m) const { return x_.data() + m * shape_.hidden; }
  Network& network(std::size_t i) { return networks_[i]; }
  const Network& network(std::size_t i) const { return networks_[i]; }
  /// Of one output of the router.
  const float* router_row(std::int64_t e) const {
    return e < shape_.experts ? router_.values.data() + e * shape_.hidden : shared_router_.values.data();
  }

  /// Rows [first, first + n) of the batch, by two workers in turns, `step` units at a time (0: all units at once).
  Result run(const KernelSet& set, std::int64_t first, std::int64_t n, std::int64_t step) const {
    const ActivationLayout operands = set.layouts.operand_of(n), results = set.layouts.residual_of(n);
    const Guarded x_memory(ActivationBuffer::bytes(operands, n, shape_.hidden)),
        out_memory(ActivationBuffer::bytes(results, n, shape_.hidden));
    ActivationBuffer in(operands, n, shape_.hidden, x_memory.data()), out(results, n, shape_.hidden, out_memory.data());
    for (std::int64_t m = 0; m < n; ++m)
      for (std::int64_t k = 0; k < shape_.hidden; ++k) {
        in.set(m, k, row(first + m)[k]);
        if (shape_.accumulate) out.set(m, k, before(first + m, k));
      }
    in.fill_up();
    const MoeWorkspace size = set.moe_workspace(workspace_shape(n));
    const Guarded routes(size.routes), gathered(size.gathered), inner(size.inner), own(2 * size.per_worker);
    std::memset(own.data(), own_byte, 2 * size.per_worker);
    Views views(*this);
    MoeArgs args = views.args;
    args.n = n, args.x = in.view(), args.out = out.view();
    args.buffers = {routes.data(), gathered.data(), inner.data()};
    args.workspace = {nullptr, own.data(), size.per_worker};
    const emulator::Counts before = emulator::counts();
    run_phases(set, args, step);
    CHECK_FALSE(emulator::tiles_in_use());
    return result(args, out, before);
  }

  Shape workspace_shape(std::int64_t n) const {
    Shape shape;
    shape.batch = u32(n), shape.hidden = u32(shape_.hidden), shape.experts = shape_.experts;
    shape.top_k = shape_.top_k, shape.expert_width = u32(shape_.width), shape.shared_width = u32(shape_.shared);
    return shape;
  }

 private:
  /// Arguments with what does not depend on the batch.
  struct Views {
    std::vector<Linear> gate, up, down;
    MoeArgs args;

    explicit Views(const Mixture& mixture) {
      for (const Network& network : mixture.networks_) {
        gate.push_back(network.gate.view), up.push_back(network.up.view), down.push_back(network.down.view);
      }
      const MoeShape& shape = mixture.shape_;
      args.router = mixture.router_.view;
      args.gate = gate.data(), args.up = up.data(), args.down = down.data();
      if (shape.shared != 0) {
        args.shared_router = mixture.shared_router_.view;
        args.shared_gate = gate.back(), args.shared_up = up.back(), args.shared_down = down.back();
      }
      args.experts = shape.experts, args.top_k = shape.top_k, args.normalise = shape.normalise;
      args.accumulate = shape.accumulate, args.scale = shape.scale;
    }
  };

  /// The slices of every other phase in descending order.
  static void run_phases(const KernelSet& set, const MoeArgs& args, std::int64_t step) {
    for (std::int32_t phase = 0; phase < set.moe_ffn.phases(args); ++phase) {
      const std::int64_t units = set.moe_ffn.units(args, phase),
                         each = step == 0 ? std::max<std::int64_t>(units, 1) : step;
      const std::int64_t slices = (units + each - 1) / each;
      for (std::int64_t i = 0; i < slices; ++i) {
        const std::int64_t at = phase % 2 == 0 ? i : slices - 1 - i;
        set.moe_ffn.run(args, phase, {at * each, std::min((at + 1) * each, units), static_cast<std::int32_t>(i % 2)});
      }
    }
  }

  Result result(const MoeArgs& args, const ActivationBuffer& out, const emulator::Counts& before) const {
    const Routes routes(args);
    Result result;
    result.out = out.rows();
    result.logits.assign(routes.logits, routes.logits + args.n * routes.ld);
    result.weights.assign(routes.weights, routes.weights + args.n * args.top_k);
    result.chosen.assign(routes.chosen, routes.chosen + args.n * args.top_k);
    result.slots = routes.n_slots();
    result.counts = emulator::counts();
    result.counts.multiplications -= before.multiplications;
    result.counts.watched_lines -= before.watched_lines;
    return result;
  }

  MoeShape shape_;
  Weights router_, shared_router_;
  std::vector<Network> networks_;
  std::vector<float> x_, before_;
};

/// Compares a run of all rows with float64.
class Definition {
 public:
  Definition(const KernelSet& set, const Mixture& mixture, const Result& result)
      : rounds_(rounds_to_bf16(set)), name_(set.name), mixture_(mixture), result_(result) {}

  void check() const {
    for (std::int64_t m = 0; m < shape().n; ++m) {
      check_route(m);
      check_row(m);
    }
  }

 private:
  const MoeShape& shape() const { return mixture_.shape(); }
  std::int64_t ld() const { return shape().experts + (shape().shared != 0 ? 1 : 0); }
  /// Of a sum over k of unrounded values, or on tiles.
  double bound(const Sum& sum, std::int64_t cols) const {
    return rounds_ ? amx_bound(sum, cols) : (static_cast<double>(cols) / 16 + 6) * kEps * sum.magnitude;
  }
  std::string where(std::int64_t m) const {
    const MoeShape& s = shape();
    return fmt::format("{} n {} hidden {} width {} shared {} experts {} top {} row {}", name_, s.n, s.hidden, s.width,
                       s.shared, s.experts, s.top_k, m);
  }
  double logit(std::int64_t m, std::int64_t e) const { return result_.logits[static_cast<std::size_t>(m * ld() + e)]; }
  const std::int32_t* chosen(std::int64_t m) const { return result_.chosen.data() + m * shape().top_k; }

  /// Logits are sums, the chosen experts have the largest of them, and weights are their softmax.
  void check_route(std::int64_t m) const {
    const std::int64_t hidden = shape().hidden, experts = shape().experts, top_k = shape().top_k;
    for (std::int64_t e = 0; e < ld(); ++e) {
      const Sum want = dot(mixture_.row(m), mixture_.router_row(e), hidden);
      if (std::fabs(logit(m, e) - want.value) > bound(want, hidden))
        FAIL(where(m) << " logit " << e << ": got " << logit(m, e) << ", want " << want.value);
    }
    const std::set<std::int64_t> experts_of_row(chosen(m), chosen(m) + top_k);
    double least = INFINITY, most_left = -INFINITY, all = 0, sum = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      const bool is_chosen = experts_of_row.contains(e);
      is_chosen ? least = std::min(least, logit(m, e)) : most_left = std::max(most_left, logit(m, e));
      all += std::exp(logit(m, e));
      if (is_chosen) sum += std::exp(logit(m, e));
    }
    INFO(where(m));
    REQUIRE(std::ssize(experts_of_row) == top_k);
    REQUIRE(least >= most_left);
    for (std::int64_t i = 0; i < top_k; ++i) {
      const double want = std::exp(logit(m, chosen(m)[i])) / (shape().normalise ? sum : all);
      // e^x within two units for an argument that is rounded (they are below 64 here), and sums over all experts.
      REQUIRE(std::fabs(weight(m, i) - want) <= (80 + static_cast<double>(experts)) * kEps * want);
    }
  }

  double weight(std::int64_t m, std::int64_t i) const {
    return result_.weights[static_cast<std::size_t>(m * shape().top_k + i)];
  }

  struct Outputs {
    std::vector<double> value, bound, magnitude;
  };

  void check_row(std::int64_t m) const {
    const auto hidden = static_cast<std::size_t>(shape().hidden);
    Outputs outputs{std::vector<double>(hidden), std::vector<double>(hidden), std::vector<double>(hidden)};
    for (std::int64_t i = 0; i < shape().top_k; ++i)
      add_network(mixture_.network(static_cast<std::size_t>(chosen(m)[i])), m, weight(m, i), outputs);
    if (shape().shared != 0)
      add_network(mixture_.network(shape().experts), m, 1 / (1 + std::exp(-logit(m, shape().experts))), outputs);
    for (std::size_t j = 0; j < hidden; ++j) {
      const double old = mixture_.before(m, static_cast<std::int64_t>(j)),
                   want = old + shape().scale * outputs.value[j];
      const double got = result_.out[static_cast<std::size_t>(m) * hidden + j];
      // A product and an addition for each slot, the shared network's sigmoid, the scale, and the last addition.
      const double allowed = shape().scale * (outputs.bound[j] + (shape().top_k + 16) * kEps * outputs.magnitude[j]) +
                             kEps * (std::fabs(old) + std::fabs(want));
      if (std::fabs(got - want) <= allowed) continue;
      FAIL(where(m) << " output " << j << ": got " << got << ", want " << want << " within " << allowed);
    }
  }

  void add_network(const Network& w, std::int64_t m, double weight, Outputs& out) const {
    const std::int64_t width = w.gate.view.rows, hidden = shape().hidden;
    std::vector<float> inner(static_cast<std::size_t>(width));
    std::vector<double> error(inner.size());
    for (std::size_t j = 0; j < inner.size(); ++j) {
      const auto first = static_cast<std::int64_t>(j) * hidden;
      const Sum g = dot(mixture_.row(m), w.gate.values.data() + first, hidden);
      const Sum u = dot(mixture_.row(m), w.up.values.data() + first, hidden);
      const double silu = g.value / (1 + std::exp(-g.value)), value = silu * u.value;
      inner[j] = static_cast<float>(value);
      // |silu'| <= 1.1; a few roundings with exp's 2e-7; the rounding to bf16.
      error[j] = 1.1 * bound(g, hidden) * (std::fabs(u.value) + bound(u, hidden)) + bound(u, hidden) * std::fabs(silu) +
                 (rounds_ ? kBf16 : 0) * std::fabs(value) + 16 * kEps * std::fabs(value) + 0x1p-126;
    }
    for (std::int64_t i = 0; i < hidden; ++i) {
      const float* row = w.down.values.data() + i * width;
      const Sum sum = dot(inner.data(), row, width);
      double carried = 0;
      for (std::size_t j = 0; j < inner.size(); ++j) carried += error[j] * std::fabs(row[j]);
      const auto at = static_cast<std::size_t>(i);
      out.value[at] += weight * sum.value;
      out.magnitude[at] += weight * sum.magnitude;
      out.bound[at] += weight * (carried + 1.01 * bound(sum, width));
    }
  }

  bool rounds_;
  std::string_view name_;
  const Mixture& mixture_;
  const Result& result_;
};

bool same_bits(const float* a, const float* b, std::int64_t count) {
  return std::memcmp(a, b, static_cast<std::size_t>(count) * 4) == 0;
}

}  // namespace

TEST_CASE("AMX mixtures of experts are their definition and read nothing but their operands", "[amx]") {
  SKIP_UNLESS_CPU_HAS(emulated_set() != nullptr, "AVX-512");
  std::vector<MoeShape> shapes = {{1, 1, 1, 0, 1, 1},
                                  {3, 33, 31, 1, 40, 7, false, false},
                                  {8, 64, 64, 0, 5, 5},
                                  {16, 31, 17, 48, 3, 1, false, true, 0.25f},
                                  {17, 96, 33, 0, 70, 2},
                                  {33, 15, 97, 16, 1, 1},
                                  {70, 65, 16, 130, 33, 3, true, false, 3},
                                  {40, 130, 1030, 0, 2, 1},
                                  {36, 40, 2100, 600, 1, 1},
                                  {300, 33, 18, 7, 9, 2}};
  for (std::int64_t n = 1; n <= 70; ++n)
    shapes.push_back({n, 7 + 13 * n % 90, 1 + 29 * n % 80, n % 3 == 0 ? 1 + 17 * n % 70 : 0, u32(1 + 5 * n % 9),
                      u32(1 + n % (1 + 5 * n % 9)), n % 2 == 0, n % 4 != 0, n % 5 == 0 ? 0.3f : 1.0f});
  const KernelSet* set = emulated_set();
  unsigned seed = 1;
  for (const MoeShape& shape : shapes) {
    const Mixture mixture(shape, seed++);
    const Result result = mixture.run(*set, 0, shape.n, 0);
    Definition(*set, mixture, result).check();
    for (const std::int64_t step : {1, 3})
      if (seed % 4 == 0 || shape.n == 1) CHECK(mixture.run(*set, 0, shape.n, step).out == result.out);
  }
}

TEST_CASE("a row's experts on AMX have the same bits in any batch and any slices", "[amx]") {
  const KernelSet* tiles = emulated_set();
  SKIP_UNLESS_CPU_HAS(tiles != nullptr, "AVX-512");
  for (const std::int64_t shared : {0, 50}) {
    const Mixture mixture({139, 47, 70, shared, 6, 2}, 3);
    const std::int64_t width = mixture.shape().hidden;
    const auto equals = [&](const Result& part, const Result& all, std::int64_t first, std::int64_t n) {
      return same_bits(part.out.data(), all.out.data() + first * width, n * width);
    };
    const Result all = mixture.run(*tiles, 0, 139, 0);
    for (const std::int64_t step : {1, 2, 5, 7}) CHECK(equals(mixture.run(*tiles, 0, 139, step), all, 0, 139));
    for (const std::int64_t n : {1, 4, 8, 9, 16, 17, 33, 70, 130})
      for (const std::int64_t first : {std::int64_t{0}, std::int64_t{5}, 139 - n}) {
        INFO("n " << n << " from " << first << " shared " << shared);
        if (first + n > 139) continue;
        CHECK(equals(mixture.run(*tiles, first, n, 0), all, first, n));
      }
  }
}

TEST_CASE("AMX mixtures of thousands of rows are cut, and equal smaller batches", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  constexpr std::int64_t kRows = 4096 + 37, kHidden = 70;
  const Mixture mixture({kRows, kHidden, 9, 5, 3, 2}, 4);
  const Result all = mixture.run(*set, 0, kRows, 0);
  for (const std::int64_t first : {0, 2000, 4000}) {
    const std::int64_t n = std::min<std::int64_t>(2000, kRows - first);
    CHECK(same_bits(mixture.run(*set, first, n, 0).out.data(), all.out.data() + first * kHidden, n * kHidden));
  }
  // The plan grows with the batch, but what a worker has for itself stays small.
  Shape shape = mixture.workspace_shape(1);
  shape.hidden = 8192, shape.expert_width = 16384, shape.shared_width = 8192, shape.experts = 512, shape.top_k = 10;
  MoeWorkspace before;
  for (const std::uint32_t batch : {1, 4, 8, 9, 16, 17, 32, 33, 63, 64, 65, 512, 4096, 4097, 65536}) {
    shape.batch = batch;
    const MoeWorkspace size = set->moe_workspace(shape);
    CHECK((size.routes >= before.routes && size.gathered >= before.gathered));
    CHECK((size.inner >= before.inner && size.per_worker >= before.per_worker));
    CHECK(size.per_worker <= 6u << 20);
    before = size;
  }
}

TEST_CASE("AMX mixtures read the weights of the chosen experts alone, and once", "[amx]") {
  SKIP_UNLESS_CPU_HAS(emulated_set() != nullptr, "AVX-512");
  SKIP_UNLESS(!emulator::is_native(), machine, "loads of the CPU's own tiles cannot be counted");
  constexpr std::int64_t kHidden = 64, kWidth = 96;
  const KernelSet* set = emulated_set();
  for (const std::int64_t n : {1, 4, 5, 8, 9, 16, 17, 30}) {
    Mixture mixture({n, kHidden, kWidth, 0, 12, 2}, 9);
    // All in one range, in pages of their own.
    constexpr std::size_t kMatrix = std::size_t{kHidden} * kWidth * 2;
    const Guarded memory(12 * 3 * kMatrix);
    std::byte* at = memory.data();
    for (std::size_t e = 0; e < 12; ++e)
      for (Weights* w : {&mixture.network(e).gate, &mixture.network(e).up, &mixture.network(e).down}) {
        std::memcpy(at, w->view.data, kMatrix);
        w->view.data = at;
        at += kMatrix;
      }
    emulator::watch(memory.data(), 12 * 3 * kMatrix);
    const Result result = mixture.run(*set, 0, n, 0);
    INFO("n " << n << ", slots " << result.slots);
    CHECK(result.slots == std::ssize(std::set<std::int32_t>(result.chosen.begin(), result.chosen.end())));
    const auto lines = static_cast<std::uint64_t>(result.slots) * 3 * kMatrix / 64;
    CHECK(result.counts.watched_lines == lines);
    emulator::watch(nullptr, 0);
  }
}

namespace {

bool all_nan(const Result& result, std::int64_t row, std::int64_t width) {
  const float* out = result.out.data() + row * width;
  return std::all_of(out, out + width, [](float value) { return std::isnan(value); });
}

/// Whether exactly the rows of which `reached` is true differ from an earlier result, all of them NaN.
template <typename Reached>
void check_reached(const Result& result, const Result& before, std::int64_t n, std::int64_t width, Reached reached) {
  for (std::int64_t m = 0; m < n; ++m) {
    INFO("row " << m);
    CHECK((reached(m) ? all_nan(result, m, width)
                      : same_bits(result.out.data() + m * width, before.out.data() + m * width, width)));
  }
}

}  // namespace

TEST_CASE("AMX mixtures: what is not finite reaches its own rows alone", "[amx]") {
  SKIP_UNLESS_CPU_HAS(emulated_set() != nullptr, "AVX-512");
  const KernelSet* set = emulated_set();
  for (const std::int64_t n : {1, 3, 8, 12, 16, 21, 50})
    for (const std::int64_t shared : {0, 33}) {
      INFO("n " << n << " shared " << shared);
      constexpr std::int64_t kHidden = 45;
      const auto make = [&] {
        Mixture mixture({n, kHidden, 35, shared, 5, 2}, 12);
        mixture.own_byte = 0;  // no NaN is in the sums by itself
        return mixture;
      };
      const Result clean = make().run(*set, 0, n, 0);
      for (const float poison : {NAN, INFINITY, -INFINITY}) {
        Mixture mixture = make();
        mixture.x(n / 2, kHidden - 1) = poison;
        check_reached(mixture.run(*set, 0, n, 2), clean, n, kHidden, [&](std::int64_t m) { return m == n / 2; });
      }
      // In one expert's weights.
      const std::int32_t bad = clean.chosen[static_cast<std::size_t>(n / 2 * 2)];
      const auto goes_there = [&](std::int64_t m) {
        const auto first = clean.chosen.begin() + 2 * m;
        return std::find(first, first + 2, bad) != first + 2;
      };
      for (Weights Network::*matrix : {&Network::gate, &Network::up, &Network::down}) {
        Mixture mixture = make();
        Weights& w = mixture.network(static_cast<std::size_t>(bad)).*matrix;
        for (std::size_t i = 0; i < w.values.size(); ++i) w.put(i, NAN);
        check_reached(mixture.run(*set, 0, n, 2), clean, n, kHidden, goes_there);
      }
      if (shared == 0) continue;
      Mixture mixture = make();
      mixture.network(5).down.put(7, NAN);
      const Result result = mixture.run(*set, 0, n, 0);
      CHECK(std::isnan(result.out[0]));
      CHECK(result.out[1] == clean.out[1]);
    }
}
#endif
