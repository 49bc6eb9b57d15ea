// Attention, weights: the scores of a tile of positions become the softmax's weights while those of the next tile are
// multiplied, so that scores stay in the L1, and there is no pass over them for their maximum.
//
// A weight is 2^(x - r), x the score times log2(e), for some r that is near the largest x: any such r gives the same
// softmax. It is the largest x of the first tile that a query sees of the segment, rounded to a whole number, and so a
// function of the query alone. Where later scores are so much larger that f32 might not hold what comes of weights and
// values (kMostSum), the weights of that query are made again, with the largest x of all.
//
// Weights are cut to bf16, not rounded, and added up as they are then: so what all of them lose alike is in numerator
// and denominator. Since r is whole, it decides nothing about how they are cut.
#pragma once

#include "amx/attention_queries.h"
#include "tiled/math.h"

namespace qinfer::kernels::amx {
namespace {

inline constexpr float kLog2E = 1.44269504088896341f;
/// A sum of weights beyond which they are made again: with values up to 2^100 no sum of products is infinite then.
inline constexpr float kMostSum = 0x1p24f;

/// Values of any type as bf16; n is a multiple of 32.
template <DType type>
void convert(const std::byte* from, std::int64_t n, std::byte* to) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  for (std::int64_t i = 0; i < n; i += 32)
    _mm512_store_si512(to + 2 * i, to_bf16_pairs(avx512::load16<type>(from + i * kBytes),
                                                 avx512::load16<type>(from + (i + 16) * kBytes)));
}

/// The K tile as bf16: in the cache, or converted.
inline const std::byte* keys_of(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t t,
                                const Queries& queries) {
  const std::byte* keys = unit.k_tile(args, t);
  if (args.kv.type == DType::bf16) return keys;
  const std::int64_t n = std::int64_t{kTileTokens} * queries.padded;
  args.kv.type == DType::f16 ? convert<DType::f16>(keys, n, queries.tile) : convert<DType::f32>(keys, n, queries.tile);
  return queries.tile;
}

inline void prefetch_tile(const std::byte* at, std::uint64_t bytes) {
  for (std::uint64_t b = 0; b < bytes; b += 64) _mm_prefetch(reinterpret_cast<const char*>(at + b), _MM_HINT_T0);
}

/// Keys and values of some tiles that are fetched into the L2, a few lines at a time.
struct TileFetch {
  const AttentionArgs* args = nullptr;
  AttentionUnit unit = {};
  Range<std::uint32_t> tiles = {0, 0};  ///< that are left
  std::uint64_t line = 0;               ///< of the first of them
  std::uint64_t each_step = 0;          ///< lines

  std::uint64_t tile_lines() const { return 2 * args->kv.tile_bytes() / 64; }
  std::uint64_t lines() const { return args == nullptr ? 0 : count_of(tiles) * tile_lines() - line; }
  [[gnu::always_inline]] void next() {
    if (each_step == 0 || tiles.begin >= tiles.end) return;
    const std::byte* at = unit.k_tile(*args, tiles.begin) + 64 * line;
    const std::uint64_t rest = tile_lines() - line, n = each_step < rest ? each_step : rest;
    for (std::uint64_t i = 0; i < n; ++i) _mm_prefetch(reinterpret_cast<const char*>(at + 64 * i), _MM_HINT_T1);
    line += n;
    if (line == tile_lines()) ++tiles.begin, line = 0;
  }
};

/// Scores become softcap * tanh(score * scale / softcap). Kept out of the way of models that have no caps.
[[gnu::noinline]] inline void apply_softcap(float* scores, float scale, float softcap) {
  const __m512 factor = _mm512_set1_ps(scale / softcap), cap = _mm512_set1_ps(softcap);
  for (std::int64_t i = 0; i < std::int64_t{kTileTokens} * kLanes; i += 16)
    _mm512_store_ps(scores + i, soft_capped<avx512::VectorOps>(_mm512_load_ps(scores + i), factor, cap));
}

/// Scores of a tile become score * scale, and what their distance adds.
[[gnu::noinline]] inline void add_distances(const AttentionArgs& args, const AttentionUnit& unit,
                                            const Queries& queries, std::uint32_t t) {
  const std::uint32_t group = args.n_heads / args.kv.n_kv_heads;
  const __m512 factor = _mm512_set1_ps(args.scale);
  for (int p = 0; p < queries.panels; ++p) {
    alignas(64) std::int32_t at[16] = {};
    for (int m = 16 * p; m < queries.count && m < 16 * p + 16; ++m)
      at[m % 16] = static_cast<std::int32_t>(
          args.bias.of_tile(unit.kv_head * group + queries.heads[m], unit.position(queries.rows[m]), t * kTileTokens));
    const __m512i first = _mm512_load_si512(at);
    float* scores = queries.scores_of(t) + 16 * p;
    for (std::uint32_t i = 0; i < kTileTokens; ++i, scores += kLanes) {
      const __m512 bias = _mm512_i32gather_ps(first, args.bias.values + i, 4);
      _mm512_store_ps(scores, _mm512_fmadd_ps(_mm512_load_ps(scores), factor, bias));
    }
  }
}

/// Which lanes of a panel see a position, and which begin to see with a tile of a segment.
struct Sight {
  __m512i begin, end, first_tile;

  Sight() = default;
  Sight(const Queries& queries, int panel) {
    alignas(64) std::int32_t low[16], high[16], first[16];
    for (int m = 0; m < 16; ++m) {
      const Range<std::uint32_t>& range = queries.ranges[(16 * panel + m) % kLanes];
      const std::uint32_t tile = range.begin / kTileTokens;
      const bool there = 16 * panel + m < queries.count;
      low[m] = there ? static_cast<std::int32_t>(range.begin) : INT32_MAX;
      high[m] = there ? static_cast<std::int32_t>(range.end) : 0;
      first[m] = there ? static_cast<std::int32_t>(larger(tile, queries.tiles.begin)) : INT32_MAX;
    }
    begin = _mm512_load_si512(low);
    end = _mm512_load_si512(high);
    first_tile = _mm512_load_si512(first);
  }
  __mmask16 of(std::uint32_t position) const {
    const __m512i at = _mm512_set1_epi32(static_cast<int>(position));
    return _mm512_cmple_epi32_mask(begin, at) & _mm512_cmpgt_epi32_mask(end, at);
  }
  __mmask16 begins(std::uint32_t tile) const {
    return _mm512_cmpeq_epi32_mask(first_tile, _mm512_set1_epi32(static_cast<int>(tile)));
  }
};

/// 2^x within 1e-4 of itself: 0 and infinity where it is too small and too large. A minimax polynomial of degree 3 for
/// the part after the point.
inline __m512 exp2_cubic(__m512 x) {
  const __m512 rest = _mm512_reduce_ps(x, 1);  // x - floor(x)
  __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(0.07926450f), rest, _mm512_set1_ps(0.22432402f));
  p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(0.69642212f));
  p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(0.99990162f));
  return _mm512_scalef_ps(p, x);
}

/// Two weights of 16 queries, cut to bf16, as a line of a panel.
inline __m512i cut_pairs(__m512 even, __m512 odd) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(_mm512_castps_si512(even), 16),
                                 _mm512_castps_si512(odd));
}

/// The weights of up to 32 queries in a segment, tile by tile.
template <int panels>
class ScoreWeights {
 public:
  ScoreWeights(const AttentionArgs& args, const AttentionUnit& unit, Queries& queries, TileFetch& fetch)
      : args_(args),
        unit_(unit),
        queries_(queries),
        fetch_(fetch),
        factor_(args.softcap != 0 || args.bias.values != nullptr ? kLog2E : args.scale * kLog2E) {
    for (int p = 0; p < panels; ++p) sight_[p] = Sight(queries, p);
  }

  void run() {
    const Range<std::uint32_t> tiles = queries_.tiles;
    if (tiles.begin < tiles.end) score_tile(tiles.begin);
    for (std::uint32_t t = tiles.begin; t < tiles.end; ++t) {
      finish_scores(t);
      for (int p = 0; p < panels; ++p) begin_lanes(p, t);
      const bool more = t + 1 < tiles.end;
      if (queries_.whole(t)) {
        more ? weigh_and_score<true>(t) : weigh_tile<true>(t);
      } else {
        more ? weigh_and_score<false>(t) : weigh_tile<false>(t);
      }
    }
    if (!all_fit()) weigh_again();
    for (int p = 0; p < panels; ++p) queries_.reference[p] = found_[p], queries_.sum[p] = sum_[p];
  }

 private:
  static constexpr int kGroups = 8;  ///< of four positions, in a tile

  const std::byte* keys_at(std::uint32_t t) {
    // With few queries keys come from memory: the next tile's are fetched, at the end the first values.
    if (panels == 1) {
      const std::uint64_t bytes = args_.kv.tile_bytes();
      prefetch_tile(
          t + 1 < queries_.tiles.end ? unit_.k_tile(args_, t + 1) : unit_.k_tile(args_, queries_.tiles.begin) + bytes,
          bytes);
    }
    return keys_of(args_, unit_, t, queries_);
  }

  /// The scores of a tile; beside(i) is called after step i of as many as a head has.
  template <typename Beside>
  [[gnu::always_inline]] void multiply_keys(std::uint32_t t, Beside beside) {
    const std::byte* keys = keys_at(t);
    const std::int64_t stride = std::int64_t{queries_.padded} * 2;
    zero_sums<2, panels>();
    for (std::int64_t c = 0; c < queries_.padded; c += kStep) {
      multiply_step<2, panels>(keys + 2 * c, keys + kRegisterRows * stride + 2 * c, stride,
                               queries_.panel[0] + c / 2 * 16, queries_.panel[1] + c / 2 * 16);
      beside(static_cast<int>(c / kStep));
    }
    store_sums<2, panels>(queries_.scores_of(t), kLanes * 4, 16, kRegisterRows * kLanes);
  }
  void score_tile(std::uint32_t t) {
    multiply_keys(t, [](int) {});
  }

  void finish_scores(std::uint32_t t) {
    if (args_.softcap != 0) apply_softcap(queries_.scores_of(t), args_.scale, args_.softcap);
    if (args_.bias.values != nullptr) add_distances(args_, unit_, queries_, t);
  }

  /// The largest score of a tile that each of the lanes sees; `largest` where it is larger. NaN is not looked at: max
  /// returns its second operand if one is NaN.
  __m512 largest_of(int p, std::uint32_t t, __mmask16 lanes, __m512 largest) const {
    const float* scores = queries_.scores_of(t) + 16 * p;
    for (std::uint32_t i = 0; i < kTileTokens; ++i)
      largest = _mm512_mask_max_ps(largest, lanes & sight_[p].of(t * kTileTokens + i),
                                   _mm512_load_ps(scores + i * kLanes), largest);
    return largest;
  }
  __m512 whole_number(__m512 largest) const {
    return _mm512_roundscale_ps(_mm512_mul_ps(largest, _mm512_set1_ps(factor_)), _MM_FROUND_TO_NEAREST_INT);
  }

  /// References of the lanes that begin to see with this tile.
  void begin_lanes(int p, std::uint32_t t) {
    const __mmask16 lanes = sight_[p].begins(t);
    if (lanes == 0) return;
    const __m512 largest = largest_of(p, t, lanes, _mm512_set1_ps(kNegativeInfinity));
    base_[p] = _mm512_mask_mov_ps(base_[p], lanes, whole_number(largest));
    found_[p] = _mm512_mask_mov_ps(found_[p], lanes, base_[p]);
  }

  /// What the weights of a tile are made with, in registers.
  struct Lanes {
    __m512 base[panels], sum[panels];
  };
  Lanes lanes() const {
    Lanes lanes;
    for (int p = 0; p < panels; ++p) lanes.base[p] = base_[p], lanes.sum[p] = sum_[p];
    return lanes;
  }
  void keep(const Lanes& lanes) {
    for (int p = 0; p < panels; ++p) sum_[p] = lanes.sum[p];
  }

  template <bool whole>
  [[gnu::always_inline]] void weigh_group(std::uint32_t t, int group, Lanes& lanes) const {
    const __m512 factor = _mm512_set1_ps(factor_);
    const auto ones = (__m512bh)_mm512_set1_epi16(0x3f80);
#pragma GCC unroll 2
    for (int i = 4 * group; i < 4 * group + 4; i += 2)
#pragma GCC unroll 2
      for (int p = 0; p < panels; ++p) {
        const float* scores = queries_.scores_of(t) + i * kLanes + 16 * p;
        __m512 even = exp2_cubic(_mm512_fmsub_ps(_mm512_load_ps(scores), factor, lanes.base[p]));
        __m512 odd = exp2_cubic(_mm512_fmsub_ps(_mm512_load_ps(scores + kLanes), factor, lanes.base[p]));
        if constexpr (!whole) {
          const std::uint32_t position = t * kTileTokens + static_cast<std::uint32_t>(i);
          even = _mm512_maskz_mov_ps(sight_[p].of(position), even);
          odd = _mm512_maskz_mov_ps(sight_[p].of(position + 1), odd);
        }
        const __m512i weights = cut_pairs(even, odd);
        lanes.sum[p] = _mm512_dpbf16_ps(lanes.sum[p], (__m512bh)weights, ones);
        _mm512_store_si512(queries_.weights_of(p, t) + i / 2 * 16, weights);
      }
  }
  template <bool whole>
  void weigh_tile(std::uint32_t t) {
    Lanes own = lanes();
    for (int group = 0; group < kGroups; ++group) weigh_group<whole>(t, group, own);
    keep(own);
  }
  /// The same, while the next tile is multiplied.
  template <bool whole>
  void weigh_and_score(std::uint32_t t) {
    Lanes own = lanes();
    const int steps = static_cast<int>(queries_.padded / kStep);
    int group = 0;
    multiply_keys(
        t + 1, [&](int step) __attribute__((always_inline)) {
          fetch_.next();
          for (const int end = kGroups * (step + 1) / steps; group < end; ++group) weigh_group<whole>(t, group, own);
        });
    keep(own);
  }

  __mmask16 lanes_of_panel(int p) const { return first_lanes(queries_.count - 16 * p); }
  __mmask16 beyond(int p) const {
    return lanes_of_panel(p) &
           static_cast<__mmask16>(~_mm512_cmp_ps_mask(sum_[p], _mm512_set1_ps(kMostSum), _CMP_LE_OQ));
  }
  bool all_fit() const {
    bool fit = true;
    for (int p = 0; p < panels; ++p) fit = fit && beyond(p) == 0;
    return fit;
  }

  /// All weights once more, of lanes whose sum is too large or no number with the largest score of all; of the others
  /// they come out as they were.
  [[gnu::noinline]] void weigh_again() {
    const __m512 nothing = _mm512_set1_ps(kNegativeInfinity);
    __m512 largest[panels];
    for (int p = 0; p < panels; ++p) largest[p] = nothing;
    for (std::uint32_t t = queries_.tiles.begin; t < queries_.tiles.end; ++t) {
      score_tile(t);
      finish_scores(t);
      for (int p = 0; p < panels; ++p) largest[p] = largest_of(p, t, beyond(p), largest[p]);
    }
    for (int p = 0; p < panels; ++p) {
      const __mmask16 lanes = beyond(p);
      found_[p] = _mm512_mask_mov_ps(found_[p], lanes, whole_number(largest[p]));
      // All scores -inf: nothing has weight (-inf minus -inf would be NaN).
      const __mmask16 empty = _mm512_cmp_ps_mask(found_[p], nothing, _CMP_EQ_OQ);
      base_[p] = _mm512_mask_mov_ps(found_[p], empty, _mm512_setzero_ps());
      sum_[p] = _mm512_setzero_ps();
    }
    for (std::uint32_t t = queries_.tiles.begin; t < queries_.tiles.end; ++t) {
      score_tile(t);
      finish_scores(t);
      queries_.whole(t) ? weigh_tile<true>(t) : weigh_tile<false>(t);
    }
  }

  const AttentionArgs& args_;
  const AttentionUnit& unit_;
  Queries& queries_;
  TileFetch& fetch_;
  float factor_;
  Sight sight_[panels];
  __m512 base_[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};  ///< what is taken off
  /// The same, but -inf where nothing has weight.
  __m512 found_[2] = {_mm512_set1_ps(kNegativeInfinity), _mm512_set1_ps(kNegativeInfinity)};
  __m512 sum_[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
};

}  // namespace
}  // namespace qinfer::kernels::amx
