// See common/quant_blocks.h. Writers are the inverses of blocks::unpack_*, which says where the parts are.
#include "common/quant_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/dtype.h"

namespace qinfer::kernels {
namespace {

using blocks::kLongBlock;
using blocks::kRun;
using blocks::kShortRun;
using blocks::Parts;

std::byte byte_of(unsigned value) { return static_cast<std::byte>(value); }

void put_u16(std::byte* at, std::uint16_t bits) { std::memcpy(at, &bits, 2); }
void put_u32(std::byte* at, std::uint32_t bits) { std::memcpy(at, &bits, 4); }

void put_nibbles(const std::uint8_t* q, std::byte* out) {
  for (std::int64_t j = 0; j < 16; ++j) out[j] = byte_of((q[j] & 15u) | (q[j + 16] & 15u) << 4);
}

std::uint32_t fifth_bits(const std::uint8_t* q) {
  std::uint32_t bits = 0;
  for (std::int64_t j = 0; j < kRun; ++j) bits |= (q[j] >> 4 & 1u) << j;
  return bits;
}

void put_six_bit_pairs(const Parts& parts, std::byte* s) {
  for (std::int64_t j = 0; j < 4; ++j) {
    const unsigned scale = static_cast<std::uint8_t>(parts.scales[j + 4]), minimum = parts.minima[j + 4];
    s[j] = byte_of(static_cast<std::uint8_t>(parts.scales[j]) | (scale >> 4) << 6);
    s[j + 4] = byte_of(parts.minima[j] | (minimum >> 4) << 6);
    s[j + 8] = byte_of((scale & 15) | (minimum & 15) << 4);
  }
}

void put_long_nibbles(const std::uint8_t* q, std::byte* out) {
  for (std::int64_t part = 0; part < 4; ++part)
    for (std::int64_t i = 0; i < 32; ++i)
      out[part * 32 + i] = byte_of((q[part * 64 + i] & 15u) | (q[part * 64 + 32 + i] & 15u) << 4);
}

void write_q8_0(const Parts& parts, std::byte* block) {
  put_u16(block, parts.d);
  for (std::int64_t j = 0; j < kRun; ++j) block[2 + j] = byte_of(parts.q[j] ^ 0x80u);
}

void write_q4_0(const Parts& parts, std::byte* block) {
  put_u16(block, parts.d);
  put_nibbles(parts.q, block + 2);
}

void write_q4_1(const Parts& parts, std::byte* block) {
  put_u16(block, parts.d);
  put_u16(block + 2, parts.m);
  put_nibbles(parts.q, block + 4);
}

void write_q5_0(const Parts& parts, std::byte* block) {
  put_u16(block, parts.d);
  put_u32(block + 2, fifth_bits(parts.q));
  put_nibbles(parts.q, block + 6);
}

void write_q5_1(const Parts& parts, std::byte* block) {
  put_u16(block, parts.d);
  put_u16(block + 2, parts.m);
  put_u32(block + 4, fifth_bits(parts.q));
  put_nibbles(parts.q, block + 8);
}

void write_q3_k(const Parts& parts, std::byte* block) {
  std::memset(block, 0, 108);
  put_u16(block + 108, parts.d);
  for (std::int64_t j = 0; j < 16; ++j) {
    const auto scale = static_cast<unsigned>(parts.scales[j] + 32);
    block[96 + j % 8] |= byte_of((scale & 15) << (j < 8 ? 0 : 4));
    block[104 + j % 4] |= byte_of((scale >> 4) << 2 * (j / 4));
  }
  for (std::int64_t i = 0; i < kLongBlock; ++i) {
    block[32 + i / 128 * 32 + i % 32] |= byte_of((parts.q[i] & 3u) << 2 * (i % 128 / 32));
    block[i % 32] |= byte_of((parts.q[i] >> 2 & 1u) << i / 32);
  }
}

void write_q4_k(const Parts& parts, std::byte* block) {
  put_u16(block, parts.d);
  put_u16(block + 2, parts.m);
  put_six_bit_pairs(parts, block + 4);
  put_long_nibbles(parts.q, block + 16);
}

void write_q5_k(const Parts& parts, std::byte* block) {
  put_u16(block, parts.d);
  put_u16(block + 2, parts.m);
  put_six_bit_pairs(parts, block + 4);
  std::memset(block + 16, 0, 32);
  for (std::int64_t i = 0; i < kLongBlock; ++i) block[16 + i % 32] |= byte_of((parts.q[i] >> 4 & 1u) << i / 32);
  put_long_nibbles(parts.q, block + 48);
}

void write_q6_k(const Parts& parts, std::byte* block) {
  put_u16(block + 208, parts.d);
  std::memcpy(block + 192, parts.scales, 16);
  for (std::int64_t half = 0; half < 2; ++half)
    for (std::int64_t i = 0; i < 32; ++i) {
      const std::uint8_t* q = parts.q + half * 128 + i;
      block[half * 64 + i] = byte_of((q[0] & 15u) | (q[64] & 15u) << 4);
      block[half * 64 + 32 + i] = byte_of((q[32] & 15u) | (q[96] & 15u) << 4);
      block[128 + half * 32 + i] = byte_of(q[0] >> 4u | (q[32] & 0x30u) >> 2 | (q[64] & 0x30u) | (q[96] & 0x30u) << 2);
    }
}

void write_iq4_xs(const Parts& parts, std::byte* block) {
  std::uint32_t high = 0, low = 0;
  for (std::int64_t j = 0; j < 8; ++j) {
    const auto scale = static_cast<std::uint32_t>(parts.scales[j] + 32);
    low |= (scale & 15) << 4 * j;
    high |= (scale >> 4) << 2 * j;
    put_nibbles(parts.q + kRun * j, block + 8 + 16 * j);
  }
  put_u16(block, parts.d);
  put_u16(block + 2, static_cast<std::uint16_t>(high));
  put_u32(block + 4, low);
}

void write_mxfp4(const Parts& parts, std::byte* block) {
  block[0] = byte_of(parts.e8m0);
  put_nibbles(parts.q, block + 1);
}

struct Access {
  ReadBlock read;
  WriteBlock write;
};

Access access_to(Encoding encoding) {
  switch (encoding) {
    case Encoding::q8_0: return {blocks::unpack_q8_0, write_q8_0};
    case Encoding::q4_1: return {blocks::unpack_q4_1, write_q4_1};
    case Encoding::q5_0: return {blocks::unpack_q5_0, write_q5_0};
    case Encoding::q5_1: return {blocks::unpack_q5_1, write_q5_1};
    case Encoding::q3_k: return {blocks::unpack_q3_k, write_q3_k};
    case Encoding::q4_k: return {blocks::unpack_q4_k, write_q4_k};
    case Encoding::q5_k: return {blocks::unpack_q5_k, write_q5_k};
    case Encoding::q6_k: return {blocks::unpack_q6_k, write_q6_k};
    case Encoding::iq4_xs: return {blocks::unpack_iq4_xs, write_iq4_xs};
    case Encoding::mxfp4: return {blocks::unpack_mxfp4, write_mxfp4};
    case Encoding::q4_0:
    case Encoding::iq4_nl:
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16: break;
  }
  return {blocks::unpack_q4_0, write_q4_0};
}

/// What an integer stands for before it is scaled. Ascends with q, but for mxfp4, where it is the magnitude.
float value_of(Encoding encoding, unsigned q) {
  const auto whole = static_cast<float>(q);
  switch (encoding) {
    case Encoding::q8_0: return whole - 128;
    case Encoding::q4_0: return whole - 8;
    case Encoding::q5_0: return whole - 16;
    case Encoding::q3_k: return whole - 4;
    case Encoding::q6_k: return whole - 32;
    case Encoding::iq4_nl:
    case Encoding::iq4_xs: return blocks::kIq4Values[q];
    case Encoding::mxfp4: return blocks::kFp4Doubled[q & 7];
    case Encoding::q4_1:
    case Encoding::q5_1:
    case Encoding::q4_k:
    case Encoding::q5_k:
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16: break;
  }
  return whole;
}

/// The largest magnitude of scale * value + shift over n integers: that of the smallest or of the largest of them.
float run_largest(Encoding encoding, const std::uint8_t* q, std::int64_t n, float scale, float shift) {
  const std::uint8_t mask = encoding == Encoding::mxfp4 ? 7 : 255;
  std::uint8_t least = 255, most = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint8_t value = q[i] & mask;
    least = std::min(least, value), most = std::max(most, value);
  }
  return std::max(std::fabs(scale * value_of(encoding, least) + shift),
                  std::fabs(scale * value_of(encoding, most) + shift));
}

bool is_finite_f16(std::uint16_t bits) { return (bits & 0x7c00) != 0x7c00; }

}  // namespace

ReadBlock block_reader(Encoding encoding) { return access_to(encoding).read; }
WriteBlock block_writer(Encoding encoding) { return access_to(encoding).write; }

float block_largest(Encoding encoding, const Parts& parts) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (encoding == Encoding::mxfp4)
    return parts.e8m0 == 255 ? kInfinity : run_largest(encoding, parts.q, kRun, blocks::e8m0_half(parts.e8m0), 0);
  const bool has_minima = encoding == Encoding::q4_k || encoding == Encoding::q5_k;
  const bool has_m = has_minima || encoding == Encoding::q4_1 || encoding == Encoding::q5_1;
  if (!is_finite_f16(parts.d) || (has_m && !is_finite_f16(parts.m))) return kInfinity;
  const float d = f16_to_f32(parts.d), m = has_m ? f16_to_f32(parts.m) : 0;
  if (encoding_traits(encoding).block_values == kRun) return run_largest(encoding, parts.q, kRun, d, m);
  const std::int64_t run = encoding == Encoding::q3_k || encoding == Encoding::q6_k ? kShortRun : kRun;
  float largest = 0;
  for (std::int64_t j = 0; j < kLongBlock / run; ++j) {
    const float minimum = has_minima ? m * static_cast<float>(parts.minima[j]) : 0;
    largest = std::max(
        largest, run_largest(encoding, parts.q + j * run, run, d * static_cast<float>(parts.scales[j]), -minimum));
  }
  return largest;
}

}  // namespace qinfer::kernels
