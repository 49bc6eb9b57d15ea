// Attention, softmax: scores of a segment become weights, in the form that the inner loop over values takes, with their
// maximum and sum.
#pragma once

#include "avx512/attention_panel.h"

namespace qinfer::kernels::avx512 {
namespace {

inline constexpr float kLog2E = 1.44269504088896341f;

/// log2 of what a weight of the largest score is stored as; the same factor is in sums and outputs, and cancels.
template <Arithmetic arithmetic>
constexpr float weight_exponent() {
  return arithmetic == Arithmetic::f16 ? -6.0f : 0.0f;
}

/// Word i / 2 of 16 words in place i.
inline __m512i twice_index() {
  alignas(64) static constexpr std::uint16_t kIndex[32] = {0, 0, 1, 1, 2,  2,  3,  3,  4,  4,  5,  5,  6,  6,  7,  7,
                                                           8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15};
  return _mm512_load_si512(kIndex);
}

/// Stores the 32 weights of a tile as the values' inner loop wants them.
template <Arithmetic arithmetic>
inline void store_weights(float* at, __m512 low, __m512 high) {
  if constexpr (arithmetic == Arithmetic::bf16) {
    _mm512_storeu_si512(at, bf16_pairs(low, high));
  } else if constexpr (arithmetic == Arithmetic::f16) {
    const auto twice = [](__m512 weights) {
      const __m512i halves = _mm512_castsi256_si512(_mm512_cvtps_ph(weights, kNearest));
      return _mm512_permutexvar_epi16(twice_index(), halves);
    };
    _mm512_storeu_si512(at, twice(low));
    _mm512_storeu_si512(at + 16, twice(high));
  } else {
    _mm512_storeu_ps(at, low);
    _mm512_storeu_ps(at + 16, high);
  }
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
template <Arithmetic arithmetic>
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
  const __m512 shift = _mm512_set1_ps(base - weight_exponent<arithmetic>());
  __m512 sums = _mm512_setzero_ps();
  for (std::uint32_t tile = panel.tiles.first; tile <= panel.tiles.last; ++tile) {
    float* at = panel.weights_of(m, tile);
    const std::uint32_t seen = seen_lanes(panel.ranges[m], tile);
    const auto weights = [&](const float* scores, std::uint32_t lanes) {
      const __m512 x = _mm512_fmsub_ps(_mm512_loadu_ps(scores), factor, shift);
      return exp2_ps(_mm512_mask_mov_ps(nothing, static_cast<__mmask16>(lanes), x));
    };
    const __m512 low = weights(at, seen), high = weights(at + 16, seen >> 16);
    store_weights<arithmetic>(at, low, high);
    sums = _mm512_add_ps(sums, _mm512_add_ps(low, high));
  }
  panel.sum[m] = sum_lanes(sums);
}

}  // namespace
}  // namespace qinfer::kernels::avx512
