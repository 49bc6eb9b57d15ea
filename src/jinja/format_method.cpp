// See builtins.h: str.format(), with the attributes and elements that templates reach, and no others.
#include <algorithm>

#include "jinja/builtins.h"
#include "jinja/compare.h"
#include "jinja/number_format.h"
#include "jinja/operators.h"
#include "jinja/print.h"
#include "jinja/text_tools.h"
#include "text/utf8.h"

namespace qinfer::jinja {
namespace {

constexpr int kMaxFields = 2;  // a field's specification may hold fields, which hold none

class Formatter {
 public:
  Formatter(Run& run, std::span<const Value> positional, std::span<const Named> named, const Dict* mapping)
      : run_(run), positional_(positional), named_(named), mapping_(mapping) {}

  void write(TextBuilder& out, const Text& format, int depth) {
    const std::string_view view = format.view();
    if (depth > kMaxFields) {
      run_.fail("Max string recursion exceeded");
      return;
    }
    for (std::size_t at = 0; at < format.size && run_.charge(1);) {
      const std::size_t brace = std::min(view.find_first_of("{}", at), format.size);
      out.add(format, at, brace - at);
      if (brace == format.size) return;
      if (view.substr(brace + 1).starts_with(view[brace])) {
        out.add(format, brace, 1);
        at = brace + 2;
      } else if (view[brace] == '}') {
        run_.fail("Single '}' encountered in format string");
      } else {
        at = field(out, format, brace + 1, depth);
      }
    }
  }

 private:
  /// The field whose "{" is before `at`. Returns where it ends.
  std::size_t field(TextBuilder& out, const Text& format, std::size_t at, int depth) {
    const std::string_view view = format.view();
    std::size_t end = at;
    if (!run_.charge(1)) return format.size;
    for (int braces = 1; end < format.size; ++end) {
      braces += view[end] == '{' ? 1 : view[end] == '}' ? -1 : 0;
      if (braces == 0 || !run_.goes_on()) break;
    }
    run_.charge_bytes(end - at);
    if (end >= format.size) {
      run_.fail(at >= format.size ? "Single '{' encountered in format string" : "expected '}' before end of string");
      return end;
    }
    std::size_t name_end = at;
    for (bool in_key = false; name_end < end; ++name_end) {
      if (view[name_end] == '[') in_key = true;
      if (view[name_end] == ']') in_key = false;
      if (!in_key && (view[name_end] == '!' || view[name_end] == ':')) break;
    }
    char conversion = '\0';
    std::size_t spec_begin = name_end;
    if (name_end < end && view[name_end] == '!') {
      conversion = name_end + 1 < end ? view[name_end + 1] : '\0';
      spec_begin = name_end + 2;
      if (spec_begin < end && view[spec_begin] != ':') run_.fail("expected ':' after conversion specifier");
    }
    const Value value = find_field(format, at, name_end);
    TextBuilder spec(run_);
    if (spec_begin < end && !run_.failed()) {
      const Value inner = run_.part(format, spec_begin + 1, end - spec_begin - 1);
      write(spec, *inner.text, depth + 1);
    }
    if (!run_.failed()) write_value(out, value, conversion, spec.bytes(), format.marks_at(at - 1));
    return end + 1;
  }

  Value first_part(const Text& format, std::size_t at, std::size_t size) {
    const std::string_view name = format.view().substr(at, size);
    std::size_t index = 0;
    const bool is_index = std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (name.empty()) {
      index = next_++;
    } else if (is_index && name.size() < 10) {
      index = static_cast<std::size_t>(parse_integer(run_, name, 10).value_or(0));
    } else {
      const Value key = run_.part(format, at, size);
      if (mapping_ != nullptr) {
        const Value* found = find(run_, *mapping_, key);
        if (found != nullptr) return *found;
      }
      for (const Named& named : named_)
        if (run_.charge(1) && named.name.text->view() == name) return named.value;
      return run_.fail(short_repr(key));
    }
    if (index < positional_.size()) return positional_[index];
    return run_.fail(format_text("Replacement index {} out of range for positional args tuple", index));
  }

  Value find_field(const Text& format, std::size_t at, std::size_t end) {
    const std::string_view view = format.view().substr(0, end);
    std::size_t next = std::min(view.find_first_of(".[", at), end);
    Value value = first_part(format, at, next - at);
    while (next < end && run_.charge(1)) {
      const std::size_t begin = next + 1;
      if (view[next] == '.') {
        next = std::min(view.find_first_of(".[", begin), end);
        value = attribute(run_, value, run_.part(format, begin, next - begin));
        continue;
      }
      const std::size_t close = view.find(']', begin);
      if (close == std::string_view::npos) return run_.fail("Missing ']' in format string");
      const std::string_view key = view.substr(begin, close - begin);
      const bool is_index = !key.empty() && key.size() < 18 &&
                            std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
      value = item(
          run_, value,
          is_index ? integer_value(parse_integer(run_, key, 10).value_or(0)) : run_.part(format, begin, close - begin));
      next = close + 1;
    }
    return value;
  }

  bool read_spec(std::string_view text, FormatSpec& spec) {
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    const std::size_t first = text.empty() ? 0 : text::utf8_length(static_cast<std::uint8_t>(text[0]));
    if (first < text.size() && is_align(text[first])) {
      spec.fill = text.substr(0, first);
      spec.align = text[first];
      spec.has_fill = true;
      text.remove_prefix(first + 1);
    } else if (!text.empty() && is_align(text[0])) {
      spec.align = text[0];
      text.remove_prefix(1);
    }
    const auto take = [&](std::string_view chars, char& into) {
      if (text.empty() || chars.find(text[0]) == chars.npos) return false;
      into = text[0];
      text.remove_prefix(1);
      return true;
    };
    const auto number = [&](std::int64_t& into) {
      for (into = 0; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1))
        into = std::min<std::int64_t>(into * 10 + (text[0] - '0'), INT32_MAX);
    };
    char flag = '\0';
    spec.has_sign = take("+- ", spec.sign);
    spec.alternate = take("#", flag);
    spec.zero = take("0", flag);
    number(spec.width);
    take(",_", spec.grouping);
    if (take(".", flag)) number(spec.precision);
    if (spec.precision > kMaxPrecision) {
      run_.fail(format_text("a precision is at most {}", kMaxPrecision), Code::unsupported);
      return false;
    }
    if (!text.empty()) {
      spec.type = text[0];
      text.remove_prefix(1);
    }
    if (text.empty()) return true;
    run_.fail("Invalid format specifier");
    return false;
  }

  void write_value(TextBuilder& out, Value value, char conversion, std::string_view spec_text, Marks marks) {
    if (conversion != '\0') {
      TextBuilder converted(run_);
      if (conversion == 's') {
        write_text(run_, converted, value);
      } else if (conversion == 'r') {
        write_repr(run_, converted, value);
      } else {
        run_.fail(format_text("Unknown conversion specifier {}; there are !r and !s", conversion));
        return;
      }
      value = converted.finish();
    }
    if (spec_text.empty()) return write_text(run_, out, value);
    FormatSpec spec;
    if (!read_spec(spec_text, spec)) return;
    // True and false are numbers here, but for an empty specifier.
    if (value.is_numeric()) return write_number(out, value, spec, marks);
    if (!value.is_text()) {
      run_.fail(format_text("unsupported format string passed to {}.__format__", type_name(value)));
      return;
    }
    if (spec.type != '\0' && spec.type != 's') {
      run_.fail(format_text("Unknown format code '{}' for object of type 'str'", spec.type));
      return;
    }
    if (spec.has_sign || spec.alternate || spec.grouping != '\0' || spec.align == '=') {
      run_.fail("Sign, '#', ',', '_' and '=' are not allowed in the format specifier of a string");
      return;
    }
    Value text = to_text(run_, value);
    if (spec.precision >= 0) text = slice(run_, text, none_value(), integer_value(spec.precision), none_value());
    write_padded(run_, out, *text.text, spec, false, marks);
  }

  void write_number(TextBuilder& out, const Value& value, const FormatSpec& spec, Marks marks) {
    static constexpr std::string_view kFloats = "eEfFgG%";
    static constexpr std::string_view kIntegers = "dnbxXo";
    const bool as_float = value.is(Kind::number) || (spec.type != '\0' && kFloats.find(spec.type) != kFloats.npos);
    std::string text;
    if (spec.type == 'c' && value.is_integral()) {
      const std::int64_t code = value.as_integer();
      if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
        run_.fail("%c arg not in range(0x110000)");
        return;
      }
      text::append_char(text, static_cast<char32_t>(code));
    } else if (as_float ? spec.type == '\0' || spec.type == 'n' || kFloats.find(spec.type) != kFloats.npos
                        : spec.type == '\0' || kIntegers.find(spec.type) != kIntegers.npos) {
      if (!as_float && spec.precision >= 0) {
        run_.fail("Precision not allowed in integer format specifier");
        return;
      }
      text = as_float ? number_text(value.as_number(), spec) : integer_text(value.as_integer(), spec);
    } else {
      run_.fail(format_text("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value)));
      return;
    }
    const Value made = run_.text(text, value.marks);
    write_padded(run_, out, *made.text, spec, true, marks);
  }

  Run& run_;
  std::span<const Value> positional_;
  std::span<const Named> named_;
  const Dict* mapping_;
  std::size_t next_ = 0;
};

}  // namespace

Value format_method(Run& run, const Value& self, const Arguments& arguments) {
  TextBuilder out(run);
  Formatter(run, arguments.positional, arguments.named, nullptr).write(out, *self.text, 1);
  return out.finish(self.text->markup);
}

Value format_map_method(Run& run, const Value& self, const Arguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty() || !arguments.positional[0].is(Kind::dict))
    return run.fail("format_map() takes exactly one argument, a mapping");
  TextBuilder out(run);
  Formatter(run, {}, {}, arguments.positional[0].dict).write(out, *self.text, 1);
  return out.finish(self.text->markup);
}

}  // namespace qinfer::jinja
