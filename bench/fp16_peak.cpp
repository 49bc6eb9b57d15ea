// See fp16_peak.h. 24 sums, as many as the widest kernels keep: enough to hide the latency of a multiply-add.
#include "fp16_peak.h"

#include <immintrin.h>

namespace qinfer::bench {

#define QINFER_REPEAT_24(DO)                                                                                      \
  DO(0)                                                                                                           \
  DO(1)                                                                                                           \
  DO(2)                                                                                                           \
  DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15) DO(16) DO(17) DO(18) DO(19) \
      DO(20) DO(21) DO(22) DO(23)

// Named variables and not an array, which might end up in memory.
float f16_fma(std::size_t rounds, float factor, float summand) {
  const __m512h scale = _mm512_set1_ph(static_cast<_Float16>(factor));
  const __m512h step = _mm512_set1_ph(static_cast<_Float16>(summand));
#define QINFER_DECLARE(i) __m512h s##i = _mm512_mul_ph(step, _mm512_set1_ph(static_cast<_Float16>(i)));
#define QINFER_STEP(i) s##i = _mm512_fmadd_ph(s##i, scale, step);
#define QINFER_ADD(i) total = _mm512_add_ph(total, s##i);
  QINFER_REPEAT_24(QINFER_DECLARE)
  for (std::size_t round = 0; round < rounds; ++round) {
    QINFER_REPEAT_24(QINFER_STEP)
  }
  __m512h total = _mm512_setzero_ph();
  QINFER_REPEAT_24(QINFER_ADD)
  return static_cast<float>(_mm512_cvtsh_h(total));
#undef QINFER_DECLARE
#undef QINFER_STEP
#undef QINFER_ADD
}

}  // namespace qinfer::bench
