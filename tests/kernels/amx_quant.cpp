// Quantised weights on tiles: what the decoders make of squares equals the values of their blocks rounded to bf16, and
// every operation has the bits that it has with those values kept as bf16. How networks whose matrices differ in their
// encodings do is in quant_networks.cpp.
#ifdef QINFER_HAVE_AMX
#include "amx/quant_squares.h"
#include "kernels/amx_kernels.h"
#include "kernels/quant_support.h"

namespace {

using namespace qinfer;
using namespace qinfer::test;

/// As a tile multiplication takes it: numbers smaller than 2^-126 are zero.
std::uint16_t rounded(float value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  return std::fabs(value) < 0x1p-126f ? sign : f32_to_bf16(value);
}

struct Squares {
  std::vector<std::byte> bytes;
  std::vector<float> values;  ///< [32][cols]
};

Squares make_squares(Encoding encoding, std::int64_t cols, unsigned seed) {
  Random random(seed);
  const std::vector<std::byte> blocks = random_blocks(random, encoding, 32 * cols);
  Squares squares;
  squares.values.resize(static_cast<std::size_t>(32 * cols));
  encoding_traits(encoding).to_f32(blocks.data(), 32 * cols, squares.values.data());
  squares.bytes.resize(static_cast<std::size_t>(bytes_of_quant_tile(encoding, cols)));
  pack_quant_tile({encoding, WeightLayout::squares32}, blocks.data(), 32, cols, squares.bytes.data());
  return squares;
}

/// A layer whose weights are between pages that cannot be read.
std::vector<float> guarded_layer(const KernelSet& set, const QuantMatrix& w, bool wide, std::int64_t n, bool at_end) {
  const TestMatrix& matrix = w.as(wide);
  const std::uint64_t bytes = weight_bytes(matrix.view.format, matrix.view.rows, matrix.view.cols);
  const Guarded memory(bytes, at_end);
  std::memcpy(memory.data(), matrix.view.data, bytes);
  Linear layer = matrix.view;
  layer.data = memory.data();
  Random random(static_cast<unsigned>(n));
  const std::vector<float> x = random.values(static_cast<std::size_t>(n * layer.cols)),
                           before = random.values(static_cast<std::size_t>(n * layer.rows));
  ActivationBuffer in = operand(set, x.data(), n, layer.cols), out = residual(set, before, n, layer.rows);
  LinearArgs args{n, in.view(), layer, true, out.view(), {}};
  const Shape shape = linear_shape(n, layer.cols);
  std::vector<std::byte> workspace;
  run_all(set.linear, args, set.linear_workspace(shape), workspace, 2);
  return out.rows();
}

}  // namespace

TEST_CASE("squares of every encoding are decoded to their values, rounded once", "[amx]") {
  SKIP_UNLESS_CPU_HAS(emulated_set() != nullptr, "AVX-512");
  constexpr std::int64_t kCols = 512;
  for (const Encoding encoding : quantised_encodings())
    for (unsigned seed = 0; seed < 4; ++seed) {
      INFO(encoding_name(encoding) << " seed " << seed);
      const Squares squares = make_squares(encoding, kCols, seed);
      const kernels::amx::QuantSquares& quant = kernels::amx::quant_squares(encoding);
      REQUIRE(quant.layout.block_cols == encoding_traits(encoding).block_values);
      for (std::int64_t k = 0; k < kCols; k += 32) {
        const std::byte* block = squares.bytes.data() + k / quant.layout.block_cols * quant.layout.block;
        const std::byte* sub = block + quant.layout.header + k % quant.layout.block_cols / 32 * quant.layout.sub;
        alignas(64) std::uint16_t halves[32][32], fours[32][32];
        kernels::amx::RowScales scales;
        for (const std::int64_t half : {1, 0})
          quant.half(block, sub, half, reinterpret_cast<std::byte*>(halves[16 * half]));
        for (std::int64_t group = 0; group < 8; ++group)
          quant.four(block, sub, group, scales, reinterpret_cast<std::byte*>(fours[4 * group]));
        for (std::int64_t row = 0; row < 32; ++row)
          for (std::int64_t i = 0; i < 32; ++i) {
            const float value = squares.values[static_cast<std::size_t>(row * kCols + k + i)];
            // A zero may have either sign: its products are zero.
            const auto want = static_cast<std::uint16_t>(rounded(value) == 0x8000 ? 0 : rounded(value));
            const auto plain = [](std::uint16_t bits) { return static_cast<std::uint16_t>(bits == 0x8000 ? 0 : bits); };
            INFO("row " << row << " column " << k + i << " value " << value);
            REQUIRE(plain(halves[row][i]) == want);
            REQUIRE(plain(fours[row][i]) == want);
          }
      }
    }
}

TEST_CASE("quantised layers on tiles have the bits of their values as bf16, and read nothing else", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  struct Case {
    std::int64_t n, blocks, outputs;
  };
  // Few rows and many, columns in several blocks of 512, more row pairs than a group has, outputs that end anywhere.
  const Case cases[] = {{1, 1, 33},  {5, 3, 70},  {16, 2, 32}, {17, 1, 16},  {32, 2, 5},
                        {33, 1, 70}, {40, 3, 33}, {64, 1, 1},  {47, 5, 100}, {40, 1, 530}};
  for (const Encoding encoding : quantised_encodings())
    for (const Case& c : cases) {
      // The longest ones for one encoding of each kind of block.
      const bool is_long = encoding_traits(encoding).block_values == 256;
      if (c.outputs == 530 && encoding != Encoding::q4_0 && encoding != Encoding::q6_k) continue;
      const std::int64_t cols = c.blocks * (is_long ? 256 : c.blocks > 3 ? 256 : 32);
      Random random(static_cast<unsigned>(cols + c.n));
      const QuantMatrix w = make_quantised(*set, random, encoding, c.outputs, cols);
      REQUIRE(w.own.view.format == WeightFormat{encoding, WeightLayout::squares32});
      REQUIRE(w.widened.view.format == WeightFormat{Encoding::bf16, WeightLayout::row_major});
      INFO(encoding_name(encoding) << " n " << c.n << " cols " << cols << " outputs " << c.outputs);
      const std::vector<float> want = guarded_layer(*set, w, true, c.n, true);
      for (const bool at_end : {true, false}) REQUIRE(same_bits(guarded_layer(*set, w, false, c.n, at_end), want));
    }
}

TEST_CASE("quantised weights become bf16 in pairs as they become bf16 in rows", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  for (const Encoding encoding : quantised_encodings()) {
    INFO(encoding_name(encoding));
    const std::int64_t rows = 70, cols = 2 * encoding_traits(encoding).block_values;
    Random random(5);
    const std::vector<std::byte> blocks = random_blocks(random, encoding, rows * cols);
    const WeightFormat in_rows{Encoding::bf16, WeightLayout::row_major}, pairs{Encoding::bf16, WeightLayout::pairs16};
    const TestMatrix a = pack_blocks(*set, blocks, encoding, in_rows, rows, cols),
                     b = pack_blocks(*set, blocks, encoding, pairs, rows, cols);
    std::vector<std::byte> want(weight_bytes(pairs, rows, cols));
    set->pack(a.view, pairs, {}, want.data(), 0, rows);
    CHECK((b.bytes == want));
  }
}
#endif
