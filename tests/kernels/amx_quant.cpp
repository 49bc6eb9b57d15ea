// Quantised weights on tiles: what the decoders make of them equals their scalar model (cut_weights.h), and every
// operation has the bits that it has with those values kept as bf16. How networks whose matrices differ in their
// encodings do is in quant_networks.cpp.
#ifdef QINFER_HAVE_AMX
#include "amx/quant_pairs.h"
#include "kernels/amx_kernels.h"
#include "kernels/quant_support.h"

namespace {

using namespace qinfer;
using namespace qinfer::test;

/// A tile of 32 rows, and what its weights are to become.
struct QuantTile {
  std::vector<std::byte> bytes;
  std::vector<float> values, cut;  ///< [32][cols]
};

QuantTile make_tile(Encoding encoding, std::int64_t cols, unsigned seed) {
  Random random(seed);
  const std::vector<std::byte> blocks = random_blocks(random, encoding, 32 * cols);
  QuantTile tile;
  tile.values.resize(static_cast<std::size_t>(32 * cols));
  encoding_traits(encoding).to_f32(blocks.data(), 32 * cols, tile.values.data());
  tile.cut = cut_values(encoding, blocks);
  tile.bytes.resize(static_cast<std::size_t>(bytes_of_quant_tile(encoding, cols)));
  pack_quant_tile(encoding, blocks.data(), 32, cols, tile.bytes.data());
  return tile;
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

TEST_CASE("tiles of every encoding are decoded to what their scalar model says", "[amx]") {
  SKIP_UNLESS_CPU_HAS(emulated_set() != nullptr, "AVX-512");
  constexpr std::int64_t kCols = 512;
  for (const Encoding encoding : quantised_encodings())
    for (unsigned seed = 0; seed < 4; ++seed) {
      INFO(encoding_name(encoding) << " seed " << seed);
      const QuantTile tile = make_tile(encoding, kCols, seed);
      const kernels::amx::QuantPairs& quant = kernels::amx::quant_pairs(encoding);
      REQUIRE(quant.layout.block_cols == encoding_traits(encoding).block_values);
      for (std::int64_t k = 0; k < kCols; k += 32)
        for (const std::int64_t half : {1, 0}) {
          const kernels::amx::SubBlock at = kernels::amx::sub_of(quant.layout, k / 32);
          alignas(64) std::uint16_t pairs[16][16][2];
          quant.decode(tile.bytes.data() + at.block, tile.bytes.data() + at.at, half,
                       reinterpret_cast<std::byte*>(pairs));
          for (std::int64_t row = 0; row < 16; ++row)
            for (std::int64_t i = 0; i < 32; ++i) {
              const auto place = static_cast<std::size_t>((16 * half + row) * kCols + k + i);
              const std::uint16_t want = f32_to_bf16(tile.cut[place]), got = pairs[i / 2][row][i % 2];
              INFO("row " << 16 * half + row << " column " << k + i << " value " << tile.values[place]);
              // A zero may have either sign: its products are zero.
              REQUIRE((got & 0x7fff ? got : 0) == (want & 0x7fff ? want : 0));
            }
        }
    }
}

TEST_CASE("weights that are cut err as those that are rounded, and not to one side", "[amx]") {
  for (const Encoding encoding : quantised_encodings()) {
    double cut_error = 0, rounded_error = 0, sum = 0, weights = 0;
    for (unsigned seed = 0; seed < 16; ++seed) {
      const QuantTile tile = make_tile(encoding, 512, seed);
      for (std::size_t i = 0; i < tile.values.size(); ++i) {
        const double value = tile.values[i], got = tile.cut[i];
        const double rounded = bf16_to_f32(f32_to_bf16(tile.values[i]));
        if (value == 0 && got != 0) {
          // Only a minimum that is not a multiple of the scale can leave something where there is nothing.
          const TileScales scales = quant_layout(encoding).scales;
          REQUIRE((scales == TileScales::d_and_m || scales == TileScales::long_minima));
        }
        cut_error += (got - value) * (got - value), rounded_error += (rounded - value) * (rounded - value);
        sum += std::copysign(got - value, (got - value) * value), weights += std::fabs(value);
      }
    }
    INFO(encoding_name(encoding) << ": " << std::sqrt(cut_error / rounded_error) << " times the error of rounding, "
                                 << sum / weights << " of the weights too large");
    // MXFP4's values are exact in either way, but for those below 2^-126.
    if (encoding == Encoding::mxfp4) {
      CHECK(cut_error < 1e-70);
      continue;
    }
    CHECK(std::sqrt(cut_error / rounded_error) < 1.25);
    CHECK(std::fabs(sum / weights) < 5e-4);  // cutting alone: 2.7e-3
  }
}

TEST_CASE("weights that bf16 holds stay what they are when they are cut", "[amx]") {
  // Scales of few bits: every product has eight or fewer.
  for (const Encoding encoding : {Encoding::q4_0, Encoding::q5_0, Encoding::q8_0, Encoding::iq4_nl}) {
    const EncodingTraits& traits = encoding_traits(encoding);
    std::vector<std::byte> blocks(4 * traits.block_bytes);
    Random random(3);
    for (std::byte& b : blocks) b = static_cast<std::byte>(random.integer(256));
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint16_t scale = f32_to_f16(std::ldexp(i % 2 == 0 ? 1.0f : -1.0f, static_cast<int>(i) - 9));
      std::memcpy(blocks.data() + i * traits.block_bytes, &scale, 2);
    }
    std::vector<float> values(4 * traits.block_values);
    traits.to_f32(blocks.data(), static_cast<std::int64_t>(values.size()), values.data());
    INFO(encoding_name(encoding));
    CHECK(cut_values(encoding, blocks) == values);
  }
}

TEST_CASE("quantised layers on tiles have the bits of their weights as bf16, and read nothing else", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  struct Case {
    std::int64_t n, blocks, outputs;
  };
  // Few rows and many, columns in several blocks of 512, more row pairs than a group has, outputs that end anywhere.
  const Case cases[] = {{1, 1, 33}, {1, 3, 300}, {2, 1, 70},  {3, 2, 161}, {5, 3, 70},   {16, 2, 32}, {17, 1, 16},
                        {32, 2, 5}, {33, 1, 70}, {40, 3, 33}, {64, 1, 1},  {47, 5, 100}, {40, 1, 530}};
  for (const Encoding encoding : quantised_encodings())
    for (const Case& c : cases) {
      // The longest ones for one encoding of each kind of block.
      const bool is_long = encoding_traits(encoding).block_values == 256;
      if (c.outputs == 530 && encoding != Encoding::q4_0 && encoding != Encoding::q6_k) continue;
      const std::int64_t cols = c.blocks * (is_long ? 256 : c.blocks > 3 ? 256 : 32);
      Random random(static_cast<unsigned>(cols + c.n));
      const QuantMatrix w = make_quantised(*set, random, encoding, c.outputs, cols);
      REQUIRE(w.own.view.format == WeightFormat{encoding, WeightLayout::tile32});
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
