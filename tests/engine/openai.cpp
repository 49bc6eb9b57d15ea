// Answers of OpenAI's interface with real models: a stream and one JSON text say the same; log probabilities, also of
// prompts, are the session's; choices, calls of tools, embeddings and errors.
#include <qinfer/qinfer.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <memory>

#include "support/c_api.h"
#include "support/catch.h"

using namespace qinfer::test;
using Json = nlohmann::json;

namespace {

const std::string kStories = QINFER_TEST_MODELS "/tiny-stories";
const std::string kChat = QINFER_TEST_MODELS "/tiny-chat";

template <class T, void (*Free)(T*)>
struct Freed {
  void operator()(T* handle) const { Free(handle); }
};
using Request = std::unique_ptr<qinfer_openai_request, Freed<qinfer_openai_request, qinfer_openai_request_free>>;
using Answer = std::unique_ptr<qinfer_openai_answer, Freed<qinfer_openai_answer, qinfer_openai_answer_free>>;
using Drawn = std::unique_ptr<qinfer_generation, Freed<qinfer_generation, qinfer_generation_free>>;

Request request_of(const qi::Model& model, std::int32_t kind, const Json& json) {
  qinfer_openai_request* out = nullptr;
  const std::string text = json.dump();
  REQUIRE_OK(qinfer_openai_request_create(model.native(), kind, text.data(), text.size(), nullptr, &out, &err));
  return Request(out);
}

qinfer_openai_info info_of(const Request& request) {
  auto info = qi::options<qinfer_openai_info>();
  REQUIRE_OK(qinfer_openai_request_get_info(request.get(), &info, &err));
  return info;
}

Answer answer_to(const Request& request) {
  auto options = qi::options<qinfer_openai_answer_options>();
  options.id = "id-1";
  options.model = "tiny";
  options.created = 17;
  qinfer_openai_answer* out = nullptr;
  REQUIRE_OK(qinfer_openai_answer_create(request.get(), &options, &out, &err));
  return Answer(out);
}

std::string take(const Answer& answer, std::int32_t* complete = nullptr) {
  std::string bytes(1 << 16, 0);
  std::size_t n = 0;
  REQUIRE_OK(qinfer_openai_answer_bytes(answer.get(), bytes.data(), bytes.size(), &n, complete, &err));
  bytes.resize(n);
  return bytes;
}

/// All bytes of the answer to a request that draws tokens.
std::string answered(const qi::Model& model, std::int32_t kind, const Json& json, std::uint32_t max_logits = 0) {
  const Request request = request_of(model, kind, json);
  const Answer answer = answer_to(request);
  qi::KvCache cache(model);
  auto options = qi::options<qinfer_session_options>();
  options.max_logits = max_logits;
  qi::Session session(cache, options);
  std::string bytes;
  for (std::size_t choice = 0; choice < info_of(request).n_choices; ++choice) {
    qinfer_generation* out = nullptr;
    REQUIRE_OK(qinfer_openai_generation_create(request.get(), choice, session.native(), nullptr, &out, &err));
    const Drawn generation(out);
    std::int32_t ended = 0;
    REQUIRE_OK(qinfer_openai_answer_begin(answer.get(), choice, out, &ended, &err));
    while (ended == 0) {
      auto info = qi::options<qinfer_token_info>();
      REQUIRE_OK(qinfer_generation_next(out, &info, &err));
      REQUIRE_OK(qinfer_openai_answer_add(answer.get(), choice, out, &ended, &err));
      bytes += take(answer);
    }
  }
  std::int32_t complete = 0;
  bytes += take(answer, &complete);
  CHECK(complete == 1);
  return bytes;
}

/// The chunks of a stream, which ends as the interface says.
std::vector<Json> chunks_of(std::string bytes) {
  std::vector<Json> chunks;
  bool done = false;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find("\n\n");
    REQUIRE(end != std::string::npos);
    REQUIRE(bytes.starts_with("data: "));
    REQUIRE_FALSE(done);
    const std::string event = bytes.substr(6, end - 6);
    bytes.erase(0, end + 2);
    done = event == "[DONE]";
    if (!done) chunks.push_back(Json::parse(event));
  }
  REQUIRE(done);
  return chunks;
}

/// What the chunks of a stream are together, as one JSON text has it.
Json joined(const std::vector<Json>& chunks, bool is_chat) {
  Json whole = {{"choices", Json::array()}};
  for (const Json& chunk : chunks) {
    CHECK(chunk["id"] == "id-1");
    CHECK(chunk["created"] == 17);
    if (chunk["choices"].empty()) {
      whole["usage"] = chunk["usage"];
      continue;
    }
    CHECK(chunk.value("usage", Json()).is_null());
    const Json& part = chunk["choices"][0];
    while (whole["choices"].size() <= part["index"].get<std::size_t>()) whole["choices"].push_back(Json::object());
    Json& choice = whole["choices"][part["index"].get<std::size_t>()];
    if (is_chat) {
      for (const auto& [key, value] : part["delta"].items()) {
        Json& message = choice["message"];
        if (message.is_null()) message = Json::object();
        if (key == "tool_calls") {
          for (Json call : value) {
            CHECK(call["index"] == message["tool_calls"].size());
            call.erase("index");
            message["tool_calls"].push_back(call);
          }
        } else {
          message[key] = message.value(key, "") + value.get<std::string>();
        }
      }
    } else {
      choice["text"] = choice.value("text", "") + part["text"].get<std::string>();
    }
    if (!part["logprobs"].is_null())
      for (const auto& [key, value] : part["logprobs"].items())
        for (const Json& element : value) choice["logprobs"][key].push_back(element);
    if (!part["finish_reason"].is_null()) choice["finish_reason"] = part["finish_reason"];
  }
  return whole;
}

Json user(const std::string& text) { return Json::array({{{"role", "user"}, {"content", text}}}); }

Json weather_tools() {
  return Json::parse(R"([{"type": "function", "function": {"name": "get_weather",
      "description": "Get the current weather in a city", "parameters": {"type": "object",
      "properties": {"city": {"type": "string", "description": "The city"}}, "required": ["city"]}}}])");
}

}  // namespace

TEST_CASE("openai answer: a stream says what one JSON text says", "[openai]") {
  const qi::Model model = qi::Model::load(kChat);
  std::vector<Json> requests = {
      {{"messages", user("What is the capital of France?")}, {"temperature", 0}},
      {{"messages", user("What is the capital of France?")}, {"temperature", 0}, {"stop", {" is Par", "x"}}},
      {{"messages", user("Hello!")},
       {"n", 3},
       {"seed", 5},
       {"max_tokens", 12},
       {"logprobs", true},
       {"top_logprobs", 2}},
      {{"messages", user("What is the weather in Oslo?")}, {"tools", weather_tools()}, {"temperature", 0}},
      {{"messages", user("Hello!")}, {"top_p", 0}, {"temperature", 2}, {"max_tokens", 4}},
  };
  for (Json request : requests) {
    CAPTURE(request.dump());
    const Json whole = Json::parse(answered(model, QINFER_OPENAI_CHAT, request));
    request["stream"] = true;
    request["stream_options"] = {{"include_usage", true}};
    const Json stream = joined(chunks_of(answered(model, QINFER_OPENAI_CHAT, request)), true);
    CHECK(stream["usage"] == whole["usage"]);
    REQUIRE(stream["choices"].size() == whole["choices"].size());
    for (std::size_t i = 0; i < whole["choices"].size(); ++i) {
      Json message = whole["choices"][i]["message"], other = stream["choices"][i]["message"];
      if (message["content"].is_null()) message["content"] = "";
      message.erase("refusal");
      for (Json* each : {&message, &other})  // ids are of chance
        if (each->contains("tool_calls"))
          for (Json& call : (*each)["tool_calls"]) call.erase("id");
      CHECK(message == other);
      CHECK(whole["choices"][i]["finish_reason"] == stream["choices"][i]["finish_reason"]);
      if (request.contains("logprobs"))
        CHECK(whole["choices"][i]["logprobs"]["content"] == stream["choices"][i]["logprobs"]["content"]);
    }
  }
}

TEST_CASE("openai answer: contents, calls and finish reasons", "[openai]") {
  const qi::Model model = qi::Model::load(kChat);
  Json request = {{"messages", user("What is the capital of France?")}, {"temperature", 0}};
  Json answer = Json::parse(answered(model, QINFER_OPENAI_CHAT, request));
  CHECK(answer["object"] == "chat.completion");
  CHECK(answer["model"] == "tiny");
  CHECK(answer["choices"][0]["message"]["content"] == "The capital of France is Paris.");
  CHECK(answer["choices"][0]["finish_reason"] == "stop");
  request["stop"] = " is";
  CHECK(Json::parse(answered(model, QINFER_OPENAI_CHAT, request))["choices"][0]["message"]["content"] ==
        "The capital of France");
  request["max_tokens"] = 2;
  answer = Json::parse(answered(model, QINFER_OPENAI_CHAT, request));
  CHECK(answer["choices"][0]["finish_reason"] == "length");
  CHECK(answer["usage"]["completion_tokens"] == 2);

  request = {{"messages", user("What is the weather in Oslo?")}, {"tools", weather_tools()}, {"temperature", 0}};
  for (const bool parallel : {true, false}) {
    request["parallel_tool_calls"] = parallel;
    answer = Json::parse(answered(model, QINFER_OPENAI_CHAT, request));
    const Json& message = answer["choices"][0]["message"];
    CHECK(message["content"].is_null());
    REQUIRE(message["tool_calls"].size() == 1);
    CHECK(message["tool_calls"][0]["function"]["name"] == "get_weather");
    CHECK(Json::parse(message["tool_calls"][0]["function"]["arguments"].get<std::string>()) ==
          Json({{"city", "Oslo"}}));
    CHECK(answer["choices"][0]["finish_reason"] == "tool_calls");
    // The answer goes back as it is.
    Json next = request;
    next["messages"].push_back(message);
    next["messages"].push_back(
        {{"role", "tool"}, {"tool_call_id", message["tool_calls"][0]["id"]}, {"content", "sunny"}});
    CHECK_FALSE(Json::parse(answered(model, QINFER_OPENAI_CHAT, next))["choices"][0]["message"]["content"]
                    .get<std::string>()
                    .empty());
  }
  request["tool_choice"] = "none";
  CHECK_FALSE(
      Json::parse(answered(model, QINFER_OPENAI_CHAT, request))["choices"][0]["message"].contains("tool_calls"));
}

TEST_CASE("openai answer: log probabilities of prompts are those of the model", "[openai]") {
  const qi::Model model = qi::Model::load(kStories);
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

TEST_CASE("openai answer: embeddings", "[openai]") {
  const qi::Model model = qi::Model::load(kStories);
  qi::KvCache cache(model);
  auto options = qi::options<qinfer_session_options>();
  options.flags = QINFER_SESSION_EMBEDDINGS;
  qi::Session session(cache, options);
  const std::vector<std::string> inputs = {"a dog", "a small cat"};
  std::vector<std::vector<float>> expected;
  std::size_t n_tokens = 0;
  for (const std::string& input : inputs) {
    const auto tokens = model.tokenize(input, QINFER_TEXT_ADD_SPECIAL);
    session.set_tokens(tokens);
    session.eval();
    expected.push_back(session.embedding(QINFER_POOL_LAST));
    n_tokens += tokens.size();
  }
  for (const bool base64 : {false, true}) {
    const Request request = request_of(model, QINFER_OPENAI_EMBEDDINGS,
                                       {{"input", inputs}, {"encoding_format", base64 ? "base64" : "float"}});
    const Answer answer = answer_to(request);
    for (std::size_t i = 0; i < 2; ++i)
      REQUIRE_OK(qinfer_openai_answer_embed(answer.get(), i, session.native(), QINFER_POOL_LAST, nullptr, &err));
    const Json got = Json::parse(take(answer));
    CHECK(got["usage"]["prompt_tokens"] == n_tokens);
    REQUIRE(got["data"].size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(got["data"][i]["index"] == i);
      if (!base64) {
        CHECK(got["data"][i]["embedding"].get<std::vector<float>>() == expected[i]);
      } else {
        CHECK(got["data"][i]["embedding"].get<std::string>().size() == (expected[i].size() * 4 + 2) / 3 * 4);
      }
    }
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "prompt is 2",
                  qinfer_openai_answer_embed(answer.get(), 2, session.native(), 0, nullptr, &err));
  }
}

TEST_CASE("openai answer: errors", "[openai][bad]") {
  const qi::Model model = qi::Model::load(kChat);
  qi::KvCache cache(model);
  auto small = qi::options<qinfer_session_options>();
  small.max_tokens = 8;
  qi::Session session(cache, small);
  const Request request =
      request_of(model, QINFER_OPENAI_CHAT, {{"messages", user("Hello, hello, hello!")}, {"stream", true}});
  qinfer_generation* generation = nullptr;
  REQUIRE_FAILS(QINFER_E_CONTEXT_FULL, "the session holds 8",
                qinfer_openai_generation_create(request.get(), 0, session.native(), nullptr, &generation, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "choice is 1, the request has 1",
                qinfer_openai_generation_create(request.get(), 1, session.native(), nullptr, &generation, &err));
  CHECK(generation == nullptr);
  const Answer answer = answer_to(request);
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
  CHECK(create(QINFER_OPENAI_EMBEDDINGS, R"({"input": "a", "dimensions": 3})") == QINFER_E_UNSUPPORTED);
  CHECK(create(QINFER_OPENAI_COMPLETION, R"({"prompt": [999999]})") == QINFER_E_FORMAT);
  CHECK(create(QINFER_OPENAI_COMPLETION, R"({"prompt": "a", "logit_bias": {"999999": 1}})") == QINFER_E_FORMAT);
  CHECK(create(QINFER_OPENAI_COMPLETION, R"({"prompt": ""})") == QINFER_E_FORMAT);
  CHECK(out == nullptr);
  qinfer_openai_request_free(nullptr);
  qinfer_openai_answer_free(nullptr);
}

TEST_CASE("openai answer: tokens are told with the text that is the answer's", "[openai]") {
  const qi::Model model = qi::Model::load(kChat);
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
  choice = Json::parse(answered(qi::Model::load(kStories), QINFER_OPENAI_COMPLETION, completion))["choices"][0];
  const Json& logprobs = choice["logprobs"];
  const std::string text = choice["text"];
  for (std::size_t i = 0; i < logprobs["tokens"].size(); ++i) {
    const std::string token = logprobs["tokens"][i];
    CHECK(text.compare(logprobs["text_offset"][i].get<std::size_t>(), token.size(), token) == 0);
    // The token itself is among the likeliest, or is added to them.
    if (i != 0) CHECK(logprobs["top_logprobs"][i][token] == logprobs["token_logprobs"][i]);
  }
}

TEST_CASE("openai answer: without tools what looks like a call is content", "[openai]") {
  const qi::Model model = qi::Model::load(kChat);
  Json request = {{"messages", user("What is the weather in Oslo?")}, {"temperature", 0}, {"max_tokens", 60}};
  const std::string system = "# Tools\n" + weather_tools().dump() + "\nFor each call write <tool_call> and JSON.";
  request["messages"].insert(request["messages"].begin(), Json({{"role", "system"}, {"content", system}}));
  const Json message = Json::parse(answered(model, QINFER_OPENAI_CHAT, request))["choices"][0]["message"];
  CHECK_FALSE(message.contains("tool_calls"));
  CHECK(message["content"].is_string());
}

TEST_CASE("openai answer: what ends badly stays ended, and can begin again", "[openai][bad]") {
  const qi::Model model = qi::Model::load(kStories);
  qi::KvCache cache(model);
  auto options = qi::options<qinfer_session_options>();
  options.max_logits = 2;
  qi::Session session(cache, options);
  const Request request = request_of(model, QINFER_OPENAI_COMPLETION,
                                     {{"prompt", "Once upon a time there was"},
                                      {"echo", true},
                                      {"logprobs", 1},
                                      {"n", 2},
                                      {"max_tokens", 3},
                                      {"temperature", 0}});
  const auto drawn = [&](const qi::Cancel& cancel, std::size_t choice) {
    qinfer_generation* out = nullptr;
    REQUIRE_OK(qinfer_openai_generation_create(request.get(), choice, session.native(), cancel.native(), &out, &err));
    return Drawn(out);
  };
  qi::Cancel cancel;
  const Answer first = answer_to(request), second = answer_to(request);
  const Drawn generation = drawn(cancel, 0);
  std::int32_t ended = 0;
  cancel.request();
  REQUIRE_FAILS(QINFER_E_CANCELLED, "", qinfer_openai_answer_begin(first.get(), 0, generation.get(), &ended, &err));
  cancel.reset();
  REQUIRE_OK(qinfer_openai_answer_begin(first.get(), 0, generation.get(), &ended, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "not of choice 1",
                qinfer_openai_answer_add(first.get(), 1, generation.get(), &ended, &err));
  const auto finish = [&](const Answer& answer, std::size_t choice, qinfer_generation* g) {
    for (ended = 0; ended == 0;) {
      auto info = qi::options<qinfer_token_info>();
      REQUIRE_OK(qinfer_generation_next(g, &info, &err));
      REQUIRE_OK(qinfer_openai_answer_add(answer.get(), choice, g, &ended, &err));
      if (ended == 0) REQUIRE_OK(qinfer_openai_answer_add(answer.get(), choice, g, &ended, &err));  // nothing new
    }
  };
  finish(first, 0, generation.get());
  const Drawn other = drawn(cancel, 1);
  REQUIRE_OK(qinfer_openai_answer_begin(first.get(), 1, other.get(), &ended, &err));
  finish(first, 1, other.get());
  const Json answer = Json::parse(take(first));
  CHECK(answer["choices"][0]["logprobs"]["token_logprobs"] == answer["choices"][1]["logprobs"]["token_logprobs"]);
  CHECK(answer["choices"][0]["text"] == answer["choices"][1]["text"]);

  qinfer_error failure = {};
  failure.code = QINFER_E_NUMERIC;
  REQUIRE_OK(qinfer_openai_answer_fail(second.get(), &failure, &err));
  const Drawn late = drawn(cancel, 0);
  REQUIRE_OK(qinfer_openai_answer_begin(second.get(), 0, late.get(), &ended, &err));
  CHECK(ended == 1);
  std::int32_t complete = 0;
  CHECK(Json::parse(take(second, &complete))["error"]["type"] == "server_error");
  CHECK(complete == 1);
  CHECK(take(second, &complete).empty());
  CHECK(complete == 1);
}

TEST_CASE("openai request: its cancel and its date are of the call that makes it", "[openai]") {
  const qi::Model model = qi::Model::load(kChat);
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
  const Request request(out);
  qi::KvCache cache(model);
  qi::Session session(cache);
  qinfer_generation* generation = nullptr;
  REQUIRE_OK(qinfer_openai_generation_create(request.get(), 0, session.native(), nullptr, &generation, &err));
  qinfer_generation_free(generation);

  // A call that fails must not be what is remembered of a template.
  const qi::Model fresh = qi::Model::load(kChat);
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

namespace {

/// Has these tokens drawn, and then whatever the model draws.
class Forced final : public qi::LogitsHook {
 public:
  explicit Forced(std::vector<qi::Token> tokens) : tokens_(std::move(tokens)) {}
  bool apply(float* logits, std::uint32_t n_vocab) override {
    if (at_ == tokens_.size()) return true;
    for (std::uint32_t i = 0; i < n_vocab; ++i)
      if (i != static_cast<std::uint32_t>(tokens_[at_])) logits[i] = -INFINITY;
    return true;
  }
  bool accept(qi::Token) override {
    if (at_ < tokens_.size()) ++at_;
    return true;
  }
  bool rewind(std::size_t) override { return true; }

 private:
  std::vector<qi::Token> tokens_;
  std::size_t at_ = 0;
};

std::vector<qi::Token> tokens_of(const qi::Model& model, const std::vector<std::string>& texts) {
  std::vector<qi::Token> tokens;
  for (const std::string& text : texts)
    for (const qi::Token token : model.tokenize(text)) tokens.push_back(token);
  return tokens;
}

/// The answer where these are the tokens that are drawn.
Json forced_answer(const qi::Model& model, std::int32_t kind, const Json& json, const std::vector<std::string>& texts) {
  const Request request = request_of(model, kind, json);
  const Answer answer = answer_to(request);
  qi::KvCache cache(model);
  qi::Session session(cache);
  session.set_logits_hook(std::make_unique<Forced>(tokens_of(model, texts)));
  qinfer_generation* out = nullptr;
  REQUIRE_OK(qinfer_openai_generation_create(request.get(), 0, session.native(), nullptr, &out, &err));
  const Drawn generation(out);
  std::int32_t ended = 0;
  REQUIRE_OK(qinfer_openai_answer_begin(answer.get(), 0, out, &ended, &err));
  while (ended == 0) {
    auto info = qi::options<qinfer_token_info>();
    REQUIRE_OK(qinfer_generation_next(out, &info, &err));
    REQUIRE_OK(qinfer_openai_answer_add(answer.get(), 0, out, &ended, &err));
  }
  return Json::parse(take(answer))["choices"][0];
}

}  // namespace

TEST_CASE("openai answer: no token is told whose text is not given", "[openai]") {
  const qi::Model model = qi::Model::load(kChat);
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

TEST_CASE("openai answer: takes back again and again", "[openai][generation]") {
  const qi::Model model = qi::Model::load(kChat);
  const Json conversation = {{"messages", user("Hi")}, {"tools", weather_tools()}};
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
