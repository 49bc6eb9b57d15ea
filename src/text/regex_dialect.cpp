// See regex_dialect.h.
#include "text/regex_dialect.h"

#include <optional>
#include <vector>

#include "text/fields.h"
#include "text/utf8.h"

namespace qinfer::text {
namespace {

/// Unicode's White_Space, for use inside a class.
constexpr std::string_view kSpaceSet =
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
/// \w inside a class, and what Oniguruma adds to it outside of one: the numbers of Latin-1 that are not digits.
constexpr std::string_view kWordSet = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
constexpr std::string_view kOuterWordSet = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class Rewriter {
 public:
  explicit Rewriter(std::string_view pattern) : in_(pattern) {}

  Result<std::string> run() {
    while (at_ < in_.size()) QINFER_TRY(next());
    return std::move(out_);
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  Status refuse(std::string_view construct) const {
    return error(Code::unsupported, "{} at byte {} is not supported", construct, at_);
  }
  /// Copies one character as an atom.
  Status copy_character() {
    // Without regard to case, Oniguruma also matches "ss" with one U+00DF, and so on for ligatures.
    const char c = static_cast<char>(in_[at_] | 0x20), before = at_ > 0 ? static_cast<char>(in_[at_ - 1] | 0x20) : '\0';
    if (((before == 's' && (c == 's' || c == 't')) || (before == 'f' && (c == 'f' || c == 'i' || c == 'l'))) &&
        in_.find("(?i") != in_.npos)
      return refuse("a caseless " + in_quotes(in_.substr(at_ - 1, 2)));
    atom_ = out_.size();
    const unsigned size = char_at(in_, at_).size;
    out_.append(in_.substr(at_, size));
    at_ += size;
    return Status();
  }

  Status next() {
    switch (peek()) {
      case '\\': atom_ = out_.size(); return escape(false);
      case '[': atom_ = out_.size(); return character_class();
      case '(': return open_group();
      case ')':
        if (groups_.empty()) return refuse("an unmatched \")\"");
        out_ += in_[at_++];
        atom_ = groups_.back();
        groups_.pop_back();
        return Status();
      case '{': return repetition();
      case '*':
      case '+':
      case '?':
        out_ += in_[at_++];  // followed by ? or +: lazy and possessive in both
        if (peek() == '?' || peek() == '+') out_ += in_[at_++];
        return Status();
      default: return copy_character();
    }
  }

  Status open_group() {
    groups_.push_back(out_.size());
    constexpr std::string_view kPlain[] = {"(?:", "(?=",  "(?!",  "(?<=",  "(?<!",
                                           "(?>", "(?i:", "(?i)", "(?-i:", "(?-i)"};
    if (peek(1) != '?') {
      out_ += in_[at_++];
      return Status();
    }
    for (const std::string_view opening : kPlain) {
      if (in_.substr(at_, opening.size()) != opening) continue;
      out_.append(opening);
      at_ += opening.size();
      if (opening.back() == ')') groups_.pop_back();
      return Status();
    }
    return refuse("the group " + in_quotes(in_.substr(at_, 4)));
  }

  /// {n}, {n,}, {n,m} and Oniguruma's {,m}; any other brace is a literal in both.
  Status repetition() {
    std::size_t end = at_ + 1;
    while (end < in_.size() && (is_digit(in_[end]) || in_[end] == ',')) ++end;
    const std::string_view body = in_.substr(at_ + 1, end - at_ - 1);
    if (end == in_.size() || in_[end] != '}' || body.empty() || body == ",") {
      atom_ = out_.size();
      out_ += "\\{";
      ++at_;
      return Status();
    }
    if (atom_ == std::string::npos) return refuse("a repetition of nothing");
    out_ += '{';
    if (body.front() == ',') out_ += '0';
    out_.append(body);
    out_ += '}';
    at_ = end + 1;
    // {n}+ repeats the repetition there and is possessive here; {n}? is "n times or not at all" there and lazy here.
    if (peek() == '+' || (peek() == '?' && body.find(',') == body.npos)) {
      out_.insert(atom_, "(?:");
      out_ += ')';
    }
    return Status();
  }

  /// An escape that stands for a set: \s \S \w \W \d \D. Empty if it is not one of these.
  static std::string set_escape(char c, bool in_class) {
    const auto bracket = [&](std::string_view set, bool negated) {
      return fmt::format("[{}{}]", negated ? "^" : "", set);
    };
    switch (c) {
      case 's': return in_class ? std::string(kSpaceSet) : bracket(kSpaceSet, false);
      case 'S': return in_class ? "\\S\\x{180e}" : bracket(kSpaceSet, true);
      case 'w': return in_class ? std::string(kWordSet) : bracket(kOuterWordSet, false);
      case 'W': return in_class ? std::string() : bracket(kOuterWordSet, true);
      case 'd': return "\\p{Nd}";
      case 'D': return "\\P{Nd}";
      default: return {};
    }
  }

  /// Skips `size` bytes of the pattern and writes `replacement` for them.
  Status rewrite(std::size_t size, std::string_view replacement) {
    out_.append(replacement);
    at_ += size;
    return Status();
  }

  Status escape(bool in_class) {
    const char c = peek(1);
    if (const std::string set = set_escape(c, in_class); !set.empty()) {
      QINFER_TRY(rewrite(2, set));
      // A "-" after a set is literal there, but would make a range of the set's last character here.
      return in_class && peek() == '-' && peek(1) != ']' ? rewrite(1, "\\-") : Status();
    }
    switch (c) {
      case 'p':
      case 'P': return property();
      case 'x':
      case 'u': return code_point();
      case 'b':
      case 'B':
        if (!in_class) return rewrite(2, boundary(c == 'b'));
        break;
      case 'v': return rewrite(2, "\\x0b");
      case 'A':
      case 'z':
      case 'Z':
        if (!in_class) return rewrite(2, in_.substr(at_, 2));
        break;
      case 'r':
      case 'n':
      case 't':
      case 'f':
      case 'a':
      case 'e': return rewrite(2, in_.substr(at_, 2));
      default:
        if (c == '\0' || is_letter(c) || is_digit(c)) break;
        if (static_cast<unsigned char>(c) < 0x80) return rewrite(2, in_.substr(at_, 2));
        return rewrite(1 + char_at(in_, at_ + 1).size, in_.substr(at_ + 1, char_at(in_, at_ + 1).size));
    }
    return refuse("the escape " + in_quotes(in_.substr(at_, c != '\0' ? 2 : 1)));
  }

  static std::string boundary(bool is_one) {
    return is_one ? fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", kOuterWordSet)
                  : fmt::format("(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))", kOuterWordSet);
  }

  /// \p{Name}, \P{Name}, \p{^Name}. Long names are scripts, which both spell alike.
  Status property() {
    const std::size_t end = in_.find('}', at_);
    if (peek(2) != '{' || end == in_.npos) return refuse("a property without braces");
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    bool negated = peek(1) == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    for (const char c : name)
      if (!is_letter(c) && c != '_') return refuse("the property " + in_quotes(name));
    const bool is_script = name.size() > 2 && name != "Any";
    out_ += fmt::format("\\{}{{{}{}}}", negated ? 'P' : 'p', is_script ? "sc:" : "", name);
    at_ = end + 1;
    return Status();
  }

  /// \xHH below 0x80, \x{H...} and \uHHHH.
  Status code_point() {
    std::size_t begin = at_ + 2, end = begin;
    const bool braces = peek(1) == 'x' && peek(2) == '{';
    if (braces) end = ++begin;
    const std::size_t most = braces ? 6 : peek(1) == 'x' ? 2 : 4;
    std::uint32_t code = 0;
    for (; end < in_.size() && end - begin < most && is_hex(in_[end]); ++end) {
      const char c = in_[end];
      code = code * 16 + static_cast<std::uint32_t>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    const bool closed = braces ? end < in_.size() && in_[end] == '}' && end > begin : end - begin == most;
    if (!closed || (!braces && most == 2 && code >= 0x80))
      return refuse("the escape " + in_quotes(in_.substr(at_, end - at_)));
    out_ += fmt::format("\\x{{{:x}}}", code);
    at_ = braces ? end + 1 : end;
    return Status();
  }

  Status character_class() {
    out_ += in_[at_++];
    if (peek() == '^') out_ += in_[at_++];
    if (peek() == ']') return refuse("an empty class");
    while (peek() != ']') {
      if (at_ >= in_.size()) return refuse("a class without its \"]\"");
      if (peek() == '[') return refuse("a class inside a class");
      if (peek() == '&' && peek(1) == '&') return refuse("an intersection of classes");
      if (peek() == '\\') {
        QINFER_TRY(escape(true));
      } else {
        const unsigned size = char_at(in_, at_).size;
        out_.append(in_.substr(at_, size));
        at_ += size;
      }
    }
    out_ += in_[at_++];
    return Status();
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
  std::vector<std::size_t> groups_;       // where each open group begins in out_
  std::size_t atom_ = std::string::npos;  // where the last atom begins in out_
};

}  // namespace

Result<std::string> to_pcre2_dialect(std::string_view pattern) { return Rewriter(pattern).run(); }

}  // namespace qinfer::text
