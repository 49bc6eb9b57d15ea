// What dialects make of recorded chunks of chat completions: those that the small models do not give by themselves.
#include <functional>

#include "server/dialects/dialect.h"
#include "server/dialects/json_input.h"
#include "support/catch.h"

namespace {

using server::Dialect;
using server::Json;
using server::Refusal;

constexpr const char* kMessages = "/v1/messages";
constexpr const char* kResponses = "/v1/responses";

std::string event(const Json& json) { return "data: " + json.dump() + "\n\n"; }

std::string chunk(const Json& delta, const Json& finish = nullptr) {
  const Json choice = {{"index", 0}, {"delta", delta}, {"logprobs", nullptr}, {"finish_reason", finish}};
  return event({{"id", "chatcmpl-00ff"},
                {"object", "chat.completion.chunk"},
                {"created", 17},
                {"model", "tiny"},
                {"choices", Json::array({choice})},
                {"usage", nullptr}});
}

std::string called(int index, const char* name, const char* arguments) {
  Json call = {{"index", index}, {"id", "call0000" + std::to_string(index)}, {"type", "function"}};
  call["function"] = {{"name", name}, {"arguments", arguments}};
  return chunk({{"tool_calls", Json::array({call})}});
}

std::string begun() { return chunk({{"role", "assistant"}, {"content", ""}}); }

std::string ended(const char* finish) {
  Json usage = {{"prompt_tokens", 9}, {"completion_tokens", 5}, {"total_tokens", 14}};
  usage["prompt_tokens_details"] = {{"cached_tokens", 4}};
  usage["completion_tokens_details"] = {{"reasoning_tokens", 2}};
  return chunk(Json::object(), finish) +
         event({{"id", "chatcmpl-00ff"}, {"model", "tiny"}, {"choices", Json::array()}, {"usage", usage}}) +
         "data: [DONE]\n\n";
}

std::string text(const char* content) { return chunk({{"content", content}}); }
std::string reasoning(const char* content) { return chunk({{"reasoning_content", content}}); }

std::string failed(const char* type) {
  return event({{"error", {{"message", "out of luck"}, {"type", type}, {"param", nullptr}, {"code", nullptr}}}}) +
         "data: [DONE]\n\n";
}

std::shared_ptr<Dialect> asked(const char* path, bool stream) {
  auto dialect = server::dialect_of(path);
  Json body = {{"model", "m"}, {"stream", stream}};
  if (std::string_view(path) == kMessages) {
    body["max_tokens"] = 9;
    body["messages"] = Json::array({{{"role", "user"}, {"content", "Hello!"}}});
  } else {
    body["input"] = "Hello!";
  }
  const Json chat = Json::parse(dialect->request(body.dump()));
  CHECK(chat["stream"] == true);
  return dialect;
}

/// All that is given for these chunks, which come in pieces of so many bytes.
std::string given(const char* path, bool stream, const std::string& chunks, std::size_t piece = std::string::npos) {
  const auto dialect = asked(path, stream);
  std::string out;
  for (std::size_t at = 0; at < chunks.size(); at += std::min(piece, chunks.size() - at)) {
    const std::string_view bytes = std::string_view(chunks).substr(at, piece);
    out += dialect->add(bytes, at + bytes.size() == chunks.size(), {9, false});
  }
  return out;
}

std::vector<Json> events_in(const std::string& bytes) {
  std::vector<Json> events;
  for (std::size_t at = 0, end = 0; (end = bytes.find("\n\n", at)) != std::string::npos; at = end + 2) {
    const std::string one = bytes.substr(at, end - at);
    const std::size_t data = one.find("\ndata: ");
    events.push_back(Json::parse(one.substr(data + 7)));
    CHECK(one.substr(0, data) == "event: " + events.back()["type"].get<std::string>());
  }
  return events;
}

std::string types_of(const std::vector<Json>& events) {
  std::string types;
  for (const Json& one : events) types += one["type"].get<std::string>() + ' ';
  return types;
}

const std::string kMany = begun() + reasoning("Two ") + reasoning("calls.") + text("First:") +
                          called(0, "a", R"({"z": 1, "b": [2]})") + called(1, "b", "{}") + text("Then.") +
                          ended("tool_calls");

}  // namespace

TEST_CASE("messages: calls, text after them, and members in their order", "[server]") {
  const Json whole = Json::parse(given(kMessages, false, kMany));
  CHECK(whole["content"].dump() ==
        R"([{"type":"thinking","thinking":"Two calls.","signature":"unsigned"},{"type":"text","text":"First:"},)"
        R"({"type":"tool_use","id":"call00000","name":"a","input":{"z":1,"b":[2]},"caller":{"type":"direct"}},)"
        R"({"type":"tool_use","id":"call00001","name":"b","input":{},"caller":{"type":"direct"}},)"
        R"({"type":"text","text":"Then."}])");
  CHECK(whole["stop_reason"] == "tool_use");
  CHECK(whole["usage"].dump() ==
        R"({"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":5,)"
        R"("cache_creation":null,"inference_geo":null,"output_tokens_details":null,"server_tool_use":null,)"
        R"("service_tier":null})");
  const auto events = events_in(given(kMessages, true, kMany));
  int blocks = 0;
  for (const Json& one : events)
    if (one["type"] == "content_block_start") CHECK(one["index"] == blocks++);
  CHECK(blocks == 5);
  CHECK(events[0]["message"]["id"] == "msg_00ff");
  CHECK(events.back()["type"] == "message_stop");
}

TEST_CASE("responses: calls, and text after them", "[server]") {
  const Json whole = Json::parse(given(kResponses, false, kMany));
  std::string items;
  for (const Json& item : whole["output"])
    items += item["type"].get<std::string>() + '=' + item["id"].get<std::string>() + ' ';
  CHECK(items ==
        "reasoning=rs_00ff0 message=msg_00ff1 function_call=fc_00ff2 function_call=fc_00ff3 message=msg_00ff4 ");
  CHECK(whole["output"][2]["arguments"] == R"({"z": 1, "b": [2]})");
  CHECK(whole["usage"]["input_tokens_details"]["cached_tokens"] == 4);
  const auto events = events_in(given(kResponses, true, kMany));
  Json last = events.back()["response"];
  last["completed_at"] = whole["completed_at"];
  CHECK(last == whole);
  for (std::size_t i = 0; i < events.size(); ++i) CHECK(events[i]["sequence_number"] == i);
}

TEST_CASE("dialects: chunks may be cut anywhere", "[server]") {
  for (const char* path : {kMessages, kResponses})
    for (const bool stream : {false, true}) {
      const auto comparable = [&](std::size_t piece) {
        std::string all = given(path, stream, kMany, piece);
        const std::size_t at = all.rfind("\"completed_at\":");
        return at == std::string::npos ? all : all.erase(at, 25);
      };
      for (const std::size_t piece : {1, 2, 3, 7, 100}) CHECK(comparable(piece) == comparable(std::string::npos));
    }
}

TEST_CASE("messages: arguments that are no object are none", "[server]") {
  for (const std::string& arguments : {std::string("["), std::string("5"), std::string(""), std::string(200000, '[')}) {
    const std::string chunks = begun() + called(0, "a", arguments.c_str()) + ended("tool_calls");
    CHECK(Json::parse(given(kMessages, false, chunks))["content"][0]["input"] == Json::object());
    CHECK(events_in(given(kMessages, true, chunks))[3]["delta"]["partial_json"] == "{}");
    const Json response = Json::parse(given(kResponses, false, chunks));
    CHECK(response["output"][0]["arguments"] == arguments);
  }
}

TEST_CASE("dialects: what fails after it has begun", "[server]") {
  const std::string chunks = begun() + text("Once") + failed("overloaded_error");
  for (const char* path : {kMessages, kResponses}) {
    try {
      given(path, false, chunks);
      FAIL("it did not fail");
    } catch (const Refusal& refused) {
      CHECK(refused.status == 503);
      CHECK(server::dialect_of(path)->refusal(refused).body.find("out of luck") != std::string::npos);
    }
  }
  const auto messages = events_in(given(kMessages, true, chunks));
  CHECK(types_of(messages) == "message_start ping content_block_start content_block_delta error ");
  CHECK(messages.back().dump() ==
        R"({"type":"error","error":{"type":"overloaded_error","message":"out of luck"},"request_id":null})");
  const auto responses = events_in(given(kResponses, true, chunks));
  const Json& last = responses.back();
  CHECK(last["type"] == "response.failed");
  CHECK(last["response"]["status"] == "failed");
  CHECK(last["response"]["error"] == Json{{"code", "server_error"}, {"message", "out of luck"}});
  CHECK(last["response"]["output"][0]["content"][0]["text"] == "Once");
  CHECK(types_of(events_in(given(kMessages, true, failed("server_error")))) == "error ");
  CHECK(events_in(given(kResponses, true, failed("server_error"))).back()["type"] == "response.failed");
}

TEST_CASE("dialects: refusals have the dialect's types", "[server]") {
  const auto type_of = [](int status) {
    const auto response = server::dialect_of(kMessages)->refusal(server::refusal(status, "x", "no"));
    CHECK(response.status == status);
    return Json::parse(response.body)["error"]["type"].get<std::string>();
  };
  CHECK(type_of(400) == "invalid_request_error");
  CHECK(type_of(401) == "authentication_error");
  CHECK(type_of(404) == "not_found_error");
  CHECK(type_of(405) == "invalid_request_error");
  CHECK(type_of(413) == "request_too_large");
  CHECK(type_of(429) == "rate_limit_error");
  CHECK(type_of(500) == "api_error");
  CHECK(type_of(503) == "overloaded_error");
  CHECK(server::dialect_of("/v1/messages/count_tokens")->counted(7) == R"({"input_tokens":7})");
  CHECK(server::dialect_of("/v1/chat/completions") == nullptr);
}

TEST_CASE("dialects: what is strict stays so", "[server]") {
  const Json schema = {{"type", "object"}};
  Json response = {{"model", "m"}, {"input", "Hello!"}, {"tool_choice", "none"}};
  response["tools"] = Json::array({{{"type", "function"}, {"name", "f"}, {"parameters", schema}, {"strict", true}},
                                   {{"type", "function"}, {"name", "g"}, {"parameters", schema}}});
  response["text"]["format"] = {{"type", "json_schema"}, {"name", "n"}, {"schema", schema}, {"strict", true}};
  const Json chat = Json::parse(server::dialect_of(kResponses)->request(response.dump()));
  CHECK(chat["response_format"]["json_schema"]["strict"] == true);
  CHECK(chat["tools"][0]["function"]["strict"] == true);
  CHECK_FALSE(chat["tools"][1]["function"].contains("strict"));

  Json message = {{"model", "m"}, {"max_tokens", 9}};
  message["messages"] = Json::array({{{"role", "user"}, {"content", "Hello!"}}});
  message["tools"] = Json::array({{{"name", "f"}, {"input_schema", schema}, {"strict", true}}});
  const Json asked = Json::parse(server::dialect_of(kMessages)->request(message.dump()));
  CHECK(asked["tools"][0]["function"]["strict"] == true);
  message["tools"][0]["strict"] = 1;
  CHECK_THROWS_AS(server::dialect_of(kMessages)->request(message.dump()), Refusal);
}
