// Operations with several quantised matrices, which may differ in encoding: q/k/v, feed-forward networks and mixtures
// of experts have the bits that they have with the same values, in the form that the set multiplies.
#include "common/routes.h"
#include "kernels/quant_support.h"
#include "support/skip.h"

namespace {

using namespace qinfer;
using namespace qinfer::test;

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

/// Three encodings for three matrices: all pairs of neighbours of the list, and each alone.
struct Three {
  Encoding first, second, third;
};
std::vector<Three> combinations(const KernelSet& set) {
  std::vector<Encoding> all = quantised_encodings();
  all.push_back(Encoding::f32);
  all.push_back(Encoding::f16);
  all.push_back(Encoding::bf16);
  std::vector<Three> out;
  // Of tiles, which may be emulated, each encoding once or twice.
  const std::size_t every = widened_encoding(set) == Encoding::bf16 ? 3 : 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % every != 0) {
      if (!is_plain(all[i])) out.push_back({all[i], all[i], all[i]});
      continue;
    }
    const Encoding next = all[(i + 1) % all.size()], far = all[(i + 5) % all.size()];
    if (!is_plain(all[i])) out.push_back({all[i], all[i], all[i]});
    out.push_back({all[i], next, far});
    if (!is_plain(all[i])) out.push_back({all[i], all[i], far});
  }
  // And a plain one beside a quantised one, which tiles have in other layouts.
  out.push_back({Encoding::bf16, Encoding::q4_k, Encoding::q6_k});
  out.push_back({Encoding::q4_0, Encoding::bf16, Encoding::bf16});
  return out;
}

std::string name_of(const Three& t) {
  return std::string(encoding_name(t.first)) + " " + std::string(encoding_name(t.second)) + " " +
         std::string(encoding_name(t.third));
}

// ---- feed-forward networks ----

struct FfnData {
  QuantMatrix gate, up, down;
  std::vector<float> x, bias;
};

std::vector<float> run_ffn(const KernelSet& set, const FfnData& d, std::int64_t n, int workers, bool wide) {
  const std::int64_t hidden = d.gate.own.view.cols, width = d.gate.own.view.rows;
  ActivationBuffer in = operand(set, d.x.data(), n, hidden), out = residual(set, n, hidden, 1.0f);
  FfnArgs args;
  args.n = n, args.x = in.view(), args.out = out.view();
  args.gate = {d.gate.as(wide).view, d.bias.data()}, args.up = {d.up.as(wide).view, d.bias.data()};
  args.down = d.down.as(wide).view;
  Shape shape;
  shape.batch = u32(n), shape.hidden = u32(hidden), shape.ffn = u32(width);
  std::vector<std::byte> memory;
  run_all(set.ffn, args, set.ffn_workspace(shape), memory, workers);
  return out.rows();
}

// ---- q/k/v ----

struct QkvData {
  QuantMatrix q, k, v;
  std::vector<float> x, norm, rope;
};

struct QkvResult {
  std::vector<float> queries;
  std::vector<std::byte> cache;
};

QkvResult run_qkv(const KernelSet& set, const QkvData& d, std::uint32_t heads, std::uint32_t kv_heads,
                  std::uint32_t width, std::int64_t n, int workers, bool wide) {
  const KvLayout layout{
      DType::f32, 1, kv_heads, width, set.kv_head_dim_padded(width, DType::f32), 32, set.kv_order(DType::f32)};
  QkvResult result;
  result.cache.assign(layout.blocks_for(u32(n)) * layout.block_bytes(), std::byte{0xff});
  const std::vector<Sequence> sequences = {{{result.cache.data(), nullptr}, 0, static_cast<std::int32_t>(n), 0}};
  const std::int64_t hidden = d.q.own.view.cols;
  ActivationBuffer in = operand(set, d.x.data(), n, hidden);
  Queries q(set, n, heads, width);
  QkvArgs args;
  args.n = n, args.x = in.view(), args.q = q.values.view();
  args.wq = d.q.as(wide).view, args.wk = d.k.as(wide).view, args.wv = d.v.as(wide).view;
  args.q_norm = d.norm.data(), args.k_norm = d.norm.data(), args.norm_eps = 1e-5f;
  args.rope = d.rope.data();
  args.n_heads = heads, args.kv = layout, args.sequences = sequences;
  Shape shape;
  shape.batch = u32(n), shape.hidden = u32(hidden), shape.n_heads = heads, shape.n_kv_heads = kv_heads;
  shape.head_dim = width, shape.context = 100;
  std::vector<std::byte> memory;
  run_all(set.qkv, args, set.qkv_workspace(shape), memory, workers);
  for (std::int64_t m = 0; m < n; ++m)
    for (std::uint32_t h = 0; h < heads; ++h)
      for (std::uint32_t i = 0; i < width; ++i) result.queries.push_back(q.get(m, h, i));
  return result;
}

// ---- mixtures of experts ----

struct Mixture {
  std::vector<QuantMatrix> gates, ups, downs;  // the shared network is the last
  TestMatrix router, shared_router;
  std::uint32_t experts = 0;
  std::vector<float> x;
};

Mixture make_mixture(const KernelSet& set, Random& random, const std::vector<Three>& kinds, std::int64_t hidden,
                     std::int64_t width, std::int64_t n) {
  Mixture m;
  m.experts = u32(static_cast<std::int64_t>(kinds.size()) - 1);
  for (const Three& kind : kinds) {
    m.gates.push_back(make_any(set, random, kind.first, width, hidden));
    m.ups.push_back(make_any(set, random, kind.second, width, hidden));
    m.downs.push_back(make_any(set, random, kind.third, hidden, width));
  }
  const auto make_router = [&](std::int64_t rows) {
    std::vector<float> values = random.values(static_cast<std::size_t>(rows * hidden));
    for (float& v : values) v *= 0.05f;
    return pack_matrix(set, values, element_type(widened_encoding(set)), rows, hidden);
  };
  m.router = make_router(m.experts), m.shared_router = make_router(1);
  m.x = random.values(static_cast<std::size_t>(n * hidden));
  return m;
}

std::vector<float> run_moe(const KernelSet& set, const Mixture& m, std::int64_t n, int workers, bool wide) {
  const std::int64_t hidden = m.router.view.cols, width = m.gates[0].own.view.rows;
  std::vector<Linear> gates, ups, downs;
  for (std::size_t i = 0; i < m.gates.size(); ++i) {
    gates.push_back(m.gates[i].as(wide).view);
    ups.push_back(m.ups[i].as(wide).view);
    downs.push_back(m.downs[i].as(wide).view);
  }
  ActivationBuffer in = operand(set, m.x.data(), n, hidden), out = residual(set, n, hidden, 1.0f);
  MoeArgs args;
  args.n = n, args.x = in.view(), args.out = out.view();
  args.router = m.router.view, args.shared_router = m.shared_router.view;
  args.gate = gates.data(), args.up = ups.data(), args.down = downs.data();
  args.shared_gate = gates.back(), args.shared_up = ups.back(), args.shared_down = downs.back();
  args.experts = m.experts, args.top_k = 2, args.normalise = true;
  Shape shape;
  shape.batch = u32(n), shape.hidden = u32(hidden), shape.experts = m.experts, shape.top_k = 2;
  shape.expert_width = u32(width), shape.shared_width = u32(width);
  const MoeWorkspace size = set.moe_workspace(shape);
  std::vector<std::byte> buffers(size.routes + size.gathered + size.inner + 256, std::byte{0xff});
  std::byte* at = buffers.data() + (64 - reinterpret_cast<std::uintptr_t>(buffers.data()) % 64) % 64;
  args.buffers = {at, at + size.routes, at + size.routes + size.gathered};
  std::vector<std::byte> memory;
  run_all(set.moe_ffn, args, {0, size.per_worker}, memory, workers);
  return out.rows();
}

}  // namespace

TEST_CASE("feed-forward networks with quantised weights equal those with their values", "[kernels]") {
  SKIP_UNLESS_CPU_HAS(!f32_quant_sets().empty(), "AVX-512");
  for (const KernelSet* set : quant_sets())
    for (const Three& kind : combinations(*set)) {
      Random random(11);
      const std::int64_t hidden = 256, width = 512;
      FfnData d{make_any(*set, random, kind.first, width, hidden), make_any(*set, random, kind.second, width, hidden),
                make_any(*set, random, kind.third, hidden, width), random.values(61 * 256), random.values(512)};
      for (float& v : d.x) v *= 0.1f;
      for (const std::int64_t n : {1, 2, 8, 9, 13, 20, 40, 61}) {
        INFO(set->name << " " << name_of(kind) << " n " << n);
        const std::vector<float> out = run_ffn(*set, d, n, 3, false);
        CHECK(std::all_of(out.begin(), out.end(), [](float v) { return std::isfinite(v); }));
        REQUIRE(same_bits(out, run_ffn(*set, d, n, 2, true)));
        REQUIRE(same_bits(out, run_ffn(*set, d, n, 1, false)));
      }
    }
}

TEST_CASE("q/k/v with quantised weights equal those with their values", "[kernels]") {
  SKIP_UNLESS_CPU_HAS(!f32_quant_sets().empty(), "AVX-512");
  for (const KernelSet* set : quant_sets())
    for (const Three& kind : combinations(*set))
      for (const std::uint32_t width : {24u, 64u}) {
        Random random(12);
        const std::int64_t hidden = 256;
        const QkvData d{make_any(*set, random, kind.first, 5 * width, hidden),
                        make_any(*set, random, kind.second, 3 * width, hidden),
                        make_any(*set, random, kind.third, 3 * width, hidden),
                        random.values(61 * 256),
                        random.values(width),
                        random.values(100 * width)};
        for (const std::int64_t n : {1, 2, 8, 9, 13, 20, 40, 61}) {
          INFO(set->name << " " << name_of(kind) << " width " << width << " n " << n);
          const QkvResult out = run_qkv(*set, d, 5, 3, width, n, 3, false),
                          same = run_qkv(*set, d, 5, 3, width, n, 2, true);
          REQUIRE(same_bits(out.queries, same.queries));
          REQUIRE(out.cache == same.cache);
        }
      }
}

TEST_CASE("experts with quantised weights equal those with their values", "[kernels]") {
  SKIP_UNLESS_CPU_HAS(!f32_quant_sets().empty(), "AVX-512");
  for (const KernelSet* set : quant_sets()) {
    std::vector<std::vector<Three>> mixtures;
    for (const Encoding encoding : quantised_encodings())
      mixtures.push_back(std::vector<Three>(5, {encoding, encoding, encoding}));
    const std::vector<Three> all = combinations(*set);
    for (std::size_t i = 0; i + 6 <= all.size(); i += 5)  // each expert has encodings of its own
      mixtures.push_back(std::vector<Three>(all.begin() + static_cast<std::ptrdiff_t>(i),
                                            all.begin() + static_cast<std::ptrdiff_t>(i) + 6));
    for (const std::vector<Three>& kinds : mixtures) {
      Random random(13);
      const std::int64_t most = 61;
      const Mixture m = make_mixture(*set, random, kinds, 256, 256, most);
      for (const std::int64_t n : {1, 2, 8, 9, 13, 20, 41, 61}) {
        INFO(set->name << " " << name_of(kinds[0]) << " n " << n);
        const std::vector<float> out = run_moe(*set, m, n, 3, false);
        REQUIRE(same_bits(out, run_moe(*set, m, n, 2, true)));
        REQUIRE(same_bits(out, run_moe(*set, m, n, 1, false)));
      }
    }
  }
}
