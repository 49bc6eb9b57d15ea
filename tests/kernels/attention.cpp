// Attention over the KV cache, against float64, and its bits in any batch.
#include "kernels/attention_support.h"

namespace qinfer::test {
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
                        std::uint32_t length, float scale, const float* added) {
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
    const std::int64_t distance = std::int64_t{p} - position, reach = c.reach;
    if (added != nullptr) weights.back() += added[std::clamp(distance, -reach, reach) + reach];
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
  // Of each head from the distance -reach to reach, and as kernels take them.
  const auto known = static_cast<std::size_t>(2 * c.reach + 1);
  const std::vector<float> added = random.values(c.reach != 0 ? c.n_heads * known : 0);
  std::vector<float> table;
  for (std::uint32_t h = 0; h < c.n_heads && c.reach != 0; ++h)
    for (std::int32_t d = -c.reach - 31; d <= c.reach + 31; ++d)
      table.push_back(added[h * known + static_cast<std::size_t>(std::clamp(d, -c.reach, c.reach) + c.reach)]);
  AttentionArgs args;
  if (c.reach != 0) args.bias = {table.data(), c.reach};
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
        const auto want =
            attend(q.data() + row * width + h * c.head_dim, keys[s], values[s], layout, h / (c.n_heads / c.n_kv_heads),
                   position, c, c.lengths[s], args.scale, c.reach != 0 ? added.data() + h * known : nullptr);
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
  const bool folds = c.causal && !c.split && std::ranges::max(c.lengths) > kSegmentTokens;
  if (c.rise == 1 && !folds) return;
  // What a row sees does not depend on the rows beside it, whose scores may rise or not, nor do its folded segments.
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
  // Rows of one call that begin to see in different segments, and rows of which some see two and others one.
  attention_case(
      set, type,
      {.n_heads = 4, .n_kv_heads = 2, .head_dim = 48, .block_tokens = 32, .window = 40, .lengths = {560, 530, 545}});
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
  // Scores with numbers by distance: of encoders, whose texts may be longer than the table; and where rows are few.
  for (const std::int32_t reach : {1, 40, 128}) {
    attention_case(set, type,
                   {.n_heads = 4,
                    .n_kv_heads = 2,
                    .head_dim = 24,
                    .block_tokens = 32,
                    .lengths = {1, 5, 33, 64, 130, 600},
                    .causal = false,
                    .reach = reach});
    attention_case(set, type,
                   {.n_heads = 5,
                    .n_kv_heads = 5,
                    .head_dim = 10,
                    .block_tokens = 64,
                    .window = 50,
                    .lengths = {3, 200},
                    .causal = false,
                    .reach = reach});
    attention_case(set, type,
                   {.n_heads = 6,
                    .n_kv_heads = 2,
                    .head_dim = 16,
                    .block_tokens = 32,
                    .lengths = {513, 1600, 1},
                    .split = true,
                    .reach = reach});
    attention_case(set, type,
                   {.n_heads = 3,
                    .n_kv_heads = 1,
                    .head_dim = 32,
                    .block_tokens = 32,
                    .lengths = {50, 100, 20},
                    .rise = 200,
                    .reach = reach});
  }
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
