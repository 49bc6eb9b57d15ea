// Attention, geometry: a panel of queries and where its buffers are, the tiles of a segment and the lanes of a tile
// that queries see, and how queries get into a panel and results out of it.
#pragma once

#include "common/attention_segments.h"
#include "tiled/panels.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

/// Floats from one query's scores or weights to the next one's: those of a whole segment.
inline constexpr int kWeightsLd = static_cast<int>(kSegmentTokens);

/// Up to twelve queries on their way through one segment of keys, over memory of the worker's: scores or weights first,
/// then outputs, then queries, each row after row without gaps.
struct Panel {
  int count = 0;
  std::uint32_t width = 0, padded = 0;
  float* queries = nullptr;  ///< [width][count], or as pairs of bf16 [width / 2][count]
  float* weights =
      nullptr;           ///< [count][512]: scores, then softmax weights, as f32, the same f16 twice or pairs of bf16
  float* out = nullptr;  ///< [count][padded]
  Range<std::uint32_t> ranges[kPanelTokens];  ///< the keys that each query sees
  Range<std::uint32_t> tiles;                 ///< of the segment, that any of the queries sees
  std::uint32_t seen[kPanelTokens];           ///< lanes of the current tile, one bit each
  float max[kPanelTokens], sum[kPanelTokens];

  static std::uint64_t floats(std::uint64_t count, std::uint64_t width, std::uint64_t padded) {
    return round_up(count * (width + kSegmentTokens + padded), 16);
  }
  void place(int queries_in_it, const KvLayout& kv, float* memory) {
    count = queries_in_it;
    width = kv.head_dim;
    padded = kv.head_dim_padded;
    const auto n = static_cast<std::size_t>(count);
    weights = memory;
    out = weights + n * kSegmentTokens;
    queries = out + n * padded;
  }
  float* weights_of(int m, std::uint32_t tile) const {
    return weights + static_cast<std::uint32_t>(m) * kSegmentTokens + tile % kSegmentTiles * kTileTokens;
  }
};

inline std::uint32_t seen_lanes(const Range<std::uint32_t>& range, std::uint32_t tile) {
  const Range<std::uint32_t> lanes = lanes_of(range, tile * kTileTokens);
  return static_cast<std::uint32_t>((std::uint64_t{1} << lanes.end) - (std::uint64_t{1} << lanes.begin));
}

/// The lanes of a tile that any query of a panel sees, and whether all queries see exactly those.
struct TileLanes {
  std::uint32_t begin, end;
  bool same;
};

/// Notes in the panel which lanes of a tile each query sees.
inline TileLanes see_tile(Panel& panel, std::uint32_t tile) {
  TileLanes all{kTileTokens, 0, true};
  for (int m = 0; m < panel.count; ++m) {
    const Range<std::uint32_t> lanes = lanes_of(panel.ranges[m], tile * kTileTokens);
    panel.seen[m] = seen_lanes(panel.ranges[m], tile);
    all.same = all.same && panel.seen[m] == panel.seen[0];
    if (panel.seen[m] == 0) continue;
    all.begin = lanes.begin < all.begin ? lanes.begin : all.begin;
    all.end = lanes.end > all.end ? lanes.end : all.end;
  }
  return all;
}

/// Queries [first, first + count) of a unit, counted row by row and in a row head by head.
template <typename Values>
inline void open_panel(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, std::int64_t first,
                       Panel& panel) {
  const std::uint32_t group = args.n_heads / args.kv.n_kv_heads;
  const float* rows[kPanelTokens];
  for (int m = 0; m < panel.count; ++m) {
    const std::int64_t row = (first + m) / group;
    const auto head = static_cast<std::uint32_t>((first + m) % group);
    rows[m] = args.q.row(unit.sequence->first_row + unit.first_row + row) + (unit.kv_head * group + head) * panel.width;
    panel.ranges[m] = unit.keys(args, row);
  }
  panel.tiles = tiles_of_segment(segment, {panel.ranges[0].begin, panel.ranges[panel.count - 1].end});
  constexpr auto kPerDword = static_cast<std::uint32_t>(Values::kPerDword);
  const std::uint32_t dwords = (panel.width + kPerDword - 1) / kPerDword;
  for (std::uint32_t i = 0; i < dwords; i += 16) {
    I32x16 block[16];
    for (int m = 0; m < 16; ++m)
      block[m] = m < panel.count && m < kPanelTokens ? Values::load(rows[m], i, panel.width, 0) : no_bits();
    transpose16(block);
    for (std::uint32_t j = 0; j < 16 && i + j < dwords; ++j)
      store_dwords(panel.queries + (i + j) * static_cast<std::uint32_t>(panel.count), first_lanes(panel.count),
                   block[j]);
  }
  for (std::int64_t i = 0; i < std::int64_t{panel.count} * panel.padded; i += 16) store(panel.out + i, zeros());
}

inline void close_panel(const Panel& panel, float* states, std::uint64_t first) {
  for (int m = 0; m < panel.count; ++m) {
    Partial& state = partial_at(states, first + static_cast<std::uint64_t>(m), panel.width);
    state.max = panel.max[m];
    state.sum = panel.sum[m];
    for (std::uint32_t i = 0; i < panel.width; i += 16) {
      const Lanes lanes = first_lanes(panel.width - i);
      store(state.out() + i, lanes, load(panel.out + static_cast<std::uint32_t>(m) * panel.padded + i));
    }
  }
}

template <DType type>
void widen_keys(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, float* keys) {
  const Range<std::uint32_t> tiles = tiles_of_segment(segment, unit.all_keys(args));
  const std::int64_t values = std::int64_t{kTileTokens} * args.kv.head_dim;
  for (std::uint32_t tile = tiles.begin; tile < tiles.end; ++tile) {
    const std::byte* from = unit.k_tile(args, tile);
    float* to = keys + tile % kSegmentTiles * values;
    for (std::int64_t i = 0; i < values; i += 16)
      store(to + i, load16<type>(from + i * static_cast<std::int64_t>(dtype_bytes(type))));
  }
}

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
