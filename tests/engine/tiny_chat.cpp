// tiny-chat, our chat model in examples/models, through the whole library: conversations become tokens by its template,
// its replies are those that transformers computes, calls of a tool come out and their results go in.
#include <qinfer/qinfer.hpp>

#include <cmath>
#include <cstddef>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include "support/catch.h"
#include "support/targets.h"

namespace {

using Json = nlohmann::ordered_json;
using Tokens = std::vector<qi::Token>;

const std::string kTinyChat = QINFER_TEST_MODELS "/tiny-chat";

Json read_expected() {
  std::ifstream file(kTinyChat + "/expected.json");
  return Json::parse(file);
}

qi::Model load(std::uint32_t flags, std::uint32_t threads, const char* target = nullptr) {
  auto options = qi::options<qinfer_runtime_options>();
  options.flags = flags;
  options.n_threads = threads;
  options.cpu_target = target;
  qi::Runtime runtime(options);
  return qi::Model::load(runtime, kTinyChat);
}

qinfer_chat_options chat_options() {
  auto options = qi::options<qinfer_chat_options>();
  options.flags = QINFER_CHAT_GENERATION_PROMPT;
  return options;
}

/// What a reply consists of, and what its turn took.
struct Turn {
  Tokens ids;  ///< of the reply; the end token is not among them
  std::string content, reasoning;
  std::vector<std::pair<std::string, Json>> calls;  ///< name and arguments
  Json message;                                     ///< to add to the conversation
  std::int32_t finish = 0;
  std::size_t n_prompt = 0, n_kept = 0;
  std::uint64_t n_evaluated = 0;
};

std::uint64_t evaluated(const qi::Session& session) {
  auto metrics = qi::options<qinfer_metrics>();
  REQUIRE(qinfer_session_get_metrics(session.native(), &metrics, nullptr) == QINFER_OK);
  return metrics.prefill_tokens + metrics.decode_tokens;
}

/// The model's greedy reply to a conversation.
Turn reply_to(const qi::Model& model, qi::Session& session, const Json& conversation) {
  const std::string text = conversation.dump();
  const qinfer_chat_options chat = chat_options();
  auto reply_options = qi::options<qinfer_reply_options>();
  reply_options.chat = &chat;
  qi::Reply reply(model, text, reply_options);
  const Tokens prompt = model.tokenize_chat(text, chat);
  const std::uint64_t before = evaluated(session);
  Turn turn;
  turn.n_prompt = prompt.size();
  turn.n_kept = session.set_tokens(prompt);
  qi::GenerateOptions request;
  request.on_token = [&](std::string_view, qinfer_token token) {
    if (token >= 0) reply.push(token);
    return true;
  };
  turn.finish = session.generate(request).finish;
  turn.n_evaluated = evaluated(session) - before;
  const Tokens all = session.tokens();
  turn.ids.assign(all.begin() + static_cast<std::ptrdiff_t>(prompt.size()), all.end());
  reply.finish();
  for (auto part = reply.next(); part.kind != QINFER_PART_NONE; part = reply.next()) {
    if (part.kind == QINFER_PART_CONTENT) turn.content += part.text;
    if (part.kind == QINFER_PART_REASONING) turn.reasoning += part.text;
    if (part.kind == QINFER_PART_CALL) turn.calls.emplace_back(part.name, Json::parse(part.text));
  }
  turn.message = Json::parse(reply.message());
  return turn;
}

Json user(const std::string& text) { return {{"role", "user"}, {"content", text}}; }

/// A conversation with a tool that tells the weather.
Json with_tool() {
  return {{"messages", Json::array()},
          {"tools", Json::parse(R"([{"type": "function", "function": {"name": "get_weather",
            "description": "Get the current weather in a city", "parameters": {"type": "object",
            "properties": {"city": {"type": "string", "description": "The city"}}, "required": ["city"]}}}])")}};
}

}  // namespace

TEST_CASE("tiny-chat replies as transformers computes it", "[tiny-chat][chat]") {
  const Json expected = read_expected()["conversations"];
  REQUIRE(expected.size() >= 40);
  for (const bool exact : {true, false}) {
    const qi::Model model = exact ? load(QINFER_RUNTIME_EXACT, 1) : load(0, 2);
    qi::KvCache cache(model);
    for (const Json& item : expected) {
      INFO((exact ? "exact: " : "default: ") << item["conversation"]["messages"].dump());
      qi::Session session(cache);
      CHECK(model.tokenize_chat(item["conversation"].dump(), chat_options()) == item["prompt_ids"].get<Tokens>());
      const Turn turn = reply_to(model, session, item["conversation"]);
      CHECK(turn.ids == item["greedy_ids"].get<Tokens>());
      CHECK(turn.finish == QINFER_FINISH_END);
    }
  }
}

TEST_CASE("threads that render with a template for the first time give the same tokens", "[tiny-chat][chat][threads]") {
  const Json item = read_expected()["conversations"][0];
  const std::string conversation = item["conversation"].dump();
  const qi::Model model = load(0, 1);
  std::vector<Tokens> got(4);
  std::vector<std::thread> threads;
  for (Tokens& ids : got)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) ids = model.tokenize_chat(conversation, chat_options());
    });
  for (std::thread& thread : threads) thread.join();
  for (const Tokens& ids : got) CHECK(ids == item["prompt_ids"].get<Tokens>());
}

TEST_CASE("tiny-chat replies on every kernel set as on the reference", "[tiny-chat][chat]") {
  const Json expected = read_expected()["conversations"];
  for (const std::string& target : qinfer::test::usable_targets()) {
    const qi::Model model = load(0, 2, target.c_str());
    qi::KvCache cache(model);
    for (std::size_t i = 0; i < expected.size(); i += 3) {  // some of each kind are enough
      const Json& item = expected[i];
      INFO(target << ": " << item["conversation"]["messages"].dump());
      qi::Session session(cache);
      CHECK(reply_to(model, session, item["conversation"]).ids == item["greedy_ids"].get<Tokens>());
    }
  }
}

TEST_CASE("a stop text that is a control token ends the output at that token", "[tiny-chat][chat]") {
  const qi::Model model = load(0, 1);
  for (const char* stop : {"<|im_start|>", "<|im_end|>", "<|im_sta"}) {  // the second is an end token, too
    const bool is_token = std::string_view(stop).ends_with("|>");
    const qi::Token control = model.find_token(is_token ? stop : "<|im_start|>");
    qi::KvCache cache(model);
    qi::Session session(cache);
    session.append(model.tokenize("What is"));
    qi::GenerateOptions request;
    request.max_tokens = 3;
    request.stop = {"never written", stop};
    session.set_bias({{control, 1e6f}});
    std::string text;
    request.on_token = [&](std::string_view piece, qi::Token) {
      text += piece;
      return true;
    };
    const qinfer_generate_result result = session.generate(request);
    CAPTURE(stop);
    CHECK(result.finish == (is_token ? QINFER_FINISH_STOP : QINFER_FINISH_LENGTH));
    CHECK(result.new_tokens == (is_token ? 1 : 3));
    CHECK(text.empty());
  }
}

TEST_CASE("perplexity of tiny-chat on held-out replies equals that of transformers", "[tiny-chat][chat]") {
  const qi::Model model = load(QINFER_RUNTIME_EXACT, 2);
  qi::KvCache cache(model);
  std::ifstream file(kTinyChat + "/heldout.txt");
  double loss = 0;
  std::size_t replies = 0, tokens = 0;
  for (std::string line; std::getline(file, line); ++replies) {
    const Json item = Json::parse(line);
    const Tokens prompt = model.tokenize_chat(item["conversation"].dump(), chat_options());
    const Tokens reply = model.tokenize(item["reply"].get<std::string>(), QINFER_TEXT_PARSE_SPECIAL);
    auto options = qi::options<qinfer_session_options>();
    options.max_logits = static_cast<std::uint32_t>(reply.size()) + 1;
    qi::Session session(cache, options);
    session.append(prompt);
    session.append(reply);
    auto eval = qi::options<qinfer_eval_options>();
    eval.keep_logits = options.max_logits;
    session.eval(eval);
    for (std::size_t i = 0; i < reply.size(); ++i) loss -= session.logprob(reply[i], reply.size() - i);
    tokens += reply.size();
  }
  const Json expected = read_expected()["heldout"];
  CHECK(replies == expected["replies"].get<std::size_t>());
  CHECK(tokens == expected["tokens"].get<std::size_t>());
  // The mean of some thousand terms whose f32 errors are under 1e-4 each.
  CHECK(std::exp(loss / static_cast<double>(tokens)) == Approx(expected["perplexity"].get<double>()).epsilon(1e-4));
}

TEST_CASE("tiny-chat calls a tool, and its next reply says what the tool gave", "[tiny-chat][chat]") {
  for (const bool thinks : {true, false}) {
    CAPTURE(thinks);
    const qi::Model model = load(0, 2);
    qi::KvCache cache(model);
    qi::Session session(cache);
    Json conversation = with_tool();
    if (!thinks) conversation["enable_thinking"] = false;
    Json& messages = conversation["messages"];
    messages.push_back(user("What is the weather in Lisbon?"));
    const Turn asked = reply_to(model, session, conversation);
    CHECK(asked.finish == QINFER_FINISH_END);
    CHECK(asked.content.empty());
    CHECK(asked.reasoning.empty() == !thinks);
    REQUIRE(asked.calls.size() == 1);
    CHECK(asked.calls[0].first == "get_weather");
    CHECK(asked.calls[0].second == Json{{"city", "Lisbon"}});

    messages.push_back(asked.message);
    messages.push_back({{"role", "tool"},
                        {"name", "get_weather"},
                        {"tool_call_id", asked.message["tool_calls"][0]["id"]},
                        {"content", R"({"condition": "windy", "temperature": 17})"}});
    const Turn told = reply_to(model, session, conversation);
    CHECK(told.calls.empty());
    CHECK(told.content.find("windy") != std::string::npos);
    CHECK(told.content.find("Lisbon") != std::string::npos);
    CHECK(told.content.find("17") != std::string::npos);
    // All of the first turn is there again, thoughts and call too, and none of it is evaluated again.
    CHECK(told.n_kept >= asked.n_prompt + asked.ids.size());
    CHECK(told.n_evaluated <= told.n_prompt + told.ids.size() - (asked.n_prompt + asked.ids.size()) + 1);
  }
}

TEST_CASE("tiny-chat remembers a conversation, of which each turn evaluates what is new", "[tiny-chat][chat]") {
  struct Line {
    const char *text, *says;
  };
  constexpr Line kLines[] = {{"Hi, my name is Nora.", "Nora"}, {"What is the capital of France?", "Paris"},
                             {"And of Italy?", "Rome"},        {"What is 3 + 4?", "3 + 4 = 7"},
                             {"What is my name?", "Nora"},     {"Who are you?", "Bob"}};
  for (const bool thinks : {true, false}) {
    CAPTURE(thinks);
    const qi::Model model = load(0, 2);
    qi::KvCache cache(model);
    qi::Session session(cache);
    Json conversation{{"messages", Json::array({{{"role", "system"}, {"content", "You are Bob."}}})}};
    if (!thinks) conversation["enable_thinking"] = false;
    std::size_t before = 0;
    for (const Line& line : kLines) {
      conversation["messages"].push_back(user(line.text));
      const Turn turn = reply_to(model, session, conversation);
      INFO(line.text << " -> " << turn.content);
      CHECK(turn.content.find(line.says) != std::string::npos);
      if (!thinks) CHECK(turn.reasoning.empty());
      CHECK(turn.n_kept >= before);
      CHECK(turn.n_evaluated <= turn.n_prompt + turn.ids.size() - before + 1);
      before = turn.n_prompt + turn.ids.size();
      conversation["messages"].push_back(turn.message);
    }
  }
}
