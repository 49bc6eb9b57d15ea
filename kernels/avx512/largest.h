// The largest finite magnitude among values that are packed.
#pragma once

#include "avx512/vec.h"

namespace qinfer::kernels::avx512 {
namespace {

/// The largest finite magnitude seen so far.
struct Largest {
  __m512i bits = _mm512_setzero_si512();
  void add(__m512 value) {
    const __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(value), _mm512_set1_epi32(0x7fffffff));
    const __mmask16 finite = _mm512_cmplt_epi32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
    bits = _mm512_mask_max_epi32(bits, finite, bits, magnitude);
  }
  float value() const { return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(bits)))); }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
