// Whatever a mask offers is accepted: random walks through grammars with everything that Lark grammars may have, and
// through grammars that are random themselves. And what a text or a grammar does that is beyond a limit: a mask or the
// compiler says so, in bounded time.
#include <qinfer/qinfer_grammar.h>

#include <chrono>
#include <random>

#include "grammar/support.h"

using namespace qinfer::test;

namespace {

using Random = std::mt19937;

std::size_t below(Random& random, std::size_t n) { return random() % n; }

std::vector<qinfer_token> offered(const std::vector<std::uint32_t>& mask, qinfer_token last) {
  std::vector<qinfer_token> tokens;
  for (qinfer_token token = 0; token <= last; ++token)
    if (has(mask, token)) tokens.push_back(token);
  return tokens;
}

/// Whether a copy of the matcher accepts a token.
bool accepts(const Matcher& matcher, qinfer_token token) {
  qinfer_grammar_matcher* out = nullptr;
  if (qinfer_grammar_matcher_clone(matcher.get(), &out, nullptr) != QINFER_OK) return false;
  const Matcher copy(out);
  return qinfer_grammar_matcher_accept(copy.get(), &token, 1, nullptr) == QINFER_OK;
}

/// Walks where the masks lead. At each place all control tokens that are offered are accepted, and some others.
void walk(const SmallVocab& small, const Grammar& grammar, Random& random) {
  const Matcher matcher = matcher_of(grammar);
  std::string text;
  for (int step = 0; step < 12; ++step) {
    std::vector<std::uint32_t> mask((small.texts.size() + 31) / 32);
    std::size_t n = 0;
    qinfer_error err = {};
    const qinfer_status status = qinfer_grammar_matcher_mask(matcher.get(), mask.data(), mask.size(), &n, &err);
    INFO("after \"" << text << "\": " << err.message);
    REQUIRE((status == QINFER_OK || status == QINFER_E_UNSUPPORTED));
    if (status != QINFER_OK) return;  // a limit, or a place that no token leads away from
    const std::vector<qinfer_token> tokens = offered(mask, small.end);
    REQUIRE_FALSE(tokens.empty());
    for (const qinfer_token token : tokens) {
      if (token < small.separator && below(random, tokens.size()) >= 8) continue;
      if (accepts(matcher, token)) continue;
      INFO("token " << token << " '" << small.texts[static_cast<std::size_t>(token)] << "'");
      FAIL("a token that the mask offers is not accepted");
    }
    const qinfer_token next = tokens[below(random, tokens.size())];
    REQUIRE_OK(qinfer_grammar_matcher_accept(matcher.get(), &next, 1, &err));
    if (next == small.end) return;
    text += small.texts[static_cast<std::size_t>(next)];
  }
}

/// A Lark grammar of four rules. The stop text is one that nothing after it begins with: elsewhere the engine panics.
std::string random_grammar(Random& random) {
  constexpr const char* kAtoms[] = {"\"a\"",      "\"b\"",
                                    "\"ab\"",     "\"12\"",
                                    "/[ab]+/",    "/a*b/",
                                    "/[^c]/",     "/a{2,5}/",
                                    "<sep>",      "<[5]>",
                                    "<[*]>",      "<[^97]>",
                                    "<[90-260]>", "\"\"",
                                    "rule0",      "rule1",
                                    "rule2",      "rule3",
                                    "lazy",       "ended",
                                    "limited",    "%json {\"type\": \"integer\"}"};
  constexpr const char* kTimes[] = {"", "", "", "", "?", "*", "+", "{0,3}", "{2}", "{0,40}"};
  std::string text = "start: rule0\nlazy[lazy]: /a*b/\nended[stop=\"!\"]: /[a-z]*/\nlimited[max_tokens=2]: /[a-z]*/\n";
  for (int rule = 0; rule < 4; ++rule) {
    text += "rule" + std::to_string(rule) + ": ";
    const std::size_t n_alternatives = 1 + below(random, 3);
    for (std::size_t i = 0; i < n_alternatives; ++i) {
      if (i != 0) text += " | ";
      const std::size_t n_atoms = 1 + below(random, 3);
      for (std::size_t k = 0; k < n_atoms; ++k) {
        const std::string atom = kAtoms[below(random, std::size(kAtoms))];
        text += atom.starts_with('%') ? atom + " " : "(" + atom + ")" + kTimes[below(random, std::size(kTimes))] + " ";
      }
    }
    text += '\n';
  }
  return text;
}

qinfer_grammar_options limited(std::uint32_t max_row_items, std::uint64_t mask_work = 0) {
  auto options = sized<qinfer_grammar_options>();
  options.max_row_items = max_row_items;
  options.mask_work = mask_work;
  return options;
}

void refused(const SmallVocab& small, const char* word, const std::string& text) {
  qinfer_grammar* out = nullptr;
  REQUIRE_FAILS(
      QINFER_E_UNSUPPORTED, word,
      qinfer_grammar_compile(small.vocab.get(), QINFER_GRAMMAR_LARK, text.data(), text.size(), nullptr, &out, &err));
}

/// The mask fails, and says so again.
void stuck(const Matcher& matcher, const char* word) {
  std::uint32_t words[16];
  std::size_t n = 0;
  for (int i = 0; i < 2; ++i)
    REQUIRE_FAILS(QINFER_E_UNSUPPORTED, word, qinfer_grammar_matcher_mask(matcher.get(), words, 16, &n, &err));
  REQUIRE(flags_of(matcher) == QINFER_GRAMMAR_FAILED);
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, word, qinfer_grammar_matcher_error(matcher.get(), &err));
}

constexpr const char* kLark[] = {
    "start: \"a\" start \"b\" | \"12\"",
    "start: <sep> /[a-z]+/ <sep>",
    "start: <[5]> \"x\"",
    "start: <[*]>{2} \"ab\"",
    "start: <[^10-260]>+",
    "start: (\"a\" <[97]>)+ \"b\"",
    "start: <sep>? (\"a\" <sep> | \"b\" <[5]>)*",
    "start: \"a\"{3,} <[12]> | \"ab\" <[13-15,97]>",
    "start: x \"b\"\nx[stop=\"aa\"]: /[a-z]*/",
    "start: x \"b\"\nx[suffix=\"aa\"]: /[a-z]*/",
    "start: x \"b\"\nx[max_tokens=3]: /[a-z ]*/",
    "start: x y\nx[stop=\"\"]: /[ab]*/\ny: \"b\"",
    "start: x y\nx[stop=/[0-9]/]: /[ab]*/\ny: \"b\"",
    "start: x\nx[stop=\"\", max_tokens=4]: /.*/",
    "start: x \"!\"\nx[lazy]: /a*b/",
    "start: \"<\" x \">\"\nx[capture, max_tokens=5]: y*\ny: \"ab\" | \"c\"",
    "start: %json {\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]} \"!\"",
    "start: a+ b\na: %lark {\n start: /[ab]{1,3}/ \"c\"\n}\nb: \"!\"",
    "start: A B C\nA: /a+/\nB: /[ab]+/\nC: /b?c/",
    "%ignore / +/\nstart: \"ab\" \"c\" | \"abc\" \"12\"",
    "start: p::0x0\np::_: \".\" | \"a\" p::set_bit(0) %if bit_clear(0) | \"b\" p::set_bit(1) %if bit_clear(1)",
    "start: s\ns: \"a\" s | \"b\"",
    "start: (/[0-9]+/ \",\")* /[0-9]+/",
    "start: (\"a\" | \"aa\" | \"aaa\")+ \"b\"?",
    "start: x{0,50}\nx: y{0,50}\ny: \"a\"",
    "start: x{0,1000}\nx: y{0,1000}\ny: \"a\"",
    "start: /a{2,5}/ /(ab|ba)*/ \"c\"~3",
    "start: T \"k\"\nT: /[a-z]+/ & ~/.*b.*/",
    "start: x[temperature=0.5] \"a\"\nx: \"b\""};

}  // namespace

TEST_CASE("grammar: what a mask offers is accepted, by Lark grammars of every kind", "[grammar]") {
  const SmallVocab small;
  Random random(1);
  std::size_t n_compiled = 0;
  for (const char* text : kLark) {
    INFO(text);
    qinfer_grammar* out = nullptr;
    if (qinfer_grammar_compile(small.vocab.get(), QINFER_GRAMMAR_LARK, text, SIZE_MAX, nullptr, &out, nullptr) != 0)
      continue;
    ++n_compiled;
    const Grammar grammar(out);
    for (int i = 0; i < 6; ++i) walk(small, grammar, random);
  }
  REQUIRE(n_compiled >= std::size(kLark) - 3);
}

TEST_CASE("grammar: what a mask offers is accepted, by random grammars", "[grammar]") {
  const SmallVocab small;
  Random random(2);
  int n_compiled = 0;
  const qinfer_grammar_options options = limited(100, 40'000);
  for (int round = 0; round < 150; ++round) {
    const std::string text = random_grammar(random);
    INFO(text);
    qinfer_grammar* out = nullptr;
    if (qinfer_grammar_compile(small.vocab.get(), QINFER_GRAMMAR_LARK, text.data(), text.size(), &options, &out,
                               nullptr) != QINFER_OK)
      continue;
    ++n_compiled;
    const Grammar grammar(out);
    for (int i = 0; i < 3; ++i) walk(small, grammar, random);
  }
  REQUIRE(n_compiled >= 50);
}

TEST_CASE("grammar: end tokens are no part of a text", "[grammar]") {
  const SmallVocab small;
  refused(small, "names <end>, which is an end token", "start: <end> <end>");
  refused(small, "names <end>, which is an end token", "start: \"a\" <end>?");
  const Grammar grammar = compile(small.vocab, QINFER_GRAMMAR_LARK, "start: <[*]>{2}");
  const Matcher matcher = matcher_of(grammar);
  for (int i = 0; i < 2; ++i) {
    const auto mask = mask_of(matcher);
    REQUIRE(has(mask, 'a'));
    REQUIRE(has(mask, small.separator));
    REQUIRE_FALSE(has(mask, 0xff));  // as every token with this byte
    REQUIRE_FALSE(has(mask, small.end));
    REQUIRE_OK(qinfer_grammar_matcher_accept(matcher.get(), &small.separator, 1, &err));
  }
  REQUIRE(offered(mask_of(matcher), small.end) == std::vector<qinfer_token>{small.end});
}

TEST_CASE("grammar: a text beyond max_row_items ends at the mask after it, and may be taken back", "[grammar]") {
  const SmallVocab small;
  const qinfer_grammar_options options = limited(20);
  const Grammar grammar = compile(small.vocab, QINFER_GRAMMAR_LARK, "start: s \"c\"\ns: \"a\" s | \"b\"", &options);
  const Matcher matcher = matcher_of(grammar);
  const std::vector<qinfer_token> many(30, 'a');
  REQUIRE_OK(qinfer_grammar_matcher_accept(matcher.get(), many.data(), many.size(), &err));
  REQUIRE(has(mask_of(matcher), 'b'));
  const qinfer_token b = 'b', c = 'c';
  REQUIRE_OK(qinfer_grammar_matcher_accept(matcher.get(), &b, 1, &err));
  stuck(matcher, "beyond max_row_items of qinfer_grammar_options");
  REQUIRE_FAILS_AT(QINFER_E_UNSUPPORTED, 0, "max_row_items", qinfer_grammar_matcher_accept(matcher.get(), &c, 1, &err));
  REQUIRE_OK(qinfer_grammar_matcher_rewind(matcher.get(), 1, &err));
  REQUIRE(has(mask_of(matcher), 'b'));
  REQUIRE_OK(qinfer_grammar_matcher_rewind(matcher.get(), 25, &err));
  const qinfer_token rest[] = {'b', 'c', small.end};
  REQUIRE_OK(qinfer_grammar_matcher_accept(matcher.get(), rest, 3, &err));
}

TEST_CASE("grammar: rules with too many items at one place are refused by name", "[grammar]") {
  const SmallVocab small;
  std::string rule;
  for (int i = 0; i < 20'000; ++i) rule += (i == 0 ? "\"a" : "|\"a") + std::to_string(i) + "\"";
  refused(small, "more than 2000 items where its rule \"start\" begins", "start: " + rule);
  refused(small, "items where its rule \"many\" begins", "start: \"q\" many \"r\"\nmany: " + rule);
  compile(small.vocab, QINFER_GRAMMAR_LARK,
          "start: \"q\" MANY \"r\"\nMANY: " + rule.substr(0, rule.find("|\"a3000\"")));
}

TEST_CASE("grammar: rows without end end in bounded time", "[grammar]") {
  const SmallVocab small;
  const auto begun = std::chrono::steady_clock::now();
  const std::string count_on = "x::_: \"a\" | x::incr(_) \"b\"\n";
  refused(small, "items where its rule \"start\" begins", "start: x::0x0 | \"z\"\n" + count_on);
  const qinfer_grammar_options options = limited(0, 20'000);
  const Grammar grammar = compile(small.vocab, QINFER_GRAMMAR_LARK, "start: \"qq\" x::0x0\n" + count_on, &options);
  const Matcher matcher = matcher_of(grammar), blind = matcher_of(grammar);
  const qinfer_token q = 'q';
  REQUIRE(has(mask_of(matcher), 'q'));
  REQUIRE_OK(qinfer_grammar_matcher_accept(matcher.get(), &q, 1, &err));
  stuck(matcher, "beyond mask_work of qinfer_grammar_options");
  REQUIRE_OK(qinfer_grammar_matcher_rewind(matcher.get(), 1, &err));
  REQUIRE(has(mask_of(matcher), 'q'));
  const qinfer_token text[] = {'q', 'q', 'a'};
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "mask_work", qinfer_grammar_matcher_accept(blind.get(), text, 3, &err));
  REQUIRE(std::chrono::steady_clock::now() - begun < std::chrono::seconds(60));
}
