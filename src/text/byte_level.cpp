// See byte_level.h.
#include "text/byte_level.h"

#include "text/utf8.h"

namespace qinfer::text {
namespace {

constexpr std::array<std::int16_t, kByteLevelEnd> make_inverse() {
  std::array<std::int16_t, kByteLevelEnd> table{};
  for (auto& entry : table) entry = -1;
  for (unsigned byte = 0; byte < 256; ++byte) table[kByteLevelAlphabet[byte]] = static_cast<std::int16_t>(byte);
  return table;
}
constexpr std::array<std::int16_t, kByteLevelEnd> kInverse = make_inverse();

}  // namespace

char* write_byte_level(std::string_view bytes, char* to) {
  for (const char c : bytes) {
    const char16_t code = kByteLevelAlphabet[static_cast<std::uint8_t>(c)];
    if (code < 0x80) {
      *to++ = static_cast<char>(code);
    } else {
      *to++ = static_cast<char>(0xC0 | code >> 6);
      *to++ = static_cast<char>(0x80 | (code & 0x3F));
    }
  }
  return to;
}

void append_byte_level(std::string_view bytes, std::string& out) {
  const std::size_t begin = out.size();
  out.resize(begin + 2 * bytes.size());  // no character of the alphabet takes more than two bytes
  out.resize(static_cast<std::size_t>(write_byte_level(bytes, out.data() + begin) - out.data()));
}

bool append_byte_level_decoded(std::string_view spelling, std::string& out) {
  const std::size_t begin = out.size();
  for (std::size_t i = 0; i < spelling.size();) {
    const Char c = char_at(spelling, i);
    if (c.code >= kByteLevelEnd || kInverse[c.code] < 0) {
      out.resize(begin);
      return false;
    }
    out.push_back(static_cast<char>(kInverse[c.code]));
    i += c.size;
  }
  return true;
}

}  // namespace qinfer::text
