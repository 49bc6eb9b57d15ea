// Attention over the KV cache: up to 32 queries of one KV head as lanes (rows of one query head; where a unit has fewer
// than 16 rows, those times the heads of the group), one segment of keys at a time: all scores, their softmax, then all
// values. Queries come and results go as panels, unless the batch is row-major.
//
// Scores are K Q^T: K tiles, [32 positions][d], are the first operand as the cache has them, the queries a pair of
// panels. The sums, [position][query] in f32, stay in the L2; maximum, weights and their sum run down the lanes, and
// two neighbouring positions of weights are a line of the next panel. Values are V^T P^T with V tiles [d][32
// positions]. Everything is summed in one order, over d in steps of 32 and over positions in tiles.
//
// A position that no query sees may hold anything: its score is left out by select, its value replaced by zero. One
// that some see has weight zero for the others, which is enough for finite values; others are added separately.
#include "amx/amx.h"
#include "amx/panels.h"
#include "common/attention_segments.h"
#include "tiled/math.h"
#include "tiled/partials.h"

namespace qinfer::kernels::amx {
namespace {

inline constexpr std::int64_t kLanes = 32;  ///< queries at a time
inline constexpr float kLog2E = 1.44269504088896341f;

/// Up to 32 queries on their way through one segment of keys: which they are and what they see (set by open_rows() or
/// open_lanes()), buffers in the worker's scratch (set once, by the constructor), and what softmax() found.
struct Queries {
  // Which queries: lane m is row rows[m] of the unit and head heads[m] of the group.
  int count = 0, panels = 0;
  std::int64_t rows[kLanes];
  std::uint32_t heads[kLanes];
  /// The queries as panels of bf16 pairs, [padded / 2][16]: in place where they are one panel, otherwise in own_panel.
  const std::uint32_t* panel[2] = {nullptr, nullptr};

  // What they see.
  Range ranges[kLanes];                         ///< the keys of each
  Range all{0, 0};                              ///< the keys that all see; empty if first > last
  Range any{0, 0};                              ///< from the first to the last key that any sees
  std::uint32_t first_tile = 0, last_tile = 0;  ///< tiles of the segment that any sees; none if first > last

  // Buffers, and the widths that their sizes depend on.
  std::uint32_t width = 0, padded = 0;  ///< of a head, and of a head in the cache
  std::uint32_t* own_panel[2] = {nullptr, nullptr};
  float* scores = nullptr;                         ///< [512 positions][32 lanes]
  std::uint32_t* weights[2] = {nullptr, nullptr};  ///< of each panel: bf16 pairs, [512 / 2][16]
  std::byte* tile = nullptr;                       ///< bf16 [32][padded]: a converted K tile, or part of a V tile

  // What softmax() found, of each panel's lanes.
  __m512 max[2], sum[2];

  static std::uint64_t floats(std::uint64_t padded) {
    return padded * 16 + std::uint64_t{kSegmentTokens} * kLanes + std::uint64_t{kSegmentTokens} * 16 + padded * 16 + 16;
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
    scores = take(std::uint64_t{kSegmentTokens} * kLanes);
    for (auto& w : weights) w = reinterpret_cast<std::uint32_t*>(take(std::uint64_t{kSegmentTokens} * 8));
    tile = reinterpret_cast<std::byte*>(at);
  }

  float* scores_of(std::uint32_t t) const { return scores + std::int64_t{t % kSegmentTiles} * kTileTokens * kLanes; }
  std::uint32_t* weights_of(int p, std::uint32_t t) const {
    return weights[p] + std::int64_t{t % kSegmentTiles} * (kTileTokens / 2) * 16;
  }
  /// Whether all queries see all of the tile.
  bool whole(std::uint32_t t) const { return all.first <= t * kTileTokens && all.last >= t * kTileTokens + 31; }
};

/// The panel that holds a head of batch row `row`.
const std::uint32_t* query_panel(const AttentionArgs& args, std::int64_t row, std::uint32_t head) {
  return args.q.pairs() + (row / kPanelLanes * args.n_heads + head) * panel_dwords(args.kv.head_dim);
}

/// Sixteen rows of one head from batch row `row` on, of which `count` are wanted: where they are if they are one panel,
/// otherwise copied out of two.
const std::uint32_t* rows_as_panel(const AttentionArgs& args, std::int64_t row, std::uint32_t head, std::int64_t count,
                                   std::uint32_t* own) {
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
const std::uint32_t* lanes_as_panel(const AttentionArgs& args, const AttentionUnit& unit, const Queries& queries,
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
void set_ranges(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, Queries& queries) {
  for (int p = 0; p < 2; ++p) queries.panel[p] = queries.own_panel[p];
  for (int m = 0; m < queries.count; ++m) queries.ranges[m] = unit.keys(args, queries.rows[m]);
  // Ranges ascend with the rows, at both ends.
  const Range &lowest = queries.ranges[0], &highest = queries.ranges[queries.count - 1];
  queries.all = {highest.first, lowest.last};
  queries.any = {lowest.first, highest.last};
  queries.first_tile = larger(segment * kSegmentTiles, lowest.first / kTileTokens);
  queries.last_tile = smaller((segment + 1) * kSegmentTiles - 1, highest.last / kTileTokens);
}

/// Rows [first, first + count) of a unit, all of one head of the group.
void open_rows(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, std::int64_t first,
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
void open_lanes(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, std::int64_t first,
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

/// Values of any type as bf16; n is a multiple of 32.
template <DType type>
void convert(const std::byte* from, std::int64_t n, std::byte* to) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  for (std::int64_t i = 0; i < n; i += 32)
    _mm512_store_si512(to + 2 * i, to_bf16_pairs(avx512::load16<type>(from + i * kBytes),
                                                 avx512::load16<type>(from + (i + 16) * kBytes)));
}

/// The K tile as bf16: in the cache, or converted.
const std::byte* keys_of(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t t,
                         const Queries& queries) {
  const std::byte* keys = unit.k_tile(args, t);
  if (args.kv.type == DType::bf16) return keys;
  const std::int64_t n = std::int64_t{kTileTokens} * queries.padded;
  args.kv.type == DType::f16 ? convert<DType::f16>(keys, n, queries.tile) : convert<DType::f32>(keys, n, queries.tile);
  return queries.tile;
}

template <int panels>
void score_tile(const Queries& queries, std::uint32_t t, const std::byte* keys) {
  const std::int64_t stride = std::int64_t{queries.padded} * 2;
  zero_sums<2, panels>();
  for (std::int64_t c = 0; c < queries.padded; c += kStep)
    multiply_step<2, panels>(keys + 2 * c, keys + kRegisterRows * stride + 2 * c, stride, queries.panel[0] + c / 2 * 16,
                             queries.panel[1] + c / 2 * 16);
  store_sums<2, panels>(queries.scores_of(t), kLanes * 4, 16, kRegisterRows * kLanes);
}

void prefetch_tile(const std::byte* at, std::uint64_t bytes) {
  for (std::uint64_t b = 0; b < bytes; b += 64) _mm_prefetch(reinterpret_cast<const char*>(at + b), _MM_HINT_T0);
}

void score(const AttentionArgs& args, const AttentionUnit& unit, const Queries& queries) {
  const std::uint64_t bytes = args.kv.tile_bytes();
  for (std::uint32_t t = queries.first_tile; t <= queries.last_tile; ++t) {
    if (queries.panels == 1)  // few queries: keys come from memory
      prefetch_tile(t < queries.last_tile ? unit.k_tile(args, t + 1) : unit.k_tile(args, queries.first_tile) + bytes,
                    bytes);
    const std::byte* keys = keys_of(args, unit, t, queries);
    queries.panels == 2 ? score_tile<2>(queries, t, keys) : score_tile<1>(queries, t, keys);
  }
}

/// Scores become softcap * tanh(score * scale / softcap). Kept out of the way of models that have no caps.
[[gnu::noinline]] void apply_softcap(const Queries& queries, float scale, float softcap) {
  const __m512 factor = _mm512_set1_ps(scale / softcap), cap = _mm512_set1_ps(softcap);
  for (std::uint32_t t = queries.first_tile; t <= queries.last_tile; ++t) {
    float* scores = queries.scores_of(t);
    for (std::int64_t i = 0; i < std::int64_t{kTileTokens} * kLanes; i += 16)
      _mm512_store_ps(scores + i, soft_capped<avx512::VectorOps>(_mm512_load_ps(scores + i), factor, cap));
  }
}

/// Which lanes of a panel see a position.
struct Sight {
  __m512i first, last;

  Sight(const Queries& queries, int panel) {
    alignas(64) std::int32_t low[16], high[16];
    for (int m = 0; m < 16; ++m) {
      const bool there = 16 * panel + m < queries.count;
      low[m] = there ? static_cast<std::int32_t>(queries.ranges[16 * panel + m].first) : INT32_MAX;
      high[m] = there ? static_cast<std::int32_t>(queries.ranges[16 * panel + m].last) : -1;
    }
    first = _mm512_load_si512(low);
    last = _mm512_load_si512(high);
  }
  __mmask16 of(std::uint32_t position) const {
    const __m512i at = _mm512_set1_epi32(static_cast<int>(position));
    return _mm512_cmple_epi32_mask(first, at) & _mm512_cmpge_epi32_mask(last, at);
  }
};

/// Scores in; weights out, with the maximum (of the scores times log2(e)) and the sum of each lane.
void softmax(Queries& queries, int panel, float scale) {
  const __m512 nothing = _mm512_set1_ps(kNegativeInfinity), factor = _mm512_set1_ps(scale * kLog2E);
  const Sight sight(queries, panel);
  __m512 largest = nothing;
  for (std::uint32_t t = queries.first_tile; t <= queries.last_tile; ++t) {
    const float* scores = queries.scores_of(t) + 16 * panel;
    const bool whole = queries.whole(t);
    // max returns its second operand if one is NaN: the maximum never becomes NaN.
    for (std::uint32_t i = 0; i < kTileTokens; ++i)
      largest = _mm512_mask_max_ps(largest, whole ? __mmask16{0xffff} : sight.of(t * kTileTokens + i),
                                   _mm512_load_ps(scores + i * kLanes), largest);
  }
  queries.max[panel] = _mm512_mul_ps(largest, factor);
  // All scores -inf: nothing has weight (-inf minus -inf would be NaN).
  const __mmask16 empty = _mm512_cmp_ps_mask(queries.max[panel], nothing, _CMP_EQ_OQ);
  const __m512 base = _mm512_mask_mov_ps(queries.max[panel], empty, _mm512_setzero_ps());
  __m512 sum = _mm512_setzero_ps();
  for (std::uint32_t t = queries.first_tile; t <= queries.last_tile; ++t) {
    const float* scores = queries.scores_of(t) + 16 * panel;
    std::uint32_t* out = queries.weights_of(panel, t);
    const bool whole = queries.whole(t);
    const auto weight = [&](std::uint32_t i) {
      const __m512 x = _mm512_fmsub_ps(_mm512_load_ps(scores + i * kLanes), factor, base);
      const __mmask16 seen = whole ? __mmask16{0xffff} : sight.of(t * kTileTokens + i);
      return avx512::exp2_ps(_mm512_mask_mov_ps(nothing, seen, x));
    };
    for (std::uint32_t i = 0; i < kTileTokens; i += 2) {
      const __m512 even = weight(i), odd = weight(i + 1);
      sum = _mm512_add_ps(sum, _mm512_add_ps(even, odd));
      _mm512_store_si512(out + i / 2 * 16, interleave(even, odd));
    }
  }
  queries.sum[panel] = sum;
}

/// Lines [d, d + 32) of a V tile as bf16, 64 bytes each, into queries.tile: positions that no query sees, and values
/// that are not finite, are zero. True if a position that a query sees had such a value.
template <DType type>
bool copy_values(const std::byte* values, std::uint32_t t, std::uint32_t d, const Queries& queries) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  const LaneRange lanes = lanes_of(queries.any, t * kTileTokens);
  const auto seen = static_cast<__mmask32>((std::uint64_t{1} << lanes.end) - (std::uint64_t{1} << lanes.begin));
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  bool found = false;
  for (std::uint32_t i = 0; i < 32; ++i) {
    const std::byte* line = values + std::int64_t{d + i} * kTileTokens * kBytes;
    __m512i pairs;
    if constexpr (type == DType::bf16) {
      pairs = _mm512_loadu_si512(line);
    } else {
      pairs = to_bf16_pairs(avx512::load16<type>(line), avx512::load16<type>(line + 16 * kBytes));
    }
    const __mmask32 finite = _mm512_cmpneq_epi16_mask(_mm512_and_si512(pairs, exponent), exponent);
    // Lines after the head's width hold anything.
    found = found || (d + i < queries.width && (seen & static_cast<__mmask32>(~finite)) != 0);
    _mm512_store_si512(queries.tile + std::int64_t{i} * 64, _mm512_maskz_mov_epi16(seen & finite, pairs));
  }
  return found;
}

/// Adds what copy_values() left out to the queries that see it. `sums`: [row tile][panel][16 d][16 queries].
template <DType type>
[[gnu::noinline]] void add_not_finite(const std::byte* values, std::uint32_t t, std::uint32_t d, const Queries& queries,
                                      float* sums) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  for (std::uint32_t i = 0; i < 32 && d + i < queries.width; ++i)
    for (std::uint32_t lane = 0; lane < kTileTokens; ++lane) {
      const std::byte* at = values + (std::int64_t{d + i} * kTileTokens + lane) * kBytes;
      std::uint32_t bits = 0;
      __builtin_memcpy(&bits, at, kBytes);
      if constexpr (type == DType::f16)
        bits = __builtin_bit_cast(std::uint32_t, f16_to_f32(static_cast<std::uint16_t>(bits)));
      if constexpr (type == DType::bf16) bits <<= 16;
      const float value = bf16_to_f32(f32_to_bf16(__builtin_bit_cast(float, bits)));
      if (value - value == 0) continue;
      const std::uint32_t position = t * kTileTokens + lane;
      for (int m = 0; m < queries.count; ++m) {
        if (position < queries.ranges[m].first || position > queries.ranges[m].last) continue;
        const std::uint32_t pair = queries.weights_of(m / 16, t)[lane / 2 * 16 + static_cast<std::uint32_t>(m % 16)];
        const float weight = bf16_to_f32(static_cast<std::uint16_t>(lane % 2 == 0 ? pair : pair >> 16));
        sums[(i / 16 * 2 + static_cast<std::uint32_t>(m / 16)) * kTileFloats + i % 16 * 16 +
             static_cast<std::uint32_t>(m % 16)] += weight * value;
      }
    }
}

/// Lines [d, d + 32) of the outputs of all queries, into `sums`.
template <DType type, int panels>
void weigh_values(const AttentionArgs& args, const AttentionUnit& unit, const Queries& queries, std::uint32_t d,
                  float* sums) {
  const auto values_of = [&](std::uint32_t t) { return unit.k_tile(args, t) + args.kv.tile_bytes(); };
  bool leftover = false;
  zero_sums<2, panels>();
  for (std::uint32_t t = queries.first_tile; t <= queries.last_tile; ++t) {
    const std::byte* values = values_of(t) + std::int64_t{d} * kTileTokens * 2;
    const bool whole = queries.whole(t);
    if (type != DType::bf16 && whole) {
      constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
      convert<type>(values_of(t) + std::int64_t{d} * kTileTokens * kBytes, std::int64_t{32} * kTileTokens,
                    queries.tile);
      values = queries.tile;
    } else if (!whole) {
      leftover = copy_values<type>(values_of(t), t, d, queries) || leftover;
      values = queries.tile;
    } else if (panels == 1 && t < queries.last_tile) {  // few queries: values come from memory
      prefetch_tile(values_of(t + 1) + std::int64_t{d} * kTileTokens * 2, 2048);
    }
    multiply_step<2, panels>(values, values + kRegisterRows * 64, 64, queries.weights_of(0, t),
                             queries.weights_of(1, t));
  }
  store_sums<2, panels>(sums);
  if (!leftover) return;
  for (std::uint32_t t = queries.first_tile; t <= queries.last_tile; ++t)
    if (!queries.whole(t)) add_not_finite<type>(values_of(t), t, d, queries, sums);
}

/// Which of a unit's states is lane m's.
std::uint64_t state_of(const AttentionArgs& args, const Queries& queries, int m) {
  return static_cast<std::uint64_t>(queries.rows[m]) * (args.n_heads / args.kv.n_kv_heads) + queries.heads[m];
}

/// Outputs of all queries as the states of a segment.
template <DType type, int panels>
void weigh(const AttentionArgs& args, const AttentionUnit& unit, const Queries& queries, float* states) {
  alignas(64) float sums[4 * kTileFloats] = {};
  for (std::uint32_t d = 0; d < queries.padded; d += 32) {
    weigh_values<type, panels>(args, unit, queries, d, sums);
    for (int row_tile = 0; row_tile < 2; ++row_tile) {
      const std::uint32_t begin = d + static_cast<std::uint32_t>(16 * row_tile);
      if (begin >= queries.width) break;
      const __mmask16 lanes = first_lanes(std::int64_t{queries.width} - begin);
      for (int p = 0; p < panels; ++p) {
        __m512 lines[16], rows[16];
        for (int r = 0; r < 16; ++r) lines[r] = _mm512_load_ps(sums + (row_tile * 2 + p) * kTileFloats + 16 * r);
        transpose(lines, rows);
        for (int m = 16 * p; m < 16 * p + 16 && m < queries.count; ++m)
          _mm512_mask_storeu_ps(partial_at(states, state_of(args, queries, m), queries.width).out() + begin, lanes,
                                rows[m % 16]);
      }
    }
  }
  alignas(64) float max[kLanes], sum[kLanes];
  for (int p = 0; p < panels; ++p) {
    _mm512_store_ps(max + 16 * p, queries.max[p]);
    _mm512_store_ps(sum + 16 * p, queries.sum[p]);
  }
  for (int m = 0; m < queries.count; ++m) {
    Partial& state = partial_at(states, state_of(args, queries, m), queries.width);
    state.max = max[m];
    state.sum = sum[m];
  }
}

/// One segment for open queries.
void reduce_queries(const AttentionArgs& args, const AttentionUnit& unit, Queries& queries, float* states) {
  score(args, unit, queries);
  float scale = args.scale;
  if (args.softcap != 0) {
    apply_softcap(queries, scale, args.softcap);
    scale = 1;
  }
  for (int p = 0; p < queries.panels; ++p) softmax(queries, p, scale);
  avx512::with_dtype(args.kv.type, [&]<DType type>() {
    queries.panels == 2 ? weigh<type, 2>(args, unit, queries, states) : weigh<type, 1>(args, unit, queries, states);
  });
}

/// States of one head, of rows that are in one panel from lane `lane` on, as operands: lines of this head's features,
/// and after the last head zeros up to whole steps. `end`: lanes from the last row up to this one become zeros.
void write_lanes(const AttentionArgs& args, std::uint32_t head, std::int64_t panel, std::int64_t lane,
                 std::int64_t count, std::int64_t end, float* states, std::uint64_t stride) {
  const std::int64_t width = args.kv.head_dim, all = args.n_heads * width, first = head * width;
  auto* out = args.out.pairs() + panel * panel_dwords(all);
  const auto lanes = static_cast<__mmask16>(first_lanes(end - lane) << lane);
  for (std::int64_t k = 0; k < width; k += kStep) {
    __m512i block[16];
    for (std::int64_t m = 0; m < 16; ++m) {
      block[m] = _mm512_setzero_si512();
      if (m < lane || m >= lane + count) continue;
      Partial& state = partial_at(states + static_cast<std::uint64_t>(m - lane) * stride, 0, args.kv.head_dim);
      const __m512 sum = _mm512_set1_ps(state.sum);
      const avx512::Lanes32 values = load_columns(state.out() + k, width - k);
      block[m] = to_bf16_pairs(_mm512_div_ps(values.low, sum), _mm512_div_ps(values.high, sum));
    }
    avx512::transpose16(block);
    for (std::int64_t i = 0; i < 16 && k + 2 * i < width; ++i)
      _mm512_mask_storeu_epi32(out + (first + k + 2 * i) / 2 * kPanelLanes, lanes, block[i]);
  }
  if (head + 1 < args.n_heads) return;
  for (std::int64_t k = all; k < padded_k(all); k += 2)
    _mm512_mask_storeu_epi32(out + k / 2 * kPanelLanes, lanes, _mm512_setzero_si512());
}

struct Policy {
  /// Four times 32 queries, in whole panels of each head unless the group is large: a segment's keys and values come
  /// from memory once.
  static std::int64_t rows_per_unit(std::uint32_t group) {
    if (group > 32) return group >= 128 ? 1 : 128 / group;
    return larger<std::int64_t>(128 / group / kPanelLanes * kPanelLanes, kPanelLanes);
  }

  static std::uint64_t scratch_floats(std::uint32_t, std::uint32_t, std::uint32_t padded) {
    return Queries::floats(padded);
  }

  static void reduce(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, float* scratch,
                     float* states) {
    const std::uint32_t group = args.n_heads / args.kv.n_kv_heads;
    Queries queries(args, scratch);
    const auto part = [](std::int64_t rest) { return static_cast<int>(smaller(rest, kLanes)); };
    if (unit.n_rows >= kPanelLanes) {
      for (std::uint32_t head = 0; head < group; ++head)
        for (std::int64_t row = 0; row < unit.n_rows; row += kLanes) {
          open_rows(args, unit, segment, row, part(unit.n_rows - row), head, queries);
          reduce_queries(args, unit, queries, states);
        }
      return;
    }
    const std::int64_t all = unit.n_rows * group;
    for (std::int64_t first = 0; first < all; first += kLanes) {
      open_lanes(args, unit, segment, first, part(all - first), queries);
      reduce_queries(args, unit, queries, states);
    }
  }

  static void reduce_heads(const AttentionArgs& args, const HeadRun& run, const HeadRun*, float* scratch,
                           float* states) {
    AttentionUnit unit = run.first;
    const std::uint64_t floats = (args.n_heads / args.kv.n_kv_heads) * partial_floats(args.kv.head_dim);
    for (std::uint32_t i = 0; i < run.n_kv_heads; ++i, ++unit.kv_head, states += floats)
      reduce(args, unit, run.segment, scratch, states);
  }

  static void fold(Partial& total, Partial& part, std::uint32_t width) { avx512::fold_partials(total, part, width); }

  static void write(const AttentionArgs& args, std::uint32_t head, std::int64_t row, std::int64_t n, float* states,
                    std::uint64_t stride) {
    if (args.out.is_row_major())
      return write_rows(args, head, row, n, states, stride,
                        [&](Partial& state, float* out) { avx512::write_partial(state, args.kv.head_dim, out); });
    for (std::int64_t r = 0; r < n;) {
      const std::int64_t lane = (row + r) % kPanelLanes, count = smaller(kPanelLanes - lane, n - r);
      const std::int64_t end = row + r + count == args.n ? kPanelLanes : lane + count;
      write_lanes(args, head, (row + r) / kPanelLanes, lane, count, end,
                  states + static_cast<std::uint64_t>(r) * stride, stride);
      r += count;
    }
  }
};

}  // namespace

std::int32_t attention_phases(const AttentionArgs& args) { return SegmentedAttention<Policy>::phases(args); }

std::int64_t attention_units(const AttentionArgs& args, std::int32_t phase) {
  return SegmentedAttention<Policy>::units(args, phase);
}

void attention(const AttentionArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 1) return SegmentedAttention<Policy>::run(args, phase, slice);
  const TileRegion region;
  SegmentedAttention<Policy>::run(args, phase, slice);
}

WorkspaceSize attention_workspace(const Shape& shape) { return SegmentedAttention<Policy>::workspace(shape); }

std::uint64_t attention_split_bytes(const AttentionArgs& args) { return SegmentedAttention<Policy>::split_bytes(args); }

}  // namespace qinfer::kernels::amx
