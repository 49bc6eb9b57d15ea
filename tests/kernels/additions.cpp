// Additions to linear layers, on every kernel set: an operation whose layers have some gives, bit for bit, what it
// gives with matrices into which they were merged. All numbers are small integers, which no set rounds: weights and
// sums are exact in every type (in f16 up to 2,048), SiLU of numbers above 20 is the identity in f32, and an activation
// has at most 8 bits.
#include <vector>

#include "kernels/amx_kernels.h"
#include "kernels/support.h"

namespace qinfer::test {
namespace {

std::size_t floats(std::int64_t n) { return static_cast<std::size_t>(n); }

/// `count` integers from -most to most, of which one in `every` is not zero.
std::vector<float> integers(Random& random, std::int64_t count, int most, int every = 1) {
  std::vector<float> values(floats(count));
  for (float& v : values)
    if (random.integer(every) == 0) v = static_cast<float>(random.integer(2 * most + 1) - most);
  return values;
}

/// An addition to a layer of [outputs][cols] for some rows.
struct TestAddition {
  std::int64_t first_row, n_rows, rank;
  std::vector<float> down, up, inner;

  TestAddition(Random& random, std::int64_t first, std::int64_t n, std::int64_t rank_, std::int64_t outputs,
               std::int64_t cols)
      : first_row(first), n_rows(n), rank(rank_), down(integers(random, rank * cols, 1, 6)) {
    up = integers(random, rank * outputs, 1, 3);
    inner.assign(floats(n * rank), NAN);
  }
  Addition view() { return {first_row, n_rows, rank, down.data(), up.data(), inner.data()}; }
};

/// A layer, and what is added to it: one addition for all rows of the batch, one for those from `second` on.
struct TestLayer {
  std::int64_t outputs, cols;
  std::vector<float> weights, bias;
  float scale;
  TestMatrix plain, merged_first, merged_both;
  std::vector<TestAddition> additions;
  std::vector<Addition> views;

  TestLayer(const KernelSet& set, DType type, Random& random, std::int64_t outputs_, std::int64_t cols_, std::int64_t n,
            std::int64_t second, int every = 1, float scale_ = 0.5f, std::vector<float> bias_ = {})
      : outputs(outputs_), cols(cols_), bias(std::move(bias_)), scale(scale_) {
    weights = integers(random, outputs * cols, 2, every);
    if (bias.empty()) bias = integers(random, outputs, 3);
    additions.emplace_back(random, 0, n, 2, outputs, cols);
    if (second < n) additions.emplace_back(random, second, n - second, 3, outputs, cols);
    for (TestAddition& addition : additions) views.push_back(addition.view());
    plain = pack_matrix(set, weights, type, outputs, cols);
    merge(additions[0]);
    merged_first = pack_matrix(set, weights, type, outputs, cols);
    if (second < n) merge(additions[1]);
    merged_both = pack_matrix(set, weights, type, outputs, cols);
  }

  Linear with_additions() const {
    Linear layer = plain_layer();
    layer.additions = views;
    return layer;
  }
  Linear plain_layer() const { return {plain.view, bias.data(), scale}; }
  /// Of the rows before `second`, and of those from there on.
  Linear merged(bool both) const { return {both ? merged_both.view : merged_first.view, bias.data(), scale}; }

 private:
  void merge(const TestAddition& addition) {
    for (std::int64_t j = 0; j < outputs; ++j)
      for (std::int64_t k = 0; k < cols; ++k)
        for (std::int64_t r = 0; r < addition.rank; ++r)
          weights[floats(j * cols + k)] += addition.up[floats(r * outputs + j)] * addition.down[floats(r * cols + k)];
  }
};

Shape shape_of(std::int64_t n, std::int64_t hidden, std::int64_t ffn = 1) {
  Shape shape;
  shape.batch = static_cast<std::uint32_t>(n), shape.hidden = static_cast<std::uint32_t>(hidden);
  shape.n_heads = shape.n_kv_heads = shape.vocab = 1, shape.head_dim = 2, shape.context = 100;
  shape.ffn = static_cast<std::uint32_t>(ffn);
  return shape;
}

/// Rows before `second` are those of one run, the others those of another.
void check_rows(const std::vector<float>& got, const std::vector<float>& first, const std::vector<float>& both,
                std::int64_t n, std::int64_t second) {
  const std::size_t width = got.size() / floats(n);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::vector<float>& want = i < floats(second) * width ? first : both;
    if (std::memcmp(&got[i], &want[i], sizeof(float)) == 0) continue;
    FAIL("row " << i / width << " output " << i % width << ": got " << got[i] << ", want " << want[i]);
  }
}

std::vector<float> run_linear(const KernelSet& set, const Linear& w, const std::vector<float>& x, std::int64_t n) {
  ActivationBuffer in = operand(set, x.data(), n, w.cols), out = residual(set, n, w.rows, 3.0f);
  LinearArgs args{n, in.view(), w, true, out.view(), {}};
  std::vector<std::byte> memory;
  run_all(set.linear, args, set.linear_workspace(shape_of(n, w.cols)), memory, 3);
  return out.rows();
}

std::vector<float> run_lm_head(const KernelSet& set, const Linear& w, const std::vector<float>& x, std::int64_t n) {
  ActivationBuffer in = operand(set, x.data(), n, w.cols);
  std::vector<float> out(floats(n * w.rows));
  std::vector<float*> rows;
  for (std::int64_t m = 0; m < n; ++m) rows.push_back(out.data() + m * w.rows);
  LmHeadArgs args{n, in.view(), w, rows.data(), {}};
  std::vector<std::byte> memory;
  run_all(set.lm_head, args, set.lm_head_workspace(shape_of(n, w.cols)), memory, 2);
  return out;
}

void test_linear_additions(const KernelSet& set, DType type, std::int64_t n) {
  Random random(static_cast<unsigned>(n));
  const std::int64_t cols = 70, outputs = 83, second = n / 2;
  const TestLayer w(set, type, random, outputs, cols, n, second);
  const std::vector<float> x = integers(random, n * cols, sums_f16_in_f16(set.name) ? 1 : 2);
  for (const auto run : {run_linear, run_lm_head}) {
    const std::vector<float> got = run(set, w.with_additions(), x, n);
    check_rows(got, run(set, w.merged(false), x, n), run(set, w.merged(true), x, n), n, second);
    CHECK(got != run(set, w.plain_layer(), x, n));
  }
}

void test_ffn_additions(const KernelSet& set, DType type, std::int64_t n) {
  Random random(static_cast<unsigned>(n));
  const std::int64_t hidden = 37, width = 41, second = n / 2;
  const std::vector<float> large(floats(width), 80.0f), none(floats(width), 0.0f);
  const TestLayer gate(set, type, random, width, hidden, n, second, 8, 1.0f, large);
  // Nothing but what additions give, for some features: activations with few bits and small sums.
  TestLayer up(set, type, random, width, hidden, n, second, 60, 1.0f, none);
  const TestLayer down(set, type, random, hidden, width, n, second, 4, 0.5f);
  const std::vector<float> x = integers(random, n * hidden, 1, sums_f16_in_f16(set.name) ? 6 : 3);
  const auto run = [&](const Linear& g, const Linear& u, const Linear& d) {
    ActivationBuffer in = operand(set, x.data(), n, hidden), out = residual(set, n, hidden, 1.0f);
    FfnArgs args{n, in.view(), g, u, d, out.view(), {}, Activation::silu, true};
    std::vector<std::byte> memory;
    run_all(set.ffn, args, set.ffn_workspace(shape_of(n, hidden, width)), memory, 3);
    return out.rows();
  };
  const std::vector<float> got = run(gate.with_additions(), up.with_additions(), down.with_additions());
  check_rows(got, run(gate.merged(false), up.merged(false), down.merged(false)),
             run(gate.merged(true), up.merged(true), down.merged(true)), n, second);
  CHECK(got != run(gate.plain_layer(), up.with_additions(), down.with_additions()));
  CHECK(got != run(gate.with_additions(), up.plain_layer(), down.with_additions()));
  CHECK(got != run(gate.with_additions(), up.with_additions(), down.plain_layer()));
}

/// Queries of two sequences, and the cache of each. The norm is of all heads together or of none, and heads are turned.
struct QkvRun {
  std::vector<float> queries;
  std::vector<std::byte> caches[2];
};

void test_qkv_additions(const KernelSet& set, DType type, std::int64_t n, bool whole) {
  Random random(static_cast<unsigned>(n));
  constexpr std::uint32_t kHeads = 3, kKvHeads = 2, kWidth = 24;
  const std::int64_t hidden = 70, second = n / 2;
  const TestLayer q(set, type, random, kHeads * kWidth, hidden, n, second);
  const TestLayer k(set, type, random, kKvHeads * kWidth, hidden, n, second);
  const TestLayer v(set, type, random, kKvHeads * kWidth, hidden, n, second);
  const std::vector<float> x = integers(random, n * hidden, 2), norm(floats(kHeads * kWidth), 1.5f),
                           rope = random.values(100 * kWidth);
  const KvLayout layout{
      DType::f32, 1, kKvHeads, kWidth, set.kv_head_dim_padded(kWidth, DType::f32), 32, set.kv_order(DType::f32)};
  const auto run = [&](const Linear& wq, const Linear& wk, const Linear& wv) {
    QkvRun result;
    std::vector<Sequence> sequences;
    const std::int64_t firsts[] = {0, second, n};
    for (int s = 0; s < 2; ++s) {
      result.caches[s].assign(layout.blocks_for(64) * layout.block_bytes(), std::byte{0xff});
      const auto rows = static_cast<std::int32_t>(firsts[s + 1] - firsts[s]);
      if (rows > 0)
        sequences.push_back({{result.caches[s].data(), nullptr}, static_cast<std::int32_t>(firsts[s]), rows, 5});
    }
    ActivationBuffer in = operand(set, x.data(), n, hidden);
    Queries out(set, n, kHeads, kWidth);
    QkvArgs args;
    args.n = n, args.x = in.view(), args.q = out.values.view();
    args.wq = wq, args.wk = wk, args.wv = wv;
    if (whole) args.q_norm = args.k_norm = norm.data(), args.norm_eps = 1e-5f, args.norm_whole = true;
    args.rope = rope.data(), args.n_heads = kHeads, args.kv = layout, args.sequences = sequences;
    Shape shape = shape_of(n, hidden);
    shape.n_heads = kHeads, shape.n_kv_heads = kKvHeads, shape.head_dim = kWidth, shape.qk_norm_whole = whole;
    std::vector<std::byte> memory;
    run_all(set.qkv, args, set.qkv_workspace(shape), memory, 3);
    for (std::int64_t m = 0; m < n; ++m)
      for (std::uint32_t h = 0; h < kHeads; ++h)
        for (std::uint32_t i = 0; i < kWidth; ++i) result.queries.push_back(out.get(m, h, i));
    return result;
  };
  const QkvRun got = run(q.with_additions(), k.with_additions(), v.with_additions());
  const QkvRun first = run(q.merged(false), k.merged(false), v.merged(false));
  const QkvRun both = run(q.merged(true), k.merged(true), v.merged(true));
  check_rows(got.queries, first.queries, both.queries, n, second);
  CHECK(got.caches[0] == first.caches[0]);
  CHECK(got.caches[1] == both.caches[1]);
  CHECK(got.caches[1] != run(q.with_additions(), k.plain_layer(), v.with_additions()).caches[1]);
  CHECK(got.caches[1] != run(q.with_additions(), k.with_additions(), v.plain_layer()).caches[1]);
}

/// Of a set that promises it, a row has the same bits in batches of any size, with numbers that are rounded, and where
/// no addition has the row, those that it has without any.
void test_invariance(const KernelSet& set, DType type) {
  constexpr std::int64_t kRows = 21, kCols = 70, kOutputs = 83, kFirst = 2, kEnd = 19;
  Random random(9);
  const TestMatrix w = make_matrix(set, random, type, kOutputs, kCols);
  const std::vector<float> x = random.values(kRows * kCols), down = random.values(2 * kCols),
                           up = random.values(2 * kOutputs);
  std::vector<float> inner(2 * kRows);
  const auto run = [&](std::int64_t begin, std::int64_t end, bool adds) {
    const std::int64_t first = std::max(begin, kFirst), last = std::min(end, kEnd);
    const Addition addition{first - begin, std::max(last - first, std::int64_t{0}), 2, down.data(), up.data(),
                            inner.data()};
    Linear layer(w.view);
    if (adds) layer.additions = {&addition, 1};
    const std::vector<float> rows(x.begin() + begin * kCols, x.begin() + end * kCols);
    return run_linear(set, layer, rows, end - begin);
  };
  const std::vector<float> all = run(0, kRows, true), without = run(0, kRows, false);
  for (std::int64_t m = 0; m < kRows; ++m) {
    INFO("row " << m);
    const std::size_t at = floats(m * kOutputs), bytes = floats(kOutputs) * sizeof(float);
    CHECK((std::memcmp(&all[at], &without[at], bytes) == 0) == (m < kFirst || m >= kEnd));
    for (const std::int64_t n : {1, 3, 8})
      if (m + n <= kRows) CHECK(std::memcmp(run(m, m + n, true).data(), &all[at], floats(n) * bytes) == 0);
  }
}

std::vector<const KernelSet*> all_sets() {
  std::vector<const KernelSet*> sets = usable_sets();
#ifdef QINFER_HAVE_AMX
  for (const char* name : {"amx", "avx512_fp16", "amx_int16"})
    if (const KernelSet* set = usable_set(name) == nullptr ? emulated_set(name) : nullptr) sets.push_back(set);
#endif
  return sets;
}

}  // namespace
}  // namespace qinfer::test

using namespace qinfer;
using namespace qinfer::test;

TEST_CASE("layers with additions give what layers with these merged into them give", "[kernels]") {
  for (const KernelSet* set : all_sets())
    for (const DType type : weight_dtypes(*set))
      for (const std::int64_t n : {1, 2, 3, 5, 8, 9, 17, 40, 70}) {
        INFO(set->name << ", weights of " << dtype_name(type) << ", " << n << " rows");
        test_linear_additions(*set, type, n);
        test_ffn_additions(*set, type, n);
        for (const bool whole : {false, true}) test_qkv_additions(*set, type, n, whole);
      }
}

TEST_CASE("what an addition gives does not depend on the other rows", "[kernels]") {
  for (const KernelSet* set : all_sets()) {
    for (const DType type : weight_dtypes(*set)) {
      INFO(set->name << ", weights of " << dtype_name(type));
      test_invariance(*set, type);
    }
  }
}
