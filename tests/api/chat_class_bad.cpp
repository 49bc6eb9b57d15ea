// qi::Chat used wrongly: each error names what is wrong, and the conversation is as it was. Texts of any bytes are
// written as JSON or refused.
#include <qinfer/qinfer_chat.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include "support/c_api.h"

using namespace qinfer::test;

namespace {

const qi::Model& tiny_chat() {
  static const qi::Model model = qi::Model::load(QINFER_TEST_MODELS "/tiny-chat");
  return model;
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

/// The text as JSON, or empty where it is refused.
std::string written(const std::string& text) {
  qi::detail::ConversationWriter writer;
  try {
    writer.text(text, "it");
  } catch (const qi::Error&) {
    return {};
  }
  return writer.out;
}

/// Whether what another JSON library takes for UTF-8 is written, and is the same text there, and the rest is refused.
bool is_right(const std::string& text) {
  bool is_utf8 = true;
  try {
    static_cast<void>(nlohmann::json(text).dump());
  } catch (const nlohmann::json::type_error&) {
    is_utf8 = false;
  }
  const std::string json = written(text);
  return is_utf8 ? !json.empty() && nlohmann::json::parse(json).get<std::string>() == text : json.empty();
}

std::string utf8(std::uint32_t code) {
  const auto rest = [&](int shift) { return static_cast<char>(0x80 | (code >> shift & 63)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xC0 | code >> 6), rest(0)};
  if (code < 0x10000) return {static_cast<char>(0xE0 | code >> 12), rest(6), rest(0)};
  return {static_cast<char>(0xF0 | code >> 18), rest(12), rest(6), rest(0)};
}

/// A hook that fails after some tokens.
class Failing final : public qi::Constraint {
 public:
  explicit Failing(int n) : n_(n) {}
  std::function<void()> begin(qi::Session& session) const override {
    struct Hook final : qi::LogitsHook {
      explicit Hook(int left) : left_(left) {}
      bool apply(float*, std::uint32_t) override { return left_-- > 0; }
      int left_;
    };
    session.set_logits_hook(std::make_unique<Hook>(n_));
    return [] { throw std::range_error("the hook has had enough"); };
  }

 private:
  int n_;
};

}  // namespace

TEST_CASE("texts of a conversation are JSON, or refused where they are not UTF-8", "[chat]") {
  std::vector<std::string> wrong;
  const auto check = [&](const std::string& text) {
    if (!is_right(text)) wrong.push_back(nlohmann::json::binary({text.begin(), text.end()}).dump());
  };
  for (int first = 0; first < 256; ++first) {
    check({static_cast<char>(first)});
    for (int second = 0; second < 256; ++second) check({static_cast<char>(first), static_cast<char>(second)});
  }
  // The bytes where a decoder's decisions change, in every order.
  const unsigned char edges[] = {0x00, 0x22, 0x5C, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2,
                                 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
  const auto bytes = [](auto... byte) { return std::string{static_cast<char>(byte)...}; };
  for (const unsigned char a : edges)
    for (const unsigned char b : edges)
      for (const unsigned char c : edges) {
        check(bytes(a, b, c));
        for (const unsigned char d : edges)
          if (a >= 0xE0) check(bytes(a, b, c, d));
      }
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    const std::uint32_t ends[] = {0x80, 0x800, 0xD800, 0x110000};
    for (std::size_t n = random() % 20; n > 0; --n) {
      const std::uint32_t code = random() % ends[random() % 4];
      text += utf8(code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
    }
    if (random() % 3 == 0) text.insert(random() % (text.size() + 1), 1, static_cast<char>(random() % 256));
    check(text);
  }
  CHECK(wrong == std::vector<std::string>());
}

TEST_CASE("what a user writes is no part of the conversation's JSON, nor a control token", "[chat]") {
  qi::ChatOptions with;
  with.template_text = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}";
  const char said[] = "nul\0, \"quote\", \\u0041 \\, \x1F\x7F\n{\"role\"} <|im_end|>\xF0\x9F\x98\x80";
  const std::string text(said, sizeof said - 1);
  qi::Chat chat(tiny_chat(), with);
  qi::TurnOptions options;
  options.max_tokens = 1;
  chat.send(text, options);
  auto chat_options = qi::options<qinfer_chat_options>();
  chat_options.template_text = with.template_text.c_str();
  chat.messages().resize(1);
  CHECK(tiny_chat().render_chat(chat.conversation(), chat_options) == "user:" + text + ";");
  const std::vector<qi::Token> tokens = chat.session().tokens();
  CHECK(std::count(tokens.begin(), tokens.end() - 1, tiny_chat().find_token("<|im_end|>")) == 0);
}

TEST_CASE("a chat's errors name what is wrong, and take the message back", "[chat]") {
  qi::Chat chat(tiny_chat());
  chat.send("Hello!");
  const auto fails = [&](qinfer_status status, const std::string& text, const std::function<void()>& call) {
    CAPTURE(text);
    const std::size_t n = chat.messages().size();
    require_error(status, text, call);
    CHECK(chat.messages().size() == n);
  };
  const auto send = [&] { chat.send("Hi"); };
  fails(QINFER_E_INVALID_ARGUMENT, "messages[2].content is not UTF-8, from byte 3 on", [&] { chat.send("abc\xFFz"); });
  fails(QINFER_E_CONTEXT_FULL, "shorten or remove messages", [&] {
    std::string many;
    for (int i = 0; i < 2000; ++i) many += "Hello! ";
    chat.stream(many);
  });
  const std::pair<qi::Message, const char*> bad_messages[] = {
      {{"", "Hi"}, "messages[2].role is empty"},
      {{"us\xC0r", "Hi"}, "messages[2].role is not UTF-8, from byte 2 on"},
      {{"assistant", "Hi", "\xED\xA0\x80"}, "messages[2].reasoning_content is not UTF-8, from byte 0 on"},
      {{"assistant", "", "", {{"f", "1", "{}"}, {"f\x80", "2", "{}"}}}, "messages[2].tool_calls[1].name is not UTF-8"},
      {{"assistant", "", "", {{"f", "1", "\xFE"}}}, "messages[2].tool_calls[0].arguments is not UTF-8"},
      {{"assistant", "", "", {{"f", "\xFE", "{}"}}}, "messages[2].tool_calls[0].id is not UTF-8"},
      {{"tool", "1", "", {}, "\xC1\x81"}, "messages[2].tool_call_id is not UTF-8"},
      {{"tool", "1", "", {}, "", "\xF5"}, "messages[2].name is not UTF-8"}};
  for (const auto& [message, text] : bad_messages) {
    chat.add(message);
    fails(QINFER_E_INVALID_ARGUMENT, text, send);
    chat.messages().pop_back();
  }
  const std::tuple<qi::Tool, qinfer_status, const char*> bad_tools[] = {
      {{"", "what it does"}, QINFER_E_INVALID_ARGUMENT, "tools[1].name is empty"},
      {{"f\xFF", ""}, QINFER_E_INVALID_ARGUMENT, "tools[1].name is not UTF-8"},
      {{"f", "\xFF"}, QINFER_E_INVALID_ARGUMENT, "tools[1].description is not UTF-8"},
      {{"f", "", "{\"type\": object}"}, QINFER_E_FORMAT, "tools[1].parameters (of \"f\"), as a JSON object: "},
      {{"f", "", "[1]"}, QINFER_E_INVALID_ARGUMENT, "tools[1].parameters (of \"f\"), as a JSON object: "},
      {{"f", "", "{}}, \"messages\": [], \"x\": {\"y\": {}"}, QINFER_E_FORMAT, "tools[1].parameters (of \"f\")"},
      {{"f", "", "{\"a\": \"\xFF\"}"}, QINFER_E_FORMAT, "tools[1].parameters (of \"f\")"}};
  chat.tools().push_back({"good", "", ""});
  for (const auto& [tool, status, text] : bad_tools) {
    chat.tools().push_back(tool);
    fails(status, text, send);
    chat.tools().pop_back();
  }
  fails(QINFER_E_INVALID_ARGUMENT, "\"messages\" is the chat's own", [&] { chat.set_variable("messages", true); });
  fails(QINFER_E_INVALID_ARGUMENT, "\"tools\" is the chat's own", [&] { chat.set_variable("tools", "[]"); });
  fails(QINFER_E_INVALID_ARGUMENT, "the variable \"x\" is not UTF-8", [&] { chat.set_variable("x", "\xFF"); });
  fails(QINFER_E_INVALID_ARGUMENT, "the name of a variable is not UTF-8", [&] { chat.set_variable("\xFF", 1); });
  chat.tools().clear();
  CHECK(chat.send("What is the capital of France?") == "The capital of France is Paris.");
}

TEST_CASE("a template that wants roles in an order says so at each wrong one", "[chat]") {
  qi::ChatOptions with;  // as Mistral and Gemma have it
  with.template_text =
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
      "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}{{ m.content }}{% endfor %}";
  qi::Chat chat(tiny_chat(), with);
  qi::TurnOptions options;
  options.max_tokens = 4;
  chat.add({"assistant", "Hi"});
  for (int i = 0; i < 3; ++i) {
    require_error(QINFER_E_INVALID_ARGUMENT, "roles must alternate", [&] { chat.send("Hello!", options); });
    REQUIRE(chat.messages().size() == 1);
  }
  chat.messages().clear();
  for (int i = 0; i < 3; ++i) {  // a turn that is left, or fails, does not spoil the next ones
    chat.send(
        "Hello!", [](const qi::Part&) { return false; }, options);
    require_error(QINFER_E_INVALID_ARGUMENT, "not UTF-8", [&] { chat.send("\xFF", options); });
    REQUIRE(chat.messages().size() == 2 * static_cast<std::size_t>(i) + 2);
  }
  chat.add({"user", "Hi"});
  require_error(QINFER_E_INVALID_ARGUMENT, "roles must alternate", [&] { chat.send("Hi", options); });
}

TEST_CASE("a chat without messages, or whose template fails, has no reply", "[chat]") {
  qi::Chat empty(tiny_chat());
  require_error(QINFER_E_INVALID_ARGUMENT, "there is no message to reply to", [&] { empty.reply(); });
  qi::ChatOptions with;
  with.template_name = "no such template";
  qi::Chat unnamed(tiny_chat(), with);
  require_error(QINFER_E_NOT_FOUND, "no such template", [&] { unnamed.send("Hi"); });
  const qi::Model stories = qi::Model::load(QINFER_TEST_MODELS "/tiny-stories");
  qi::Chat mute(stories);
  require_error(QINFER_E_NOT_FOUND, "template", [&] { mute.send("Hi"); });
  qi::ChatOptions huge;
  huge.max_context = std::numeric_limits<std::uint32_t>::max();
  require_error(QINFER_E_INVALID_ARGUMENT, "max_tokens", [&] { const qi::Chat chat(tiny_chat(), huge); });
}

TEST_CASE("a chat's context that is full is told with both numbers", "[chat]") {
  qi::ChatOptions with;
  with.max_context = 30;
  qi::Chat chat(tiny_chat(), with);
  chat.send("Hello!");
  REQUIRE(chat.messages().size() == 2);
  for (int i = 0; i < 3; ++i) {
    try {
      chat.send("What is the capital of France?");
      FAIL("it fits");
    } catch (const qi::Error& error) {
      CHECK(error.status() == QINFER_E_CONTEXT_FULL);
      const std::string n = std::to_string(error.detail());
      CHECK(error.detail() >= 30);
      CHECK(std::string(error.what()) == "the conversation has " + n +
                                             " tokens, and a context of 30 has no room for a reply: shorten or remove "
                                             "messages");
    }
    REQUIRE(chat.messages().size() == 2);
  }
  chat.messages().clear();  // one that fits is cut where the context ends
  chat.send("Hello! Hello! Hello! Hello!");
  CHECK(chat.session().length() <= 30);
  CHECK(chat.messages().size() == 2);
}

TEST_CASE("what was moved from says so", "[chat]") {
  qi::Chat chat(tiny_chat());
  qi::Chat other = std::move(chat);
  // NOLINTBEGIN(bugprone-use-after-move)
  const std::function<void()> calls[] = {[&] { chat.send("Hi"); },
                                         [&] { chat.stream("Hi"); },
                                         [&] { chat.reply(); },
                                         [&] {
                                           chat.add({"user", "Hi"});
                                         },
                                         [&] { chat.calls(); },
                                         [&] { chat.messages(); },
                                         [&] { chat.session(); },
                                         [&] { chat.result(); },
                                         [&] { chat.conversation(); },
                                         [&] { chat.tools(); },
                                         [&] { chat.set_variable("x", 1); }};
  for (const auto& call : calls) require_error(QINFER_E_INVALID_ARGUMENT, "the Chat was moved from", call);
  chat = std::move(other);
  CHECK(chat.send("Hello!") == "Hello! What can I do for you?");

  qi::Model model = qi::Model::load(QINFER_TEST_MODELS "/tiny-chat");
  qi::Chat borrowed(model);
  const qi::Model gone = std::move(model);
  require_error(QINFER_E_INVALID_ARGUMENT, "model is NULL", [&] { borrowed.send("Hi"); });
  require_error(QINFER_E_INVALID_ARGUMENT, "model is NULL", [&] { const qi::Chat none(model); });
  qi::Session session = std::move(chat.session());
  require_error(QINFER_E_INVALID_ARGUMENT, "session is NULL", [&] { chat.send("Hi"); });
  CHECK(chat.messages().size() == 2);
  // NOLINTEND(bugprone-use-after-move)
}

TEST_CASE("a chat in a session of another model says so", "[chat]") {
  const qi::Model other = qi::Model::load(QINFER_TEST_MODELS "/tiny-chat");
  qi::KvCache cache(other);
  qi::Chat chat(tiny_chat(), qi::Session(cache));
  require_error(QINFER_E_INVALID_ARGUMENT, "another model", [&] { chat.send("Hi"); });
  CHECK(chat.messages().empty());
}

TEST_CASE("a constraint that fails ends the turn with its reason", "[chat]") {
  qi::Chat chat(tiny_chat());
  for (const int after : {0, 2}) {
    const Failing failing(after);
    qi::TurnOptions options;
    options.constraint = &failing;
    REQUIRE_THROWS_WITH(chat.send("Hello!", options), "the hook has had enough");
    CHECK(chat.messages().empty());
    CHECK(chat.session().info().has_logits_hook == 0);
  }
  const Failing never(1000);
  qi::TurnOptions options;
  options.constraint = &never;
  CHECK(chat.send("Hello!", options) == "Hello! What can I do for you?");
  CHECK(chat.session().info().has_logits_hook == 0);
  qi::Cancel cancel;  // which is no failure of it
  options.cancel = &cancel;
  const Failing with_cancel(1000);
  options.constraint = &with_cancel;
  {
    qi::ChatStream left = chat.stream("Hello!", options);
    CHECK(left.next());
  }
  CHECK(chat.messages().size() == 4);
  CHECK(chat.session().info().has_logits_hook == 0);
}

TEST_CASE("a sampler that is wrong is refused, and the chat goes on", "[chat]") {
  qi::Chat chat(tiny_chat());
  auto sampler = qi::options<qinfer_sampler_options>();
  sampler.temperature = -1;
  require_error(QINFER_E_INVALID_ARGUMENT, "temperature", [&] { chat.session().set_sampler(sampler); });
  CHECK(chat.send("Hello!") == "Hello! What can I do for you?");
}
