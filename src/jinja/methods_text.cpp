// See builtins.h: the methods of texts.
#include <algorithm>
#include <array>

#include "jinja/argument.h"
#include "jinja/compare.h"
#include "jinja/operators.h"
#include "jinja/print.h"
#include "jinja/text_tools.h"
#include "text/utf8.h"

namespace qinfer::jinja {
namespace {

bool is_char_start(const Text& text, std::size_t at) {
  return at >= text.size || !text::utf8_is_continuation(static_cast<std::uint8_t>(text.data[at]));
}

template <Case wanted>
Value change(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<0> given(run, arguments, {}, 0);
  return given ? change_case(run, *self.text, wanted) : Value();
}

template <bool left, bool right>
Value strip_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"chars"}, 0);
  if (!given) return {};
  if (given.is_given(0) && !given[0].is_text())
    return run.fail(format_text("{} arg must be None or str", left && right ? "strip" : left ? "lstrip" : "rstrip"));
  return strip(run, *self.text, given.is_given(0) ? given[0].text : nullptr, left, right);
}

/// The part [start, end) of a text that a method looks at, as bytes. False where start is beyond it.
bool window(Run& run, const Text& text, const Value* start, const Value* end, std::size_t& from, std::size_t& to) {
  const auto size = static_cast<std::int64_t>(count_chars(text.view()));
  run.charge(text.size / 64);
  const auto place = [&](const Value* value, std::int64_t otherwise) {
    if (value == nullptr || value->is_none()) return otherwise;
    if (!value->is_integral()) run.fail("slice indices must be integers or None or have an __index__ method");
    const std::int64_t at = value->is_integral() ? value->as_integer() : 0;
    return at < 0 ? std::max<std::int64_t>(0, at < -size ? 0 : at + size) : at;
  };
  const std::int64_t first = place(start, 0), last = std::min(place(end, size), size);
  if (first > last) return false;
  from = char_offset(text.view(), static_cast<std::size_t>(first));
  to = from + char_offset(text.view().substr(from), static_cast<std::size_t>(last - first));
  return true;
}

/// startswith and endswith.
template <bool at_start>
Value has_affix(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<3> given(run, arguments, {"prefix", "start", "end"}, 1);
  if (!given) return {};
  const List one = {&given[0], 1};
  if (!given[0].is_text() && !given[0].is(Kind::tuple)) {
    return run.fail(format_text("{} first arg must be str or a tuple of str, not {}",
                                at_start ? "startswith" : "endswith", type_name(given[0])));
  }
  std::size_t from = 0, to = 0;
  const bool inside = window(run, *self.text, given.find(1), given.find(2), from, to);
  const std::string_view part = inside ? self.text->view().substr(from, to - from) : std::string_view();
  for (const Value& affix : given[0].is_text() ? one : *given[0].list) {
    if (!affix.is_text()) {
      return run.fail(format_text("tuple for {} must only contain str, not {}", at_start ? "startswith" : "endswith",
                                  type_name(affix)));
    }
    run.charge(affix.text->size / 64 + 1);
    const bool found = at_start ? part.starts_with(affix.text->view()) : part.ends_with(affix.text->view());
    if (inside && found) return boolean_value(true, self.text->any);
  }
  return boolean_value(false, self.text->any);
}

/// find, rfind, index, rindex, count.
enum class Search : std::uint8_t { find, rfind, index, rindex, count };
template <Search kind>
Value search(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<3> given(run, arguments, {"sub", "start", "end"}, 1);
  if (!given) return {};
  if (!given[0].is_text()) return run.fail(format_text("must be str, not {}", type_name(given[0])));
  const Text& text = *self.text;
  const std::string_view needle = given[0].text->view();
  const Marks marks = static_cast<Marks>(text.any | given[0].text->any);
  std::size_t from = 0, to = 0, last = std::string_view::npos;
  std::int64_t n = 0;
  if (window(run, text, given.find(1), given.find(2), from, to) && !run.failed()) {
    const std::string_view part = text.view().substr(0, to);
    if (needle.empty()) {
      n = static_cast<std::int64_t>(count_chars(part.substr(from))) + 1;
      last = kind == Search::find || kind == Search::index ? from : to;
    } else {
      const Finder finder(run, needle);
      for (std::size_t at = finder.find(part, from); at != part.npos && run.charge(1); ++n) {
        last = at;
        if (kind == Search::find || kind == Search::index) break;
        std::size_t next = kind == Search::count ? at + needle.size() : at + 1;
        while (!is_char_start(text, next)) ++next;
        at = finder.find(part, next);
      }
    }
  }
  if (kind == Search::count) return integer_value(n, marks);
  if (last == std::string_view::npos) {
    if (kind == Search::index || kind == Search::rindex) return run.fail("substring not found");
    return integer_value(-1, marks);
  }
  return integer_value(static_cast<std::int64_t>(count_chars(text.view().substr(0, last))), marks);
}

Value replace_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<3> given(run, arguments, {"old", "new", "count"}, 2);
  if (!given) return {};
  for (std::size_t i : {0U, 1U})
    if (!given[i].is_text())
      return run.fail(format_text("replace() argument {} must be str, not {}", i + 1, type_name(given[i])));
  const Value to = self.text->markup ? escape_html(run, given[1]) : given[1];
  return replace(run, *self.text, *given[0].text, *to.text, given.integer(2, -1), self.text->markup);
}

template <bool from_right>
Value split_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<2> given(run, arguments, {"sep", "maxsplit"}, 0);
  if (!given) return {};
  if (given.is_given(0) && !given[0].is_text())
    return run.fail(format_text("must be str or None, not {}", type_name(given[0])));
  return split(run, *self.text, given.is_given(0) ? given[0].text : nullptr, given.integer(1, -1), from_right);
}

Value split_lines_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"keepends"}, 0);
  return given ? split_lines(run, *self.text, given.truth(0, false)) : Value();
}

template <bool from_right>
Value partition(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"sep"}, 1);
  if (!given) return {};
  if (!given[0].is_text()) return run.fail(format_text("must be str, not {}", type_name(given[0])));
  const Text& text = *self.text;
  const Value parts = split(run, text, given[0].text, 1, from_right);
  if (run.failed()) return {};
  const Value empty = run.part(text, 0, 0);
  std::array<Value, 3> out = {self, empty, empty};
  if (from_right) out = {empty, empty, self};
  if (parts.list->size == 2) {
    const std::size_t before = parts.list->items[0].text->size;
    out = {parts.list->items[0], run.part(text, before, given[0].text->size), parts.list->items[1]};
  }
  return run.list(out, text.any, Kind::tuple);
}

Value join_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"iterable"}, 1);
  if (!given) return {};
  const List* items = elements(run, given[0]);
  return run.failed() ? Value() : join(run, *self.text, *items, false);
}

template <int side>
Value justify_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<2> given(run, arguments, {"width", "fillchar"}, 1);
  if (!given) return {};
  if (given.find(1) != nullptr && (!given[1].is_text() || length(run, given[1]) != 1))
    return run.fail("The fill character must be exactly one character long");
  const Value fill = given.find(1) != nullptr ? given[1] : run.text_in_place(" ", given.marks(0));
  return justify(run, *self.text, given.integer(0, 0), *fill.text, side);
}

Value zfill(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"width"}, 1);
  if (!given) return {};
  const Text& text = *self.text;
  run.charge_bytes(text.size);
  const std::int64_t width = given.integer(0, 0), size = static_cast<std::int64_t>(count_chars(text.view()));
  if (width <= size) return self;
  const std::size_t head = text.size > 0 && (text.data[0] == '-' || text.data[0] == '+') ? 1 : 0;
  TextBuilder out(run);
  out.add(text, 0, head);
  out.pad(static_cast<std::uint64_t>(width - size), "0", given.marks(0));
  out.add(text, head, text.size - head);
  return out.finish(text.markup);
}

template <bool prefix>
Value remove_affix(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"affix"}, 1);
  if (!given) return {};
  if (!given[0].is_text()) return run.fail(format_text("argument must be str, not {}", type_name(given[0])));
  const Text& text = *self.text;
  const std::string_view affix = given[0].text->view();
  run.charge_bytes(affix.size());
  if (!(prefix ? text.view().starts_with(affix) : text.view().ends_with(affix))) return self;
  return run.part(text, prefix ? affix.size() : 0, text.size - affix.size());
}

Value expand_tabs(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"tabsize"}, 0);
  if (!given) return {};
  const std::int64_t width = given.integer(0, 8);
  TextBuilder out(run);
  std::int64_t column = 0;
  for (std::size_t i = 0; i < self.text->size && run.charge(1);) {
    const text::Char c = text::char_at(self.text->view(), i);
    if (c.code == '\t') {
      const std::int64_t n = width > 0 ? width - column % width : 0;
      out.pad(static_cast<std::uint64_t>(n), " ", self.text->marks_at(i));
      column += n;
    } else {
      out.add(*self.text, i, c.size);
      column = c.code == '\n' || c.code == '\r' ? 0 : column + 1;
    }
    i += c.size;
  }
  return out.finish(self.text->markup);
}

/// isalpha() and its like: all characters are, and there is one, or `of_nothing` is the answer.
template <bool (*is)(char32_t), bool of_nothing = false>
Value all_are(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<0> given(run, arguments, {}, 0);
  if (!given) return {};
  bool good = self.text->size > 0 || of_nothing;
  run.charge(self.text->size / 8);
  for (std::size_t i = 0; i < self.text->size && good && run.goes_on();) {
    const text::Char c = text::char_at(self.text->view(), i);
    good = is(c.code);
    i += c.size;
  }
  return boolean_value(good, self.text->any);
}

template <bool upper>
Value has_case(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<0> given(run, arguments, {}, 0);
  const std::array<Value, 1> values = {self};
  return given ? call_test(run, find_test(upper ? "upper" : "lower"), {{}, values, {}}) : Value();
}

Value is_title_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<0> given(run, arguments, {}, 0);
  if (!given) return {};
  const Value titled = change_case(run, *self.text, Case::title);
  const bool has_cased =
      change_case(run, *self.text, Case::upper).text->view() != change_case(run, *self.text, Case::lower).text->view();
  return boolean_value(has_cased && titled.text->view() == self.text->view(), self.text->any);
}

bool is_ascii(char32_t c) { return c < 0x80; }
bool is_identifier_char(char32_t c) { return c == '_' || is_alnum(c); }

Value is_identifier(Run& run, const Value& self, const Arguments& arguments) {
  const Value all = all_are<is_identifier_char>(run, self, arguments);
  if (run.failed() || !is_true(all)) return all;
  const char32_t first = text::char_at(self.text->view(), 0).code;
  return boolean_value(first == '_' || is_alpha(first), self.text->any);
}

}  // namespace

std::span<const MethodRow> text_methods() {
  static constexpr MethodRow kRows[] = {
      {"capitalize", change<Case::capitalized>},
      {"casefold", change<Case::folded>},
      {"center", justify_method<0>},
      {"count", search<Search::count>},
      {"endswith", has_affix<false>},
      {"expandtabs", expand_tabs},
      {"find", search<Search::find>},
      {"format", format_method},
      {"format_map", format_map_method},
      {"index", search<Search::index>},
      {"isalnum", all_are<is_alnum>},
      {"isalpha", all_are<is_alpha>},
      {"isascii", all_are<is_ascii, true>},
      {"isdecimal", all_are<is_decimal>},
      {"isdigit", all_are<is_digit>},
      {"isidentifier", is_identifier},
      {"islower", has_case<false>},
      {"isnumeric", all_are<is_numeric>},
      {"isprintable", all_are<is_printable, true>},
      {"isspace", all_are<is_space>},
      {"istitle", is_title_method},
      {"isupper", has_case<true>},
      {"join", join_method},
      {"ljust", justify_method<-1>},
      {"lower", change<Case::lower>},
      {"lstrip", strip_method<true, false>},
      {"partition", partition<false>},
      {"removeprefix", remove_affix<true>},
      {"removesuffix", remove_affix<false>},
      {"replace", replace_method},
      {"rfind", search<Search::rfind>},
      {"rindex", search<Search::rindex>},
      {"rjust", justify_method<1>},
      {"rpartition", partition<true>},
      {"rsplit", split_method<true>},
      {"rstrip", strip_method<false, true>},
      {"split", split_method<false>},
      {"splitlines", split_lines_method},
      {"startswith", has_affix<true>},
      {"strip", strip_method<true, true>},
      {"swapcase", change<Case::swapped>},
      {"title", change<Case::title>},
      {"upper", change<Case::upper>},
      {"zfill", zfill},
  };
  return kRows;
}

}  // namespace qinfer::jinja
