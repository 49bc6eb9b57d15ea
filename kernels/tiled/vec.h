// The vector layer of the instruction set that a file is compiled for. Both layers have the same names: F32x16 and
// I32x16 are 16 lanes of f32 and of 32-bit integers, however many registers that takes, Lanes are the first lanes of
// them, Mask is any choice of lanes. Results are the same bits in all.
//
//   arithmetic  splat, zeros, add, sub, mul, divide, and rounded once mul_add(a, b, c) = a * b + c,
//               mul_sub = a * b - c, neg_mul_add = c - a * b;
//               larger_of(a, b) and smaller_of(a, b): b where one of them is NaN
//   powers      round_to_nearest, above_floor(x) = x - floor(x) rounded down,
//               times_power_of_2(p, n) = p * 2^floor(n) rounded once; n may also be one float for all
//               lanes, a whole number
//   bits        bits_of, floats_of, splat_bits, no_bits, add_bits (as integers), or_bits, and_bits, xor_bits,
//               shift_left<n>, shift_right<n>, as_floats (of integers)
//   masks       is_less, is_nan, mask_of_bits, select(mask, yes, no)
//   memory      load, store, load_dwords, store_dwords; with Lanes only those are touched, and others are zero
//   types       load16<type> and load32<type>, store16<type>: 16 and 32 values of a type;
//               load_halves and store_halves: 16-bit words as the low halves of dwords;
//               widen<type>: such halves as f32; load_i8, load_u8: bytes as dwords
//   words       not for NEON: nearest_integers of F32x16; words_of(low, high): 32 integers in order as words of 16
//               bits, with saturation; multiply_pairs: in each lane the sum of the products of both words;
//               sum_halves: the sums of lanes 0 to 7 and of the others
//   sums        kSumTokens, kSumGroups: how many of them registers hold
//   across      sum_lanes, largest_lane, first_lane, transpose16, split_pairs
#pragma once

#include "common/tile.h"
#include "tiled/isa.h"

#if defined(__AVX512F__)
#include "avx512/vec.h"
#else
#include "highway/vec.h"
#endif

namespace qinfer::kernels::QINFER_ISA {
namespace {

template <typename T>
constexpr T smaller(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
constexpr T larger(T a, T b) {
  return a < b ? b : a;
}

/// 32 consecutive values.
struct Lanes32 {
  F32x16 low, high;
};

template <DType type>
inline Lanes32 load32(const std::byte* at) {
  return {load16<type>(at), load16<type>(at + 16 * dtype_bytes(type))};
}

/// A line of bf16 as its even values and its odd ones, a shift and a mask: in order it would cost two shuffles more.
inline Lanes32 widen_pairs(I32x16 line) {
  return {floats_of(shift_left<16>(line)), floats_of(and_bits(line, splat_bits(0xffff0000u)))};
}

/// Calls f(integral constant of the type) for a type known at run time.
template <typename F>
inline void with_dtype(DType type, F f) {
  switch (type) {
    case DType::f32: f.template operator()<DType::f32>(); break;
    case DType::f16: f.template operator()<DType::f16>(); break;
    case DType::bf16: f.template operator()<DType::bf16>(); break;
  }
}

/// Into the L1, and into the L2.
inline void prefetch_line(const std::byte* at) { __builtin_prefetch(at, 0, 3); }
inline void prefetch_far(const std::byte* at) { __builtin_prefetch(at, 0, 2); }

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
