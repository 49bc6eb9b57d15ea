// See regex_syntax.h. A parser by recursive descent, one function for each level of the grammar.
#include "text/regex_syntax.h"

#include <algorithm>
#include <optional>

#include "text/fields.h"
#include "text/utf8.h"

namespace qinfer::text {
namespace {

/// Groups inside groups, and repetitions of one atom: the stack of the parser and the compiler grows with them.
constexpr int kMaxDepth = 12, kMaxRepeats = 3;
constexpr std::size_t kMaxSets = 256;

/// Unicode's White_Space.
constexpr CharRange kSpaces[] = {{0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                 {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                 {0x205F, 0x205F}, {0x3000, 0x3000}};
/// Where the characters are that fold to several others, such as U+00DF to "ss".
constexpr CharRange kLongFolds[] = {{0xDF, 0xDF},     {0x130, 0x130},  {0x149, 0x149}, {0x1F0, 0x1F0},
                                    {0x390, 0x390},   {0x3B0, 0x3B0},  {0x587, 0x587}, {0x1E96, 0x1E9E},
                                    {0x1F50, 0x1FFF}, {0xFB00, 0xFB17}};
/// What Oniguruma adds to \w outside of brackets: the numbers of Latin-1 that are not digits.
constexpr CharRange kLatinNumbers[] = {{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}};

using Kind = RegexNode::Kind;
using Greed = RegexNode::Greed;
using Assertion = RegexNode::Assertion;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class Parser {
 public:
  explicit Parser(std::string_view pattern) : in_(pattern) {}

  Result<RegexTree> run() {
    QINFER_ASSIGN(tree_.root, choice(false));
    if (at_ < in_.size()) return refuse("an unmatched \")\"");
    return std::move(tree_);
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  bool at_end() const { return at_ >= in_.size(); }
  bool skip(std::string_view text) {
    if (!in_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  Status refuse(std::string_view construct) const {
    return error(Code::unsupported, "{} at byte {} is not supported", construct, at_);
  }

  Status too_deep() const { return refuse(format_text("nesting of more than {} groups", kMaxDepth)); }

  std::uint32_t add(RegexNode node) {
    tree_.nodes.push_back(node);
    return static_cast<std::uint32_t>(tree_.nodes.size() - 1);
  }
  std::uint32_t add(Kind kind, std::uint32_t child) {
    RegexNode node;
    node.kind = kind;
    node.child = child;
    return add(node);
  }
  std::uint32_t add(Assertion assertion) {
    RegexNode node;
    node.kind = Kind::assertion;
    node.assertion = assertion;
    return add(node);
  }

  Result<std::uint32_t> add_set(CharClass set) {
    set.finish();
    auto at = std::find(tree_.sets.begin(), tree_.sets.end(), set);
    if (at == tree_.sets.end()) {
      if (tree_.sets.size() == kMaxSets)
        return refuse(format_text("more than {} sets of characters, the last", kMaxSets));
      at = tree_.sets.insert(tree_.sets.end(), std::move(set));
    }
    RegexNode node;
    node.kind = Kind::set;
    node.value = static_cast<std::uint32_t>(at - tree_.sets.begin());
    return add(node);
  }

  /// One or a list of nodes.
  std::uint32_t join(Kind kind, const std::vector<std::uint32_t>& children) {
    if (children.empty()) return add(RegexNode());
    if (children.size() == 1) return children.front();
    for (std::size_t i = 0; i + 1 < children.size(); ++i) tree_.nodes[children[i]].next = children[i + 1];
    return add(kind, children.front());
  }

  /// a|b|c up to the end of the group.
  Result<std::uint32_t> choice(bool caseless) {
    std::vector<std::uint32_t> branches;
    do {
      QINFER_ASSIGN(const std::uint32_t branch, sequence(caseless));
      branches.push_back(branch);
    } while (skip("|"));
    return join(Kind::choice, branches);
  }

  Result<std::uint32_t> sequence(bool caseless) {
    std::vector<std::uint32_t> items;
    while (!at_end() && peek() != '|' && peek() != ')') {
      // The option holds for the rest of the group, "|" and what follows it included: a(?i)b|c is a(?i:b|c).
      if (const bool on = skip("(?i)"); on || skip("(?-i)")) {
        if (++depth_ > kMaxDepth) return too_deep();
        QINFER_ASSIGN(const std::uint32_t rest, choice(on));
        --depth_;
        items.push_back(rest);
        break;
      }
      QINFER_ASSIGN(std::uint32_t item, atom(caseless));
      for (int repeats = 0; peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{'; ++repeats) {
        if (repeats == kMaxRepeats) return refuse(format_text("more than {} repetitions of one another", kMaxRepeats));
        QINFER_ASSIGN(const std::optional<std::uint32_t> repeated, repeat(item));
        if (!repeated) break;
        item = *repeated;
      }
      items.push_back(item);
    }
    return join(Kind::sequence, items);
  }

  /// Wraps `item` in the repetition that follows; nullopt if the brace is a literal one.
  Result<std::optional<std::uint32_t>> repeat(std::uint32_t item) {
    RegexNode node;
    node.kind = Kind::repeat;
    node.child = item;
    node.max = RegexNode::kUnlimited;
    const char c = peek();
    if (c == '{') {
      if (!interval(node.min, node.max)) return std::optional<std::uint32_t>();
      if (node.max < node.min) return refuse("a repetition whose bounds are in the wrong order");
      // Lazy only with a comma: {n}? is "n times or not at all". A "+" repeats the repetition.
      if (has_comma_ && skip("?")) node.greed = Greed::lazy;
      return std::optional<std::uint32_t>(add(node));
    }
    ++at_;
    node.min = c == '+' ? 1 : 0;
    if (c == '?') node.max = 1;
    if (skip("?")) {
      node.greed = Greed::lazy;
    } else if (skip("+")) {
      node.greed = Greed::possessive;
    }
    return std::optional<std::uint32_t>(add(node));
  }

  /// {n}, {n,}, {n,m} and {,m}; any other brace is a literal.
  bool interval(std::uint32_t& min, std::uint32_t& max) {
    std::size_t end = at_ + 1;
    while (end < in_.size() && (is_digit(in_[end]) || in_[end] == ',')) ++end;
    const std::string_view body = in_.substr(at_ + 1, end - at_ - 1);
    const std::size_t comma = body.find(',');
    if (end >= in_.size() || in_[end] != '}' || body.empty() || body == "," ||
        (comma != body.npos && body.find(',', comma + 1) != body.npos))
      return false;
    const auto number = [](std::string_view digits) {
      std::uint32_t value = 0;
      for (const char digit : digits)
        value = std::min<std::uint32_t>(value * 10 + static_cast<std::uint32_t>(digit - '0'), 100000);
      return value;
    };
    has_comma_ = comma != body.npos;
    min = number(body.substr(0, std::min(comma, body.size())));
    max = min;
    if (has_comma_) max = comma + 1 == body.size() ? RegexNode::kUnlimited : number(body.substr(comma + 1));
    at_ = end + 1;
    return true;
  }

  Result<std::uint32_t> atom(bool caseless) {
    switch (peek()) {
      case '\\': return escape(caseless);
      case '[': return brackets(caseless);
      case '(': return group(caseless);
      case '.': {
        ++at_;
        CharClass any;
        any.add('\n', '\n');
        any.negate();
        return add_set(std::move(any));
      }
      case '^': ++at_; return add(Assertion::line_start);
      case '$': ++at_; return add(Assertion::line_end);
      case '*':
      case '+':
      case '?': return refuse("a repetition of nothing");
      default: break;
    }
    std::uint32_t min = 0, max = 0;
    if (peek() == '{' && interval(min, max)) return refuse("a repetition of nothing");
    const Char c = char_at(in_, at_);
    QINFER_TRY(check_fold(c.code, caseless));
    at_ += c.size;
    return literal(c.code, caseless);
  }

  /// Without regard to case, Oniguruma also matches "ss" with one U+00DF, and so on for ligatures.
  Status check_fold(char32_t code, bool caseless) {
    const char32_t lower = code | 0x20, before = std::exchange(last_literal_, caseless && code < 128 ? lower : 0);
    const bool folds = (before == 's' && (lower == 's' || lower == 't')) ||
                       (before == 'f' && (lower == 'f' || lower == 'i' || lower == 'l'));
    return caseless && folds && at_ > 0 && (in_[at_ - 1] | 0x20) == static_cast<char>(before)
               ? refuse("a caseless " + in_quotes(in_.substr(at_ - 1, 2)))
               : Status();
  }

  /// The same for a character, or range, that is one of these itself.
  Status check_long_folds(char32_t first, char32_t last, bool caseless) const {
    for (const CharRange& range : kLongFolds)
      if (caseless && first <= range.last && range.first <= last)
        return refuse("a character without regard to case that is several in the other case");
    return Status();
  }

  Result<std::uint32_t> literal(char32_t code, bool caseless) {
    QINFER_TRY(check_long_folds(code, code, caseless));
    if (caseless) {
      CharClass set;
      set.add(code, code);
      const char32_t folded = fold_case(code);
      set.add(folded, folded);
      for (std::size_t i = 0; i < kCaseFoldCount; ++i)
        if (kCaseFolds[i].to == folded) set.add(kCaseFolds[i].from, kCaseFolds[i].from);
      return add_set(std::move(set));
    }
    RegexNode node;
    node.kind = Kind::character;
    node.value = code;
    return add(node);
  }

  Result<std::uint32_t> group(bool caseless) {
    struct Opening {
      std::string_view text;
      Kind kind;
      bool is_behind, is_negative;
    };
    constexpr Opening kOpenings[] = {{"(?:", Kind::sequence, false, false},   {"(?i:", Kind::sequence, false, false},
                                     {"(?-i:", Kind::sequence, false, false}, {"(?=", Kind::look, false, false},
                                     {"(?!", Kind::look, false, true},        {"(?<=", Kind::look, true, false},
                                     {"(?<!", Kind::look, true, true},        {"(?>", Kind::atomic, false, false}};
    if (++depth_ > kMaxDepth) return too_deep();
    Opening found = {"(", Kind::sequence, false, false};
    if (peek(1) == '?') {
      const auto* at = std::find_if(std::begin(kOpenings), std::end(kOpenings), [this](const Opening& opening) {
        return in_.substr(at_).starts_with(opening.text);
      });
      if (at == std::end(kOpenings)) return refuse("the group " + in_quotes(in_.substr(at_, 4)));
      found = *at;
    }
    at_ += found.text.size();
    if (found.text == "(?i:") caseless = true;
    if (found.text == "(?-i:") caseless = false;
    QINFER_ASSIGN(const std::uint32_t inner, choice(caseless));
    if (!skip(")")) return refuse("a group without its \")\"");
    --depth_;
    last_literal_ = 0;
    if (found.kind == Kind::sequence) return inner;
    const std::uint32_t node = add(found.kind, inner);
    tree_.nodes[node].is_behind = found.is_behind;
    tree_.nodes[node].is_negative = found.is_negative;
    return node;
  }

  /// \s, \w, \d and their complements, \p{...}: adds the set to `out`. False if it is another escape.
  Result<bool> add_set_escape(bool in_brackets, CharClass& out) {
    CharClass set;
    switch (peek(1)) {
      case 's': out.add(kSpaces); break;
      case 'S': out.add_all_but(kSpaces); break;
      case 'd': out.add(kinds_of(Category::Nd)); break;
      case 'D': out.add(~kinds_of(Category::Nd)); break;
      case 'w':
        out.add(kWordKinds);
        if (!in_brackets) out.add(kLatinNumbers);
        break;
      case 'W':
        if (in_brackets) return false;
        out = regex_word_set();
        out.negate();
        break;
      case 'p':
      case 'P': QINFER_TRY(add_property(out)); return true;
      default: return false;
    }
    at_ += 2;
    return true;
  }

  /// \p{Name}, \P{Name}, \p{^Name}.
  Status add_property(CharClass& out) {
    const std::size_t end = in_.find('}', at_);
    if (peek(2) != '{' || end == in_.npos) return refuse("a property without braces");
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    bool negated = peek(1) == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    std::optional<KindSet> kinds = name.size() <= 2 ? find_category(name) : std::nullopt;
    if (name == "Any") kinds = ~KindSet{0};
    if (kinds) {
      out.add(negated ? ~*kinds : *kinds);
    } else if (const auto script = find_script(name)) {
      negated ? out.add_all_but(*script) : out.add(*script);
    } else {
      return refuse("the property " + in_quotes(name));
    }
    at_ = end + 1;
    return Status();
  }

  /// An escape that stands for one character.
  Result<char32_t> escaped_character() {
    constexpr std::string_view kNames = "rntfaev", kCodes = "\r\n\t\f\a\x1b\v";
    const char c = peek(1);
    if (c == 'x' || c == 'u') return code_point();
    if (const std::size_t at = kNames.find(c); c != '\0' && at != kNames.npos) {
      at_ += 2;
      return static_cast<char32_t>(kCodes[at]);
    }
    if (at_ + 1 >= in_.size() || c == '\0' || is_letter(c) || is_digit(c))
      return refuse("the escape " + in_quotes(in_.substr(at_, 2)));
    const Char escaped = char_at(in_, at_ + 1);
    at_ += 1 + escaped.size;
    return escaped.code;
  }

  /// \xHH below 0x80, \x{H...} and \uHHHH.
  Result<char32_t> code_point() {
    std::size_t begin = at_ + 2;
    const bool braces = peek(1) == 'x' && peek(2) == '{';
    if (braces) ++begin;
    const std::size_t most = braces ? 6 : peek(1) == 'x' ? 2 : 4;
    std::size_t end = begin;
    char32_t code = 0;
    for (; end < in_.size() && end - begin < most && is_hex(in_[end]); ++end) {
      const char c = in_[end];
      code = code * 16 + static_cast<char32_t>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    const bool closed = braces ? end < in_.size() && in_[end] == '}' && end > begin : end - begin == most;
    const bool is_character = code <= kLastCharacter && (code < 0xD800 || code > 0xDFFF);
    if (!closed || !is_character || (!braces && most == 2 && code >= 0x80))
      return refuse("the escape " + in_quotes(in_.substr(at_, end - at_)));
    at_ = braces ? end + 1 : end;
    return code;
  }

  Result<std::uint32_t> escape(bool caseless) {
    CharClass set;
    QINFER_ASSIGN(const bool is_set, add_set_escape(false, set));
    if (is_set) return add_set(std::move(set));
    struct Named {
      char name;
      Assertion assertion;
    };
    constexpr Named kAssertions[] = {{'b', Assertion::boundary},
                                     {'B', Assertion::no_boundary},
                                     {'A', Assertion::text_start},
                                     {'z', Assertion::text_end},
                                     {'Z', Assertion::text_end_or_newline}};
    for (const auto& [name, assertion] : kAssertions) {
      if (peek(1) != name) continue;
      at_ += 2;
      return add(assertion);
    }
    QINFER_ASSIGN(const char32_t code, escaped_character());
    return literal(code, caseless);
  }

  Result<std::uint32_t> brackets(bool caseless) {
    CharClass set;
    ++at_;
    const bool negated = skip("^");
    if (peek() == ']') return refuse("an empty class");
    while (peek() != ']') {
      if (at_end()) return refuse("a class without its \"]\"");
      QINFER_TRY(add_item(set, caseless));
    }
    ++at_;
    set.finish();
    if (caseless) ignore_case(set);
    if (negated) set.negate();
    return add_set(std::move(set));
  }

  /// Sets that are written again are not looked up again among all characters that have a case.
  void ignore_case(CharClass& set) {
    const auto known =
        std::find_if(folded_.begin(), folded_.end(), [&](const auto& pair) { return pair.first == set; });
    if (known != folded_.end()) {
      set = known->second;
      return;
    }
    CharClass before = set;
    set.ignore_case();
    if (folded_.size() < kMaxSets) folded_.emplace_back(std::move(before), set);
  }

  /// One character, range or set inside brackets.
  Status add_item(CharClass& set, bool caseless) {
    if (peek() == '[') return refuse("a class inside a class");
    if (peek() == '&' && peek(1) == '&') return refuse("an intersection of classes");
    if (peek() == '\\') {
      QINFER_ASSIGN(const bool is_set, add_set_escape(true, set));
      if (is_set) {
        if (peek() == '-' && peek(1) != ']') set.add('-', '-'), ++at_;  // literal after a set
        return Status();
      }
    }
    QINFER_ASSIGN(const char32_t first, item_character());
    if (peek() != '-' || peek(1) == ']') {
      set.add(first, first);
      return check_long_folds(first, first, caseless);
    }
    ++at_;
    if (peek() == '[') return refuse("a class inside a class");
    if (peek() == '\\' && std::string_view("sSwWdDpP").find(peek(1)) != std::string_view::npos)
      return refuse("a range that ends in a set");
    if (at_end()) return refuse("a class without its \"]\"");
    QINFER_ASSIGN(const char32_t last, item_character());
    if (last < first) return refuse("a range whose ends are in the wrong order");
    set.add(first, last);
    return check_long_folds(first, last, caseless);
  }

  Result<char32_t> item_character() {
    if (peek() == '\\') return escaped_character();
    const Char c = char_at(in_, at_);
    at_ += c.size;
    return c.code;
  }

  std::string_view in_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool has_comma_ = false;                               // in the interval that was read last
  char32_t last_literal_ = 0;                            // the caseless ASCII letter before, in lower case
  std::vector<std::pair<CharClass, CharClass>> folded_;  // sets before and after ignore_case()
  RegexTree tree_;
};

}  // namespace

CharClass regex_word_set() {
  CharClass set;
  set.add(kWordKinds);
  set.add(kLatinNumbers);
  set.finish();
  return set;
}

Result<RegexTree> parse_regex(std::string_view pattern) { return Parser(pattern).run(); }

}  // namespace qinfer::text
