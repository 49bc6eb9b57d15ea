// See lexer.h. The rules are those of jinja2's regular expressions, written out.
#include "jinja/lexer.h"

#include <algorithm>
#include <charconv>

#include "jinja/characters.h"
#include "jinja/limits.h"
#include "jinja/source_place.h"
#include "jinja/string_literal.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace qinfer::jinja {
namespace {

bool is_digit_ascii(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<Token>> run() {
    while (failure_.empty() && at_ < source_.size()) read_text();
    if (!failure_.empty()) {
      const Place place = find_place(source_, failed_at_);
      return error_at(Code::format, static_cast<std::int64_t>(place.line), "{}", place_message(place, failure_));
    }
    push(TokenKind::end, source_.size());
    return std::move(tokens_);
  }

 private:
  bool fail(std::size_t at, std::string message) {
    if (failure_.empty()) {
      failure_ = std::move(message);
      failed_at_ = at;
    }
    return false;
  }
  Token& push(TokenKind kind, std::size_t at, std::string_view text = {}) {
    Token token;
    token.kind = kind;
    token.at = static_cast<std::uint32_t>(at);
    token.text = text;
    return tokens_.emplace_back(std::move(token));
  }
  bool starts(std::size_t at, std::string_view what) const { return source_.substr(at).starts_with(what); }
  char char_at(std::size_t at) const { return at < source_.size() ? source_[at] : '\0'; }

  void read_text();
  bool read_raw(std::size_t tag);
  bool read_comment(std::size_t tag);
  void read_tag(bool is_block);
  bool read_token();
  bool read_number();
  bool read_name();
  bool read_string();
  bool read_operator();
  bool end_of_tag(bool is_block, std::size_t& after) const;
  std::size_t find_tag(std::size_t from) const;
  void add_text(std::size_t begin, std::size_t end, char sign, bool is_variable);
  std::size_t after_block_end(std::size_t at, bool with_newline) const;

  std::string_view source_;
  std::size_t at_ = 0;
  bool at_line_start_ = true;
  std::string brackets_;  // those that are open, as what closes them
  std::vector<Token> tokens_;
  std::string failure_;
  std::size_t failed_at_ = 0;
};

std::size_t Lexer::find_tag(std::size_t from) const {
  for (;; ++from) {
    from = source_.find('{', from);
    if (from == source_.npos) return from;
    const char next = char_at(from + 1);
    if (next == '{' || next == '%' || next == '#') return from;
  }
}

/// The text before a tag: "-" strips white space, and otherwise the blanks that a tag's line begins with go.
void Lexer::add_text(std::size_t begin, std::size_t end, char sign, bool is_variable) {
  std::string_view text = source_.substr(begin, end - begin);
  if (sign == '-') {
    text = text.substr(0, skip_space_back(text, text.size()));
  } else if (sign != '+' && !is_variable) {
    const std::size_t line = text.rfind('\n') == text.npos ? 0 : text.rfind('\n') + 1;
    if ((line > 0 || at_line_start_) && line < text.size() && skip_space(text, line) == text.size())
      text = text.substr(0, line);
  }
  if (!text.empty()) push(TokenKind::data, begin, text);
}

void Lexer::read_text() {
  const std::size_t begin = at_, tag = find_tag(at_);
  if (tag == source_.npos) {
    push(TokenKind::data, begin, source_.substr(begin));
    at_ = source_.size();
    return;
  }
  const char kind = source_[tag + 1], next = char_at(tag + 2);
  const char sign = next == '-' || next == '+' ? next : '\0';
  add_text(begin, tag, sign, kind == '{');
  at_ = tag + 2 + (sign != '\0' ? 1 : 0);
  at_line_start_ = false;
  if (kind == '#') {
    read_comment(tag);
  } else if (kind == '{') {
    push(TokenKind::variable_begin, tag);
    read_tag(false);
  } else if (!read_raw(tag)) {
    push(TokenKind::block_begin, tag);
    read_tag(true);
  }
}

/// The offset after "%}" with its sign, and what goes with it.
std::size_t Lexer::after_block_end(std::size_t at, bool with_newline) const {
  if (starts(at, "-%}")) return skip_space(source_, at + 3);
  if (starts(at, "+%}")) return at + 3;
  at += 2;
  return with_newline && char_at(at) == '\n' ? at + 1 : at;
}

/// "{% raw %}...{% endraw %}". False if the tag is another one.
bool Lexer::read_raw(std::size_t tag) {
  std::size_t at = skip_space(source_, at_);
  if (!starts(at, "raw")) return false;
  at = skip_space(source_, at + 3);
  if (!starts(at, "-%}") && !starts(at, "%}")) return false;
  const std::size_t begin = after_block_end(at, false);
  at_line_start_ = begin > 0 && source_[begin - 1] == '\n';
  for (std::size_t end = source_.find("{%", begin); end != source_.npos; end = source_.find("{%", end + 1)) {
    const char sign = char_at(end + 2);
    at = skip_space(source_, end + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    if (!starts(at, "endraw")) continue;
    at = skip_space(source_, at + 6);
    if (!starts(at, "%}") && !starts(at, "-%}") && !starts(at, "+%}")) continue;
    add_text(begin, end, sign, false);
    at_ = after_block_end(at, true);
    at_line_start_ = source_[at_ - 1] == '\n';
    return true;
  }
  fail(tag, "the raw block does not end; {% endraw %} ends it");
  return true;
}

bool Lexer::read_comment(std::size_t tag) {
  const std::size_t end = source_.find("#}", at_);
  if (end == source_.npos) return fail(tag, "the comment does not end; #} ends it");
  const char sign = end > at_ ? source_[end - 1] : '\0';
  at_ = end + 2;
  if (sign == '-') at_ = skip_space(source_, at_);
  if (sign != '-' && sign != '+' && char_at(at_) == '\n') ++at_;
  at_line_start_ = source_[at_ - 1] == '\n';
  return true;
}

bool Lexer::end_of_tag(bool is_block, std::size_t& after) const {
  if (!brackets_.empty()) return false;
  if (is_block) {
    if (!starts(at_, "%}") && !starts(at_, "-%}") && !starts(at_, "+%}")) return false;
    after = after_block_end(at_, true);
    return true;
  }
  if (!starts(at_, "}}") && !starts(at_, "-}}")) return false;
  after = source_[at_] == '-' ? skip_space(source_, at_ + 3) : at_ + 2;
  return true;
}

/// The tokens of a tag whose first characters are read.
void Lexer::read_tag(bool is_block) {
  const std::size_t tag = tokens_.back().at;
  for (;;) {
    std::size_t after = 0;
    if (end_of_tag(is_block, after)) {
      push(is_block ? TokenKind::block_end : TokenKind::variable_end, at_);
      at_ = after;
      at_line_start_ = source_[at_ - 1] == '\n';
      return;
    }
    if (const std::size_t next = skip_space(source_, at_); next != at_) {
      at_ = next;
      continue;
    }
    if (at_ >= source_.size()) {
      fail(tag, format_text("the tag does not end; {} ends it", is_block ? "%}" : "}}"));
      return;
    }
    if (!read_token()) return;
  }
}

bool Lexer::read_token() {
  const char c = source_[at_];
  if (is_digit_ascii(c)) return read_number();
  if (c == '"' || c == '\'') return read_string();
  const text::Char first = text::char_at(source_, at_);
  if (c == '_' || text::is_word_character(first.code)) return read_name();
  return read_operator();
}

/// Digits with single underscores between them; the offset after them.
template <typename IsDigit>
std::size_t skip_digits(std::string_view text, std::size_t at, IsDigit is_digit) {
  while (at < text.size() &&
         (is_digit(text[at]) || (text[at] == '_' && at + 1 < text.size() && is_digit(text[at + 1]))))
    ++at;
  return at;
}

bool Lexer::read_number() {
  const std::size_t begin = at_;
  // What follows the integer part of a float; after a point there is none.
  std::size_t end = skip_digits(source_, begin, is_digit_ascii);
  bool is_float = false;
  if (begin == 0 || source_[begin - 1] != '.') {
    std::size_t at = end;
    if (char_at(at) == '.' && is_digit_ascii(char_at(at + 1))) {
      at = skip_digits(source_, at + 1, is_digit_ascii);
      is_float = true;
      end = at;
    }
    if (char_at(at) == 'e' || char_at(at) == 'E') {
      ++at;
      if (char_at(at) == '+' || char_at(at) == '-') ++at;
      if (is_digit_ascii(char_at(at))) {
        end = skip_digits(source_, at, is_digit_ascii);
        is_float = true;
      }
    }
  }
  int base = 10;
  std::size_t digits = begin;
  if (!is_float && source_[begin] == '0') {
    const char kind = static_cast<char>(char_at(begin + 1) | 0x20);
    base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
    const auto is_one = [base](char c) {
      if (base == 16) return is_digit_ascii(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
      return c >= '0' && c < '0' + base;
    };
    if (base != 10) {
      digits = begin + 2;
      end = skip_digits(source_, digits, is_one);
      if (end == digits) base = 10, digits = begin, end = begin + 1;
    } else {
      end = skip_digits(source_, begin, [](char c) { return c == '0'; });
    }
  }
  std::string text(source_.substr(digits, end - digits));
  std::erase(text, '_');
  Token& token = push(is_float ? TokenKind::number : TokenKind::integer, begin, source_.substr(begin, end - begin));
  at_ = end;
  if (is_float) {
    if (std::from_chars(text.data(), text.data() + text.size(), token.number).ec == std::errc::result_out_of_range)
      return fail(begin, "the number is beyond a float's range, which ends at 1.8e308");
    return true;
  }
  if (std::from_chars(text.data(), text.data() + text.size(), token.integer, base).ec != std::errc()) {
    if (base != 10) return fail(begin, "the integer is beyond 64 bits; only decimal ones may be");
    token.kind = TokenKind::big_integer;
    token.text = text;
  }
  return true;
}

bool Lexer::read_name() {
  const std::size_t begin = at_;
  while (at_ < source_.size()) {
    const text::Char c = text::char_at(source_, at_);
    if (c.code != '_' && !text::is_word_character(c.code)) break;
    at_ += c.size;
  }
  push(TokenKind::name, begin, source_.substr(begin, at_ - begin));
  return true;
}

bool Lexer::read_string() {
  const std::size_t begin = at_;
  const char quote = source_[begin];
  std::size_t end = begin + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) return fail(begin, format_text("the string does not end; {} ends it", quote));
  std::string text;
  if (const char* problem = read_string_literal(source_.substr(begin + 1, end - begin - 1), text); problem != nullptr)
    return fail(begin, problem);
  push(TokenKind::string, begin).text = std::move(text);
  at_ = end + 1;
  return true;
}

bool Lexer::read_operator() {
  static constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                    "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                    ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
  const auto* found =
      std::find_if(std::begin(kOperators), std::end(kOperators), [&](std::string_view op) { return starts(at_, op); });
  if (found == std::end(kOperators)) {
    const text::Char c = text::char_at(source_, at_);
    return fail(at_, format_text("unexpected char '{}'; here stand names, literals and operators",
                                 source_.substr(at_, c.size)));
  }
  const char c = (*found)[0];
  if (c == '(' || c == '[' || c == '{') brackets_ += c == '(' ? ')' : c == '[' ? ']' : '}';
  if (c == ')' || c == ']' || c == '}') {
    if (brackets_.empty()) return fail(at_, format_text("unexpected '{}'; no bracket is open here", c));
    if (brackets_.back() != c) return fail(at_, format_text("unexpected '{}', expected '{}'", c, brackets_.back()));
    brackets_.pop_back();
  }
  push(TokenKind::op, at_, *found);
  at_ += found->size();
  return true;
}

}  // namespace

std::string normalise_newlines(std::string_view source, bool drop_last) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (drop_last && out.ends_with('\n')) out.pop_back();
  return out;
}

Result<std::vector<Token>> split_into_tokens(std::string_view source) { return Lexer(source).run(); }

}  // namespace qinfer::jinja
