// Every operation of every kernel set against definitions in float64, over shapes with all tails. A kernel set without
// a case here fails. The linear layer, q/k/v and attention have files of their own.
#include <algorithm>
#include <map>

#include "kernels/support.h"
#include "support/skip.h"

namespace qinfer::test {

void test_lm_head(const KernelSet& set, DType dtype) {
  Random random(4);
  for (const std::int64_t n : {1, 2, 3, 5, 9, 40}) {
    const std::int64_t cols = 37, outputs = 131;
    const TestMatrix w = make_matrix(set, random, dtype, outputs, cols);
    const std::vector<float> x = as_activations(set, random.values(static_cast<std::size_t>(n * cols)));
    std::vector<std::vector<float>> rows(static_cast<std::size_t>(n),
                                         std::vector<float>(static_cast<std::size_t>(outputs)));
    std::vector<float*> out;
    for (auto& row : rows) out.push_back(row.data());
    ActivationBuffer in = operand(set, x.data(), n, cols);
    LmHeadArgs args{n, in.view(), w.view, out.data(), {}};
    std::vector<std::byte> memory;
    for (const auto& [softcap, scale] :
         {std::pair(0.0f, 1.0f), std::pair(0.0f, 0.3f), std::pair(7.0f, 1.0f), std::pair(7.0f, 2.5f)}) {
      args.softcap = softcap, args.w.scale = scale;
      run_all(set.lm_head, args,
              set.lm_head_workspace({.batch = 40,
                                     .hidden = 37,
                                     .n_heads = 1,
                                     .n_kv_heads = 1,
                                     .head_dim = 2,
                                     .ffn = 1,
                                     .vocab = 131,
                                     .context = 1}),
              memory, 2);
      for (std::size_t m = 0; m < rows.size(); ++m)
        for (std::size_t j = 0; j < 131; ++j) {
          const Sum sum = dot(x.data() + m * 37, w.values.data() + j * 37, cols);
          const double scaled = sum.value * static_cast<double>(scale);
          const double want = softcap == 0 ? scaled : softcap * std::tanh(scaled / softcap);
          // The product is rounded. tanh flattens errors, and adds its own 2e-7 and the rounding of the quotient.
          const double bound = scale * sum_bound(set, dtype, sum, cols) + kEps * std::fabs(scaled) + softcap * 4e-7;
          REQUIRE(std::fabs(rows[m][j] - want) <= bound);
        }
    }
  }
}

namespace {

struct FfnCase {
  std::int64_t n, hidden, ffn;
  Activation activation() const { return n % 2 == 0 ? Activation::silu : Activation::gelu_tanh; }
  bool accumulate() const { return n != 12; }
};

/// Types of the matrices of an operation.
struct FfnTypes {
  DType gate, up, down;
  /// What says how gate and up are summed: in f32 where they differ.
  DType of_inner() const { return gate == up ? gate : DType::f32; }
};

struct FfnData {
  TestMatrix gate, up, down;
  std::vector<float> gate_bias, up_bias, down_bias, x;
};

constexpr float kGateScale = 0.75f, kUpScale = 1.25f;

/// activation(gate(x)) * up(x) of one row, and how far off it may be.
void inner_ffn(const KernelSet& set, DType dtype, const FfnCase& c, const FfnData& d, std::int64_t m,
               std::vector<double>& act, std::vector<double>& act_error) {
  const float* x = d.x.data() + m * c.hidden;
  for (std::int64_t j = 0; j < c.ffn; ++j) {
    const auto at = static_cast<std::size_t>(j);
    Sum g = dot(x, d.gate.values.data() + j * c.hidden, c.hidden);
    Sum u = dot(x, d.up.values.data() + j * c.hidden, c.hidden);
    g.magnitude *= kGateScale, u.magnitude *= kUpScale;
    const double a = (g.value + d.gate_bias[at]) * kGateScale, b = (u.value + d.up_bias[at]) * kUpScale;
    const double cubic = std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a);
    const bool silu = c.activation() == Activation::silu;
    act[at] = silu ? a / (1 + std::exp(-a)) * b : 0.5 * a * (1 + std::tanh(cubic)) * b;
    // |silu'| <= 1.1 and |gelu'| <= 1.13; the bounds of both sums, and a few roundings with exp's 2e-7, which in
    // gelu are of 2u, at most 10 where the result is not yet a or zero.
    act_error[at] = (silu ? 0 : 40 * kEps * std::fabs(a * b)) +
                    1.13 * sum_bound(set, dtype, g, c.hidden) * std::fabs(b) +
                    sum_bound(set, dtype, u, c.hidden) * std::fabs(a) + 16 * kEps * std::fabs(act[at]) +
                    (rounds_to_bf16(set) ? kBf16 * std::fabs(act[at]) : 0) +
                    4 * kEps * (std::fabs(a) * (std::fabs(b) + std::fabs(u.magnitude)) + g.magnitude * std::fabs(b));
  }
}

void check_ffn(const KernelSet& set, const FfnTypes& types, const FfnCase& c, const FfnData& d,
               const std::vector<float>& out) {
  std::vector<double> act(static_cast<std::size_t>(c.ffn)), act_error(act.size());
  for (std::int64_t m = 0; m < c.n; ++m) {
    inner_ffn(set, types.of_inner(), c, d, m, act, act_error);
    for (std::int64_t i = 0; i < c.hidden; ++i) {
      double want = (c.accumulate() ? 1.0 : 0.0) + d.down_bias[static_cast<std::size_t>(i)], magnitude = 0, error = 0;
      for (std::size_t j = 0; j < act.size(); ++j) {
        const double w = d.down.values[static_cast<std::size_t>(i * c.ffn) + j];
        want += act[j] * w;
        magnitude += std::fabs(act[j] * w);
        error += act_error[j] * std::fabs(w);
      }
      const double bound = error + sum_bound(set, types.down, {0, magnitude}, c.ffn) + 4 * kEps * (2 + std::fabs(want));
      const double got = out[static_cast<std::size_t>(m * c.hidden + i)];
      if (std::fabs(got - want) <= bound) continue;
      FAIL(set.name << " gate " << dtype_name(types.gate) << " up " << dtype_name(types.up) << " down "
                    << dtype_name(types.down) << " n " << c.n << " hidden " << c.hidden << " ffn " << c.ffn << " row "
                    << m << " output " << i << ": got " << got << ", want " << want << " within " << bound);
    }
  }
}

void ffn_case(const KernelSet& set, Random& random, const FfnTypes& types, const FfnCase& c) {
  const auto floats = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  FfnData d{make_matrix(set, random, types.gate, c.ffn, c.hidden),
            make_matrix(set, random, types.up, c.ffn, c.hidden),
            make_matrix(set, random, types.down, c.hidden, c.ffn),
            random.values(floats(c.ffn)),
            random.values(floats(c.ffn)),
            random.values(floats(c.hidden)),
            as_activations(set, random.values(floats(c.n * c.hidden)))};
  ActivationBuffer x = operand(set, d.x.data(), c.n, c.hidden), out = residual(set, c.n, c.hidden, 1.0f);
  FfnArgs args{c.n,
               x.view(),
               {d.gate.view, d.gate_bias.data(), kGateScale},
               {d.up.view, d.up_bias.data(), kUpScale},
               {d.down.view, d.down_bias.data()},
               out.view(),
               {},
               c.activation(),
               c.accumulate()};
  std::vector<std::byte> memory;
  const Shape shape{.batch = static_cast<std::uint32_t>(c.n),
                    .hidden = static_cast<std::uint32_t>(c.hidden),
                    .n_heads = 1,
                    .n_kv_heads = 1,
                    .head_dim = 2,
                    .ffn = static_cast<std::uint32_t>(c.ffn),
                    .vocab = 1,
                    .context = 1};
  run_all(set.ffn, args, set.ffn_workspace(shape), memory, 2);
  check_ffn(set, types, c, d, out.rows());
  // A scale is one more rounding of what comes out, before the old values are added.
  ActivationBuffer alone = residual(set, c.n, c.hidden), scaled = residual(set, c.n, c.hidden, 1.0f);
  args.accumulate = false, args.out = alone.view();
  run_all(set.ffn, args, set.ffn_workspace(shape), memory, 2);
  args.accumulate = true, args.out = scaled.view(), args.down.scale = 0.22f;
  run_all(set.ffn, args, set.ffn_workspace(shape), memory, 3);
  std::vector<float> want = alone.rows();
  for (float& value : want) value = 1.0f + value * args.down.scale;
  REQUIRE(scaled.rows() == want);
}

}  // namespace

void test_ffn(const KernelSet& set, DType dtype) {
  Random random(5);
  const FfnCase cases[] = {{1, 45, 67},  {2, 45, 67},   {3, 45, 67},  {4, 45, 67},   {6, 45, 67},   {12, 45, 67},
                           {13, 45, 67}, {40, 45, 67},  {1, 64, 540}, {2, 33, 540},  {3, 97, 300},  {4, 45, 290},
                           {5, 45, 290}, {40, 45, 540}, {2, 1, 1},    {1, 130, 128}, {16, 130, 128}};
  for (const FfnCase& c : cases) ffn_case(set, random, {dtype, dtype, dtype}, c);
  // Each matrix may have a type of its own.
  for (const DType other : weight_dtypes(set))
    for (const DType third : weight_dtypes(set)) {
      if (other == dtype && third == dtype) continue;
      for (const std::int64_t n : {1, 8, 9, 13, 40}) ffn_case(set, random, {dtype, other, third}, {n, 45, 290});
    }
}

}  // namespace qinfer::test

namespace {

using namespace qinfer;
using namespace qinfer::test;

void test_embed(const KernelSet& set, DType dtype) {
  Random random(1);
  for (const WeightRole role : {WeightRole::embedding, WeightRole::tied})
    for (const std::int64_t width : {1, 5, 144, 300}) {
      const std::vector<DType> types = weight_dtypes(set);
      if (role == WeightRole::tied && std::find(types.begin(), types.end(), dtype) == types.end()) continue;
      const TestMatrix table = make_matrix(set, random, dtype, 11, width, role);
      for (const std::int64_t n : {5, 8, 9, 16, 37}) {
        std::vector<std::int32_t> tokens = {10, 0, 3, 3, 7};
        while (static_cast<std::int64_t>(tokens.size()) < n) tokens.push_back(random.integer(11));
        ActivationBuffer out = residual(set, n, width);
        const float scale = width == 144 ? 1 : 0.3f;
        EmbedArgs args{n, tokens.data(), table.view, out.view(), scale};
        std::vector<std::byte> memory;
        run_all(set.embed, args, {}, memory, 2);
        for (std::int64_t m = 0; m < n; ++m)
          for (std::int64_t i = 0; i < width; ++i) {
            const auto at = static_cast<std::size_t>(tokens[static_cast<std::size_t>(m)] * width + i);
            REQUIRE(out.get(m, i) == table.values[at] * scale);
          }
      }
    }
}

/// What a norm writes, and how many of the batch's rows.
struct NormCase {
  std::int64_t batch, n, width;
  enum { operands, gathered, rows, added } to;
  bool plain = false;  ///< without a weight: the values as they are
};

void norm_case(const KernelSet& set, const NormCase& c) {
  Random random(2);
  const auto floats = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  const std::vector<float> x = random.values(floats(c.batch * c.width)), weight = random.values(floats(c.width));
  std::vector<std::int32_t> gather;
  for (std::int64_t m = 0; m < c.n; ++m) gather.push_back(static_cast<std::int32_t>((7 * m + 2) % c.batch));
  const bool gathers = c.to == NormCase::gathered;
  const float before = 0.7f;
  const ActivationLayout layout = c.to == NormCase::rows    ? ActivationLayout::row_major
                                  : c.to == NormCase::added ? set.layouts.residual_of(c.n)
                                                            : set.layouts.operand_of(c.n);
  ActivationBuffer in = residual(set, x, c.batch, c.width), out(layout, c.n, c.width);
  for (std::int64_t m = 0; m < c.n; ++m)
    for (std::int64_t i = 0; i < c.width; ++i) out.set(m, i, before);
  NormArgs args{c.n,   c.width,   gathers ? gather.data() : nullptr, in.view(), c.plain ? nullptr : weight.data(),
                1e-6f, out.view()};
  args.accumulate = c.to == NormCase::added;
  std::vector<std::byte> memory;
  run_all(set.norm, args, {}, memory, 2);
  INFO(set.name << " batch " << c.batch << " rows " << c.n << " width " << c.width << " to " << c.to
                << (c.plain ? " plain" : ""));
  CHECK(out.filled_up());
  for (std::int64_t m = 0; m < c.n; ++m) {
    const float* row = x.data() + (gathers ? gather[floats(m)] : m) * c.width;
    double squares = 0;
    for (std::int64_t i = 0; i < c.width; ++i) squares += static_cast<double>(row[i]) * row[i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(c.width) + 1e-6f);
    for (std::int64_t i = 0; i < c.width; ++i) {
      const double start = args.accumulate ? before : 0;
      const double want = c.plain ? double{row[i]} : start + row[i] * scale * weight[floats(i)];
      // The sum of squares has no cancellation: depth * eps, halved by the root, and five more roundings.
      double bound = (static_cast<double>(c.width) / 32 + 10) * kEps * (std::fabs(want) + 2 * start) + 1e-30;
      if (c.plain) bound = 0;
      if (layout == ActivationLayout::bf16_panels) bound += kBf16 * std::fabs(want);
      REQUIRE(std::fabs(out.get(m, i) - want) <= bound);
    }
  }
}

void test_norm(const KernelSet& set, DType) {
  for (const std::int64_t width : {1, 2, 15, 16, 17, 33, 144, 1024})
    for (const std::int64_t batch : {3, 8, 9, 16, 37})
      for (const std::int64_t n : {batch, std::int64_t{3}}) {
        norm_case(set, {batch, n, width, NormCase::gathered});
        norm_case(set, {batch, n, width, NormCase::gathered, true});
        if (n != batch) continue;
        norm_case(set, {batch, n, width, NormCase::operands});
        norm_case(set, {batch, n, width, NormCase::rows});
        norm_case(set, {batch, n, width, NormCase::added});
        norm_case(set, {batch, n, width, NormCase::operands, true});
        norm_case(set, {batch, n, width, NormCase::rows, true});
      }
  norm_case(set, {37, 12, 70, NormCase::gathered});
}

struct OperationTest {
  void (*run)(const KernelSet& set, DType type) = nullptr;
  enum class Types : std::uint8_t { none, all, of_weights } types = Types::none;
};

OperationTest test_of(std::string_view operation) {
  using Types = OperationTest::Types;
  const std::map<std::string_view, OperationTest> tests = {{"embed", {test_embed, Types::all}},
                                                           {"norm", {test_norm, Types::none}},
                                                           {"linear", {test_linear, Types::of_weights}},
                                                           {"qkv", {test_qkv, Types::of_weights}},
                                                           {"attention", {test_attention, Types::all}},
                                                           {"ffn", {test_ffn, Types::of_weights}},
                                                           {"moe_ffn", {test_moe_ffn, Types::of_weights}},
                                                           {"lm_head", {test_lm_head, Types::of_weights}}};
  const auto it = tests.find(operation);
  return it == tests.end() ? OperationTest() : it->second;
}

std::vector<DType> types_of(const KernelSet& set, OperationTest::Types types) {
  switch (types) {
    case OperationTest::Types::none: break;
    case OperationTest::Types::all: return {DType::f32, DType::f16, DType::bf16};
    case OperationTest::Types::of_weights: return weight_dtypes(set);
  }
  return {DType::f32};
}

}  // namespace

namespace {

/// The kernel sets that have a test below, each by itself so that one which this CPU cannot run is reported as skipped.
std::vector<std::string_view> tested_sets;

struct TestedSet {
  explicit TestedSet(std::string_view name) { tested_sets.push_back(name); }
};

void test_kernels_of(std::string_view set_name, const KernelSet* set) {
  SKIP_UNLESS(set != nullptr, cpu, "the kernel set " + std::string(set_name) + " does not run on it");
  for (const std::string_view operation : kOperations) {
    const OperationTest test = test_of(operation);
    INFO(set_name << " " << operation);
    REQUIRE(test.run != nullptr);
    for (const DType dtype : types_of(*set, test.types)) {
      INFO("dtype " << dtype_name(dtype));
      test.run(*set, dtype);
    }
  }
}

}  // namespace

#define TEST_KERNELS_OF(set)                                                            \
  static const TestedSet tested_##set(#set);                                            \
  TEST_CASE("every kernel of " #set " equals its definition in float64", "[kernels]") { \
    test_kernels_of(#set, usable_set(#set));                                            \
  }
TEST_KERNELS_OF(reference)
TEST_KERNELS_OF(avx2)
TEST_KERNELS_OF(avx2_int16)
TEST_KERNELS_OF(avx512)
TEST_KERNELS_OF(avx512_int16)
TEST_KERNELS_OF(avx512_fp16)
TEST_KERNELS_OF(avx512_bf16)
TEST_KERNELS_OF(amx)
TEST_KERNELS_OF(amx_int16)
#ifdef QINFER_HAVE_NEON
TEST_KERNELS_OF(neon)
#endif

// `.ci/run` runs it: it takes minutes.
TEST_CASE("every kernel with products of f16 and bf16 equals its definition, emulated too", "[.][emulated]") {
  const std::string name = GENERATE("avx512_fp16", "avx512_bf16");
  test_kernels_of(name, emulable_set(name));
}

TEST_CASE("every kernel set has a test of its kernels", "[kernels]") {
  for (const KernelSetRow& row : kernel_sets()) {
    INFO(row.name);
    CHECK(row.name == row.get().name);
    CHECK(std::find(tested_sets.begin(), tested_sets.end(), row.name) != tested_sets.end());
    std::string types;
    for (const DType type : weight_dtypes(row.get()))
      types += (types.empty() ? "" : " ") + std::string(dtype_name(type));
    CHECK(types == row.weight_types);
  }
#if defined(__x86_64__)  // every compiler that is supported builds all of them, whatever CPU it runs on
  for (const std::string_view name : tested_sets) {
    INFO(name);
    CHECK(std::any_of(kernel_sets().begin(), kernel_sets().end(),
                      [&](const KernelSetRow& row) { return row.name == name; }));
  }
#endif
}

TEST_CASE("packing and unpacking returns every value of the type bit for bit", "[kernels]") {
  for (const KernelSet* set : usable_sets()) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      INFO(set->name << " " << dtype_name(dtype));
      // All 65,536 patterns, as 65 x 1,009 with a few repeated: tails in both directions.
      const std::int64_t rows = 65, cols = 1009;
      std::vector<std::uint16_t> source(static_cast<std::size_t>(rows * cols));
      for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::uint16_t>(i);
      const Encoding encoding = encoding_of(dtype);
      const WeightFormat file{encoding, WeightLayout::row_major};
      WeightFormat format;
      const bool has = set->weight_format(WeightRole::q, encoding, &encoding, true, format);
      REQUIRE((has || rounds_to_bf16(*set)));
      if (!has) continue;
      std::vector<std::uint16_t> packed(weight_bytes(format, rows, cols) / 2, 0xffff);
      const float largest = set->pack({reinterpret_cast<const std::byte*>(source.data()), file, rows, cols}, format, {},
                                      reinterpret_cast<std::byte*>(packed.data()), 0, rows);
      CHECK(largest == (dtype == DType::f16 ? 65504.0f : bf16_to_f32(0x7f7f)));
      const bool tiles = format.layout == WeightLayout::tile32, pairs = format.layout == WeightLayout::pairs32;
      for (std::int64_t n = 0; n < (tiles || pairs ? 96 : rows); ++n)
        for (std::int64_t k = 0; k < cols; ++k) {
          const std::int64_t at = pairs   ? (n / 32 * ((cols + 1) / 2) + k / 2) * 64 + n % 32 * 2 + k % 2
                                  : tiles ? n / 32 * 32 * cols + k * 32 + n % 32
                                          : n * cols + k;
          const std::uint16_t want = n < rows ? source[static_cast<std::size_t>(n * cols + k)] : std::uint16_t{0};
          if (packed[static_cast<std::size_t>(at)] != want) FAIL("row " << n << " column " << k);
        }
    }
  }
}

TEST_CASE("weights beyond f16 are packed with a scale, or refused", "[kernels]") {
  for (const KernelSet* set : usable_sets()) {
    INFO(set->name);
    const WeightFormat f16{Encoding::f16, WeightLayout::tile32}, bf16{Encoding::bf16, WeightLayout::tile32};
    for (const auto& [format, largest] : {std::pair(f16, 65504.0f), std::pair(bf16, 3e38f)}) {
      PackInfo info;
      CHECK(set->pack_end(format, largest, info) == PackEnd::done);
      CHECK(info.scale == 1);
      CHECK(info.largest == largest);
    }
    PackInfo info;
    const PackEnd end = set->pack_end(f16, 1e9f, info);
    if (is_portable(set->name)) {
      CHECK(end == PackEnd::out_of_range);
      continue;
    }
    CHECK(end == PackEnd::again);
    CHECK(info.scale == 16384);
    CHECK(info.largest == 1e9f / 16384);  // 61035
    CHECK(set->pack_end(f16, 1e9f, info) == PackEnd::done);
    // What is small, but not as rows, which have no scale.
    PackInfo small;
    CHECK(set->pack_end(f16, 3e-6f, small) == PackEnd::again);
    CHECK(small.scale == 0x1p-18f);
    CHECK(small.largest == 3e-6f * 0x1p18f);  // 0.79
    CHECK(set->pack_end(f16, 3e-6f, small) == PackEnd::done);
    CHECK(set->pack_end(f16, 1e-45f, small) == PackEnd::again);
    CHECK(small.scale == 0x1p-100f);
    for (const float largest : {0.0f, 0x1p-6f, 0.02f}) {
      PackInfo plain;
      CHECK(set->pack_end(f16, largest, plain) == PackEnd::done);
      CHECK(plain.scale == 1);
    }
    PackInfo rows;
    CHECK(set->pack_end({Encoding::f16, WeightLayout::row_major}, 3e-6f, rows) == PackEnd::done);
  }
}

TEST_CASE("the kernel set follows from the CPU's features", "[kernels]") {
  const auto chosen = [](std::string_view features, bool exact = false) {
    return std::string(find_kernel_set("", features, exact)->name);
  };
  CHECK(chosen("") == "reference");
  CHECK(chosen("sse4.2 avx f16c fma avx2") == "reference");
  CHECK(chosen("avx512f avx512bw avx512dq") == "reference");
  CHECK(chosen("avx512_fp16") == "reference");
  CHECK(find_kernel_set("nonsense", "") == nullptr);
#if defined(QINFER_HAVE_NEON)
  CHECK(chosen("asimd") == "neon");
#elif defined(__x86_64__)
  CHECK(chosen("sse4.2 avx f16c fma avx2 bmi1 bmi2") == "avx2_int16");
  CHECK(chosen("sse4.2 avx f16c fma avx2 bmi1 bmi2", true) == "avx2");
  CHECK(chosen("avx512f avx512bw avx512dq avx512vl") == "avx512");
  CHECK(chosen("f16c fma avx2 bmi1 bmi2 avx512f avx512bw avx512dq avx512vl") == "avx512");
  CHECK(chosen("avx512f avx512bw avx512dq avx512vl avx512_vnni") == "avx512_int16");
  CHECK(chosen("avx2 avx512f avx512bw avx512dq avx512vl avx512_vnni avx512_fp16 amx_tile") == "avx512_fp16");
  CHECK(chosen("avx512f avx512bw avx512dq avx512vl avx512_vnni avx512_fp16", true) == "avx512");
  CHECK(find_kernel_set("avx512_fp16", "avx512f avx512bw avx512dq avx512vl avx512_vnni") == nullptr);
  CHECK(find_kernel_set("avx512_fp16", "avx512f avx512bw avx512dq avx512vl avx512_vnni avx512_fp16", true) == nullptr);
#endif
  CHECK(find_kernel_set("reference", "avx512f avx512bw avx512dq avx512vl") != nullptr);
}

TEST_CASE("soft caps are within 4e-7 of the cap over the whole range, through the LM head", "[kernels]") {
  for (const KernelSet* set : usable_sets())
    for (const float cap : {30.0f, 0.5f}) {
      INFO(set->name << " cap " << cap);
      const TestMatrix one = pack_matrix(*set, {1.0f}, weight_dtypes(*set)[0], 1, 1);
      std::vector<float> x = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 0.25f * cap, -0.25f * cap, 3e38f, -3e38f};
      for (double v = -12; v < 12; v += 0.00217) x.push_back(static_cast<float>(v * cap));
      for (double v = 1e-40; v < 1e38; v *= 1.37) x.insert(x.end(), {static_cast<float>(v), static_cast<float>(-v)});
      x = as_activations(*set, x);
      std::vector<float> out(x.size());
      std::vector<float*> rows;
      for (float& value : out) rows.push_back(&value);
      const auto n = static_cast<std::int64_t>(x.size());
      ActivationBuffer in = operand(*set, x.data(), n, 1);
      LmHeadArgs args{n, in.view(), one.view, rows.data(), {}, cap};
      std::vector<std::byte> memory;
      run_all(set->lm_head, args,
              set->lm_head_workspace({.batch = static_cast<std::uint32_t>(n),
                                      .hidden = 1,
                                      .n_heads = 1,
                                      .n_kv_heads = 1,
                                      .head_dim = 2,
                                      .ffn = 1,
                                      .vocab = 1,
                                      .context = 1}),
              memory, 2);
      CHECK(std::isnan(out[0]));
      CHECK(out[1] == cap);
      CHECK(out[2] == -cap);
      for (std::size_t i = 3; i < x.size(); ++i) {
        const double want = cap * std::tanh(static_cast<double>(x[i]) / cap);
        // Near zero the error is relative: the quotient, the series and the product round a few times.
        const double bound = std::fabs(x[i]) < 0.2 * cap ? 4e-7 * std::fabs(want) + 0x1p-120 : 4e-7 * cap;
        if (!(std::fabs(out[i] - want) <= bound)) FAIL("capped " << x[i] << " is " << out[i] << ", want " << want);
      }
    }
}

TEST_CASE("gelu is within its bound over the whole range, through the feed-forward network", "[kernels]") {
  for (const KernelSet* set : usable_sets()) {
    INFO(set->name);
    const TestMatrix one = pack_matrix(*set, {1.0f}, weight_dtypes(*set)[0], 1, 1),
                     zero = pack_matrix(*set, {0.0f}, weight_dtypes(*set)[0], 1, 1);
    const float up_bias = 1;
    std::vector<float> x = {NAN, 0.0f, -0.0f, 1e38f, -1e38f, 1e13f, -1e13f};
    for (double v = -20; v < 20; v += 0.00217) x.push_back(static_cast<float>(v));
    for (double v = 1e-40; v < 1e38; v *= 1.37) x.insert(x.end(), {static_cast<float>(v), static_cast<float>(-v)});
    x = as_activations(*set, x);
    const double rounding = rounds_to_bf16(*set) ? kBf16 : 0;  // of the result, before the down projection
    const auto n = static_cast<std::int64_t>(x.size());
    ActivationBuffer in = operand(*set, x.data(), n, 1), result = residual(*set, n, 1, 0.0f);
    FfnArgs args{n, in.view(), one.view, {zero.view, &up_bias}, one.view, result.view(), {}};
    args.activation = Activation::gelu_tanh;
    std::vector<std::byte> memory;
    run_all(set->ffn, args,
            set->ffn_workspace({.batch = static_cast<std::uint32_t>(n),
                                .hidden = 1,
                                .n_heads = 1,
                                .n_kv_heads = 1,
                                .head_dim = 2,
                                .ffn = 1,
                                .vocab = 1,
                                .context = 1}),
            memory, 2);
    const std::vector<float> out = result.rows();
    CHECK(std::isnan(out[0]));
    for (std::size_t i = 1; i < x.size(); ++i) {
      const double v = x[i], twice_u = 2 * std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
      const double want = v / (1 + std::exp(-twice_u));
      // exp's 2e-7 and, on the side where the result dies away, 2u with its four roundings.
      const double bound =
          (3e-7 + rounding + 4 * kEps * std::fabs(std::min(twice_u, 0.0))) * std::fabs(want) + 0x1p-120;
      if (!(std::fabs(out[i] - want) <= bound)) FAIL("gelu(" << x[i] << ") is " << out[i] << ", want " << want);
    }
  }
}

TEST_CASE("silu is within its bound over the whole range, through the feed-forward network", "[kernels]") {
  for (const KernelSet* set : usable_sets()) {
    INFO(set->name);
    // One feature: gate = x, up = 1 (its bias), down = silu(x) * 1.
    const TestMatrix one = pack_matrix(*set, {1.0f}, weight_dtypes(*set)[0], 1, 1),
                     zero = pack_matrix(*set, {0.0f}, weight_dtypes(*set)[0], 1, 1);
    const float up_bias = 1;
    std::vector<float> x = {NAN, 0.0f, -0.0f, 1e38f, -1e38f, 128.0f, -128.0f, 88.8f, -88.8f};
    for (double v = -104; v < 104; v += 0.00217) x.push_back(static_cast<float>(v));
    for (double v = 1e-40; v < 1e38; v *= 1.37) x.insert(x.end(), {static_cast<float>(v), static_cast<float>(-v)});
    x = as_activations(*set, x);
    const double rounding = rounds_to_bf16(*set) ? kBf16 : 0;  // of the result, before the down projection
    const auto n = static_cast<std::int64_t>(x.size());
    ActivationBuffer in = operand(*set, x.data(), n, 1), result = residual(*set, n, 1, 0.0f);
    FfnArgs args{n, in.view(), one.view, {zero.view, &up_bias}, one.view, result.view(), {}};
    std::vector<std::byte> memory;
    run_all(set->ffn, args,
            set->ffn_workspace({.batch = static_cast<std::uint32_t>(n),
                                .hidden = 1,
                                .n_heads = 1,
                                .n_kv_heads = 1,
                                .head_dim = 2,
                                .ffn = 1,
                                .vocab = 1,
                                .context = 1}),
            memory, 2);
    const std::vector<float> out = result.rows();
    CHECK(std::isnan(out[0]));
    for (std::size_t i = 1; i < x.size(); ++i) {
      const double v = x[i], want = v / (1 + std::exp(-v));
      // Where the result is subnormal, or e^-x overflows f32, it is zero to within the smallest normal number.
      if (std::fabs(out[i] - want) > (3e-7 + rounding) * std::fabs(want) + 0x1p-120)
        FAIL("silu(" << x[i] << ") is " << out[i]);
    }
  }
}
