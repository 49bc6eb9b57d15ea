// Conversations in the forms of OpenAI's interface become what templates take: what a template then writes is what it
// writes of the conversation in its own form.
#include <nlohmann/json.hpp>

#include <filesystem>
#include <random>

#include "jinja/support.h"
#include "openai/conversation.h"
#include "support/catch.h"
#include "support/test_data.h"
#include "support/tokenizers.h"

namespace {

using namespace qinfer;
using namespace qinfer::test;
using Json = nlohmann::ordered_json;

openai::TemplateForms forms_of(const std::string& source) {
  return openai::find_forms(source, [&](const std::string& conversation) -> std::optional<std::string> {
    ChatResult result = render_chat(source, conversation);
    if (!result.ok()) return std::nullopt;
    return result.text();
  });
}

/// The conversation as the template gets it.
std::string adapted(const Json& conversation, const openai::TemplateForms& forms) {
  const std::string text = conversation.dump();
  const auto parsed = formats::parse_json(text, "conversation");
  REQUIRE(parsed.ok());
  auto out = openai::adapt(parsed.value().root(), forms);
  REQUIRE(out.ok());
  return out.value().value_or(text);
}

std::string rendered(const std::string& source, const std::string& messages) {
  const Json conversation = {{"messages", Json::parse(messages)}};
  return render_chat(source, adapted(conversation, forms_of(source))).text();
}

constexpr const char* kCalls = R"([{"role": "user", "content": "Weather?"},
  {"role": "assistant", "content": "", "tool_calls": [{"id": "call00000", "type": "function", "function": {
    "name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}}]},
  {"role": "tool", "tool_call_id": "call00000", "content": "sunny"}])";

}  // namespace

TEST_CASE("openai forms: arguments and contents as a template takes them", "[openai]") {
  const std::string calls = "{% for m in messages %}{% for c in m.tool_calls or [] %}";
  const std::string end = "{% endfor %}{% endfor %}";
  CHECK(rendered(calls + "{{ c.function.arguments | tojson }}" + end, kCalls) == R"({"city": "Oslo"})");
  CHECK(rendered(calls + "{{ c.function.arguments }}" + end, kCalls) == R"({"city": "Oslo"})");
  CHECK(rendered(calls + "{% for k, v in c.function.arguments | items %}{{ k }}={{ v }}{% endfor %}" + end, kCalls) ==
        "city=Oslo");
  CHECK(
      rendered(
          calls + "{{ c.function.arguments if c.function.arguments is string else c.function.arguments|tojson }}" + end,
          kCalls) == R"({"city": "Oslo"})");

  const std::string parts = R"([{"role": "user", "content": [{"type": "text", "text": "Hi "},
    {"type": "text", "text": "there"}]}])";
  CHECK(rendered("{% for m in messages %}{{ m.content }}|{% endfor %}", parts) == "Hi there|");
  CHECK(rendered("{% for m in messages %}{{ m.role + ': ' + m.content }}{% endfor %}", parts) == "user: Hi there");
  const std::string walks = "{% for m in messages %}{% for p in m.content %}{{ p.text }};{% endfor %}{% endfor %}";
  CHECK(rendered(walks, parts) == "Hi ;there;");
  CHECK(rendered(walks, R"([{"role": "user", "content": "Hi there"}])") == "Hi there;");

  const std::string counts =
      "{% for m in messages %}{% if 'tool_calls' in m %}{% if m.tool_calls | length != 1 %}{{ raise_exception('one') }}"
      "{% endif %}{% else %}{{ m.content }}|{% endif %}{% endfor %}";
  for (const char* value : {"null", "[]"})
    CHECK(rendered(counts, std::string(R"([{"role": "user", "content": "Hi", "name": null},
      {"role": "assistant", "content": "Hello", "tool_calls": )") +
                               value + "}]") == "Hi|Hello|");
  const std::string roles = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}";
  CHECK(rendered(roles, R"([{"role": "developer", "content": "Be brief"}, {"role": "assistant", "content": null}])") ==
        "system:Be brief;assistant:;");
  CHECK(rendered(roles + "{# developer #}", R"([{"role": "developer", "content": "Be brief"}])") ==
        "developer:Be brief;");
}

TEST_CASE("openai forms: images, sounds and videos in a conversation are found", "[openai]") {
  const auto check = [](const std::string& content) {
    const auto parsed = formats::parse_json(
        R"({"messages": [7, {"role": "system"}, {"role": "user", "content": )" + content + "}]}", "c");
    REQUIRE(parsed.ok());
    return openai::check_texts_alone(parsed.value().root());
  };
  for (const char* fine :
       {"null", "\"image\"", "[]", "[\"image\", 3, null, []]", R"([{"type": "text", "text": "image"}])",
        R"([{"type": "document", "image": 1}, {"text": "a"}, {"type": 3}])"})
    CHECK(check(fine).ok());
  for (const char* media : {"image", "image_url", "input_image", "audio", "audio_url", "input_audio", "video",
                            "video_url", "input_video"}) {
    const std::string message = R"(messages[2].content[1] is of type ")" + std::string(media) + "\": models are run";
    for (const char* part : {R"({{"type": "{}"}})", R"({{"{}": "a.png"}})"}) {
      Status status = check(R"([{"type": "text", "text": "a"}, )" + fmt::format(fmt::runtime(part), media) + "]");
      CHECK(status.code() == Code::unsupported);
      CHECK(std::string(status.message()).starts_with(message));
    }
  }
  for (const char* other : {"{}", R"({"messages": 3})", R"({"messages": {"content": []}})"})
    CHECK(openai::check_texts_alone(formats::parse_json(other, "c").value().root()).ok());
}

TEST_CASE("openai forms: what cannot be put into a form is refused, or left as it is", "[openai]") {
  const openai::TemplateForms forms = forms_of("{% for m in messages %}{{ m.content }}{% endfor %}");
  const auto parsed = formats::parse_json(
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}]})", "c");
  auto refused = openai::adapt(parsed.value().root(), forms);
  CHECK(refused.take_status().message() ==
        "messages[0].content[1] is of type \"image_url\", the model's template takes text");
  const Json broken = Json::parse(R"({"messages": [{"role": "assistant", "content": "x", "tool_calls": [
    {"function": {"name": "f", "arguments": "{\"a\": "}}, {"function": 3}, 7]}, "no message"]})");
  CHECK(Json::parse(adapted(broken, forms)) == broken);
  // Arguments that are too deep to stand as an object.
  std::string deep = "{\"a\": " + std::string(60, '[') + std::string(60, ']') + "}";
  const Json too_deep = {{"messages",
                          {{{"role", "assistant"},
                            {"content", ""},
                            {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", deep}}}}}}}}}};
  CHECK(Json::parse(adapted(too_deep, forms)) == too_deep);
}

namespace {

/// What a template takes, as its text says, written down by hand.
struct Own {
  bool text_arguments = false, null_content = false;
  bool tools = true;  ///< it can write them
};
Own own_form(const std::string& name) {
  Own own;
  for (const char* family : {"deepseek", "functionary", "firefunction"})
    own.text_arguments = own.text_arguments || name.find(family) != name.npos;
  own.null_content = name.find("deepseek") != name.npos;
  own.tools = name != "llama-cpp-deepseek-r1.jinja";  // nor can it in transformers
  return own;
}

class Conversations {
 public:
  explicit Conversations(std::uint32_t seed) : engine_(seed) {}

  /// The same conversation in the template's own form, and as programs send it.
  std::pair<Json, Json> next(const Own& own) {
    Json plain = Json::array(), sent = Json::array();
    if (chance(3)) add(plain, sent, chance(2) ? "developer" : "system", words());
    for (std::size_t turn = 0; turn <= engine_() % 3; ++turn) {
      add(plain, sent, "user", words());
      if (chance(2)) add_call(plain, sent, own);
      add(plain, sent, "assistant", words());
    }
    add(plain, sent, "user", words());
    Json own_conversation = {{"messages", plain}}, given = {{"messages", sent}};
    if (own.tools && (has_calls_ || chance(2))) {
      own_conversation["tools"] = given["tools"] = tools();
    } else if (chance(2)) {
      given["tools"] = chance(2) ? Json() : Json::array();
    }
    for (Json* conversation : {&own_conversation, &given}) {
      (*conversation)["functions"] = tools().dump();
      (*conversation)["datetime"] = "now";
      (*conversation)["bos_token"] = "";
      (*conversation)["eos_token"] = "</s>";
      (*conversation)["add_generation_prompt"] = true;
    }
    has_calls_ = false;
    return {own_conversation, given};
  }

 private:
  bool chance(std::uint32_t n) { return engine_() % n == 0; }
  std::string words() {
    std::string out = "w";
    for (std::size_t n = engine_() % 5; n-- > 0;)
      out += std::array{" a", "\n", " \"q\"", " <x>", " é", " {", " 'b'", " None"}[engine_() % 8];
    return out + "z";
  }
  static Json tools() {
    return Json::parse(R"([{"type": "function", "function": {"name": "get", "description": "d", "parameters":
      {"type": "object", "properties": {"city": {"type": "string", "description": "d"}}}}}])");
  }
  void add_nulls(Json& message) {
    if (chance(3)) message["name"] = nullptr;
    if (chance(3)) message["refusal"] = nullptr;
    if (chance(3) && message["role"] == "assistant") message["tool_calls"] = chance(2) ? Json() : Json::array();
    if (chance(4)) message["function_call"] = nullptr;
  }
  Json content_sent(const std::string& text) {
    if (!chance(3)) return text;
    Json parts = Json::array();
    const std::size_t cut = engine_() % text.size();
    if (chance(2) && static_cast<unsigned char>(text[cut]) < 0x80) {
      parts.push_back({{"type", "text"}, {"text", text.substr(0, cut)}});
      parts.push_back({{"type", "text"}, {"text", text.substr(cut)}});
    } else {
      parts.push_back({{"type", "text"}, {"text", text}});
    }
    return parts;
  }
  void add(Json& plain, Json& sent, const std::string& role, const std::string& text) {
    plain.push_back({{"role", role == "developer" ? "system" : role}, {"content", text}});
    Json message = {{"role", role}, {"content", content_sent(text)}};
    add_nulls(message);
    sent.push_back(message);
  }
  void add_call(Json& plain, Json& sent, const Own& own) {
    has_calls_ = true;
    const Json arguments = {{"city", words()}, {"n", static_cast<int>(engine_() % 100)}};
    // As Python's json.dumps writes it, and tojson.
    std::string text = R"({"city": )" + arguments["city"].dump() + R"(, "n": )" + arguments["n"].dump() + "}";
    const auto message = [&](const Json& content, const Json& given) {
      return Json(
          {{"role", "assistant"},
           {"content", content},
           {"tool_calls",
            {{{"id", "call00000"}, {"type", "function"}, {"function", {{"name", "get"}, {"arguments", given}}}}}}});
    };
    plain.push_back(message(own.null_content ? Json() : Json(""), own.text_arguments ? Json(text) : arguments));
    Json asked = message(chance(2) ? Json() : Json(""), chance(4) && !own.text_arguments ? arguments : Json(text));
    if (chance(4)) asked.erase("content");
    if (chance(3)) asked["refusal"] = nullptr;
    sent.push_back(asked);
    const std::string answer = words();
    plain.push_back({{"role", "tool"}, {"tool_call_id", "call00000"}, {"name", "get"}, {"content", answer}});
    sent.push_back(
        {{"role", "tool"}, {"tool_call_id", "call00000"}, {"name", "get"}, {"content", content_sent(answer)}});
  }

  std::mt19937 engine_;
  bool has_calls_ = false;
};

}  // namespace

TEST_CASE("openai forms: 1,000 conversations render as in each template's own form", "[openai][data]") {
  SKIP_UNLESS_TEST_DATA("golden-chat/conversations.json");
  const std::filesystem::path folder =
      find_test_data("golden-chat/conversations.json").parent_path() / ".." / "chat-templates";
  int n_templates = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string(), source = read_text_file(file.path());
    CAPTURE(name);
    const Own own = own_form(name);
    const openai::TemplateForms forms = forms_of(source);
    ++n_templates;
    Conversations conversations(11);
    int n_rendered = 0;
    for (int i = 0; i < 1000; ++i) {
      const auto [plain, sent] = conversations.next(own);
      const ChatResult expected = render_chat(source, plain.dump());
      const ChatResult got = render_chat(source, adapted(sent, forms));
      CAPTURE(sent.dump(), expected.message, got.message);
      REQUIRE(got.ok() == expected.ok());
      REQUIRE(got.text() == expected.text());
      n_rendered += got.ok() ? 1 : 0;
    }
    CHECK(n_rendered > 100);
  }
  CHECK(n_templates >= 10);
}
