// Matrix multiplications of more than two panels (32 tokens).
//
// Every weight is then used again for each pair of panels, and how it is stored matters more than that it is read once:
// out of rows in file layout a tile takes up to 32 split lines, and its 16 rows fall into a few sets of the L1. So a
// worker leaves the weights of a group of row pairs as tiles in its own workspace, which stays in the L2, while it
// multiplies the first pair of panels, and all others with those (Goto and van de Geijn 2008, section 4, with the roles
// of the operands exchanged): 512 columns of a pair of panels, 32 KiB, stay in the L1 while the group passes. A step of
// 2 x 2 tiles then takes about 90 cycles instead of 215, of which the multiplications are 64. There is no copy of the
// weights beyond that workspace.
//
// Sums wait in memory between two such parts of k, in f32, so that the result is the same bit for bit.
#pragma once

#include "amx/gemm.h"

namespace qinfer::kernels::amx {
namespace {

/// Columns that a pair of panels takes at once: 32 KiB of the pair, which leaves room in the L1 for weights.
inline constexpr std::int64_t kColumnsAtOnce = 512;
/// Weights of a group. (384 and 768 KiB measured the same, and so did fetching the next group's rows meanwhile.)
inline constexpr std::int64_t kStagedBytes = 512 << 10;
/// Row pairs of a group at most, and at least; but a group has whole heads. (No measurement of other numbers is kept.)
inline constexpr std::int64_t kGroupPairs = 16, kLeastPairs = 4;
/// Bytes of the staged weights for a column of 32 rows.
inline constexpr std::int64_t kColumnBytes = 2 * kRegisterRows * 2;
/// Blocks of sums that wait for the next part of the weights' columns. (No measurement of other numbers is kept.)
inline constexpr std::int64_t kWaitingBlocks = 64;

inline std::int64_t rounded_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

/// How much a worker stages: the weights of a group, and blocks of sums. `whole`: groups are multiples of it.
struct StagingRoom {
  std::int64_t weights, blocks;

  explicit StagingRoom(std::int64_t whole)
      : weights(larger(kStagedBytes, whole * kColumnBytes * kColumnsAtOnce)), blocks(larger(kWaitingBlocks, whole)) {}
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(weights) + sums_bytes(blocks); }
};

struct Staging {
  std::byte* weights;
  float* sums;

  Staging(std::byte* memory, std::int64_t whole)
      : weights(memory), sums(reinterpret_cast<float*>(memory + StagingRoom(whole).weights)) {}
};

/// How a multiplication is cut.
struct Cuts {
  std::int64_t pairs;   ///< of rows in a group
  std::int64_t cols;    ///< that are staged at once; fewer than all: sums wait for the rest
  std::int64_t panels;  ///< that pass before the next group comes

  Cuts(std::int64_t whole, std::int64_t all_cols, std::int64_t all_panels) {
    const StagingRoom room(whole);
    const std::int64_t padded = padded_k(all_cols), fit = room.weights / (padded * kColumnBytes);
    if (fit >= larger(kLeastPairs, whole)) {
      pairs = larger(whole, smaller(fit, kGroupPairs) / whole * whole);
      cols = padded;
      panels = all_panels;
    } else {
      pairs = rounded_up(kLeastPairs, whole);
      cols = room.weights / (pairs * kColumnBytes) / kColumnsAtOnce * kColumnsAtOnce;
      panels = 2 * larger(std::int64_t{1}, room.blocks / pairs);
    }
  }
};

/// Fetches at step `s` of `steps` what stage_and_add() will read of the next pair: two lines of eight runs of two rows
/// each, as they follow each other. (A line of every row, or two of every other, was a fifth slower.)
inline void prefetch_later(const RowTile& rows, std::int64_t begin, std::int64_t s, std::int64_t steps) {
  const std::int64_t row = 2 * s / steps;
  const std::byte* at = rows.next + row * rows.stride + 2 * begin + (2 * s - row * steps) * 64;
#pragma GCC unroll 8
  for (std::int64_t run = 0; run < kRegisterRows / 2; ++run, at += 2 * rows.stride) {
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(at + 64), _MM_HINT_T1);
  }
}

/// Columns [begin, end) of a pair of rows as tiles, [k / 32][2][16][32], zeros where there are no weights; and their
/// products with a pair of panels (where k = 0 of it is) on the way, which hides how long the weights take to come.
template <int row_tiles, int panels>
inline void stage_and_add(const RowPair& pair, std::int64_t begin, std::int64_t end, std::int64_t cols,
                          const PanelPair& x, std::byte* out) {
  bool whole = true;
  for (int i = 0; i < row_tiles; ++i) whole = whole && pair.tiles[i].count == kRegisterRows;
  const RowTile &low = pair.tiles[0], &high = pair.tiles[1];
  for (std::int64_t k = begin; k < end; k += kStep, out += 2 * kRegisterRows * 64) {
    const std::uint32_t *x0 = x.at[0] + k / 2 * kPanelLanes, *x1 = x.at[1] + k / 2 * kPanelLanes;
    if (whole && k + kStep <= cols) {
      for (int i = 0; i < row_tiles; ++i)
        prefetch_later(pair.tiles[i], begin, (k - begin) / kStep, (end - begin) / kStep);
      multiply_step<row_tiles, panels>(low.at + 2 * k, high.at + 2 * k, low.stride, x0, x1);
      tile_store<0>(out, 64);
      if constexpr (row_tiles == 2) tile_store<1>(out + kRegisterRows * 64, 64);
    } else {
      for (int i = 0; i < row_tiles; ++i) copy_edge(pair.tiles[i], k, cols, out + i * kRegisterRows * 64);
      multiply_step<row_tiles, panels>(out, out + kRegisterRows * 64, 64, x0, x1);
    }
  }
}

/// Adds `steps` of 32 columns of staged tiles.
template <int row_tiles, int panels>
inline void add_staged(const std::byte* w, std::int64_t steps, const PanelPair& x) {
  for (std::int64_t s = 0; s < steps; ++s, w += 2 * kRegisterRows * 64) {
    const std::int64_t at = s * kStep / 2 * kPanelLanes;
    multiply_step<row_tiles, panels, true>(w, w + kRegisterRows * 64, 64, x.at[0] + at, x.at[1] + at);
  }
}

/// Fetches part i of n of `lines` lines of each of the panels.
inline void prefetch_part(const PanelPair& panels, std::int64_t lines, std::int64_t i, std::int64_t n) {
  for (const std::uint32_t* panel : panels.at)
    for (std::int64_t line = lines * i / n; line < lines * (i + 1) / n; ++line)
      _mm_prefetch(reinterpret_cast<const char*>(panel + line * kPanelLanes), _MM_HINT_T1);
}

/// Columns [begin, end) of row pairs [first, first + count).
struct Group {
  std::int64_t first, count, begin, end;
  std::int64_t pair_bytes() const { return (end - begin) * kColumnBytes; }
};

/// The groups of a multiplication in their order.
struct Groups {
  Cuts cuts;
  std::int64_t n_pairs, cols;

  std::int64_t along_k() const { return (cols + cuts.cols - 1) / cuts.cols; }
  std::int64_t count() const { return (n_pairs + cuts.pairs - 1) / cuts.pairs * along_k(); }
  Group at(std::int64_t i) const {
    const std::int64_t first = i / along_k() * cuts.pairs, begin = i % along_k() * cuts.cols;
    return {first, smaller(cuts.pairs, n_pairs - first), begin, smaller(begin + cuts.cols, cols)};
  }
};

/// Multiplies a pair of panels with a staged group; `sums`: [pair of rows], with what earlier columns gave.
template <typename RowsAt>
inline void multiply_group(const Panels& x, std::int64_t p, const Group& group, const std::byte* staged, float* sums,
                           RowsAt rows) {
  const PanelPair pair = x.pair(p), next = x.pair(p + 2);
  const bool more = p + 2 < x.count();
  for (std::int64_t k = group.begin; k < group.end; k += kColumnsAtOnce) {
    const std::int64_t steps = smaller(group.end - k, kColumnsAtOnce) / kStep, at = k / 2 * kPanelLanes;
    for (std::int64_t i = 0; i < group.count; ++i) {
      if (more) prefetch_part({{next.at[0] + at, next.at[1] + at}}, steps * kStep / 2, i, group.count);
      const std::byte* w = staged + i * group.pair_bytes() + (k - group.begin) * kColumnBytes;
      float* block = sums + i * kSumFloats;
      with_tiles(row_tiles_of(rows(group.first + i)), x.panels(p), [&]<int row_tiles, int panels>() {
        k == 0 ? zero_sums<row_tiles, panels>() : load_sums<row_tiles, panels>(block);
        add_staged<row_tiles, panels>(w, steps, {{pair.at[0] + at, pair.at[1] + at}});
        store_sums<row_tiles, panels>(block);
      });
    }
  }
}

/// Stages a group, and multiplies the first pair of panels with it.
template <typename RowsAt>
inline void stage_group(const Panels& x, std::int64_t p, const Group& group, std::byte* staged, float* sums,
                        RowsAt rows) {
  const PanelPair pair = x.pair(p);
  for (std::int64_t i = 0; i < group.count; ++i, staged += group.pair_bytes(), sums += kSumFloats) {
    const RowPair w = rows(group.first + i);
    with_tiles(row_tiles_of(w), x.panels(p), [&]<int row_tiles, int panels>() {
      group.begin == 0 ? zero_sums<row_tiles, panels>() : load_sums<row_tiles, panels>(sums);
      stage_and_add<row_tiles, panels>(w, group.begin, group.end, x.cols, pair, staged);
      store_sums<row_tiles, panels>(sums);
    });
  }
}

/// As multiply_few(), of any number of panels. For one pair of panels the sink gets the row pairs of a group in order;
/// a group has a multiple of `whole`.
template <typename RowsAt, typename Sink>
inline void multiply_many(const Panels& x, std::int64_t n_pairs, std::int64_t whole, const Staging& staging,
                          RowsAt rows, Sink sink) {
  const Groups groups{Cuts(whole, x.cols, x.count()), n_pairs, padded_k(x.cols)};
  const Cuts& cuts = groups.cuts;
  for (std::int64_t panel = 0; panel < x.count(); panel += cuts.panels)
    for (std::int64_t g = 0; g < groups.count(); ++g) {
      const Group group = groups.at(g);
      const std::int64_t last = smaller(panel + cuts.panels, x.count());
      for (std::int64_t p = panel; p < last; p += 2) {
        const std::int64_t waiting = groups.along_k() > 1 ? (p - panel) / 2 * cuts.pairs : 0;
        float* sums = staging.sums + waiting * kSumFloats;
        if (p == panel) {
          stage_group(x, p, group, staging.weights, sums, rows);
        } else {
          multiply_group(x, p, group, staging.weights, sums, rows);
        }
        if (group.end < groups.cols) continue;
        for (std::int64_t i = 0; i < group.count; ++i)
          sink(SumBlock{group.first + i, p, row_tiles_of(rows(group.first + i)), x.panels(p), sums + i * kSumFloats});
      }
    }
}

}  // namespace
}  // namespace qinfer::kernels::amx
