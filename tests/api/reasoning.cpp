// Generation with a reply that reasons: the logits hook rests until the reasoning ends, its tokens are bounded, and who
// ran out inside of it is told.
#include <qinfer/qinfer.hpp>

#include <nlohmann/json.hpp>

#include "support/c_api.h"

using namespace qinfer::test;
using Json = nlohmann::json;

namespace {

constexpr qi::Token kThinkEnd = 265;
constexpr const char* kConversation = R"({"messages": [{"role": "user", "content": "Hi"}]})";

/// A model whose template asks for reasoning. `control`: its markers are control tokens; otherwise they are letters.
qi::Model thinking_model(const ModelDir& dir, bool control) {
  const Json config = {
      {"chat_template", "{{ messages[0].content }}{% if add_generation_prompt %}<think>\n{% endif %}"}};
  dir.write("tokenizer_config.json", config.dump());
  Json tokenizer = Json::parse(tiny_tokenizer());
  const auto add = [&](int id, const char* content, bool special) {
    Json token = tokenizer["added_tokens"][0];
    token["id"] = id;
    token["content"] = content;
    token["special"] = special;
    tokenizer["added_tokens"].push_back(token);
  };
  if (control) add(264, "<think>", true);
  if (control) add(kThinkEnd, "</think>", true);
  add(266, ">x", false);
  dir.write("tokenizer.json", tokenizer.dump());
  return qi::Model::load(dir.path());
}

struct Calls {
  std::size_t applied = 0;
  std::vector<qi::Token> accepted;
};

/// Lets nothing be drawn but "c".
class OnlyC final : public qi::LogitsHook {
 public:
  explicit OnlyC(Calls& calls) : calls_(calls) {}
  bool apply(float* logits, std::uint32_t n_vocab) override {
    ++calls_.applied;
    for (std::uint32_t i = 0; i < n_vocab; ++i)
      if (i != 'c') logits[i] = -INFINITY;
    return true;
  }
  bool accept(qi::Token token) override {
    calls_.accepted.push_back(token);
    return true;
  }
  bool rewind(std::size_t n) override {
    if (n > calls_.accepted.size()) return false;
    calls_.accepted.resize(calls_.accepted.size() - n);
    return true;
  }

 private:
  Calls& calls_;
};

/// A model that draws "b" where nothing else is forced.
struct Turn {
  ModelDir dir{TinySpec()};
  qi::Model model;
  qi::KvCache cache;
  qi::Session session;
  std::unique_ptr<qi::Reply> reply;
  Calls calls;

  explicit Turn(bool control = true, std::uint32_t reply_flags = 0)
      : model(thinking_model(dir, control)), cache(model), session(cache) {
    auto chat = qi::options<qinfer_chat_options>();
    chat.flags = QINFER_CHAT_GENERATION_PROMPT;
    auto options = qi::options<qinfer_reply_options>();
    options.chat = &chat;
    options.flags = reply_flags;
    reply = std::make_unique<qi::Reply>(model, kConversation, options);
    session.append(model.tokenize_chat(kConversation, chat));
    auto sampler = qi::options<qinfer_sampler_options>();
    sampler.temperature = 0;
    session.set_sampler(sampler);
    session.set_bias({{'b', 1000.0F}});
  }
  void add_hook() { session.set_logits_hook(std::make_unique<OnlyC>(calls)); }

  qi::GenerateOptions request(std::uint32_t max_tokens, std::uint32_t max_reasoning) {
    qi::GenerateOptions request;
    request.max_tokens = max_tokens;
    request.reply = reply.get();
    request.max_reasoning_tokens = max_reasoning;
    return request;
  }
  std::string parts() {
    std::string out;
    for (qi::Reply::Part part = reply->next(); part.kind != QINFER_PART_NONE; part = reply->next())
      out += (part.kind == QINFER_PART_REASONING ? "r:" : "c:") + part.text + ";";
    return out;
  }
};

}  // namespace

TEST_CASE("the hook rests while a reply reasons, and reasoning has a bound", "[api][reasoning]") {
  Turn turn;
  turn.add_hook();
  REQUIRE(turn.reply->in_reasoning());
  const std::size_t prompt = turn.session.tokens().size();
  std::string parts;
  std::vector<qi::Token> told;
  qi::GenerateOptions request = turn.request(9, 4);
  request.on_token = [&](std::string_view, qi::Token token) {
    parts += turn.parts();  // the reply has the token already
    told.push_back(token);
    return true;
  };
  const qinfer_generate_result result = turn.session.generate(request);
  const std::vector<qi::Token> expected = {'b', 'b', 'b', 'b', kThinkEnd, 'c', 'c', 'c', 'c'};
  CHECK(told == expected);
  CHECK(parts == "r:b;r:b;r:b;r:b;c:c;c:c;c:c;c:c;");
  CHECK(result.new_tokens == 9);
  CHECK(result.reasoning_tokens == 5);
  CHECK(result.flags == 0);
  CHECK(result.finish == QINFER_FINISH_LENGTH);
  CHECK_FALSE(turn.reply->in_reasoning());
  CHECK(turn.calls.applied == 4);
  CHECK(turn.calls.accepted == std::vector<qi::Token>{'c', 'c', 'c', 'c'});
  // What is taken back of the reasoning was never the hook's.
  turn.session.truncate(prompt + 7);
  CHECK(turn.calls.accepted.size() == 2);
  turn.session.truncate(prompt + 2);
  CHECK(turn.calls.accepted.empty());
}

TEST_CASE("who runs out inside of the reasoning is told", "[api][reasoning]") {
  Turn turn;
  if (GENERATE(false, true)) turn.add_hook();
  const std::uint32_t bound = GENERATE(0u, 3u, 100u);
  const qinfer_generate_result result = turn.session.generate(turn.request(3, bound));
  CHECK(result.finish == QINFER_FINISH_LENGTH);
  CHECK(result.flags == QINFER_RESULT_IN_REASONING);
  CHECK(result.reasoning_tokens == 3);
  CHECK(turn.reply->in_reasoning());
  // Going on is possible.
  const qinfer_generate_result more = turn.session.generate(turn.request(4, 2));
  CHECK(more.reasoning_tokens == 3);
  CHECK(more.flags == 0);
}

TEST_CASE("a model that ends its turn inside of the reasoning", "[api][reasoning]") {
  Turn turn;
  turn.session.set_bias({{kTinyEnd, 1000.0F}});
  const qinfer_generate_result result = turn.session.generate(turn.request(9, 0));
  CHECK(result.finish == QINFER_FINISH_END);
  CHECK(result.flags == QINFER_RESULT_IN_REASONING);
}

TEST_CASE("without reasoning the hook holds from the first token on", "[api][reasoning]") {
  Turn turn(true, QINFER_REPLY_NO_REASONING);
  turn.add_hook();
  CHECK_FALSE(turn.reply->in_reasoning());
  const qinfer_generate_result result = turn.session.generate(turn.request(3, 1));
  turn.reply->finish();
  CHECK(turn.parts() == "c:ccc;");
  CHECK(result.reasoning_tokens == 0);
  CHECK(turn.calls.accepted.size() == 3);
  // Markers are content, too.
  Turn other(true, QINFER_REPLY_NO_REASONING);
  for (const qi::Token token : other.model.tokenize("<think>a</think>b", QINFER_TEXT_PARSE_SPECIAL))
    other.reply->push(token);
  other.reply->finish();
  std::string content;
  for (qi::Reply::Part part = other.reply->next(); part.kind != QINFER_PART_NONE; part = other.reply->next()) {
    CHECK(part.kind == QINFER_PART_CONTENT);
    content += part.text;
  }
  CHECK(content == "<think>a</think>b");
}

TEST_CASE("a marker of several tokens ends the reasoning, too", "[api][reasoning]") {
  Turn turn(false);
  turn.add_hook();
  const std::vector<qi::Token> marker = turn.model.tokenize("</think>");
  REQUIRE(marker.size() > 1);
  const std::uint32_t n = static_cast<std::uint32_t>(marker.size());
  const qinfer_generate_result result = turn.session.generate(turn.request(2 + n + 2, 2));
  turn.reply->finish();
  CHECK(turn.parts().ends_with("c:cc;"));
  CHECK(result.reasoning_tokens == 2 + n);
  CHECK(turn.calls.accepted.size() == 2);
}

TEST_CASE("an end marker that max_tokens cuts goes on in the next generation", "[api][reasoning]") {
  Turn turn(false);
  turn.add_hook();
  const auto n = static_cast<std::uint32_t>(turn.model.tokenize("</think>").size());
  turn.session.generate(turn.request(2 + n / 2, 2));
  REQUIRE(turn.reply->in_reasoning());
  const qinfer_generate_result rest = turn.session.generate(turn.request(n - n / 2 + 2, 2));
  turn.reply->finish();
  CHECK(rest.reasoning_tokens == n - n / 2);
  CHECK(turn.parts() == "r:bb;c:cc;");
}

TEST_CASE("a token that ends the reasoning and begins the content is told of, where there is a hook",
          "[api][reasoning]") {
  Turn turn(false);
  for (const qi::Token token : turn.model.tokenize("so</think")) turn.reply->push(token);
  turn.session.set_bias({{266, 1000.0F}});
  if (GENERATE(false, true)) {
    turn.add_hook();
    qi::GenerateOptions request = turn.request(1, 0);
    std::string text;
    request.on_token = [&](std::string_view piece, qi::Token) {
      text += piece;
      return true;
    };
    auto counts = qi::options<qinfer_generate_result>();
    REQUIRE_THROWS_WITH(turn.session.generate(request, &counts), contains("ends the reasoning and begins the content"));
    CHECK(text == ">x");
    CHECK(counts.new_tokens == 1);
  } else {
    turn.session.generate(turn.request(1, 0));
    turn.reply->finish();
    CHECK(turn.parts() == "r:so;c:x;");
  }
}

TEST_CASE("tokens are those of a generation without a reply", "[api][reasoning]") {
  const auto tokens_of = [](bool with_reply) {
    Turn turn;
    turn.session.set_bias({});
    qi::GenerateOptions request = turn.request(20, 0);
    if (!with_reply) request.reply = nullptr;
    turn.session.generate(request);
    return turn.session.tokens();
  };
  CHECK(tokens_of(true) == tokens_of(false));
}

TEST_CASE("generation with a reply that does not fit is refused", "[api][reasoning]") {
  Turn turn, other;
  const auto generate = [&](qinfer_reply* reply, std::uint32_t bound, qinfer_error* err) {
    auto options = qi::options<qinfer_generate_options>();
    options.max_tokens = 1;
    options.reply = reply;
    options.max_reasoning_tokens = bound;
    return qinfer_generate(turn.session.native(), &options, nullptr, err);
  };
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "max_reasoning_tokens is 3, but there is no reply",
                generate(nullptr, 3, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "the reply is of another model", generate(other.reply->native(), 0, &err));
  turn.reply->finish();
  REQUIRE_FAILS(QINFER_E_STATE, "the reply is finished", generate(turn.reply->native(), 0, &err));
  std::int32_t out = 7;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "reply is NULL", qinfer_reply_in_reasoning(nullptr, &out, &err));
  CHECK(out == 0);
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out is NULL",
                qinfer_reply_in_reasoning(turn.reply->native(), nullptr, &err));
  std::size_t n = 7;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "reply is NULL", qinfer_reply_reasoning_end(nullptr, nullptr, 0, &n, &err));
  CHECK(n == 0);
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out_n is NULL",
                qinfer_reply_reasoning_end(turn.reply->native(), nullptr, 0, nullptr, &err));
}

TEST_CASE("a host that draws itself ends the reasoning with the tokens that end it", "[api][reasoning]") {
  Turn turn;
  const std::vector<qi::Token> tokens = turn.reply->reasoning_end();
  CHECK(tokens == std::vector<qi::Token>{kThinkEnd});
  REQUIRE(turn.reply->in_reasoning());
  for (const std::int32_t token : tokens) turn.reply->push(token);
  CHECK(!turn.reply->in_reasoning());
  CHECK(turn.reply->reasoning_end() == tokens);
  std::size_t n = 0;
  REQUIRE_FAILS(QINFER_E_BUFFER_TOO_SMALL, "", qinfer_reply_reasoning_end(turn.reply->native(), nullptr, 0, &n, &err));
  CHECK(n == tokens.size());
}

TEST_CASE("stop texts are for the content", "[api][reasoning]") {
  Turn turn;
  turn.add_hook();
  qi::GenerateOptions request = turn.request(20, 4);
  request.stop = {"bb", "cc"};
  std::string text;
  request.on_token = [&](std::string_view piece, qi::Token) {
    text += piece;
    return true;
  };
  const qinfer_generate_result result = turn.session.generate(request);
  CHECK(result.finish == QINFER_FINISH_STOP);
  CHECK(result.new_tokens == 7);
  CHECK(text == "bbbb");
  Turn other;  // one that is a control token is one anywhere
  request.reply = other.reply.get();
  request.stop = {"</think>"};
  const qinfer_generate_result reasoning = other.session.generate(request);
  CHECK(reasoning.finish == QINFER_FINISH_STOP);
  CHECK(reasoning.new_tokens == 5);
}

TEST_CASE("a reply that a callback finishes ends the generation before another token", "[api][reasoning]") {
  Turn turn;
  qi::GenerateOptions request = turn.request(9, 0);
  request.on_token = [&](std::string_view, qi::Token) {
    turn.reply->finish();
    return true;
  };
  const std::size_t before = turn.session.tokens().size();
  REQUIRE_THROWS_WITH(turn.session.generate(request), contains("the reply is finished"));
  CHECK(turn.session.tokens().size() == before + 1);
}

TEST_CASE("a stop text that is a marker is no part of the reply", "[api][reasoning]") {
  Turn turn;
  qi::GenerateOptions request = turn.request(20, 3);
  request.stop = {"</think>"};
  std::string parts;
  request.on_token = [&](std::string_view, qi::Token) {
    parts += turn.parts();
    return true;
  };
  CHECK(turn.session.generate(request).finish == QINFER_FINISH_STOP);
  CHECK_FALSE(turn.reply->in_reasoning());
  CHECK(parts == "r:b;r:b;r:b;");
}

TEST_CASE("a forced marker of several tokens is not forced again", "[api][reasoning]") {
  Turn turn(false);
  qi::GenerateOptions request = turn.request(0, 3);
  qi::Generation generation(turn.session, request);
  std::string text;
  const auto step = [&] {
    const qinfer_token_info info = generation.next();
    text.append(info.text, info.text_len);
  };
  while (turn.reply->in_reasoning()) step();
  step();
  const std::string expected = text;
  for (std::size_t n = 1; n <= 6; ++n) {
    text.resize(generation.take_back(n));
    for (std::size_t i = 0; i < n; ++i) step();
    CHECK(text == expected);
  }
}
