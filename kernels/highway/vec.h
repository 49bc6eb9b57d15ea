// The vector layer of tiled/vec.h over Google's Highway, for AVX2 and NEON: 16 lanes are two or four registers. The
// target is fixed by the flags of the file that includes this, and nothing of Highway is linked.
//
// Everything is in an unnamed namespace: files with different instruction sets include this header, and the linker
// must never hand the code of one to the other.
#pragma once

#define HWY_COMPILE_ONLY_STATIC
#define HWY_DISABLE_PCLMUL_AES  // which `avx2` does not ask for
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "tiled/isa.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 8>;
using IntTag = hn::RebindToSigned<FloatTag>;
using WordTag = hn::RebindToUnsigned<FloatTag>;
using HalfTag = hn::Rebind<std::uint16_t, FloatTag>;
using F16Tag = hn::Rebind<hwy::float16_t, FloatTag>;

inline constexpr std::size_t kPartLanes = hn::MaxLanes(FloatTag());
inline constexpr std::size_t kParts = 16 / kPartLanes;
static_assert(kPartLanes == (HWY_TARGET == HWY_AVX2 ? 8 : 4));

struct F32x16 {
  hn::Vec<FloatTag> part[kParts];
};
struct I32x16 {
  hn::Vec<IntTag> part[kParts];
};
struct Mask {
  hn::Mask<FloatTag> part[kParts];
};
/// The lanes below `count`.
struct Lanes {
  std::size_t count;
};

/// How many sums an inner loop keeps in registers: for this many tokens, of this many times 16 outputs each. Of the 16
/// registers of AVX2 these are 12, of the 32 of NEON 24.
inline constexpr int kSumTokens = 6, kSumGroups = 1;

inline Lanes first_lanes(std::int64_t count) { return {count >= 16 ? 16 : static_cast<std::size_t>(count)}; }

/// Calls f(part) for each register and collects what it returns.
template <typename Result, typename F>
inline Result each(F f) {
  Result result;
#pragma GCC unroll 4
  for (std::size_t p = 0; p < kParts; ++p) result.part[p] = f(p);
  return result;
}

inline F32x16 splat(float x) {
  return each<F32x16>([&](std::size_t) { return hn::Set(FloatTag(), x); });
}
inline F32x16 zeros() {
  return each<F32x16>([](std::size_t) { return hn::Zero(FloatTag()); });
}
inline F32x16 add(F32x16 a, F32x16 b) {
  return each<F32x16>([&](std::size_t p) { return hn::Add(a.part[p], b.part[p]); });
}
inline F32x16 sub(F32x16 a, F32x16 b) {
  return each<F32x16>([&](std::size_t p) { return hn::Sub(a.part[p], b.part[p]); });
}
inline F32x16 mul(F32x16 a, F32x16 b) {
  return each<F32x16>([&](std::size_t p) { return hn::Mul(a.part[p], b.part[p]); });
}
inline F32x16 divide(F32x16 a, F32x16 b) {
  return each<F32x16>([&](std::size_t p) { return hn::Div(a.part[p], b.part[p]); });
}
inline F32x16 mul_add(F32x16 a, F32x16 b, F32x16 c) {
  return each<F32x16>([&](std::size_t p) { return hn::MulAdd(a.part[p], b.part[p], c.part[p]); });
}
inline F32x16 mul_sub(F32x16 a, F32x16 b, F32x16 c) {
  return each<F32x16>([&](std::size_t p) { return hn::MulSub(a.part[p], b.part[p], c.part[p]); });
}
inline F32x16 neg_mul_add(F32x16 a, F32x16 b, F32x16 c) {
  return each<F32x16>([&](std::size_t p) { return hn::NegMulAdd(a.part[p], b.part[p], c.part[p]); });
}

inline Mask is_less(F32x16 a, F32x16 b) {
  return each<Mask>([&](std::size_t p) { return hn::Lt(a.part[p], b.part[p]); });
}
inline Mask is_less(I32x16 a, I32x16 b) {
  return each<Mask>([&](std::size_t p) { return hn::RebindMask(FloatTag(), hn::Lt(a.part[p], b.part[p])); });
}
inline Mask is_nan(F32x16 x) {
  return each<Mask>([&](std::size_t p) { return hn::Ne(x.part[p], x.part[p]); });
}
inline Mask mask_of_bits(std::uint32_t bits) {
  return each<Mask>([&](std::size_t p) {
    const auto place = hn::Shl(hn::Set(WordTag(), 1u), hn::Iota(WordTag(), static_cast<std::uint32_t>(p * kPartLanes)));
    return hn::RebindMask(FloatTag(), hn::TestBit(hn::Set(WordTag(), bits), place));
  });
}
inline F32x16 select(Mask mask, F32x16 yes, F32x16 no) {
  return each<F32x16>([&](std::size_t p) { return hn::IfThenElse(mask.part[p], yes.part[p], no.part[p]); });
}
inline I32x16 select(Mask mask, I32x16 yes, I32x16 no) {
  return each<I32x16>(
      [&](std::size_t p) { return hn::IfThenElse(hn::RebindMask(IntTag(), mask.part[p]), yes.part[p], no.part[p]); });
}

/// Highway's Max and Min are the instructions of AVX2, which give b where one operand is NaN or both are zeros, and so
/// what the comparisons give; on Arm they would be NaN where one operand is.
inline F32x16 larger_of(F32x16 a, F32x16 b) {
  if constexpr (HWY_TARGET != HWY_AVX2) return select(is_less(b, a), a, b);
  return each<F32x16>([&](std::size_t p) { return hn::Max(a.part[p], b.part[p]); });
}
inline F32x16 smaller_of(F32x16 a, F32x16 b) {
  if constexpr (HWY_TARGET != HWY_AVX2) return select(is_less(a, b), a, b);
  return each<F32x16>([&](std::size_t p) { return hn::Min(a.part[p], b.part[p]); });
}

inline I32x16 bits_of(F32x16 x) {
  return each<I32x16>([&](std::size_t p) { return hn::BitCast(IntTag(), x.part[p]); });
}
inline F32x16 floats_of(I32x16 x) {
  return each<F32x16>([&](std::size_t p) { return hn::BitCast(FloatTag(), x.part[p]); });
}
inline I32x16 splat_bits(std::uint32_t x) {
  return each<I32x16>([&](std::size_t) { return hn::Set(IntTag(), static_cast<std::int32_t>(x)); });
}
inline I32x16 no_bits() {
  return each<I32x16>([](std::size_t) { return hn::Zero(IntTag()); });
}
inline I32x16 add_bits(I32x16 a, I32x16 b) {
  return each<I32x16>([&](std::size_t p) { return hn::Add(a.part[p], b.part[p]); });
}
inline I32x16 and_bits(I32x16 a, I32x16 b) {
  return each<I32x16>([&](std::size_t p) { return hn::And(a.part[p], b.part[p]); });
}
inline I32x16 or_bits(I32x16 a, I32x16 b) {
  return each<I32x16>([&](std::size_t p) { return hn::Or(a.part[p], b.part[p]); });
}
inline I32x16 xor_bits(I32x16 a, I32x16 b) {
  return each<I32x16>([&](std::size_t p) { return hn::Xor(a.part[p], b.part[p]); });
}
template <int n>
inline I32x16 shift_left(I32x16 x) {
  return each<I32x16>([&](std::size_t p) { return hn::ShiftLeft<n>(x.part[p]); });
}
template <int n>
inline I32x16 shift_right(I32x16 x) {
  return each<I32x16>(
      [&](std::size_t p) { return hn::BitCast(IntTag(), hn::ShiftRight<n>(hn::BitCast(WordTag(), x.part[p]))); });
}
inline F32x16 as_floats(I32x16 x) {
  return each<F32x16>([&](std::size_t p) { return hn::ConvertTo(FloatTag(), x.part[p]); });
}

inline F32x16 round_to_nearest(F32x16 x) {
  return each<F32x16>([&](std::size_t p) { return hn::Round(x.part[p]); });
}

/// Beyond these powers of two every f32 times one of them is zero or infinite.
inline constexpr float kMostPowers = 250;
inline F32x16 within_powers(F32x16 n) { return larger_of(splat(-kMostPowers), smaller_of(splat(kMostPowers), n)); }
inline F32x16 floor_of(F32x16 x) {
  return each<F32x16>([&](std::size_t p) { return hn::Floor(x.part[p]); });
}
/// x - floor(x), rounded down as VREDUCEPS rounds it; 0 for the infinities. Only between -1 and 0 is it rounded at all,
/// and there `lost` is what rounding to nearest took off or added (Dekker 1971, the sum of two numbers).
inline F32x16 above_floor(F32x16 x) {
  const F32x16 finite = within_powers(x), floor = floor_of(finite), nearest = sub(finite, floor);
  const F32x16 lost = sub(finite, add(nearest, floor));
  const I32x16 next_below = add_bits(bits_of(nearest), splat_bits(0xffffffffu));
  return select(is_less(lost, zeros()), floats_of(next_below), nearest);
}
/// 2^n as f32, where that is a normal number.
inline hn::Vec<FloatTag> power_of_2(hn::Vec<IntTag> n) {
  return hn::BitCast(FloatTag(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(IntTag(), 127))));
}
/// In two steps, of which only the second one can round.
inline F32x16 times_power_of_2(F32x16 p, F32x16 n) {
  const F32x16 floor = floor_of(within_powers(n));
  return each<F32x16>([&](std::size_t i) {
    const auto power = hn::ConvertTo(IntTag(), floor.part[i]), half = hn::ShiftRight<1>(power);
    return hn::Mul(hn::Mul(p.part[i], power_of_2(half)), power_of_2(hn::Sub(power, half)));
  });
}
/// n is a whole number. The two factors are the same for all lanes, and can be taken out of loops.
inline F32x16 times_power_of_2(F32x16 p, float n) {
  const float within = n < -kMostPowers ? -kMostPowers : n > kMostPowers ? kMostPowers : n;
  const int power = static_cast<int>(within), half = power >> 1;
  const auto first = power_of_2(hn::Set(IntTag(), half)), second = power_of_2(hn::Set(IntTag(), power - half));
  return each<F32x16>([&](std::size_t i) { return hn::Mul(hn::Mul(p.part[i], first), second); });
}

inline F32x16 load(const void* at) {
  return each<F32x16>(
      [&](std::size_t p) { return hn::LoadU(FloatTag(), static_cast<const float*>(at) + p * kPartLanes); });
}
inline void store(void* at, F32x16 x) {
#pragma GCC unroll 4
  for (std::size_t p = 0; p < kParts; ++p) hn::StoreU(x.part[p], FloatTag(), static_cast<float*>(at) + p * kPartLanes);
}
inline I32x16 load_dwords(const void* at) { return bits_of(load(at)); }
inline void store_dwords(void* at, I32x16 x) { store(at, floats_of(x)); }
inline I32x16 load_halves(const void* at) {
  return each<I32x16>([&](std::size_t p) {
    const auto* from = static_cast<const std::uint16_t*>(at) + p * kPartLanes;
    return hn::BitCast(IntTag(), hn::PromoteTo(WordTag(), hn::LoadU(HalfTag(), from)));
  });
}
inline void store_halves(void* at, I32x16 x) {
#pragma GCC unroll 4
  for (std::size_t p = 0; p < kParts; ++p)
    hn::StoreU(hn::TruncateTo(HalfTag(), hn::BitCast(WordTag(), x.part[p])), HalfTag(),
               static_cast<std::uint16_t*>(at) + p * kPartLanes);
}

/// Some of the lanes go through a buffer of all of them: `whole` loads or stores 16, of `bytes` each.
template <std::size_t bytes, typename F>
inline auto load_some(Lanes lanes, const void* at, F whole) {
  if (lanes.count == 16) return whole(at);
  alignas(64) std::byte buffer[16 * bytes] = {};
  std::memcpy(buffer, at, lanes.count * bytes);
  return whole(static_cast<const void*>(buffer));
}
template <std::size_t bytes, typename F>
inline void store_some(Lanes lanes, void* at, F whole) {
  if (lanes.count == 16) return whole(at);
  alignas(64) std::byte buffer[16 * bytes];
  whole(static_cast<void*>(buffer));
  std::memcpy(at, buffer, lanes.count * bytes);
}

inline F32x16 load(Lanes lanes, const void* at) {
  return load_some<4>(lanes, at, [](const void* from) { return load(from); });
}
inline void store(void* at, Lanes lanes, F32x16 x) {
  store_some<4>(lanes, at, [&](void* to) { store(to, x); });
}
inline I32x16 load_dwords(Lanes lanes, const void* at) { return bits_of(load(lanes, at)); }
inline void store_dwords(void* at, Lanes lanes, I32x16 x) { store(at, lanes, floats_of(x)); }
inline I32x16 load_halves(Lanes lanes, const void* at) {
  return load_some<2>(lanes, at, [](const void* from) { return load_halves(from); });
}
inline void store_halves(void* at, Lanes lanes, I32x16 x) {
  store_some<2>(lanes, at, [&](void* to) { store_halves(to, x); });
}
inline I32x16 load_i8(const std::byte* at) {
  using ByteTag = hn::Rebind<std::int8_t, FloatTag>;
  return each<I32x16>([&](std::size_t p) {
    const auto* from = reinterpret_cast<const std::int8_t*>(at) + p * kPartLanes;
    return hn::PromoteTo(IntTag(), hn::LoadU(ByteTag(), from));
  });
}
inline I32x16 load_u8(const std::byte* at) {
  using ByteTag = hn::Rebind<std::uint8_t, FloatTag>;
  return each<I32x16>([&](std::size_t p) {
    const auto* from = reinterpret_cast<const std::uint8_t*>(at) + p * kPartLanes;
    return hn::BitCast(IntTag(), hn::PromoteTo(WordTag(), hn::LoadU(ByteTag(), from)));
  });
}

/// Always inlined: GCC calls it where a loop over weights of bf16 has it four times, and the calls take longer than the
/// products.
template <DType type>
[[gnu::always_inline]] inline F32x16 load16(const std::byte* at) {
  if constexpr (type == DType::f32) {
    return load(at);
  } else if constexpr (type == DType::f16) {
    return each<F32x16>([&](std::size_t p) {
      const auto* from = reinterpret_cast<const hwy::float16_t*>(at) + p * kPartLanes;
      return hn::PromoteTo(FloatTag(), hn::LoadU(F16Tag(), from));
    });
  } else {
    return floats_of(shift_left<16>(load_halves(at)));
  }
}

template <DType type>
inline F32x16 widen(I32x16 halves) {
  if constexpr (type == DType::f16) {
    alignas(64) std::byte words[32];
    store_halves(words, halves);
    return load16<DType::f16>(words);
  } else {
    return floats_of(shift_left<16>(halves));
  }
}

/// Rounded to the nearest bf16, ties to even, in the upper half of each lane; NaN stays NaN, as in base/dtype.h.
inline I32x16 rounded_to_bf16(F32x16 value) {
  const I32x16 bits = bits_of(value);
  const I32x16 odd = and_bits(shift_right<16>(bits), splat_bits(1));
  const I32x16 rounded = add_bits(bits, add_bits(odd, splat_bits(0x7fff)));
  return select(is_nan(value), or_bits(bits, splat_bits(0x400000)), rounded);
}

template <DType type>
inline void store16(std::byte* at, Lanes lanes, F32x16 value) {
  if constexpr (type == DType::f32) {
    store(at, lanes, value);
  } else if constexpr (type == DType::f16) {
    store_some<2>(lanes, at, [&](void* to) {
#pragma GCC unroll 4
      for (std::size_t p = 0; p < kParts; ++p)
        hn::StoreU(hn::DemoteTo(F16Tag(), value.part[p]), F16Tag(), static_cast<hwy::float16_t*>(to) + p * kPartLanes);
    });
  } else {
    store_halves(at, lanes, shift_right<16>(rounded_to_bf16(value)));
  }
}

inline void split_pairs(F32x16 low, F32x16 high, F32x16& even, F32x16& odd) {
#pragma GCC unroll 2
  for (std::size_t p = 0; p < kParts / 2; ++p) {
    even.part[p] = hn::ConcatEven(FloatTag(), low.part[2 * p + 1], low.part[2 * p]);
    odd.part[p] = hn::ConcatOdd(FloatTag(), low.part[2 * p + 1], low.part[2 * p]);
    even.part[kParts / 2 + p] = hn::ConcatEven(FloatTag(), high.part[2 * p + 1], high.part[2 * p]);
    odd.part[kParts / 2 + p] = hn::ConcatOdd(FloatTag(), high.part[2 * p + 1], high.part[2 * p]);
  }
}

inline float first_lane(F32x16 x) { return hn::GetLane(x.part[0]); }

/// Sums the lanes pairwise: j with j + 8, + 4, + 2, + 1.
inline float sum_lanes(F32x16 x) {
  alignas(64) float lanes[16];
  store(lanes, x);
  for (std::size_t step = 8; step > 0; step /= 2)
    for (std::size_t j = 0; j < step; ++j) lanes[j] = lanes[j] + lanes[j + step];
  return lanes[0];
}
inline float largest_lane(F32x16 x) {
  alignas(64) float lanes[16];
  store(lanes, x);
  float largest = lanes[0];
  for (const float lane : lanes) largest = largest < lane ? lane : largest;
  return largest;
}
inline std::int32_t largest_lane(I32x16 x) {
  alignas(64) std::int32_t lanes[16];
  store_dwords(lanes, x);
  std::int32_t largest = lanes[0];
  for (const std::int32_t lane : lanes) largest = largest < lane ? lane : largest;
  return largest;
}

#if HWY_TARGET == HWY_AVX2
// Of Highway's functions for this, some are newer than what Debian 12 has.

inline I32x16 nearest_integers(F32x16 x) {
  return each<I32x16>([&](std::size_t p) { return hn::NearestInt(x.part[p]); });
}
inline I32x16 words_of(const I32x16& low, const I32x16& high) {
  const auto narrowed = [](const I32x16& dwords) {
    const __m256i words = _mm256_packs_epi32(dwords.part[0].raw, dwords.part[1].raw);
    return hn::Vec<IntTag>{_mm256_permute4x64_epi64(words, 0xd8)};  // 0, 2, 1, 3: the values in order again
  };
  return {narrowed(low), narrowed(high)};
}
inline hn::Vec<IntTag> multiply_pairs(hn::Vec<IntTag> a, hn::Vec<IntTag> b) {
  return hn::Vec<IntTag>{_mm256_madd_epi16(a.raw, b.raw)};
}
inline I32x16 multiply_pairs(I32x16 a, I32x16 b) {
  return each<I32x16>([&](std::size_t p) { return multiply_pairs(a.part[p], b.part[p]); });
}
inline void sum_halves(I32x16 x, std::int32_t (&out)[2]) {
  for (std::size_t half = 0; half < 2; ++half) out[half] = hn::GetLane(hn::SumOfLanes(IntTag(), x.part[half]));
}
#endif

/// Transposes 4 x 4 dwords in each block of 128 bits of four rows.
inline void transpose_blocks(hn::Vec<IntTag> (&rows)[4]) {
  using LongTag = hn::Repartition<std::int64_t, IntTag>;
  const auto long_of = [](hn::Vec<IntTag> x) { return hn::BitCast(LongTag(), x); };
  const auto low01 = long_of(hn::InterleaveLower(IntTag(), rows[0], rows[1]));
  const auto high01 = long_of(hn::InterleaveUpper(IntTag(), rows[0], rows[1]));
  const auto low23 = long_of(hn::InterleaveLower(IntTag(), rows[2], rows[3]));
  const auto high23 = long_of(hn::InterleaveUpper(IntTag(), rows[2], rows[3]));
  rows[0] = hn::BitCast(IntTag(), hn::InterleaveLower(LongTag(), low01, low23));
  rows[1] = hn::BitCast(IntTag(), hn::InterleaveUpper(LongTag(), low01, low23));
  rows[2] = hn::BitCast(IntTag(), hn::InterleaveLower(LongTag(), high01, high23));
  rows[3] = hn::BitCast(IntTag(), hn::InterleaveUpper(LongTag(), high01, high23));
}

/// Transposes 16 times 16 dwords, in squares of as many rows as a register has lanes.
inline void transpose16(I32x16 (&r)[16]) {
  alignas(64) std::int32_t out[16][16];
  for (std::size_t row = 0; row < 16; row += kPartLanes)
    for (std::size_t p = 0; p < kParts; ++p) {
      hn::Vec<IntTag> quarter[kPartLanes / 4][4];
      for (std::size_t q = 0; q < kPartLanes / 4; ++q) {
        for (std::size_t i = 0; i < 4; ++i) quarter[q][i] = r[row + 4 * q + i].part[p];
        transpose_blocks(quarter[q]);
      }
      for (std::size_t i = 0; i < 4; ++i) {
        std::int32_t* to = out[p * kPartLanes + i] + row;
        if constexpr (kPartLanes == 4) {
          hn::StoreU(quarter[0][i], IntTag(), to);
        } else {
          hn::StoreU(hn::ConcatLowerLower(IntTag(), quarter[1][i], quarter[0][i]), IntTag(), to);
          hn::StoreU(hn::ConcatUpperUpper(IntTag(), quarter[1][i], quarter[0][i]), IntTag(), to + 4 * 16);
        }
      }
    }
  for (std::size_t i = 0; i < 16; ++i) r[i] = load_dwords(out[i]);
}

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
