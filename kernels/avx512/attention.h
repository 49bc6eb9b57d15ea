// Attention over the KV cache: queries of one KV head in panels of up to 12 (a few rows times the heads of the group),
// one segment of keys at a time: all scores, their softmax, then all values.
//
// A K tile [d][32] times the panel is the inner loop of the projections; so is V, [32][d], times the weights, with d as
// the lanes. While a tile is read the next one in order is prefetched. Prefill takes panel after panel over keys that
// were widened once; decode takes the heads of a tile one after the other, for that is how they lie in memory.
// Everything is summed in one order: scores over d, weights and values over the lanes and tiles of a segment. Sums are
// f32, but for the 32 products of weights and values in a tile, which `avx512_fp16` adds up in f16 where the cache is
// f16: there a weight is scaled by 2^-6, so that 32 of them (at most 1 each) times the largest f16 stay in range.
// Lanes that a query must not see are left out by masks, never multiplied by zero: they may hold anything.
#pragma once

#include <span>

#include "common/attention_segments.h"

#include "avx512/avx512.h"
#include "avx512/gemm_kernels.h"
#include "avx512/partials.h"

namespace qinfer::kernels::avx512 {
namespace {

inline constexpr int kWeightsLd = static_cast<int>(kSegmentTokens);

inline constexpr float kLog2E = 1.44269504088896341f;

/// log2 of what a weight of the largest score is stored as; the same factor is in sums and outputs, and cancels.
template <bool f16_values>
constexpr float weight_exponent() {
  return f16_values ? -6.0f : 0.0f;
}

/// Word i / 2 of 16 words in place i.
inline __m512i twice_index() {
  alignas(64) static constexpr std::uint16_t kIndex[32] = {0, 0, 1, 1, 2,  2,  3,  3,  4,  4,  5,  5,  6,  6,  7,  7,
                                                           8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15};
  return _mm512_load_si512(kIndex);
}

/// From this many panels on, the keys of a segment are widened to f32 once for all of them.
inline constexpr std::int64_t kWidenPanels = 3;

/// KV heads that decode takes together.
inline constexpr std::uint32_t kHeadsAtOnce = 8;

struct TileRange {
  std::uint32_t first, last;  ///< both included
};

/// The tiles of a segment that queries see whose keys are these positions.
inline TileRange tiles_of_segment(std::uint32_t segment, Range keys) {
  TileRange tiles{segment * kSegmentTiles, (segment + 1) * kSegmentTiles - 1};
  if (keys.first / kTileTokens > tiles.first) tiles.first = keys.first / kTileTokens;
  if (keys.last / kTileTokens < tiles.last) tiles.last = keys.last / kTileTokens;
  return tiles;
}

/// Up to twelve queries on their way through a segment.
struct Panel {
  int count = 0;
  std::uint32_t width = 0, padded = 0;
  float* queries = nullptr;  ///< [width][count]
  float* weights = nullptr;  ///< [count][512]: scores, then softmax weights, as f32 or as pairs of f16
  float* out = nullptr;      ///< [count][padded]
  Range ranges[kPanelTokens];
  TileRange tiles{};                 ///< of the segment, that any of the queries sees
  std::uint32_t seen[kPanelTokens];  ///< lanes of the current tile, one bit each
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

/// A tile's values, the first of its weights, the lanes that are seen, and what to prefetch.
struct ValueTile {
  const std::byte* values;
  const float* weights;
  std::uint32_t begin, end;
  const std::byte* next;
};

/// out += weights x V; `masked`: not all queries see all lanes from begin to end.
template <DType type, int count, bool masked>
void add_values(const Panel& panel, const ValueTile& tile) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  const std::int64_t padded = panel.padded;
  for (std::int64_t d = 0; d < padded; d += 32) {
    const bool both = padded - d >= 32;  // else the last 16 lanes
    __m512 sums[count][2];
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      const float* out = panel.out + m * padded + d;
      sums[m][0] = _mm512_loadu_ps(out);
      sums[m][1] = _mm512_maskz_loadu_ps(both ? 0xffff : 0, out + 16);
    }
    const std::byte* line = tile.values + (tile.begin * padded + d) * kBytes;
    for (std::uint32_t j = tile.begin; j < tile.end; ++j, line += padded * kBytes) {
      prefetch_line(tile.next + (d / 32 * 32 + j) * 32 * kBytes);
      if constexpr (kBytes > 2) prefetch_line(tile.next + (d / 32 * 32 + j) * 32 * kBytes + 64);
      const __m512 low = load16<type>(line), high = load16<type>(both ? line + 16 * kBytes : line);
#pragma GCC unroll 12
      for (int m = 0; m < count; ++m) {
        const __m512 weight = _mm512_set1_ps(tile.weights[m * kWeightsLd + static_cast<int>(j)]);
        if constexpr (masked) {
          const auto lanes = static_cast<__mmask16>(-(panel.seen[m] >> j & 1u));
          sums[m][0] = _mm512_mask3_fmadd_ps(low, weight, sums[m][0], lanes);
          sums[m][1] = _mm512_mask3_fmadd_ps(high, weight, sums[m][1], lanes);
        } else {
          sums[m][0] = _mm512_fmadd_ps(low, weight, sums[m][0]);
          sums[m][1] = _mm512_fmadd_ps(high, weight, sums[m][1]);
        }
      }
    }
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      float* out = panel.out + m * padded + d;
      _mm512_storeu_ps(out, sums[m][0]);
      if (both) _mm512_storeu_ps(out + 16, sums[m][1]);
    }
  }
}

#ifdef __AVX512FP16__

/// The same with f16 sums over the tile; 64 lanes of V at a time, or the last 16, 32 or 48.
template <int count, bool masked>
void add_values_fp16(const Panel& panel, const ValueTile& tile) {
  const std::int64_t padded = panel.padded;
  const auto* pairs = reinterpret_cast<const std::uint32_t*>(tile.weights);
  for (std::int64_t d = 0; d < padded; d += 64) {
    const auto lanes_of_half = [&](std::int64_t half) {
      const std::int64_t rest = padded - d - 32 * half;
      return rest >= 32 ? ~__mmask32{0} : rest <= 0 ? __mmask32{0} : (__mmask32{1} << rest) - 1;
    };
    const __mmask32 lanes[2] = {lanes_of_half(0), lanes_of_half(1)};
    __m512h sums[count][2];
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) sums[m][0] = sums[m][1] = _mm512_setzero_ph();
    const std::byte* line = tile.values + (tile.begin * padded + d) * 2;
    for (std::uint32_t j = tile.begin; j < tile.end; ++j, line += padded * 2) {
      prefetch_line(tile.next + (d + j) * 64);
      prefetch_line(tile.next + (d + 32 + j) * 64);
      const __m512h low = _mm512_castsi512_ph(_mm512_maskz_loadu_epi16(lanes[0], line)),
                    high = _mm512_castsi512_ph(_mm512_maskz_loadu_epi16(lanes[1], line + 64));
#pragma GCC unroll 12
      for (int m = 0; m < count; ++m) {
        const __m512h weight =
            _mm512_castsi512_ph(_mm512_set1_epi32(static_cast<int>(pairs[m * kWeightsLd + static_cast<int>(j)])));
        if constexpr (masked) {
          const auto seen = static_cast<__mmask32>(-(panel.seen[m] >> j & 1u));
          sums[m][0] = _mm512_mask3_fmadd_ph(low, weight, sums[m][0], seen);
          sums[m][1] = _mm512_mask3_fmadd_ph(high, weight, sums[m][1], seen);
        } else {
          sums[m][0] = _mm512_fmadd_ph(low, weight, sums[m][0]);
          sums[m][1] = _mm512_fmadd_ph(high, weight, sums[m][1]);
        }
      }
    }
    // Widened through memory, as in gemm_kernels.h.
    alignas(64) std::byte halves[count][2][64];
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      _mm512_store_ph(halves[m][0], sums[m][0]);
      _mm512_store_ph(halves[m][1], sums[m][1]);
    }
    asm volatile("" : : "r"(&halves) : "memory");
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      float* out = panel.out + m * padded + d;
#pragma GCC unroll 4
      for (int quarter = 0; quarter < 4; ++quarter) {
        if (quarter > 0 && d + 16 * quarter >= padded) break;
        const __m512 sum = load16<DType::f16>(halves[m][quarter / 2] + 32 * (quarter % 2));
        _mm512_storeu_ps(out + 16 * quarter, _mm512_add_ps(_mm512_loadu_ps(out + 16 * quarter), sum));
      }
    }
  }
}
#endif

using ValueKernel = void (*)(const Panel& panel, const ValueTile& tile);

template <DType type>
struct AttentionScores {
  PanelKernel at[kPanelTokens + 1] = {};

  template <int count>
  constexpr void fill() {
    at[count] = &F32Sums<type>::template run<count, 1>;
    if constexpr (count > 1) fill<count - 1>();
  }
  constexpr AttentionScores() { fill<kPanelTokens>(); }
};

template <DType type, bool f16_values>
struct ValueKernels {
  ValueKernel at[kPanelTokens + 1][2] = {};

  template <int count>
  constexpr void fill() {
#ifdef __AVX512FP16__
    if constexpr (f16_values) {
      at[count][0] = &add_values_fp16<count, false>;
      at[count][1] = &add_values_fp16<count, true>;
    }
#endif
    if constexpr (!f16_values) {
      at[count][0] = &add_values<type, count, false>;
      at[count][1] = &add_values<type, count, true>;
    }
    if constexpr (count > 1) fill<count - 1>();
  }
  constexpr ValueKernels() { fill<kPanelTokens>(); }
};

/// Stores 16 weights as the values' inner loop wants them.
template <bool f16_values>
inline void store_weights(float* at, __m512 weights) {
  if constexpr (f16_values) {
    const __m512i halves = _mm512_castsi256_si512(_mm512_cvtps_ph(weights, kNearest));
    _mm512_storeu_si512(at, _mm512_permutexvar_epi16(twice_index(), halves));
  } else {
    _mm512_storeu_ps(at, weights);
  }
}

inline std::uint32_t seen_lanes(const Range& range, std::uint32_t tile) {
  const LaneRange lanes = lanes_of(range, tile * kTileTokens);
  return static_cast<std::uint32_t>((std::uint64_t{1} << lanes.end) - (std::uint64_t{1} << lanes.begin));
}

/// Scores become softcap * tanh(score * scale / softcap). Kept out of the way of models that have no caps.
[[gnu::noinline]] inline void apply_softcap(const Panel& panel, float scale, float softcap) {
  const __m512 factor = _mm512_set1_ps(scale / softcap), cap = _mm512_set1_ps(softcap);
  for (int m = 0; m < panel.count; ++m)
    for (std::uint32_t tile = panel.tiles.first; tile <= panel.tiles.last; ++tile)
      for (int half = 0; half < 2; ++half) {
        float* at = panel.weights_of(m, tile) + 16 * half;
        _mm512_storeu_ps(at, soft_capped<VectorOps>(_mm512_loadu_ps(at), factor, cap));
      }
}

/// What the scores of a panel are still to be multiplied with, after their soft cap if there is one.
inline float cap_scores(const AttentionArgs& args, const Panel& panel) {
  if (args.softcap == 0) return args.scale;
  apply_softcap(panel, args.scale, args.softcap);
  return 1.0f;
}

/// Scores of query m in, its softmax weights out, with their maximum (of the scores times log2(e)) and sum.
template <bool f16_values>
void softmax_row(Panel& panel, int m, float scale) {
  const __m512 factor = _mm512_set1_ps(scale * kLog2E), nothing = _mm512_set1_ps(kNegativeInfinity);
  __m512 largest = nothing;
  for (std::uint32_t tile = panel.tiles.first; tile <= panel.tiles.last; ++tile) {
    const float* at = panel.weights_of(m, tile);
    const std::uint32_t seen = seen_lanes(panel.ranges[m], tile);
    // max returns its second operand if one is NaN: the maximum never becomes NaN.
    largest = _mm512_mask_max_ps(largest, static_cast<__mmask16>(seen), _mm512_loadu_ps(at), largest);
    largest = _mm512_mask_max_ps(largest, static_cast<__mmask16>(seen >> 16), _mm512_loadu_ps(at + 16), largest);
  }
  panel.max[m] = _mm512_reduce_max_ps(largest) * (scale * kLog2E);
  // All scores -inf: nothing has weight (-inf minus -inf would be NaN).
  const float base = panel.max[m] == kNegativeInfinity ? 0.0f : panel.max[m];
  const __m512 shift = _mm512_set1_ps(base - weight_exponent<f16_values>());
  __m512 sums = _mm512_setzero_ps();
  for (std::uint32_t tile = panel.tiles.first; tile <= panel.tiles.last; ++tile) {
    float* at = panel.weights_of(m, tile);
    const std::uint32_t seen = seen_lanes(panel.ranges[m], tile);
    const auto weights = [&](const float* scores, std::uint32_t lanes) {
      const __m512 x = _mm512_fmsub_ps(_mm512_loadu_ps(scores), factor, shift);
      return exp2_ps(_mm512_mask_mov_ps(nothing, static_cast<__mmask16>(lanes), x));
    };
    const __m512 low = weights(at, seen), high = weights(at + 16, seen >> 16);
    store_weights<f16_values>(at, low);
    store_weights<f16_values>(at + 16, high);
    sums = _mm512_add_ps(sums, _mm512_add_ps(low, high));
  }
  panel.sum[m] = sum_lanes(sums);
}

/// Which lanes of the tile at `origin` each query sees; returns the lanes that any sees, and whether all see those.
struct TileLanes {
  std::uint32_t begin, end;
  bool same;
};

inline TileLanes see_tile(Panel& panel, std::uint32_t tile) {
  TileLanes all{kTileTokens, 0, true};
  for (int m = 0; m < panel.count; ++m) {
    const LaneRange lanes = lanes_of(panel.ranges[m], tile * kTileTokens);
    panel.seen[m] = seen_lanes(panel.ranges[m], tile);
    all.same = all.same && panel.seen[m] == panel.seen[0];
    if (panel.seen[m] == 0) continue;
    all.begin = lanes.begin < all.begin ? lanes.begin : all.begin;
    all.end = lanes.end > all.end ? lanes.end : all.end;
  }
  return all;
}

/// Queries [first, first + count) of a unit, counted row by row and in a row head by head.
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
  panel.tiles = tiles_of_segment(segment, {panel.ranges[0].first, panel.ranges[panel.count - 1].last});
  for (std::uint32_t i = 0; i < panel.width; i += 16) {
    __m512i block[16];
    for (int m = 0; m < 16; ++m)
      block[m] = m < panel.count && m < kPanelTokens
                     ? _mm512_maskz_loadu_epi32(first_lanes(panel.width - i), rows[m] + i)
                     : _mm512_setzero_si512();
    transpose16(block);
    for (std::uint32_t j = 0; j < 16 && i + j < panel.width; ++j)
      _mm512_mask_storeu_epi32(panel.queries + (i + j) * static_cast<std::uint32_t>(panel.count),
                               first_lanes(panel.count), block[j]);
  }
  for (std::int64_t i = 0; i < std::int64_t{panel.count} * panel.padded; i += 16)
    _mm512_storeu_ps(panel.out + i, _mm512_setzero_ps());
}

inline void close_panel(const Panel& panel, float* states, std::uint64_t first) {
  for (int m = 0; m < panel.count; ++m) {
    Partial& state = partial_at(states, first + static_cast<std::uint64_t>(m), panel.width);
    state.max = panel.max[m];
    state.sum = panel.sum[m];
    for (std::uint32_t i = 0; i < panel.width; i += 16) {
      const __mmask16 lanes = first_lanes(panel.width - i);
      _mm512_mask_storeu_ps(state.out() + i, lanes,
                            _mm512_loadu_ps(panel.out + static_cast<std::uint32_t>(m) * panel.padded + i));
    }
  }
}

template <DType type>
void widen_keys(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, float* keys) {
  const TileRange tiles = tiles_of_segment(segment, unit.all_keys(args));
  const std::int64_t values = std::int64_t{kTileTokens} * args.kv.head_dim;
  for (std::uint32_t tile = tiles.first; tile <= tiles.last; ++tile) {
    const std::byte* from = unit.k_tile(args, tile);
    float* to = keys + tile % kSegmentTiles * values;
    for (std::int64_t i = 0; i < values; i += 16)
      _mm512_storeu_ps(to + i, load16<type>(from + i * static_cast<std::int64_t>(dtype_bytes(type))));
  }
}

/// The scores of a tile's keys, `wide` if they are f32 already.
template <DType type>
void score_tile(const Panel& panel, std::uint32_t tile, const std::byte* keys, const std::byte* next, bool wide) {
  static constexpr AttentionScores<type> kScores;
  static constexpr AttentionScores<DType::f32> kWideScores;
  TileGroup group;
  group.tiles[0] = keys;
  group.next[0] = next;
  group.only_next = true;
  (wide ? kWideScores.at : kScores.at)[panel.count](reinterpret_cast<const std::uint32_t*>(panel.queries), panel.width,
                                                    group, panel.weights_of(0, tile), kWeightsLd);
}

template <DType type, bool f16_values>
void add_tile(Panel& panel, std::uint32_t tile, const std::byte* values, const std::byte* next) {
  static constexpr ValueKernels<type, f16_values> kValues;
  const TileLanes lanes = see_tile(panel, tile);
  kValues.at[panel.count][lanes.same ? 0 : 1](panel, {values, panel.weights_of(0, tile), lanes.begin, lanes.end, next});
}

/// One panel over its segment; `wide_keys`: [tile][width][32] of the segment in f32, or null.
template <DType type, bool f16_values>
void reduce_panel(const AttentionArgs& args, const AttentionUnit& unit, Panel& panel, const float* wide_keys) {
  const auto keys_of = [&](std::uint32_t t) {
    if (wide_keys == nullptr) return unit.k_tile(args, t);
    return reinterpret_cast<const std::byte*>(wide_keys + t % kSegmentTiles * kTileTokens * panel.width);
  };
  const auto values_of = [&](std::uint32_t t) { return unit.k_tile(args, t) + args.kv.tile_bytes(); };
  const TileRange tiles = panel.tiles;
  for (std::uint32_t t = tiles.first; t <= tiles.last; ++t)
    score_tile<type>(panel, t, keys_of(t), t < tiles.last ? keys_of(t + 1) : values_of(tiles.first),
                     wide_keys != nullptr);
  const float scale = cap_scores(args, panel);
  for (int m = 0; m < panel.count; ++m) softmax_row<f16_values>(panel, m, scale);
  for (std::uint32_t t = tiles.first; t <= tiles.last; ++t)
    add_tile<type, f16_values>(panel, t, values_of(t), t < tiles.last ? values_of(t + 1) : keys_of(tiles.first));
}

/// Tiles that decode brings into the L2 before the one it reads. The inner loops prefetch the next tile into the L1,
/// but the few misses that the L1 can have under way do not keep the memory busy.
inline constexpr std::uint32_t kTilesAhead = 3;

inline void fetch_tile(const std::byte* at, std::uint64_t bytes) {
  for (std::uint64_t b = 0; b < bytes; b += 64) prefetch_far(at + b);
}

/// One panel for each of some neighbouring KV heads, all for the same row: tile by tile, in the order of memory.
template <DType type, bool f16_values>
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
    score_tile<type>(panels[i % n], tiles.first + i / n, tile_at(i), tile_at(i + 1), false);
  }
  for (Panel& panel : panels) {
    const float scale = cap_scores(args, panel);
    for (int m = 0; m < panel.count; ++m) softmax_row<f16_values>(panel, m, scale);
  }
  for (std::uint32_t i = 0; i < all; ++i) {
    if (i + kTilesAhead < all) fetch_tile(tile_at(all + i + kTilesAhead), args.kv.tile_bytes());
    add_tile<type, f16_values>(panels[i % n], tiles.first + i / n, tile_at(all + i), tile_at(all + i + 1));
  }
}

/// `f16_values`: the cache is f16, and weights times values are summed in f16.
template <bool f16_values>
struct Policy {
  /// About eight panels: a segment's keys and values come from memory once and from the L2 seven times.
  static std::int64_t rows_per_unit(std::uint32_t group) { return group >= 96 ? 1 : 96 / group; }

  template <typename F>
  static void with_kv_type(DType type, F f) {
    if constexpr (f16_values) {
      f.template operator()<DType::f16>();
    } else {
      with_dtype(type, f);
    }
  }

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
    if (queries > (kWidenPanels - 1) * kPanelTokens && args.kv.type != DType::f32) {
      wide_keys = scratch + Panel::floats(kPanelTokens, args.kv.head_dim, args.kv.head_dim_padded);
      with_kv_type(args.kv.type, [&]<DType type>() { widen_keys<type>(args, unit, segment, wide_keys); });
    }
    Panel panel;
    for (std::int64_t first = 0; first < queries; first += kPanelTokens) {
      panel.place(static_cast<int>(queries - first < kPanelTokens ? queries - first : kPanelTokens), args.kv, scratch);
      open_panel(args, unit, segment, first, panel);
      with_kv_type(args.kv.type, [&]<DType type>() { reduce_panel<type, f16_values>(args, unit, panel, wide_keys); });
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
          open_panel(args, of_head, segment, 0, panels[i]);
        }
        with_kv_type(args.kv.type, [&]<DType type>() {
          avx512::reduce_heads<type, f16_values>(args, unit, std::span(panels).first(n));
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
}  // namespace qinfer::kernels::avx512
