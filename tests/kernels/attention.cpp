// q/k/v with head norm, rotation and the write to the cache, and attention over it, against float64.
#include "kernels/support.h"

namespace qinfer::test {
namespace {

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
  std::uint32_t n_heads = 0, n_kv_heads = 0, head_dim = 0, block_tokens = 32, window = 0;
  std::vector<std::uint32_t> lengths = {};
  bool split = false;
  float softcap = 0;
  bool causal = true;
  float rise = 1;        ///< the keys of later positions, from 40 on, are this many times as long
  float value_unit = 1;  ///< of values
  std::int64_t hidden = 33;
};

struct QkvData {
  std::vector<float> x, rope;
  TestMatrix wq, wk, wv;
  std::vector<float> bq, bk, bv, q_norm, k_norm;
};

/// Types of the three projections.
struct QkvTypes {
  DType q, k, v;
  bool same() const { return q == k && q == v; }
};

QkvData make_qkv(const KernelSet& set, Random& random, const QkvTypes& types, const AttentionCase& c,
                 std::int64_t hidden, std::uint32_t rows, std::uint32_t context) {
  QkvData d;
  d.x = as_activations(set, random.values(static_cast<std::size_t>(hidden) * rows), rows);
  d.wq = make_matrix(set, random, types.q, c.n_heads * c.head_dim, hidden);
  d.wk = make_matrix(set, random, types.k, c.n_kv_heads * c.head_dim, hidden);
  d.wv = make_matrix(set, random, types.v, c.n_kv_heads * c.head_dim, hidden);
  d.bq = random.values(c.n_heads * c.head_dim);
  d.bk = random.values(c.n_kv_heads * c.head_dim);
  d.bv = random.values(c.n_kv_heads * c.head_dim);
  d.q_norm = random.values(c.n_heads * c.head_dim);  // where each head has a norm of its own, the first ones count
  d.k_norm = random.values(c.n_kv_heads * c.head_dim);
  for (std::uint32_t p = 0; p < context; ++p)
    for (std::uint32_t i = 0; i < c.head_dim / 2; ++i) {
      const double angle = p / std::pow(100.0, 2.0 * i / c.head_dim);
      d.rope.push_back(static_cast<float>(std::cos(angle)));
      d.rope.push_back(static_cast<float>(std::sin(angle)));
    }
  return d;
}

/// Of all three layers.
constexpr float kScale = 0.75f;

/// All rows of a projection: in float64, or where it is summed in f16 by the set's own linear layer, whose bits have a
/// test.
std::vector<double> project(const KernelSet& set, const std::vector<float>& x, std::int64_t n, TestMatrix w,
                            const std::vector<float>& bias, float largest, bool in_f16) {
  const std::int64_t cols = w.view.cols, outputs = w.view.rows;
  std::vector<double> all;
  if (in_f16) {
    ActivationBuffer in = operand(set, x.data(), n, cols), out = residual(set, n, outputs);
    w.view.pack.largest = largest;
    LinearArgs args{n, in.view(), {w.view, bias.data(), kScale}, false, out.view(), {}};
    std::vector<std::byte> memory;
    const Shape shape{.batch = static_cast<std::uint32_t>(n),
                      .hidden = static_cast<std::uint32_t>(cols),
                      .n_heads = 1,
                      .n_kv_heads = 1,
                      .head_dim = 2,
                      .ffn = 1,
                      .vocab = 1,
                      .context = 1};
    run_all(set.linear, args, set.linear_workspace(shape), memory, 1);
    const std::vector<float> rows = out.rows();
    all.assign(rows.begin(), rows.end());
    return all;
  }
  for (std::int64_t m = 0; m < n; ++m)
    for (std::int64_t j = 0; j < outputs; ++j)
      all.push_back(
          (dot(x.data() + m * cols, w.values.data() + j * cols, cols).value + bias[static_cast<std::size_t>(j)]) *
          kScale);
  return all;
}

/// What a root mean square is taken over.
enum class QkNorm : std::uint8_t { none, by_head, whole };

/// RMSNorm of rows of the weights' width, in float64.
void norm_rows(std::vector<double>& rows, const std::vector<float>& weights) {
  for (std::size_t first = 0; first < rows.size(); first += weights.size()) {
    double squares = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) squares += rows[first + i] * rows[first + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(weights.size()) + 1e-5f);
    for (std::size_t i = 0; i < weights.size(); ++i) rows[first + i] *= scale * weights[i];
  }
}

/// One head of one row in float64: norm and rotation of what was projected.
std::vector<double> finish_head(const double* projected, std::uint32_t width, const std::vector<float>* norm,
                                const float* rope) {
  std::vector<double> v(projected, projected + width);
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

void check_close(double got, double want, std::int64_t cols, double scale, const char* what) {
  // Projection (a sum of cols products), head norm, rotation: cols + 20 roundings of values up to `scale`.
  INFO(what << ": got " << got << ", want " << want);
  REQUIRE(std::fabs(got - want) <= static_cast<double>(cols + 20) * kEps * scale);
}

/// Queries that lie in panels are rounded to bf16.
void check_query(const KernelSet& set, double got, double want, std::int64_t cols, double scale, std::int64_t n) {
  if (set.layouts.query_of(n) == ActivationLayout::row_major) return check_close(got, want, cols, scale, "query");
  INFO("query: got " << got << ", want " << want);
  REQUIRE(std::fabs(got - want) <= static_cast<double>(cols + 20) * kEps * scale + kBf16 * std::fabs(want));
}

double largest(const std::vector<double>& v) {
  double m = 1e-30;
  for (const double a : v) m = std::max(m, std::fabs(a));
  return m;
}

struct QkvOptions {
  QkNorm norm = QkNorm::by_head;
  bool queries_only = false, turned = true;
};

/// `c.lengths` are those of three sequences: many rows, all of a short one, and one row that decodes.
void qkv_case(const KernelSet& set, const QkvTypes& types, const AttentionCase& c, const QkvOptions& options) {
  const auto [norm, queries_only, turned] = options;
  Random random(6);
  const std::int64_t hidden = c.hidden, width = c.head_dim;
  const KvLayout layout{DType::f32,
                        2,
                        c.n_kv_heads,
                        c.head_dim,
                        set.kv_head_dim_padded(c.head_dim, DType::f32),
                        c.block_tokens,
                        set.kv_order(DType::f32)};
  TestCache cache(layout, c.lengths);
  const auto many = static_cast<std::int32_t>(c.lengths[0] - 1), few = static_cast<std::int32_t>(c.lengths[1]);
  const std::vector<Sequence> sequences = {
      {cache.view(0), 0, many, 1}, {cache.view(1), many, few, 0}, {cache.view(2), many + few, 1, c.lengths[2] - 1}};
  const std::int32_t n = many + few + 1;
  const QkvData d = make_qkv(set, random, types, c, hidden, static_cast<std::uint32_t>(n), 100);
  ActivationBuffer x = operand(set, d.x.data(), n, hidden);
  Queries q(set, n, c.n_heads, c.head_dim);
  QkvArgs args;
  args.n = n;
  args.x = x.view();
  args.wq = {d.wq.view, d.bq.data(), kScale};
  if (!queries_only) args.wk = {d.wk.view, d.bk.data(), kScale}, args.wv = {d.wv.view, d.bv.data(), kScale};
  if (norm != QkNorm::none) args.q_norm = d.q_norm.data(), args.k_norm = d.k_norm.data();
  args.norm_whole = norm == QkNorm::whole;
  args.norm_eps = 1e-5f;
  if (turned) args.rope = d.rope.data();
  args.n_heads = c.n_heads;
  args.kv = layout;
  args.layer = 1;
  args.sequences = sequences;
  args.q = q.values.view();
  std::vector<std::byte> memory;
  Shape shape{.batch = static_cast<std::uint32_t>(n),
              .hidden = static_cast<std::uint32_t>(hidden),
              .n_heads = c.n_heads,
              .n_kv_heads = c.n_kv_heads,
              .head_dim = c.head_dim,
              .ffn = 1,
              .vocab = 1,
              .context = 100};
  shape.qk_norm_whole = args.norm_whole;
  run_all(set.qkv, args, set.qkv_workspace(shape), memory, 3);
  const float most = queries_only ? d.wq.view.pack.largest
                                  : std::max({d.wq.view.pack.largest, d.wk.view.pack.largest, d.wv.view.pack.largest});
  if (queries_only)  // the cache is as it was
    CHECK(std::all_of(cache.arena.begin(), cache.arena.end(), [](std::byte b) { return b == std::byte{0xff}; }));
  const bool in_f16 = sums_in_f16(set, types.q) && (queries_only || types.same());  // matrices that differ: in f32
  std::vector<double> all_q = project(set, d.x, n, d.wq, d.bq, most, in_f16),
                      all_k = project(set, d.x, n, d.wk, d.bk, most, in_f16);
  const std::vector<double> all_v = project(set, d.x, n, d.wv, d.bv, most, in_f16);
  if (args.norm_whole) norm_rows(all_q, d.q_norm), norm_rows(all_k, d.k_norm);
  const bool by_head = norm == QkNorm::by_head;
  for (const Sequence& s : sequences)
    for (std::int32_t r = 0; r < s.n_rows; ++r) {
      const std::uint32_t position = s.first_position + static_cast<std::uint32_t>(r);
      const auto row = static_cast<std::size_t>(s.first_row + r);
      const float* rope = turned ? d.rope.data() + position * width : nullptr;
      for (std::uint32_t h = 0; h < c.n_heads; ++h) {
        const std::size_t at = (row * c.n_heads + h) * c.head_dim;
        const auto want = finish_head(all_q.data() + at, c.head_dim, by_head ? &d.q_norm : nullptr, rope);
        REQUIRE(q.filled_up(s.first_row + r, h));
        for (std::uint32_t i = 0; i < c.head_dim; ++i)
          check_query(set, q.get(s.first_row + r, h, i), want[i], hidden, 4 * largest(want), n);
      }
      for (std::uint32_t h = 0; h < (queries_only ? 0 : c.n_kv_heads); ++h) {
        const std::size_t at = (row * c.n_kv_heads + h) * c.head_dim;
        const auto k = finish_head(all_k.data() + at, c.head_dim, by_head ? &d.k_norm : nullptr, rope);
        const auto v = finish_head(all_v.data() + at, c.head_dim, nullptr, nullptr);
        const float* k_tile = reinterpret_cast<const float*>(s.kv.k_tile(layout, 1, h, position / 32));
        const float* v_tile = k_tile + layout.tile_bytes() / 4;
        for (std::uint32_t i = 0; i < c.head_dim; ++i) {
          check_close(k_tile[layout.k_index(position, i)], k[i], hidden, 16 * largest(k), "key");
          check_close(v_tile[layout.v_index(position, i)], v[i], hidden, 16 * largest(v), "value");
        }
        if (layout.order == KvOrder::key_rows)
          for (std::uint32_t i = c.head_dim; i < layout.head_dim_padded; ++i)
            REQUIRE(k_tile[layout.k_index(position, i)] == 0);
      }
    }
}

}  // namespace

void test_qkv(const KernelSet& set, DType dtype) {
  const QkvTypes same{dtype, dtype, dtype};
  // Layers that do not turn queries and keys have the same shapes.
  for (const bool turned : {true, false}) {
    const QkvOptions normed{QkNorm::by_head, false, turned}, plain{QkNorm::none, false, turned},
        queries{QkNorm::by_head, true, turned};
    qkv_case(set, same, {.n_heads = 6, .n_kv_heads = 2, .head_dim = 10, .block_tokens = 32, .lengths = {70, 3, 40}},
             normed);
    qkv_case(set, same, {.n_heads = 6, .n_kv_heads = 2, .head_dim = 10, .block_tokens = 32, .lengths = {70, 3, 40}},
             queries);
    qkv_case(set, same, {.n_heads = 4, .n_kv_heads = 4, .head_dim = 8, .block_tokens = 32, .lengths = {70, 3, 40}},
             plain);
    qkv_case(set, same, {.n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .block_tokens = 64, .lengths = {35, 1, 65}},
             normed);
    qkv_case(set, same, {.n_heads = 3, .n_kv_heads = 3, .head_dim = 48, .block_tokens = 32, .lengths = {34, 12, 1}},
             normed);
    qkv_case(set, same, {.n_heads = 2, .n_kv_heads = 1, .head_dim = 64, .block_tokens = 32, .lengths = {20, 2, 33}},
             normed);
    qkv_case(set, same, {.n_heads = 5, .n_kv_heads = 1, .head_dim = 80, .block_tokens = 32, .lengths = {3, 1, 32}},
             normed);
    qkv_case(set, same, {.n_heads = 2, .n_kv_heads = 2, .head_dim = 128, .block_tokens = 128, .lengths = {2, 1, 64}},
             normed);
    qkv_case(set, same, {.n_heads = 2, .n_kv_heads = 1, .head_dim = 256, .block_tokens = 32, .lengths = {14, 3, 8}},
             normed);
    qkv_case(set, same, {.n_heads = 3, .n_kv_heads = 1, .head_dim = 48, .block_tokens = 32, .lengths = {2, 1, 20}},
             normed);
    qkv_case(set, same, {.n_heads = 3, .n_kv_heads = 1, .head_dim = 48, .block_tokens = 32, .lengths = {2, 1, 20}},
             plain);
    // More columns than a worker stages at once.
    qkv_case(
        set, same,
        {.n_heads = 3, .n_kv_heads = 1, .head_dim = 80, .block_tokens = 32, .lengths = {40, 3, 33}, .hidden = 2100},
        normed);
    qkv_case(
        set, same,
        {.n_heads = 2, .n_kv_heads = 1, .head_dim = 256, .block_tokens = 32, .lengths = {40, 3, 8}, .hidden = 1100},
        normed);
  }
  // A norm over all heads: few rows and many, heads of all tails, queries alone.
  const QkvOptions whole{QkNorm::whole};
  for (const std::uint32_t many : {2u, 3u, 5u, 6u, 7u, 14u, 15u, 38u, 70u}) {
    qkv_case(set, same, {.n_heads = 6, .n_kv_heads = 2, .head_dim = 10, .block_tokens = 32, .lengths = {many, 3, 40}},
             whole);
    qkv_case(set, same, {.n_heads = 3, .n_kv_heads = 1, .head_dim = 48, .block_tokens = 64, .lengths = {many, 1, 65}},
             whole);
  }
  qkv_case(set, same, {.n_heads = 6, .n_kv_heads = 2, .head_dim = 10, .block_tokens = 32, .lengths = {70, 3, 40}},
           {QkNorm::whole, true});
  qkv_case(set, same, {.n_heads = 6, .n_kv_heads = 2, .head_dim = 10, .block_tokens = 32, .lengths = {70, 3, 40}},
           {QkNorm::whole, false, false});
  qkv_case(set, same, {.n_heads = 4, .n_kv_heads = 4, .head_dim = 2, .block_tokens = 32, .lengths = {20, 2, 33}},
           whole);
  qkv_case(set, same, {.n_heads = 3, .n_kv_heads = 3, .head_dim = 16, .block_tokens = 32, .lengths = {34, 12, 1}},
           whole);
  qkv_case(set, same, {.n_heads = 5, .n_kv_heads = 1, .head_dim = 80, .block_tokens = 32, .lengths = {3, 1, 32}},
           whole);
  qkv_case(set, same, {.n_heads = 2, .n_kv_heads = 1, .head_dim = 256, .block_tokens = 32, .lengths = {14, 3, 8}},
           whole);
  // Each projection may have a type of its own.
  for (const DType k : weight_dtypes(set))
    for (const DType v : weight_dtypes(set)) {
      qkv_case(set, {dtype, k, v},
               {.n_heads = 6, .n_kv_heads = 2, .head_dim = 10, .block_tokens = 32, .lengths = {70, 3, 40}}, {});
      qkv_case(set, {dtype, k, v},
               {.n_heads = 3, .n_kv_heads = 1, .head_dim = 48, .block_tokens = 32, .lengths = {2, 1, 20}}, {});
      qkv_case(set, {dtype, k, v},
               {.n_heads = 6, .n_kv_heads = 2, .head_dim = 10, .block_tokens = 32, .lengths = {20, 3, 40}}, whole);
      if (k != dtype)
        qkv_case(set, {dtype, k, v},
                 {.n_heads = 2, .n_kv_heads = 1, .head_dim = 64, .block_tokens = 32, .lengths = {20, 2, 33}},
                 {QkNorm::by_head, true});
    }
}

namespace {

/// Fills the cache with random keys and values of one layer and returns them as f32.
void fill_cache(const KernelSet& set, TestCache& cache, Random& random, std::size_t sequence, std::uint32_t length,
                std::vector<float>& keys, std::vector<float>& values, float rise = 1, float value_unit = 1) {
  const KvLayout& l = cache.layout;
  const auto put = [&](std::byte* at, float value) -> float {
    if (attention_rounds_to_bf16(set, l.type)) value = bf16_to_f32(f32_to_bf16(value));
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
    for (std::uint32_t h = 0; h < l.n_kv_heads; ++h) {
      if (l.order == KvOrder::key_rows)
        for (std::uint32_t i = l.head_dim; i < l.head_dim_padded; ++i)
          put(cache.view(sequence).k_tile(l, 0, h, p / 32) + l.k_index(p, i) * size, 0);
      for (std::uint32_t i = 0; i < l.head_dim; ++i) {
        std::byte* tile = cache.view(sequence).k_tile(l, 0, h, p / 32);
        keys.push_back(put(tile + l.k_index(p, i) * size, random.value() * (p < 40 ? 1 : rise)));
        values.push_back(put(tile + l.tile_bytes() + l.v_index(p, i) * size, random.value() * value_unit));
      }
    }
}

/// Values and, for bounds, the sums of the terms' magnitudes.
std::vector<Sum> attend(const float* q, const std::vector<float>& keys, const std::vector<float>& values,
                        const KvLayout& l, std::uint32_t h, std::uint32_t position, const AttentionCase& c,
                        std::uint32_t length, float scale) {
  const std::uint32_t first = c.window != 0 && position >= c.window ? position - c.window + 1 : 0;
  const std::uint32_t last = c.causal        ? position
                             : c.window == 0 ? length - 1
                                             : std::min(length - 1, position + c.window - 1);
  std::vector<double> weights;
  std::vector<Sum> out(l.head_dim);
  double max = -INFINITY, total = 0;
  const auto at = [&](std::uint32_t p) { return (static_cast<std::size_t>(p) * l.n_kv_heads + h) * l.head_dim; };
  for (std::uint32_t p = first; p <= last; ++p) {
    weights.push_back(dot(q, keys.data() + at(p), l.head_dim).value * scale);
    if (c.softcap != 0) weights.back() = c.softcap * std::tanh(weights.back() / c.softcap);
    max = std::max(max, weights.back());
  }
  for (double& w : weights) total += w = std::exp(w - max);
  for (std::uint32_t p = first; p <= last; ++p)
    for (std::uint32_t i = 0; i < l.head_dim; ++i) {
      const double term = weights[p - first] / total * values[at(p) + i];
      out[i].value += term;
      out[i].magnitude += std::fabs(term);
    }
  return out;
}

void attention_case(const KernelSet& set, DType type, const AttentionCase& c) {
  Random random(7);
  KvLayout layout{
      type, 1, c.n_kv_heads, c.head_dim, set.kv_head_dim_padded(c.head_dim, type), c.block_tokens, set.kv_order(type)};
  TestCache cache(layout, c.lengths);
  std::vector<Sequence> sequences;
  std::vector<std::vector<float>> keys(c.lengths.size()), values(c.lengths.size());
  std::int32_t rows = 0;
  for (std::size_t s = 0; s < c.lengths.size(); ++s) {
    fill_cache(set, cache, random, s, c.lengths[s], keys[s], values[s], c.rise, c.value_unit);
    const std::uint32_t most = c.split ? 1 : c.causal ? 37 : c.lengths[s];
    const auto n = static_cast<std::int32_t>(std::min(c.lengths[s], most));
    sequences.push_back({cache.view(s), rows, n, c.lengths[s] - static_cast<std::uint32_t>(n)});
    rows += n;
  }
  const std::uint32_t width = c.n_heads * c.head_dim;
  const std::vector<float> q = as_activations(set, random.values(static_cast<std::size_t>(rows) * width));
  Queries queries(set, q, rows, c.n_heads, c.head_dim);
  ActivationBuffer out(set.layouts.operand_of(rows), rows, width);
  AttentionArgs args;
  args.n = rows;
  args.q = queries.values.view();
  args.out = out.view();
  args.n_heads = c.n_heads;
  args.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.head_dim)));
  args.window = c.window;
  args.softcap = c.softcap;
  args.causal = c.causal;
  args.kv = layout;
  args.sequences = sequences;
  args.split = c.split;
  WorkspaceSize size = set.attention_workspace({.batch = static_cast<std::uint32_t>(rows),
                                                .hidden = 1,
                                                .n_heads = c.n_heads,
                                                .n_kv_heads = c.n_kv_heads,
                                                .head_dim = c.head_dim,
                                                .ffn = 1,
                                                .vocab = 1,
                                                .context = 4096,
                                                .head_dim_padded = layout.head_dim_padded,
                                                .n_threads = 3});
  if (c.split) size.shared = std::max(size.shared, set.attention_split_bytes(args));
  std::vector<std::byte> memory;
  run_all(set.attention, args, size, memory, 3);
  CHECK(out.filled_up());
  double error = 0, scale = 0;
  for (std::size_t s = 0; s < sequences.size(); ++s)
    for (std::int32_t r = 0; r < sequences[s].n_rows; ++r)
      for (std::uint32_t h = 0; h < c.n_heads; ++h) {
        const auto row = static_cast<std::size_t>(sequences[s].first_row + r);
        const std::uint32_t position = sequences[s].first_position + static_cast<std::uint32_t>(r);
        const auto want = attend(q.data() + row * width + h * c.head_dim, keys[s], values[s], layout,
                                 h / (c.n_heads / c.n_kv_heads), position, c, c.lengths[s], args.scale);
        for (std::uint32_t i = 0; i < c.head_dim; ++i) {
          INFO("sequence " << s << " row " << r << " head " << h << " element " << i);
          const double got = out.get(static_cast<std::int64_t>(row), h * c.head_dim + i);
          const double wrong = std::fabs(got - want[i].value);
          // Weights err by exp's 2e-7 and by the error of the score, under head_dim * eps * |q||k| <= 1e-5 here (spread
          // 2^1, head_dim <= 256); the sum over positions adds position / 32 roundings. Values reach about 8.
          const std::uint32_t seen = c.causal ? position : c.lengths[s];
          // A soft cap adds 4e-7 of itself to each score.
          double bound = 8 * (1e-5 * c.rise + seen * kEps + c.softcap * 4e-7) * c.value_unit;
          // f16: a weight is rounded (2^-11, or 2^-19 where 2^-6 of it is subnormal), so is each of 32 steps of a sum.
          if (attention_rounds_to_bf16(set, type)) bound += kBf16 * want[i].magnitude;  // of a weight
          // Of the result, where it is an operand in panels.
          if (set.layouts.operand_of(rows) != ActivationLayout::row_major) bound += kBf16 * std::fabs(want[i].value);
          if (sums_in_f16(set, type)) bound += 34 * 0x1p-11 * want[i].magnitude + 0x1p-19 * 8 * (seen + 1);
          REQUIRE(wrong <= bound);
          error += wrong * wrong;
          scale += want[i].magnitude * want[i].magnitude;
        }
      }
  // Typical rather than worst: sqrt(32) roundings of 2^-12 each are 1.4e-3.
  if (sums_in_f16(set, type)) CHECK(std::sqrt(error / scale) < 1.4e-3);
  if (c.rise == 1) return;
  // What a row sees does not depend on the rows beside it, whose scores may rise or not.
  for (const Sequence& sequence : sequences)
    for (std::int32_t r = 0; r < sequence.n_rows; ++r) {
      const std::int64_t row = sequence.first_row + r;
      Queries query(set, {q.begin() + row * width, q.begin() + (row + 1) * width}, 1, c.n_heads, c.head_dim);
      ActivationBuffer alone(set.layouts.operand_of(1), 1, width);
      const Sequence one{sequence.kv, 0, 1, sequence.first_position + static_cast<std::uint32_t>(r)};
      args.n = 1, args.q = query.values.view(), args.out = alone.view(), args.sequences = {&one, 1};
      run_all(set.attention, args, size, memory, 1);
      for (std::uint32_t i = 0; i < width; ++i) {
        const float got = alone.get(0, i);
        const bool rounded = set.layouts.operand_of(rows) != set.layouts.operand_of(1);
        REQUIRE(out.get(row, i) == (rounded ? bf16_to_f32(f32_to_bf16(got)) : got));
      }
    }
}

}  // namespace

void test_attention(const KernelSet& set, DType type) {
  attention_case(set, type,
                 {.n_heads = 6, .n_kv_heads = 2, .head_dim = 48, .block_tokens = 32, .lengths = {1, 33, 70, 520}});
  attention_case(set, type,
                 {.n_heads = 4, .n_kv_heads = 4, .head_dim = 8, .block_tokens = 64, .lengths = {32, 64, 1100}});
  attention_case(set, type, {.n_heads = 8, .n_kv_heads = 1, .head_dim = 128, .block_tokens = 256, .lengths = {600}});
  attention_case(set, type,
                 {.n_heads = 3,
                  .n_kv_heads = 1,
                  .head_dim = 10,
                  .block_tokens = 32,
                  .window = 20,
                  .lengths = {19, 20, 21, 100, 600}});
  attention_case(
      set, type,
      {.n_heads = 2, .n_kv_heads = 1, .head_dim = 16, .block_tokens = 128, .window = 700, .lengths = {1500}});
  attention_case(set, type, {.n_heads = 14, .n_kv_heads = 1, .head_dim = 24, .block_tokens = 32, .lengths = {40, 97}});
  // Scores that rise by more than the largest power of two that sums are sure to hold.
  for (const std::uint32_t window : {0u, 50u})
    attention_case(set, type,
                   {.n_heads = 3,
                    .n_kv_heads = 1,
                    .head_dim = 32,
                    .block_tokens = 32,
                    .window = window,
                    .lengths = {50, 100, 20},
                    .rise = 200});
  // By less, but of values that are nearly as large as there are.
  if (type != DType::f16)
    attention_case(set, type,
                   {.n_heads = 3,
                    .n_kv_heads = 1,
                    .head_dim = 32,
                    .block_tokens = 32,
                    .lengths = {70},
                    .rise = 8,
                    .value_unit = 0x1p95f});
  attention_case(set, type,
                 {.n_heads = 5, .n_kv_heads = 5, .head_dim = 64, .block_tokens = 32, .lengths = {31, 32, 33, 513}});
  attention_case(set, type, {.n_heads = 2, .n_kv_heads = 2, .head_dim = 80, .block_tokens = 64, .lengths = {90}});
  attention_case(set, type,
                 {.n_heads = 4, .n_kv_heads = 2, .head_dim = 96, .block_tokens = 32, .window = 33, .lengths = {150}});
  attention_case(set, type, {.n_heads = 3, .n_kv_heads = 1, .head_dim = 256, .block_tokens = 32, .lengths = {70}});
  attention_case(
      set, type,
      {.n_heads = 6, .n_kv_heads = 2, .head_dim = 48, .block_tokens = 32, .lengths = {1, 33, 520}, .softcap = 0.7f});
  attention_case(set, type,
                 {.n_heads = 4,
                  .n_kv_heads = 1,
                  .head_dim = 16,
                  .block_tokens = 32,
                  .window = 20,
                  .lengths = {70, 600},
                  .split = true,
                  .softcap = 1.5f});
  attention_case(set, type,
                 {.n_heads = 4,
                  .n_kv_heads = 2,
                  .head_dim = 24,
                  .block_tokens = 32,
                  .lengths = {1, 33, 64, 130},
                  .causal = false});
  attention_case(set, type,
                 {.n_heads = 3,
                  .n_kv_heads = 1,
                  .head_dim = 16,
                  .block_tokens = 32,
                  .window = 9,
                  .lengths = {1, 8, 9, 10, 100},
                  .softcap = 0.9f,
                  .causal = false});
  attention_case(set, type,
                 {.n_heads = 2,
                  .n_kv_heads = 2,
                  .head_dim = 10,
                  .block_tokens = 64,
                  .window = 300,
                  .lengths = {700},
                  .causal = false});
  attention_case(
      set, type,
      {.n_heads = 7, .n_kv_heads = 1, .head_dim = 128, .block_tokens = 32, .lengths = {1, 600}, .split = true});
  attention_case(
      set, type,
      {.n_heads = 6, .n_kv_heads = 2, .head_dim = 48, .block_tokens = 32, .lengths = {513, 1600, 1}, .split = true});
  attention_case(set, type,
                 {.n_heads = 4,
                  .n_kv_heads = 2,
                  .head_dim = 16,
                  .block_tokens = 64,
                  .window = 600,
                  .lengths = {1700, 600},
                  .split = true});
  attention_case(set, type,
                 {.n_heads = 4,
                  .n_kv_heads = 2,
                  .head_dim = 10,
                  .block_tokens = 32,
                  .lengths = {1, 33, 513, 5, 6, 7, 8, 9, 10, 1100, 12},
                  .split = true});
}

}  // namespace qinfer::test

using namespace qinfer;
using namespace qinfer::test;

void qinfer::test::test_split_attention(const KernelSet& set) {
  Random random(8);
  for (const auto& [type, window] :
       {std::pair(DType::f16, 0u), std::pair(DType::f16, 700u), std::pair(DType::bf16, 0u)}) {
    KvLayout layout{type, 1, 2, 16, set.kv_head_dim_padded(16, type), 32, set.kv_order(type)};
    TestCache cache(layout, {2100});
    std::vector<float> keys, values;
    fill_cache(set, cache, random, 0, 2100, keys, values);
    const std::vector<float> q = random.values(6 * 16);
    Queries queries(set, q, 1, 6, 16);
    ActivationBuffer whole(set.layouts.operand_of(1), 1, 96), split(set.layouts.operand_of(1), 1, 96);
    const Sequence sequence{cache.view(0), 0, 1, 2099};
    AttentionArgs args;
    args.n = 1;
    args.q = queries.values.view();
    args.n_heads = 6;
    args.scale = 0.25f;
    args.window = window;
    args.kv = layout;
    args.sequences = {&sequence, 1};
    const WorkspaceSize size = set.attention_workspace({.batch = 1,
                                                        .hidden = 1,
                                                        .n_heads = 6,
                                                        .n_kv_heads = 2,
                                                        .head_dim = 16,
                                                        .ffn = 1,
                                                        .vocab = 1,
                                                        .context = 4096,
                                                        .head_dim_padded = layout.head_dim_padded,
                                                        .n_threads = 4});
    std::vector<std::byte> memory;
    args.out = whole.view();
    run_all(set.attention, args, size, memory, 1);
    args.split = true;
    args.out = split.view();
    REQUIRE(set.attention_split_bytes(args) <= size.shared);
    run_all(set.attention, args, size, memory, 4);
    CHECK(whole.rows() == split.rows());
  }
}

TEST_CASE("split attention gives the bits of whole attention", "[kernels]") {
  for (const KernelSet* set : usable_sets()) test_split_attention(*set);
}
