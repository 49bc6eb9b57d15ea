// Attention, scores: products of queries and keys of a segment, their soft cap, and their softmax.
#pragma once

#include "amx/attention_queries.h"
#include "tiled/math.h"

namespace qinfer::kernels::amx {
namespace {

inline constexpr float kLog2E = 1.44269504088896341f;

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

template <int panels>
void score_tile(const Queries& queries, std::uint32_t t, const std::byte* keys) {
  const std::int64_t stride = std::int64_t{queries.padded} * 2;
  zero_sums<2, panels>();
  for (std::int64_t c = 0; c < queries.padded; c += kStep)
    multiply_step<2, panels>(keys + 2 * c, keys + kRegisterRows * stride + 2 * c, stride, queries.panel[0] + c / 2 * 16,
                             queries.panel[1] + c / 2 * 16);
  store_sums<2, panels>(queries.scores_of(t), kLanes * 4, 16, kRegisterRows * kLanes);
}

inline void prefetch_tile(const std::byte* at, std::uint64_t bytes) {
  for (std::uint64_t b = 0; b < bytes; b += 64) _mm_prefetch(reinterpret_cast<const char*>(at + b), _MM_HINT_T0);
}

inline void score(const AttentionArgs& args, const AttentionUnit& unit, const Queries& queries) {
  const std::uint64_t bytes = args.kv.tile_bytes();
  for (std::uint32_t t = queries.tiles.begin; t < queries.tiles.end; ++t) {
    if (queries.panels == 1)  // few queries: keys come from memory
      prefetch_tile(
          t + 1 < queries.tiles.end ? unit.k_tile(args, t + 1) : unit.k_tile(args, queries.tiles.begin) + bytes, bytes);
    const std::byte* keys = keys_of(args, unit, t, queries);
    queries.panels == 2 ? score_tile<2>(queries, t, keys) : score_tile<1>(queries, t, keys);
  }
}

/// Scores become softcap * tanh(score * scale / softcap). Kept out of the way of models that have no caps.
[[gnu::noinline]] inline void apply_softcap(const Queries& queries, float scale, float softcap) {
  const __m512 factor = _mm512_set1_ps(scale / softcap), cap = _mm512_set1_ps(softcap);
  for (std::uint32_t t = queries.tiles.begin; t < queries.tiles.end; ++t) {
    float* scores = queries.scores_of(t);
    for (std::int64_t i = 0; i < std::int64_t{kTileTokens} * kLanes; i += 16)
      _mm512_store_ps(scores + i, soft_capped<avx512::VectorOps>(_mm512_load_ps(scores + i), factor, cap));
  }
}

/// Which lanes of a panel see a position.
struct Sight {
  __m512i begin, end;

  Sight(const Queries& queries, int panel) {
    alignas(64) std::int32_t low[16], high[16];
    for (int m = 0; m < 16; ++m) {
      const bool there = 16 * panel + m < queries.count;
      low[m] = there ? static_cast<std::int32_t>(queries.ranges[16 * panel + m].begin) : INT32_MAX;
      high[m] = there ? static_cast<std::int32_t>(queries.ranges[16 * panel + m].end) : 0;
    }
    begin = _mm512_load_si512(low);
    end = _mm512_load_si512(high);
  }
  __mmask16 of(std::uint32_t position) const {
    const __m512i at = _mm512_set1_epi32(static_cast<int>(position));
    return _mm512_cmple_epi32_mask(begin, at) & _mm512_cmpgt_epi32_mask(end, at);
  }
};

/// Scores in; weights out, with the maximum (of the scores times log2(e)) and the sum of each lane.
inline void softmax(Queries& queries, int panel, float scale) {
  const __m512 nothing = _mm512_set1_ps(kNegativeInfinity), factor = _mm512_set1_ps(scale * kLog2E);
  const Sight sight(queries, panel);
  __m512 largest = nothing;
  for (std::uint32_t t = queries.tiles.begin; t < queries.tiles.end; ++t) {
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
  for (std::uint32_t t = queries.tiles.begin; t < queries.tiles.end; ++t) {
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

}  // namespace
}  // namespace qinfer::kernels::amx
