// Rows of quantised squares on their way to tile registers where few tokens pass: 32 columns at a time are decoded into
// a ring in the L1, two steps before they are multiplied, while sums of all columns stay in their registers.
#pragma once

#include "amx/pairs.h"

namespace qinfer::kernels::amx {
namespace {

/// Bytes that are fetched ahead of decoding.
inline constexpr std::int64_t kDecodeAhead = 4608;
/// Steps of the ring, and how many of them are decoded ahead.
inline constexpr std::int64_t kRingSteps = 4, kRingLead = 2;
inline constexpr std::uint64_t kRingBytes = kRingSteps * kStepBytes;

/// Where the sub-block of a step of 32 columns is, in bytes after the beginning of squares.
struct SubBlock {
  std::int64_t block, at;  ///< the block that it is in, and itself
  std::int64_t left;       ///< sub-blocks of the block from it on
};
inline SubBlock sub_of(const QuantSquares& quant, std::int64_t step) {
  const QuantLayout& layout = quant.layout;
  if (layout.subs == 1) return {step * layout.block, step * layout.block, 1};
  constexpr std::int64_t kSubs = 8;
  const std::int64_t block = step / kSubs * layout.block, in_block = step % kSubs;
  return {block, block + layout.header + in_block * layout.sub, kSubs - in_block};
}

/// Whether both tiles of a pair are rows of the same squares.
inline bool shares_squares(const RowPair& rows) {
  return rows.tiles[0].quant != nullptr && rows.tiles[1].count > 0 && rows.tiles[1].at == rows.tiles[0].at;
}

/// Sixteen rows that begin anywhere in their squares: out of the halves that have them.
[[gnu::noinline]] inline void decode_across(const RowTile& rows, const SubBlock& sub, std::byte* out) {
  alignas(64) std::byte lines[2 * kRegisterRows * 64];
  const std::int64_t half = rows.first / kRegisterRows, skipped = rows.first % kRegisterRows;
  for (std::int64_t i = 0; i < (skipped + rows.count > kRegisterRows ? 2 : 1); ++i) {
    const std::byte* squares = rows.at + (half + i) / 2 * rows.jump;
    rows.quant->half(squares + sub.block, squares + sub.at, (half + i) % 2, lines + i * kRegisterRows * 64);
  }
  for (std::int64_t r = 0; r < kRegisterRows; ++r)
    _mm512_store_si512(out + 64 * r,
                       r < rows.count ? _mm512_load_si512(lines + 64 * (skipped + r)) : _mm512_setzero_si512());
}

/// Columns [k, k + 32) of rows of any kind as a tile, zeros after `cols`.
inline void bring_rows(const RowTile& rows, std::int64_t k, std::int64_t cols, std::byte* out) {
  if (rows.in_pairs) {
    copy_pairs(rows, k / kStep, out);
    return turn_pairs(out, out);
  }
  if (rows.quant == nullptr) return copy_edge(rows, k, cols, out);
  const SubBlock sub = sub_of(*rows.quant, k / kStep);
  if (!rows.is_whole()) return decode_across(rows, sub, out);
  rows.quant->half(rows.at + sub.block, rows.at + sub.at, rows.first / kRegisterRows, out);
}

/// Fetches what will be decoded kDecodeAhead bytes after the sub-block of a step; at the end of the squares, what will
/// be read after them. The second half of squares has been fetched with the first.
inline void prefetch_squares(const RowTile& rows, std::int64_t step) {
  if (rows.quant == nullptr) return;
  const std::int64_t at = sub_of(*rows.quant, step).at + kDecodeAhead, beyond = at - rows.jump;
  if (beyond < 0 && rows.first >= kRegisterRows) return;
  const std::byte* from = beyond < 0 ? rows.at + at : rows.next + beyond;
  for (std::int64_t line = 0; line < rows.quant->layout.sub; line += 64)
    _mm_prefetch(reinterpret_cast<const char*>(from + line), _MM_HINT_T0);
}

/// add_columns() of rows some of which are quantised, or in pairs beside others that are not.
template <int row_tiles, int panels>
inline void add_decoded(const RowPair& w, std::int64_t cols, const PanelPair& x, std::byte* ring) {
  const std::int64_t steps = (cols + kStep - 1) / kStep;
  const bool shared = shares_squares(w);
  const auto place = [ring](std::int64_t step) { return ring + step % kRingSteps * kStepBytes; };
  const auto bring = [&](std::int64_t step) {
#pragma GCC unroll 2
    for (int i = 0; i < row_tiles; ++i) {
      if (i == 0 || !shared) prefetch_squares(w.tiles[i], step);
      bring_rows(w.tiles[i], step * kStep, cols, place(step) + i * kRegisterRows * 64);
    }
  };
  for (std::int64_t step = 0; step < smaller(kRingLead, steps); ++step) bring(step);
  for (std::int64_t step = 0; step < steps; ++step) {
    if (step + kRingLead < steps) bring(step + kRingLead);
    const std::byte* at = place(step);
    multiply_step<row_tiles, panels>(at, at + kRegisterRows * 64, 64, x.at[0] + step * kStep / 2 * kPanelLanes,
                                     x.at[1] + step * kStep / 2 * kPanelLanes);
  }
}

}  // namespace
}  // namespace qinfer::kernels::amx
