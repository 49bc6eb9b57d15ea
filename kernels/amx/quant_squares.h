// Quantised weights for tiles: how the integers of a square (common/quant_tiles.h, squares32) become bf16, the first
// operand of a tile multiplication. A value is what its block stands for in f32, rounded to bf16 once; numbers smaller
// than 2^-126 become zero. So products have the bits that they have with the same values kept as bf16.
#pragma once

#include "common/quant_tiles.h"

namespace qinfer::kernels::amx {

/// What rows have in common whose scales are read together: 16 of them, and the two runs of 16 columns that a row of
/// some encodings has. A value is scale * number + added, for the number that the decoder makes of the integer.
struct alignas(64) RowScales {
  float scale[2][16], added[2][16];
};

/// How squares of an encoding are decoded. `block`, `sub`: where the tile has the block and the sub-block of the 32
/// columns. Rows come out as lines of 64 bytes, one after the other.
struct QuantSquares {
  QuantLayout layout;
  /// Rows [4 * group, 4 * group + 4) of the square. `scales` is kept from group 0 to 3, and from 4 to 7.
  void (*four)(const std::byte* block, const std::byte* sub, std::int64_t group, RowScales& scales, std::byte* out);
  /// Rows [16 * half, 16 * half + 16).
  void (*half)(const std::byte* block, const std::byte* sub, std::int64_t half, std::byte* out);
};

/// Of a quantised encoding.
const QuantSquares& quant_squares(Encoding encoding);

}  // namespace qinfer::kernels::amx
