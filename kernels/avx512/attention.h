// Attention over the KV cache: queries of one KV head in panels of 12 (a few rows times the heads of the group), one
// tile of 32 keys at a time.
//
// A K tile [d][32] times the panel is the inner loop of the projections; so is V, [32][d], times the weights, with d as
// the lanes. While keys are read the tile's values are prefetched, while values are read the next tile's keys.
// Everything is summed in one order: scores over d, weights and values over the lanes and tiles of a segment. Sums are
// f32, but for the 32 products of weights and values in a tile, which `avx512_fp16` adds up in f16 where the cache is
// f16: there a weight is scaled by 2^-6, so that 32 of them (at most 1 each) times the largest f16 stay in range.
// Lanes that a query must not see are left out by masks, never multiplied by zero: they may hold anything.
#pragma once

#include "attention_segments.h"

#include "avx512/avx512.h"
#include "avx512/gemm_kernels.h"

namespace qinfer::kernels::avx512 {
namespace {

inline constexpr int kLanes = static_cast<int>(kTileTokens);

/// From this many panels on, the keys of a segment are widened to f32 once for all of them.
inline constexpr std::int64_t kWidenPanels = 3;

/// Twelve queries on their way through a segment.
struct Panel {
  int count = 0;
  std::uint32_t width = 0, padded = 0;
  float* queries;  ///< [width][count]
  float* weights;  ///< [count][32]: scores, then softmax weights, as f32 or as pairs of f16
  float* out;      ///< [count][padded]
  float* keys;     ///< the keys of the segment, [tile][width][32], or null
  Range ranges[kPanelTokens];
  std::uint32_t seen[kPanelTokens];          ///< lanes of the current tile, one bit each
  alignas(64) float max[16], rescale[16];    ///< running maximum; e^(old - new maximum)
  alignas(64) float sums[kPanelTokens][16];  ///< of the weights, by lane

  static std::uint64_t floats(std::uint64_t width, std::uint64_t padded) {
    return kPanelTokens * (width + kTileTokens + padded);
  }
};

/// out = out * rescale + weights x V for the lanes [begin, end) of a tile; `masked`: not all queries see all of them.
template <DType type, int count, bool masked>
void add_values(const Panel& panel, const std::byte* values, std::uint32_t begin, std::uint32_t end,
                const std::byte* next) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  const std::int64_t padded = panel.padded;
  for (std::int64_t d = 0; d < padded; d += 32) {
    const bool both = padded - d >= 32;  // else the last 16 lanes
    __m512 sums[count][2];
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      const __m512 rescale = _mm512_set1_ps(panel.rescale[m]);
      const float* out = panel.out + m * padded + d;
      sums[m][0] = _mm512_mul_ps(_mm512_loadu_ps(out), rescale);
      sums[m][1] = _mm512_mul_ps(_mm512_maskz_loadu_ps(both ? 0xffff : 0, out + 16), rescale);
    }
    const std::byte* line = values + (begin * padded + d) * kBytes;
    for (std::uint32_t j = begin; j < end; ++j, line += padded * kBytes) {
      prefetch_line(next + (d / 32 * 32 + j) * 32 * kBytes);
      if constexpr (kBytes > 2) prefetch_line(next + (d / 32 * 32 + j) * 32 * kBytes + 64);
      const __m512 low = load16<type>(line), high = load16<type>(both ? line + 16 * kBytes : line);
#pragma GCC unroll 12
      for (int m = 0; m < count; ++m) {
        const __m512 weight = _mm512_set1_ps(panel.weights[m * kLanes + static_cast<int>(j)]);
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
inline constexpr int kWeightExponent = -6;

/// The same with f16 sums over the tile; 64 lanes of V at a time, or the last 16, 32 or 48.
template <int count, bool masked>
void add_values_fp16(const Panel& panel, const std::byte* values, std::uint32_t begin, std::uint32_t end,
                     const std::byte* next) {
  const std::int64_t padded = panel.padded;
  const auto* pairs = reinterpret_cast<const std::uint32_t*>(panel.weights);
  const __m512 unscale = _mm512_set1_ps(1.0f * (1 << -kWeightExponent));
  for (std::int64_t d = 0; d < padded; d += 64) {
    const auto lanes_of_half = [&](std::int64_t half) {
      const std::int64_t rest = padded - d - 32 * half;
      return rest >= 32 ? ~__mmask32{0} : rest <= 0 ? __mmask32{0} : (__mmask32{1} << rest) - 1;
    };
    const __mmask32 lanes[2] = {lanes_of_half(0), lanes_of_half(1)};
    __m512h sums[count][2];
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) sums[m][0] = sums[m][1] = _mm512_setzero_ph();
    const std::byte* line = values + (begin * padded + d) * 2;
    for (std::uint32_t j = begin; j < end; ++j, line += padded * 2) {
      prefetch_line(next + (d + j) * 64);
      prefetch_line(next + (d + 32 + j) * 64);
      const __m512h low = _mm512_castsi512_ph(_mm512_maskz_loadu_epi16(lanes[0], line)),
                    high = _mm512_castsi512_ph(_mm512_maskz_loadu_epi16(lanes[1], line + 64));
#pragma GCC unroll 12
      for (int m = 0; m < count; ++m) {
        const __m512h weight =
            _mm512_castsi512_ph(_mm512_set1_epi32(static_cast<int>(pairs[m * kLanes + static_cast<int>(j)])));
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
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      const __m512 rescale = _mm512_set1_ps(panel.rescale[m]);
      for (std::int64_t quarter = 0; quarter < 4 && d + 16 * quarter < padded; ++quarter) {
        float* out = panel.out + m * padded + d + 16 * quarter;
        const __m512i half = _mm512_castph_si512(sums[m][quarter / 2]);
        const __m256i part = quarter % 2 == 0 ? _mm512_castsi512_si256(half) : _mm512_extracti64x4_epi64(half, 1);
        const __m512 added = _mm512_mul_ps(_mm512_cvtph_ps(part), unscale);
        _mm512_storeu_ps(out, _mm512_fmadd_ps(_mm512_loadu_ps(out), rescale, added));
      }
    }
  }
}
#endif

using ValueKernel = void (*)(const Panel& panel, const std::byte* values, std::uint32_t begin, std::uint32_t end,
                             const std::byte* next);

template <DType type, bool f16_values>
struct AttentionKernels {
  PanelKernel scores[kPanelTokens + 1] = {};
  ValueKernel values[kPanelTokens + 1][2] = {};

  template <int count>
  constexpr void fill() {
    scores[count] = &F32Sums<type>::template run<count, 1>;
#ifdef __AVX512FP16__
    if constexpr (f16_values) {
      values[count][0] = &add_values_fp16<count, false>;
      values[count][1] = &add_values_fp16<count, true>;
    }
#endif
    if constexpr (!f16_values) {
      values[count][0] = &add_values<type, count, false>;
      values[count][1] = &add_values<type, count, true>;
    }
    if constexpr (count > 1) fill<count - 1>();
  }
  constexpr AttentionKernels() { fill<kPanelTokens>(); }
};

/// Stores 16 weights as the values' inner loop wants them.
template <bool f16_values>
inline void store_weights(float* at, __m512 weights) {
#ifdef __AVX512FP16__
  if constexpr (f16_values) {
    const __m512 scaled = _mm512_mul_ps(weights, _mm512_set1_ps(1.0f / (1 << -kWeightExponent)));
    const __m512i half = _mm512_cvtepu16_epi32(_mm512_cvtps_ph(scaled, kNearest));
    _mm512_storeu_si512(at, _mm512_or_si512(half, _mm512_slli_epi32(half, 16)));
    return;
  }
#endif
  _mm512_storeu_ps(at, weights);
}

/// Scaled scores in, softmax weights out; updates maximum, sums and the factors for what was added before.
template <bool f16_values>
void softmax_tile(Panel& panel, float scale) {
  const __m512 factor = _mm512_set1_ps(scale), nothing = _mm512_set1_ps(kNegativeInfinity);
  alignas(64) float base[16] = {};
  const __m512 old = _mm512_load_ps(panel.max);
  for (int m = 0; m < panel.count; ++m) {
    float* at = panel.weights + m * kLanes;
    const auto low_lanes = static_cast<__mmask16>(panel.seen[m]),
               high_lanes = static_cast<__mmask16>(panel.seen[m] >> 16);
    const __m512 low = _mm512_mask_mul_ps(nothing, low_lanes, _mm512_loadu_ps(at), factor);
    const __m512 high = _mm512_mask_mul_ps(nothing, high_lanes, _mm512_loadu_ps(at + 16), factor);
    _mm512_storeu_ps(at, low);
    _mm512_storeu_ps(at + 16, high);
    // max returns its second operand if one is NaN: the running maximum never becomes NaN.
    const __m512 largest = _mm512_max_ps(low, _mm512_max_ps(high, _mm512_set1_ps(panel.max[m])));
    panel.max[m] = _mm512_reduce_max_ps(largest);
    // All scores -inf so far: nothing has weight yet (-inf minus -inf would be NaN).
    base[m] = panel.max[m] == kNegativeInfinity ? 0.0f : panel.max[m];
  }
  _mm512_store_ps(panel.rescale, exp_ps(_mm512_sub_ps(old, _mm512_load_ps(base))));
  for (int m = 0; m < panel.count; ++m) {
    float* at = panel.weights + m * kLanes;
    const __m512 shift = _mm512_set1_ps(base[m]);
    const __m512 low = exp_ps(_mm512_sub_ps(_mm512_loadu_ps(at), shift));
    const __m512 high = exp_ps(_mm512_sub_ps(_mm512_loadu_ps(at + 16), shift));
    store_weights<f16_values>(at, low);
    store_weights<f16_values>(at + 16, high);
    const __m512 before = _mm512_mul_ps(_mm512_load_ps(panel.sums[m]), _mm512_set1_ps(panel.rescale[m]));
    _mm512_store_ps(panel.sums[m], _mm512_add_ps(before, _mm512_add_ps(low, high)));
  }
}

/// Which lanes of the tile at `origin` each query sees; returns the lanes that any sees, and whether all see those.
struct TileLanes {
  std::uint32_t begin, end;
  bool same;
};

inline TileLanes see_tile(Panel& panel, std::uint32_t origin) {
  TileLanes all{kTileTokens, 0, true};
  for (int m = 0; m < panel.count; ++m) {
    const LaneRange lanes = lanes_of(panel.ranges[m], origin);
    const std::uint64_t bits = (std::uint64_t{1} << lanes.end) - (std::uint64_t{1} << lanes.begin);
    panel.seen[m] = static_cast<std::uint32_t>(bits);
    all.same = all.same && panel.seen[m] == panel.seen[0];
    if (panel.seen[m] == 0) continue;
    all.begin = lanes.begin < all.begin ? lanes.begin : all.begin;
    all.end = lanes.end > all.end ? lanes.end : all.end;
  }
  return all;
}

/// Queries [first, first + count) of a unit, counted row by row and in a row head by head.
inline void open_panel(const AttentionArgs& args, const AttentionUnit& unit, std::int64_t first, Panel& panel) {
  const std::uint32_t group = args.n_heads / args.kv.n_kv_heads;
  const float* rows[kPanelTokens];
  for (int m = 0; m < panel.count; ++m) {
    const std::int64_t row = (first + m) / group;
    const auto head = static_cast<std::uint32_t>((first + m) % group);
    rows[m] = args.q.row(unit.sequence->first_row + unit.first_row + row) + (unit.kv_head * group + head) * panel.width;
    panel.ranges[m] = visible(args, unit.position(row));
    panel.max[m] = kNegativeInfinity;
    _mm512_store_ps(panel.sums[m], _mm512_setzero_ps());
  }
  for (int m = panel.count; m < 16; ++m) panel.max[m] = 0;
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
    state.sum = sum_lanes(_mm512_load_ps(panel.sums[m]));
    for (std::uint32_t i = 0; i < panel.width; i += 16) {
      const __mmask16 lanes = first_lanes(panel.width - i);
      _mm512_mask_storeu_ps(state.out() + i, lanes,
                            _mm512_loadu_ps(panel.out + static_cast<std::uint32_t>(m) * panel.padded + i));
    }
  }
}

struct TileRange {
  std::uint32_t first, last;  ///< both included
};

/// The tiles of a segment that queries with these positions see.
inline TileRange tiles_of_segment(std::uint32_t segment, std::uint32_t first_key, std::uint32_t last_key) {
  TileRange tiles{segment * kSegmentTiles, (segment + 1) * kSegmentTiles - 1};
  if (first_key / kTileTokens > tiles.first) tiles.first = first_key / kTileTokens;
  if (last_key / kTileTokens < tiles.last) tiles.last = last_key / kTileTokens;
  return tiles;
}

template <DType type>
void widen_keys(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, float* keys) {
  const TileRange tiles =
      tiles_of_segment(segment, visible(args, unit.position(0)).first, unit.position(unit.n_rows - 1));
  const std::int64_t values = std::int64_t{kTileTokens} * args.kv.head_dim;
  for (std::uint32_t tile = tiles.first; tile <= tiles.last; ++tile) {
    const std::byte* from = unit.sequence->kv.k_tile(args.kv, args.layer, unit.kv_head, tile);
    float* to = keys + tile % kSegmentTiles * values;
    for (std::int64_t i = 0; i < values; i += 16)
      _mm512_storeu_ps(to + i, load16<type>(from + i * static_cast<std::int64_t>(dtype_bytes(type))));
  }
}

template <DType type, bool f16_values>
void reduce_panel(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, Panel& panel) {
  static constexpr AttentionKernels<type, f16_values> kKernels;
  static constexpr KernelTable<F32Sums<DType::f32>> kWideScores;
  const TileRange tiles = tiles_of_segment(segment, panel.ranges[0].first, panel.ranges[panel.count - 1].last);
  const auto keys_of = [&](std::uint32_t t) { return unit.sequence->kv.k_tile(args.kv, args.layer, unit.kv_head, t); };
  for (std::uint32_t tile = tiles.first; tile <= tiles.last; ++tile) {
    const std::byte* keys = keys_of(tile);
    const std::byte* values = keys + args.kv.tile_bytes();
    const std::byte* next = tile < tiles.last ? keys_of(tile + 1) : values;
    const TileLanes lanes = see_tile(panel, tile * kTileTokens);
    TileGroup group;
    group.tiles[0] = keys;
    group.next[0] = values;
    group.ahead = panel.width;
    PanelKernel scores = kKernels.scores[panel.count];
    if (panel.keys != nullptr) {
      group.tiles[0] =
          reinterpret_cast<const std::byte*>(panel.keys + tile % kSegmentTiles * kTileTokens * panel.width);
      next = group.tiles[0] + std::size_t{kTileTokens} * panel.width * sizeof(float);
      scores = kWideScores.at[panel.count][1];
    }
    scores(reinterpret_cast<const std::uint32_t*>(panel.queries), panel.width, group, panel.weights, kLanes);
    softmax_tile<f16_values>(panel, args.scale);
    kKernels.values[panel.count][lanes.same ? 0 : 1](panel, values, lanes.begin, lanes.end, next);
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

  static std::uint64_t scratch_floats(std::uint32_t, std::uint32_t width, std::uint32_t padded) {
    return Panel::floats(width, padded) + std::uint64_t{kSegmentTokens} * width;
  }

  static void reduce(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, float* scratch,
                     float* states) {
    const std::int64_t queries = unit.n_rows * (args.n_heads / args.kv.n_kv_heads);
    Panel panel;
    panel.width = args.kv.head_dim;
    panel.padded = args.kv.head_dim_padded;
    panel.queries = scratch;
    panel.weights = panel.queries + kPanelTokens * panel.width;
    panel.out = panel.weights + kPanelTokens * kTileTokens;
    panel.keys = nullptr;
    if (queries > (kWidenPanels - 1) * kPanelTokens && args.kv.type != DType::f32) {
      panel.keys = panel.out + kPanelTokens * panel.padded;
      with_kv_type(args.kv.type, [&]<DType type>() { widen_keys<type>(args, unit, segment, panel.keys); });
    }
    for (std::int64_t first = 0; first < queries; first += kPanelTokens) {
      panel.count = static_cast<int>(queries - first < kPanelTokens ? queries - first : kPanelTokens);
      open_panel(args, unit, first, panel);
      with_kv_type(args.kv.type, [&]<DType type>() { reduce_panel<type, f16_values>(args, unit, segment, panel); });
      close_panel(panel, states, static_cast<std::uint64_t>(first));
    }
  }

  static void fold(Partial& total, Partial& part, std::uint32_t width) {
    const float largest = part.max > total.max ? part.max : total.max;
    const float base = largest == kNegativeInfinity ? 0.0f : largest;
    const __m512 old_scale = exp_ps(_mm512_set1_ps(total.max - base)),
                 new_scale = exp_ps(_mm512_set1_ps(part.max - base));
    total.max = largest;
    total.sum = total.sum * _mm512_cvtss_f32(old_scale) + part.sum * _mm512_cvtss_f32(new_scale);
    for (std::uint32_t i = 0; i < width; i += 16) {
      const __mmask16 lanes = first_lanes(width - i);
      const __m512 before = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, total.out() + i), old_scale);
      const __m512 added = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, part.out() + i), new_scale);
      _mm512_mask_storeu_ps(total.out() + i, lanes, _mm512_add_ps(before, added));
    }
  }

  static void write(Partial& state, std::uint32_t width, float* out) {
    const __m512 sum = _mm512_set1_ps(state.sum);
    for (std::uint32_t i = 0; i < width; i += 16) {
      const __mmask16 lanes = first_lanes(width - i);
      _mm512_mask_storeu_ps(out + i, lanes, _mm512_div_ps(_mm512_maskz_loadu_ps(lanes, state.out() + i), sum));
    }
  }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
