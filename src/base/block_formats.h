// The blocks of quantised GGUF tensors: where a block has its scales and integers, and what its values are.
//
// Each block is a run of values of one row. What unpack_* gives are the parts as the file states them, in the order of
// the values: integers without their offset taken off, scales as stored. widen_* computes the values in f32, with each
// product and each difference rounded once, as the format's own reference does; nothing may be fused into a
// multiply-add, which would change bits (the library is compiled with -ffp-contract=off).
//
// d, m and dmin are f16; q is an integer of the block, T[q] a table's entry. A block of 256 has sub-blocks of 32 or 16
// values j, each with an integer scale.
//   q8_0   d * q                        q4_0    d * (q - 8)           q4_1  d * q + m
//   q5_0   d * (q - 16)                 q5_1    d * q + m             iq4_nl  d * T[q]
//   q3_k   (d * sc[j]) * (q - 4)        q6_k    (d * sc[j]) * (q - 32)
//   q4_k, q5_k  (d * sc[j]) * q - dmin * m[j]                         iq4_xs  (d * sc[j]) * T[q]
//   mxfp4  2^(e - 128) * E[q], E being the values of FP4 (E2M1) doubled
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/encoding.h"

namespace qinfer::blocks {

/// Values of a block of K-quants, and of iq4_xs.
inline constexpr std::int64_t kLongBlock = 256;
/// Values of all other blocks, and of the sub-blocks that share a scale in a long one, but for those of q3_k and q6_k,
/// which have kShortRun.
inline constexpr std::int64_t kRun = 32, kShortRun = 16;

/// What the nibbles of iq4_nl and iq4_xs stand for, and those of mxfp4.
inline constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr std::int8_t kFp4Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// The parts of a block in the order of its values. d and m are the bits of f16 (m: dmin of long blocks).
struct Parts {
  std::uint16_t d = 0, m = 0;
  std::uint8_t e8m0 = 0;       ///< mxfp4's scale
  std::int8_t scales[16];      ///< of long blocks: one for 32 values, or for 16; of q4_k and q5_k 0 .. 63
  std::uint8_t minima[8];      ///< of q4_k and q5_k, 0 .. 63
  std::uint8_t q[kLongBlock];  ///< 0 .. 255 for q8_0: q + 128
};

/// Halves: index j of 32 nibbles, of which the low ones come first.
inline std::uint8_t nibble32(const std::byte* q, std::int64_t j) {
  return static_cast<std::uint8_t>(j < 16 ? q[j] & std::byte{15} : q[j - 16] >> 4);
}

void unpack_q8_0(const std::byte* block, Parts& out);
void unpack_q4_0(const std::byte* block, Parts& out);  ///< and of iq4_nl
void unpack_q4_1(const std::byte* block, Parts& out);
void unpack_q5_0(const std::byte* block, Parts& out);
void unpack_q5_1(const std::byte* block, Parts& out);
void unpack_q3_k(const std::byte* block, Parts& out);
void unpack_q4_k(const std::byte* block, Parts& out);
void unpack_q5_k(const std::byte* block, Parts& out);
void unpack_q6_k(const std::byte* block, Parts& out);
void unpack_iq4_xs(const std::byte* block, Parts& out);
void unpack_mxfp4(const std::byte* block, Parts& out);

/// The first of n blocks that has a scale or minimum that is infinite or NaN; -1 if there is none.
std::int64_t find_bad_scale(Encoding encoding, const std::byte* blocks, std::int64_t n);

/// 2^(e - 128), exact. 255 stands for NaN and gives 2^127, as in the gguf package: files with it are refused.
float e8m0_half(std::uint8_t e);

void widen_q8_0(const std::byte* block, float* out);
void widen_q4_0(const std::byte* block, float* out);
void widen_q4_1(const std::byte* block, float* out);
void widen_q5_0(const std::byte* block, float* out);
void widen_q5_1(const std::byte* block, float* out);
void widen_q3_k(const std::byte* block, float* out);
void widen_q4_k(const std::byte* block, float* out);
void widen_q5_k(const std::byte* block, float* out);
void widen_q6_k(const std::byte* block, float* out);
void widen_iq4_nl(const std::byte* block, float* out);
void widen_iq4_xs(const std::byte* block, float* out);
void widen_mxfp4(const std::byte* block, float* out);

}  // namespace qinfer::blocks
