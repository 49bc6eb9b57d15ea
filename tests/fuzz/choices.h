// The decisions of a fuzzer's input, taken from its bytes one after another: the same bytes always decide alike, and
// bytes that are no longer there decide for the first of what is possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace qinfer::fuzz {

class Choices {
 public:
  explicit Choices(std::string_view bytes) : bytes_(bytes) {}

  bool done() const { return bytes_.empty(); }
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return value;
  }
  /// Below n, which is 1 or more.
  std::size_t below(std::size_t n) {
    std::size_t value = byte();
    for (std::size_t range = 256; range < n; range *= 256) value = value * 256 + byte();
    return value % n;
  }
  bool one_of(std::size_t n) { return below(n) == n - 1; }
  std::uint64_t word() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  template <typename T, std::size_t n>
  const T& of(const T (&list)[n]) {
    return list[below(n)];
  }
  /// Up to n of the bytes that are left, as they are.
  std::string text(std::size_t n) {
    const std::string_view taken = bytes_.substr(0, n);
    bytes_.remove_prefix(taken.size());
    return std::string(taken);
  }

 private:
  std::string_view bytes_;
};

/// Bytes for runs without a fuzzer, the same for the same seed.
inline std::string random_bytes(std::uint64_t seed, std::size_t n) {
  std::string bytes(n, '\0');
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (char& c : bytes) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    c = static_cast<char>(state >> 32);
  }
  return bytes;
}

}  // namespace qinfer::fuzz
