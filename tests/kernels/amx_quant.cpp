// Quantised weights on tiles: what the decoders make of them equals their scalar model (cut_weights.h), and every
// operation has the bits that it has with those values kept as bf16. How networks whose matrices differ in their
// encodings do is in quant_networks.cpp.
#ifdef QINFER_HAVE_AMX
#include <cfenv>

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

QuantTile make_tile(Encoding encoding, std::int64_t cols, const std::vector<std::byte>& blocks) {
  QuantTile tile;
  tile.values.resize(static_cast<std::size_t>(32 * cols));
  encoding_traits(encoding).to_f32(blocks.data(), 32 * cols, tile.values.data());
  tile.cut = cut_values(encoding, blocks);
  tile.bytes.resize(static_cast<std::size_t>(bytes_of_quant_tile(encoding, cols)));
  pack_quant_tile(encoding, blocks.data(), 32, cols, tile.bytes.data());
  return tile;
}

/// Blocks without minima whose scales have mantissas with the density of 1 / m, so that those of all products have it.
std::vector<std::byte> evenly_scaled_blocks(Random& random, Encoding encoding, std::int64_t n) {
  std::vector<std::byte> blocks = random_blocks(random, encoding, n);
  const std::vector<std::size_t> places = f16_places(encoding);
  for (std::size_t at = 0; at < blocks.size(); at += encoding_traits(encoding).block_bytes)
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::uint16_t bits =
          f32_to_f16(i == 0 ? std::exp2(-6 - static_cast<float>(random.integer(1 << 20)) * 0x1p-20f) : 0.0f);
      std::memcpy(blocks.data() + at + places[i], &bits, 2);
    }
  return blocks;
}

/// By how much of 2^-8 cut weights are larger in the mean since a scale has few bits: of `dropped` bits that are cut
/// off the mean is not half of a last place but (1 - 2^-dropped) / 2 of it. Integers are `least` to `most`, all as
/// often.
double coarse_shift(int bits, int least, int most) {
  double sum = 0;
  int count = 0;
  for (int integer = least; integer <= most; ++integer) {
    if (integer == 0) continue;
    int odd = std::abs(integer);
    while (odd % 2 == 0) odd /= 2;
    const int longer = std::ilogb(odd);  // bits of the product beyond those of the scale: so many, or one more
    const double as_many = longer + 1 - std::log2(odd);
    sum += as_many * std::exp2(8 - bits - longer) + (1 - as_many) * std::exp2(7 - bits - longer), ++count;
  }
  return sum / count / (2 * std::log(2.0));
}

/// What the mean error of an encoding has of it.
double shift_of(Encoding encoding) {
  switch (encoding) {
    case Encoding::q3_k: return coarse_shift(10, -4, 3);
    case Encoding::q4_0: return coarse_shift(11, -8, 7);
    case Encoding::q5_0: return coarse_shift(12, -16, 15);
    case Encoding::q6_k: return coarse_shift(13, -32, 31);
    default: return 0;  // scales of 24 bits
  }
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
      Random random(seed);
      const QuantTile tile = make_tile(encoding, kCols, random_blocks(random, encoding, 32 * kCols));
      const kernels::amx::QuantPairs& quant = kernels::amx::quant_pairs(encoding);
      REQUIRE(quant.layout.block_cols == encoding_traits(encoding).block_values);
      for (std::int64_t k = 0; k < kCols; k += 32)
        for (const std::int64_t half : {1, 0}) {
          const kernels::amx::SubBlock at = kernels::amx::sub_of(quant.layout, k / 32);
          alignas(64) std::uint16_t pairs[16][16][2];
          // Whatever the thread's rounding is.
          constexpr int kRoundings[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
          std::fesetround(kRoundings[seed]);
          quant.decode(tile.bytes.data() + at.block, tile.bytes.data() + at.at, half,
                       reinterpret_cast<std::byte*>(pairs));
          std::fesetround(FE_TONEAREST);
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
  // Of relative errors, with mantissas m of the density 1 / (m ln 2), in units of 2^-8: cutting errs by ln 2 - u / m, u
  // between 0 and 2. Its mean is ln 2 - 1 / (2 ln 2) = -0.0282; cutting alone has -0.721. Rounding has a mean square of
  // 4 / 12 * 3 / (8 ln 2) = 0.1803, cutting that and (ln 2)^2 - 1 + 3 / (8 ln 2) = 0.0215, and a scale of b bits adds
  // 0.1803 * 4^(8 - b). What is left is chance: 8,192 or more scales, which at worst all have one weight.
  constexpr double kUnit = 0x1p-8, kRounding = 0.1803, kCutting = 0.0215, kMean = -0.0282;
  for (const Encoding encoding : quantised_encodings()) {
    const int bits = encoding == Encoding::q3_k ? 10 : encoding == Encoding::q4_0 ? 11 : 12;
    double squares = 0, rounded_squares = 0, sum = 0, count = 0;
    Random random(21);
    for (int i = 0; i < 16; ++i) {
      const QuantTile tile = make_tile(encoding, 512, evenly_scaled_blocks(random, encoding, 32 * 512));
      for (std::size_t at = 0; at < tile.values.size(); ++at) {
        const double value = tile.values[at], got = tile.cut[at];
        if (value == 0) REQUIRE(got == 0);
        if (std::fabs(value) < 0x1p-100) continue;  // MXFP4 without a scale
        const double error = (got - value) / value / kUnit;
        const double rounded = (bf16_to_f32(f32_to_bf16(tile.values[at])) - value) / value / kUnit;
        squares += error * error, rounded_squares += rounded * rounded, sum += error, count += 1;
      }
    }
    INFO(encoding_name(encoding) << ": mean " << sum / count << ", mean squares " << squares / count
                                 << " and, rounded, " << rounded_squares / count);
    if (encoding == Encoding::mxfp4) {  // exact in either way
      CHECK(squares == 0);
      continue;
    }
    const double want = kRounding + kCutting + kRounding * std::pow(4.0, 8 - bits), chance = 5 / std::sqrt(8192.0);
    CHECK(std::fabs(sum / count - kMean - shift_of(encoding)) < std::sqrt(want) * chance);
    CHECK(squares / count < want * (1 + chance));
  }
}

TEST_CASE("one and two tokens have the bits of tiles with any activations", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  const float extremes[] = {INFINITY, -INFINITY, NAN, 3e38f, -3e38f, 1e-40f, -1e-40f, 1.2e-38f, 0.0f, -0.0f};
  for (const Encoding encoding : {Encoding::q4_0, Encoding::q4_k, Encoding::q6_k, Encoding::q8_0, Encoding::mxfp4}) {
    Random random(9);
    const std::int64_t cols = 512, rows = 70;
    const QuantMatrix w = make_quantised(*set, random, encoding, rows, cols);
    for (const float extreme : extremes)
      for (const bool alone : {true, false}) {
        std::vector<float> x = random.values(static_cast<std::size_t>(5 * cols));
        for (std::int64_t m = 0; m < 5; ++m) {  // all rows are the same one
          if (m > 0) std::copy_n(x.begin(), cols, x.begin() + m * cols);
          x[static_cast<std::size_t>(m * cols + 37)] = extreme;
          if (!alone) x[static_cast<std::size_t>(m * cols + 300)] = -extreme;
        }
        const auto outputs = [&](std::int64_t n) {
          ActivationBuffer in = operand(*set, x.data(), n, cols), out = residual(*set, n, rows, 0.0f);
          LinearArgs args{n, in.view(), w.own.view, false, out.view(), {}};
          std::vector<std::byte> workspace;
          run_all(set->linear, args, set->linear_workspace(linear_shape(n, cols)), workspace, 2);
          return out.rows();
        };
        const std::vector<float> want = outputs(5);
        for (const std::int64_t n : {1, 2}) {
          const std::vector<float> got = outputs(n);
          for (std::size_t i = 0; i < got.size(); ++i) {
            INFO(encoding_name(encoding) << " with " << extreme << ", " << n << " tokens, output " << i << ": "
                                         << got[i] << ", want " << want[i]);
            const bool same = std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(want[i]);
            REQUIRE((same || (std::isnan(got[i]) && std::isnan(want[i]))));
          }
        }
      }
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
