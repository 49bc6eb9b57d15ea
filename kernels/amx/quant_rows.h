// Rows that are decoded on their way to tile registers where few tokens pass: 32 columns at a time go into a ring in
// the L1, two steps before they are multiplied, while sums of all columns stay in their registers.
#pragma once

#include "amx/pairs.h"

namespace qinfer::kernels::amx {
namespace {

/// Bytes of a tile that are fetched before it is decoded.
inline constexpr std::int64_t kFetchedFirst = 4608;
/// Steps of the ring, and how many of them are decoded ahead.
inline constexpr std::int64_t kRingSteps = 4, kRingLead = 2;
inline constexpr std::uint64_t kRingBytes = 2 * kRingSteps * kStepBytes;  // up to four tiles

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

/// bring_pairs() for few tokens, which fetches what will be read later, at the end of a tile that of the next one.
/// `alone`: the other half of its tile does not pass together with these rows.
inline void bring_and_fetch(const RowTile& rows, std::int64_t step, std::int64_t steps, bool alone, std::byte* out) {
  if (rows.quant == nullptr || !rows.is_whole()) return bring_pairs(rows, step, out);
  const QuantPairs& quant = *rows.quant;
  const std::int64_t ahead = step + quant.steps_ahead;
  const std::byte* later =
      ahead < steps ? rows.at + sub_of(quant.layout, ahead).at : rows.next + sub_of(quant.layout, ahead - steps).at;
  const SubBlock sub = sub_of(quant.layout, step);
  quant.decode_and_fetch(rows.at + sub.block, rows.at + sub.at, rows.first / kRegisterRows, out, later, alone);
}

/// Brings the steps of some tiles into the ring: bring(tile, step, out) says how, and multiply(tiles, step) takes each
/// kRingLead steps later.
template <int tiles, typename Bring, typename Multiply>
inline void through_ring(const RowTile* const (&w)[tiles], std::int64_t steps, std::byte* ring, Bring bring,
                         Multiply multiply) {
  const auto place = [ring](std::int64_t step) { return ring + step % kRingSteps * tiles * kPairStepBytes; };
  const auto fill = [&](std::int64_t step) {
#pragma GCC unroll 4
    for (int i = 0; i < tiles; ++i) bring(*w[i], step, place(step) + i * kPairStepBytes);
  };
  for (std::int64_t step = 0; step < smaller(kRingLead, steps); ++step) fill(step);
  for (std::int64_t step = 0; step < steps; ++step) {
    if (step + kRingLead < steps) fill(step + kRingLead);
    multiply(place(step), step);
  }
}

/// The tiles of a row pair that have rows.
template <int row_tiles, typename F>
inline void with_row_tiles(const RowPair& w, F f) {
  if constexpr (row_tiles == 2) {
    const RowTile* const tiles[] = {&w.tiles[0], &w.tiles[1]};
    f(tiles);
  } else {
    const RowTile* const tiles[] = {&w.tiles[0]};
    f(tiles);
  }
}

/// add_columns() of rows some of which are quantised or in pairs, and others as in the file.
template <int row_tiles, int panels>
inline void add_mixed(const RowPair& w, std::int64_t cols, const PanelPair& x, std::byte* ring) {
  with_row_tiles<row_tiles>(w, [&](const auto& tiles) {
    through_ring(
        tiles, (cols + kStep - 1) / kStep, ring,
        [cols](const RowTile& rows, std::int64_t step, std::byte* out) { bring_rows(rows, step * kStep, cols, out); },
        [&](const std::byte* at, std::int64_t step) {
          multiply_step<row_tiles, panels>(at, at + kPairStepBytes, 64, x.at[0] + step * kStep / 2 * kPanelLanes,
                                           x.at[1] + step * kStep / 2 * kPanelLanes);
        });
  });
}

/// multiply_turned() of rows some of which are quantised.
template <int row_tiles, int panels>
inline void multiply_decoded(const RowPair& w, std::int64_t n_steps, const PanelPair& x, std::byte* ring, float* out) {
  zero_sums<row_tiles, panels>();
  with_row_tiles<row_tiles>(w, [&](const auto& tiles) {
    const bool alone = row_tiles == 1 || w.tiles[0].at != w.tiles[1].at;
    const auto bring = [&](const RowTile& rows, std::int64_t step, std::byte* to) {
      bring_and_fetch(rows, step, n_steps, alone, to);
    };
    through_ring(tiles, n_steps, ring, bring, [&](const std::byte* at, std::int64_t step) {
      multiply_turned_step<row_tiles, panels>([at](int tile) { return at + tile * kPairStepBytes; },
                                              x.at[0] + step * kPairStepDwords, x.at[1] + step * kPairStepDwords);
    });
  });
  store_sums<row_tiles, panels>(out);
}

/// The same of two row pairs of two tiles each, and one panel: twice as many streams of memory. `out`: two blocks.
inline void multiply_two_decoded(const RowPair& first, const RowPair& second, std::int64_t n_steps,
                                 const std::uint32_t* x, std::byte* ring, float* out, std::int64_t block_floats) {
  const RowTile* const tiles[] = {&first.tiles[0], &first.tiles[1], &second.tiles[0], &second.tiles[1]};
  zero_sums<2, 2>();
  const auto bring = [n_steps](const RowTile& rows, std::int64_t step, std::byte* to) {
    bring_and_fetch(rows, step, n_steps, false, to);
  };
  through_ring(tiles, n_steps, ring, bring, [x](const std::byte* at, std::int64_t step) {
    tile_load<2>(x + step * kPairStepDwords, 64);
    tile_load<0>(at, 64);
    tile_multiply<4, 2, 0>();
    tile_load<1>(at + kPairStepBytes, 64);
    tile_multiply<5, 2, 1>();
    tile_load<0>(at + 2 * kPairStepBytes, 64);
    tile_multiply<6, 2, 0>();
    tile_load<1>(at + 3 * kPairStepBytes, 64);
    tile_multiply<7, 2, 1>();
  });
  tile_store<4>(out, 64), tile_store<5>(out + 2 * kTileFloats, 64);
  tile_store<6>(out + block_floats, 64), tile_store<7>(out + block_floats + 2 * kTileFloats, 64);
}

}  // namespace
}  // namespace qinfer::kernels::amx
