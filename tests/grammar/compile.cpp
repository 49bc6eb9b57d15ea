// Grammars without a model: what is refused and by which name, limits, and masks that are compared with every token
// tried.
#include <qinfer/qinfer_grammar.h>

#include <string>
#include <thread>

#include "grammar/support.h"

using namespace qinfer::test;

namespace {

constexpr std::int32_t kSchema = QINFER_GRAMMAR_JSON_SCHEMA;

#define REQUIRE_REFUSED_AT(status, at, word, kind, text)                                                         \
  do {                                                                                                           \
    const std::string source(text);                                                                              \
    auto* refused = reinterpret_cast<qinfer_grammar*>(1);                                                        \
    REQUIRE_FAILS_AT(                                                                                            \
        status, at, word,                                                                                        \
        qinfer_grammar_compile(small.vocab.get(), kind, source.data(), source.size(), nullptr, &refused, &err)); \
    REQUIRE(refused == nullptr);                                                                                 \
  } while (0)
#define REQUIRE_REFUSED(status, word, kind, text) REQUIRE_REFUSED_AT(status, kAnyDetail, word, kind, text)

std::string nested(const char* open, const char* middle, const char* close, int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += open;
  text += middle;
  for (int i = 0; i < n; ++i) text += close;
  return text;
}

}  // namespace

TEST_CASE("grammar: texts that are no grammar are refused by name", "[grammar]") {
  const SmallVocab small;
  REQUIRE_REFUSED(QINFER_E_FORMAT, "is empty", kSchema, "  ");
  REQUIRE_REFUSED_AT(QINFER_E_FORMAT, 9, "not JSON", kSchema, "{\"type\":\n]");
  REQUIRE_REFUSED(QINFER_E_FORMAT, "object, true or false", kSchema, "[1]");
  REQUIRE_REFUSED_AT(QINFER_E_INVALID_ARGUMENT, 2, "NUL at byte 2", kSchema, std::string("{}\0", 3));
  REQUIRE_REFUSED_AT(QINFER_E_INVALID_ARGUMENT, 1, "not UTF-8 at byte 1", kSchema, "{\xff}");
  REQUIRE_REFUSED(QINFER_E_UNSUPPORTED, "uniqueItems", kSchema, "{\"type\":\"array\",\"uniqueItems\":true}");
  REQUIRE_REFUSED(QINFER_E_UNSUPPORTED, "minLength", kSchema, "{\"type\":\"string\",\"minLength\":1e9}");
  REQUIRE_REFUSED(QINFER_E_INVALID_ARGUMENT, "nothing fulfils", kSchema, "false");
  REQUIRE_REFUSED(QINFER_E_FORMAT, "regular expression", QINFER_GRAMMAR_REGEX, "a(b");
  REQUIRE_REFUSED(QINFER_E_FORMAT, "Lark grammar", QINFER_GRAMMAR_LARK, "start: nowhere");
  REQUIRE_REFUSED(QINFER_E_INVALID_ARGUMENT, "kind is 9", 9, "x");
}

TEST_CASE("grammar: limits hold, and a deep text needs no stack of the caller's", "[grammar]") {
  const SmallVocab small;
  REQUIRE_REFUSED(QINFER_E_UNSUPPORTED, "max_depth", kSchema, nested("{\"not\":", "1", "}", 10000));
  REQUIRE_REFUSED(QINFER_E_UNSUPPORTED, "max_depth", QINFER_GRAMMAR_REGEX, nested("(", "a", ")", 1000));
  REQUIRE_REFUSED(QINFER_E_UNSUPPORTED, "max_depth", QINFER_GRAMMAR_LARK, "start: " + nested("(", "\"a\"", ")", 1000));
  REQUIRE_REFUSED(QINFER_E_UNSUPPORTED, "max_source_bytes", QINFER_GRAMMAR_REGEX, std::string(300 << 10, 'a'));
  auto options = sized<qinfer_grammar_options>();
  options.max_depth = 121;
  qinfer_grammar* out = nullptr;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "max_depth is 121, expected at most 120",
                qinfer_grammar_compile(small.vocab.get(), kSchema, "{}", 2, &options, &out, &err));
  options.max_depth = 0;
  options.max_symbols = 3;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "beyond a limit of qinfer_grammar_options",
                qinfer_grammar_compile(small.vocab.get(), kSchema, "{}", 2, &options, &out, &err));
  options.max_symbols = 0;
  options.compile_work = 10;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "beyond a limit of qinfer_grammar_options",
                qinfer_grammar_compile(small.vocab.get(), kSchema, "{}", 2, &options, &out, &err));
  options.compile_work = 0;
  options.flags = 2;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "unknown bits: 0x2",
                qinfer_grammar_compile(small.vocab.get(), kSchema, "{}", 2, &options, &out, &err));
  options.flags = 0;
  options.struct_size = 3;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "struct_size is 3",
                qinfer_grammar_compile(small.vocab.get(), kSchema, "{}", 2, &options, &out, &err));
}

TEST_CASE("grammar: null arguments and vocabularies that cannot be are refused", "[grammar]") {
  const SmallVocab small;
  qinfer_grammar* grammar = nullptr;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "vocab is NULL",
                qinfer_grammar_compile(nullptr, kSchema, "{}", 2, nullptr, &grammar, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out is NULL",
                qinfer_grammar_compile(small.vocab.get(), kSchema, "{}", 2, nullptr, nullptr, &err));
  qinfer_grammar_matcher* matcher = nullptr;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "is NULL", qinfer_grammar_matcher_create(nullptr, &matcher, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "is NULL", qinfer_grammar_matcher_rewind(nullptr, 0, &err));
  auto options = sized<qinfer_grammar_vocab_options>();
  qinfer_grammar_vocab* vocab = nullptr;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "n_tokens is 0", qinfer_grammar_vocab_create(&options, &vocab, &err));
  options.n_tokens = 5;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "token_text", qinfer_grammar_vocab_create(&options, &vocab, &err));
  qinfer_grammar_vocab_free(nullptr);
  qinfer_grammar_free(nullptr);
  qinfer_grammar_matcher_free(nullptr);
}

TEST_CASE("grammar: a full error gets the whole message", "[grammar]") {
  const SmallVocab small;
  const std::string keyword(300, 'k');
  const std::string schema = "{\"$ref\": \"#/$defs/" + keyword + "\"}";
  char text[1000];
  auto full = sized<qinfer_full_error>();
  full.text = text;
  full.capacity = sizeof text;
  qinfer_grammar* out = nullptr;
  const qinfer_status status = qinfer_grammar_compile(small.vocab.get(), kSchema, schema.data(), schema.size(), nullptr,
                                                      &out, qinfer_full_error_arg(&full));
  REQUIRE(status == full.error.code);
  REQUIRE(status == QINFER_E_UNSUPPORTED);
  REQUIRE_THAT(std::string(text), contains(keyword));
  REQUIRE_THAT(std::string(full.error.message), contains("..."));
}

TEST_CASE("grammar: documents are accepted that fulfil a schema, and no others", "[grammar]") {
  const SmallVocab small;
  const Grammar grammar = compile(small.vocab, kSchema,
                                  R"({"type":"object","properties":{"name":{"type":"string","maxLength":5},
      "size":{"type":"integer","minimum":3,"maximum":12},"tags":{"type":"array","items":{"enum":["a","b"]},"maxItems":2}},
      "required":["name","size"],"additionalProperties":false})");
  for (const char* good :
       {R"({"name":"abc","size":3})", R"({"name": "", "size": 12})", R"({"name":"a\"b","size":7,"tags":["a", "b"]})",
        "{\n  \"name\": \"x\",\n  \"size\": 5\n}"}) {
    INFO(good);
    REQUIRE(fulfils(small, grammar, good));
  }
  for (const char* bad :
       {R"({"name":"abcdef","size":3})", R"({"name":"abc","size":13})", R"({"name":"abc","size":2})",
        R"({"name":"abc"})", R"({"name":"a","size":3,"tags":["c"]})", R"({"name":"a","size":3,"more":1})",
        R"({"name":"a","size":3)", R"({"name":      "a","size":3})", R"([])", ""}) {
    INFO(bad);
    REQUIRE_FALSE(fulfils(small, grammar, bad));
  }
}

TEST_CASE("grammar: a mask allows the tokens that are then accepted, and no others", "[grammar]") {
  const SmallVocab small;
  struct Case {
    std::int32_t kind;
    const char *text, *document;
  };
  for (const Case& c :
       {Case{kSchema, R"({"type":"object","properties":{"name":{"type":["string","null"]},"n":{"type":"number"}},
                             "required":["name"]})",
             R"({"name":"abc","n":12345})"},
        Case{QINFER_GRAMMAR_REGEX, "(ab|abc)+[0-9]{2,4}(\xc3\xa9|x)?", "ababc12345"},
        Case{QINFER_GRAMMAR_LARK, "start: \"a\" start \"b\" | \"12\"", "aaa12bbb"}}) {
    const Grammar grammar = compile(small.vocab, c.kind, c.text);
    const Matcher matcher = matcher_of(grammar);
    const std::string document(c.document);
    for (std::size_t at = 0; at <= document.size(); ++at) {
      const std::vector<std::uint32_t> mask = mask_of(matcher);
      for (qinfer_token token = 0; token <= small.end; ++token) {
        const qinfer_status status = qinfer_grammar_matcher_accept(matcher.get(), &token, 1, nullptr);
        INFO(c.text << ", after " << document.substr(0, at) << ": token " << token << " '"
                    << small.texts[static_cast<std::size_t>(token)] << "'");
        REQUIRE((status == QINFER_OK) == has(mask, token));
        if (status == QINFER_OK) REQUIRE_OK(qinfer_grammar_matcher_rewind(matcher.get(), 1, &err));
      }
      if (at == document.size()) break;
      const qinfer_token next = static_cast<unsigned char>(document[at]);
      if (qinfer_grammar_matcher_accept(matcher.get(), &next, 1, nullptr) != QINFER_OK) break;
    }
  }
}

TEST_CASE("grammar: accepting is all or nothing, clones go their own way", "[grammar]") {
  const SmallVocab small;
  const Grammar grammar = compile(small.vocab, QINFER_GRAMMAR_REGEX, "ab?c?");
  const Matcher matcher = matcher_of(grammar);
  const qinfer_token tokens[] = {'a', 'b', 'a'};
  REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 2, "cannot come next",
                   qinfer_grammar_matcher_accept(matcher.get(), tokens, 3, &err));
  REQUIRE(flags_of(matcher) == 0);
  REQUIRE_OK(qinfer_grammar_matcher_accept(matcher.get(), tokens, 2, &err));
  REQUIRE(flags_of(matcher) == QINFER_GRAMMAR_ACCEPTING);
  qinfer_grammar_matcher* copy = nullptr;
  REQUIRE_OK(qinfer_grammar_matcher_clone(matcher.get(), &copy, &err));
  const Matcher clone(copy);
  const qinfer_token c = 'c', out_of_range = small.end + 1, negative = -1;
  REQUIRE_OK(qinfer_grammar_matcher_accept(clone.get(), &c, 1, &err));
  REQUIRE(flags_of(clone) == (QINFER_GRAMMAR_ACCEPTING | QINFER_GRAMMAR_ENDED));
  REQUIRE(flags_of(matcher) == QINFER_GRAMMAR_ACCEPTING);
  REQUIRE(has(mask_of(clone), small.end));
  REQUIRE_FALSE(has(mask_of(clone), 'c'));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "cannot come next",
                qinfer_grammar_matcher_accept(matcher.get(), &out_of_range, 1, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "cannot come next",
                qinfer_grammar_matcher_accept(matcher.get(), &negative, 1, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "3 tokens to take back, and 2",
                qinfer_grammar_matcher_rewind(matcher.get(), 3, &err));
  REQUIRE_OK(qinfer_grammar_matcher_accept(clone.get(), &small.end, 1, &err));
  REQUIRE_OK(qinfer_grammar_matcher_rewind(clone.get(), 2, &err));
  REQUIRE(has(mask_of(clone), 'c'));
}

TEST_CASE("grammar: one grammar is matched by many threads at once", "[grammar][threads]") {
  const SmallVocab small;
  const Grammar grammar = compile(small.vocab, kSchema, R"({"type":"array","items":{"type":"integer"}})");
  std::vector<std::thread> threads;
  std::vector<int> good(4, 0);
  for (std::size_t i = 0; i < good.size(); ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round) good[i] += fulfils(small, grammar, "[1,2,34567,-8]") ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  REQUIRE(good == std::vector<int>(4, 20));
}
