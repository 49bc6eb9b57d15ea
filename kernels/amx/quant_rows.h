// Rows that are decoded on their way to tile registers where few tokens pass: 32 columns at a time go into a ring in
// the L1, two steps before they are multiplied, while sums of all columns stay in their registers.
#pragma once

#include "amx/pairs.h"

namespace qinfer::kernels::amx {
namespace {

/// Bytes that are fetched ahead of decoding.
inline constexpr std::int64_t kDecodeAhead = 4608;
/// Steps of the ring, and how many of them are decoded ahead.
inline constexpr std::int64_t kRingSteps = 4, kRingLead = 2;
inline constexpr std::uint64_t kRingBytes = kRingSteps * kStepBytes;

/// Whether both tiles of a pair are rows of the same tile of 32.
inline bool shares_tile(const RowPair& rows) {
  return rows.tiles[0].quant != nullptr && rows.tiles[1].count > 0 && rows.tiles[1].at == rows.tiles[0].at;
}

/// Sixteen quantised rows that begin anywhere in their tile as pairs, zeros after the last row: out of the halves of
/// tiles that have them.
[[gnu::noinline]] inline void decode_across(const RowTile& rows, const SubBlock& sub, std::byte* out) {
  alignas(64) std::byte halves[2][kPairStepBytes] = {};
  const std::int64_t half = rows.first / kRegisterRows, skipped = rows.first % kRegisterRows;
  for (std::int64_t i = 0; i < (skipped + rows.count > kRegisterRows ? 2 : 1); ++i) {
    const std::byte* tile = rows.at + (half + i) / 2 * rows.jump;
    rows.quant->decode(tile + sub.block, tile + sub.at, (half + i) % 2, halves[i]);
  }
  for (std::int64_t line = 0; line < 16; ++line) {
    alignas(64) std::byte both[128];
    for (std::int64_t i = 0; i < 2; ++i) _mm512_store_si512(both + 64 * i, _mm512_load_si512(halves[i] + 64 * line));
    _mm512_store_si512(out + 64 * line, _mm512_maskz_loadu_epi32(first_lanes(rows.count), both + 4 * skipped));
  }
}

/// A step of rows in pairs, or that are decoded to such.
inline void bring_pairs(const RowTile& rows, std::int64_t step, std::byte* out) {
  if (rows.quant == nullptr) return copy_pairs(rows, step, out);
  const SubBlock sub = sub_of(rows.quant->layout, step);
  if (!rows.is_whole()) return decode_across(rows, sub, out);
  rows.quant->decode(rows.at + sub.block, rows.at + sub.at, rows.first / kRegisterRows, out);
}

/// Columns [k, k + 32) of rows of any kind as a tile, zeros after `cols`.
inline void bring_rows(const RowTile& rows, std::int64_t k, std::int64_t cols, std::byte* out) {
  if (!rows.gives_pairs()) return copy_edge(rows, k, cols, out);
  bring_pairs(rows, k / kStep, out);
  turn_pairs(out, out);
}

/// Fetches what will be decoded kDecodeAhead bytes after the sub-block of a step; at the end of the tile, what will be
/// read after it. The second half of a tile has been fetched with the first.
inline void prefetch_quantised(const RowTile& rows, std::int64_t step) {
  if (rows.quant == nullptr) return;
  const std::int64_t at = sub_of(rows.quant->layout, step).at + kDecodeAhead, beyond = at - rows.jump;
  if (beyond < 0 && rows.first >= kRegisterRows) return;
  const std::byte* from = beyond < 0 ? rows.at + at : rows.next + beyond;
  for (std::int64_t line = 0; line < rows.quant->layout.sub; line += 64)
    _mm_prefetch(reinterpret_cast<const char*>(from + line), _MM_HINT_T0);
}

/// Brings the steps of a row pair into the ring: bring(tile, step, out) says how, and multiply(tiles, step) takes each
/// kRingLead steps later.
template <int row_tiles, typename Bring, typename Multiply>
inline void through_ring(const RowPair& w, std::int64_t steps, std::byte* ring, Bring bring, Multiply multiply) {
  const bool shared = shares_tile(w);
  const auto place = [ring](std::int64_t step) { return ring + step % kRingSteps * kStepBytes; };
  const auto fill = [&](std::int64_t step) {
#pragma GCC unroll 2
    for (int i = 0; i < row_tiles; ++i) {
      if (i == 0 || !shared) prefetch_quantised(w.tiles[i], step);
      bring(w.tiles[i], step, place(step) + i * kPairStepBytes);
    }
  };
  for (std::int64_t step = 0; step < smaller(kRingLead, steps); ++step) fill(step);
  for (std::int64_t step = 0; step < steps; ++step) {
    if (step + kRingLead < steps) fill(step + kRingLead);
    multiply(place(step), step);
  }
}

/// The first tokens of a panel as QuantPairs::vectors takes them.
inline void split_tokens(const std::uint32_t* panel, std::int64_t steps, std::int64_t tokens, float* out) {
  const __m512i lines = _mm512_setr_epi32(0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240);
  for (std::int64_t step = 0; step < steps; ++step, panel += kPairStepBytes / 4)
    for (std::int64_t t = 0; t < tokens; ++t, out += 32) {
      const avx512::Lanes32 columns = avx512::widen_pairs(_mm512_i32gather_epi32(lines, panel + t, 4));
      _mm512_storeu_ps(out, columns.low), _mm512_storeu_ps(out + 16, columns.high);
    }
}

/// add_columns() of rows some of which are quantised or in pairs, and others as in the file.
template <int row_tiles, int panels>
inline void add_mixed(const RowPair& w, std::int64_t cols, const PanelPair& x, std::byte* ring) {
  through_ring<row_tiles>(
      w, (cols + kStep - 1) / kStep, ring,
      [cols](const RowTile& rows, std::int64_t step, std::byte* out) { bring_rows(rows, step * kStep, cols, out); },
      [&](const std::byte* at, std::int64_t step) {
        multiply_step<row_tiles, panels>(at, at + kPairStepBytes, 64, x.at[0] + step * kStep / 2 * kPanelLanes,
                                         x.at[1] + step * kStep / 2 * kPanelLanes);
      });
}

/// multiply_turned() of rows some of which are quantised.
template <int row_tiles, int panels>
inline void multiply_decoded(const RowPair& w, std::int64_t n_steps, const std::uint32_t* x, std::byte* ring,
                             float* out) {
  constexpr std::int64_t kDwords = kPairStepBytes / 4;
  const std::uint32_t* x1 = x + n_steps * kDwords;
  zero_sums<row_tiles, panels>();
  through_ring<row_tiles>(w, n_steps, ring, bring_pairs, [&](const std::byte* at, std::int64_t step) {
    multiply_turned_step<row_tiles, panels>([at](int tile) { return at + tile * kPairStepBytes; }, x + step * kDwords,
                                            x1 + step * kDwords);
  });
  store_sums<row_tiles, panels>(out);
}

}  // namespace
}  // namespace qinfer::kernels::amx
