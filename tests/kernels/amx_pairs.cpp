// Weights in pairs of columns (WeightLayout::pairs16), which `amx` multiplies fastest: every operation equals its
// definition with them, reads nothing but its operands, and has the bits that rows give, whether tiles multiply or,
// with few tokens, AVX-512.
#ifdef QINFER_HAVE_AMX
#include <cfenv>
#include <limits>

#include "kernels/amx_kernels.h"
#include "kernels/quant_support.h"

namespace qinfer::test {
namespace {

constexpr WeightFormat kRows{Encoding::bf16, WeightLayout::row_major}, kPairs{Encoding::bf16, WeightLayout::pairs16};

/// `amx`, with matrices in pairs wherever it takes them.
KernelSet set_of_pairs() {
  KernelSet set = *emulated_set();
  set.weight_format = [](WeightRole role, Encoding stored, const Encoding* wanted, bool exact, WeightFormat& out) {
    const KernelSet& amx = *emulated_set();
    if (!amx.weight_format(role, stored, wanted, exact, out)) return false;
    amx.pack_format(role, out);
    return true;
  };
  return set;
}

/// Most tokens that AVX-512 multiplies.
constexpr std::int64_t kVectorTokens = 3;

/// A matrix of bf16 in one of the layouts.
struct Bf16Matrix {
  std::vector<std::uint16_t> source, packed;
  Matrix view;

  Bf16Matrix(const WeightFormat& format, std::vector<std::uint16_t> values, std::int64_t rows, std::int64_t cols)
      : source(std::move(values)), packed(weight_bytes(format, rows, cols) / 2) {
    auto* out = reinterpret_cast<std::byte*>(packed.data());
    emulated_set()->pack({reinterpret_cast<const std::byte*>(source.data()), kRows, rows, cols}, format, {}, out, 0,
                         rows);
    view = {out, format, rows, cols};
  }
};

/// The outputs of a linear layer of a batch that `first` and n pick.
std::vector<float> linear(const Matrix& w, const std::vector<float>& x, std::int64_t first, std::int64_t n) {
  const KernelSet& set = *emulated_set();
  ActivationBuffer in = operand(set, x.data() + first * w.cols, n, w.cols), out = residual(set, n, w.rows);
  LinearArgs args{n, in.view(), w, false, out.view(), {}};
  std::vector<std::byte> space;
  run_all(set.linear, args, set.linear_workspace(linear_shape(n, w.cols)), space, 1);
  return out.rows();
}

/// Rounds upwards and keeps subnormal numbers, as a host may have set it.
class OtherRounding {
 public:
  OtherRounding() { std::fesetround(FE_UPWARD); }
  ~OtherRounding() { std::fesetround(FE_TONEAREST); }
  OtherRounding(const OtherRounding&) = delete;
  OtherRounding& operator=(const OtherRounding&) = delete;
};

}  // namespace
}  // namespace qinfer::test

using namespace qinfer;
using namespace qinfer::test;

TEST_CASE("every AMX operation equals its definition with weights in pairs", "[amx]") {
  SKIP_UNLESS_CPU_HAS(emulated_set() != nullptr, "AVX-512");
  const KernelSet set = set_of_pairs();
  WeightFormat format;
  REQUIRE(set.weight_format(WeightRole::q, Encoding::bf16, nullptr, false, format));
  REQUIRE(format == kPairs);
  test_linear(set, DType::bf16);
  test_ffn(set, DType::bf16);
  test_moe_ffn(set, DType::bf16);
  test_lm_head(set, DType::bf16);
  test_qkv(set, DType::bf16);
  test_linear_invariance(set);
  test_moe_invariance(set);
}

TEST_CASE("AMX linear layers in pairs have the bits of rows, and read each line once for 32 tokens", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  const bool counted = !emulator::is_native();
  struct Case {
    std::int64_t n, cols, outputs;
  };
  const Case cases[] = {{1, 64, 128},    {5, 96, 64},     {16, 64, 96},    {17, 256, 64},  {33, 100, 50},
                        {40, 33, 33},    {7, 31, 17},     {1, 1, 1},       {32, 32, 16},   {2, 65, 31},
                        {64, 64, 64},    {9, 2, 97},      {40, 64, 640},   {48, 31, 15},   {3, 160, 32},
                        {530, 2100, 40}, {33, 2100, 700}, {31, 128, 160},  {130, 100, 64}, {64, 1100, 50},
                        {1, 97, 400},    {2, 40, 304},    {3, 96, 260},    {4, 130, 80},   {1, 2100, 96},
                        {1, 64, 240},    {130, 1120, 64}, {130, 1120, 560}};
  for (const Case& c : cases)
    for (const bool at_end : {true, false}) {
      INFO("n " << c.n << " cols " << c.cols << " outputs " << c.outputs << (at_end ? " at the end" : " at the begin"));
      const LinearRun rows = guarded_linear(*set, c.n, c.cols, c.outputs, at_end),
                      pairs = guarded_linear(*set, c.n, c.cols, c.outputs, at_end, WeightLayout::pairs16);
      CHECK((pairs.out == rows.out));
      if (!counted) continue;
      const bool by_tiles = c.n > kVectorTokens;
      CHECK(pairs.counts.multiplications == (by_tiles ? rows.counts.multiplications : 0));
      // By every two panels.
      const std::int64_t lines = (c.outputs + 15) / 16 * 16 * ((c.cols + 31) / 32) * ((c.n + 31) / 32);
      CHECK(pairs.counts.watched_lines == static_cast<std::uint64_t>(by_tiles ? lines : 0));
    }
}

TEST_CASE("few tokens on AVX-512 have the bits of tiles, whatever the values and the thread's rounding", "[amx]") {
  SKIP_UNLESS_CPU_HAS(emulated_set() != nullptr, "AVX-512");
  constexpr std::int64_t kTokens = 8, kCols = 256, kOutputs = 200;
  Random random(5);
  const std::vector<float> extremes = {0.0f,    -0.0f,    1e-39f,   -1e-40f, 0x1p-126f, -0x1p-126f, 0x1p-70f,
                                       0x1p70f, -0x1p70f, 0x1p-60f, 3e38f,   -3e38f,    1.0f,       -1.0f};
  const std::vector<float> small = {1e-39f, -1e-39f, 3e-39f, -4e-39f, 0x1p-126f, -0x1p-126f, 0x1p-125f, -0x1p-124f};
  // Usual numbers; some extremes; only extremes; infinities with them; and weights that are subnormal or nearly so,
  // whose products and sums are, too.
  for (const int kind : {0, 1, 2, 3, 4}) {
    const auto value = [&](bool weight) -> float {
      const auto pick = static_cast<std::size_t>(std::fabs(random.value()) * 1e6f);
      if (kind == 0 || (kind == 1 && pick % 8 != 0)) return random.value();
      if (kind == 4) return weight ? small[pick % small.size()] : random.value() * (pick % 2 == 0 ? 0x1p-3f : 0x1p3f);
      if (kind == 3 && pick % 97 == 0) return pick % 2 == 0 ? INFINITY : -INFINITY;
      return extremes[pick % extremes.size()];
    };
    std::vector<std::uint16_t> w(kCols * kOutputs);
    for (std::uint16_t& v : w) v = bf16_of(value(true));
    std::vector<float> x(kTokens * kCols);
    for (float& v : x) v = bf16_to_f32(bf16_of(value(false)));
    const Bf16Matrix rows(kRows, w, kOutputs, kCols), pairs(kPairs, w, kOutputs, kCols);
    const std::vector<float> want = linear(rows.view, x, 0, kTokens);
    if (kind == 0 || kind == 4) CHECK(std::all_of(want.begin(), want.end(), [](float v) { return std::isfinite(v); }));
    const auto check = [&](std::int64_t first, std::int64_t n) {
      const std::vector<float> got = linear(pairs.view, x, first, n);
      std::int64_t other = 0;
      for (std::int64_t i = 0; i < n * kOutputs; ++i) {
        const float a = got[static_cast<std::size_t>(i)], b = want[static_cast<std::size_t>(first * kOutputs + i)];
        other += std::isnan(a) && std::isnan(b) ? 0 : std::memcmp(&a, &b, 4) != 0;
      }
      INFO("kind " << kind << ", tokens [" << first << ", " << first + n << ")");
      CHECK(other == 0);
    };
    for (std::int64_t n = 1; n <= kTokens; ++n)
      for (std::int64_t first = 0; first + n <= kTokens; first += n) check(first, n);
    const OtherRounding rounding;
    for (std::int64_t n = 1; n <= kVectorTokens; ++n) check(n, n);
  }
}

TEST_CASE("AMX feed-forward networks have the same bits whichever matrices are in pairs", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  constexpr std::int64_t kTokens = 150, kHidden = 72, kWidth = 90;
  Random random(3);
  const auto bits_of = [&](std::int64_t count) {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
    for (std::uint16_t& value : values) value = bf16_of(random.value());
    return values;
  };
  const std::vector<std::uint16_t> matrices[] = {bits_of(kWidth * kHidden), bits_of(kWidth * kHidden),
                                                 bits_of(kHidden * kWidth)};
  const std::vector<float> x = random.values(kTokens * kHidden);
  const std::vector<float> first = random.values(2 * kHidden), second = random.values(2 * kWidth),
                           inner_up = random.values(2 * kWidth), outer_up = random.values(2 * kHidden);
  const auto outputs = [&](std::int64_t n, bool has_up, int in_pairs) {
    const auto form = [&](int i) { return (in_pairs >> i & 1) != 0 ? kPairs : kRows; };
    const Bf16Matrix gate(form(0), matrices[0], kWidth, kHidden), up(form(1), matrices[1], kWidth, kHidden),
        down(form(2), matrices[2], kHidden, kWidth);
    ActivationBuffer in = operand(*set, x.data(), n, kHidden), out = residual(*set, n, kHidden);
    FfnArgs args;
    args.n = n, args.x = in.view(), args.out = out.view();
    args.gate = gate.view, args.down = down.view;
    if (has_up) args.up = up.view;
    args.accumulate = false;
    // An addition to the first half and one to the second, of one row each.
    std::vector<float> inner(4);
    const Addition of_gate{0, 1, 2, first.data(), inner_up.data(), inner.data()},
        of_down{n - 1, 1, 2, second.data(), outer_up.data(), inner.data() + 2};
    args.gate.additions = {&of_gate, 1}, args.down.additions = {&of_down, 1};
    std::vector<std::byte> space;
    const Shape shape{.batch = static_cast<std::uint32_t>(n),
                      .hidden = kHidden,
                      .n_heads = 1,
                      .n_kv_heads = 1,
                      .head_dim = 2,
                      .ffn = kWidth,
                      .vocab = 1,
                      .context = 1};
    run_all(set->ffn, args, set->ffn_workspace(shape), space, 3);
    return out.rows();
  };
  for (const std::int64_t n : {1, 3, 4, 8, 9, 20, 33, 64, 130, 150})
    for (const bool has_up : {true, false}) {
      const std::vector<float> want = outputs(n, has_up, 0);
      for (int in_pairs = 1; in_pairs < 8; ++in_pairs) {
        INFO(n << " tokens, matrices in pairs " << in_pairs << (has_up ? "" : ", no up"));
        CHECK(same_bits(outputs(n, has_up, in_pairs), want));
      }
    }
}

TEST_CASE("AMX looks up embeddings in pairs", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  WeightFormat tied, embedding;
  REQUIRE(set->weight_format(WeightRole::tied, Encoding::bf16, nullptr, false, tied));
  REQUIRE(set->weight_format(WeightRole::embedding, Encoding::bf16, nullptr, false, embedding));
  set->pack_format(WeightRole::tied, tied);
  set->pack_format(WeightRole::embedding, embedding);
  CHECK(tied == kPairs);
  CHECK(embedding == kRows);
  constexpr std::int64_t kVocab = 70;
  Random random(8);
  for (const std::int64_t cols : {1, 2, 31, 32, 33, 100}) {
    std::vector<std::uint16_t> w(static_cast<std::size_t>(kVocab * cols));
    for (std::uint16_t& v : w) v = bf16_of(random.value());
    const Bf16Matrix pairs(kPairs, w, kVocab, cols);
    const std::vector<std::int32_t> tokens = {69, 0, 15, 16, 17, 32, 63, 64, 1, 31, 48, 5, 69, 3, 2, 47, 33, 34};
    for (const std::int64_t n : {1, 8, 9, 16, 18}) {
      ActivationBuffer out = residual(*set, n, cols);
      EmbedArgs args{};
      args.n = n, args.tokens = tokens.data(), args.table = pairs.view, args.scale = 3, args.out = out.view();
      set->embed.run(args, 0, {0, set->embed.units(args, 0), 0});
      for (std::int64_t m = 0; m < n; ++m)
        for (std::int64_t k = 0; k < cols; ++k) {
          const auto at = static_cast<std::size_t>(tokens[static_cast<std::size_t>(m)] * cols + k);
          INFO(n << " tokens, " << cols << " columns, row " << m << " column " << k);
          REQUIRE(out.get(m, k) == 3 * bf16_to_f32(w[at]));
        }
    }
  }
}

TEST_CASE("packing into pairs keeps every bit of bf16, in any parts", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  for (const std::int64_t n : {1, 15, 16, 17, 31, 32, 33, 80})
    for (const std::int64_t cols : {1, 2, 31, 32, 33, 100}) {
      std::vector<std::uint16_t> source(static_cast<std::size_t>(n * cols));
      for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::uint16_t>(i * 40503 + 0x7f80);
      const Matrix matrix{reinterpret_cast<const std::byte*>(source.data()), kRows, n, cols};
      std::vector<std::uint16_t> packed(weight_bytes(kPairs, n, cols) / 2, 0xffff);
      for (std::int64_t first = 0; first < n; first += 32)
        set->pack(matrix, kPairs, {}, reinterpret_cast<std::byte*>(packed.data()), first, std::min(first + 32, n));
      std::vector<std::uint16_t> want(packed.size());
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < cols; ++k)
          want[static_cast<std::size_t>((i / 16 * ((cols + 31) / 32) * 16 + k / 2) * 32 + i % 16 * 2 + k % 2)] =
              source[static_cast<std::size_t>(i * cols + k)];
      INFO(n << " x " << cols);
      CHECK((packed == want));
    }
}
#endif
