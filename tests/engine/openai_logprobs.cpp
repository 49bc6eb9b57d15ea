// Log probabilities in answers of OpenAI's interface: those of prompts are the model's; those of new tokens are told
// with the text that is the answer's, and with its place in it.
#include <nlohmann/json.hpp>

#include "engine/openai_support.h"

using namespace qinfer::test;
using Json = nlohmann::json;

TEST_CASE("openai answer: log probabilities of prompts are those of the model", "[openai]") {
  const qi::Model model = qi::Model::load(kStoriesModel);
  const std::string prompt = "Once upon a time there was a dog";
  const std::vector<qi::Token> tokens = model.tokenize(prompt, QINFER_TEXT_ADD_SPECIAL);
  qi::KvCache cache(model);
  qi::Session session(cache);
  std::vector<double> expected;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    session.append(std::vector<qi::Token>{tokens[i]});
    session.eval();
    double logprob = 0;
    REQUIRE_OK(qinfer_session_logprobs(session.native(), 0, &tokens[i + 1], 1, &logprob, &err));
    expected.push_back(logprob);
  }
  const Json request = {{"prompt", prompt}, {"echo", true}, {"logprobs", 3}, {"max_tokens", 4}, {"temperature", 0}};
  for (const std::uint32_t max_logits : {1U, 3U, 64U}) {
    const Json answer = Json::parse(answered(model, QINFER_OPENAI_COMPLETION, request, max_logits));
    const Json& choice = answer["choices"][0];
    CHECK(choice["text"].get<std::string>().starts_with(prompt));
    const Json& values = choice["logprobs"]["token_logprobs"];
    REQUIRE(values.size() == tokens.size() + 4);
    CHECK(values[0].is_null());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(values[i + 1].get<double>() == expected[i]);
    CHECK(choice["logprobs"]["top_logprobs"][1].size() == 3);
    CHECK(choice["logprobs"]["tokens"].size() == values.size());
    CHECK(choice["logprobs"]["text_offset"].size() == values.size());
    // What follows is what follows without echo, and the likeliest of the tokens.
    Json plain = request;
    plain["echo"] = false;
    const Json rest = Json::parse(answered(model, QINFER_OPENAI_COMPLETION, plain))["choices"][0];
    CHECK(choice["text"] == prompt + rest["text"].get<std::string>());
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(values[tokens.size() + i] == rest["logprobs"]["token_logprobs"][i]);
      const auto& top = rest["logprobs"]["top_logprobs"][i];
      for (const auto& [text, logprob] : top.items()) CHECK(rest["logprobs"]["token_logprobs"][i] >= logprob);
    }
  }
  const Json answer = Json::parse(answered(model, QINFER_OPENAI_COMPLETION,
                                           {{"prompt", {prompt, "Tom"}}, {"echo", true}, {"max_tokens", 0}, {"n", 2}}));
  REQUIRE(answer["choices"].size() == 4);
  CHECK(answer["choices"][1]["text"] == prompt);
  CHECK(answer["choices"][2]["text"] == "Tom");
  CHECK(answer["choices"][3]["finish_reason"] == "length");
  CHECK(answer["usage"]["completion_tokens"] == 0);
}

TEST_CASE("openai answer: tokens are told with the text that is the answer's", "[openai]") {
  const qi::Model model = qi::Model::load(kChatModel);
  Json request = {{"messages", user("What is the capital of France?")}, {"temperature", 0}, {"logprobs", true}};
  const auto text_of = [](const Json& choice) {
    std::string text;
    for (const Json& entry : choice["logprobs"]["content"]) text += entry["token"].get<std::string>();
    return text;
  };
  Json choice = Json::parse(answered(model, QINFER_OPENAI_CHAT, request))["choices"][0];
  CHECK(text_of(choice) == choice["message"]["content"]);
  for (const char* stop : {"ance is", " of France is P", "T"}) {
    request["stop"] = stop;
    choice = Json::parse(answered(model, QINFER_OPENAI_CHAT, request))["choices"][0];
    // The last token may reach into the stop text, or be what the text ends in.
    CHECK(text_of(choice).starts_with(choice["message"]["content"].get<std::string>()));
    CHECK(text_of(choice).find(stop) == std::string::npos);
  }
  const Json completion = {{"prompt", "Once upon"}, {"echo", true}, {"logprobs", 0}, {"max_tokens", 6}, {"seed", 3}};
  choice = Json::parse(answered(qi::Model::load(kStoriesModel), QINFER_OPENAI_COMPLETION, completion))["choices"][0];
  const Json& logprobs = choice["logprobs"];
  const std::string text = choice["text"];
  for (std::size_t i = 0; i < logprobs["tokens"].size(); ++i) {
    const std::string token = logprobs["tokens"][i];
    CHECK(text.compare(logprobs["text_offset"][i].get<std::size_t>(), token.size(), token) == 0);
    // The token itself is among the likeliest, or is added to them.
    if (i != 0) CHECK(logprobs["top_logprobs"][i][token] == logprobs["token_logprobs"][i]);
  }
}

namespace {

/// The answer where these are the tokens that are drawn.
Json forced_answer(const qi::Model& model, std::int32_t kind, const Json& json, const std::vector<std::string>& texts) {
  const OpenAiRequest request = request_of(model, kind, json);
  const OpenAiAnswer answer = answer_to(request);
  qi::KvCache cache(model);
  qi::Session session(cache);
  session.set_logits_hook(std::make_unique<Forced>(tokens_of(model, texts)));
  const DrawnChoice generation = choice_of(request, 0, session);
  std::int32_t ended = 0;
  REQUIRE_OK(qinfer_openai_answer_begin(answer.get(), 0, generation.get(), &ended, &err));
  while (ended == 0) step(answer, 0, generation, ended);
  return Json::parse(take(answer))["choices"][0];
}

}  // namespace

TEST_CASE("openai answer: no token is told whose text is not given", "[openai]") {
  const qi::Model model = qi::Model::load(kChatModel);
  const Json chat = {{"messages", user("Hi")}, {"logprobs", true}, {"stop", "END"}, {"max_tokens", 20}};
  const Json completion = {{"prompt", "Hi"}, {"logprobs", 0}, {"stop", "END"}, {"max_tokens", 20}};
  const auto check = [&](const std::vector<std::string>& texts, const std::string& content,
                         const std::vector<std::string>& tokens) {
    CAPTURE(texts);
    const Json whole = forced_answer(model, QINFER_OPENAI_CHAT, chat, texts);
    CHECK(whole["message"]["content"] == content);
    std::vector<std::string> told;
    for (const Json& entry : whole["logprobs"]["content"]) told.push_back(entry["token"]);
    CHECK(told == tokens);
    const Json text = forced_answer(model, QINFER_OPENAI_COMPLETION, completion, texts);
    CHECK(text["text"] == content);
    CHECK(text["logprobs"]["tokens"].get<std::vector<std::string>>() == tokens);
  };
  check({"x", "\n", "E", "N", "D"}, "x\n", {"x", "\n"});
  check({"x", "E", "E", "N", "D"}, "xE", {"x", "E"});
  check({"x", "E", "N", "y", "E", "N", "D"}, "xENy", {"x", "E", "N", "y"});
  // Reasoning, and line ends after it, are of neither.
  const Json asks = {{"messages", user("What is the weather in Oslo?")},
                     {"tools", weather_tools()},
                     {"temperature", 0},
                     {"logprobs", true}};
  const Json called = Json::parse(answered(model, QINFER_OPENAI_CHAT, asks))["choices"][0];
  CHECK_FALSE(called["message"]["reasoning_content"].get<std::string>().empty());
  REQUIRE(called["logprobs"]["content"].size() > 5);
  CHECK(called["logprobs"]["content"][0]["token"] == "<tool_call>");
}
