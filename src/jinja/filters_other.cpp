// See builtins.h: filters of numbers, and those of any value.
#include <charconv>
#include <cmath>

#include "jinja/argument.h"
#include "jinja/number_format.h"
#include "jinja/operators.h"
#include "jinja/print.h"
#include "jinja/text_tools.h"

namespace qinfer::jinja {
namespace {

Value abs_filter(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"x"}, 1);
  if (!given) return {};
  const Value& value = given[0];
  if (value.is(Kind::number)) return number_value(std::abs(value.number), value.marks);
  if (value.is(Kind::big_integer)) return value.text->view().starts_with('-') ? negate(run, value) : value;
  if (!value.is_integral()) return run.fail(format_text("bad operand type for abs(): '{}'", type_name(value)));
  return value.as_integer() < 0 ? negate(run, value) : integer_value(value.as_integer(), value.marks);
}

Value attr(Run& run, const Arguments& arguments) {
  const Bound<2> given(run, arguments, {"obj", "name"}, 2);
  if (!given) return {};
  const Value name = to_text(run, given[1]);
  // Attributes only: what a mapping has under the name is none.
  Value found = given[0].is(Kind::dict) ? dict_attribute(run, given[0], name) : attribute(run, given[0], name);
  if (found.is_undefined() && found.missing == nullptr)
    found = run.undefined(Missing::Reason::attribute, name, object_name(given[0]));
  return found;
}

Value default_filter(Run& run, const Arguments& arguments) {
  const Bound<3> given(run, arguments, {"value", "default_value", "boolean"}, 1);
  if (!given) return {};
  if (!given[0].is_undefined() && (!given.truth(2, false) || is_true(given[0]))) return given[0];
  return given.find(1) != nullptr ? given[1] : run.text_in_place({}, 0);
}

Value integer_of(Run& run, double number, Marks marks, const Value& otherwise) {
  if (std::isnan(number) || std::isinf(number)) return otherwise;
  if (std::abs(number) >= 9.2e18) {
    Value large = run.text(fixed_text(number, 0), 0);
    large.kind = Kind::big_integer;
    large.marks = marks;
    return large;
  }
  return integer_value(static_cast<std::int64_t>(number), marks);
}

Value int_filter(Run& run, const Arguments& arguments) {
  const Bound<3> given(run, arguments, {"value", "default", "base"}, 1);
  if (!given) return {};
  const Value& value = given[0];
  const Value otherwise = given.find(1) != nullptr ? given[1] : integer_value(0, marks_of(value));
  if (value.is_undefined()) return run.fail_undefined(value);
  if (value.is_integral() || value.is(Kind::big_integer)) return plus(run, value);
  if (value.is(Kind::number)) {
    if (std::isinf(value.number)) return run.fail("cannot convert float infinity to integer");
    return integer_of(run, value.number, value.marks, otherwise);
  }
  if (!value.is_text()) return otherwise;
  if (const auto integer = parse_integer(run, value.text->view(), given.integer(2, 10)))
    return integer_value(*integer, value.text->any);
  const auto number = parse_number(run, value.text->view());
  return number ? integer_of(run, *number, value.text->any, otherwise) : otherwise;
}

Value float_filter(Run& run, const Arguments& arguments) {
  const Bound<2> given(run, arguments, {"value", "default"}, 1);
  if (!given) return {};
  const Value& value = given[0];
  if (value.is_undefined()) return run.fail_undefined(value);
  if (value.is_numeric()) return number_value(value.as_number(), value.marks);
  if (value.is_text() || value.is(Kind::big_integer))
    if (const auto number = parse_number(run, value.text->view())) return number_value(*number, marks_of(value));
  return given.find(1) != nullptr ? given[1] : number_value(0, marks_of(value));
}

/// Python's round(): to the nearest of so many decimal digits, ties by the value's exact binary digits.
double round_to(double value, std::int64_t digits) {
  if (!std::isfinite(value) || digits > 300) return value;
  if (digits < -300) return 0 * value;
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / unit) * unit;
  }
  const std::string text = fixed_text(value, static_cast<int>(digits));
  double rounded = value;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

Value round_filter(Run& run, const Arguments& arguments) {
  const Bound<3> given(run, arguments, {"value", "precision", "method"}, 1);
  if (!given) return {};
  const std::string_view method = given.find(2) == nullptr ? std::string_view("common")
                                  : given[2].is_text()     ? given[2].text->view()
                                                           : std::string_view();
  if (method != "common" && method != "ceil" && method != "floor")
    return run.fail("method must be common, ceil or floor");
  const std::int64_t precision = given.integer(1, 0);
  const Value& value = given[0];
  if (run.failed()) return {};
  if (value.is_undefined())
    return method == "common" ? run.fail("type Undefined doesn't define __round__ method") : run.fail_undefined(value);
  if (value.is(Kind::big_integer) && (method == "common")) return value;
  if (!value.is_numeric()) return run.fail(format_text("type {} doesn't define __round__ method", type_name(value)));
  if (method == "common") {
    if (!value.is_integral()) return number_value(round_to(value.number, precision), value.marks);
    if (precision >= 0) return integer_value(value.as_integer(), value.marks);
    return integer_of(run, round_to(value.as_number(), precision), value.marks, value);
  }
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.as_number() * unit;
  return number_value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit + 0.0, value.marks);
}

Value filesizeformat(Run& run, const Arguments& arguments) {
  const Bound<2> given(run, arguments, {"value", "binary"}, 1);
  if (!given) return {};
  static constexpr const char* kDecimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  static constexpr const char* kBinary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  double bytes = 0;
  if (given[0].is_undefined()) return run.fail_undefined(given[0]);
  if (given[0].is_numeric()) {
    bytes = given[0].as_number();
  } else {
    const auto parsed =
        given[0].is_text() || given[0].is(Kind::big_integer) ? parse_number(run, given[0].text->view()) : std::nullopt;
    if (!parsed) return run.fail(format_text("could not convert to float: {}", short_repr(given[0])));
    bytes = *parsed;
  }
  const bool is_binary = given.truth(1, false);
  const double base = is_binary ? 1024 : 1000;
  const Marks marks = given.marks(0);
  if (bytes < -0x1p63) return run.fail("the number of bytes is beyond 64 bits, which is the most", Code::unsupported);
  if (bytes == 1) return run.text("1 Byte", marks);
  if (bytes < base) return run.text(format_text("{} Bytes", static_cast<std::int64_t>(bytes)), marks);
  double unit = base * base;
  std::size_t i = 0;
  for (; i < 7 && bytes >= unit; ++i) unit *= base;
  return run.text(fixed_text(base * bytes / unit, 1) + " " + (is_binary ? kBinary[i] : kDecimal[i]), marks);
}

Value forceescape(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"value"}, 1);
  if (!given) return {};
  Text plain = *to_text(run, given[0]).text;
  plain.markup = false;
  return escape_html(run, text_value(&plain));
}

}  // namespace

std::span<const BuiltinRow> other_filters() {
  static constexpr BuiltinRow kRows[] = {
      {"abs", abs_filter},
      {"attr", attr},
      {"d", default_filter},
      {"default", default_filter},
      {"filesizeformat", filesizeformat},
      {"float", float_filter},
      {"forceescape", forceescape},
      {"int", int_filter},
      {"round", round_filter},
  };
  return kRows;
}

}  // namespace qinfer::jinja
