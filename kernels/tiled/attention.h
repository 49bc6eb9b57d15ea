// Attention over the KV cache: the order of work. Geometry, inner loops and softmax are in the other
// attention_*.h of this folder.
//
// Queries of one KV head are taken in panels of up to 12 (a few rows times the heads of the group), one segment of keys
// at a time: all scores, their softmax, then all values.
//
// A K tile [d][32] times the panel is the inner loop of the projections; so is V, [32][d], times the weights, with d as
// the lanes. While a tile is read another one is prefetched. Prefill takes panel after panel over keys that were
// widened once; decode takes all heads of a segment together, a few tiles at once. `avx512_bf16` keeps a cache of bf16
// in pairs of features and of positions (KvOrder::key_pairs), and multiplies it with queries and weights that are
// rounded to bf16. Everything is summed in one order: scores over d, weights and values over the lanes and tiles of a
// segment. Sums are f32, but for the 32 products of weights and values in a tile, which `avx512_fp16` adds up in f16
// where the cache is f16: there a weight is scaled by 2^-6, so that 32 of them (at most 1 each) times the largest f16
// stay in range. Lanes that a query must not see are left out by masks, never multiplied by zero: they may hold
// anything.
#pragma once

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

template <DType type, typename Arithmetic>
using ScoresOf = AttentionScores<typename Arithmetic::template Scores<type>, Arithmetic::kScoreTiles>;

/// The scores of `n` neighbouring tiles from `tile` on, at most score_tiles_for() of them; `wide`: their keys are f32
/// already.
template <DType type, typename Arithmetic>
void score_tiles(const Panel& panel, std::uint32_t tile, std::uint32_t n, const TileGroup& group, bool wide) {
  const auto* queries = reinterpret_cast<const std::uint32_t*>(panel.queries);
  const std::int64_t dwords = units_of(panel.width, Arithmetic::Queries::kPerDword);
  float* scores = panel.weights_of(0, tile);
  if constexpr (Arithmetic::kWidens) {
    static constexpr AttentionScores<F32Sums<DType::f32>, 1> kWideScores;
    if (wide) return kWideScores.at[panel.count][n](queries, dwords, group, scores, kWeightsLd);
  }
  static constexpr ScoresOf<type, Arithmetic> kScores;
  kScores.at[panel.count][n](queries, dwords, group, scores, kWeightsLd);
}

template <DType type, typename Arithmetic>
constexpr std::uint32_t score_tiles_for(int count) {
  return static_cast<std::uint32_t>(ScoresOf<type, Arithmetic>::tiles_for(count));
}

/// Adds the values of a tile in each of `n` panels, one or two; next[i]: what to fetch meanwhile.
template <DType type, typename Arithmetic>
void add_tiles(Panel* panels, std::uint32_t n, std::uint32_t tile, const std::byte* const* values,
               const std::byte* const* next) {
  static constexpr ValueKernels<type, Arithmetic> kValues;
  ValueTile tiles[2];
  TileLanes lanes{};
  for (std::uint32_t i = 0; i < n; ++i) {
    lanes = see_tile(panels[i], tile);  // of both the same, which are of one row
    tiles[i] = {values[i], panels[i].weights_of(0, tile), panels[i].out, panels[i].seen, next[i]};
  }
  const int count = panels[0].count;
  const Range<std::uint32_t> seen{lanes.begin, lanes.end};
  const bool whole = lanes.same && (lanes.begin | lanes.end) % Arithmetic::kPositions == 0;
  if (n == 2 && whole) return kValues.two[count](tiles, panels[0].padded, seen);
  for (std::uint32_t i = 0; i < n; ++i) kValues.at[count][whole ? 0 : 1](tiles + i, panels[0].padded, seen);
}

/// One panel over its segment, of the unit's queries from `first` on; `wide_keys`: [tile][width][32] of the segment in
/// f32, or null.
template <DType type, typename Arithmetic>
void reduce_panel(const AttentionArgs& args, const AttentionUnit& unit, std::int64_t first, Panel& panel,
                  const float* wide_keys) {
  const auto keys_of = [&](std::uint32_t t) {
    if (wide_keys == nullptr) return unit.k_tile(args, t);
    return reinterpret_cast<const std::byte*>(wide_keys + t % kSegmentTiles * kTileTokens * panel.width);
  };
  const auto values_of = [&](std::uint32_t t) { return unit.k_tile(args, t) + args.kv.tile_bytes(); };
  const Range<std::uint32_t> tiles = panel.tiles;
  for (std::uint32_t t = tiles.begin; t < tiles.end; ++t)
    score_tiles<type, Arithmetic>(panel, t, 1,
                                  {{{keys_of(t)}, {t + 1 < tiles.end ? keys_of(t + 1) : values_of(tiles.begin)}}, true},
                                  wide_keys != nullptr);
  const float scale = finish_scores(args, unit, first, panel);
  for (int m = 0; m < panel.count; ++m) softmax_row<Arithmetic>(panel, m, scale);
  for (std::uint32_t t = tiles.begin; t < tiles.end; ++t) {
    const std::byte *values = values_of(t), *next = t + 1 < tiles.end ? values_of(t + 1) : keys_of(tiles.begin);
    add_tiles<type, Arithmetic>(&panel, 1, t, &values, &next);
  }
}

// ---- Decode ----
//
// One row needs every key and value once, so decode waits for memory. How fast memory is depends on the order of
// reading: on Zen 4 reading alone, on two threads, takes tiles of 8 KiB one after the other at 54 to 80 % of the speed
// of a sequential read of all memory, and two or four at once, line by line in turn, at 87 to 94 %, if those that are
// next are brought into the L2 meanwhile, again line by line. So the keys of a few tiles of a head are scored at once,
// and the values of two heads are added at once, where registers hold the sums.

/// KV heads that decode takes together. (No measurement of other numbers is kept.)
inline constexpr std::uint32_t kHeadsAtOnce = 8;

/// Tiles that are brought into the L2 before the one that is read, where tiles are read one by one. (No measurement of
/// other distances is kept.)
inline constexpr std::uint32_t kTilesAhead = 3;

/// The tiles of some neighbouring KV heads in a segment.
struct HeadTiles {
  AttentionUnit first{};
  std::uint32_t n_heads = 0;
  Range<std::uint32_t> tiles;

  AttentionUnit unit(std::uint32_t head) const {
    AttentionUnit of_head = first;
    of_head.kv_head += head;
    return of_head;
  }
  /// How many K tiles there are, and V tiles.
  std::uint32_t count() const { return n_heads * count_of(tiles); }
  const std::byte* keys(const AttentionArgs& args, std::uint32_t head, std::uint32_t tile) const {
    return unit(head).k_tile(args, tile);
  }
  /// V tile i: tile by tile, in each head by head.
  const std::byte* values(const AttentionArgs& args, std::uint32_t i) const {
    return keys(args, i % n_heads, tiles.begin + i / n_heads) + args.kv.tile_bytes();
  }
  /// K tile i in that order; after the last one the V tiles.
  const std::byte* keys_then_values(const AttentionArgs& args, std::uint32_t i) const {
    return i < count() ? keys(args, i % n_heads, tiles.begin + i / n_heads) : values(args, i - count());
  }
};

inline void fetch_tile(const std::byte* at, std::uint64_t bytes) {
  for (std::uint64_t b = 0; b < bytes; b += 64) prefetch_far(at + b);
}

/// The scores of all heads: of a few tiles head by head, then of the next tiles. Ends with fetching values.
template <DType type, typename Arithmetic>
void score_heads(const AttentionArgs& args, const HeadTiles& heads, const Panel* panels) {
  const Range<std::uint32_t> tiles = heads.tiles;
  const std::uint32_t at_once = score_tiles_for<type, Arithmetic>(panels[0].count);
  for (std::uint32_t tile = tiles.begin, n = 0; tile < tiles.end; tile += n) {
    n = at_once < tiles.end - tile ? at_once : tiles.end - tile;
    for (std::uint32_t head = 0; head < heads.n_heads; ++head) {
      TileGroup group;
      group.only_next = true;
      for (std::uint32_t i = 0; i < n; ++i) {
        group.tiles[i] = heads.keys(args, head, tile + i);
        const bool last = head + 1 == heads.n_heads;
        const std::uint32_t next = last ? tile + n + i : tile + i;
        group.next[i] = next < tiles.end ? heads.keys(args, last ? 0 : head + 1, next) : heads.values(args, i);
      }
      if (at_once == 1) {
        const std::uint32_t ahead = (tile - tiles.begin) * heads.n_heads + head + kTilesAhead;
        if (ahead < 2 * heads.count()) fetch_tile(heads.keys_then_values(args, ahead), args.kv.tile_bytes());
      }
      score_tiles<type, Arithmetic>(panels[head], tile, n, group, false);
    }
  }
}

/// Adds the values of all heads: tile by tile, of each one head or two at once. Ends with fetching keys of `then`, if
/// that has heads.
template <DType type, typename Arithmetic>
void add_heads(const AttentionArgs& args, const HeadTiles& heads, const HeadTiles& then, Panel* panels) {
  const std::uint32_t at_once = Arithmetic::takes_two(panels[0].count) ? 2 : 1, count = heads.count();
  for (std::uint32_t first = 0, n = 0; first < count; first += n) {
    const std::uint32_t head = first % heads.n_heads;
    n = at_once < heads.n_heads - head ? at_once : heads.n_heads - head;
    const std::byte *values[2], *next[2];
    for (std::uint32_t i = 0; i < n; ++i) {
      values[i] = heads.values(args, first + i);
      next[i] = values[i];
      if (first + n + i < count) {
        next[i] = heads.values(args, first + n + i);
      } else if (then.n_heads != 0 && then.tiles.begin + i < then.tiles.end) {
        next[i] = then.keys(args, 0, then.tiles.begin + i);
      }
    }
    if (at_once == 1 && first + kTilesAhead < count)
      fetch_tile(heads.values(args, first + kTilesAhead), args.kv.tile_bytes());
    add_tiles<type, Arithmetic>(panels + head, n, heads.tiles.begin + first / heads.n_heads, values, next);
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
      Arithmetic::with_kv_type(
          args.kv.type, [&]<DType type>() { reduce_panel<type, Arithmetic>(args, unit, first, panel, wide_keys); });
      close_panel(panel, states, static_cast<std::uint64_t>(first));
    }
  }

  /// As many heads of a run as are taken together, after the first `done`.
  static HeadTiles heads_of(const AttentionArgs& args, const HeadRun& run, std::uint32_t done) {
    const std::uint32_t rest = run.n_kv_heads - done;
    HeadTiles heads{run.first, rest < kHeadsAtOnce ? rest : kHeadsAtOnce,
                    tiles_of_segment(run.segment, run.first.keys(args, 0))};
    heads.first.kv_head += done;
    return heads;
  }

  static void reduce_heads(const AttentionArgs& args, const HeadRun& run, const HeadRun* next, float* scratch,
                           float* states) {
    const std::uint32_t group = args.n_heads / args.kv.n_kv_heads;
    const std::uint64_t floats = Panel::floats(group, args.kv.head_dim, args.kv.head_dim_padded);
    const std::uint64_t state_floats = std::uint64_t{group} * partial_floats(args.kv.head_dim);
    for (std::uint32_t done = 0; done < run.n_kv_heads;) {
      const HeadTiles heads = heads_of(args, run, done);
      if (group > kPanelTokens) {
        reduce(args, heads.first, run.segment, scratch, states);
        ++done, states += state_floats;
        continue;
      }
      done += heads.n_heads;
      const HeadTiles then = done < run.n_kv_heads ? heads_of(args, run, done)
                             : next != nullptr     ? heads_of(args, *next, 0)
                                                   : HeadTiles{};
      Panel panels[kHeadsAtOnce];
      for (std::uint32_t i = 0; i < heads.n_heads; ++i) {
        panels[i].place(static_cast<int>(group), args.kv, scratch + i * floats);
        open_panel<Queries>(args, heads.unit(i), run.segment, 0, panels[i]);
      }
      Arithmetic::with_kv_type(args.kv.type, [&]<DType type>() {
        score_heads<type, Arithmetic>(args, heads, panels);
        for (std::uint32_t i = 0; i < heads.n_heads; ++i) {
          const float scale = finish_scores(args, heads.unit(i), 0, panels[i]);
          for (int m = 0; m < panels[i].count; ++m) softmax_row<Arithmetic>(panels[i], m, scale);
        }
        add_heads<type, Arithmetic>(args, heads, then, panels);
      });
      for (std::uint32_t i = 0; i < heads.n_heads; ++i, states += state_floats) close_panel(panels[i], states, 0);
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
