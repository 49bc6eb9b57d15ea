// digest.cpp: see digest.h.
#include "digest.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "support.h"

namespace cli {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::uint32_t kSha256[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr std::array<std::uint32_t, 8> kBeginSha1 = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
constexpr std::array<std::uint32_t, 8> kBeginSha256 = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

std::uint32_t big_endian(const unsigned char* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

void add_sha256(const unsigned char* block, std::array<std::uint32_t, 8>& state) {
  std::uint32_t w[64];
  for (std::size_t t = 0; t < 16; ++t) w[t] = big_endian(block + 4 * t);
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t x = w[t - 15], y = w[t - 2];
    w[t] = w[t - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3) + w[t - 7] +
           (std::rotr(y, 17) ^ std::rotr(y, 19) ^ y >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t t1 =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kSha256[t] + w[t];
    const std::uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const std::uint32_t added[8] = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += added[i];
}

void add_sha1(const unsigned char* block, std::array<std::uint32_t, 8>& state) {
  std::uint32_t w[80];
  for (std::size_t t = 0; t < 16; ++t) w[t] = big_endian(block + 4 * t);
  for (std::size_t t = 16; t < 80; ++t) w[t] = std::rotl(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
  std::uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (std::size_t t = 0; t < 80; ++t) {
    const std::uint32_t f = t < 20 ? (b & c) ^ (~b & d) : t >= 40 && t < 60 ? (b & c) ^ (b & d) ^ (c & d) : b ^ c ^ d;
    const std::uint32_t k = t < 20 ? 0x5a827999 : t < 40 ? 0x6ed9eba1 : t < 60 ? 0x8f1bbcdc : 0xca62c1d6;
    const std::uint32_t next = std::rotl(a, 5) + f + e + k + w[t];
    e = d, d = c, c = std::rotl(b, 30), b = a, a = next;
  }
  const std::uint32_t added[5] = {a, b, c, d, e};
  for (std::size_t i = 0; i < 5; ++i) state[i] += added[i];
}

}  // namespace

Digest::Digest(Kind kind) : kind_(kind), state_(kind == Kind::sha1 ? kBeginSha1 : kBeginSha256) {}

void Digest::add_block(const unsigned char* block) {
  kind_ == Kind::sha1 ? add_sha1(block, state_) : add_sha256(block, state_);
}

void Digest::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t held = size_ % block_.size(), n = std::min(bytes.size(), block_.size() - held);
    std::memcpy(block_.data() + held, bytes.data(), n);
    size_ += n;
    bytes.remove_prefix(n);
    if (size_ % block_.size() == 0) add_block(block_.data());
  }
}

std::string Digest::hex() {
  const std::uint64_t bits = size_ * 8;
  add(std::string_view("\x80", 1));
  while (size_ % block_.size() != 56) add(std::string_view("\0", 1));
  for (int shift = 56; shift >= 0; shift -= 8) {
    const char byte = static_cast<char>(bits >> shift & 0xff);
    add(std::string_view(&byte, 1));
  }
  std::string text;
  for (std::size_t i = 0; i < (kind_ == Kind::sha1 ? 5u : 8u); ++i) text += format("%08x", state_[i]);
  return text;
}

}  // namespace cli
