// Single matrices of quantised weights, for every set that multiplies with their values: the same bits as the same
// matrix as these values, the same bits whatever the batch and the slices, float64, and what packing gives.
#include "base/block_formats.h"
#include "kernels/quant_support.h"
#include "support/skip.h"

namespace {

using namespace qinfer;
using namespace qinfer::test;

std::vector<float> run_linear(const KernelSet& set, const Matrix& w, const std::vector<float>& x, std::int64_t n,
                              int workers, const std::vector<float>& bias, const std::vector<float>& before) {
  ActivationBuffer in = operand(set, x.data(), n, w.cols);
  ActivationBuffer out = residual(set, before, n, w.rows);
  LinearArgs args{n, in.view(), {w, bias.data(), 0.75f}, true, out.view(), {}};
  const Shape shape = linear_shape(n, w.cols);
  std::vector<std::byte> memory;
  run_all(set.linear, args, set.linear_workspace(shape), memory, workers);
  return out.rows();
}

struct LinearData {
  QuantMatrix w;
  std::vector<float> x, bias, before;

  LinearData(const KernelSet& set, Encoding encoding, std::int64_t n, std::int64_t cols, std::int64_t outputs) {
    Random random(static_cast<unsigned>(n * 1000 + cols + outputs));
    w = make_quantised(set, random, encoding, outputs, cols);
    x = random.values(static_cast<std::size_t>(n * cols));
    bias = random.values(static_cast<std::size_t>(outputs));
    before = random.values(static_cast<std::size_t>(n * outputs));
  }
  std::vector<float> run(const KernelSet& set, std::int64_t n, int workers, bool wide) const {
    return run_linear(set, w.as(wide).view, x, n, workers, bias, before);
  }
};

void linear_case(const KernelSet& set, Encoding encoding, std::int64_t n, std::int64_t cols, std::int64_t outputs) {
  const LinearData d(set, encoding, n, cols, outputs);
  const std::vector<float> out = d.run(set, n, 3, false);
  INFO(set.name << " " << encoding_name(encoding) << " n " << n << " cols " << cols << " outputs " << outputs);
  REQUIRE(same_bits(out, d.run(set, n, 2, true)));
  for (std::int64_t m = 0; m < n; ++m)
    for (std::int64_t j = 0; j < outputs; ++j) {
      const Sum sum = dot(d.x.data() + m * cols, d.w.own.values.data() + j * cols, cols);
      const auto at = static_cast<std::size_t>(m * outputs + j);
      const double want = (sum.value + d.bias[static_cast<std::size_t>(j)]) * 0.75 + d.before[at];
      const double bound = sum_bound(set, DType::f32, sum, cols) +
                           4 * kEps * (std::fabs(want) + std::fabs(d.before[at]) + sum.magnitude + 8);
      if (std::fabs(out[at] - want) > bound)
        FAIL("row " << m << " output " << j << ": got " << out[at] << ", want " << want << " within " << bound);
    }
}

}  // namespace

TEST_CASE("linear layers with quantised weights equal those with their values as f32", "[kernels]") {
  SKIP_UNLESS_CPU_HAS(!f32_quant_sets().empty(), "AVX-512");
  for (const KernelSet* set : f32_quant_sets())
    for (const Encoding encoding : quantised_encodings()) {
      const std::int64_t block = encoding_traits(encoding).block_values;
      for (std::int64_t n = 1; n <= 26; ++n) linear_case(*set, encoding, n, block, 33);
      for (const std::int64_t n : {1, 2, 3, 5, 7, 12, 13, 40, 61})
        for (const std::int64_t blocks : {1, 2, 3})
          for (const std::int64_t outputs : {1, 31, 32, 70, 160, 289})
            linear_case(*set, encoding, n, blocks * block, outputs);
    }
}

// What check_old_cpu.sh runs on emulated CPUs.
TEST_CASE("a few linear layers with quantised weights of every encoding", "[.]") {
  SKIP_UNLESS_CPU_HAS(!f32_quant_sets().empty(), "AVX2");
  for (const KernelSet* set : f32_quant_sets())
    for (const Encoding encoding : quantised_encodings()) {
      const std::int64_t block = encoding_traits(encoding).block_values;
      for (const std::int64_t n : {1, 13}) linear_case(*set, encoding, n, block, 70);
    }
}

TEST_CASE("outputs of quantised weights do not depend on batch and slices", "[kernels]") {
  SKIP_UNLESS_CPU_HAS(!quant_sets().empty(), "AVX-512");
  for (const KernelSet* set : quant_sets())
    for (const Encoding encoding : quantised_encodings()) {
      INFO(set->name << " " << encoding_name(encoding));
      const std::int64_t n = 27, cols = 512, outputs = 200;
      const LinearData d(*set, encoding, n, cols, outputs);
      const std::vector<float> all = d.run(*set, n, 1, false);
      for (const int workers : {2, 3, 7}) REQUIRE(same_bits(d.run(*set, n, workers, false), all));
      for (const std::int64_t size : {1, 2, 3, 4, 6, 8, 9, 13})
        for (std::int64_t first = 0; first + size <= n; first += size) {
          const auto part = [&](const std::vector<float>& v, std::int64_t width) {
            return std::vector<float>(v.begin() + first * width, v.begin() + (first + size) * width);
          };
          const std::vector<float> out =
              run_linear(*set, d.w.own.view, part(d.x, cols), size, 2, d.bias, part(d.before, outputs));
          REQUIRE(same_bits(out, part(all, outputs)));
        }
    }
}

TEST_CASE("LM heads with quantised weights equal those with their values", "[kernels]") {
  SKIP_UNLESS_CPU_HAS(!quant_sets().empty(), "AVX-512");
  for (const KernelSet* set : quant_sets())
    for (const Encoding encoding : quantised_encodings())
      for (const std::int64_t n : {1, 3, 9, 30}) {
        INFO(set->name << " " << encoding_name(encoding) << " n " << n);
        const std::int64_t cols = 256, vocab = 131;
        Random random(static_cast<unsigned>(n));
        const QuantMatrix w = make_quantised(*set, random, encoding, vocab, cols, WeightRole::lm_head);
        const std::vector<float> x = random.values(static_cast<std::size_t>(n * cols));
        std::vector<std::vector<float>> of_form;
        for (const bool wide : {false, true}) {
          std::vector<float> logits(static_cast<std::size_t>(n * vocab));
          std::vector<float*> rows;
          for (std::int64_t m = 0; m < n; ++m) rows.push_back(logits.data() + m * vocab);
          ActivationBuffer in = operand(*set, x.data(), n, cols);
          LmHeadArgs args{n, in.view(), w.as(wide).view, rows.data(), {}, 30};
          std::vector<std::byte> memory;
          run_all(set->lm_head, args,
                  set->lm_head_workspace({.batch = 40,
                                          .hidden = 256,
                                          .n_heads = 1,
                                          .n_kv_heads = 1,
                                          .head_dim = 2,
                                          .ffn = 1,
                                          .vocab = 131,
                                          .context = 1}),
                  memory, 2);
          of_form.push_back(logits);
        }
        REQUIRE(same_bits(of_form[0], of_form[1]));
      }
}

TEST_CASE("embeddings come out of quantised tiles and rows as they were", "[kernels]") {
  SKIP_UNLESS_CPU_HAS(!quant_sets().empty(), "AVX-512");
  for (const KernelSet* set : quant_sets())
    for (const Encoding encoding : quantised_encodings())
      for (const WeightRole role : {WeightRole::embedding, WeightRole::tied}) {
        INFO(set->name << " " << encoding_name(encoding));
        const std::int64_t rows = 45, cols = 512;
        Random random(3);
        const std::vector<std::byte> blocks = random_blocks(random, encoding, rows * cols);
        WeightFormat format;
        REQUIRE(set->weight_format(role, encoding, nullptr, false, format));
        REQUIRE(format.layout == (role == WeightRole::tied ? WeightLayout::tile32 : WeightLayout::row_major));
        const TestMatrix table = pack_blocks(*set, blocks, encoding, format, rows, cols);
        for (const float scale : {1.0f, 0.3f}) {
          const std::int32_t tokens[] = {44, 0, 31, 32, 7, 7, 43, 1, 2, 3, 4, 33, 34, 35, 44, 6, 5, 9};
          for (const std::int64_t n : {6, 18}) {
            ActivationBuffer out = residual(*set, n, cols);
            EmbedArgs args{n, tokens, table.view, out.view(), scale};
            std::vector<std::byte> memory;
            run_all(set->embed, args, {}, memory, 2);
            for (std::int64_t m = 0; m < n; ++m)
              for (std::int64_t i = 0; i < cols; ++i) {
                const float value = table.values[static_cast<std::size_t>(tokens[m] * cols + i)];
                REQUIRE(std::bit_cast<std::uint32_t>(out.get(m, i)) ==
                        std::bit_cast<std::uint32_t>(scale == 1 ? value : value * scale));
              }
          }
        }
      }
}

TEST_CASE("quantised matrices are packed as they are or as f32, in any parts", "[kernels]") {
  SKIP_UNLESS_CPU_HAS(!f32_quant_sets().empty(), "AVX-512");
  for (const KernelSet* set : f32_quant_sets())
    for (const Encoding encoding : quantised_encodings()) {
      INFO(set->name << " " << encoding_name(encoding));
      const std::int64_t rows = 70, cols = 3 * encoding_traits(encoding).block_values;
      Random random(9);
      std::vector<std::byte> blocks = random_blocks(random, encoding, rows * cols);
      const Matrix source{blocks.data(), {encoding, WeightLayout::row_major}, rows, cols};
      std::vector<float> values(static_cast<std::size_t>(rows * cols));
      encoding_traits(encoding).to_f32(blocks.data(), rows * cols, values.data());
      float largest = 0;
      for (const float v : values) largest = std::max(largest, std::fabs(v));
      const Matrix widened{reinterpret_cast<const std::byte*>(values.data()), {}, rows, cols};
      for (const WeightLayout layout : {WeightLayout::row_major, WeightLayout::tile32})
        for (const Encoding to : {encoding, Encoding::f32}) {
          const WeightFormat format{to, layout};
          std::vector<std::byte> whole(weight_bytes(format, rows, cols), std::byte{0xff}), parts = whole, plain = whole;
          REQUIRE(set->pack(source, format, {}, whole.data(), 0, rows) == largest);
          for (const std::int64_t first : {64, 0, 32})
            set->pack(source, format, {}, parts.data(), first, std::min<std::int64_t>(first + 32, rows));
          REQUIRE(whole == parts);
          if (to == encoding) {
            if (layout == WeightLayout::row_major) REQUIRE(whole == blocks);
            continue;
          }
          set->pack(widened, format, {}, plain.data(), 0, rows);
          REQUIRE(whole == plain);
        }
      // A scale that is no number is found, whatever becomes of it.
      const std::size_t bad = 41 * blocks.size() / 70;
      const std::uint16_t nan = 0x7e00;
      if (encoding == Encoding::mxfp4) blocks[bad] = std::byte{255};
      for (const std::size_t place : f16_places(encoding)) std::memcpy(blocks.data() + bad + place, &nan, 2);
      for (const WeightLayout layout : {WeightLayout::row_major, WeightLayout::tile32})
        for (const Encoding to : {encoding, Encoding::f32}) {
          std::vector<std::byte> out(weight_bytes({to, layout}, rows, cols));
          CHECK(std::isfinite(set->pack(source, {to, layout}, {}, out.data(), 0, 32)));
          CHECK(std::isinf(set->pack(source, {to, layout}, {}, out.data(), 32, 64)));
        }
    }
}

TEST_CASE("kernel sets keep quantised matrices, widen them to f32, or refuse", "[kernels]") {
  const Encoding f32 = Encoding::f32, f16 = Encoding::f16, bf16 = Encoding::bf16;
  for (const KernelSetRow& row : kernel_sets()) {
    const KernelSet& set = row.get();
    INFO(row.name);
    if (is_portable(row.name) || rounds_to_bf16(row.name)) continue;
    for (const Encoding encoding : quantised_encodings())
      for (const bool exact : {false, true}) {
        const WeightFormat same{encoding, WeightLayout::tile32}, wide{Encoding::f32, WeightLayout::tile32};
        const auto format = [&](WeightRole role, const Encoding* wanted) -> std::optional<WeightFormat> {
          WeightFormat out;
          if (!set.weight_format(role, encoding, wanted, exact, out)) return std::nullopt;
          return out;
        };
        CHECK(format(WeightRole::embedding, nullptr) == WeightFormat{encoding, WeightLayout::row_major});
        for (const WeightRole role : {WeightRole::q, WeightRole::down, WeightRole::lm_head, WeightRole::tied}) {
          CHECK(format(role, nullptr) == same);
          CHECK(format(role, &encoding) == same);
          CHECK(format(role, &f32) == wide);
          CHECK(format(role, &f16) == std::nullopt);
          CHECK(format(role, &bf16) == std::nullopt);
        }
        CHECK(format(WeightRole::router, nullptr) == wide);
        CHECK(format(WeightRole::router, &f16) == wide);
        // Nothing is quantised.
        WeightFormat out;
        CHECK_FALSE(set.weight_format(WeightRole::q, Encoding::f32, &encoding, exact, out));
      }
  }
}
