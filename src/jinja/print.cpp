// See print.h.
#include "jinja/print.h"

#include <charconv>
#include <cmath>

#include "jinja/builtins.h"
#include "jinja/characters.h"
#include "jinja/machine_values.h"
#include "text/utf8.h"

namespace qinfer::jinja {
namespace {

/// How repr() writes one character of a text with this quote; empty where it stays.
std::string escape_char(char32_t c, char quote) {
  if (c == static_cast<char32_t>(quote)) return std::string("\\") + quote;
  if (c == '\\') return "\\\\";
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (is_printable(c)) return {};
  if (c < 0x100) return format_text("\\x{:02x}", static_cast<unsigned>(c));
  if (c < 0x10000) return format_text("\\u{:04x}", static_cast<unsigned>(c));
  return format_text("\\U{:08x}", static_cast<unsigned>(c));
}

char quote_of(std::string_view text) {
  return text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
}

[[gnu::noinline]] void write_text_repr(Run& run, TextBuilder& out, const Text& text) {
  const char quote = quote_of(text.view());
  const std::string_view mark(&quote, 1);
  run.charge(text.size / 8);
  if (text.markup) out.add("Markup(", text.any);
  out.add(mark, text.any);
  std::size_t plain = 0;
  for (std::size_t i = 0; i < text.size && run.goes_on();) {
    const text::Char c = text::char_at(text.view(), i);
    if (const std::string escaped = escape_char(c.code, quote); !escaped.empty()) {
      out.add(text, plain, i - plain);
      out.add(escaped, text.marks_at(i));
      plain = i + c.size;
    }
    i += c.size;
  }
  out.add(text, plain, text.size - plain);
  out.add(mark, text.any);
  if (text.markup) out.add(")", text.any);
}

[[gnu::noinline]] void write_other(TextBuilder& out, const Value& value) {
  switch (value.kind) {
    case Kind::undefined: return out.add("Undefined", value.marks);
    case Kind::none: return out.add("None", value.marks);
    case Kind::boolean: return out.add(value.boolean ? "True" : "False", value.marks);
    case Kind::integer: return out.add(format_text("{}", value.integer), value.marks);
    case Kind::number: return out.add(float_repr(value.number), value.marks);
    case Kind::big_integer: return out.add(value.text->view(), value.marks);
    case Kind::iterator:
      return out.add(value.iterator->function[0] != '\0'
                         ? format_text("<{} object {}>", value.iterator->type, value.iterator->function)
                         : format_text("<{} object>", value.iterator->type),
                     value.marks);
    case Kind::range: {
      const Range& range = *value.range;
      return out.add(range.step == 1 ? format_text("range({}, {})", range.start, range.stop)
                                     : format_text("range({}, {}, {})", range.start, range.stop, range.step),
                     value.marks);
    }
    case Kind::loop:
      return out.add(format_text("<LoopContext {}/{}>", value.loop->index0 + 1, value.loop->items.size), 0);
    case Kind::macro: return out.add(format_text("<Macro {}>", short_repr(value.macro->name)), 0);
    case Kind::function: return out.add(format_text("<function {}>", function_name(value.function)), 0);
    case Kind::method:
      return out.add(
          format_text("<built-in method {} of {} object>", value.method->name, type_name(value.method->self)), 0);
    default: return out.add(format_text("<{} object>", type_name(value)), value.marks);
  }
}

void write_items(Run& run, TextBuilder& out, const List& items, Marks marks, int depth) {
  for (std::size_t i = 0; i < items.size && !run.failed(); ++i) {
    if (i > 0) out.add(", ", marks);
    write_repr(run, out, items.items[i], depth + 1);
  }
}

void write_dict(Run& run, TextBuilder& out, const Value& value, int depth) {
  out.add("{", value.marks);
  for (std::size_t i = 0; i < value.dict->size && !run.failed(); ++i) {
    if (i > 0) out.add(", ", value.marks);
    write_repr(run, out, value.dict->entries[i].key, depth + 1);
    out.add(": ", value.marks);
    write_repr(run, out, value.dict->entries[i].value, depth + 1);
  }
  out.add("}", value.marks);
}

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto written = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<std::size_t>(written.ptr - buffer));
  const std::size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), written.ptr, exponent);
  std::string digits;
  for (const char c : text.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  const std::string sign = value < 0 || std::signbit(value) ? "-" : "";
  const auto n = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    if (n > 1) digits.insert(digits.begin() + 1, '.');
    return format_text("{}{}e{}{:02}", sign, digits, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (n <= exponent + 1) return sign + digits + std::string(static_cast<std::size_t>(exponent + 1 - n), '0') + ".0";
  digits.insert(digits.begin() + exponent + 1, '.');
  return sign + digits;
}

void write_repr(Run& run, TextBuilder& out, const Value& value, int depth) {
  if (run.too_deep(depth)) return;
  switch (value.kind) {
    case Kind::text: return write_text_repr(run, out, *value.text);
    case Kind::list:
    case Kind::tuple: {
      const bool is_list = value.is(Kind::list);
      out.add(is_list ? "[" : "(", value.marks);
      write_items(run, out, *value.list, value.marks, depth);
      return out.add(is_list ? "]" : value.list->size == 1 ? ",)" : ")", value.marks);
    }
    case Kind::dict: return write_dict(run, out, value, depth);
    case Kind::space:
      out.add("<Namespace ", value.marks);
      write_dict(run, out, value, depth);
      return out.add(">", value.marks);
    case Kind::view:
      out.add(value.view->type, value.marks);
      out.add("([", value.marks);
      write_items(run, out, value.view->items, value.marks, depth);
      return out.add("])", value.marks);
    default: return write_other(out, value);
  }
}

void write_text(Run& run, TextBuilder& out, const Value& value, Marks more) {
  if (value.is_text()) return out.add(*value.text, more);
  if (value.is_undefined()) return;
  if (more == 0) return write_repr(run, out, value);
  const Value text = to_text(run, value);
  out.add(*text.text, more);
}

Value to_text(Run& run, const Value& value) {
  if (value.is_text()) return value;
  TextBuilder out(run);
  write_text(run, out, value);
  return out.finish();
}

std::string short_repr(const Value& value) {
  constexpr std::size_t kMost = 200;
  switch (value.kind) {
    case Kind::integer: return format_text("{}", value.integer);
    case Kind::number: return float_repr(value.number);
    case Kind::boolean: return value.boolean ? "True" : "False";
    case Kind::none: return "None";
    case Kind::undefined: return "Undefined";
    case Kind::text: break;
    default: return format_text("<{}>", type_name(value));
  }
  const std::string_view text = value.text->view();
  const char quote = quote_of(text);
  std::string out(1, quote);
  for (std::size_t i = 0; i < text.size();) {
    const text::Char c = text::char_at(text, i);
    if (out.size() > kMost) return out + "...";
    const std::string escaped = escape_char(c.code, quote);
    out += escaped.empty() ? text.substr(i, c.size) : escaped;
    i += c.size;
  }
  return out + quote;
}

}  // namespace qinfer::jinja
