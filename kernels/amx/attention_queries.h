// Attention, queries: which ones pass through a segment together, what they see, where their buffers are, and how they
// get into panels.
#pragma once

#include "amx/amx.h"
#include "amx/panels.h"
#include "common/attention_segments.h"

namespace qinfer::kernels::amx {
namespace {

inline constexpr std::int64_t kLanes = 32;  ///< queries at a time

/// Up to 32 queries on their way through one segment of keys: which they are and what they see (set by open_rows() or
/// open_lanes()), buffers in the worker's scratch (set once, by the constructor), and what ScoreWeights found.
struct Queries {
  // Which queries: lane m is row rows[m] of the unit and head heads[m] of the group.
  int count = 0, panels = 0;
  std::int64_t rows[kLanes];
  std::uint32_t heads[kLanes];
  /// The queries as panels of bf16 pairs, [padded / 2][16]: in place where they are one panel, otherwise in own_panel.
  const std::uint32_t* panel[2] = {nullptr, nullptr};

  // What they see.
  Range<std::uint32_t> ranges[kLanes];  ///< the keys of each
  Range<std::uint32_t> all;             ///< the keys that all see
  Range<std::uint32_t> any;             ///< from the first to the last key that any sees
  Range<std::uint32_t> tiles;           ///< of the segment, that any sees

  // Buffers, and the widths that their sizes depend on.
  std::uint32_t width = 0, padded = 0;  ///< of a head, and of a head in the cache
  std::uint32_t* own_panel[2] = {nullptr, nullptr};
  float* scores = nullptr;                         ///< of two tiles, [2][32 positions][32 lanes]
  std::uint32_t* weights[2] = {nullptr, nullptr};  ///< of each panel: bf16 pairs, [512 / 2][16]
  std::byte* tile = nullptr;                       ///< bf16 [32][padded]: a converted K tile, or part of a V tile

  // What ScoreWeights found, of each panel's lanes.
  __m512 reference[2];  ///< weights are 2^(score * log2(e) - reference); -inf where a lane sees scores of -inf alone
  __m512 sum[2];        ///< of the weights

  static constexpr std::uint64_t kScoreFloats = std::uint64_t{2} * kTileTokens * kLanes;
  static std::uint64_t floats(std::uint64_t padded) {
    return padded * 16 + kScoreFloats + std::uint64_t{kSegmentTokens} * 16 + padded * 16 + 16;
  }
  explicit Queries(const AttentionArgs& args, float* memory)
      : width(args.kv.head_dim), padded(args.kv.head_dim_padded) {
    float* at = memory + (64 - reinterpret_cast<std::uintptr_t>(memory) % 64) % 64 / sizeof(float);
    const auto take = [&at](std::uint64_t floats) {
      float* taken = at;
      at += floats;
      return taken;
    };
    for (auto& p : own_panel) p = reinterpret_cast<std::uint32_t*>(take(std::uint64_t{padded} * 8));
    scores = take(kScoreFloats);
    for (auto& w : weights) w = reinterpret_cast<std::uint32_t*>(take(std::uint64_t{kSegmentTokens} * 8));
    tile = reinterpret_cast<std::byte*>(at);
  }

  float* scores_of(std::uint32_t t) const { return scores + std::int64_t{t % 2} * kTileTokens * kLanes; }
  std::uint32_t* weights_of(int p, std::uint32_t t) const {
    return weights[p] + std::int64_t{t % kSegmentTiles} * (kTileTokens / 2) * 16;
  }
  /// Whether all queries see all of the tile.
  bool whole(std::uint32_t t) const { return all.begin <= t * kTileTokens && all.end >= (t + 1) * kTileTokens; }
};

/// The panel that holds a head of batch row `row`.
inline const std::uint32_t* query_panel(const AttentionArgs& args, std::int64_t row, std::uint32_t head) {
  return args.q.pairs() + (row / kPanelLanes * args.n_heads + head) * panel_dwords(args.kv.head_dim);
}

/// Sixteen rows of one head from batch row `row` on, of which `count` are wanted: where they are if they are one panel,
/// otherwise copied out of two.
inline const std::uint32_t* rows_as_panel(const AttentionArgs& args, std::int64_t row, std::uint32_t head,
                                          std::int64_t count, std::uint32_t* own) {
  const std::uint32_t* low = query_panel(args, row, head);
  const std::int64_t shift = row % kPanelLanes;
  if (shift == 0) return low;
  const std::uint32_t* high = shift + count <= kPanelLanes ? low : query_panel(args, row + kPanelLanes, head);
  const __m512i lanes = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(shift)),
                                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  for (std::int64_t at = 0; at < panel_dwords(args.kv.head_dim); at += kPanelLanes)
    _mm512_store_si512(own + at,
                       _mm512_permutex2var_epi32(_mm512_load_si512(low + at), lanes, _mm512_load_si512(high + at)));
  return own;
}

/// Lanes [16 * p, 16 * p + 16) of queries of several heads, zeros where there are none.
inline const std::uint32_t* lanes_as_panel(const AttentionArgs& args, const AttentionUnit& unit, const Queries& queries,
                                           int p) {
  const std::uint32_t group = args.n_heads / args.kv.n_kv_heads;
  const std::int64_t dwords = panel_dwords(args.kv.head_dim);
  std::uint32_t* own = queries.own_panel[p];
  if (args.q.is_row_major()) {
    const auto row_of = [&](std::int64_t m) {
      const std::int64_t lane = 16 * p + m, head = unit.kv_head * group + queries.heads[lane];
      return args.q.row(unit.sequence->first_row + unit.first_row + queries.rows[lane]) + head * args.kv.head_dim;
    };
    pack_panel(smaller(queries.count - 16 * p, 16), queries.width, row_of, own);
    return own;
  }
  for (std::int64_t at = 0; at < dwords; at += kPanelLanes) _mm512_store_si512(own + at, _mm512_setzero_si512());
  for (int m = 16 * p; m < queries.count && m < 16 * p + 16; ++m) {
    const std::int64_t row = unit.sequence->first_row + unit.first_row + queries.rows[m];
    const std::uint32_t* from = query_panel(args, row, unit.kv_head * group + queries.heads[m]) + row % kPanelLanes;
    for (std::int64_t at = 0; at < dwords; at += kPanelLanes) own[at + m % 16] = from[at];
  }
  return own;
}

/// What follows from which rows and heads the queries are.
inline void set_ranges(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, Queries& queries) {
  for (int p = 0; p < 2; ++p) queries.panel[p] = queries.own_panel[p];
  for (int m = 0; m < queries.count; ++m) queries.ranges[m] = unit.keys(args, queries.rows[m]);
  // Ranges ascend with the rows, at both ends.
  const Range<std::uint32_t>&lowest = queries.ranges[0], &highest = queries.ranges[queries.count - 1];
  queries.all = {highest.begin, lowest.end};
  queries.any = {lowest.begin, highest.end};
  queries.tiles = tiles_of_segment(segment, queries.any);
}

/// Rows [first, first + count) of a unit, all of one head of the group.
inline void open_rows(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, std::int64_t first,
                      int count, std::uint32_t head, Queries& queries) {
  queries.count = count;
  queries.panels = count > 16 ? 2 : 1;
  for (int m = 0; m < count; ++m) queries.rows[m] = first + m, queries.heads[m] = head;
  set_ranges(args, unit, segment, queries);
  const std::int64_t row = unit.sequence->first_row + unit.first_row + first;
  for (int p = 0; p < queries.panels; ++p)
    queries.panel[p] = rows_as_panel(args, row + 16 * p, unit.kv_head * (args.n_heads / args.kv.n_kv_heads) + head,
                                     smaller(count - 16 * p, 16), queries.own_panel[p]);
}

/// Queries [first, first + count) of a unit, counted row by row and in a row head by head.
inline void open_lanes(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, std::int64_t first,
                       int count, Queries& queries) {
  const std::uint32_t group = args.n_heads / args.kv.n_kv_heads;
  queries.count = count;
  queries.panels = count > 16 ? 2 : 1;
  for (int m = 0; m < count; ++m) {
    queries.rows[m] = (first + m) / group;
    queries.heads[m] = static_cast<std::uint32_t>((first + m) % group);
  }
  set_ranges(args, unit, segment, queries);
  for (int p = 0; p < queries.panels; ++p) queries.panel[p] = lanes_as_panel(args, unit, queries, p);
}

}  // namespace
}  // namespace qinfer::kernels::amx
