// The inner loops of projections with quantised weights and products of bf16: integers, which bf16 holds exactly, are
// decoded in registers to pairs of neighbours in k and multiplied with activations rounded to bf16 by VDPBF16PS. Only
// the activations are rounded: scales are applied in f32, after the sum of the values that share them.
//
// An output is one chain in ascending k, whatever the number of tokens at a time:
//   for each run of values that share scales (32 or 16):
//     t = the sum of the run's products of pairs, from zero; total = t * scale + total, fused
//     with minima: total = total - minimum * (the sum of the run's rounded activations, panels.h), fused
#pragma once

#include "avx512/gemm_bf16.h"
#include "avx512/quant_bf16_integers.h"
#include "avx512/quant_pair_sums.h"
#include "avx512/values.h"

namespace qinfer::kernels::avx512 {
namespace {

struct Bf16PairProducts {
  using Integers = Bf16Integers;
  using Sum = __m512;
  static constexpr std::int64_t kExtras = Bf16SummedValues::kExtras;
  /// From memory two at once were read half as fast on Zen 4.
  static constexpr int tiles_for(int) { return 1; }
  static inline Sum zero() { return _mm512_setzero_ps(); }
  static inline Sum add(Sum sum, __m512i pairs, __m512i activations) { return add_pairs(sum, pairs, activations); }

  template <int tokens>
  struct Extras {
    const std::uint32_t* at;
    static __m512 value(Sum sum, int) { return sum; }
    float sum(int m) const { return std::bit_cast<float>(at[m]); }
  };
};

template <Encoding encoding>
using QuantBf16Sums = QuantPairSums<encoding, Bf16PairProducts>;

}  // namespace
}  // namespace qinfer::kernels::avx512
