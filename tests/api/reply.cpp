// Replies through the C ABI: the format that the template shows, markers that are control tokens, what is told when,
// and every way to fail.
#include <qinfer/qinfer.hpp>

#include <nlohmann/json.hpp>

#include "support/c_api.h"

using namespace qinfer::test;
using Json = nlohmann::json;

namespace {

constexpr const char* kConversation = R"({"messages": [{"role": "user", "content": "Hi"}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]})";

/// A model without weights whose template is this one, and whose tokenizer has these tokens more.
qi::Model model_with(const ModelDir& dir, const std::string& text, const std::vector<std::string>& control = {}) {
  dir.write("tokenizer_config.json", Json{{"chat_template", text}}.dump());
  Json tokenizer = Json::parse(tiny_tokenizer());
  for (const std::string& content : control) {
    const auto id = 264 + static_cast<int>(&content - control.data());
    tokenizer["added_tokens"].push_back({{"id", id},
                                         {"content", content},
                                         {"special", true},
                                         {"single_word", false},
                                         {"lstrip", false},
                                         {"rstrip", false},
                                         {"normalized", false}});
  }
  dir.write("tokenizer.json", tokenizer.dump());
  auto load = qi::options<qinfer_load_options>();
  load.flags = QINFER_LOAD_NO_WEIGHTS;
  return qi::Model::load(dir.path(), load);
}

/// All parts, each as "kind:name:text;", after the tokens of a text.
std::string parts_of(qi::Reply& reply) {
  std::string out;
  for (qi::Reply::Part part = reply.next(); part.kind != QINFER_PART_NONE; part = reply.next())
    out += std::to_string(part.kind) + ":" + part.name + ":" + part.text + ";";
  return out;
}

std::string read(const qi::Model& model, const std::string& text, std::string* message = nullptr,
                 std::int32_t format = QINFER_REPLY_AUTO, const char* conversation = kConversation) {
  auto chat = qi::options<qinfer_chat_options>();
  chat.flags = QINFER_CHAT_GENERATION_PROMPT;
  auto options = qi::options<qinfer_reply_options>();
  options.chat = &chat;
  options.format = format;
  qi::Reply reply(model, conversation, options);
  for (const qi::Token token : model.tokenize(text, QINFER_TEXT_PARSE_SPECIAL)) reply.push(token);
  reply.finish();
  const std::string parts = parts_of(reply);
  if (message != nullptr) *message = reply.message();
  return parts;
}

constexpr const char* kHermes = "{% for m in messages %}{{ m.content }}{% endfor %}{# <tool_call> #}";

}  // namespace

TEST_CASE("A reply is content, reasoning and calls, in the format that the template shows", "[api][chat]") {
  const ModelDir dir{TinySpec()};
  std::string message;
  const std::string text =
      "<think>hm</think>\n\nI ask.\n<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1}}</tool_call></s>";
  CHECK(read(model_with(dir, kHermes), text, &message) == "2::hm;1::I ask.;3:f:{\"x\": 1};");
  CHECK(Json::parse(message) == Json::parse(R"({"role": "assistant", "content": "I ask.", "reasoning_content": "hm",
    "tool_calls": [{"id": "call00000", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]})"));
  const qi::Model plain = model_with(dir, "plain");
  CHECK(read(plain, "x<tool_call>{}") == "1::x<tool_call>{};");
  CHECK(read(plain, R"({"name": "f", "parameters": {}})", nullptr, QINFER_REPLY_LLAMA3) == "3:f:{};");
}

TEST_CASE("A name with a NUL is whole", "[api][chat]") {
  const ModelDir dir{TinySpec()};
  const std::string text = R"(<tool_call>{"name": "f\u0000g", "arguments": {}}</tool_call>)";
  const std::string name("f\0g", 3);
  std::string message;
  CHECK(read(model_with(dir, kHermes), text, &message) == "3:" + name + ":{};");
  CHECK(Json::parse(message)["tool_calls"][0]["function"]["name"] == name);
}

TEST_CASE("What a prompt has begun belongs to the reply", "[api][chat]") {
  const ModelDir dir{TinySpec()};
  // Only what the template itself has written counts, and only at the end.
  const qi::Model thinks =
      model_with(dir, "{{ messages[0].content }}{% if add_generation_prompt %}<think>\n{% endif %}");
  CHECK(read(thinks, "hm</think>Yes") == "2::hm;1::Yes;");
  const qi::Model not_yet = model_with(dir, "<think>{{ messages[0].content }}");
  CHECK(read(not_yet, "hm</think>Yes") == "1::hm</think>Yes;");
  const qi::Model said = model_with(dir, "{{ messages[0].content }}");
  CHECK(read(said, "hm", nullptr, QINFER_REPLY_AUTO, R"({"messages": [{"content": "<think>"}]})") == "1::hm;");
  const qi::Model functionary = model_with(dir, "{# >>>all #}{% if add_generation_prompt %}>>>{% endif %}");
  CHECK(read(functionary, "all\nHello") == "1::Hello;");
  CHECK(read(functionary, "f\n{}") == "3:f:{};");
}

TEST_CASE("Markers that are control tokens count, other control tokens say nothing", "[api][chat]") {
  const ModelDir dir{TinySpec()};
  const qi::Model model =
      model_with(dir, "[TOOL_CALLS]", {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]", "[OTHER]"});
  CHECK(read(model, "[THINK]hm[/THINK]a[OTHER]b[TOOL_CALLS]f[CALL_ID]1[ARGS]{\"x\": 1}</s>") ==
        "2::hm;1::ab;3:f:{\"x\": 1};");
  // Bytes that are no character do not end in the middle of a marker.
  auto options = qi::options<qinfer_reply_options>();
  qi::Reply reply(model, kConversation, options);
  reply.push(0xe4);
  CHECK(parts_of(reply).empty());
  reply.push(264);
  CHECK(parts_of(reply) == "1::\xEF\xBF\xBD;");
  reply.finish();
  CHECK(parts_of(reply) == "1::[TOOL_CALLS];");
}

TEST_CASE("Calls of later replies have other ids", "[api][chat]") {
  const ModelDir dir{TinySpec()};
  const qi::Model model = model_with(dir, kHermes);
  std::string message;
  read(model, "<tool_call>{\"name\": \"f\"}</tool_call><tool_call>{\"name\": \"g\"}</tool_call>", &message,
       QINFER_REPLY_AUTO,
       R"({"messages": [{"content": "", "tool_calls": [{}, {}]}, {"content": "", "tool_calls": 1}]})");
  const Json calls = Json::parse(message)["tool_calls"];
  CHECK(calls[0]["id"] == "call00002");
  CHECK(calls[1]["id"] == "call00003");
}

TEST_CASE("Replies refuse what makes no sense", "[api][chat][bad]") {
  const ModelDir dir{TinySpec()};
  const qi::Model model = model_with(dir, "{% if fail %}{{ raise_exception('no') }}{% endif %}");
  qinfer_reply* created = nullptr;
  const auto create = [&](const char* conversation, const qinfer_reply_options* options, qinfer_error* err) {
    created = reinterpret_cast<qinfer_reply*>(1);
    const qinfer_status status = qinfer_reply_create(model.native(), conversation, SIZE_MAX, options, &created, err);
    if (status != QINFER_OK) CHECK(created == nullptr);
    return status;
  };
  auto options = sized<qinfer_reply_options>();
  REQUIRE_FAILS(QINFER_E_FORMAT, "conversation", create("{", nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "expected an object", create("[]", nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "no", create(R"({"fail": true})", nullptr, &err));
  for (const std::int32_t format : {-1, 8, INT32_MAX, INT32_MIN}) {
    options.format = format;
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "format is " + std::to_string(format), create("{}", &options, &err));
  }
  options.format = 0;
  options.flags = 2;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "flags", create("{}", &options, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "model is NULL",
                qinfer_reply_create(nullptr, "{}", 2, nullptr, &created, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out is NULL",
                qinfer_reply_create(model.native(), "{}", 2, nullptr, nullptr, &err));

  REQUIRE_OK(create("{}", nullptr, &err));
  const std::unique_ptr<qinfer_reply, Freer<qinfer_reply_free>> reply(created);
  for (const qinfer_token token : {-1, 300, INT32_MIN, INT32_MAX})
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "token " + std::to_string(token),
                  qinfer_reply_push(reply.get(), token, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "reply is NULL", qinfer_reply_push(nullptr, 1, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "reply is NULL", qinfer_reply_finish(nullptr, &err));
  auto part = sized<qinfer_reply_part>();
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "reply is NULL", qinfer_reply_next(nullptr, &part, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out is NULL", qinfer_reply_next(reply.get(), nullptr, &err));
  std::size_t n = 7;
  char text[8];
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "reply is NULL", qinfer_reply_message(nullptr, text, 8, &n, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out_n is NULL", qinfer_reply_message(reply.get(), text, 8, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_BUFFER_TOO_SMALL, "room for 8", qinfer_reply_message(reply.get(), text, 8, &n, &err));
  CHECK(n == std::string(R"({"role": "assistant", "content": ""})").size());
  // A part is not lost to a struct that is not one.
  REQUIRE_OK(qinfer_reply_push(reply.get(), 'a', &err));
  part.struct_size = 0;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "struct_size", qinfer_reply_next(reply.get(), &part, &err));
  part.struct_size = sizeof part;
  REQUIRE_OK(qinfer_reply_next(reply.get(), &part, &err));
  CHECK(std::string(part.text, part.text_len) == "a");
  CHECK(part.name == nullptr);
  REQUIRE_OK(qinfer_reply_next(reply.get(), &part, &err));
  CHECK(part.kind == QINFER_PART_NONE);
  CHECK(part.text == nullptr);
  REQUIRE_OK(qinfer_reply_finish(reply.get(), &err));
  REQUIRE_FAILS(QINFER_E_STATE, "finished", qinfer_reply_push(reply.get(), 'a', &err));
  REQUIRE_FAILS(QINFER_E_STATE, "finished", qinfer_reply_finish(reply.get(), &err));
  qinfer_reply_free(nullptr);
}
