// See python_literal.h. Grammar: The Python Language Reference, 2.4 and 6.2; without prefixes of strings, joined
// strings, \N{} and underscores in numbers.
#include "reply/python_literal.h"

#include <array>
#include <cstdint>

#include "formats/json.h"
#include "reply/json.h"
#include "text/utf8.h"

namespace qinfer::reply {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<std::string> read() {
    if (!value(0)) return std::nullopt;
    skip_space();
    if (at_ != text_.size()) return std::nullopt;
    return std::move(out_);
  }

 private:
  void skip_space() { at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size()); }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  bool value(int depth) {
    if (depth > formats::kMaxJsonDepth) return false;
    const char first = peek();
    if (first == '[') return sequence(']', depth);
    if (first == '(') return sequence(')', depth);
    if (first == '{') return dict(depth);
    return first == '\'' || first == '"' ? text() : word();
  }

  bool sequence(char end, int depth) {
    ++at_;
    out_ += '[';
    for (bool first = true; !take(end); first = false) {
      if (!first) {
        if (!take(',')) return false;
        if (take(end)) break;
        out_ += ", ";
      }
      if (!value(depth + 1)) return false;
    }
    out_ += ']';
    return true;
  }

  bool dict(int depth) {
    ++at_;
    out_ += '{';
    for (bool first = true; !take('}'); first = false) {
      if (!first) {
        if (!take(',')) return false;
        if (take('}')) break;
        out_ += ", ";
      }
      const char quote = peek();
      if ((quote != '\'' && quote != '"') || !text() || !take(':')) return false;
      out_ += ": ";
      if (!value(depth + 1)) return false;
    }
    out_ += '}';
    return true;
  }

  /// A name or a number.
  bool word() {
    const std::size_t end = std::min(text_.find_first_of(",:]}) \t\r\n", at_), text_.size());
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    struct Name {
      std::string_view python, json;
    };
    constexpr std::array<Name, 3> kNames = {{{"None", "null"}, {"True", "true"}, {"False", "false"}}};
    for (const Name& name : kNames)
      if (word == name.python) {
        out_ += name.json;
        return true;
      }
    const auto number = formats::parse_json(word, "number");
    if (!number.ok() || !number.value().root().is_number()) return false;
    out_ += word;
    return true;
  }

  bool text() {
    const char quote = text_[at_++];
    std::string value;
    while (at_ < text_.size() && text_[at_] != quote) {
      const char c = text_[at_++];
      if (c == '\n') return false;
      if (c != '\\') {
        value += c;
      } else if (!escape(value)) {
        return false;
      }
    }
    if (at_ >= text_.size()) return false;
    ++at_;
    formats::append_json_string(value, out_);
    return true;
  }

  bool escape(std::string& value) {
    if (at_ >= text_.size()) return false;
    const char c = text_[at_++];
    constexpr std::string_view kNames = "abfnrtv\\'\"", kValues = "\a\b\f\n\r\t\v\\'\"";
    if (const std::size_t i = kNames.find(c); i != kNames.npos) {
      value += kValues[i];
      return true;
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {  // stays, and so does the backslash
      value += '\\';
      value += c;
      return true;
    }
    std::uint32_t code = 0;
    for (std::size_t i = 0; i < digits; ++i, ++at_) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const char digit = at_ < text_.size() ? text_[at_] : '\0';
      const std::size_t n = kDigits.find(digit >= 'A' && digit <= 'F' ? static_cast<char>(digit | 0x20) : digit);
      if (n == kDigits.npos) return false;
      code = code << 4 | static_cast<std::uint32_t>(n);
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    text::append_char(value, code);
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::optional<std::string> json_of_python(std::string_view literal) { return Reader(literal).read(); }

}  // namespace qinfer::reply
