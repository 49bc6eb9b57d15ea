// What becomes of the partial results of attention: two are folded into one as in an online softmax (Milakov and
// Gimelshein 2018, algorithm 3), with maxima of scores times log2(e), or numbers near them, and the last is written
// out.
#pragma once

#include "common/attention_segments.h"
#include "tiled/math.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

inline void fold_partials(Partial& total, Partial& part, std::uint32_t width) {
  const float largest = part.max > total.max ? part.max : total.max;
  const float base = largest == kNegativeInfinity ? 0.0f : largest;
  const F32x16 old_scale = exp2_ps(splat(total.max - base)), new_scale = exp2_ps(splat(part.max - base));
  total.max = largest;
  total.sum = total.sum * first_lane(old_scale) + part.sum * first_lane(new_scale);
  for (std::uint32_t i = 0; i < width; i += 16) {
    const Lanes lanes = first_lanes(width - i);
    const F32x16 before = mul(load(lanes, total.out() + i), old_scale);
    const F32x16 added = mul(load(lanes, part.out() + i), new_scale);
    store(total.out() + i, lanes, add(before, added));
  }
}

inline void write_partial(Partial& state, std::uint32_t width, float* out) {
  const F32x16 sum = splat(state.sum);
  for (std::uint32_t i = 0; i < width; i += 16) {
    const Lanes lanes = first_lanes(width - i);
    store(out + i, lanes, divide(load(lanes, state.out() + i), sum));
  }
}

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
