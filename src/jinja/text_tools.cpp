// See text_tools.h.
#include "jinja/text_tools.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "jinja/compare.h"
#include "jinja/operators.h"
#include "jinja/print.h"
#include "text/utf8.h"

namespace qinfer::jinja {
namespace {

void add_cased(TextBuilder& out, const Cased& cased, Marks marks) {
  for (std::size_t i = 0; i < cased.size; ++i) out.add_char(cased.codes[i], marks);
}

bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

/// A capital sigma at the end of a word becomes a final one.
Cased lower_at(std::string_view text, std::size_t at, char32_t c) {
  if (c != 0x3A3) return to_lower(c);
  const bool after = at > 0 && is_cased(text::char_before(text, at).code);
  const bool before = at + 2 < text.size() && is_cased(text::char_at(text, at + 2).code);
  return {{after && !before ? char32_t{0x3C2} : char32_t{0x3C3}}, 1};
}

/// Full case folding, but for a few characters of rare scripts: what becomes several capitals is those in lower case.
Cased fold(char32_t c) {
  Cased cased = to_upper(c);
  if (cased.size == 1) return to_lower(c);
  for (std::size_t i = 0; i < cased.size; ++i) cased.codes[i] = to_lower(cased.codes[i]).codes[0];
  return cased;
}

Cased cased_at(std::string_view text, std::size_t at, char32_t c, Case wanted, bool begins_word) {
  switch (wanted) {
    case Case::upper: return to_upper(c);
    case Case::lower: return lower_at(text, at, c);
    case Case::swapped: return is_upper(c) ? lower_at(text, at, c) : is_lower(c) ? to_upper(c) : Cased{{c}, 1};
    case Case::capitalized: return at == 0 ? to_title(c) : lower_at(text, at, c);
    case Case::folded: return fold(c);
    case Case::title: return begins_word ? to_title(c) : lower_at(text, at, c);
  }
  return {};
}

bool holds(std::string_view chars, char32_t code) {
  for (std::size_t i = 0; i < chars.size();) {
    const text::Char c = text::char_at(chars, i);
    if (c.code == code) return true;
    i += c.size;
  }
  return false;
}

/// Without white space at its ends.
std::string_view trimmed(Run& run, std::string_view text) {
  while (!text.empty() && run.goes_on()) {
    const text::Char c = text::char_at(text, 0);
    if (!is_space(c.code)) break;
    text.remove_prefix(c.size);
  }
  while (!text.empty() && run.goes_on()) {
    const text::Char c = text::char_before(text, text.size());
    if (!is_space(c.code)) break;
    text.remove_suffix(c.size);
  }
  return text;
}

std::size_t size_at(const Text& text, std::size_t at) {
  return text::utf8_length(static_cast<std::uint8_t>(text.data[at]));
}

}  // namespace

Value change_case(Run& run, const Text& text, Case wanted) {
  TextBuilder out(run);
  run.charge(text.size / 4);
  bool in_word = false;
  for (std::size_t i = 0; i < text.size && !run.failed();) {
    const text::Char c = text::char_at(text.view(), i);
    add_cased(out, cased_at(text.view(), i, c.code, wanted, !in_word), text.marks_at(i));
    in_word = is_cased(c.code);
    i += c.size;
  }
  return out.finish(text.markup);
}

Value title_words(Run& run, const Text& text) {
  TextBuilder out(run);
  run.charge(text.size / 4);
  bool in_word = false;
  std::size_t rest = 0;  // where the word goes on after its first character
  for (std::size_t i = 0; i < text.size && !run.failed();) {
    const text::Char c = text::char_at(text.view(), i);
    const bool separates =
        is_space(c.code) || c.code == '-' || c.code == '(' || c.code == '{' || c.code == '[' || c.code == '<';
    if (!in_word) rest = i + c.size;
    add_cased(out, in_word ? lower_at(text.view().substr(rest), i - rest, c.code) : to_upper(c.code), text.marks_at(i));
    in_word = !separates;
    i += c.size;
  }
  return out.finish(text.markup);
}

Value strip(Run& run, const Text& text, const Text* chars, bool left, bool right) {
  std::size_t begin = 0, end = text.size;
  const std::string_view view = text.view();
  const auto goes = [&](char32_t code) {
    if (chars == nullptr) return is_space(code);
    run.charge(chars->size / 8);
    return holds(chars->view(), code);
  };
  while (left && begin < end && !run.failed()) {
    const text::Char c = text::char_at(view, begin);
    if (!goes(c.code)) break;
    begin += c.size;
  }
  while (right && end > begin && !run.failed()) {
    const text::Char c = text::char_before(view, end);
    if (!goes(c.code)) break;
    end -= c.size;
  }
  run.charge((text.size - (end - begin)) / 8);
  return run.part(text, begin, end - begin);
}

Value replace(Run& run, const Text& text, const Text& from, const Text& to, std::int64_t n, bool markup) {
  if (n < 0) n = INT64_MAX;
  TextBuilder out(run);
  std::size_t at = 0;
  if (from.size == 0) {  // between all characters
    for (; n != 0 && !run.failed(); --n) {
      out.add(to);
      if (at >= text.size || !run.charge(1)) break;
      out.add(text, at, size_at(text, at));
      at += size_at(text, at);
    }
  } else {
    const Finder finder(run, from.view());
    for (; n != 0 && run.charge(1); --n) {
      const std::size_t found = finder.find(text.view(), at);
      if (found == std::string_view::npos) break;
      out.add(text, at, found - at);
      out.add(to);
      at = found + from.size;
    }
  }
  if (at < text.size) out.add(text, at, text.size - at);
  return out.finish(markup);
}

namespace {

Value split_words(Run& run, const Text& text, std::int64_t n) {
  ListBuilder parts(run);
  const std::string_view view = text.view();
  run.charge(text.size / 8);
  for (std::size_t at = skip_space(view, 0); at < text.size && !run.failed(); --n) {
    std::size_t end = at;
    if (n == 0) {
      end = text.size;
    } else {
      while (end < text.size && !is_space(text::char_at(view, end).code) && run.goes_on()) end += size_at(text, end);
    }
    parts.add(run.part(text, at, end - at));
    at = n == 0 ? text.size : skip_space(view, end);
  }
  return parts.finish(text.any);
}

Value split_words_from_right(Run& run, const Text& text, std::int64_t n) {
  ListBuilder parts(run);
  const std::string_view view = text.view();
  run.charge(text.size / 8);
  for (std::size_t end = skip_space_back(view, text.size); end > 0 && !run.failed(); --n) {
    std::size_t begin = end;
    if (n == 0) {
      begin = 0;
    } else {
      while (begin > 0) {
        const text::Char c = text::char_before(view, begin);
        if (is_space(c.code) || !run.goes_on()) break;
        begin -= c.size;
      }
    }
    parts.add(run.part(text, begin, end - begin));
    end = n == 0 ? 0 : skip_space_back(view, begin);
  }
  std::reverse(parts.items().begin(), parts.items().end());
  return parts.finish(text.any);
}

}  // namespace

Value split(Run& run, const Text& text, const Text* separator, std::int64_t n, bool from_right) {
  const bool is_bounded = n >= 0;
  if (!is_bounded) n = INT64_MAX;
  if (separator == nullptr) return from_right ? split_words_from_right(run, text, n) : split_words(run, text, n);
  if (separator->size == 0) return run.fail("empty separator");
  ListBuilder parts(run);
  if (from_right && is_bounded) {
    // The last n separators, each found backwards.
    std::size_t end = text.size;
    for (; n > 0 && run.charge(1); --n) {
      // Searching backwards may compare the separator at each place.
      if (!run.charge((end / 16 + 1) * (separator->size / 16 + 1))) break;
      const std::size_t found = text.view().substr(0, end).rfind(separator->view());
      if (found == std::string_view::npos) break;
      parts.add(run.part(text, found + separator->size, end - found - separator->size));
      end = found;
    }
    parts.add(run.part(text, 0, end));
    std::reverse(parts.items().begin(), parts.items().end());
    return parts.finish(text.any);
  }
  const Finder finder(run, separator->view());
  std::size_t at = 0;
  for (; n != 0 && run.charge(1); --n) {
    const std::size_t found = finder.find(text.view(), at);
    if (found == std::string_view::npos) break;
    parts.add(run.part(text, at, found - at));
    at = found + separator->size;
  }
  parts.add(run.part(text, at, text.size - at));
  return parts.finish(text.any);
}

Value split_lines(Run& run, const Text& text, bool keep_ends) {
  ListBuilder lines(run);
  run.charge(text.size / 8);
  for (std::size_t at = 0; at < text.size && !run.failed();) {
    std::size_t end = at;
    while (end < text.size && !is_line_end(text::char_at(text.view(), end).code) && run.goes_on())
      end += size_at(text, end);
    std::size_t after = end;
    if (end < text.size) after += text.view().substr(end).starts_with("\r\n") ? 2 : size_at(text, end);
    lines.add(run.part(text, at, (keep_ends ? after : end) - at));
    at = after;
  }
  return lines.finish(text.any);
}

Value join(Run& run, const Text& separator, const List& items, bool convert) {
  TextBuilder out(run);
  for (std::size_t i = 0; i < items.size && run.charge(1); ++i) {
    const Value& item = items.items[i];
    if (i > 0) out.add(separator);
    if (!item.is_text() && !convert)
      return run.fail(format_text("sequence item {}: expected str instance, {} found", i, type_name(item)));
    if (separator.markup && !convert)
      out.add(*escape_html(run, item).text);
    else
      write_text(run, out, item);
  }
  return out.finish(separator.markup && !convert);
}

Value justify(Run& run, const Text& text, std::int64_t width, const Text& fill, int side) {
  const auto size = static_cast<std::int64_t>(count_chars(text.view()));
  run.charge(text.size / 64);
  if (width <= size) return text_value(&text);
  const auto missing = static_cast<std::uint64_t>(width - size);
  // Where both sides cannot have the same, Python gives the left one more if the width is odd.
  const std::uint64_t left = side < 0   ? 0
                             : side > 0 ? missing
                                        : missing / 2 + (missing & static_cast<std::uint64_t>(width) & 1);
  TextBuilder out(run);
  out.pad(left, fill.view(), fill.any);
  out.add(text);
  out.pad(missing - left, fill.view(), fill.any);
  return out.finish(text.markup);
}

Value indent(Run& run, const Text& text, const Text& indention, bool first, bool blank) {
  TextBuilder joined(run);
  joined.add(text);
  joined.add("\n", 0);
  const Value lines = split_lines(run, *joined.finish().text, true);
  Marks newline = 0;  // those of the end of the line before
  TextBuilder out(run);
  if (first) out.add(indention);
  for (std::size_t i = 0; i < lines.list->size && run.charge(1); ++i) {
    const Text& line = *lines.list->items[i].text;
    std::size_t end = line.size - text::char_before(line.view(), line.size).size;
    if (line.view().ends_with("\r\n")) end = line.size - 2;
    if (i > 0) out.add("\n", newline);
    if (i > 0 && (blank || end > 0)) out.add(indention);
    out.add(line, 0, end);
    newline = line.marks_at(end);
  }
  return out.finish(text.markup);
}

std::optional<std::int64_t> parse_integer(Run& run, std::string_view text, std::int64_t base) {
  if (!run.charge_bytes(text.size())) return std::nullopt;
  text = trimmed(run, text);
  OpenBytes open(run);
  std::string digits;
  if (!open.make_room(digits, text.size())) return std::nullopt;
  if (text.starts_with('-') || text.starts_with('+')) {
    if (text.front() == '-') digits += '-';
    text.remove_prefix(1);
  }
  if (text.size() > 2 && text[0] == '0') {
    const char kind = static_cast<char>(text[1] | 0x20);
    const std::int64_t named = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (named != 0 && (base == named || base == 0)) {
      base = named;
      text.remove_prefix(2);
      if (text.starts_with('_')) text.remove_prefix(1);
    }
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36) return std::nullopt;
  for (std::size_t i = 0; i < text.size() && run.goes_on(); ++i) {
    if (text[i] != '_')
      digits += text[i];
    else if (i == 0 || i + 1 == text.size() || text[i - 1] == '_')
      return std::nullopt;
  }
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value, static_cast<int>(base));
  if (text.empty() || parsed.ptr != end || parsed.ec == std::errc::invalid_argument) return std::nullopt;
  if (parsed.ec == std::errc::result_out_of_range)
    run.fail("the text is an integer beyond 64 bits, which is the most", Code::unsupported);
  return value;
}

std::optional<double> parse_number(Run& run, std::string_view text) {
  if (!run.charge_bytes(text.size())) return std::nullopt;
  text = trimmed(run, text);
  OpenBytes open(run);
  std::string digits;
  if (!open.make_room(digits, text.size())) return std::nullopt;
  for (std::size_t i = 0; i < text.size() && run.goes_on(); ++i) {
    const auto is_digit_at = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (text[i] == '_' && i > 0 && is_digit_at(i - 1) && is_digit_at(i + 1)) continue;
    digits += text[i];
  }
  const char* begin = digits.data() + (digits.starts_with('+') ? 1 : 0);
  const char* end = digits.data() + digits.size();
  if (digits.starts_with("+-") || begin == end) return std::nullopt;
  double value = 0;
  const auto parsed = std::from_chars(begin, end, value);
  if (parsed.ptr != end || parsed.ec == std::errc::invalid_argument || digits.find("nan(") != digits.npos)
    return std::nullopt;
  if (parsed.ec != std::errc::result_out_of_range) return value;
  // from_chars does not say which end of the range: a number with digits before its point, or a positive exponent, is
  // the large one.
  const std::size_t e = digits.find_first_of("eE");
  const bool is_small = e != digits.npos && digits.find('-', e) != digits.npos;
  const double sign = digits.starts_with('-') ? -1 : 1;
  return sign * (is_small ? 0.0 : HUGE_VAL);
}

}  // namespace qinfer::jinja
