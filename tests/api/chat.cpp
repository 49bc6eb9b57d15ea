// Chat templates through the C ABI: which template is used, what it is given, what comes out, and every way to fail.
#include <qinfer/qinfer.hpp>

#include <nlohmann/json.hpp>
#include <thread>

#include "support/c_api.h"

using namespace qinfer::test;
using Json = nlohmann::json;

namespace {

/// A model without weights that has these templates.
qi::Model model_with(const ModelDir& dir, const Json& templates) {
  dir.write("tokenizer_config.json", Json{{"chat_template", templates}}.dump());
  auto load = qi::options<qinfer_load_options>();
  load.flags = QINFER_LOAD_NO_WEIGHTS;
  return qi::Model::load(dir.path(), load);
}

constexpr const char* kHello = R"({"messages": [{"role": "user", "content": "the</s>"}]})";
constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";

}  // namespace

TEST_CASE("A conversation becomes text, with the model's own tokens around it", "[api][chat]") {
  const ModelDir dir{TinySpec()};
  const qi::Model model = model_with(dir, kTemplate);
  const std::string begin(model.info().bos_token < 0 ? "" : model.token_text(model.info().bos_token));
  const std::vector<qi::Token> ends = model.end_tokens();
  const std::string end(ends.empty() ? "" : model.token_text(ends.front()));
  auto options = qi::options<qinfer_chat_options>();
  CHECK(model.render_chat(kHello) == begin + "user:the</s>" + end);
  options.flags = QINFER_CHAT_GENERATION_PROMPT;
  CHECK(model.render_chat(kHello, options) == begin + "user:the</s>" + end + "assistant:");
  // What the conversation says itself, it says.
  const std::string own = R"({"messages": [], "bos_token": "B", "add_generation_prompt": false})";
  CHECK(model.render_chat(own, options) == "B");
  options.template_text = "{{ messages | length }}";
  CHECK(model.render_chat(kHello, options) == "1");
  CHECK(model.render_chat(R"({})", options) == "0");
}

TEST_CASE("Templates are given the tokens that the tokenizer's configuration names", "[api][chat]") {
  const ModelDir dir{TinySpec()};
  const auto render = [&](Json config) {
    config["chat_template"] = "{{ bos_token }}|{{ eos_token }}|{{ bos_token is defined }}";
    dir.write("tokenizer_config.json", config.dump());
    auto load = qi::options<qinfer_load_options>();
    load.flags = QINFER_LOAD_NO_WEIGHTS;
    return qi::Model::load(dir.path(), load).render_chat("{}");
  };
  CHECK(render({{"bos_token", "<b>"}, {"eos_token", {{"content", "<\"e\n>"}}}}) == "<b>|<\"e\n>|True");
  CHECK(render({{"bos_token", nullptr}, {"eos_token", "</s>"}}) == "|</s>|False");
  CHECK(render({{"eos_token", "<e>"}}) == "|<e>|False");
}

TEST_CASE("The template is the one for tools where there is one, or the one that is named", "[api][chat]") {
  const ModelDir dir{TinySpec()};
  const qi::Model model = model_with(dir, {{{"name", "default"}, {"template", "plain"}},
                                           {{"name", "tool_use"}, {"template", "with tools"}},
                                           {{"name", "rag"}, {"template", "with documents"}}});
  CHECK(model.render_chat("{}") == "plain");
  CHECK(model.render_chat(R"({"tools": []})") == "plain");
  CHECK(model.render_chat(R"({"tools": [1]})") == "with tools");
  auto options = qi::options<qinfer_chat_options>();
  options.template_name = "rag";
  CHECK(model.render_chat(R"({"tools": [1]})", options) == "with documents");
  options.template_name = "none";
  std::size_t n = 9;
  REQUIRE_FAILS(QINFER_E_NOT_FOUND, "no chat template \"none\", but: default, rag, tool_use",
                qinfer_chat_render(model.native(), "{}", 2, &options, nullptr, 0, &n, nullptr, 0, nullptr, &err));
  CHECK(n == 0);
}

TEST_CASE("Templates are told the date that the host gives", "[api][chat]") {
  const ModelDir dir{TinySpec()};
  const qi::Model model = model_with(dir, "{{ strftime_now('%d %b %Y %H:%M:%S') }}");
  auto options = qi::options<qinfer_chat_options>();
  options.now = "2026-11-22";
  CHECK(model.render_chat("{}", options) == "22 Nov 2026 00:00:00");
  options.now = "2024-02-29T15:04:05";
  CHECK(model.render_chat("{}", options) == "29 Feb 2024 15:04:05");
  CHECK(model.render_chat("{}").size() == 20);  // the clock's
  std::size_t n = 0;
  for (const char* bad :
       {"", "today", "2026-1-22", "2026-02-29", "2026-13-01", "0000-01-01", "2026-11-22T", "-026-11-22",
        "2026-11-22T24:00:00", "2026-11-22T10:00", "2026-11-22T10:00:00Z", "2026-11-22 "}) {
    options.now = bad;
    INFO(bad);
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "expected a date such as 2026-11-22",
                  qinfer_chat_render(model.native(), "{}", 2, &options, nullptr, 0, &n, nullptr, 0, nullptr, &err));
  }
}

TEST_CASE("The tokens of a conversation are those of its text, but for control tokens in what people wrote",
          "[api][chat]") {
  const ModelDir dir{TinySpec()};
  const qi::Model model = model_with(dir, kTemplate);
  const std::string conversation = kHello;
  char text[256];
  qinfer_text_part parts[8];
  std::size_t n = 0, n_parts = 0;
  REQUIRE_OK(qinfer_chat_render(model.native(), conversation.c_str(), SIZE_MAX, nullptr, text, sizeof text, &n, parts,
                                8, &n_parts, &err));
  std::string content;
  for (std::size_t i = 0; i < n_parts; ++i)
    content.append(text + parts[i].begin, static_cast<std::size_t>(parts[i].end - parts[i].begin));
  CHECK(content == "userthe</s>");
  auto tokenize = qi::options<qinfer_tokenize_options>();
  tokenize.flags = QINFER_TEXT_PARSE_SPECIAL;
  tokenize.content = parts;
  tokenize.n_content = n_parts;
  const std::vector<qi::Token> ids = model.tokenize_chat(conversation);
  CHECK(ids == model.tokenize(std::string_view(text, n), tokenize));
  const auto whole = model.tokenize(std::string_view(text, n), QINFER_TEXT_PARSE_SPECIAL);
  const auto count = [&](const std::vector<qi::Token>& all) {
    return std::count_if(all.begin(), all.end(),
                         [&](qi::Token id) { return (model.token_flags(id) & QINFER_TOKEN_CONTROL) != 0; });
  };
  CHECK(count(whole) == count(ids) + 1);
}

TEST_CASE("Rendering ends when it is cancelled in the middle", "[api][chat][threads]") {
  const ModelDir dir{TinySpec()};
  const qi::Model model = model_with(
      dir, "{% for i in range(90000) %}{% for j in range(90000) %}{% set x = j * i %}{% endfor %}{% endfor %}");
  int cancelled = 0;
  // The thread may be late: then it takes all the steps that there are.
  for (int attempt = 0; attempt < 50 && cancelled == 0; ++attempt) {
    qi::Cancel cancel;
    auto options = qi::options<qinfer_chat_options>();
    options.cancel = cancel.native();
    std::thread other([&] { cancel.request(); });
    std::size_t n = 0;
    qinfer_error err = {};
    const qinfer_status status =
        qinfer_chat_render(model.native(), "{}", 2, &options, nullptr, 0, &n, nullptr, 0, nullptr, &err);
    other.join();
    INFO(err.message);
    REQUIRE((status == QINFER_E_CANCELLED || status == QINFER_E_UNSUPPORTED));
    if (status == QINFER_E_CANCELLED) REQUIRE_THAT(std::string(err.message), contains("rendering was cancelled"));
    cancelled += status == QINFER_E_CANCELLED ? 1 : 0;
  }
  REQUIRE(cancelled == 1);
}

TEST_CASE("One model renders and takes replies apart on many threads", "[api][chat][threads]") {
  const qi::Model model = qi::Model::load(QINFER_TEST_MODELS "/tiny-chat");
  const std::string conversation = R"({"messages": [{"role": "user", "content": "What is 3 + 4?"}]})";
  auto options = qi::options<qinfer_chat_options>();
  options.flags = QINFER_CHAT_GENERATION_PROMPT;
  const std::string text = model.render_chat(conversation, options);
  const std::vector<qi::Token> tokens = model.tokenize_chat(conversation, options);
  const std::vector<qi::Token> answer = model.tokenize("3 plus 4 is 7.");
  std::vector<std::string> wrong(4);
  std::vector<std::thread> threads;
  for (std::string& said : wrong)
    threads.emplace_back([&] {
      for (int round = 0; round < 25; ++round) {
        if (model.render_chat(conversation, options) != text) said = "another text";
        if (model.tokenize_chat(conversation, options) != tokens) said = "other tokens";
        qinfer_reply* reply = nullptr;
        char message[200];
        std::size_t n = 0;
        auto how = qi::options<qinfer_reply_options>();
        how.chat = &options;
        bool good = qinfer_reply_create(model.native(), conversation.data(), conversation.size(), &how, &reply,
                                        nullptr) == QINFER_OK;
        for (const qi::Token token : answer) good = good && qinfer_reply_push(reply, token, nullptr) == QINFER_OK;
        good = good && qinfer_reply_finish(reply, nullptr) == QINFER_OK &&
               qinfer_reply_message(reply, message, sizeof message, &n, nullptr) == QINFER_OK;
        if (!good || std::string_view(message, n) != R"({"role": "assistant", "content": "3 plus 4 is 7."})")
          said = "another message: " + std::string(message, n);
        qinfer_reply_free(reply);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& said : wrong) CHECK(said == "");
}

TEST_CASE("An image in a conversation is refused, whatever the template would write for it", "[api][chat]") {
  const ModelDir dir{TinySpec()};
  const qi::Model model =
      model_with(dir, "{% for m in messages %}{% for p in m.content %}<image>{% endfor %}{% endfor %}");
  const std::string conversation =
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image", "url": "b"}]}]})";
  for (const std::uint32_t flags : {0u, static_cast<std::uint32_t>(QINFER_CHAT_OPENAI_FORMS)}) {
    auto options = qi::options<qinfer_chat_options>();
    options.flags = flags;
    std::size_t n = 9;
    REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "messages[0].content[1] is of type \"image\"",
                  qinfer_chat_render(model.native(), conversation.data(), conversation.size(), &options, nullptr, 0, &n,
                                     nullptr, 0, nullptr, &err));
  }
}

TEST_CASE("Every way in which a chat cannot be rendered is an error", "[api][chat]") {
  const ModelDir dir{TinySpec()};
  const qi::Model model =
      model_with(dir, "{% if messages %}{{ raise_exception('Roles must alternate') }}{% endif %}ok");
  char text[8];
  std::size_t n = 7, n_parts = 7;
  qinfer_text_part parts[1];
  const auto render = [&](const char* conversation, qinfer_error* err, const qinfer_chat_options* options = nullptr) {
    return qinfer_chat_render(model.native(), conversation, SIZE_MAX, options, text, sizeof text, &n, parts, 1,
                              &n_parts, err);
  };
  REQUIRE_OK(render("{}", &err));
  CHECK(n == 2);
  CHECK(n_parts == 0);
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "Roles must alternate", render(kHello, &err));
  CHECK(n == 0);
  REQUIRE_FAILS(QINFER_E_FORMAT, "conversation", render("{\"messages\": ", &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "expected an object", render("[]", &err));
  auto options = sized<qinfer_chat_options>();
  options.template_text = "one\n{% if %}";
  REQUIRE_FAILS(QINFER_E_FORMAT, "line 2", render("{}", &err, &options));
  options.template_text = "{% include 'x' %}";
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "include", render("{}", &err, &options));
  options.template_text = "{{ 'a' * 100000000000 }}";
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "", render("{}", &err, &options));
  CHECK(n == 0);
  options.template_text = "{{ a }}-{{ a }}";
  REQUIRE_FAILS(QINFER_E_BUFFER_TOO_SMALL, "", render(R"({"a": "b"})", &err, &options));
  CHECK(n == 3);
  CHECK(n_parts == 2);
  options.flags = 64;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "flags has unknown bits", render("{}", &err, &options));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "model is NULL",
                qinfer_chat_render(nullptr, "{}", 2, nullptr, text, 8, &n, nullptr, 0, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "conversation is NULL",
                qinfer_chat_render(model.native(), nullptr, 2, nullptr, text, 8, &n, nullptr, 0, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out_n_content is NULL",
                qinfer_chat_render(model.native(), "{}", 2, nullptr, text, 8, &n, parts, 1, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out_n is NULL",
                qinfer_chat_tokenize(model.native(), "{}", 2, nullptr, nullptr, 0, nullptr, &err));
  const ModelDir bare{TinySpec()};
  const qi::Model without = qi::Model::load(bare.path());
  REQUIRE_FAILS(QINFER_E_NOT_FOUND, "the model has no chat template",
                qinfer_chat_tokenize(without.native(), "{}", 2, nullptr, nullptr, 0, &n, &err));
}
