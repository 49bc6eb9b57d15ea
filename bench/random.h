// Random numbers for weights and activations: the same in every bench and on every machine, and fast enough to fill
// gigabytes.
#pragma once

#include <cstdint>

namespace qinfer::bench {

/// xorshift64 (Marsaglia 2003).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(0x9e3779b97f4a7c15u * (seed + 1)) {}
  /// Nearly normal with deviation 1: the sum of four uniform numbers in [-1, 1] has a variance of 4/3.
  float normal() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    float sum = 0;
    for (int i = 0; i < 4; ++i)
      sum += static_cast<float>(static_cast<std::int16_t>(state_ >> (16 * i) & 0xffff)) / 32768.0f;
    return sum * 0.866f;
  }

 private:
  std::uint64_t state_;
};

}  // namespace qinfer::bench
