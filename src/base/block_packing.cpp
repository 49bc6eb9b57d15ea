// See block_packing.h. Comments give the offsets of fields in bytes; numbers of several bytes are little-endian.
#include "base/block_packing.h"

#include <cstring>

namespace qinfer::blocks {
namespace {

void put_u16(std::uint16_t bits, std::byte* at) { std::memcpy(at, &bits, 2); }

std::byte byte_of(unsigned value) { return static_cast<std::byte>(value & 0xff); }

/// 32 values of four bits: the first 16 in the low nibbles.
void put_nibbles(const std::uint8_t* q, std::byte* out) {
  for (std::int64_t j = 0; j < 16; ++j) out[j] = byte_of((q[j] & 15u) | (q[j + 16] & 15u) << 4);
}

/// Bit 4 of value j becomes bit j.
void put_fifth_bits(const std::uint8_t* q, std::byte* out) {
  std::uint32_t high = 0;
  for (std::uint32_t j = 0; j < kRun; ++j) high |= (q[j] >> 4 & 1u) << j;
  std::memcpy(out, &high, 4);
}

/// Twelve bytes with eight pairs of a scale and a minimum, six bits each: the last four pairs have their high two bits
/// in the bytes of the first four.
void put_six_bit_pairs(const Parts& parts, std::byte* s) {
  for (std::int64_t j = 0; j < 4; ++j) {
    const unsigned scale = static_cast<std::uint8_t>(parts.scales[j]);
    const unsigned later = static_cast<std::uint8_t>(parts.scales[j + 4]);
    const unsigned minimum = parts.minima[j], later_minimum = parts.minima[j + 4];
    s[j] = byte_of((scale & 63) | (later >> 4 & 3) << 6);
    s[j + 4] = byte_of((minimum & 63) | (later_minimum >> 4 & 3) << 6);
    s[j + 8] = byte_of((later & 15) | (later_minimum & 15) << 4);
  }
}

/// Low nibbles of a long block: 64 values share 32 bytes, low nibbles first.
void put_long_nibbles(const std::uint8_t* q, std::byte* out) {
  for (std::int64_t part = 0; part < 4; ++part)
    for (std::int64_t i = 0; i < 32; ++i)
      out[part * 32 + i] = byte_of((q[part * 64 + i] & 15u) | (q[part * 64 + 32 + i] & 15u) << 4);
}

}  // namespace

void pack_q8_0(const Parts& parts, std::byte* block) {  // d 0, q 2
  put_u16(parts.d, block);
  for (std::int64_t j = 0; j < kRun; ++j) block[2 + j] = byte_of(parts.q[j] ^ 0x80u);
}

void pack_q4_0(const Parts& parts, std::byte* block) {  // d 0, nibbles 2
  put_u16(parts.d, block);
  put_nibbles(parts.q, block + 2);
}

void pack_q4_1(const Parts& parts, std::byte* block) {  // d 0, m 2, nibbles 4
  put_u16(parts.d, block);
  put_u16(parts.m, block + 2);
  put_nibbles(parts.q, block + 4);
}

void pack_q5_0(const Parts& parts, std::byte* block) {  // d 0, fifth bits 2, nibbles 6
  put_u16(parts.d, block);
  put_fifth_bits(parts.q, block + 2);
  put_nibbles(parts.q, block + 6);
}

void pack_q5_1(const Parts& parts, std::byte* block) {  // d 0, m 2, fifth bits 4, nibbles 8
  put_u16(parts.d, block);
  put_u16(parts.m, block + 2);
  put_fifth_bits(parts.q, block + 4);
  put_nibbles(parts.q, block + 8);
}

void pack_q3_k(const Parts& parts, std::byte* block) {  // third bits 0, low bits 32, scales 96, d 108
  std::memset(block, 0, 108);
  for (std::int64_t i = 0; i < kLongBlock; ++i) {
    block[i % 32] |= byte_of((parts.q[i] >> 2 & 1u) << i / 32);
    block[32 + i / 128 * 32 + i % 32] |= byte_of((parts.q[i] & 3u) << 2 * (i % 128 / 32));
  }
  for (std::int64_t j = 0; j < 16; ++j) {
    const auto scale = static_cast<unsigned>(parts.scales[j] + 32);
    block[96 + j % 8] |= byte_of((scale & 15) << (j < 8 ? 0 : 4));
    block[104 + j % 4] |= byte_of((scale >> 4 & 3) << 2 * (j / 4));
  }
  put_u16(parts.d, block + 108);
}

void pack_q4_k(const Parts& parts, std::byte* block) {  // d 0, dmin 2, scales and minima 4, nibbles 16
  put_u16(parts.d, block);
  put_u16(parts.m, block + 2);
  put_six_bit_pairs(parts, block + 4);
  put_long_nibbles(parts.q, block + 16);
}

void pack_q5_k(const Parts& parts, std::byte* block) {  // d 0, dmin 2, scales and minima 4, fifth bits 16, nibbles 48
  put_u16(parts.d, block);
  put_u16(parts.m, block + 2);
  put_six_bit_pairs(parts, block + 4);
  std::memset(block + 16, 0, 32);
  for (std::int64_t i = 0; i < kLongBlock; ++i) block[16 + i % 32] |= byte_of((parts.q[i] >> 4 & 1u) << i / 32);
  put_long_nibbles(parts.q, block + 48);
}

void pack_q6_k(const Parts& parts, std::byte* block) {  // low nibbles 0, high bits 128, scales 192, d 208
  for (std::int64_t half = 0; half < 2; ++half)
    for (std::int64_t i = 0; i < 32; ++i) {
      const std::uint8_t* q = parts.q + half * 128 + i;
      block[half * 64 + i] = byte_of((q[0] & 15u) | (q[64] & 15u) << 4);
      block[half * 64 + 32 + i] = byte_of((q[32] & 15u) | (q[96] & 15u) << 4);
      block[128 + half * 32 + i] =
          byte_of((q[0] >> 4 & 3u) | (q[32] >> 4 & 3u) << 2 | (q[64] >> 4 & 3u) << 4 | (q[96] >> 4 & 3u) << 6);
    }
  std::memcpy(block + 192, parts.scales, 16);
  put_u16(parts.d, block + 208);
}

}  // namespace qinfer::blocks
