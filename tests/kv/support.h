// What the tests of sessions over a shared KV cache have in common: tokens that are the same every time, and the
// comparison of logits bit by bit.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace qinfer::test {

inline std::vector<std::int32_t> tokens_of(std::size_t n, unsigned seed) {
  std::vector<std::int32_t> tokens(n);
  for (auto& token : tokens) {
    seed = seed * 1664525u + 1013904223u;
    token = static_cast<std::int32_t>((seed >> 8) % 300);  // the vocabulary of TinySpec
  }
  return tokens;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace qinfer::test
