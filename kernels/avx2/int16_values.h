// Activations as pairs of 16-bit integers, which the inner loops of quant_int16_loops.h multiply with integers of
// weights (tiled/panels.h).
//
// Each 32 values of a row have a power of two of their own: x becomes round(x * 2^e), at most 2^15 - 1, where e is the
// largest with |x| * 2^e < 2^15 for all of them, but not above 126. So no value is off by more than 2^-15 of the
// largest one among its 32, or than 2^-127 where all are below 2^-112.
#pragma once

#include <immintrin.h>

#include "tiled/panels.h"

namespace qinfer::kernels::avx2 {
namespace {

using Ints = hn::Vec<IntTag>;
using ShortTag = hn::Repartition<std::int16_t, IntTag>;

/// In each lane the sum of the products of both halves. (Older versions of Highway have no function for it, nor for
/// narrowing with saturation in order.)
inline Ints multiply_pairs(Ints a, Ints b) { return Ints{_mm256_madd_epi16(a.raw, b.raw)}; }

/// Adds these sums to `sum`, in its register. Left to itself GCC 12 writes sums of integers into other registers than
/// those that they were in, runs out of them, and keeps some sums of a loop in memory: at two thirds of the speed.
/// Where a loop is unrolled completely it makes all products first, keeps them in memory, and adds them up as a tree.
inline void add_pairs(Ints& sum, Ints a, Ints b) {
  asm("vpaddd %1, %0, %0" : "+x"(sum.raw) : "x"(multiply_pairs(a, b).raw));
}

/// Follows a panel's dwords for each 32 values of its rows, [3][tokens]: the sums of the first and of the last 16
/// integers, as integers, and 2^-e as f32, which is NaN where one of the values is not finite.
struct Int16Values {
  static constexpr std::int64_t kPerDword = 2;
  static constexpr std::int64_t kExtras = 3;
  static constexpr bool kScaledRuns = true;
  /// Dwords of a row of `cols` dwords, whole runs of 32 values, with its extras: Panels::stride.
  static constexpr std::int64_t stride(std::int64_t cols) {
    return cols + kExtras * (cols * kPerDword / Panels::kRunValues);
  }
  static float exponent(const float*, std::int64_t, float) { return 0; }

  /// The dwords of 32 values, and in `scale` what their integers are to be multiplied by.
  static I32x16 load_run(const float* x, float& scale) {
    const F32x16 low = avx2::load(x), high = avx2::load(x + 16);
    const auto magnitude = [](hn::Vec<FloatTag> v) { return hn::BitCast(IntTag(), hn::Abs(v)); };
    const Ints largest = hn::MaxOfLanes(IntTag(), hn::Max(hn::Max(magnitude(low.part[0]), magnitude(low.part[1])),
                                                          hn::Max(magnitude(high.part[0]), magnitude(high.part[1]))));
    // The biased exponents of the largest value and of 2^e, which ends at 2^126.
    const Ints exponent = hn::ShiftRight<23>(largest);
    const Ints power = hn::Min(hn::Sub(hn::Set(IntTag(), 127 + 14 + 127), exponent), hn::Set(IntTag(), 126 + 127));
    const auto factor = hn::BitCast(FloatTag(), hn::ShiftLeft<23>(power));
    const auto is_finite = hn::Lt(largest, hn::Set(IntTag(), 0x7f800000));
    const Ints inverse = hn::IfThenElse(is_finite, hn::ShiftLeft<23>(hn::Sub(hn::Set(IntTag(), 2 * 127), power)),
                                        hn::Set(IntTag(), 0x7fc00000));
    const auto integers = [&](hn::Vec<FloatTag> v) { return hn::NearestInt(hn::Mul(v, factor)); };
    const auto narrowed = [&](const F32x16& v) {
      const __m256i words = _mm256_packs_epi32(integers(v.part[0]).raw, integers(v.part[1]).raw);
      return Ints{_mm256_permute4x64_epi64(words, 0xd8)};  // 0, 2, 1, 3: the values in order again
    };
    scale = hn::GetLane(hn::BitCast(FloatTag(), inverse));
    return {narrowed(low), narrowed(high)};
  }

  static void extras_of_row(I32x16 pairs, float scale, std::uint32_t* out) {
    const Ints ones = hn::Set(IntTag(), 0x10001);
    for (std::size_t half = 0; half < 2; ++half)
      out[half] =
          static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(IntTag(), multiply_pairs(pairs.part[half], ones))));
    out[2] = std::bit_cast<std::uint32_t>(scale);
  }
  /// `pairs`: [16] of each lane.
  static void extras_of_rows(const I32x16* pairs, const float* scales, I32x16 (&out)[kExtras]) {
    const Ints ones = hn::Set(IntTag(), 0x10001);
    for (std::size_t half = 0; half < 2; ++half)
      for (std::size_t p = 0; p < kParts; ++p) {
        Ints sum = hn::Zero(IntTag());
        for (std::size_t i = 0; i < 8; ++i) sum = hn::Add(sum, multiply_pairs(pairs[8 * half + i].part[p], ones));
        out[half].part[p] = sum;
      }
    out[2] = load_dwords(scales);
  }
};

}  // namespace
}  // namespace qinfer::kernels::avx2
