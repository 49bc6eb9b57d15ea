// q/k/v with head norm, rotation and the write to the cache, against float64.
#include "kernels/attention_support.h"

namespace qinfer::test {
namespace {

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
  d.x = as_activations(set, random.values(static_cast<std::size_t>(hidden) * rows));
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
    const Shape shape = linear_shape(n, cols);
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

/// One head of one row in float64: norm and rotation of what was projected, in this order or in the other one.
std::vector<double> finish_head(const double* projected, std::uint32_t width, const std::vector<float>* norm,
                                const float* rope, bool norm_last = false) {
  std::vector<double> v(projected, projected + width);
  const auto normalise = [&] {
    double squares = 0;
    for (const double a : v) squares += a * a;
    for (std::uint32_t i = 0; i < width; ++i) v[i] *= (*norm)[i] / std::sqrt(squares / width + 1e-5f);
  };
  if (norm != nullptr && !norm_last) normalise();
  if (rope != nullptr) {
    for (std::uint32_t i = 0; i < width / 2; ++i) {
      const double a = v[i], b = v[i + width / 2], cosine = rope[2 * i], sine = rope[2 * i + 1];
      v[i] = a * cosine - b * sine;
      v[i + width / 2] = b * cosine + a * sine;
    }
  }
  if (norm != nullptr && norm_last) normalise();
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
  bool norm_after_rope = false, scaled = false;  ///< scaled: queries by a number for each 7 positions
};

/// `c.lengths` are those of three sequences: many rows, all of a short one, and one row that decodes.
void qkv_case(const KernelSet& set, const QkvTypes& types, const AttentionCase& c, const QkvOptions& options) {
  const auto [norm, queries_only, turned, norm_after_rope, scaled] = options;
  constexpr std::uint32_t kScaleTokens = 7;
  constexpr float kScaling = 0.75f;
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
  const QkvData d = make_qkv(set, random, types, c, hidden, static_cast<std::uint32_t>(n), 160);
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
  args.rules.norm_after_rope = norm_after_rope;
  if (scaled) args.rules.query_scaling = kScaling, args.rules.query_scale_tokens = kScaleTokens;
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
        auto want = finish_head(all_q.data() + at, c.head_dim, by_head ? &d.q_norm : nullptr, rope, norm_after_rope);
        if (scaled)
          for (double& value : want) value *= 1 + kScaling * std::log(1.0 + position / kScaleTokens);
        REQUIRE(q.filled_up(s.first_row + r, h));
        for (std::uint32_t i = 0; i < c.head_dim; ++i)
          check_query(set, q.get(s.first_row + r, h, i), want[i], hidden, 4 * largest(want), n);
      }
      for (std::uint32_t h = 0; h < (queries_only ? 0 : c.n_kv_heads); ++h) {
        const std::size_t at = (row * c.n_kv_heads + h) * c.head_dim;
        const auto k = finish_head(all_k.data() + at, c.head_dim, by_head ? &d.k_norm : nullptr, rope, norm_after_rope);
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
    // More columns and rows than a worker stages at once; heads that begin and end within a register.
    qkv_case(
        set, same,
        {.n_heads = 3, .n_kv_heads = 1, .head_dim = 24, .block_tokens = 32, .lengths = {140, 3, 14}, .hidden = 600},
        plain);
    qkv_case(
        set, same,
        {.n_heads = 3, .n_kv_heads = 1, .head_dim = 80, .block_tokens = 32, .lengths = {140, 3, 33}, .hidden = 2100},
        normed);
    qkv_case(
        set, same,
        {.n_heads = 2, .n_kv_heads = 1, .head_dim = 256, .block_tokens = 32, .lengths = {136, 3, 8}, .hidden = 1100},
        normed);
  }
  // Norms after rotation, and queries with a scale: few rows and many, heads of all tails.
  for (const bool after : {true, false})
    for (const QkNorm norm : {QkNorm::by_head, QkNorm::none, QkNorm::whole}) {
      const QkvOptions late{norm, false, true, after && norm == QkNorm::by_head, true};
      for (const std::uint32_t many : {2u, 7u, 15u, 38u, 70u}) {
        qkv_case(set, same,
                 {.n_heads = 6, .n_kv_heads = 2, .head_dim = 10, .block_tokens = 32, .lengths = {many, 3, 40}}, late);
        qkv_case(set, same,
                 {.n_heads = 3, .n_kv_heads = 1, .head_dim = 48, .block_tokens = 64, .lengths = {many, 1, 65}}, late);
      }
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

}  // namespace qinfer::test
