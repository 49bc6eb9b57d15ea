// Answers of OpenAI's interface with real models: a stream and one JSON text say the same; contents, choices, calls of
// tools, finish reasons, embeddings.
#include <nlohmann/json.hpp>

#include "engine/openai_support.h"

using namespace qinfer::test;
using Json = nlohmann::json;

namespace {

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

}  // namespace

TEST_CASE("openai answer: a stream says what one JSON text says", "[openai]") {
  const qi::Model model = qi::Model::load(kChatModel);
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
  const qi::Model model = qi::Model::load(kChatModel);
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

TEST_CASE("openai answer: without tools what looks like a call is content", "[openai]") {
  const qi::Model model = qi::Model::load(kChatModel);
  Json request = {{"messages", user("What is the weather in Oslo?")}, {"temperature", 0}, {"max_tokens", 60}};
  const std::string system = "# Tools\n" + weather_tools().dump() + "\nFor each call write <tool_call> and JSON.";
  request["messages"].insert(request["messages"].begin(), Json({{"role", "system"}, {"content", system}}));
  const Json message = Json::parse(answered(model, QINFER_OPENAI_CHAT, request))["choices"][0]["message"];
  CHECK_FALSE(message.contains("tool_calls"));
  CHECK(message["content"].is_string());
}

TEST_CASE("openai answer: embeddings", "[openai]") {
  const qi::Model model = qi::Model::load(kStoriesModel);
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
    const OpenAiRequest request = request_of(model, QINFER_OPENAI_EMBEDDINGS,
                                             {{"input", inputs}, {"encoding_format", base64 ? "base64" : "float"}});
    const OpenAiAnswer answer = answer_to(request);
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
