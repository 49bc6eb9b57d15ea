// digest.h: SHA-1 and SHA-256 (FIPS 180-4), by which files of the Hugging Face hub are named.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cli {

/// The digest of a text that comes in pieces.
class Digest {
 public:
  enum class Kind { sha1, sha256 };
  explicit Digest(Kind kind);

  void add(std::string_view bytes);
  /// In lower-case hexadecimal digits; nothing is to be added after it.
  std::string hex();

 private:
  void add_block(const unsigned char* block);

  Kind kind_;
  std::array<std::uint32_t, 8> state_;
  std::array<unsigned char, 64> block_{};  // its first size_ % 64 bytes wait for the others
  std::uint64_t size_ = 0;
};

}  // namespace cli
