// Generations made step by step: they give the same tokens, texts and log probabilities as one call, alone and in a
// batch. After tokens are taken back everything is as if they had not been drawn. With a reply, a stop text ends both
// the text and the reply.
#include <qinfer/qinfer.hpp>

#include <nlohmann/json.hpp>

#include <map>
#include <memory>
#include <random>

#include "engine/openai_support.h"

using namespace qinfer::test;
using Json = nlohmann::json;

namespace {

const std::string kStories = QINFER_TEST_MODELS "/tiny-stories";
const std::string kChat = QINFER_TEST_MODELS "/tiny-chat";

qi::Model load(const std::string& path) {
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = 2;
  qi::Runtime runtime(options);
  return qi::Model::load(runtime, path);
}

/// All that a host is told of a generation.
struct Told {
  std::vector<qi::Token> tokens;
  std::vector<std::string> pieces;
  std::vector<double> logprobs;
  std::vector<std::vector<qi::Token>> top;
  std::int32_t finish = 0;
  bool operator==(const Told&) const = default;

  void add(const qinfer_token_info& info) {
    if (info.token < 0 && info.text_len == 0) return;
    tokens.push_back(info.token);
    pieces.emplace_back(info.text, info.text_len);
    logprobs.push_back(info.logprob);
    top.emplace_back(info.top_tokens, info.top_tokens + info.n_top);
  }
};

Told in_one_call(qi::Session& session, qi::GenerateOptions request) {
  Told told;
  request.on_token_info = [&](const qinfer_token_info& info) {
    told.add(info);
    return true;
  };
  told.finish = session.generate(request).finish;
  return told;
}

template <class Call>
void must_fail(Call&& call, const std::string& says) {
  try {
    call();
  } catch (const qi::Error& error) {
    CAPTURE(error.what());
    CHECK(std::string(error.what()).find(says) != std::string::npos);
    return;
  }
  FAIL("did not fail, expected: " << says);
}

struct Request {
  std::string prompt;
  qi::GenerateOptions options;
  float temperature = 0;
  std::uint64_t seed = 0;
};

std::unique_ptr<qi::Session> begin(const qi::Model& model, qi::KvCache& cache, const Request& request) {
  auto session = std::make_unique<qi::Session>(cache);
  session->append(model.tokenize(request.prompt));
  auto sampler = qi::options<qinfer_sampler_options>();
  sampler.temperature = request.temperature;
  sampler.seed = request.seed;
  session->set_sampler(sampler);
  return session;
}

std::vector<Request> requests() {
  std::vector<Request> out;
  const auto add = [&](const char* prompt, std::uint32_t max_tokens, std::vector<std::string> stop, float temperature) {
    Request request;
    request.prompt = prompt;
    request.options.max_tokens = max_tokens;
    request.options.stop = std::move(stop);
    request.options.n_top = 3;
    request.options.logprobs = true;
    request.temperature = temperature;
    request.seed = out.size();
    out.push_back(std::move(request));
  };
  add("Once upon a time", 40, {}, 0);
  add("Once upon a time", 0, {" named L", "never"}, 0);
  add("Tom and", 25, {"\n\n", "the e"}, 0.8F);
  add("The dog was very", 1, {}, 1.5F);
  add("Lily saw a big red ball in the park and she", 60, {"zzz"}, 1);
  return out;
}

}  // namespace

TEST_CASE("Generation: step by step as in one call", "[generation]") {
  const qi::Model model = load(kStories);
  qi::KvCache cache(model);
  for (const Request& request : requests()) {
    CAPTURE(request.prompt);
    auto whole = begin(model, cache, request);
    const Told expected = in_one_call(*whole, request.options);
    auto session = begin(model, cache, request);
    qi::Generation generation(*session, request.options);
    Told told;
    while (told.finish == 0) {
      const qinfer_token_info info = generation.next();
      told.add(info);
      told.finish = info.finish;
    }
    CHECK(told == expected);
    CHECK(session->tokens() == whole->tokens());
    const qinfer_generate_result result = generation.result();
    CHECK(result.new_tokens == session->tokens().size() - model.tokenize(request.prompt).size());
    CHECK(result.finish == expected.finish);
    CHECK(result.prefill_ns > 0);
    must_fail([&] { generation.next(); }, "has ended");
  }
}

TEST_CASE("Generation: many sessions as one batch give what each gives alone", "[generation]") {
  const qi::Model model = load(kStories);
  auto cache_options = qi::options<qinfer_kv_cache_options>();
  cache_options.budget_blocks = 64;
  qi::KvCache cache(model, cache_options);
  const std::vector<Request> all = requests();
  std::vector<Told> expected, told(all.size());
  for (const Request& request : all) expected.push_back(in_one_call(*begin(model, cache, request), request.options));

  std::vector<std::unique_ptr<qi::Session>> sessions;
  std::vector<std::unique_ptr<qi::Generation>> generations;
  for (const Request& request : all) {
    sessions.push_back(begin(model, cache, request));
    generations.push_back(std::make_unique<qi::Generation>(*sessions.back(), request.options));
  }
  std::size_t n_over = 0;
  for (int step = 0; n_over < all.size(); ++step) {
    REQUIRE(step < 600);
    std::vector<qi::Session*> batch;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (told[i].finish == 0) batch.push_back(sessions[i].get());
    qi::eval(batch);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (told[i].finish != 0) continue;
      const qinfer_token_info info = generations[i]->next();
      told[i].add(info);
      told[i].finish = info.finish;
      n_over += info.finish != 0 ? 1 : 0;
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(told[i] == expected[i]);
}

TEST_CASE("Generation: tokens that are taken back leave nothing behind", "[generation]") {
  const qi::Model model = load(kStories);
  qi::KvCache cache(model);
  std::mt19937 random(7);
  for (const Request& request : requests()) {
    CAPTURE(request.prompt);
    auto whole = begin(model, cache, request);
    const Told expected = in_one_call(*whole, request.options);
    std::string expected_text;
    for (const std::string& piece : expected.pieces) expected_text += piece;

    auto session = begin(model, cache, request);
    qi::Generation generation(*session, request.options);
    std::string text;
    std::int32_t finish = 0;
    int steps = 0;
    for (; finish == 0 || random() % 3 != 0; ++steps) {
      REQUIRE(steps < 5000);
      const std::size_t n_new = generation.result().new_tokens;
      if (finish != 0 || (steps < 400 && random() % 4 == 0)) {
        const std::size_t n = random() % (std::min<std::size_t>(n_new, 6) + 1);
        if (finish != 0 && n == 0) continue;
        text.resize(generation.take_back(n));
        finish = 0;
        CHECK(generation.result().new_tokens == n_new - n);
        CHECK(expected_text.starts_with(text));
      } else {
        const qinfer_token_info info = generation.next();
        text.append(info.text, info.text_len);
        finish = info.finish;
      }
    }
    // The sampler rewinds with the session, so what is drawn again is the same.
    CHECK(text == expected_text);
    CHECK(session->tokens() == whole->tokens());
    CHECK(finish == expected.finish);
  }
}

namespace {

constexpr const char* kQuestion = R"({"messages": [{"role": "user", "content": "What is the capital of France?"}]})";

struct Turn {
  qi::KvCache cache;
  qi::Session session;
  std::unique_ptr<qi::Reply> reply;

  explicit Turn(const qi::Model& model) : cache(model), session(cache) {
    auto chat = qi::options<qinfer_chat_options>();
    chat.flags = QINFER_CHAT_GENERATION_PROMPT;
    auto options = qi::options<qinfer_reply_options>();
    options.chat = &chat;
    reply = std::make_unique<qi::Reply>(model, kQuestion, options);
    session.append(model.tokenize_chat(kQuestion, chat));
  }
  std::string parts() {
    std::string out;
    for (qi::Reply::Part part = reply->next(); part.kind != QINFER_PART_NONE; part = reply->next()) out += part.text;
    return out;
  }
};

std::string whole_reply(const qi::Model& model) {
  Turn turn(model);
  qi::GenerateOptions request;
  request.reply = turn.reply.get();
  turn.session.generate(request);
  turn.reply->finish();
  return turn.parts();
}

}  // namespace

TEST_CASE("Generation: a reply ends before a stop text, however it is cut", "[generation][chat]") {
  const qi::Model model = load(kChat);
  const std::string full = whole_reply(model);
  qi::GenerateOptions request;
  REQUIRE(full.size() > 10);
  for (std::size_t at = 1; at < full.size(); ++at) {
    const std::string stop = full.substr(at, 1 + at % 5);
    CAPTURE(stop);
    Turn turn(model);
    request.reply = turn.reply.get();
    request.stop = {"never", stop};
    std::string told, parts;
    request.on_token = [&](std::string_view text, qi::Token) {
      told += text;
      parts += turn.parts();
      return true;
    };
    CHECK(turn.session.generate(request).finish == QINFER_FINISH_STOP);
    turn.reply->finish();
    parts += turn.parts();
    CHECK(parts == full.substr(0, full.find(stop)));
    CHECK(told == parts);
    CHECK(Json::parse(turn.reply->message())["content"] == parts);
  }
}

TEST_CASE("Generation: a reply goes back with its tokens", "[generation][chat]") {
  const qi::Model model = load(kChat);
  const std::string full = whole_reply(model);
  qi::GenerateOptions request;

  Turn turn(model);
  request.reply = turn.reply.get();
  qi::Generation generation(turn.session, request);
  std::mt19937 random(3);
  std::string parts;
  std::uint32_t n_taken = 0;  // tokens whose parts were taken
  for (int step = 0; step < 300; ++step) {
    const qinfer_token_info info = generation.next();
    const std::uint32_t n_new = generation.result().new_tokens;
    if (random() % 8 == 0) {
      parts += turn.parts();
      n_taken = n_new;
    }
    if (info.finish != 0 || random() % 3 == 0) generation.take_back(random() % (std::min(n_new - n_taken, 5U) + 1));
    if (generation.result().finish != 0) break;
  }
  while (generation.result().finish == 0) generation.next();
  parts += turn.parts();
  turn.reply->finish();
  parts += turn.parts();
  CHECK(parts == full);
  CHECK(Json::parse(turn.reply->message())["content"] == full);
}

TEST_CASE("Generation: what it uses may be freed before it", "[generation]") {
  const qi::Model model = load(kChat);
  auto turn = std::make_unique<Turn>(model);
  qi::GenerateOptions request;
  request.reply = turn->reply.get();
  auto generation = std::make_unique<qi::Generation>(turn->session, request);
  const qi::Token first = generation->next().token;
  turn.reset();
  CHECK(first >= 0);
  while (generation->next().finish == 0) {
  }
  CHECK(generation->result().new_tokens > 1);
}

TEST_CASE("Generation: wrong order of calls", "[generation][bad]") {
  const qi::Model model = load(kStories);
  qi::KvCache cache(model);
  const Request request = requests()[0];
  auto session = begin(model, cache, request);
  qi::GenerateOptions with_callback = request.options;
  with_callback.on_token = [](std::string_view, qi::Token) { return true; };
  must_fail([&] { qi::Generation(*session, with_callback); }, "expected NULL");

  qi::Generation generation(*session, request.options);
  generation.next();
  must_fail([&] { generation.take_back(2); }, "n is 2, the generation has 1 tokens");
  session->append(std::vector<qi::Token>{5});
  must_fail([&] { generation.next(); }, "begin another one");
  must_fail([&] { generation.take_back(1); }, "after the last step");

  // What may begin a stop text is text once the generation is ended.
  const std::string text = [&] {
    auto all = begin(model, cache, request);
    return all->generate_text(request.options);
  }();
  auto held = begin(model, cache, request);
  qi::GenerateOptions options = request.options;
  options.stop = {text + "?"};
  qi::Generation holding(*held, options);
  for (int i = 0; i < 5; ++i) CHECK(holding.next().text_len == 0);
  const qinfer_token_info end = holding.finish();
  CHECK(end.finish == QINFER_FINISH_CALLBACK);
  CHECK(end.token == -1);
  CHECK(text.starts_with(std::string(end.text, end.text_len)));
  CHECK(end.text_len > 5);
  CHECK(holding.finish().text_len == 0);
  must_fail([&] { holding.next(); }, "has ended");

  qinfer_token_info info = qi::options<qinfer_token_info>();
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "generation is NULL", qinfer_generation_next(nullptr, &info, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out is NULL", qinfer_generation_next(holding.native(), nullptr, &err));
  qinfer_generation_free(nullptr);
}

TEST_CASE("Generation: other tokens than those of the last step are noticed", "[generation][bad]") {
  const qi::Model model = load(kStories);
  qi::KvCache cache(model);
  const Request request = requests()[0];
  auto session = begin(model, cache, request);
  qi::Generation generation(*session, request.options);
  generation.next();
  const std::vector<qi::Token> tokens = session->tokens();
  session->truncate(tokens.size() - 1);
  session->append(std::vector<qi::Token>{tokens.back() == 9 ? 8 : 9});
  must_fail([&] { generation.next(); }, "begin another one");
  CHECK(session->pending() != 0);  // nothing was evaluated
}

TEST_CASE("Generation: a reply goes back again and again", "[generation][chat]") {
  const qi::Model model = load(kChat);
  const nlohmann::json conversation = {{"messages", user("Hi")}, {"tools", weather_tools()}};
  const auto run = [&](const std::vector<std::string>& texts, const std::vector<std::size_t>& takes,
                       const std::vector<std::string>& then) {
    auto chat = qi::options<qinfer_chat_options>();
    chat.flags = QINFER_CHAT_GENERATION_PROMPT;
    auto options = qi::options<qinfer_reply_options>();
    options.chat = &chat;
    options.format = QINFER_REPLY_HERMES;
    qi::Reply reply(model, conversation.dump(), options);
    qi::KvCache cache(model);
    qi::Session session(cache);
    session.append(model.tokenize_chat(conversation.dump(), chat));
    const std::vector<qi::Token> first = tokens_of(model, texts), second = tokens_of(model, then);
    qi::GenerateOptions request;
    request.reply = &reply;
    qi::Generation generation(session, request);
    std::string given;
    const auto parts = [&] {
      for (qi::Reply::Part part = reply.next(); part.kind != QINFER_PART_NONE; part = reply.next())
        given += part.kind == QINFER_PART_CALL ? "[" + part.name + "]" : part.text;
    };
    session.set_logits_hook(std::make_unique<Forced>(first));
    for (std::size_t i = 0; i < first.size(); ++i) {
      generation.next();
      parts();
    }
    const std::string before = given;
    given.clear();
    for (const std::size_t n : takes) {
      generation.take_back(n);
      parts();
    }
    session.set_logits_hook(std::make_unique<Forced>(second));
    for (std::size_t i = 0; i < second.size(); ++i) generation.next();
    reply.finish();
    parts();
    return std::pair(before, given);
  };
  using Pair = std::pair<std::string, std::string>;
  CHECK(run({"a", "<", "t", "x"}, {1}, {"y"}) == Pair("a<tx", "y"));
  CHECK(run({"a", "<", "t", "x"}, {1, 0}, {"y"}) == Pair("a<tx", "y"));
  CHECK(run({"a", "<", "t", "x"}, {1, 1}, {"y"}) == Pair("a<tx", "y"));
  CHECK(run({"a", "<", "t", "x"}, {3}, {"y"}) == Pair("a<tx", "y"));
  const std::vector<std::string> call = {"x ", "<tool_call>", "{\"name\": \"get_weather\", \"arguments\": {}}",
                                         "</tool_call>"};
  const auto [before, after] = run(call, {1}, {"zz"});
  CHECK(before == "x[get_weather]");
  CHECK(after == " <tool_call>{\"name\": \"get_weather\", \"arguments\": {}}zz");
}
