// What becomes of the partial results of attention: two are folded into one as in an online softmax (Milakov and
// Gimelshein 2018, algorithm 3), with maxima of scores times log2(e), and the last is written out.
#pragma once

#include "avx512/vec.h"
#include "common/attention_segments.h"

namespace qinfer::kernels::avx512 {
namespace {

inline void fold_partials(Partial& total, Partial& part, std::uint32_t width) {
  const float largest = part.max > total.max ? part.max : total.max;
  const float base = largest == kNegativeInfinity ? 0.0f : largest;
  const __m512 old_scale = exp2_ps(_mm512_set1_ps(total.max - base)),
               new_scale = exp2_ps(_mm512_set1_ps(part.max - base));
  total.max = largest;
  total.sum = total.sum * _mm512_cvtss_f32(old_scale) + part.sum * _mm512_cvtss_f32(new_scale);
  for (std::uint32_t i = 0; i < width; i += 16) {
    const __mmask16 lanes = first_lanes(width - i);
    const __m512 before = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, total.out() + i), old_scale);
    const __m512 added = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, part.out() + i), new_scale);
    _mm512_mask_storeu_ps(total.out() + i, lanes, _mm512_add_ps(before, added));
  }
}

inline void write_partial(Partial& state, std::uint32_t width, float* out) {
  const __m512 sum = _mm512_set1_ps(state.sum);
  for (std::uint32_t i = 0; i < width; i += 16) {
    const __mmask16 lanes = first_lanes(width - i);
    _mm512_mask_storeu_ps(out + i, lanes, _mm512_div_ps(_mm512_maskz_loadu_ps(lanes, state.out() + i), sum));
  }
}

}  // namespace
}  // namespace qinfer::kernels::avx512
