// What Python says of characters: white space, classes and case, as the methods of str use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace qinfer::jinja {

/// str.isspace(): Unicode's White_Space and the four separators of ASCII.
bool is_space(char32_t c);
/// Where str.splitlines() ends a line.
bool is_line_end(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
inline bool is_alnum(char32_t c) { return is_alpha(c) || is_decimal(c) || is_digit(c) || is_numeric(c); }
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
/// Whether repr() writes it as it is.
bool is_printable(char32_t c);

/// Up to three characters, for one whose case is changed.
struct Cased {
  char32_t codes[3] = {};
  std::size_t size = 1;
};
Cased to_upper(char32_t c);
Cased to_title(char32_t c);
Cased to_lower(char32_t c);

/// Characters of valid UTF-8.
std::size_t count_chars(std::string_view text);
/// The offset of character `index`, which is at most the number of characters.
std::size_t char_offset(std::string_view text, std::size_t index);
/// Offsets of the text without white space at its ends.
std::size_t skip_space(std::string_view text, std::size_t from);
std::size_t skip_space_back(std::string_view text, std::size_t end);

}  // namespace qinfer::jinja
