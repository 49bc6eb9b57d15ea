// Tiles of quantised weights: what goes in comes out again, bit for bit, for every encoding and both orders of
// integers, and the places of values in a tile are those that common/quant_tiles.h states.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/block_formats.h"
#include "common/quant_tiles.h"
#include "kernel_set.h"
#include "support/catch.h"

namespace {

using namespace qinfer;
using namespace qinfer::kernels;

std::vector<const EncodingTraits*> quantised() {
  std::vector<const EncodingTraits*> rows;
  for (const EncodingTraits& row : encodings())
    if (!is_plain(row.encoding)) rows.push_back(&row);
  return rows;
}

std::vector<std::byte> random_bytes(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<std::byte> out(n);
  for (std::byte& b : out) b = static_cast<std::byte>(engine());
  return out;
}

std::size_t row_bytes(Encoding encoding, std::int64_t cols) {
  return encoded_bytes(encoding, static_cast<std::uint64_t>(cols));
}

/// All rows of a matrix in tiles, out of them again, and their values.
void check_round_trip(const EncodingTraits& traits, std::int64_t rows, std::int64_t cols, unsigned seed) {
  const Encoding encoding = traits.encoding;
  INFO(traits.name << " rows " << rows << " cols " << cols);
  const std::size_t bytes = row_bytes(encoding, cols);
  const std::vector<std::byte> source = random_bytes(bytes * static_cast<std::size_t>(rows), seed);
  const WeightFormat format{encoding, WeightLayout::tile32};
  const auto tile_bytes = static_cast<std::size_t>(bytes_of_quant_tile(encoding, cols));
  std::vector<std::byte> tiles(weight_bytes(format, rows, cols) + 1, std::byte{0xa5});
  REQUIRE(tiles.size() == tile_bytes * static_cast<std::size_t>((rows + 31) / 32) + 1);
  for (std::int64_t row = 0; row < rows; row += 32)
    pack_quant_tile(encoding, source.data() + bytes * static_cast<std::size_t>(row),
                    std::min<std::int64_t>(32, rows - row), cols,
                    tiles.data() + tile_bytes * static_cast<std::size_t>(row / 32));
  REQUIRE(tiles.back() == std::byte{0xa5});
  std::vector<std::byte> out(bytes);
  std::vector<float> values(static_cast<std::size_t>(cols)), want(values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::byte* tile = tiles.data() + tile_bytes * static_cast<std::size_t>(row / 32);
    const std::byte* blocks = source.data() + bytes * static_cast<std::size_t>(row);
    unpack_quant_row(encoding, tile, row % 32, cols, out.data());
    REQUIRE(std::memcmp(out.data(), blocks, bytes) == 0);
    widen_quant_row(encoding, tile, row % 32, cols, values.data());
    traits.to_f32(blocks, cols, want.data());
    REQUIRE(std::memcmp(values.data(), want.data(), values.size() * sizeof(float)) == 0);
  }
  for (std::int64_t row = rows; row < (rows + 31) / 32 * 32; ++row) {
    widen_quant_row(encoding, tiles.data() + tile_bytes * static_cast<std::size_t>(row / 32), row % 32, cols,
                    values.data());
    for (const float v : values) REQUIRE(v == 0);
  }
}

/// The bits [first, first + n) of a dword of a tile.
unsigned bits_at(const std::byte* at, std::int64_t first, int n) {
  std::uint32_t dword = 0;
  std::memcpy(&dword, at, 4);
  return dword >> first & ((1u << n) - 1);
}

/// The integer of value k of a row, by the description in words.
unsigned integer_at(const QuantLayout& layout, const std::byte* block, std::int64_t row, std::int64_t k) {
  const std::byte* integers = block + layout.header + k / 32 * layout.sub + layout.sub_scales;
  const std::int64_t g = k % 32 / 8, p = k % 8 / 2, h = k % 2, j = 4 * h + p;
  switch (layout.integers) {
    case TileIntegers::bytes: return static_cast<unsigned>(integers[k % 32 * 32 + row]) ^ 0x80;
    case TileIntegers::nibbles: return bits_at(integers + g * 128 + 4 * row, 4 * j, 4);
    case TileIntegers::five_bits:
      return bits_at(integers + 128 + g * 128 + 4 * row, 4 * j, 4) | bits_at(integers + 4 * row, 4 * j + g, 1) << 4;
    case TileIntegers::six_bits: break;
  }
  const std::byte* half = integers + g / 2 * 384;
  return bits_at(half + 128 + g % 2 * 128 + 4 * row, 4 * j, 4) | bits_at(half + 4 * row, 4 * j + 2 * (g % 2), 2) << 4;
}

}  // namespace

TEST_CASE("tiles of quantised weights give their blocks again, bit for bit", "[kernels]") {
  unsigned seed = 1;
  for (const EncodingTraits* traits : quantised()) {
    for (std::int64_t rows = 1; rows <= 33; ++rows) check_round_trip(*traits, rows, traits->block_values, seed++);
    for (const std::int64_t blocks : {2, 3, 5})
      for (const std::int64_t rows : {1, 31, 32, 70})
        check_round_trip(*traits, rows, blocks * traits->block_values, seed++);
  }
}

TEST_CASE("integers of quantised tiles are where they are said to be", "[kernels]") {
  for (const EncodingTraits* traits : quantised()) {
    INFO(traits->name);
    const QuantLayout layout = quant_layout(traits->encoding);
    REQUIRE(layout.block_cols == traits->block_values);
    const std::int64_t cols = 2 * layout.block_cols;
    const std::size_t bytes = row_bytes(traits->encoding, cols);
    const std::vector<std::byte> source = random_bytes(32 * bytes, 7);
    std::vector<std::byte> tile(static_cast<std::size_t>(bytes_of_quant_tile(traits->encoding, cols)));
    pack_quant_tile(traits->encoding, source.data(), 32, cols, tile.data());
    for (std::int64_t row = 0; row < 32; ++row)
      for (std::int64_t b = 0; b < 2; ++b) {
        std::vector<std::byte> block(traits->block_bytes);
        std::memcpy(block.data(),
                    source.data() + bytes * static_cast<std::size_t>(row) + block.size() * static_cast<std::size_t>(b),
                    block.size());
        blocks::Parts parts;
        switch (traits->encoding) {
          case Encoding::q8_0: blocks::unpack_q8_0(block.data(), parts); break;
          case Encoding::q4_1: blocks::unpack_q4_1(block.data(), parts); break;
          case Encoding::q5_0: blocks::unpack_q5_0(block.data(), parts); break;
          case Encoding::q5_1: blocks::unpack_q5_1(block.data(), parts); break;
          case Encoding::q3_k: blocks::unpack_q3_k(block.data(), parts); break;
          case Encoding::q4_k: blocks::unpack_q4_k(block.data(), parts); break;
          case Encoding::q5_k: blocks::unpack_q5_k(block.data(), parts); break;
          case Encoding::q6_k: blocks::unpack_q6_k(block.data(), parts); break;
          case Encoding::iq4_xs: blocks::unpack_iq4_xs(block.data(), parts); break;
          case Encoding::mxfp4: blocks::unpack_mxfp4(block.data(), parts); break;
          default: blocks::unpack_q4_0(block.data(), parts); break;
        }
        for (std::int64_t k = 0; k < layout.block_cols; ++k)
          REQUIRE(integer_at(layout, tile.data() + b * layout.block, row, k) == parts.q[k]);
      }
  }
}

TEST_CASE("packing quantised tiles finds the largest value, and scales that are not finite", "[kernels]") {
  for (const EncodingTraits* traits : quantised()) {
    INFO(traits->name);
    const std::int64_t cols = 2 * traits->block_values;
    const std::size_t bytes = row_bytes(traits->encoding, cols);
    std::vector<std::byte> tile(static_cast<std::size_t>(bytes_of_quant_tile(traits->encoding, cols)));
    std::vector<float> values(static_cast<std::size_t>(cols));
    int finite = 0, infinite = 0;
    for (unsigned seed = 0; seed < 3000; ++seed) {
      const std::vector<std::byte> source = random_bytes(bytes, seed);
      traits->to_f32(source.data(), cols, values.data());
      float largest = 0;
      bool is_finite = true;
      for (const float v : values) {
        is_finite = is_finite && std::isfinite(v);
        largest = std::max(largest, std::fabs(v));
      }
      const float found = pack_quant_tile(traits->encoding, source.data(), 1, cols, tile.data());
      REQUIRE(quant_largest(traits->encoding, source.data(), cols) == found);
      if (traits->encoding == Encoding::mxfp4)  // the decoder has a finite number for the scale that stands for NaN
        is_finite = source[0] != std::byte{255} && source[17] != std::byte{255};
      if (is_finite) {
        ++finite;
        REQUIRE(found == largest);
      } else {
        ++infinite;
        REQUIRE(std::isinf(found));
      }
    }
    CHECK(finite > 100);
    CHECK(infinite > 0);
  }
}

TEST_CASE("sizes and shapes of quantised matrices follow from their formats", "[kernels]") {
  const WeightFormat tiles{Encoding::q4_k, WeightLayout::tile32}, rows{Encoding::q4_k, WeightLayout::row_major};
  const StoredShape of_tiles = weight_shape(tiles, 70, 512), of_rows = weight_shape(rows, 70, 512);
  REQUIRE(of_tiles.n == 2);
  CHECK(of_tiles.lengths[0] == 3);
  CHECK(of_tiles.lengths[1] == 2 * (128 + 8 * (64 + 512)));
  CHECK(weight_bytes(tiles, 70, 512) == 3 * 2 * 4736);
  CHECK(weight_alignment(tiles) == 32);  // a tile of mxfp4 is a multiple of that
  REQUIRE(of_rows.n == 2);
  CHECK(of_rows.lengths[0] == 70);
  CHECK(of_rows.lengths[1] == 288);
  CHECK(weight_bytes(rows, 70, 512) == 70 * 288);
  CHECK(weight_alignment(rows) == 1);
  // Bits of a value, from the description of tiles: what the file has, but for padding of 6-bit scales to bytes.
  const std::pair<Encoding, double> bits[] = {
      {Encoding::q8_0, 8.5},    {Encoding::q4_0, 4.5},    {Encoding::q4_1, 5},        {Encoding::q5_0, 5.5},
      {Encoding::q5_1, 6},      {Encoding::q3_k, 4.5625}, {Encoding::q4_k, 4.625},    {Encoding::q5_k, 5.625},
      {Encoding::q6_k, 6.5625}, {Encoding::iq4_nl, 4.5},  {Encoding::iq4_xs, 4.3125}, {Encoding::mxfp4, 4.25}};
  for (const auto& [encoding, expected] : bits)
    CHECK(static_cast<double>(bytes_of_quant_tile(encoding, 512)) * 8 / (32 * 512) == expected);
}
