// OpenAI's interface where something goes wrong: errors, cancelled beginnings, answers that have failed, and what must
// outlive the call that made it.
#include <nlohmann/json.hpp>

#include <cstring>

#include "engine/openai_support.h"

using namespace qinfer::test;
using Json = nlohmann::json;

TEST_CASE("openai answer: errors", "[openai][bad]") {
  const qi::Model model = qi::Model::load(kChatModel);
  qi::KvCache cache(model);
  auto small = qi::options<qinfer_session_options>();
  small.max_tokens = 8;
  qi::Session session(cache, small);
  const OpenAiRequest request =
      request_of(model, QINFER_OPENAI_CHAT, {{"messages", user("Hello, hello, hello!")}, {"stream", true}});
  qinfer_generation* generation = nullptr;
  REQUIRE_FAILS(QINFER_E_CONTEXT_FULL, "the session holds 8",
                qinfer_openai_generation_create(request.get(), 0, session.native(), nullptr, &generation, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "choice is 1, the request has 1",
                qinfer_openai_generation_create(request.get(), 1, session.native(), nullptr, &generation, &err));
  CHECK(generation == nullptr);
  const OpenAiAnswer answer = answer_to(request);
  qinfer_error failure = {};
  failure.code = QINFER_E_KV_FULL;
  std::strcpy(failure.message, "no room");
  REQUIRE_OK(qinfer_openai_answer_fail(answer.get(), &failure, &err));
  CHECK(take(answer) ==
        "data: {\"error\":{\"message\":\"no room\",\"type\":\"overloaded_error\",\"param\":null,\"code\":null}}\n\n"
        "data: [DONE]\n\n");
  char json[200];
  std::size_t n = 0;
  failure.code = QINFER_E_FORMAT;
  REQUIRE_OK(qinfer_openai_error_json(&failure, json, sizeof json, &n, &err));
  CHECK(Json::parse(std::string(json, n))["error"]["type"] == "invalid_request_error");

  qinfer_openai_request* out = nullptr;
  const auto create = [&](std::int32_t kind, const char* text) {
    qinfer_error err;
    return qinfer_openai_request_create(model.native(), kind, text, SIZE_MAX, nullptr, &out, &err);
  };
  CHECK(create(7, "{}") == QINFER_E_INVALID_ARGUMENT);
  CHECK(create(QINFER_OPENAI_CHAT, "{") == QINFER_E_FORMAT);
  CHECK(create(QINFER_OPENAI_EMBEDDINGS, R"({"input": "a", "dimensions": 100000})") == QINFER_E_UNSUPPORTED);
  CHECK(create(QINFER_OPENAI_COMPLETION, R"({"prompt": [999999]})") == QINFER_E_FORMAT);
  CHECK(create(QINFER_OPENAI_COMPLETION, R"({"prompt": "a", "logit_bias": {"999999": 1}})") == QINFER_E_FORMAT);
  CHECK(create(QINFER_OPENAI_COMPLETION, R"({"prompt": ""})") == QINFER_E_FORMAT);
  CHECK(out == nullptr);
  qinfer_openai_request_free(nullptr);
  qinfer_openai_answer_free(nullptr);
}

TEST_CASE("openai answer: what ends badly stays ended, and can begin again", "[openai][bad]") {
  const qi::Model model = qi::Model::load(kStoriesModel);
  qi::KvCache cache(model);
  auto options = qi::options<qinfer_session_options>();
  options.max_logits = 2;
  qi::Session session(cache, options);
  const OpenAiRequest request = request_of(model, QINFER_OPENAI_COMPLETION,
                                           {{"prompt", "Once upon a time there was"},
                                            {"echo", true},
                                            {"logprobs", 1},
                                            {"n", 2},
                                            {"max_tokens", 3},
                                            {"temperature", 0}});
  qi::Cancel cancel;
  const OpenAiAnswer first = answer_to(request), second = answer_to(request);
  const DrawnChoice generation = choice_of(request, 0, session, cancel.native());
  std::int32_t ended = 0;
  cancel.request();
  REQUIRE_FAILS(QINFER_E_CANCELLED, "", qinfer_openai_answer_begin(first.get(), 0, generation.get(), &ended, &err));
  cancel.reset();
  REQUIRE_OK(qinfer_openai_answer_begin(first.get(), 0, generation.get(), &ended, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "not of choice 1",
                qinfer_openai_answer_add(first.get(), 1, generation.get(), &ended, &err));
  REQUIRE_FAILS(QINFER_E_STATE, "choice 0 has begun already",
                qinfer_openai_answer_begin(first.get(), 0, generation.get(), &ended, &err));
  const auto finish = [&](const OpenAiAnswer& answer, std::size_t choice, const DrawnChoice& drawn) {
    for (ended = 0; ended == 0;) {
      step(answer, choice, drawn, ended);
      if (ended == 0) REQUIRE_OK(qinfer_openai_answer_add(answer.get(), choice, drawn.get(), &ended, &err));  // no news
    }
  };
  finish(first, 0, generation);
  const DrawnChoice other = choice_of(request, 1, session, cancel.native());
  REQUIRE_OK(qinfer_openai_answer_begin(first.get(), 1, other.get(), &ended, &err));
  finish(first, 1, other);
  const Json answer = Json::parse(take(first));
  CHECK(answer["choices"][0]["logprobs"]["token_logprobs"] == answer["choices"][1]["logprobs"]["token_logprobs"]);
  CHECK(answer["choices"][0]["text"] == answer["choices"][1]["text"]);

  qinfer_error failure = {};
  failure.code = QINFER_E_NUMERIC;
  REQUIRE_OK(qinfer_openai_answer_fail(second.get(), &failure, &err));
  const DrawnChoice late = choice_of(request, 0, session, cancel.native());
  REQUIRE_OK(qinfer_openai_answer_begin(second.get(), 0, late.get(), &ended, &err));
  CHECK(ended == 1);
  std::int32_t complete = 0;
  CHECK(Json::parse(take(second, &complete))["error"]["type"] == "server_error");
  CHECK(complete == 1);
  CHECK(take(second, &complete).empty());
  CHECK(complete == 1);
}

TEST_CASE("openai request: its cancel and its date are of the call that makes it", "[openai]") {
  const qi::Model model = qi::Model::load(kChatModel);
  const std::string text = R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})";
  auto chat = qi::options<qinfer_chat_options>();
  auto options = qi::options<qinfer_openai_options>();
  options.chat = &chat;
  qinfer_openai_request* out = nullptr;
  {
    const qi::Cancel cancel;
    chat.cancel = cancel.native();
    REQUIRE_OK(qinfer_openai_request_create(model.native(), QINFER_OPENAI_CHAT, text.data(), text.size(), &options,
                                            &out, &err));
  }
  const OpenAiRequest request(out);
  qi::KvCache cache(model);
  qi::Session session(cache);
  qinfer_generation* generation = nullptr;
  REQUIRE_OK(qinfer_openai_generation_create(request.get(), 0, session.native(), nullptr, &generation, &err));
  qinfer_generation_free(generation);

  // A call that fails must not be what is remembered of a template.
  const qi::Model fresh = qi::Model::load(kChatModel);
  const std::string calls =
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": [
      {"id": "call00000", "type": "function", "function": {"name": "f", "arguments": "{\"a\": \"b\"}"}}]}]})";
  auto plain = qi::options<qinfer_chat_options>();
  plain.flags = QINFER_CHAT_OPENAI_FORMS;
  const auto rendered = [&](const qi::Model& on) {
    std::string room(1 << 14, 0);
    std::size_t n = 0;
    REQUIRE_OK(qinfer_chat_render(on.native(), calls.data(), calls.size(), &plain, room.data(), room.size(), &n,
                                  nullptr, 0, nullptr, &err));
    return room.substr(0, n);
  };
  const std::string expected = rendered(model);
  plain.now = "yesterday";
  std::size_t n = 0;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "now is",
                qinfer_chat_render(fresh.native(), calls.data(), calls.size(), &plain, nullptr, 0, &n, nullptr, 0,
                                   nullptr, &err));
  plain.now = nullptr;
  CHECK(rendered(fresh) == expected);
}
