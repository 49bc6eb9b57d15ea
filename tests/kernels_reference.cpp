// Every kernel of kernels.inc against definitions in float64, over shapes with all tails. A kernel set without a case
// here fails: the test walks the table.
//
// Bounds: a sum of K products in f32, in any order, errs by at most K * 2^-24 * sum|x w| (Higham 2002, section 3.1);
// with 16 lanes the depth is K/16 + 4 additions. The tests use (K / 16 + 8) * 2^-24 * sum|x w| plus what an operation
// adds (stated where it does).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/math.h"
#include "catch.h"
#include "kernel_set.h"

namespace {

using namespace qinfer;
using namespace qinfer::kernels;

constexpr double kEps = 0x1p-24;

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  /// A wide spread of magnitudes: uniform sign, normal times a power of two.
  float value() { return static_cast<float>(normal_(engine_) * std::exp2(spread_(engine_))); }
  std::vector<float> values(std::size_t n) {
    std::vector<float> out(n);
    for (float& v : out) v = value();
    return out;
  }
  int integer(int below) { return static_cast<int>(engine_() % static_cast<unsigned>(below)); }

 private:
  std::mt19937 engine_;
  std::normal_distribution<double> normal_;
  std::uniform_int_distribution<int> spread_{-3, 1};
};

/// A weight matrix in some dtype at an odd address, with the values it really holds.
struct TestMatrix {
  std::vector<std::byte> bytes;
  std::vector<float> values;
  Matrix view;
};

TestMatrix make_matrix(const KernelSet& set, Random& random, DType dtype, std::int64_t rows, std::int64_t cols) {
  TestMatrix m;
  m.values = random.values(static_cast<std::size_t>(rows * cols));
  const WeightFormat file{DType::f32, WeightLayout::row_major};
  const Matrix source{reinterpret_cast<const std::byte*>(m.values.data()), file, rows, cols};
  const WeightFormat format{dtype, WeightLayout::row_major};
  m.bytes.resize(set.weight_bytes(format, rows, cols) + 2);
  std::byte* at = m.bytes.data() + (dtype == DType::f32 ? 0 : 2);  // 16-bit weights at 2-byte alignment
  set.pack(source, format, at, 0, rows);
  m.view = {at, format, rows, cols};
  for (std::size_t i = 0; i < m.values.size(); ++i) {
    if (dtype == DType::f16) m.values[i] = f16_to_f32(f32_to_f16(m.values[i]));
    if (dtype == DType::bf16) m.values[i] = bf16_to_f32(f32_to_bf16(m.values[i]));
  }
  return m;
}

struct Sum {
  double value = 0, magnitude = 0;
};

Sum dot(const float* x, const float* w, std::int64_t cols) {
  Sum sum;
  for (std::int64_t k = 0; k < cols; ++k) {
    const double product = static_cast<double>(x[k]) * w[k];
    sum.value += product;
    sum.magnitude += std::fabs(product);
  }
  return sum;
}

double sum_bound(const Sum& sum, std::int64_t cols) {
  return (static_cast<double>(cols) / 16 + 8) * kEps * sum.magnitude + 1e-30;
}

/// Runs all phases; the units are cut into uneven slices for several workers, as a team would.
template <typename Args>
void run_all(const Operation<Args>& operation, Args& args, WorkspaceSize size, std::vector<std::byte>& memory,
             int workers) {
  memory.assign(size.shared + size.per_worker * static_cast<std::size_t>(workers) + 128, std::byte{0xff});
  auto base = reinterpret_cast<std::uintptr_t>(memory.data());
  std::byte* aligned = memory.data() + (64 - base % 64) % 64;
  if constexpr (requires { args.workspace; }) args.workspace = {aligned, aligned + size.shared, size.per_worker};
  for (int phase = 0; phase < operation.phases; ++phase) {
    const std::int64_t units = operation.units(args, phase);
    for (int w = workers; w-- > 0;) operation.run(args, phase, {units * w / workers, units * (w + 1) / workers, w});
  }
}

void test_embed(const KernelSet& set, DType dtype) {
  Random random(1);
  for (const std::int64_t width : {1, 5, 144, 300}) {
    const TestMatrix table = make_matrix(set, random, dtype, 11, width);
    const std::vector<std::int32_t> tokens = {10, 0, 3, 3, 7};
    std::vector<float> out(tokens.size() * static_cast<std::size_t>(width));
    EmbedArgs args{5, tokens.data(), table.view, {out.data(), width}};
    std::vector<std::byte> memory;
    run_all(set.embed, args, {}, memory, 2);
    for (std::size_t m = 0; m < tokens.size(); ++m)
      for (std::int64_t i = 0; i < width; ++i)
        REQUIRE(out[m * static_cast<std::size_t>(width) + static_cast<std::size_t>(i)] ==
                table.values[static_cast<std::size_t>(tokens[m] * width + i)]);
  }
}

void test_rms_norm(const KernelSet& set, DType) {
  Random random(2);
  for (std::int64_t width : {1, 2, 15, 16, 17, 144, 1024}) {
    const std::int64_t n = 3, ld = width + 3;
    const std::vector<float> x = random.values(static_cast<std::size_t>(n * ld));
    const std::vector<float> weight = random.values(static_cast<std::size_t>(width));
    std::vector<float> out(static_cast<std::size_t>(n * width));
    const std::vector<std::int32_t> gather = {2, 0, 1};
    NormArgs args{
        n, width, gather.data(), {const_cast<float*>(x.data()), ld}, weight.data(), 1e-6f, {out.data(), width}};
    std::vector<std::byte> memory;
    run_all(set.rms_norm, args, {}, memory, 2);
    for (std::int64_t m = 0; m < n; ++m) {
      const float* row = x.data() + gather[static_cast<std::size_t>(m)] * ld;
      double squares = 0;
      for (std::int64_t i = 0; i < width; ++i) squares += static_cast<double>(row[i]) * row[i];
      const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-6f);
      for (std::int64_t i = 0; i < width; ++i) {
        const double want = row[i] * scale * weight[static_cast<std::size_t>(i)];
        // The sum of squares has no cancellation: depth * eps, halved by the root, and five more roundings.
        const double bound = (static_cast<double>(width) / 32 + 10) * kEps * std::fabs(want) + 1e-30;
        REQUIRE(std::fabs(out[static_cast<std::size_t>(m * width + i)] - want) <= bound);
      }
    }
  }
}

void test_linear(const KernelSet& set, DType dtype) {
  Random random(3);
  for (const std::int64_t n : {1, 2, 3, 4, 5, 7, 33}) {
    for (const std::int64_t cols : {1, 15, 16, 17, 144}) {
      for (const std::int64_t outputs : {1, 31, 32, 33, 70}) {
        const TestMatrix w = make_matrix(set, random, dtype, outputs, cols);
        const std::vector<float> x = random.values(static_cast<std::size_t>(n * (cols + 1)));
        const std::vector<float> bias = random.values(static_cast<std::size_t>(outputs));
        const std::vector<float> before = random.values(static_cast<std::size_t>(n * outputs));
        std::vector<float> out = before;
        LinearArgs args{n, {const_cast<float*>(x.data()), cols + 1}, w.view, bias.data(), true, {out.data(), outputs},
                        {}};
        const Shape shape{static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(cols), 1, 1, 2, 1, 1, 1};
        std::vector<std::byte> memory;
        run_all(set.linear, args, set.linear_workspace(shape), memory, 3);
        for (std::int64_t m = 0; m < n; ++m)
          for (std::int64_t j = 0; j < outputs; ++j) {
            const Sum sum = dot(x.data() + m * (cols + 1), w.values.data() + j * cols, cols);
            const auto at = static_cast<std::size_t>(m * outputs + j);
            const double want = sum.value + bias[static_cast<std::size_t>(j)] + before[at];
            const double bound =
                sum_bound(sum, cols) + 3 * kEps * (std::fabs(want) + std::fabs(before[at]) + sum.magnitude);
            INFO("n " << n << " cols " << cols << " outputs " << outputs << " m " << m << " j " << j);
            REQUIRE(std::fabs(out[at] - want) <= bound);
          }
      }
    }
  }
}

void test_lm_head(const KernelSet& set, DType dtype) {
  Random random(4);
  const std::int64_t n = 5, cols = 37, outputs = 131;
  const TestMatrix w = make_matrix(set, random, dtype, outputs, cols);
  const std::vector<float> x = random.values(static_cast<std::size_t>(n * cols));
  std::vector<std::vector<float>> rows(static_cast<std::size_t>(n),
                                       std::vector<float>(static_cast<std::size_t>(outputs)));
  std::vector<float*> out;
  for (auto& row : rows) out.push_back(row.data());
  LmHeadArgs args{n, {const_cast<float*>(x.data()), cols}, w.view, out.data(), {}};
  std::vector<std::byte> memory;
  run_all(set.lm_head, args, set.lm_head_workspace({5, 37, 1, 1, 2, 1, 131, 1}), memory, 2);
  for (std::size_t m = 0; m < 5; ++m)
    for (std::size_t j = 0; j < 131; ++j) {
      const Sum sum = dot(x.data() + m * 37, w.values.data() + j * 37, cols);
      REQUIRE(std::fabs(rows[m][j] - sum.value) <= sum_bound(sum, cols));
    }
}

void test_ffn(const KernelSet& set, DType dtype) {
  Random random(5);
  for (const std::int64_t n : {1, 6}) {
    const std::int64_t hidden = 45, ffn = 67;
    const TestMatrix gate = make_matrix(set, random, dtype, ffn, hidden),
                     up = make_matrix(set, random, dtype, ffn, hidden),
                     down = make_matrix(set, random, dtype, hidden, ffn);
    const std::vector<float> x = random.values(static_cast<std::size_t>(n * hidden));
    const std::vector<float> bg = random.values(67), bu = random.values(67), bd = random.values(45);
    std::vector<float> out(static_cast<std::size_t>(n * hidden), 1.0f);
    FfnArgs args{n,
                 {const_cast<float*>(x.data()), hidden},
                 gate.view,
                 up.view,
                 down.view,
                 bg.data(),
                 bu.data(),
                 bd.data(),
                 {out.data(), hidden},
                 {}};
    std::vector<std::byte> memory;
    run_all(set.ffn, args, set.ffn_workspace({static_cast<std::uint32_t>(n), 45, 1, 1, 2, 67, 1, 1}), memory, 2);
    for (std::int64_t m = 0; m < n; ++m) {
      std::vector<double> act(67), act_error(67);
      for (std::size_t j = 0; j < 67; ++j) {
        const Sum g = dot(x.data() + m * hidden, gate.values.data() + j * 45, hidden);
        const Sum u = dot(x.data() + m * hidden, up.values.data() + j * 45, hidden);
        const double a = g.value + bg[j], b = u.value + bu[j];
        act[j] = a / (1 + std::exp(-a)) * b;
        // |silu'| <= 1.1; the bounds of both sums, and a few roundings with exp's 2e-7.
        act_error[j] = 1.1 * sum_bound(g, hidden) * std::fabs(b) + sum_bound(u, hidden) * std::fabs(a) +
                       16 * kEps * std::fabs(act[j]) +
                       4 * kEps * (std::fabs(a) * (std::fabs(b) + std::fabs(u.magnitude)) + g.magnitude * std::fabs(b));
      }
      for (std::size_t i = 0; i < 45; ++i) {
        double want = 1.0 + bd[i], magnitude = 0, error = 0;
        for (std::size_t j = 0; j < 67; ++j) {
          const double w = down.values[i * 67 + j];
          want += act[j] * w;
          magnitude += std::fabs(act[j] * w);
          error += act_error[j] * std::fabs(w);
        }
        const double bound = error + (67.0 / 16 + 8) * kEps * magnitude + 4 * kEps * (2 + std::fabs(want));
        REQUIRE(std::fabs(out[static_cast<std::size_t>(m) * 45 + i] - want) <= bound);
      }
    }
  }
}

/// A KV cache of its own, everything NaN at first; the blocks of its sequences lie in descending order.
struct TestCache {
  KvLayout layout;
  std::vector<std::byte> arena;
  std::vector<std::vector<std::uint32_t>> tables;

  TestCache(const KvLayout& l, const std::vector<std::uint32_t>& lengths) : layout(l) {
    std::uint32_t next = 0;
    for (const std::uint32_t n : lengths) next += l.blocks_for(n);
    arena.assign(next * l.block_bytes(), std::byte{0xff});
    for (const std::uint32_t n : lengths) {
      tables.emplace_back();
      for (std::uint32_t i = 0; i < l.blocks_for(n); ++i) tables.back().push_back(--next);
    }
  }
  KvView view(std::size_t sequence) { return {arena.data(), tables[sequence].data()}; }
};

/// The shape of one attention test.
struct AttentionCase {
  std::uint32_t n_heads, n_kv_heads, head_dim, block_tokens, window;
  std::vector<std::uint32_t> lengths;
  bool split;
};

struct QkvData {
  std::vector<float> x, rope;
  TestMatrix wq, wk, wv;
  std::vector<float> bq, bk, bv, q_norm, k_norm;
};

QkvData make_qkv(const KernelSet& set, Random& random, DType dtype, const AttentionCase& c, std::int64_t hidden,
                 std::uint32_t rows, std::uint32_t context) {
  QkvData d;
  d.x = random.values(static_cast<std::size_t>(hidden) * rows);
  d.wq = make_matrix(set, random, dtype, c.n_heads * c.head_dim, hidden);
  d.wk = make_matrix(set, random, dtype, c.n_kv_heads * c.head_dim, hidden);
  d.wv = make_matrix(set, random, dtype, c.n_kv_heads * c.head_dim, hidden);
  d.bq = random.values(c.n_heads * c.head_dim);
  d.bk = random.values(c.n_kv_heads * c.head_dim);
  d.bv = random.values(c.n_kv_heads * c.head_dim);
  d.q_norm = random.values(c.head_dim);
  d.k_norm = random.values(c.head_dim);
  for (std::uint32_t p = 0; p < context; ++p)
    for (std::uint32_t i = 0; i < c.head_dim / 2; ++i) {
      const double angle = p / std::pow(100.0, 2.0 * i / c.head_dim);
      d.rope.push_back(static_cast<float>(std::cos(angle)));
      d.rope.push_back(static_cast<float>(std::sin(angle)));
    }
  return d;
}

/// One head of one row in float64.
std::vector<double> project_head(const float* x, const TestMatrix& w, const std::vector<float>& bias,
                                 std::uint32_t head, std::uint32_t width, const std::vector<float>* norm,
                                 const float* rope) {
  std::vector<double> v(width);
  for (std::uint32_t i = 0; i < width; ++i)
    v[i] = dot(x, w.values.data() + (head * width + i) * w.view.cols, w.view.cols).value + bias[head * width + i];
  if (norm != nullptr) {
    double squares = 0;
    for (const double a : v) squares += a * a;
    for (std::uint32_t i = 0; i < width; ++i) v[i] *= (*norm)[i] / std::sqrt(squares / width + 1e-5f);
  }
  if (rope != nullptr) {
    for (std::uint32_t i = 0; i < width / 2; ++i) {
      const double a = v[i], b = v[i + width / 2], cosine = rope[2 * i], sine = rope[2 * i + 1];
      v[i] = a * cosine - b * sine;
      v[i + width / 2] = b * cosine + a * sine;
    }
  }
  return v;
}

void check_close(double got, double want, double scale, const char* what) {
  // Projection (cols / 16 + 8 roundings), head norm, rotation: under 40 roundings of values up to `scale`.
  INFO(what << ": got " << got << ", want " << want);
  REQUIRE(std::fabs(got - want) <= 40 * kEps * scale);
}

double largest(const std::vector<double>& v) {
  double m = 1e-30;
  for (const double a : v) m = std::max(m, std::fabs(a));
  return m;
}

void test_qkv(const KernelSet& set, DType dtype) {
  Random random(6);
  const AttentionCase c{6, 2, 10, 32, 0, {70, 3, 40}, false};
  const std::int64_t hidden = 33;
  KvLayout layout{DType::f32,    2, c.n_kv_heads, c.head_dim, set.kv_head_dim_padded(c.head_dim, DType::f32),
                  c.block_tokens};
  TestCache cache(layout, c.lengths);
  // Batch: 69 rows of sequence 0 from position 1, all of sequence 1, one row of sequence 2 at position 39.
  const std::vector<Sequence> sequences = {
      {cache.view(0), 0, 69, 1}, {cache.view(1), 69, 3, 0}, {cache.view(2), 72, 1, 39}};
  const QkvData d = make_qkv(set, random, dtype, c, hidden, 73, 100);
  std::vector<float> q(73 * c.n_heads * c.head_dim);
  QkvArgs args;
  args.n = 73;
  args.x = {const_cast<float*>(d.x.data()), hidden};
  args.wq = d.wq.view, args.wk = d.wk.view, args.wv = d.wv.view;
  args.bq = d.bq.data(), args.bk = d.bk.data(), args.bv = d.bv.data();
  args.q_norm = d.q_norm.data(), args.k_norm = d.k_norm.data();
  args.norm_eps = 1e-5f;
  args.rope = d.rope.data();
  args.n_heads = c.n_heads;
  args.kv = layout;
  args.layer = 1;
  args.sequences = sequences;
  args.q = {q.data(), c.n_heads * c.head_dim};
  std::vector<std::byte> memory;
  run_all(set.qkv, args, set.qkv_workspace({73, 33, c.n_heads, c.n_kv_heads, c.head_dim, 1, 1, 100}), memory, 3);
  for (const Sequence& s : sequences) {
    for (std::int32_t r = 0; r < s.n_rows; ++r) {
      const std::uint32_t position = s.first_position + static_cast<std::uint32_t>(r);
      const float* x = d.x.data() + (s.first_row + r) * hidden;
      const float* rope = d.rope.data() + position * c.head_dim;
      for (std::uint32_t h = 0; h < c.n_heads; ++h) {
        const auto want = project_head(x, d.wq, d.bq, h, c.head_dim, &d.q_norm, rope);
        for (std::uint32_t i = 0; i < c.head_dim; ++i)
          check_close(q[static_cast<std::size_t>(s.first_row + r) * 60 + h * 10 + i], want[i], 4 * largest(want),
                      "query");
      }
      for (std::uint32_t h = 0; h < c.n_kv_heads; ++h) {
        const auto k = project_head(x, d.wk, d.bk, h, c.head_dim, &d.k_norm, rope);
        const auto v = project_head(x, d.wv, d.bv, h, c.head_dim, nullptr, nullptr);
        // The order inside a tile is the set's own; the reference has keys [d][32] and values [32][d].
        const float* k_tile = reinterpret_cast<const float*>(s.kv.k_tile(layout, 1, h, position / 32));
        const float* v_tile = k_tile + layout.tile_bytes() / 4;
        for (std::uint32_t i = 0; i < c.head_dim; ++i) {
          check_close(k_tile[i * 32 + position % 32], k[i], 4 * largest(k), "key");
          check_close(v_tile[(position % 32) * layout.head_dim_padded + i], v[i], 16 * largest(v), "value");
        }
      }
    }
  }
}

/// Fills the cache with random keys and values of one layer and returns them as f32.
void fill_cache(TestCache& cache, Random& random, std::size_t sequence, std::uint32_t length, std::vector<float>& keys,
                std::vector<float>& values) {
  const KvLayout& l = cache.layout;
  const auto put = [&](std::byte* at, float value) -> float {
    if (l.type == DType::f32) {
      std::memcpy(at, &value, 4);
      return value;
    }
    const std::uint16_t bits = l.type == DType::f16 ? f32_to_f16(value) : f32_to_bf16(value);
    std::memcpy(at, &bits, 2);
    return l.type == DType::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
  };
  const std::size_t size = dtype_bytes(l.type);
  for (std::uint32_t p = 0; p < length; ++p)
    for (std::uint32_t h = 0; h < l.n_kv_heads; ++h)
      for (std::uint32_t i = 0; i < l.head_dim; ++i) {
        std::byte* tile = cache.view(sequence).k_tile(l, 0, h, p / 32);
        keys.push_back(put(tile + (i * 32 + p % 32) * size, random.value()));
        values.push_back(put(tile + l.tile_bytes() + ((p % 32) * l.head_dim_padded + i) * size, random.value()));
      }
}

std::vector<double> attend(const float* q, const std::vector<float>& keys, const std::vector<float>& values,
                           const KvLayout& l, std::uint32_t h, std::uint32_t position, std::uint32_t window,
                           float scale) {
  const std::uint32_t first = window != 0 && position >= window ? position - window + 1 : 0;
  std::vector<double> weights, out(l.head_dim);
  double max = -INFINITY, total = 0;
  const auto at = [&](std::uint32_t p) { return (static_cast<std::size_t>(p) * l.n_kv_heads + h) * l.head_dim; };
  for (std::uint32_t p = first; p <= position; ++p) {
    weights.push_back(dot(q, keys.data() + at(p), l.head_dim).value * scale);
    max = std::max(max, weights.back());
  }
  for (double& w : weights) total += w = std::exp(w - max);
  for (std::uint32_t p = first; p <= position; ++p)
    for (std::uint32_t i = 0; i < l.head_dim; ++i) out[i] += weights[p - first] / total * values[at(p) + i];
  return out;
}

void attention_case(const KernelSet& set, DType type, const AttentionCase& c) {
  Random random(7);
  KvLayout layout{type, 1, c.n_kv_heads, c.head_dim, set.kv_head_dim_padded(c.head_dim, type), c.block_tokens};
  TestCache cache(layout, c.lengths);
  std::vector<Sequence> sequences;
  std::vector<std::vector<float>> keys(c.lengths.size()), values(c.lengths.size());
  std::int32_t rows = 0;
  for (std::size_t s = 0; s < c.lengths.size(); ++s) {
    fill_cache(cache, random, s, c.lengths[s], keys[s], values[s]);
    const std::int32_t n = c.split ? 1 : static_cast<std::int32_t>(std::min(c.lengths[s], 37u));
    sequences.push_back({cache.view(s), rows, n, c.lengths[s] - static_cast<std::uint32_t>(n)});
    rows += n;
  }
  const std::uint32_t width = c.n_heads * c.head_dim;
  std::vector<float> q = random.values(static_cast<std::size_t>(rows) * width), out(q.size(), NAN);
  AttentionArgs args;
  args.q = {q.data(), width};
  args.out = {out.data(), width};
  args.n_heads = c.n_heads;
  args.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.head_dim)));
  args.window = c.window;
  args.kv = layout;
  args.sequences = sequences;
  args.split = c.split;
  WorkspaceSize size = set.attention_workspace({static_cast<std::uint32_t>(rows), 1, c.n_heads, c.n_kv_heads,
                                                c.head_dim, 1, 1, 4096, layout.head_dim_padded, 3});
  if (c.split) size.shared = std::max(size.shared, set.attention_split_bytes(args));
  std::vector<std::byte> memory;
  run_all(set.attention, args, size, memory, 3);
  for (std::size_t s = 0; s < sequences.size(); ++s)
    for (std::int32_t r = 0; r < sequences[s].n_rows; ++r)
      for (std::uint32_t h = 0; h < c.n_heads; ++h) {
        const auto row = static_cast<std::size_t>(sequences[s].first_row + r);
        const std::uint32_t position = sequences[s].first_position + static_cast<std::uint32_t>(r);
        const auto want = attend(q.data() + row * width + h * c.head_dim, keys[s], values[s], layout,
                                 h / (c.n_heads / c.n_kv_heads), position, c.window, args.scale);
        // Weights err by exp's 2e-7 and by the error of the score, under head_dim * eps * |q||k| <= 1e-5 here (spread
        // 2^1, head_dim <= 128); the sum over positions adds position / 32 roundings. Values reach about 8.
        for (std::uint32_t i = 0; i < c.head_dim; ++i) {
          INFO("sequence " << s << " row " << r << " head " << h << " element " << i);
          REQUIRE(std::fabs(out[row * width + h * c.head_dim + i] - want[i]) <= 8 * (1e-5 + position * kEps));
        }
      }
}

void test_attention(const KernelSet& set, DType type) {
  attention_case(set, type, {6, 2, 48, 32, 0, {1, 33, 70, 520}, false});
  attention_case(set, type, {4, 4, 8, 64, 0, {32, 64, 1100}, false});
  attention_case(set, type, {8, 1, 128, 256, 0, {600}, false});
  attention_case(set, type, {3, 1, 10, 32, 20, {19, 20, 21, 100, 600}, false});
  attention_case(set, type, {2, 1, 16, 128, 700, {1500}, false});
  attention_case(set, type, {6, 2, 48, 32, 0, {513, 1600, 1}, true});
  attention_case(set, type, {4, 2, 16, 64, 600, {1700, 600}, true});
}

using Test = void (*)(const KernelSet&, DType);

Test test_of(std::string_view operation) {
  const std::map<std::string_view, Test> tests = {
      {"embed", test_embed},         {"rms_norm", test_rms_norm}, {"linear", test_linear},  {"qkv", test_qkv},
      {"attention", test_attention}, {"ffn", test_ffn},           {"lm_head", test_lm_head}};
  const auto it = tests.find(operation);
  return it == tests.end() ? nullptr : it->second;
}

std::vector<DType> dtypes_of(std::string_view text) {
  std::vector<DType> out;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    if ((" " + std::string(text) + " ").find(" " + std::string(dtype_name(dtype)) + " ") != std::string::npos)
      out.push_back(dtype);
  if (out.empty()) out.push_back(DType::f32);
  return out;
}

}  // namespace

TEST_CASE("every kernel of the table equals its definition in float64", "[kernels]") {
  REQUIRE(!kernel_table().empty());
  for (const KernelInfo& kernel : kernel_table()) {
    const KernelSet* set = find_kernel_set(kernel.kernel_set);
    if (set == nullptr) {
      WARN("this CPU cannot run " << kernel.kernel_set << ": " << kernel.operation << " is not tested here");
      continue;
    }
    const Test test = test_of(kernel.operation);
    INFO(kernel.kernel_set << " " << kernel.operation << " has no test");
    REQUIRE(test != nullptr);
    for (const DType dtype : dtypes_of(kernel.weight_dtypes)) {
      INFO("dtype " << dtype_name(dtype));
      test(*set, dtype);
    }
  }
}

TEST_CASE("split attention gives the bits of whole attention", "[kernels]") {
  const KernelSet& set = *find_kernel_set("");
  Random random(8);
  for (const std::uint32_t window : {0u, 700u}) {
    KvLayout layout{DType::f16, 1, 2, 16, set.kv_head_dim_padded(16, DType::f16), 32};
    TestCache cache(layout, {2100});
    std::vector<float> keys, values;
    fill_cache(cache, random, 0, 2100, keys, values);
    std::vector<float> q = random.values(6 * 16), whole(6 * 16), split(6 * 16);
    const Sequence sequence{cache.view(0), 0, 1, 2099};
    AttentionArgs args;
    args.q = {q.data(), 96};
    args.n_heads = 6;
    args.scale = 0.25f;
    args.window = window;
    args.kv = layout;
    args.sequences = {&sequence, 1};
    const WorkspaceSize size = set.attention_workspace({1, 1, 6, 2, 16, 1, 1, 4096, layout.head_dim_padded, 4});
    std::vector<std::byte> memory;
    args.out = {whole.data(), 96};
    run_all(set.attention, args, size, memory, 1);
    args.split = true;
    args.out = {split.data(), 96};
    REQUIRE(set.attention_split_bytes(args) <= size.shared);
    run_all(set.attention, args, size, memory, 4);
    CHECK(std::memcmp(whole.data(), split.data(), whole.size() * 4) == 0);
  }
}

TEST_CASE("not a number and infinity pass through linear layers", "[kernels]") {
  const KernelSet& set = *find_kernel_set("");
  for (const float poison : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> w(2 * 20, 1.0f), x(20, 1.0f), out(2);
    x[17] = poison;
    w[20 + 17] = 0.0f;  // infinity times zero is NaN, not silently zero
    LinearArgs args{
        1,       {x.data(), 20}, {reinterpret_cast<std::byte*>(w.data()), {DType::f32, WeightLayout::row_major}, 2, 20},
        nullptr, false,          {out.data(), 2},
        {}};
    std::vector<std::byte> memory;
    run_all(set.linear, args, set.linear_workspace({1, 20, 1, 1, 2, 1, 1, 1}), memory, 1);
    CHECK(!std::isfinite(out[0]));
    CHECK(std::isnan(out[1]));
  }
}

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
