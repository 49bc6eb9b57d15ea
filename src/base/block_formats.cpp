// See block_formats.h. Comments give the offsets of fields in bytes; numbers of several bytes are little-endian.
#include "base/block_formats.h"

#include <bit>
#include <cstring>

#include "base/dtype.h"

namespace qinfer::blocks {
namespace {

std::uint16_t u16_at(const std::byte* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, 2);
  return bits;
}

std::uint32_t u32_at(const std::byte* at) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, 4);
  return bits;
}

std::uint8_t u8_at(const std::byte* at) { return static_cast<std::uint8_t>(*at); }

void nibbles(const std::byte* q, std::uint8_t* out) {
  for (std::int64_t j = 0; j < kRun; ++j) out[j] = nibble32(q, j);
}

/// Adds bit j of `high` to value j as its fifth bit.
void fifth_bits(std::uint32_t high, std::uint8_t* q) {
  for (std::uint32_t j = 0; j < kRun; ++j) q[j] = static_cast<std::uint8_t>(q[j] | (high >> j & 1) << 4);
}

/// Twelve bytes with eight pairs of a scale and a minimum, six bits each.
void six_bit_pairs(const std::byte* s, Parts& out) {
  for (std::int64_t j = 0; j < 4; ++j) {
    const std::uint8_t scale = u8_at(s + j), minimum = u8_at(s + j + 4), rest = u8_at(s + j + 8);
    out.scales[j] = static_cast<std::int8_t>(scale & 63);
    out.minima[j] = minimum & 63;
    out.scales[j + 4] = static_cast<std::int8_t>((rest & 15) | (scale >> 6) << 4);
    out.minima[j + 4] = static_cast<std::uint8_t>(rest >> 4 | (minimum >> 6) << 4);
  }
}

/// Nibbles of a long block: 64 values share 32 bytes, low nibbles first.
void long_nibbles(const std::byte* q, std::uint8_t* out) {
  for (std::int64_t part = 0; part < 4; ++part)
    for (std::int64_t i = 0; i < 32; ++i) {
      const std::uint8_t byte = u8_at(q + part * 32 + i);
      out[part * 64 + i] = byte & 15;
      out[part * 64 + 32 + i] = byte >> 4;
    }
}

/// Offsets of the values' integers: the value of q is a multiple of q - offset.
constexpr int kQ8 = 128, kQ4 = 8, kQ5 = 16, kQ3K = 4, kQ6K = 32;

/// d * (q - offset) for a block of 32.
template <void (*unpack)(const std::byte*, Parts&), int offset>
void widen_scaled(const std::byte* block, float* out) {
  Parts parts;
  unpack(block, parts);
  const float d = f16_to_f32(parts.d);
  for (std::int64_t i = 0; i < kRun; ++i) out[i] = d * static_cast<float>(parts.q[i] - offset);
}

/// d * q + m.
template <void (*unpack)(const std::byte*, Parts&)>
void widen_with_minimum(const std::byte* block, float* out) {
  Parts parts;
  unpack(block, parts);
  const float d = f16_to_f32(parts.d), m = f16_to_f32(parts.m);
  for (std::int64_t i = 0; i < kRun; ++i) out[i] = d * static_cast<float>(parts.q[i]) + m;
}

/// What an integer stands for in the formats of long blocks without minima.
template <int offset>
int less_offset(std::uint8_t q) {
  return q - offset;
}
int iq4_value(std::uint8_t q) { return kIq4Values[q]; }

/// (d * sc[j]) * value(q) for a long block with a scale for `run` values.
template <void (*unpack)(const std::byte*, Parts&), std::int64_t run, int (*value)(std::uint8_t)>
void widen_long(const std::byte* block, float* out) {
  Parts parts;
  unpack(block, parts);
  const float d = f16_to_f32(parts.d);
  for (std::int64_t j = 0; j < kLongBlock / run; ++j) {
    const float scale = d * static_cast<float>(parts.scales[j]);
    for (std::int64_t i = j * run; i < (j + 1) * run; ++i) out[i] = scale * static_cast<float>(value(parts.q[i]));
  }
}

/// d * sc[j] * q - dmin * m[j].
template <void (*unpack)(const std::byte*, Parts&)>
void widen_long_with_minima(const std::byte* block, float* out) {
  Parts parts;
  unpack(block, parts);
  const float d = f16_to_f32(parts.d), dmin = f16_to_f32(parts.m);
  for (std::int64_t j = 0; j < kLongBlock / kRun; ++j) {
    const float scale = d * static_cast<float>(parts.scales[j]), minimum = dmin * static_cast<float>(parts.minima[j]);
    for (std::int64_t i = j * kRun; i < (j + 1) * kRun; ++i) out[i] = scale * static_cast<float>(parts.q[i]) - minimum;
  }
}

}  // namespace

void unpack_q8_0(const std::byte* block, Parts& out) {  // d 0, q 2
  out.d = u16_at(block);
  for (std::int64_t j = 0; j < kRun; ++j) out.q[j] = u8_at(block + 2 + j) ^ 0x80;
}

void unpack_q4_0(const std::byte* block, Parts& out) {  // d 0, nibbles 2
  out.d = u16_at(block);
  nibbles(block + 2, out.q);
}

void unpack_q4_1(const std::byte* block, Parts& out) {  // d 0, m 2, nibbles 4
  out.d = u16_at(block);
  out.m = u16_at(block + 2);
  nibbles(block + 4, out.q);
}

void unpack_q5_0(const std::byte* block, Parts& out) {  // d 0, fifth bits 2, nibbles 6
  out.d = u16_at(block);
  nibbles(block + 6, out.q);
  fifth_bits(u32_at(block + 2), out.q);
}

void unpack_q5_1(const std::byte* block, Parts& out) {  // d 0, m 2, fifth bits 4, nibbles 8
  out.d = u16_at(block);
  out.m = u16_at(block + 2);
  nibbles(block + 8, out.q);
  fifth_bits(u32_at(block + 4), out.q);
}

void unpack_q3_k(const std::byte* block, Parts& out) {  // third bits 0, low bits 32, scales 96, d 108
  out.d = u16_at(block + 108);
  for (std::int64_t j = 0; j < 16; ++j) {
    const int low = u8_at(block + 96 + j % 8) >> (j < 8 ? 0 : 4) & 15;
    const int high = u8_at(block + 104 + j % 4) >> 2 * (j / 4) & 3;
    out.scales[j] = static_cast<std::int8_t>((low | high << 4) - 32);
  }
  for (std::int64_t i = 0; i < kLongBlock; ++i) {
    const int low = u8_at(block + 32 + i / 128 * 32 + i % 32) >> 2 * (i % 128 / 32) & 3;
    const int high = u8_at(block + i % 32) >> i / 32 & 1;
    out.q[i] = static_cast<std::uint8_t>(low | high << 2);
  }
}

void unpack_q4_k(const std::byte* block, Parts& out) {  // d 0, dmin 2, scales and minima 4, nibbles 16
  out.d = u16_at(block);
  out.m = u16_at(block + 2);
  six_bit_pairs(block + 4, out);
  long_nibbles(block + 16, out.q);
}

void unpack_q5_k(const std::byte* block, Parts& out) {  // d 0, dmin 2, scales and minima 4, fifth bits 16, nibbles 48
  out.d = u16_at(block);
  out.m = u16_at(block + 2);
  six_bit_pairs(block + 4, out);
  long_nibbles(block + 48, out.q);
  for (std::int64_t i = 0; i < kLongBlock; ++i)
    out.q[i] = static_cast<std::uint8_t>(out.q[i] | (u8_at(block + 16 + i % 32) >> i / 32 & 1) << 4);
}

void unpack_q6_k(const std::byte* block, Parts& out) {  // low nibbles 0, high bits 128, scales 192, d 208
  out.d = u16_at(block + 208);
  std::memcpy(out.scales, block + 192, 16);
  for (std::int64_t half = 0; half < 2; ++half)
    for (std::int64_t i = 0; i < 32; ++i) {
      const std::uint8_t first = u8_at(block + half * 64 + i), second = u8_at(block + half * 64 + 32 + i);
      const std::uint8_t high = u8_at(block + 128 + half * 32 + i);
      std::uint8_t* q = out.q + half * 128 + i;
      q[0] = static_cast<std::uint8_t>((first & 15) | (high & 3) << 4);
      q[32] = static_cast<std::uint8_t>((second & 15) | (high >> 2 & 3) << 4);
      q[64] = static_cast<std::uint8_t>(first >> 4 | (high >> 4 & 3) << 4);
      q[96] = static_cast<std::uint8_t>(second >> 4 | (high >> 6) << 4);
    }
}

void unpack_iq4_xs(const std::byte* block, Parts& out) {  // d 0, high bits of scales 2, low bits 4, nibbles 8
  out.d = u16_at(block);
  const std::uint32_t high = u16_at(block + 2);
  for (std::uint32_t j = 0; j < 8; ++j) {
    const std::uint32_t low = u32_at(block + 4) >> 4 * j & 15;
    out.scales[j] = static_cast<std::int8_t>(static_cast<int>(low | (high >> 2 * j & 3) << 4) - 32);
    nibbles(block + 8 + 16 * j, out.q + kRun * j);
  }
}

void unpack_mxfp4(const std::byte* block, Parts& out) {  // e 0, nibbles 1
  out.e8m0 = u8_at(block);
  nibbles(block + 1, out.q);
}

namespace {

/// Where a block has its f16 scales; -1: it has no more of them.
struct ScalePlaces {
  int first = -1, second = -1;
};
ScalePlaces scale_places(Encoding encoding) {
  switch (encoding) {
    case Encoding::q8_0:
    case Encoding::q4_0:
    case Encoding::q5_0:
    case Encoding::iq4_nl:
    case Encoding::iq4_xs: return {0, -1};
    case Encoding::q4_1:
    case Encoding::q5_1:
    case Encoding::q4_k:
    case Encoding::q5_k: return {0, 2};
    case Encoding::q3_k: return {108, -1};
    case Encoding::q6_k: return {208, -1};
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16:
    case Encoding::mxfp4: break;
  }
  return {};
}

bool is_finite_f16(std::uint16_t bits) { return (bits & 0x7c00) != 0x7c00; }

}  // namespace

std::int64_t find_bad_scale(Encoding encoding, const std::byte* blocks, std::int64_t n) {
  const std::int64_t bytes = encoding_traits(encoding).block_bytes;
  const ScalePlaces places = scale_places(encoding);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::byte* block = blocks + i * bytes;
    if (encoding == Encoding::mxfp4 && u8_at(block) == 255) return i;
    if (places.first >= 0 && !is_finite_f16(u16_at(block + places.first))) return i;
    if (places.second >= 0 && !is_finite_f16(u16_at(block + places.second))) return i;
  }
  return -1;
}

float e8m0_half(std::uint8_t e) { return std::bit_cast<float>(e < 2 ? 0x200000u << e : (e - 1u) << 23); }

void widen_q8_0(const std::byte* block, float* out) { widen_scaled<unpack_q8_0, kQ8>(block, out); }
void widen_q4_0(const std::byte* block, float* out) { widen_scaled<unpack_q4_0, kQ4>(block, out); }
void widen_q5_0(const std::byte* block, float* out) { widen_scaled<unpack_q5_0, kQ5>(block, out); }
void widen_q4_1(const std::byte* block, float* out) { widen_with_minimum<unpack_q4_1>(block, out); }
void widen_q5_1(const std::byte* block, float* out) { widen_with_minimum<unpack_q5_1>(block, out); }
void widen_q3_k(const std::byte* block, float* out) {
  widen_long<unpack_q3_k, kShortRun, less_offset<kQ3K>>(block, out);
}
void widen_q6_k(const std::byte* block, float* out) {
  widen_long<unpack_q6_k, kShortRun, less_offset<kQ6K>>(block, out);
}
void widen_q4_k(const std::byte* block, float* out) { widen_long_with_minima<unpack_q4_k>(block, out); }
void widen_q5_k(const std::byte* block, float* out) { widen_long_with_minima<unpack_q5_k>(block, out); }

void widen_iq4_nl(const std::byte* block, float* out) {
  const float d = f16_to_f32(u16_at(block));
  for (std::int64_t i = 0; i < kRun; ++i) out[i] = d * static_cast<float>(kIq4Values[nibble32(block + 2, i)]);
}

void widen_iq4_xs(const std::byte* block, float* out) { widen_long<unpack_iq4_xs, kRun, iq4_value>(block, out); }

void widen_mxfp4(const std::byte* block, float* out) {
  const float d = e8m0_half(u8_at(block));
  for (std::int64_t i = 0; i < kRun; ++i) out[i] = d * static_cast<float>(kFp4Doubled[nibble32(block + 1, i)]);
}

}  // namespace qinfer::blocks
