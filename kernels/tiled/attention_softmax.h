// Attention, softmax: scores of a segment become weights, in the form that the inner loop over values takes, with their
// maximum and sum.
#pragma once

#include "tiled/attention_loops.h"
#include "tiled/math.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

inline constexpr float kLog2E = 1.44269504088896341f;

/// Scores become softcap * tanh(score * scale / softcap). Kept out of the way of models that have no caps.
[[gnu::noinline]] inline void apply_softcap(const Panel& panel, float scale, float softcap) {
  const F32x16 factor = splat(scale / softcap), cap = splat(softcap);
  for (int m = 0; m < panel.count; ++m)
    for (std::uint32_t tile = panel.tiles.begin; tile < panel.tiles.end; ++tile)
      for (int half = 0; half < 2; ++half) {
        float* at = panel.weights_of(m, tile) + 16 * half;
        store(at, soft_capped<VectorOps>(load(at), factor, cap));
      }
}

/// Scores become score * scale, and what their distance adds. Of queries from `first` on, as in open_panel().
[[gnu::noinline]] inline void add_distances(const AttentionArgs& args, const AttentionUnit& unit, std::int64_t first,
                                            const Panel& panel) {
  const std::uint32_t group = args.n_heads / args.kv.n_kv_heads;
  const F32x16 factor = splat(args.scale);
  for (int m = 0; m < panel.count; ++m) {
    const std::uint32_t head = unit.kv_head * group + static_cast<std::uint32_t>((first + m) % group);
    const std::uint32_t position = unit.position((first + m) / group);
    for (std::uint32_t tile = panel.tiles.begin; tile < panel.tiles.end; ++tile) {
      float* at = panel.weights_of(m, tile);
      const float* bias = tile_bias(args, head, position, tile);
      store(at, mul_add(load(at), factor, load(bias)));
      store(at + 16, mul_add(load(at + 16), factor, load(bias + 16)));
    }
  }
}

/// What the scores of a panel are still to be multiplied with, after their soft cap or what is added to them. `first`:
/// the unit's query that is the panel's first.
inline float finish_scores(const AttentionArgs& args, const AttentionUnit& unit, std::int64_t first,
                           const Panel& panel) {
  if (args.softcap != 0) {
    apply_softcap(panel, args.scale, args.softcap);
  } else if (args.bias.values != nullptr) {
    add_distances(args, unit, first, panel);
  } else {
    return args.scale;
  }
  return 1.0f;
}

/// Scores of query m in, its softmax weights out, with their maximum (of the scores times log2(e)) and sum.
template <typename Arithmetic>
void softmax_row(Panel& panel, int m, float scale) {
  const F32x16 factor = splat(scale * kLog2E), nothing = splat(kNegativeInfinity);
  F32x16 largest = nothing;
  for (std::uint32_t tile = panel.tiles.begin; tile < panel.tiles.end; ++tile) {
    const float* at = panel.weights_of(m, tile);
    const std::uint32_t seen = seen_lanes(panel.ranges[m], tile);
    // larger_of() is its second operand where one is NaN: the maximum never becomes NaN.
    largest = select(mask_of_bits(seen & 0xffffu), larger_of(load(at), largest), largest);
    largest = select(mask_of_bits(seen >> 16), larger_of(load(at + 16), largest), largest);
  }
  panel.max[m] = largest_lane(largest) * (scale * kLog2E);
  // All scores -inf: nothing has weight (-inf minus -inf would be NaN).
  const float base = panel.max[m] == kNegativeInfinity ? 0.0f : panel.max[m];
  const F32x16 shift = splat(base - Arithmetic::kWeightExponent);
  F32x16 sums = zeros();
  for (std::uint32_t tile = panel.tiles.begin; tile < panel.tiles.end; ++tile) {
    float* at = panel.weights_of(m, tile);
    const std::uint32_t seen = seen_lanes(panel.ranges[m], tile);
    const auto weights = [&](const float* scores, std::uint32_t lanes) {
      const F32x16 x = mul_sub(load(scores), factor, shift);
      return exp2_ps(select(mask_of_bits(lanes), x, nothing));
    };
    const F32x16 low = weights(at, seen & 0xffffu), high = weights(at + 16, seen >> 16);
    Arithmetic::store_weights(at, low, high);
    sums = add(sums, add(low, high));
  }
  panel.sum[m] = sum_lanes(sums);
}

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
