// The C++ classes over qinfer_grammar.h: grammars for sessions and chats, matchers by hand, and errors that name what
// is wrong.
#include <qinfer/qinfer_chat.hpp>
#include <qinfer/qinfer_grammar.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include "support/c_api.h"

using namespace qinfer::test;

namespace {

constexpr const char* kSchema = R"({"type":"object","properties":{"hen":{"type":"integer","minimum":0,"maximum":99},
  "day":{"enum":["Monday","Tuesday"]}},"required":["hen","day"],"additionalProperties":false})";

const qi::Model& stories() {
  static const qi::Model model = qi::Model::load(QINFER_TEST_MODELS "/tiny-stories");
  return model;
}
const qi::Model& tiny_chat() {
  static const qi::Model model = qi::Model::load(QINFER_TEST_MODELS "/tiny-chat");
  return model;
}

void heat(qi::Session& session, std::uint64_t seed) {
  auto sampler = qi::options<qinfer_sampler_options>();
  sampler.temperature = 1.5f;
  sampler.seed = seed;
  session.set_sampler(sampler);
}

qi::Session prompted(std::uint64_t seed) {
  qi::KvCache cache(stories());
  qi::Session session(cache);
  session.append(stories().tokenize("Once upon a time", QINFER_TEXT_ADD_SPECIAL));
  heat(session, seed);
  return session;
}

std::string text_under(const qi::Constraint& constraint, std::uint64_t seed) {
  qi::Session session = prompted(seed);
  constraint.begin(session);
  qi::GenerateOptions request;
  request.max_tokens = 200;
  return session.generate_text(request);
}

void require_fulfilled(const std::string& text) {
  INFO(text);
  const nlohmann::json document = nlohmann::json::parse(text);
  REQUIRE(document.size() == 2);
  CHECK(document.at("hen").get<int>() >= 0);
  CHECK(document.at("hen").get<int>() <= 99);
  CHECK((document.at("day") == "Monday" || document.at("day") == "Tuesday"));
}

/// The call throws an Error of this status that says this text.
void require_error(qinfer_status status, const std::string& text, const std::function<void()>& call) {
  try {
    call();
    FAIL("no error that says " << text);
  } catch (const qi::Error& error) {
    INFO(error.what());
    CHECK(error.status() == status);
    CHECK(std::string(error.what()).find(text) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("C++ classes: what a session draws fulfils its grammar", "[grammar]") {
  const qi::GrammarVocab vocab(stories());
  const qi::Grammar schema = qi::Grammar::json_schema(vocab, kSchema);
  const qi::Grammar regex = qi::Grammar::regex(vocab, "[a-c]{3}(x|yz)");
  const qi::Grammar lark = qi::Grammar::lark(stories(), "start: \"a\" DIGITS\nDIGITS: /[0-9]{2}/");
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    require_fulfilled(text_under(schema, seed));
    CHECK(std::regex_match(text_under(regex, seed), std::regex("[a-c]{3}(x|yz)")));
    CHECK(std::regex_match(text_under(lark, seed), std::regex("a[0-9]{2}")));
  }
  CHECK(schema.info().kind == QINFER_GRAMMAR_JSON_SCHEMA);
  CHECK(regex.info().kind == QINFER_GRAMMAR_REGEX);
  CHECK(lark.info().n_tokens == stories().info().n_vocab);
}

TEST_CASE("C++ classes: a session's hook goes on without the objects it was made with", "[grammar]") {
  qi::Session session = prompted(1);
  std::function<void()> check;
  {
    const qi::Grammar grammar = qi::Grammar::json_schema(stories(), kSchema);
    check = grammar.begin(session);
  }
  qi::Session fork = session.fork();
  qi::GenerateOptions request;
  request.max_tokens = 200;
  require_fulfilled(session.generate_text(request));
  require_fulfilled(fork.generate_text(request));
  REQUIRE_NOTHROW(check());
}

TEST_CASE("C++ classes: matchers by hand", "[grammar]") {
  const qi::Grammar grammar = qi::Grammar::regex(stories(), "ab+");
  qi::GrammarMatcher matcher(grammar);
  const auto may_come = [](qi::GrammarMatcher& one, qi::Token token) {
    return (one.mask()[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) != 0;
  };
  const qi::Token a = stories().tokenize("a")[0], b = stories().tokenize("b")[0], end = stories().end_tokens()[0];
  CHECK(matcher.mask().size() == (stories().info().n_vocab + 31) / 32);
  CHECK(may_come(matcher, a));
  CHECK_FALSE(may_come(matcher, b));
  require_error(QINFER_E_INVALID_ARGUMENT, "", [&] { matcher.accept(b); });
  matcher.accept(a);
  qi::GrammarMatcher other = matcher.clone();
  matcher.accept({b, b});
  CHECK(may_come(matcher, end));
  CHECK_FALSE(may_come(other, end));
  CHECK((matcher.info().flags & QINFER_GRAMMAR_ACCEPTING) != 0);
  CHECK(matcher.info().n_tokens == 3);
  matcher.rewind(2);
  CHECK(matcher.mask() == other.mask());
  require_error(QINFER_E_INVALID_ARGUMENT, "", [&] { matcher.rewind(2); });
  matcher.accept(std::vector<qi::Token>());
  REQUIRE_NOTHROW(matcher.check());
}

TEST_CASE("C++ classes: what is no grammar is refused by name", "[grammar]") {
  const qi::GrammarVocab vocab(stories());
  require_error(QINFER_E_FORMAT, "", [&] { qi::Grammar::json_schema(vocab, "{\"type\": "); });
  require_error(QINFER_E_UNSUPPORTED, "uniqueItems",
                [&] { qi::Grammar::json_schema(vocab, R"({"type": "array", "uniqueItems": true})"); });
  require_error(QINFER_E_FORMAT, "", [&] { qi::Grammar::regex(vocab, "a(b"); });
  require_error(QINFER_E_INVALID_ARGUMENT, "", [&] { qi::Grammar::regex(vocab, "\xFF"); });
  require_error(QINFER_E_FORMAT, "", [&] { qi::Grammar::lark(vocab, "begin: \"a\""); });
  require_error(QINFER_E_FORMAT, "", [&] { qi::Grammar::lark(vocab, {}); });
  auto options = qi::options<qinfer_grammar_options>();
  options.max_source_bytes = 3;
  require_error(QINFER_E_UNSUPPORTED, "max_source_bytes", [&] { qi::Grammar::regex(vocab, "[a-c]", options); });
}

TEST_CASE("C++ classes: what was moved from says so", "[grammar]") {
  // NOLINTBEGIN(bugprone-use-after-move)
  qi::Grammar grammar = qi::Grammar::regex(stories(), "[a-c]{3}");
  qi::Grammar other = std::move(grammar);
  qi::Session session = prompted(1);
  require_error(QINFER_E_INVALID_ARGUMENT, "grammar is NULL", [&] { grammar.begin(session); });
  require_error(QINFER_E_INVALID_ARGUMENT, "grammar is NULL", [&] { grammar.info(); });
  qi::GrammarMatcher matcher(other);
  const qi::GrammarMatcher second = std::move(matcher);
  require_error(QINFER_E_INVALID_ARGUMENT, "matcher is NULL", [&] { matcher.mask(); });
  require_error(QINFER_E_INVALID_ARGUMENT, "matcher is NULL", [&] { matcher.set_on(session); });
  require_error(QINFER_E_INVALID_ARGUMENT, "matcher is NULL", [&] { matcher.check(); });
  qi::Session gone = std::move(session);
  require_error(QINFER_E_INVALID_ARGUMENT, "session is NULL", [&] { second.set_on(session); });
  qi::Model model = qi::Model::load(QINFER_TEST_MODELS "/tiny-stories");
  const qi::Model kept = std::move(model);
  require_error(QINFER_E_INVALID_ARGUMENT, "model is NULL", [&] { qi::Grammar::regex(model, "a"); });
  grammar = std::move(other);
  CHECK(text_under(grammar, 1).size() == 3);
  // NOLINTEND(bugprone-use-after-move)
}

TEST_CASE("C++ classes: replies of a chat fulfil a grammar, and only those turns that ask for it", "[grammar]") {
  const qi::Grammar grammar = qi::Grammar::json_schema(tiny_chat(), kSchema);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    qi::Chat chat(tiny_chat());
    heat(chat.session(), seed);
    qi::TurnOptions options;
    options.constraint = &grammar;
    options.reasoning = false;
    options.max_tokens = 100;
    for (int turn = 0; turn < 2; ++turn) require_fulfilled(chat.send("How many hens?", options));
    CHECK(chat.messages().back().reasoning.empty());
    chat.session().set_sampler(qi::options<qinfer_sampler_options>());
    chat.messages().clear();
    CHECK(chat.send("Hello!") == "Hello! What can I do for you?");
  }
}

TEST_CASE("C++ classes: a chat's grammar begins after the reasoning", "[grammar]") {
  const qi::Grammar grammar = qi::Grammar::regex(tiny_chat(), "(yes|no)!");
  qi::ChatOptions with;
  with.template_text = "{{ messages[0].content }}<think>\n";
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    qi::Chat chat(tiny_chat(), with);
    heat(chat.session(), seed);
    std::vector<std::pair<qi::Token, float>> unlikely;  // the ends: the reasoning goes on to its bound
    for (const qi::Token token : tiny_chat().end_tokens()) unlikely.emplace_back(token, -100.0f);
    chat.session().set_bias(unlikely);
    qi::TurnOptions options;
    options.constraint = &grammar;
    options.max_tokens = 60;
    options.max_reasoning_tokens = 12;
    CHECK(std::regex_match(chat.send("Is it?", options), std::regex("(yes|no)!")));
    CHECK_FALSE(chat.messages().back().reasoning.empty());
  }
}

TEST_CASE("C++ classes: a grammar that cannot go on ends a chat's turn with its reason", "[grammar]") {
  const qi::Grammar wrong = qi::Grammar::regex(stories(), "[a-c]{3}");  // of another vocabulary
  qi::Chat chat(tiny_chat());
  qi::TurnOptions options;
  options.constraint = &wrong;
  require_error(QINFER_E_INVALID_ARGUMENT, "the model's logits are", [&] { chat.send("Hello!", options); });
  CHECK(chat.messages().empty());
  CHECK(chat.session().info().has_logits_hook == 0);

  const qi::Grammar right = qi::Grammar::json_schema(tiny_chat(), kSchema);
  options.constraint = &right;
  qi::Cancel cancel;
  options.cancel = &cancel;
  try {  // a request to cancel is no failure of the grammar
    chat.send(
        "Hello!",
        [&](const qi::Part&) {
          cancel.request();
          return true;
        },
        options);
    FAIL("it was not cancelled");
  } catch (const qi::Error& error) {
    CHECK(error.status() == QINFER_E_CANCELLED);
  }
  REQUIRE(chat.messages().size() == 2);
  CHECK(chat.messages()[1].content.rfind('{', 0) == 0);
}
