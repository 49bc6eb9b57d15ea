// What products of bf16 (avx512_bf16) promise beyond the definitions that every set is tested against: sums equal a
// scalar model bit for bit, the cache in pairs holds what a cache of f32 holds, rounded, and a query's results depend
// on nothing that it does not see.
#include "kernels/support.h"
#include "support/skip.h"

using namespace qinfer;
using namespace qinfer::test;

namespace {

const KernelSet* bf16_set() { return emulable_set("avx512_bf16"); }

/// VDPBF16PS, pair by pair: of each pair the second product is added first, and every addition is rounded.
float dot_model(const float* x, const float* w, std::int64_t cols) {
  float sum = 0;
  for (std::int64_t k = 0; k < cols; k += 2)
    for (std::int64_t i = std::min(k + 1, cols - 1); i >= k; --i)
      sum = static_cast<float>(sum + static_cast<double>(bf16_to_f32(f32_to_bf16(x[i]))) * w[i]);
  return sum;
}

std::vector<float> run_linear(const KernelSet& set, const TestMatrix& w, const std::vector<float>& x, std::int64_t n) {
  ActivationBuffer in = operand(set, x.data(), n, w.view.cols), out = residual(set, n, w.view.rows);
  LinearArgs args{n, in.view(), w.view, false, out.view(), {}};
  const Shape shape = linear_shape(n, w.view.cols);
  std::vector<std::byte> memory;
  run_all(set.linear, args, set.linear_workspace(shape), memory, 2);
  return out.rows();
}

/// A cache of `tokens` positions of one layer, everything NaN at first.
struct PairCache {
  KvLayout layout;
  std::vector<std::byte> arena;

  PairCache(const KernelSet& set, DType type, std::uint32_t kv_heads, std::uint32_t head_dim, std::uint32_t tokens)
      : layout{type,
               1,
               kv_heads,
               head_dim,
               set.kv_head_dim_padded(head_dim, type),
               (tokens + kTileTokens - 1) / kTileTokens * kTileTokens,
               set.kv_order(type)},
        arena(layout.block_bytes(), std::byte{0xff}) {}
  KvView view() { return {arena.data(), nullptr}; }
  std::byte* key(std::uint32_t head, std::uint32_t p, std::uint32_t i) {
    return view().k_tile(layout, 0, head, p / kTileTokens) + layout.k_index(p, i) * dtype_bytes(layout.type);
  }
  std::byte* value(std::uint32_t head, std::uint32_t p, std::uint32_t i) {
    return view().k_tile(layout, 0, head, p / kTileTokens) + layout.tile_bytes() +
           layout.v_index(p, i) * dtype_bytes(layout.type);
  }
};

struct QkvInput {
  TestMatrix wq, wk, wv;
  std::vector<float> x;
  std::uint32_t heads, head_dim;
};

/// Rows at positions 3 to 42, then 43 and 70 alone.
void write_cache(const KernelSet& set, const QkvInput& input, PairCache& cache) {
  const std::int64_t hidden = input.wq.view.cols, width = input.heads * std::int64_t{input.head_dim};
  for (const auto& [first, n] : {std::pair<std::uint32_t, std::int32_t>{3, 40}, {43, 1}, {70, 1}}) {
    ActivationBuffer in = operand(set, input.x.data() + first * hidden, n, hidden),
                     q(set.layouts.query_of(n), n, width);
    const Sequence sequence{cache.view(), 0, n, first};
    QkvArgs args;
    args.n = n, args.x = in.view(), args.q = q.view();
    args.wq = input.wq.view, args.wk = input.wk.view, args.wv = input.wv.view;
    args.n_heads = input.heads, args.kv = cache.layout, args.sequences = {&sequence, 1};
    const auto rows = static_cast<std::uint32_t>(n);
    const Shape shape{.batch = rows,
                      .hidden = static_cast<std::uint32_t>(hidden),
                      .n_heads = input.heads,
                      .n_kv_heads = input.heads,
                      .head_dim = input.head_dim,
                      .ffn = 1,
                      .vocab = 1,
                      .context = 96};
    std::vector<std::byte> memory;
    run_all(set.qkv, args, set.qkv_workspace(shape), memory, 2);
  }
}

std::vector<float> attend(const KernelSet& set, PairCache& cache, const float* q, std::int32_t n, std::uint32_t first,
                          std::uint32_t window) {
  constexpr std::uint32_t kHeads = 6;
  const std::int64_t width = kHeads * std::int64_t{cache.layout.head_dim};
  ActivationBuffer in(set.layouts.query_of(n), q, n, width, width), out(set.layouts.operand_of(n), n, width);
  const Sequence sequence{cache.view(), 0, n, first};
  AttentionArgs args;
  args.n = n, args.q = in.view(), args.out = out.view();
  args.n_heads = kHeads, args.scale = 0.25f, args.window = window, args.kv = cache.layout;
  args.sequences = {&sequence, 1};
  std::vector<std::byte> memory;
  run_all(set.attention, args,
          set.attention_workspace({.batch = static_cast<std::uint32_t>(n),
                                   .hidden = 1,
                                   .n_heads = kHeads,
                                   .n_kv_heads = 2,
                                   .head_dim = cache.layout.head_dim,
                                   .ffn = 1,
                                   .vocab = 1,
                                   .context = 4096,
                                   .head_dim_padded = cache.layout.head_dim_padded,
                                   .n_threads = 3}),
          memory, 3);
  return out.rows();
}

}  // namespace

TEST_CASE("sums of bf16 pairs equal their scalar model bit for bit", "[kernels]") {
  const KernelSet* set = bf16_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  for (const std::int64_t cols : {1, 2, 63, 64, 65, 200, 1024})
    for (const std::int64_t n : {1, 2, 4, 5, 12, 29}) {
      Random random(static_cast<unsigned>(cols + n));
      const TestMatrix w = make_matrix(*set, random, DType::bf16, 70, cols);
      const std::vector<float> x = random.values(static_cast<std::size_t>(n * cols)), out = run_linear(*set, w, x, n);
      for (std::int64_t m = 0; m < n; ++m)
        for (std::int64_t j = 0; j < 70; ++j) {
          INFO("cols " << cols << " n " << n << " row " << m << " output " << j);
          REQUIRE(out[static_cast<std::size_t>(m * 70 + j)] ==
                  dot_model(x.data() + m * cols, w.values.data() + j * cols, cols));
        }
    }
}

TEST_CASE("a cache of bf16 in pairs holds what one of f32 holds, rounded", "[kernels]") {
  const KernelSet* set = bf16_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  for (const std::uint32_t head_dim : {1u, 5u, 10u, 16u, 33u, 64u, 128u}) {
    constexpr std::uint32_t kHeads = 2;
    Random random(head_dim);
    const std::int64_t rows = kHeads * std::int64_t{head_dim}, hidden = 20;
    const QkvInput input{make_matrix(*set, random, DType::bf16, rows, hidden),
                         make_matrix(*set, random, DType::bf16, rows, hidden),
                         make_matrix(*set, random, DType::bf16, rows, hidden),
                         random.values(static_cast<std::size_t>(71 * hidden)),
                         kHeads,
                         head_dim};
    PairCache wide(*set, DType::f32, kHeads, head_dim, 71), pairs(*set, DType::bf16, kHeads, head_dim, 71);
    REQUIRE(pairs.layout.order == KvOrder::key_pairs);
    write_cache(*set, input, wide);
    write_cache(*set, input, pairs);
    for (std::uint32_t head = 0; head < kHeads; ++head)
      for (std::uint32_t p = 3; p <= 70; p += p == 43 ? 27 : 1)
        for (std::uint32_t i = 0; i < head_dim; ++i)
          for (const bool of_key : {true, false}) {
            INFO("head_dim " << head_dim << " head " << head << " position " << p << " element " << i);
            float exact = 0;
            std::uint16_t got = 0;
            std::memcpy(&exact, of_key ? wide.key(head, p, i) : wide.value(head, p, i), 4);
            std::memcpy(&got, of_key ? pairs.key(head, p, i) : pairs.value(head, p, i), 2);
            REQUIRE(got == f32_to_bf16(exact));
          }
  }
}

TEST_CASE("attention over pairs depends on nothing that a query does not see", "[kernels]") {
  const KernelSet* set = bf16_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  // The emulator takes a minute for 39 queries; those beside the end of a tile are left to it.
  const bool native = usable_set(set->name) != nullptr;
  const std::uint32_t tokens = native ? 600 : 580, first = native ? 561 : 571;
  for (const std::uint32_t head_dim : {16u, 33u, 64u})
    for (const std::uint32_t window : {0u, 7u, 50u}) {
      INFO("head_dim " << head_dim << " window " << window);
      Random random(head_dim);
      PairCache cache(*set, DType::bf16, 2, head_dim, tokens);
      for (std::uint32_t p = 0; p < tokens; ++p)
        for (std::uint32_t i = 0; i < 2 * (head_dim + head_dim % 2); ++i) {
          const std::uint32_t head = i % 2, at = i / 2;
          const std::uint16_t key = at < head_dim ? f32_to_bf16(random.value()) : std::uint16_t{0};
          const std::uint16_t value = f32_to_bf16(random.value());
          std::memcpy(cache.key(head, p, at), &key, 2);
          if (at < head_dim) std::memcpy(cache.value(head, p, at), &value, 2);
        }
      const std::size_t width = std::size_t{6} * head_dim;
      const std::vector<float> q = random.values((tokens - first) * width),
                               all = attend(*set, cache, q.data(), tokens - first, first, window);
      const std::uint16_t infinity = 0x7f80;
      for (std::uint32_t p = tokens; p-- > first;) {  // what comes after a position is spoilt row by row
        const std::vector<float> alone = attend(*set, cache, q.data() + (p - first) * width, 1, p, window);
        INFO("position " << p);
        REQUIRE(std::memcmp(alone.data(), all.data() + (p - first) * width, width * sizeof(float)) == 0);
        for (std::uint32_t i = 0; i < 2 * head_dim; ++i) {
          std::memcpy(cache.key(i % 2, p, i / 2), &infinity, 2);
          std::memcpy(cache.value(i % 2, p, i / 2), &infinity, 2);
        }
        const std::int32_t before = static_cast<std::int32_t>(p - first);
        if (before == 0) break;
        const std::vector<float> rows = attend(*set, cache, q.data(), before, first, window);
        REQUIRE(std::memcmp(rows.data(), all.data(), rows.size() * sizeof(float)) == 0);
      }
    }
}
