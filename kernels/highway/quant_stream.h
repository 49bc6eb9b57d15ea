// A tile of quantised weights as a stream of sub-blocks, each of 32 columns, which are read in order while those that
// come later are fetched.
#pragma once

#include "tiled/quant_scales.h"
#include "tiled/tile_loops.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

/// Bytes to prefetch ahead.
inline constexpr std::int64_t kQuantAheadBytes = 8192;

/// Calls f(block, sub) for the sub-blocks of a tile of `cols` columns: where it and its block begin.
template <Encoding encoding, typename F>
inline void for_subs(const TileLines& lines, std::int64_t cols, F f) {
  constexpr QuantLayout kLayout = quant_layout(encoding);
  const std::int64_t bytes = cols / kLayout.block_cols * kLayout.block;
  for (std::int64_t begin = 0; begin < bytes; begin += kLayout.block)
    for (std::int64_t at = begin + kLayout.header; at < begin + kLayout.block; at += kLayout.sub) {
      const std::int64_t ahead = at + kQuantAheadBytes, beyond = ahead - bytes;
      const std::byte* from = beyond < 0 ? lines.tiles[0] + ahead : lines.next[0] + beyond;
      for (std::int64_t line = 0; line < kLayout.sub; line += 64) prefetch_line(from + line);
      f(lines.tiles[0] + begin, lines.tiles[0] + at);
    }
}

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
