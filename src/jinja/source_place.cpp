// See source_place.h.
#include "jinja/source_place.h"

#include <algorithm>

#include "base/format.h"
#include "text/utf8.h"

namespace qinfer::jinja {
namespace {

constexpr std::size_t kQuote = 100;  // bytes of a line that are quoted at most

bool is_inside_char(std::string_view text, std::size_t i) {
  return i < text.size() && text::utf8_is_continuation(static_cast<std::uint8_t>(text[i]));
}

/// The part of the line around `at`, cut between characters.
std::string quote_line(std::string_view line, std::size_t at) {
  std::size_t begin = line.size() <= kQuote || at < kQuote / 2 ? 0 : at - kQuote / 2;
  while (begin > 0 && is_inside_char(line, begin)) --begin;
  std::size_t end = std::min(line.size(), begin + kQuote);
  while (end > begin && is_inside_char(line, end)) --end;
  return format_text("{}{}{}", begin > 0 ? "..." : "", line.substr(begin, end - begin), end < line.size() ? "..." : "");
}

}  // namespace

Place find_place(std::string_view source, std::size_t offset) {
  offset = std::min(offset, source.size());
  Place place;
  const std::string_view before = source.substr(0, offset);
  place.line = 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  const std::size_t begin = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
  const std::string_view line = source.substr(begin, std::min(source.find('\n', begin), source.size()) - begin);
  for (std::size_t i = begin; i < offset; ++i) place.column += is_inside_char(source, i) ? 0 : 1;
  place.quote = quote_line(line, offset - begin);
  return place;
}

std::string place_message(const Place& place, std::string_view what) {
  return format_text("chat template, line {}, column {}, in \"{}\": {}", place.line, place.column, place.quote, what);
}

}  // namespace qinfer::jinja
