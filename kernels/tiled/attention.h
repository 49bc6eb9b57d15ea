// Attention over the KV cache: the order of work. Geometry, inner loops and softmax are in the attention_*.h beside
// this.
//
// Queries of one KV head are taken in panels of up to 12 (a few rows times the heads of the group), one segment of keys
// at a time: all scores, their softmax, then all values.
//
// A K tile [d][32] times the panel is the inner loop of the projections; so is V, [32][d], times the weights, with d as
// the lanes. While a tile is read the next one in order is prefetched. Prefill takes panel after panel over keys that
// were widened once; decode takes the heads of a tile one after the other, the order in which memory has them.
// `avx512_bf16` keeps a cache of bf16 in pairs of features and of positions (KvOrder::key_pairs), and multiplies it
// with queries and weights that are rounded to bf16. Everything is summed in one order: scores over d, weights and
// values over the lanes and tiles of a segment. Sums are f32, but for the 32 products of weights and values in a tile,
// which `avx512_fp16` adds up in f16 where the cache is f16: there a weight is scaled by 2^-6, so that 32 of them (at
// most 1 each) times the largest f16 stay in range. Lanes that a query must not see are left out by masks, never
// multiplied by zero: they may hold anything.
#pragma once

#include <span>

#include "common/attention_segments.h"
#include "tiled/attention_loops.h"
#include "tiled/attention_panel.h"
#include "tiled/attention_softmax.h"
#include "tiled/partials.h"
#include "tiled/tiled.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

/// From this many panels on, the keys of a segment are widened to f32 once for all of them. (No measurement of
/// other numbers is kept.)
inline constexpr std::int64_t kWidenPanels = 3;

/// KV heads that decode takes together, tile by tile in the order of memory. (No measurement of other
/// numbers is kept.)
inline constexpr std::uint32_t kHeadsAtOnce = 8;

/// The scores of a tile's keys, `wide` if they are f32 already.
template <DType type, typename Arithmetic>
void score_tile(const Panel& panel, std::uint32_t tile, const std::byte* keys, const std::byte* next, bool wide) {
  TileGroup group;
  group.tiles[0] = keys;
  group.next[0] = next;
  group.only_next = true;
  const auto* queries = reinterpret_cast<const std::uint32_t*>(panel.queries);
  const std::int64_t dwords = units_of(panel.width, Arithmetic::Queries::kPerDword);
  float* scores = panel.weights_of(0, tile);
  if constexpr (Arithmetic::kWidens) {
    static constexpr AttentionScores<F32Sums<DType::f32>> kWideScores;
    if (wide) return kWideScores.at[panel.count](queries, dwords, group, scores, kWeightsLd);
  }
  static constexpr AttentionScores<typename Arithmetic::template Scores<type>> kScores;
  kScores.at[panel.count](queries, dwords, group, scores, kWeightsLd);
}

template <DType type, typename Arithmetic>
void add_tile(Panel& panel, std::uint32_t tile, const std::byte* values, const std::byte* next) {
  static constexpr ValueKernels<type, Arithmetic> kValues;
  const TileLanes lanes = see_tile(panel, tile);
  const bool whole = (lanes.begin | lanes.end) % Arithmetic::kPositions == 0;
  kValues.at[panel.count][lanes.same && whole ? 0 : 1](
      panel, {values, panel.weights_of(0, tile), lanes.begin, lanes.end, next});
}

/// One panel over its segment; `wide_keys`: [tile][width][32] of the segment in f32, or null.
template <DType type, typename Arithmetic>
void reduce_panel(const AttentionArgs& args, const AttentionUnit& unit, Panel& panel, const float* wide_keys) {
  const auto keys_of = [&](std::uint32_t t) {
    if (wide_keys == nullptr) return unit.k_tile(args, t);
    return reinterpret_cast<const std::byte*>(wide_keys + t % kSegmentTiles * kTileTokens * panel.width);
  };
  const auto values_of = [&](std::uint32_t t) { return unit.k_tile(args, t) + args.kv.tile_bytes(); };
  const TileRange tiles = panel.tiles;
  for (std::uint32_t t = tiles.first; t <= tiles.last; ++t)
    score_tile<type, Arithmetic>(panel, t, keys_of(t), t < tiles.last ? keys_of(t + 1) : values_of(tiles.first),
                                 wide_keys != nullptr);
  const float scale = cap_scores(args, panel);
  for (int m = 0; m < panel.count; ++m) softmax_row<Arithmetic>(panel, m, scale);
  for (std::uint32_t t = tiles.first; t <= tiles.last; ++t)
    add_tile<type, Arithmetic>(panel, t, values_of(t), t < tiles.last ? values_of(t + 1) : keys_of(tiles.first));
}

/// Tiles that decode brings into the L2 before the one it reads. The inner loops prefetch the next tile into the L1,
/// but the few misses that the L1 can have under way do not keep the memory busy. (No measurement of other distances is
/// kept.)
inline constexpr std::uint32_t kTilesAhead = 3;

inline void fetch_tile(const std::byte* at, std::uint64_t bytes) {
  for (std::uint64_t b = 0; b < bytes; b += 64) prefetch_far(at + b);
}

/// One panel for each of some neighbouring KV heads, all for the same row: tile by tile, in the order of memory.
template <DType type, typename Arithmetic>
void reduce_heads(const AttentionArgs& args, const AttentionUnit& first, std::span<Panel> panels) {
  const TileRange tiles = panels[0].tiles;
  const auto n = static_cast<std::uint32_t>(panels.size()), all = (tiles.last - tiles.first + 1) * n;
  // All keys, then all values; the last of them is followed by itself.
  const auto tile_at = [&](std::uint32_t i) {
    const std::uint32_t values = i < all ? 0 : 1;
    i = i < 2 * all ? i - values * all : all - 1;
    AttentionUnit unit = first;
    unit.kv_head += i % n;
    return unit.k_tile(args, tiles.first + i / n) + values * args.kv.tile_bytes();
  };
  for (std::uint32_t i = 0; i < all; ++i) {
    fetch_tile(tile_at(i + kTilesAhead), args.kv.tile_bytes());
    score_tile<type, Arithmetic>(panels[i % n], tiles.first + i / n, tile_at(i), tile_at(i + 1), false);
  }
  for (Panel& panel : panels) {
    const float scale = cap_scores(args, panel);
    for (int m = 0; m < panel.count; ++m) softmax_row<Arithmetic>(panel, m, scale);
  }
  for (std::uint32_t i = 0; i < all; ++i) {
    if (i + kTilesAhead < all) fetch_tile(tile_at(all + i + kTilesAhead), args.kv.tile_bytes());
    add_tile<type, Arithmetic>(panels[i % n], tiles.first + i / n, tile_at(all + i), tile_at(all + i + 1));
  }
}

template <typename Arithmetic>
struct Policy {
  using Queries = typename Arithmetic::Queries;

  /// 96 queries are eight panels: a segment's keys and values come from memory once and from the L2 seven times.
  static std::int64_t rows_per_unit(std::uint32_t group) { return group >= 96 ? 1 : 96 / group; }

  static std::uint64_t scratch_floats(std::uint32_t group, std::uint32_t width, std::uint32_t padded) {
    const std::uint64_t prefill = Panel::floats(kPanelTokens, width, padded) + std::uint64_t{kSegmentTokens} * width;
    const std::uint64_t decode =
        group <= kPanelTokens ? kHeadsAtOnce * Panel::floats(group, width, padded) : std::uint64_t{0};
    return prefill > decode ? prefill : decode;
  }

  static void reduce(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, float* scratch,
                     float* states) {
    const std::int64_t queries = unit.n_rows * (args.n_heads / args.kv.n_kv_heads);
    float* wide_keys = nullptr;
    if (Arithmetic::kWidens && queries > (kWidenPanels - 1) * kPanelTokens && args.kv.type != DType::f32) {
      wide_keys = scratch + Panel::floats(kPanelTokens, args.kv.head_dim, args.kv.head_dim_padded);
      Arithmetic::with_kv_type(args.kv.type, [&]<DType type>() { widen_keys<type>(args, unit, segment, wide_keys); });
    }
    Panel panel;
    for (std::int64_t first = 0; first < queries; first += kPanelTokens) {
      panel.place(static_cast<int>(queries - first < kPanelTokens ? queries - first : kPanelTokens), args.kv, scratch);
      open_panel<Queries>(args, unit, segment, first, panel);
      Arithmetic::with_kv_type(args.kv.type,
                               [&]<DType type>() { reduce_panel<type, Arithmetic>(args, unit, panel, wide_keys); });
      close_panel(panel, states, static_cast<std::uint64_t>(first));
    }
  }

  static void reduce_heads(const AttentionArgs& args, AttentionUnit unit, std::uint32_t n_kv_heads,
                           std::uint32_t segment, float* scratch, float* states) {
    const std::uint32_t group = args.n_heads / args.kv.n_kv_heads;
    const std::uint64_t floats = Panel::floats(group, args.kv.head_dim, args.kv.head_dim_padded);
    const std::uint32_t at_once = group <= kPanelTokens ? kHeadsAtOnce : 1;
    Panel panels[kHeadsAtOnce];
    for (std::uint32_t done = 0; done < n_kv_heads;) {
      const std::uint32_t n = n_kv_heads - done < at_once ? n_kv_heads - done : at_once;
      if (n == 1) {
        reduce(args, unit, segment, scratch, states);
      } else {
        for (std::uint32_t i = 0; i < n; ++i) {
          AttentionUnit of_head = unit;
          of_head.kv_head += i;
          panels[i].place(static_cast<int>(group), args.kv, scratch + i * floats);
          open_panel<Queries>(args, of_head, segment, 0, panels[i]);
        }
        Arithmetic::with_kv_type(args.kv.type, [&]<DType type>() {
          QINFER_ISA::reduce_heads<type, Arithmetic>(args, unit, std::span(panels).first(n));
        });
        for (std::uint32_t i = 0; i < n; ++i) close_panel(panels[i], states, std::uint64_t{i} * group);
      }
      done += n;
      unit.kv_head += n;
      states += std::uint64_t{n} * group * partial_floats(args.kv.head_dim);
    }
  }

  static void fold(Partial& total, Partial& part, std::uint32_t width) { fold_partials(total, part, width); }
  static void write(const AttentionArgs& args, std::uint32_t head, std::int64_t row, std::int64_t n, float* states,
                    std::uint64_t stride) {
    write_rows(args, head, row, n, states, stride,
               [&](Partial& state, float* out) { write_partial(state, args.kv.head_dim, out); });
  }
};

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
