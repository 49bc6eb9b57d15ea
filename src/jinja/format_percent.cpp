// See operators.h: `format % arguments`, as Python's texts have it.
#include <algorithm>

#include "jinja/compare.h"
#include "jinja/number_format.h"
#include "jinja/operators.h"
#include "jinja/print.h"

namespace qinfer::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Run& run, const Text& format, const Value& arguments)
      : run_(run), format_(format), arguments_(arguments), out_(run) {}

  Value format() {
    std::size_t at = 0;
    while (!run_.failed()) {
      const std::size_t percent = std::min(view().find('%', at), format_.size);
      out_.add(format_, at, percent - at);
      if (percent == format_.size) break;
      at = conversion(percent + 1);
    }
    const bool has_rest = !used_mapping_ && (arguments_.is(Kind::tuple)
                                                 ? next_ < arguments_.list->size
                                                 : next_ == 0 && !arguments_.is(Kind::dict) &&
                                                       !arguments_.is(Kind::list) && !arguments_.is(Kind::undefined));
    if (has_rest) return run_.fail("not all arguments converted during string formatting");
    return out_.finish(format_.markup);
  }

 private:
  std::string_view view() const { return format_.view(); }
  char char_at(std::size_t at) const { return at < format_.size ? format_.data[at] : '\0'; }

  /// The next argument, or the one of the key that the conversion named.
  Value argument() {
    if (has_key_) return keyed_;
    if (arguments_.is(Kind::tuple)) {
      if (next_ < arguments_.list->size) return arguments_.list->items[next_++];
    } else if (next_++ == 0) {
      return arguments_;
    }
    return run_.fail("not enough arguments for format string");
  }

  std::size_t key(std::size_t at) {
    has_key_ = false;
    if (char_at(at) != '(') return at;
    std::size_t end = at + 1;
    for (int depth = 1; end < format_.size; ++end) {
      depth += format_.data[end] == '(' ? 1 : format_.data[end] == ')' ? -1 : 0;
      if (depth == 0) break;
    }
    if (end == format_.size) {
      run_.fail("incomplete format key");
      return end;
    }
    if (!arguments_.is(Kind::dict)) {
      run_.fail("format requires a mapping");
      return end;
    }
    const Value name = run_.part(format_, at + 1, end - at - 1);
    const Value* found = find(run_, *arguments_.dict, name);
    if (found == nullptr)
      run_.fail(short_repr(name));
    else
      keyed_ = *found;
    has_key_ = used_mapping_ = true;
    return end + 1;
  }

  std::size_t number(std::size_t at, std::int64_t& value) {
    if (char_at(at) == '*') {
      const Value given = argument();
      if (!given.is_integral())
        run_.fail("* wants int");
      else if (given.as_integer() < -INT64_MAX)  // which has no positive counterpart
        run_.fail("width or precision too big");
      else
        value = given.as_integer();
      return at + 1;
    }
    for (value = 0; char_at(at) >= '0' && char_at(at) <= '9'; ++at) {
      value = value * 10 + (char_at(at) - '0');
      if (value > INT32_MAX) {
        run_.fail("width or precision too big");
        return at;
      }
    }
    return at;
  }

  /// The conversion whose "%" is before `at`. Returns where it ends.
  std::size_t conversion(std::size_t at) {
    const Marks marks = format_.marks_at(at - 1);
    at = key(at);
    FormatSpec spec;
    for (; std::string_view("-+ #0").find(char_at(at)) != std::string_view::npos && char_at(at) != '\0'; ++at) {
      const char flag = char_at(at);
      if (flag == '-') spec.align = '<';
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
      if (flag == '#') spec.alternate = true;
      if (flag == '0') spec.zero = true;
    }
    at = number(at, spec.width);
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (char_at(at) == '.') {
      at = number(at + 1, spec.precision);
      spec.precision = std::max<std::int64_t>(spec.precision, 0);
    }
    while (char_at(at) == 'l' || char_at(at) == 'h' || char_at(at) == 'L') ++at;
    if (at >= format_.size && !run_.failed()) run_.fail("incomplete format");
    if (run_.failed()) return at;
    spec.type = char_at(at);
    convert(spec, marks, at);
    return at + 1;
  }

  void convert(FormatSpec& spec, Marks marks, std::size_t at) {
    if (spec.type == '%') return out_.add("%", marks);
    static constexpr std::string_view kTypes = "srdiuxXofFeEgGc";
    if (kTypes.find(spec.type) == kTypes.npos) {
      run_.fail(format_text("unsupported format character '{}' (0x{:x}) at index {}", spec.type,
                            static_cast<unsigned>(static_cast<unsigned char>(spec.type)), at));
      return;
    }
    const Value value = argument();
    if (run_.failed()) return;
    const bool is_text = spec.type == 's' || spec.type == 'r' || spec.type == 'c';
    const Value text = is_text ? text_of(spec, value) : number_of(spec, value);
    if (is_text || spec.align == '<') spec.zero = false;
    if (run_.failed()) return;
    write_padded(run_, out_, *text.text, spec, spec.align == '\0', marks);
  }

  Value text_of(const FormatSpec& spec, const Value& value) {
    TextBuilder out(run_);
    if (spec.type == 'c') {
      if (value.is_integral() && value.as_integer() >= 0 && value.as_integer() <= 0x10FFFF &&
          (value.as_integer() < 0xD800 || value.as_integer() > 0xDFFF))
        out.add_char(static_cast<char32_t>(value.as_integer()), value.marks);
      else if (value.is_text() && length(run_, value) == 1)
        out.add(*value.text);
      else
        run_.fail("%c requires int or char");
    } else if (spec.type == 's') {
      if (format_.markup)
        out.add(*escape_html(run_, value).text);
      else
        write_text(run_, out, value);
    } else {
      write_repr(run_, out, value);
    }
    const Value text = out.finish();
    return spec.precision < 0 ? text : slice(run_, text, none_value(), integer_value(spec.precision), none_value());
  }

  Value number_of(FormatSpec& spec, const Value& value) {
    static constexpr std::string_view kIntegers = "diuxXo";
    const bool is_integer = kIntegers.find(spec.type) != kIntegers.npos;
    if (value.is_undefined()) return run_.fail_undefined(value);
    if (!value.is_numeric()) {
      return run_.fail(
          is_integer
              ? format_text("%{} format: {} is required, not {}", spec.type,
                            spec.type == 'd' || spec.type == 'i' || spec.type == 'u' ? "a real number" : "an integer",
                            type_name(value))
              : format_text("must be real number, not {}", type_name(value)));
    }
    if (!is_integer) return run_.text(number_text(value.as_number(), spec), value.marks);
    if (value.is(Kind::number) && (spec.type == 'x' || spec.type == 'X' || spec.type == 'o'))
      return run_.fail(format_text("%{} format: an integer is required, not float", spec.type));
    if (value.is(Kind::number) && !(value.number > -9.2e18 && value.number < 9.2e18))
      return run_.fail("the number is no integer of 64 bits", Code::unsupported);
    const std::int64_t integer = value.is(Kind::number) ? static_cast<std::int64_t>(value.number) : value.as_integer();
    std::string digits = integer_text(integer, spec);
    // A precision is the least number of digits.
    const std::size_t head = digits.find_first_of("0123456789abcdefABCDEF");
    const auto wanted = static_cast<std::size_t>(std::clamp<std::int64_t>(spec.precision, 0, kMaxPrecision));
    if (digits.size() - head < wanted) digits.insert(head, wanted - (digits.size() - head), '0');
    return run_.text(digits, value.marks);
  }

  Run& run_;
  const Text& format_;
  const Value& arguments_;
  TextBuilder out_;
  std::size_t next_ = 0;
  bool has_key_ = false, used_mapping_ = false;
  Value keyed_;
};

}  // namespace

Value format_percent(Run& run, const Text& format, const Value& arguments) {
  return PercentFormatter(run, format, arguments).format();
}

}  // namespace qinfer::jinja
