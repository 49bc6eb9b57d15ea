// See operators.h: arithmetic, comparisons and joining texts.
#include "jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "jinja/compare.h"
#include "jinja/print.h"

namespace qinfer::jinja {
namespace {

constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};

const char* symbol(Binary op) { return op == Binary::power ? "** or pow()" : kSymbols[static_cast<std::size_t>(op)]; }

Value unsupported(Run& run, Binary op, const Value& a, const Value& b) {
  return run.fail(
      format_text("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(a), type_name(b)));
}

Value too_large(Run& run) {
  return run.fail("the result is an integer beyond 64 bits, which is the most; use a float or smaller numbers",
                  Code::unsupported);
}

Value power_of_integers(Run& run, std::int64_t base, std::int64_t exponent, Marks marks) {
  if (exponent < 0) {
    if (base == 0) return run.fail("0.0 cannot be raised to a negative power");
    return number_value(std::pow(static_cast<double>(base), static_cast<double>(exponent)), marks);
  }
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return too_large(run);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return too_large(run);
  }
  return integer_value(result, marks);
}

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
}

Value integers(Run& run, Binary op, std::int64_t a, std::int64_t b, Marks marks) {
  std::int64_t result = 0;
  switch (op) {
    case Binary::add: return __builtin_add_overflow(a, b, &result) ? too_large(run) : integer_value(result, marks);
    case Binary::subtract: return __builtin_sub_overflow(a, b, &result) ? too_large(run) : integer_value(result, marks);
    case Binary::multiply: return __builtin_mul_overflow(a, b, &result) ? too_large(run) : integer_value(result, marks);
    case Binary::power: return power_of_integers(run, a, b, marks);
    default: break;
  }
  if (b == 0) {
    return run.fail(op == Binary::divide   ? "division by zero"
                    : op == Binary::modulo ? "integer modulo by zero"
                                           : "integer division or modulo by zero");
  }
  if (op == Binary::divide) return number_value(static_cast<double>(a) / static_cast<double>(b), marks);
  if (b == -1) {  // the one quotient that may not fit
    if (op == Binary::modulo) return integer_value(0, marks);
    return a == INT64_MIN ? too_large(run) : integer_value(-a, marks);
  }
  const std::int64_t quotient = floor_quotient(a, b);
  return integer_value(op == Binary::modulo ? a - quotient * b : quotient, marks);
}

Value floats(Run& run, Binary op, double a, double b, Marks marks) {
  switch (op) {
    case Binary::add: return number_value(a + b, marks);
    case Binary::subtract: return number_value(a - b, marks);
    case Binary::multiply: return number_value(a * b, marks);
    case Binary::power:
      if (a == 0 && b < 0) return run.fail("0.0 cannot be raised to a negative power");
      if (a < 0 && b != std::trunc(b)) return run.fail("complex numbers are refused", Code::unsupported);
      return number_value(std::pow(a, b), marks);
    default: break;
  }
  if (b == 0) {
    return run.fail(op == Binary::divide         ? "float division by zero"
                    : op == Binary::floor_divide ? "float floor division by zero"
                                                 : "float modulo");
  }
  if (op == Binary::divide) return number_value(a / b, marks);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (rest == 0) rest = std::copysign(0.0, b);
  if (op == Binary::modulo) return number_value(rest, marks);
  return number_value(std::floor((a - rest) / b + 0.5), marks);
}

Value repeat(Run& run, const Value& value, std::int64_t times, Marks marks) {
  const auto n = static_cast<std::uint64_t>(std::max<std::int64_t>(times, 0));
  if (value.is_text()) {
    if (value.text->each == nullptr) {
      TextBuilder out(run);
      out.pad(n, value.text->view(), value.text->any);
      return out.finish(value.text->markup);
    }
    TextBuilder out(run);
    for (std::uint64_t i = 0; i < n && run.charge(1); ++i) out.add(*value.text);
    return out.finish(value.text->markup);
  }
  ListBuilder items(run);
  if (value.list->size == 0) return run.list({}, value.marks | marks, value.kind);
  for (std::uint64_t i = 0; i < n && !run.failed(); ++i)
    for (const Value& element : *value.list) items.add(element);
  return items.finish(value.marks | marks, value.kind);
}

bool is_repeated(const Value& value) { return value.is_text() || value.is(Kind::list) || value.is(Kind::tuple); }

Value add_lists(Run& run, const Value& a, const Value& b) {
  ListBuilder items(run);
  for (const Value& element : *a.list) items.add(element);
  for (const Value& element : *b.list) items.add(element);
  return items.finish(static_cast<Marks>(a.marks | b.marks), a.kind);
}

Value add_others(Run& run, const Value& a, const Value& b) {
  if (a.is_text() && b.is_text()) {
    if (a.text->markup == b.text->markup) return add_texts(run, *a.text, *b.text);
    const Value left = a.text->markup ? a : escape_html(run, a), right = b.text->markup ? b : escape_html(run, b);
    return add_texts(run, *left.text, *right.text);
  }
  if ((a.is(Kind::list) || a.is(Kind::tuple)) && a.kind == b.kind) return add_lists(run, a, b);
  if (a.is_text() || a.is(Kind::list) || a.is(Kind::tuple))
    return run.fail(
        format_text("can only concatenate {} (not \"{}\") to {}", type_name(a), type_name(b), type_name(a)));
  return unsupported(run, Binary::add, a, b);
}

}  // namespace

Value binary(Run& run, Binary op, const Value& a, const Value& b) {
  if (op == Binary::modulo && a.is_text()) return format_percent(run, *a.text, b);
  if (a.is_undefined()) return run.fail_undefined(a);
  if (b.is_undefined()) return run.fail_undefined(b);
  const auto marks = static_cast<Marks>(marks_of(a) | marks_of(b));
  if (a.is_integral() && b.is_integral()) return integers(run, op, a.as_integer(), b.as_integer(), marks);
  if (a.is_numeric() && b.is_numeric()) return floats(run, op, a.as_number(), b.as_number(), marks);
  if (a.is(Kind::big_integer) || b.is(Kind::big_integer)) {
    if ((a.is(Kind::big_integer) || a.is_numeric()) && (b.is(Kind::big_integer) || b.is_numeric()))
      return too_large(run);
  }
  if (op == Binary::add) return add_others(run, a, b);
  if (op == Binary::multiply) {
    if (is_repeated(a) && b.is_integral()) return repeat(run, a, b.as_integer(), b.marks);
    if (is_repeated(b) && a.is_integral()) return repeat(run, b, a.as_integer(), a.marks);
    if (is_repeated(a) || is_repeated(b))
      return run.fail(
          format_text("can't multiply sequence by non-int of type '{}'", type_name(is_repeated(a) ? b : a)));
  }
  return unsupported(run, op, a, b);
}

Value negate(Run& run, const Value& value) {
  if (value.is_undefined()) return run.fail_undefined(value);
  if (value.is(Kind::number)) return number_value(-value.number, value.marks);
  if (value.is_integral()) return integers(run, Binary::subtract, 0, value.as_integer(), value.marks);
  if (value.is(Kind::big_integer)) {
    const std::string_view digits = value.text->view();
    Value made = run.text(digits.starts_with('-') ? std::string(digits.substr(1)) : format_text("-{}", digits), 0);
    made.kind = Kind::big_integer;
    made.marks = value.marks;
    return made;
  }
  return run.fail(format_text("bad operand type for unary -: '{}'", type_name(value)));
}

Value plus(Run& run, const Value& value) {
  if (value.is_undefined()) return run.fail_undefined(value);
  if (value.is(Kind::number) || value.is(Kind::big_integer)) return value;
  if (value.is_integral()) return integer_value(value.as_integer(), value.marks);
  return run.fail(format_text("bad operand type for unary +: '{}'", type_name(value)));
}

bool compare(Run& run, Compare op, const Value& a, const Value& b) {
  switch (op) {
    case Compare::equal: return is_equal(run, a, b);
    case Compare::not_equal: return !is_equal(run, a, b);
    case Compare::in: return contains(run, b, a);
    case Compare::not_in: return !contains(run, b, a);
    default: break;
  }
  const bool is_nan = (a.is(Kind::number) && std::isnan(a.number)) || (b.is(Kind::number) && std::isnan(b.number));
  if (is_nan && a.is_numeric() && b.is_numeric()) return false;
  switch (op) {
    case Compare::less: return is_less(run, a, b, "<");
    case Compare::less_equal: return a.is_undefined() ? is_less(run, a, b) : !is_less(run, b, a, "<=");
    case Compare::greater: return a.is_undefined() ? is_less(run, a, b) : is_less(run, b, a, ">");
    default: return !is_less(run, a, b, ">=");
  }
}

/// A text that was itself made by joining is continued in its place where it has room, so that a text which grows in a
/// loop is not copied each time.
Value add_texts(Run& run, const Text& a, const Text& b) {
  if (b.size == 0) return text_value(&a);
  if (a.size == 0) return text_value(&b);
  const std::size_t size = a.size + b.size;
  Text made;
  made.size = size;
  made.any = static_cast<Marks>(a.any | b.any);
  made.markup = a.markup;
  TextBuffer* buffer = a.buffer;
  const bool continues =
      buffer != nullptr && a.data + a.size == buffer->data + buffer->used && buffer->capacity - buffer->used >= b.size;
  run.charge((continues ? b.size : size) / 32);
  if (!continues) {
    const std::size_t capacity = size < 65536 ? size * 2 : size + size / 2;
    char* data = run.array<char>(capacity);
    Marks* marks = data == nullptr ? nullptr : run.array<Marks>(capacity);
    if (marks == nullptr) return text_value(&a);
    buffer = run.make(TextBuffer{data, marks, 0, capacity});
    std::memcpy(data, a.data, a.size);
    for (std::size_t i = 0; i < a.size; ++i) marks[i] = a.marks_at(i);
    buffer->used = a.size;
  }
  std::memcpy(buffer->data + buffer->used, b.data, b.size);
  for (std::size_t i = 0; i < b.size; ++i) buffer->marks[buffer->used + i] = b.marks_at(i);
  buffer->used += b.size;
  made.buffer = buffer;
  made.data = buffer->data + buffer->used - size;
  const bool is_uniform = a.each == nullptr && b.each == nullptr && a.any == b.any;
  if (!is_uniform) made.each = buffer->marks + buffer->used - size;
  return text_value(run.make(made));
}

Value concat(Run& run, std::span<const Value> values) {
  Value joined = run.text_in_place({}, 0);
  for (const Value& value : values) {
    if (run.failed()) break;
    Value text = to_text(run, value);
    if (text.text->markup) {  // ~ makes plain texts of all
      Text plain = *text.text;
      plain.markup = false;
      text = text_value(run.make(plain));
    }
    joined = add_texts(run, *joined.text, *text.text);
  }
  return joined;
}

Value escape_html(Run& run, const Value& value) {
  if (value.is_text() && value.text->markup) return value;
  const Value text = to_text(run, value);
  TextBuilder out(run);
  run.charge(text.text->size / 8);
  std::size_t plain = 0;  // where what stays as it is begins
  for (std::size_t i = 0; i < text.text->size && run.goes_on(); ++i) {
    const char c = text.text->data[i];
    const char* escaped = c == '&'    ? "&amp;"
                          : c == '<'  ? "&lt;"
                          : c == '>'  ? "&gt;"
                          : c == '"'  ? "&#34;"
                          : c == '\'' ? "&#39;"
                                      : nullptr;
    if (escaped == nullptr) continue;
    out.add(*text.text, plain, i - plain);
    out.add(escaped, text.text->marks_at(i));
    plain = i + 1;
  }
  out.add(*text.text, plain, text.text->size - plain);
  return out.finish(true);
}

}  // namespace qinfer::jinja
