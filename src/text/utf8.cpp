// See utf8.h.
#include "text/utf8.h"

#include <cstring>

namespace qinfer::text {

std::size_t find_invalid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  std::size_t i = 0;
  while (i < text.size()) {
    std::uint64_t word = 0;
    while (i + sizeof word <= text.size()) {  // eight ASCII characters at a time
      std::memcpy(&word, bytes + i, sizeof word);
      if ((word & 0x8080808080808080U) != 0) break;
      i += sizeof word;
    }
    if (i == text.size()) break;
    const unsigned length = utf8_length(bytes[i]);
    if (length == 0 || length > text.size() - i) return i;
    for (unsigned k = 1; k < length; ++k)
      if (!utf8_continues(bytes[i], k, bytes[i + k])) return i;
    i += length;
  }
  return text.size();
}

void append_char(std::string& out, char32_t code) {
  const auto tail = [&](unsigned shift) { out.push_back(static_cast<char>(0x80 | (code >> shift & 0x3F))); };
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | code >> 12));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace qinfer::text
