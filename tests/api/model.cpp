// What a model tells besides its numbers: tokens by their text, end tokens, chat templates.
#include <qinfer/qinfer.hpp>

#include "support.h"
#include "support/c_api.h"

using namespace qinfer::test;

TEST_CASE("A token is found by the exact text of its entry", "[api][model]") {
  const ModelDir dir{TinySpec()};
  const qi::Model model = qi::Model::load(dir.path());
  REQUIRE(model.find_token("</s>") == kTinyEnd);  // an added token
  REQUIRE(model.find_token("the") == 257);
  REQUIRE(model.find_token("\xc4\xa0the") == 261);  // " the": the vocabulary has a stand-in for the space
  qinfer_token token = 5;
  for (const char* absent : {"</", " the", "", "THE"}) {
    INFO(absent);
    REQUIRE_FAILS(QINFER_E_NOT_FOUND, "no entry \"" + std::string(absent) + "\"",
                  qinfer_token_find(model.native(), absent, SIZE_MAX, &token, &err));
    REQUIRE(token == -1);
  }
  REQUIRE_OK(qinfer_token_find(model.native(), "there", 3, &token, &err));
  REQUIRE(token == 257);
  REQUIRE_FAILS(QINFER_E_NOT_FOUND, "no entry", qinfer_token_find(model.native(), "\xff\xfe", 2, &token, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "text is NULL", qinfer_token_find(model.native(), nullptr, 3, &token, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "model is NULL", qinfer_token_find(nullptr, "a", 1, &token, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out is NULL", qinfer_token_find(model.native(), "a", 1, nullptr, &err));
  dir.remove("tokenizer.json");
  const qi::Model bare = qi::Model::load(dir.path());
  REQUIRE_FAILS(QINFER_E_NOT_FOUND, "tokenizer.json", qinfer_token_find(bare.native(), "the", 3, &token, &err));
}

TEST_CASE("The end tokens are those that have the flag, each once", "[api][model]") {
  const ModelDir dir{TinySpec()};
  const auto check = [&](std::vector<qi::Token> expected) {
    const qi::Model model = qi::Model::load(dir.path());
    REQUIRE(model.end_tokens() == expected);
    std::vector<qi::Token> flagged;
    for (qi::Token token = 0; token < 300; ++token)
      if ((model.token_flags(token) & QINFER_TOKEN_END) != 0) flagged.push_back(token);
    REQUIRE(flagged == expected);
  };
  dir.write("generation_config.json", R"({"eos_token_id": [263, 7, 263]})");
  check({7, 263});
  dir.write("generation_config.json", R"({"eos_token_id": 9})");
  const qi::Model model = qi::Model::load(dir.path());
  std::size_t n = 0;
  REQUIRE_FAILS_AT(QINFER_E_BUFFER_TOO_SMALL, static_cast<std::int64_t>(model.end_tokens().size()), "elements",
                   qinfer_model_end_tokens(model.native(), nullptr, 0, &n, &err));
  REQUIRE(n == model.end_tokens().size());
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "model is NULL", qinfer_model_end_tokens(nullptr, nullptr, 0, &n, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out_n is NULL",
                qinfer_model_end_tokens(model.native(), nullptr, 0, nullptr, &err));
}

TEST_CASE("Chat templates by name, sorted, or QINFER_E_NOT_FOUND", "[api][model]") {
  const ModelDir dir{TinySpec()};
  qi::Model model = qi::Model::load(dir.path());
  char text[64];
  std::size_t n = 9;
  const auto get = [&](const char* name, qinfer_error* err) {
    return qinfer_model_chat_template(model.native(), name, text, sizeof text, &n, err);
  };
  const auto set = [&](const nlohmann::json& templates) {
    dir.write("tokenizer_config.json", nlohmann::json{{"chat_template", templates}}.dump());
    model = qi::Model::load(dir.path());
  };
  REQUIRE_FAILS(QINFER_E_NOT_FOUND, "the model has no chat template", get(nullptr, &err));
  REQUIRE(n == 0);
  REQUIRE(qinfer_model_chat_template_name(model.native(), 0) == nullptr);
  set({{{"name", "tool_use"}, {"template", "{{ tools }}"}}, {{"name", "default"}, {"template", "{{ messages }}"}}});
  REQUIRE(model.chat_template() == "{{ messages }}");
  REQUIRE(model.chat_template("default") == "{{ messages }}");
  REQUIRE(model.chat_template("tool_use") == "{{ tools }}");
  REQUIRE(std::string(qinfer_model_chat_template_name(model.native(), 0)) == "default");
  REQUIRE(std::string(qinfer_model_chat_template_name(model.native(), 1)) == "tool_use");
  REQUIRE(qinfer_model_chat_template_name(model.native(), 2) == nullptr);
  REQUIRE_FAILS(QINFER_E_NOT_FOUND, "no chat template \"rag\", but: default, tool_use", get("rag", &err));
  REQUIRE_FAILS_AT(QINFER_E_BUFFER_TOO_SMALL, 14, "14 elements",
                   qinfer_model_chat_template(model.native(), nullptr, text, 13, &n, &err));
  REQUIRE(n == 14);
  set(nlohmann::json::array({{{"name", "rag"}, {"template", ""}}}));
  REQUIRE_FAILS(QINFER_E_NOT_FOUND, "no chat template \"default\", but: rag", get(nullptr, &err));
  REQUIRE_OK(get("rag", &err));
  REQUIRE(n == 0);
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "model is NULL",
                qinfer_model_chat_template(nullptr, nullptr, text, 13, &n, &err));
  REQUIRE(qinfer_model_chat_template_name(nullptr, 0) == nullptr);
}
