// Tiles of quantised weights (WeightLayout::tile32): 32 rows (outputs) together, with all bytes in the order in which
// they are used. Nothing is lost: a tile gives the bytes of its GGUF blocks again. Rows are side by side, so that lane
// = row.
//
// A tile runs along k in blocks of as many values as those of the encoding: 32, or 256 in sub-blocks of 32. What is in
// brackets is [slowest .. fastest], 32 always being the rows; numbers are little-endian.
//
//   block of 32    scales, integers of 32 k
//   block of 256   header, then 8 times: scales, integers of 32 k
//
//   TileScales     header                   scales of 32 k              encodings
//   d                                       f16 d[32]                   q8_0 q4_0 q5_0 iq4_nl
//   d_and_m                                 f16 d[32], f16 m[32]        q4_1 q5_1
//   e8m0                                    u8 e[32]                    mxfp4
//   long_minima    f16 d[32], f16 dmin[32]  u8 sc[32], u8 m[32]         q4_k q5_k
//   long_32        f16 d[32]                i8 sc[32]                   iq4_xs
//   long_16        f16 d[32]                i8 sc[2 of 16 k][32]        q3_k q6_k
//
//   TileIntegers   integers of 32 k
//   bytes          i8 q[32 k][32]                                       q8_0
//   nibbles        u32[4 groups of 8 k][32]                             q4_0 q4_1 iq4_nl mxfp4 q3_k q4_k iq4_xs
//   five_bits      u32 plane[32], nibbles as above                      q5_0 q5_1 q5_k
//   six_bits       2 times: u32 plane[32], nibbles of 2 groups          q6_k
//
// Within a group of 8 values, value 2p + h (p 0 .. 3, h 0 or 1) is nibble j = 4h + p of the dword, bits 4j .. 4j + 3:
// so a dword shifted by 4p has in its halves the neighbours 2p and 2p + 1. The plane has the bits above the nibbles:
// for value j of group g, bit 4j + g (five_bits), or bits 4j + 2(g % 2) and the next (six_bits). So one shift of the
// plane brings the high bits of all even or all odd j of a group above their nibbles, in the dword as it is or shifted
// by 4.
//
// Integers are those of blocks::Parts, but for bytes, which are signed. All bytes of a row beyond the matrix are zero,
// which stands for values of zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/encoding.h"
#include "common/tile.h"
#include "kernel_set.h"

namespace qinfer::kernels {

/// Bytes of one tile of `cols` columns, whole blocks.
std::int64_t bytes_of_quant_tile(Encoding encoding, std::int64_t cols);

// Encodings are quantised ones.

/// Packs `rows` (1 .. 32) neighbouring rows of blocks, each as long as its blocks are, into a tile; the others of the
/// tile become zero. Returns the largest magnitude of their values, or infinity where a scale is no finite number.
float pack_quant_tile(Encoding encoding, const std::byte* source, std::int64_t rows, std::int64_t cols,
                      std::byte* tile);

/// The blocks of row `row` (0 .. 31) of a tile, as they were.
void unpack_quant_row(Encoding encoding, const std::byte* tile, std::int64_t row, std::int64_t cols, std::byte* blocks);

/// The values of row `row` (0 .. 31) of a tile.
void widen_quant_row(Encoding encoding, const std::byte* tile, std::int64_t row, std::int64_t cols, float* out);

/// What pack_quant_tile() returns, for n values of any rows: whole blocks.
float quant_largest(Encoding encoding, const std::byte* source, std::int64_t n);

enum class TileIntegers : std::uint8_t { bytes, nibbles, five_bits, six_bits };
enum class TileScales : std::uint8_t { d, d_and_m, e8m0, long_minima, long_32, long_16 };

/// Where a block of a tile has its parts, in bytes.
struct QuantLayout {
  TileIntegers integers;
  TileScales scales;
  std::int64_t subs;        ///< sub-blocks of a block
  std::int64_t header;      ///< before the first sub-block
  std::int64_t sub_scales;  ///< of a sub-block, before its integers
  std::int64_t sub;         ///< of a whole sub-block
  std::int64_t block;       ///< of a whole block
  std::int64_t block_cols;  ///< values of a row in a block
};

namespace {  // files with different instruction sets include this header

inline constexpr std::int64_t kQuantSub = 32;  ///< values of a row in a sub-block

constexpr QuantLayout quant_layout(TileIntegers integers, TileScales scales) {
  const bool is_long =
      scales == TileScales::long_minima || scales == TileScales::long_32 || scales == TileScales::long_16;
  const std::int64_t f16 = 2 * kTileRows;
  QuantLayout layout{integers, scales, is_long ? 8 : 1, 0, 0, 0, 0, 0};
  layout.header = !is_long ? 0 : scales == TileScales::long_minima ? 2 * f16 : f16;
  switch (scales) {
    case TileScales::d:
    case TileScales::long_minima:
    case TileScales::long_16: layout.sub_scales = f16; break;
    case TileScales::d_and_m: layout.sub_scales = 2 * f16; break;
    case TileScales::e8m0:
    case TileScales::long_32: layout.sub_scales = kTileRows; break;
  }
  const std::int64_t bits = integers == TileIntegers::bytes       ? 8
                            : integers == TileIntegers::nibbles   ? 4
                            : integers == TileIntegers::five_bits ? 5
                                                                  : 6;
  layout.sub = layout.sub_scales + bits * kQuantSub * kTileRows / 8;
  layout.block = layout.header + layout.subs * layout.sub;
  layout.block_cols = layout.subs * kQuantSub;
  return layout;
}

/// Of a quantised encoding.
constexpr QuantLayout quant_layout(Encoding encoding) {
  using Integers = TileIntegers;
  using Scales = TileScales;
  switch (encoding) {
    case Encoding::q8_0: return quant_layout(Integers::bytes, Scales::d);
    case Encoding::q4_1: return quant_layout(Integers::nibbles, Scales::d_and_m);
    case Encoding::q5_0: return quant_layout(Integers::five_bits, Scales::d);
    case Encoding::q5_1: return quant_layout(Integers::five_bits, Scales::d_and_m);
    case Encoding::q3_k: return quant_layout(Integers::nibbles, Scales::long_16);
    case Encoding::q4_k: return quant_layout(Integers::nibbles, Scales::long_minima);
    case Encoding::q5_k: return quant_layout(Integers::five_bits, Scales::long_minima);
    case Encoding::q6_k: return quant_layout(Integers::six_bits, Scales::long_16);
    case Encoding::iq4_xs: return quant_layout(Integers::nibbles, Scales::long_32);
    case Encoding::mxfp4: return quant_layout(Integers::nibbles, Scales::e8m0);
    case Encoding::q4_0:
    case Encoding::iq4_nl:
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16: break;
  }
  return quant_layout(Integers::nibbles, Scales::d);
}

/// Where, after the scales of a sub-block, group g of its nibbles and the plane of that group begin.
constexpr std::int64_t nibbles_at(TileIntegers integers, std::int64_t g) {
  const std::int64_t dwords = 4 * kTileRows;
  const std::int64_t planes = integers == TileIntegers::five_bits  ? 1
                              : integers == TileIntegers::six_bits ? g / 2 + 1
                                                                   : 0;
  return (g + planes) * dwords;
}
constexpr std::int64_t plane_at(TileIntegers integers, std::int64_t g) {
  return integers == TileIntegers::six_bits ? nibbles_at(integers, g / 2 * 2) - 4 * kTileRows : 0;
}
/// The plane's bits of value j of group g begin at bit 4j + plane_shift().
constexpr int plane_shift(TileIntegers integers, int g) { return integers == TileIntegers::six_bits ? 2 * (g % 2) : g; }
/// The bits above the nibbles of a group in every byte, once its even or its odd nibbles are at the bytes' beginnings.
constexpr int plane_bytes(TileIntegers integers) {
  return integers == TileIntegers::six_bits ? 0x30303030 : 0x10101010;
}

}  // namespace
}  // namespace qinfer::kernels
