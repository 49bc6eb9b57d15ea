// UTF-8 and the few facts about Unicode that need no tables: validation, decoding, white space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace qinfer::text {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

/// Bytes of the character that begins with `lead`: 1 to 4, or 0 if no character begins so.
inline unsigned utf8_length(std::uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

/// Whether `byte` may follow the first `size` bytes (`lead` first) of a character. This is where overlong forms,
/// surrogates and code points beyond U+10FFFF are refused: all of them show in the second byte.
inline bool utf8_continues(std::uint8_t lead, unsigned size, std::uint8_t byte) {
  std::uint8_t low = 0x80, high = 0xBF;
  if (size == 1) {
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  return byte >= low && byte <= high;
}

/// Whether a byte is not the first of its character.
inline bool utf8_is_continuation(std::uint8_t byte) { return (byte & 0xC0) == 0x80; }

/// The offset of the first byte that does not belong to a well-formed character; text.size() if there is none.
std::size_t find_invalid_utf8(std::string_view text);

struct Char {
  char32_t code;
  unsigned size;  // in bytes
};

/// The character at `offset`, which must be the start of one in valid UTF-8.
inline Char char_at(std::string_view text, std::size_t offset) {
  const auto* p = reinterpret_cast<const std::uint8_t*>(text.data()) + offset;
  const auto tail = [p](unsigned k) { return static_cast<char32_t>(p[k] & 0x3F); };
  if (p[0] < 0x80) return {p[0], 1};
  if (p[0] < 0xE0) return {static_cast<char32_t>(p[0] & 0x1F) << 6 | tail(1), 2};
  if (p[0] < 0xF0) return {static_cast<char32_t>(p[0] & 0x0F) << 12 | tail(1) << 6 | tail(2), 3};
  return {static_cast<char32_t>(p[0] & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
}
/// The character that ends at `offset` (> 0) of valid UTF-8.
inline Char char_before(std::string_view text, std::size_t offset) {
  do --offset;
  while (offset > 0 && (static_cast<std::uint8_t>(text[offset]) & 0xC0) == 0x80);
  return char_at(text, offset);
}

void append_char(std::string& out, char32_t code);

/// Unicode's White_Space property.
inline bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

}  // namespace qinfer::text
