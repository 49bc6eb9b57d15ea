// See number_format.h.
#include "jinja/number_format.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "jinja/characters.h"
#include "jinja/print.h"

namespace qinfer::jinja {
namespace {

std::string to_chars_text(double value, std::chars_format format, int precision) {
  std::string buffer(static_cast<std::size_t>(precision) + 340, '\0');
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, precision);
  buffer.resize(static_cast<std::size_t>(written.ptr - buffer.data()));
  return buffer;
}

/// Thousands in groups, in the digits before the point.
std::string grouped(const std::string& digits, char separator, std::size_t size) {
  const std::size_t end = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  for (std::size_t i = 0; i < end; ++i) {
    if (i > 0 && (end - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(end);
}

std::string with_sign(bool is_negative, const FormatSpec& spec, const std::string& digits) {
  if (is_negative) return "-" + digits;
  return spec.sign == '-' ? digits : spec.sign + digits;
}

/// %g: significant digits, in the shorter of both notations.
std::string general_text(double value, int precision, bool keep_zeros) {
  std::string text = to_chars_text(value, std::chars_format::general, std::max(precision, 1));
  if (!keep_zeros || text.find('.') != text.npos) return text;
  return text;
}

}  // namespace

std::string fixed_text(double value, int precision) {
  return to_chars_text(value, std::chars_format::fixed, precision);
}

std::string integer_text(std::int64_t value, const FormatSpec& spec) {
  const bool is_negative = value < 0;
  const std::uint64_t size = is_negative ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
  std::string digits, prefix;
  switch (spec.type) {
    case 'x': digits = format_text("{:x}", size), prefix = "0x"; break;
    case 'X': digits = format_text("{:X}", size), prefix = "0X"; break;
    case 'o': digits = format_text("{:o}", size), prefix = "0o"; break;
    case 'b': digits = format_text("{:b}", size), prefix = "0b"; break;
    default: digits = format_text("{}", size); break;
  }
  if (spec.grouping != '\0') digits = grouped(digits, spec.grouping, prefix.empty() ? 3 : 4);
  return with_sign(is_negative, spec, (spec.alternate ? prefix : std::string()) + digits);
}

std::string number_text(double value, const FormatSpec& spec) {
  const bool is_negative = std::signbit(value) && !std::isnan(value);
  const double size = std::abs(value);
  const bool is_upper = spec.type == 'F' || spec.type == 'E' || spec.type == 'G';
  std::string digits;
  const int precision =
      static_cast<int>(std::min(spec.precision < 0 ? std::int64_t{6} : spec.precision, kMaxPrecision));
  if (std::isnan(size) || std::isinf(size)) {
    digits = std::isnan(size) ? "nan" : "inf";
  } else {
    switch (spec.type) {
      case 'f':
      case 'F': digits = fixed_text(size, precision); break;
      case 'e':
      case 'E': digits = to_chars_text(size, std::chars_format::scientific, precision); break;
      case '%': digits = fixed_text(size * 100, precision) + "%"; break;
      case 'g':
      case 'G':
      case 'n': digits = general_text(size, precision, spec.alternate); break;
      default:
        if (spec.precision < 0) {
          digits = float_repr(size);
        } else {
          digits = general_text(size, precision, false);
          if (digits.find_first_of(".e") == digits.npos) digits += ".0";
        }
        break;
    }
  }
  if (spec.grouping != '\0') digits = grouped(digits, spec.grouping, 3);
  if (is_upper)
    for (char& c : digits) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return with_sign(is_negative, spec, digits);
}

void write_padded(Run& run, TextBuilder& out, const Text& text, const FormatSpec& spec, bool is_number, Marks marks) {
  const auto size = static_cast<std::int64_t>(count_chars(text.view()));
  run.charge(text.size / 64);
  if (spec.width <= size) return out.add(text);
  const auto missing = static_cast<std::uint64_t>(spec.width - size);
  const char align = spec.align != '\0' ? spec.align : is_number ? (spec.zero ? '=' : '>') : '<';
  const std::string_view fill = spec.zero && !spec.has_fill ? std::string_view("0") : std::string_view(spec.fill);
  const bool has_sign = text.size > 0 && (text.data[0] == '-' || text.data[0] == '+' || text.data[0] == ' ');
  const std::size_t head = align == '=' && has_sign ? 1 : 0;
  const std::uint64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  out.add(text, 0, head);
  out.pad(left, fill, marks);
  out.add(text, head, text.size - head);
  out.pad(missing - left, fill, marks);
}

}  // namespace qinfer::jinja
