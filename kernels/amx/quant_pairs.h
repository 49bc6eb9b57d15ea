// Quantised weights for tiles: how the integers of a tile of 32 rows (common/quant_tiles.h) become bf16, in pairs of
// columns (pairs.h).
//
// A weight is what its block stands for, balanced and cut. Cut to bf16: the lower half of its f32 is left out, which
// takes one instruction where rounding takes three. Cutting makes numbers smaller, by half of a last place of bf16 in
// the mean; so scale and minimum are multiplied by kBalance = 1 + 2^-8 ln 2 before, which is that mean where mantissas
// are distributed as those of products are (their density being that of 1 / m). The error of a weight is then as large
// as that of rounding: 1.06 times, root mean square, or 1.09 where scales keep 10 bits. (Where few bits are cut off
// their mean is less, so that weights of Q3_K are 4e-4 too large in the mean, of Q4_0 1e-4.) A number that bf16 holds
// stays what it is, since balancing adds less than the last place that is left.
//
//   s = scale * kBalance, m = minimum * kBalance    rounded to f32; without minimum s has kScaleBits bits, to nearest
//   with a table                                    weight = cut(table[q] * s)
//   bytes                                           weight = cut(q * s)
//   otherwise                                       weight = cut(fma(2^e + q, s, -z)), z = (2^e + offset) * s, or with
//                                                   a minimum fma(2^e, s, m)
//
// q is put into the mantissa of 2^e, e being 23 less the place to which its bits are brought, so that no integer has to
// be converted. The places are, for the 8 columns of a group, 8, 16, 12, 8, 8, 12, 12 and 16 of nibbles, and 8 and 16
// in turns of longer integers: those to which most columns need not be shifted. kScaleBits are so few that z is exact:
// a weight is cut(s * (q - offset)), and zero where it should be. With a minimum the rounding of z moves a weight by
// 2^-9 of the scale at most. A scale below 2^-126, which only MXFP4 can have, counts as zero.
//
// (These pairs are neighbours in k, as those of avx512/quant_pairs.h; those have integers, these have weights.)
#pragma once

#include "common/quant_tiles.h"

namespace qinfer::kernels::amx {

/// 16 rows of some tiles: where each tile begins and where one that is read after it, and which of its rows they are.
struct QuantStrips {
  static constexpr int kMost = 8;
  int count = 0;
  const std::byte* at[kMost] = {};
  const std::byte* next[kMost] = {};
  std::int64_t half[kMost] = {};  ///< 0: rows 0 to 15, 1: the others
};

/// Tokens that `vectors` multiply, at most: with more, decoding once for tiles is faster. (Granite Rapids, tokens/s of
/// Q4_0: one 47 and 39 through tiles, two 76 and 76, three 110 and 117.)
inline constexpr int kQuantVectorTokens = 2;

/// How tiles of an encoding are decoded.
struct QuantPairs {
  QuantLayout layout;
  std::int64_t steps_ahead;  ///< of 32 columns, how far ahead few tokens fetch
  /// 32 columns of rows [16 * half, 16 * half + 16): 16 lines of pairs. `block`, `sub`: where the tile has the block
  /// and the sub-block of the columns.
  void (*decode)(const std::byte* block, const std::byte* sub, std::int64_t half, std::byte* out);
  /// And fetches the lines of the sub-block at `later`: a half's share of them, or if it is `alone` all.
  void (*decode_and_fetch)(const std::byte* block, const std::byte* sub, std::int64_t half, std::byte* out,
                           const std::byte* later, bool alone);
  /// Sums of `steps` times 32 columns of strips and one or two tokens by AVX-512, in the order of TDPBF16PS (pairs.h):
  /// [token][16 rows] of each strip. x: [step][token][even columns, odd ones][16].
  void (*vectors[kQuantVectorTokens])(const QuantStrips& strips, std::int64_t steps, const float* x, float* const* out);
};

/// Of a quantised encoding.
const QuantPairs& quant_pairs(Encoding encoding);

namespace {  // files with different instruction sets include this header

/// Where the sub-block of a step of 32 columns is, in bytes after the beginning of a tile.
struct SubBlock {
  std::int64_t block, at;  ///< the block that it is in, and itself
  std::int64_t left;       ///< sub-blocks of the block from it on
};
inline SubBlock sub_of(const QuantLayout& layout, std::int64_t step) {
  if (layout.subs == 1) return {step * layout.block, step * layout.block, 1};
  constexpr std::int64_t kSubs = 8;
  const std::int64_t block = step / kSubs * layout.block, in_block = step % kSubs;
  return {block, block + layout.header + in_block * layout.sub, kSubs - in_block};
}

}  // namespace

}  // namespace qinfer::kernels::amx
