// The byte-level alphabet of GPT-2: every byte is written as one printable character, so that a vocabulary of arbitrary
// bytes can be spelled in JSON. Printable Latin-1 bytes stand for themselves, the 68 others are U+0100 to U+0143.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace qinfer::text {

inline constexpr bool is_byte_level_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

inline constexpr std::array<char16_t, 256> make_byte_level_alphabet() {
  std::array<char16_t, 256> table{};
  char16_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte)
    table[byte] = is_byte_level_printable(byte) ? static_cast<char16_t>(byte) : next++;
  return table;
}

/// The character that stands for each byte.
inline constexpr std::array<char16_t, 256> kByteLevelAlphabet = make_byte_level_alphabet();
inline constexpr char32_t kByteLevelEnd = 0x144;  // one more than its largest character

/// Appends `bytes` (any bytes) in byte-level spelling.
void append_byte_level(std::string_view bytes, std::string& out);
/// The same to where there is room for two bytes each; returns the end.
char* write_byte_level(std::string_view bytes, char* to);
/// Appends the bytes that `spelling` (valid UTF-8) stands for; false, and nothing appended, if it has a character
/// outside the alphabet.
bool append_byte_level_decoded(std::string_view spelling, std::string& out);

}  // namespace qinfer::text
