// qi::Chat: conversations are those that transformers renders and answers, whatever their form; turns evaluate only
// what is new; a reply that is left stays as far as it came.
#include <qinfer/qinfer_chat.hpp>

#include <cstdint>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include "support/c_api.h"

using namespace qinfer::test;
using Json = nlohmann::ordered_json;
using Tokens = std::vector<qi::Token>;

namespace {

const std::string kTinyChat = QINFER_TEST_MODELS "/tiny-chat";
const char* const kHello = "Hello! What can I do for you?";
const char* const kParis = "The capital of France is Paris.";

const qi::Model& tiny_chat() {
  static const qi::Model model = qi::Model::load(kTinyChat);
  return model;
}

/// The messages, tools and variables of a conversation that is JSON.
qi::Chat chat_of(const Json& conversation) {
  qi::Chat chat(tiny_chat());
  for (const Json& one : conversation["messages"]) {
    qi::Message message{one["role"], one["content"]};
    if (one.contains("tool_call_id")) message.tool_call_id = one["tool_call_id"];
    if (one.contains("name")) message.name = one["name"];
    if (one.contains("tool_calls"))
      for (const Json& call : one["tool_calls"])
        message.tool_calls.push_back(
            {call["function"]["name"], call.value("id", ""), call["function"]["arguments"].dump()});
    chat.add(message);
  }
  if (conversation.contains("tools"))
    for (const Json& tool : conversation["tools"]) {
      const Json& function = tool["function"];
      chat.tools().push_back({function["name"], function["description"], function["parameters"].dump()});
    }
  if (conversation.contains("enable_thinking"))
    chat.set_variable("enable_thinking", conversation["enable_thinking"].get<bool>());
  return chat;
}

std::uint64_t evaluated(const qi::Session& session) {
  const qinfer_metrics metrics = session.metrics();
  return metrics.prefill_tokens + metrics.decode_tokens;
}

Json message_of(const qi::Message& message) {
  qi::detail::ConversationWriter writer;
  writer.message(message, "message");
  return Json::parse(writer.out);
}

/// The message that the library itself makes of the session's last reply.
Json library_message(qi::Chat& chat, const std::string& conversation, std::size_t n_prompt) {
  auto options = qi::options<qinfer_chat_options>();
  options.flags = QINFER_CHAT_GENERATION_PROMPT | QINFER_CHAT_OPENAI_FORMS;
  auto reply_options = qi::options<qinfer_reply_options>();
  reply_options.chat = &options;
  qi::Reply reply(tiny_chat(), conversation, reply_options);
  const Tokens tokens = chat.session().tokens();
  for (std::size_t i = n_prompt; i < tokens.size(); ++i) reply.push(tokens[i]);
  reply.finish();
  return Json::parse(reply.message());
}

}  // namespace

TEST_CASE("a chat's prompts and replies are those of transformers", "[chat]") {
  std::ifstream file(kTinyChat + "/expected.json");
  const Json expected = Json::parse(file)["conversations"];
  REQUIRE(expected.size() >= 40);
  std::size_t calls = 0;
  for (const Json& item : expected) {
    INFO(item["conversation"].dump());
    qi::Chat chat = chat_of(item["conversation"]);
    const std::string conversation = chat.conversation();
    std::string content, reasoning;
    const std::string said = chat.reply([&](const qi::Part& part) {
      if (part.kind == QINFER_PART_CONTENT) content += part.text;
      if (part.kind == QINFER_PART_REASONING) reasoning += part.text;
      return true;
    });
    Tokens all = item["prompt_ids"].get<Tokens>();
    const std::size_t n_prompt = all.size();
    for (const Json& id : item["greedy_ids"]) all.push_back(id);
    CHECK(chat.session().tokens() == all);
    const qi::Message& last = chat.messages().back();
    CHECK(said == content);
    CHECK(last.content == content);
    CHECK(last.reasoning == reasoning);
    CHECK(last.role == "assistant");
    calls += chat.calls().size();

    Json mine = message_of(last), theirs = library_message(chat, conversation, n_prompt);
    for (Json* message : {&mine, &theirs}) {  // arguments are a text in one, an object in the other
      if (!message->contains("tool_calls")) continue;
      for (Json& call : (*message)["tool_calls"]) {
        Json& arguments = call["function"]["arguments"];
        if (arguments.is_string()) arguments = Json::parse(arguments.get<std::string>());
      }
    }
    CHECK(nlohmann::json(mine) == nlohmann::json(theirs));
    CHECK(chat.result().finish == QINFER_FINISH_END);
    CHECK(chat.result().new_tokens == item["greedy_ids"].size());
  }
  CHECK(calls == 3);
}

TEST_CASE("turns of a chat evaluate only what is new", "[chat]") {
  qi::Chat chat(tiny_chat());
  CHECK(chat.send("Hello!") == kHello);
  const std::uint64_t before = evaluated(chat.session());
  const std::size_t length = chat.session().length();
  CHECK(chat.send("What is the capital of France?") == kParis);
  // The end token of the first reply was never evaluated, nor is that of the second.
  CHECK(evaluated(chat.session()) - before == chat.session().length() - length);
  REQUIRE(chat.messages().size() == 4);
  chat.messages().pop_back();  // the same question is answered again, by one token that is evaluated again
  const std::uint64_t again = evaluated(chat.session());
  CHECK(chat.reply() == kParis);
  CHECK(evaluated(chat.session()) - again < chat.session().length() - length);
}

TEST_CASE("a chat calls a tool and tells what it gave", "[chat]") {
  qi::ChatOptions options;
  options.tools = {{"get_weather", "Get the current weather in a city",
                    R"({"type": "object", "properties": {"city": {"type": "string", "description": "The city"}},
                        "required": ["city"]})"}};
  qi::Chat chat(qi::Model::load(kTinyChat), options);
  std::vector<qi::Part> parts;
  const auto keep = [&](const qi::Part& part) {
    parts.push_back(part);
    return true;
  };
  CHECK(chat.send("What is the weather in Lisbon?", keep).empty());
  const std::vector<qi::ToolCall> calls = chat.calls();
  REQUIRE(calls.size() == 1);
  CHECK(calls[0].name == "get_weather");
  CHECK(calls[0].arguments == R"({"city": "Lisbon"})");
  CHECK_FALSE(calls[0].id.empty());
  CHECK(parts.back().kind == QINFER_PART_CALL);
  CHECK(parts.back().id == calls[0].id);
  CHECK_FALSE(chat.messages().back().reasoning.empty());
  const std::size_t length = chat.session().length();
  const std::uint64_t before = evaluated(chat.session());
  for (const qi::ToolCall& call : chat.calls()) chat.add_result(call, R"({"condition": "windy", "temperature": 17})");
  const std::string told = chat.reply();
  for (const char* word : {"windy", "Lisbon", "17"}) CHECK(told.find(word) != std::string::npos);
  CHECK(evaluated(chat.session()) - before == chat.session().length() - length);
  CHECK(chat.calls().empty());
}

TEST_CASE("a reply that is left stays as far as it came", "[chat]") {
  qi::Chat chat(tiny_chat());
  const auto check = [&](std::size_t n_messages) {
    REQUIRE(chat.messages().size() == n_messages);
    const std::string& content = chat.messages().back().content;
    CHECK(chat.messages().back().role == "assistant");
    CHECK_FALSE(content.empty());
    CHECK(content.size() < std::string(kHello).size());
    CHECK(std::string(kHello).rfind(content, 0) == 0);
    CHECK(chat.result().finish == QINFER_FINISH_CALLBACK);
  };
  SECTION("by a break") {
    for (const qi::Part& part : chat.stream("Hello!")) {
      CHECK(part.kind == QINFER_PART_CONTENT);
      break;
    }
    check(2);
  }
  SECTION("by a callback") {
    const std::string said = chat.send("Hello!", [](const qi::Part&) { return false; });
    CHECK_FALSE(said.empty());
    check(2);
  }
  SECTION("by a callback that throws") {
    REQUIRE_THROWS_WITH(chat.send("Hello!", [](const qi::Part&) -> bool { throw std::runtime_error("enough"); }),
                        "enough");
    check(2);
  }
  SECTION("by a thrown exception between parts") {
    REQUIRE_THROWS_AS(
        [&] {
          qi::ChatStream stream = chat.stream("Hello!");
          stream.next();
          throw std::logic_error("elsewhere");
        }(),
        std::logic_error);
    check(2);
  }
  SECTION("by leave()") {
    qi::ChatStream stream = chat.stream("Hello!");
    REQUIRE(stream.next());
    stream.leave();
    check(2);
    stream.leave();
    CHECK_FALSE(stream.next());
    check(2);
  }
  SECTION("by its stream's end of life in another place") {
    std::vector<qi::ChatStream> streams;
    streams.push_back(chat.stream("Hello!"));
    REQUIRE(streams[0].next());
    qi::ChatStream moved = std::move(streams[0]);
    streams.clear();
    CHECK(chat.messages().size() == 1);
    moved = qi::ChatStream(std::move(moved));
    REQUIRE(moved.next());
    { const qi::ChatStream last = std::move(moved); }
    check(2);
    CHECK_FALSE(moved.next());  // NOLINT(bugprone-use-after-move): it has ended
  }
  SECTION("and the conversation goes on") {
    chat.send("Hello!", [](const qi::Part&) { return false; });
    CHECK(chat.send("What is the capital of France?") == kParis);
    CHECK(chat.messages().size() == 4);
  }
}

TEST_CASE("another turn ends the one before", "[chat]") {
  qi::Chat chat(tiny_chat());
  qi::ChatStream first = chat.stream("Hello!");
  REQUIRE(first.next());
  qi::ChatStream second = chat.stream("What is the capital of France?");
  REQUIRE(chat.messages().size() == 3);
  CHECK(chat.messages()[1].role == "assistant");
  CHECK_FALSE(first.next());
  first.leave();  // which is no longer its turn
  std::string said;
  for (const qi::Part& part : second) said += part.text;
  CHECK(said == kParis);
  CHECK(chat.messages().size() == 4);
  second = chat.stream("Hello!");
  second = chat.stream("Hello!");  // of the one before nothing had come
  CHECK(chat.messages().size() == 5);
}

TEST_CASE("a turn that is left before anything came takes its message back", "[chat]") {
  qi::Chat chat(tiny_chat());
  { const qi::ChatStream left = chat.stream("Hello!"); }
  CHECK(chat.messages().empty());
  chat.add({"user", "Hello!"});
  { const qi::ChatStream left = chat.stream_reply(); }
  REQUIRE(chat.messages().size() == 1);  // it was there before
  CHECK(chat.reply() == kHello);
}

TEST_CASE("a request to cancel ends a reply, which stays as far as it came", "[chat]") {
  const bool begun = GENERATE(true, false);
  qi::Chat chat(tiny_chat());
  qi::Cancel cancel;
  qi::TurnOptions options;
  options.cancel = &cancel;
  if (!begun) cancel.request();
  const auto request = [&](const qi::Part&) {
    cancel.request();
    return true;
  };
  try {
    chat.send("Hello!", request, options);
    FAIL("it was not cancelled");
  } catch (const qi::Error& error) {
    CHECK(error.status() == QINFER_E_CANCELLED);
  }
  REQUIRE(chat.messages().size() == (begun ? 2 : 0));
  if (begun) CHECK(std::string(kHello).rfind(chat.messages()[1].content, 0) == 0);
  cancel.reset();
  CHECK(chat.send("What is the capital of France?", options) == kParis);
}

TEST_CASE("a chat may be moved while a reply is drawn, and end before its stream", "[chat]") {
  std::optional<qi::Chat> chat(std::in_place, tiny_chat());
  qi::ChatStream stream = chat->stream("Hello!");
  REQUIRE(stream.next());
  qi::Chat moved = std::move(*chat);
  std::string said = stream.next()->text;
  const bool ends_first = GENERATE(true, false);
  if (ends_first) {
    {
      const qi::Chat gone = std::move(moved);
    }
    for (const qi::Part& part : stream) said += part.text;
    CHECK(std::string(kHello).find(said) != std::string::npos);
  } else {
    for (const qi::Part& part : stream) said += part.text;
    REQUIRE(moved.messages().size() == 2);
    CHECK(moved.messages()[1].content == kHello);
  }
}

TEST_CASE("a reply has at most so many tokens", "[chat]") {
  qi::Chat chat(tiny_chat());
  qi::TurnOptions options;
  options.max_tokens = 3;
  const std::string said = chat.send("Hello!", options);
  CHECK(chat.result().new_tokens == 3);
  CHECK(chat.result().finish == QINFER_FINISH_LENGTH);
  CHECK(std::string(kHello).rfind(said, 0) == 0);
  CHECK(chat.messages().back().content == said);
}

TEST_CASE("reasoning is told apart, bounded or not looked for", "[chat]") {
  qi::ChatOptions with;
  with.template_text = "{{ messages[0].content }}<think>\n";
  qi::Chat chat(tiny_chat(), with);
  qi::TurnOptions options;
  options.max_tokens = 20;
  options.max_reasoning_tokens = 5;
  chat.send("Hello!", options);
  CHECK_FALSE(chat.messages().back().reasoning.empty());
  CHECK(chat.result().reasoning_tokens >= 5);
  chat.messages().pop_back();
  options.max_reasoning_tokens = 0;
  options.reasoning = false;
  chat.reply(options);
  CHECK(chat.messages().back().reasoning.empty());
  CHECK_FALSE(chat.messages().back().content.empty());
}

TEST_CASE("a reply that ends inside a character has it once", "[chat]") {
  qi::Chat chat(tiny_chat());
  chat.send("Hello!");
  qi::Token half = 0;
  while (tiny_chat().token_text(half) != "\xC3") ++half;
  chat.session().set_bias({{half, 1e6f}});
  qi::TurnOptions options;
  options.max_tokens = 1;
  const bool leaves = GENERATE(true, false);
  if (leaves) {
    options.max_tokens = 2;
    qi::ChatStream stream = chat.stream("Again!", options);
    REQUIRE(stream.next());
    CHECK(chat.session().length() > 0);
  } else {
    CHECK(chat.send("Again!", options) == "\xEF\xBF\xBD");
  }
  const std::string& content = chat.messages().back().content;
  CHECK(content.size() == 3 * chat.result().new_tokens);
  CHECK(content.rfind("\xEF\xBF\xBD", 0) == 0);
}

TEST_CASE("a chat draws in a session that it is given", "[chat]") {
  auto small = qi::options<qinfer_session_options>();
  small.max_tokens = 60;
  qi::KvCache cache(tiny_chat());
  qi::Chat chat(tiny_chat(), qi::Session(cache, small));
  CHECK(chat.send("Hello!") == kHello);
  CHECK(chat.session().info().max_tokens == 60);
  auto hot = qi::options<qinfer_sampler_options>();
  hot.temperature = 100;
  hot.seed = 3;
  chat.session().set_sampler(hot);
  qi::TurnOptions options;
  options.max_tokens = 12;
  CHECK(chat.send("Hello!", options) != kHello);
}

TEST_CASE("a system text and variables reach the template", "[chat]") {
  qi::ChatOptions with;
  with.system = "Be brief.";
  with.now = "2026-11-22";
  with.template_text =
      "{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}{{ mood }}{{ n + 1 }}{{ 'on' if on else 'off' }}"
      "{{ strftime_now('%d') }}{{ raise_exception('seen: ' ~ messages[0].content ~ mood ~ n ~ on) }}";
  qi::Chat chat(tiny_chat(), with);
  chat.set_variable("mood", "\"good\"");
  chat.set_variable("n", 6);
  chat.set_variable("on", true);
  chat.set_variable("n", std::uint64_t{7});
  REQUIRE_THROWS_WITH(chat.send("Hi"), contains("seen: Be brief.\"good\"7True"));
  REQUIRE(chat.messages().size() == 1);
  CHECK(chat.messages()[0].role == "system");
}
