// See string_literal.h.
#include "jinja/string_literal.h"

#include <charconv>

#include "text/utf8.h"

namespace qinfer::jinja {
namespace {

/// The character of an escape that stands for itself; -1 if there is none.
int simple_escape(char c) {
  switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case 'a': return '\a';
    case 'b': return '\b';
    case 'f': return '\f';
    case 'v': return '\v';
    case '\\':
    case '\'':
    case '"': return c;
    default: return -1;
  }
}

/// `digits` characters of a hexadecimal number.
const char* append_hex(std::string_view& rest, std::size_t digits, std::string& out) {
  std::uint32_t code = 0;
  const char* end = rest.data() + std::min(digits, rest.size());
  const auto parsed = std::from_chars(rest.data(), end, code, 16);
  if (rest.size() < digits || parsed.ptr != end || parsed.ec != std::errc())
    return "the escape is cut short; \\x takes two hexadecimal digits, \\u four and \\U eight";
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
    return "the escape is no character; surrogates and what is beyond U+10FFFF are none";
  text::append_char(out, code);
  rest.remove_prefix(digits);
  return nullptr;
}

}  // namespace

const char* read_string_literal(std::string_view literal, std::string& out) {
  while (!literal.empty()) {
    const char c = literal.front();
    literal.remove_prefix(1);
    if (c != '\\' || literal.empty()) {
      out += c;
      continue;
    }
    const char escape = literal.front();
    const char* problem = nullptr;
    if (const int simple = simple_escape(escape); simple >= 0) {
      literal.remove_prefix(1);
      out += static_cast<char>(simple);
    } else if (escape == '\n') {
      literal.remove_prefix(1);
    } else if (escape == 'x' || escape == 'u' || escape == 'U') {
      literal.remove_prefix(1);
      problem = append_hex(literal, escape == 'x' ? 2 : escape == 'u' ? 4 : 8, out);
    } else if (escape >= '0' && escape <= '7') {
      std::uint32_t code = 0;
      for (int i = 0; i < 3 && !literal.empty() && literal.front() >= '0' && literal.front() <= '7'; ++i) {
        code = code * 8 + static_cast<std::uint32_t>(literal.front() - '0');
        literal.remove_prefix(1);
      }
      text::append_char(out, code);
    } else if (escape == 'N') {
      problem = "characters by name (\\N{...}) are refused; \\u and four hexadecimal digits name one";
    } else {
      out += '\\';  // an unknown escape is none
    }
    if (problem != nullptr) return problem;
  }
  return nullptr;
}

}  // namespace qinfer::jinja
