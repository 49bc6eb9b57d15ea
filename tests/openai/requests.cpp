// Requests of OpenAI's interface: what their fields mean, and what is said of those that are wrong or not honoured.
#include <cmath>
#include <string>

#include "formats/json.h"
#include "openai/forced_call.h"
#include "openai/request.h"
#include "support/catch.h"

namespace {

using namespace qinfer;
using openai::Kind;
using openai::Request;

Request read(Kind kind, const std::string& json) {
  auto request = openai::read_request(kind, json);
  if (!request.ok()) FAIL(request.take_status().message());
  return std::move(request.value());
}

/// A chat with these fields beside its messages.
std::string chat(const std::string& fields) {
  return R"({"messages": [{"role": "user", "content": "Hi"}])" + (fields.empty() ? "" : ", " + fields) + "}";
}

constexpr const char* kTool =
    R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])";

void must_fail(Kind kind, const std::string& json, Code code, const std::string& says) {
  CAPTURE(json);
  auto request = openai::read_request(kind, json);
  REQUIRE_FALSE(request.ok());
  const Status status = request.take_status();
  CHECK(status.code() == code);
  CHECK(std::string(status.message()) == "request: " + says);
}

}  // namespace

TEST_CASE("openai request: defaults and null fields", "[openai]") {
  for (const char* fields : {"", R"("temperature": null, "top_p": null, "n": null, "seed": null, "stop": null,
         "max_tokens": null, "logprobs": null, "logit_bias": null, "tools": null, "response_format": null,
         "tool_choice": null, "stream_options": null, "audio": null, "unheard_of": null)"}) {
    const Request request = read(Kind::chat, chat(fields));
    CHECK(request.conversation == R"({"messages":[{"role":"user","content":"Hi"}]})");
    CHECK(request.sampling.temperature == 1);
    CHECK(request.sampling.top_p == 1);
    CHECK_FALSE(request.sampling.seed);
    CHECK_FALSE(request.max_tokens);
    CHECK_FALSE(request.logprobs);
    CHECK(request.n == 1);
    CHECK(request.stop.empty());
    CHECK(request.parallel_calls);
    CHECK(request.unused.empty());
  }
}

TEST_CASE("openai request: fields of a chat", "[openai]") {
  const Request request =
      read(Kind::chat, chat(R"("model": "m", "temperature": 0.5, "top_p": 0, "min_p": 0.1, "top_k": 7,
      "seed": -1, "n": 3, "max_tokens": 5, "max_completion_tokens": 9, "stop": ["a", "bc"], "stream": true,
      "stream_options": {"include_usage": true, "include_obfuscation": false}, "logprobs": true, "top_logprobs": 4,
      "logit_bias": {"7": -100, "8": 2.5}, "presence_penalty": -1, "frequency_penalty": 2, "repetition_penalty": 1.5,
      "parallel_tool_calls": false, "user": "u", "metadata": {"a": "b"}, "store": false, "verbosity": "low",
      "modalities": ["text"], "max_reasoning_tokens": 6, "chat_template_kwargs": {"x": [1, 1.5, null]},
      "reasoning_effort": "none", "tool_choice": "auto", )" +
                            std::string(kTool)));
  CHECK(request.model == "m");
  CHECK(request.conversation ==
        R"({"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f",)"
        R"("parameters":{"type":"object"}}}],"reasoning_effort":"none","enable_thinking":false,"x":[1,1.5,null]})");
  CHECK(request.sampling.temperature == 0.5);
  CHECK(request.sampling.top_p == 0);
  CHECK(request.sampling.top_k == 7);
  CHECK(request.sampling.seed == 0xffffffffffffffffU);
  CHECK(request.sampling.presence_penalty == -1);
  CHECK(request.sampling.repetition_penalty == 1.5);
  REQUIRE(request.sampling.bias.size() == 2);
  CHECK(std::isinf(request.sampling.bias[0].second));
  CHECK(request.sampling.bias[1].second == 2.5F);
  CHECK(request.n == 3);
  CHECK(request.max_tokens == 9U);
  CHECK(request.max_reasoning_tokens == 6);
  CHECK_FALSE(request.reasons);
  CHECK(request.stop == std::vector<std::string>{"a", "bc"});
  CHECK(request.stream);
  CHECK(request.stream_usage);
  CHECK(request.logprobs == 4U);
  CHECK_FALSE(request.parallel_calls);
  CHECK(request.unused == std::vector<std::string>{"user", "metadata", "verbosity"});
}

TEST_CASE("openai request: calls that must be made", "[openai]") {
  const Request any = read(Kind::chat, chat(std::string(kTool) + R"(, "tool_choice": "required", "max_tokens": 9)"));
  CHECK((any.forces_call && any.offers_tools && any.forced_name.empty()));
  CHECK(any.max_reasoning_tokens == 4);
  const Request named = read(Kind::chat, chat(std::string(kTool) + R"(,
      "tool_choice": {"type": "function", "function": {"name": "f"}})"));
  CHECK((named.forces_call && named.forced_name == "f"));
  CHECK_FALSE(read(Kind::chat, chat(std::string(kTool) + R"(, "tool_choice": "auto")")).forces_call);
}

TEST_CASE("openai request: the schema of a call", "[openai]") {
  const auto schema = [](std::string_view tools, std::string_view name) {
    const auto parsed = qinfer::formats::parse_json(tools, "tools");
    REQUIRE(parsed.ok());
    return qinfer::openai::forced_call_schema(parsed.value().root(), name, "arguments");
  };
  constexpr std::string_view kTwo = R"([{"type":"function","function":{"name":"a"}},
    {"type":"function","function":{"name":"b","parameters":{"properties":{"$ref":{"$ref":"#/$defs/x"},
      "y":{"$ref":"#"}},"$defs":{"x":{"enum":["#",1.5,null]}}}}}])";
  const std::string a =
      R"({"type":"object","properties":{"name":{"const":"a"},"arguments":{"type":"object","properties":{},)"
      R"("additionalProperties":false}},"required":["name","arguments"],"additionalProperties":false})";
  const auto b = [](const std::string& place) {
    return R"({"type":"object","properties":{"name":{"const":"b"},"arguments":{"type":"object","properties":)"
           R"({"$ref":{"$ref":")" +
           place + R"(/properties/arguments/$defs/x"},"y":{"$ref":")" + place +
           R"(/properties/arguments"}},"$defs":{"x":{"enum":["#",1.5,null]}}}},"required":["name","arguments"],)"
           R"("additionalProperties":false})";
  };
  CHECK(schema(kTwo, "a") == a);
  CHECK(schema(kTwo, "b") == b("#"));
  CHECK(schema(kTwo, "") == R"({"anyOf":[)" + a + "," + b("#/anyOf/1") + "]}");
}

TEST_CASE("openai request: tools, schemas and seeds", "[openai]") {
  CHECK(read(Kind::chat, chat(std::string(kTool) + R"(, "tool_choice": "none")")).conversation ==
        R"({"messages":[{"role":"user","content":"Hi"}]})");
  CHECK(read(Kind::chat, chat(R"("response_format": {"type": "json_object"}, "max_tokens": 9)")).schema ==
        R"({"type":"object"})");
  const Request schema =
      read(Kind::chat, chat(R"("response_format": {"type": "json_schema", "json_schema": {"name": "n",
      "strict": true, "schema": {"enum": [1]}}}, "max_tokens": 9)"));
  CHECK(schema.schema == R"({"enum":[1]})");
  CHECK(schema.max_reasoning_tokens == 4);
  CHECK(read(Kind::chat, chat(R"("response_format": {"type": "text"})")).schema.empty());
  CHECK(read(Kind::chat, chat(R"("seed": 18446744073709551615)")).sampling.seed == 0xffffffffffffffffU);
  CHECK(read(Kind::chat, chat(R"("seed": 0, "stop": "x")")).sampling.seed == 0U);
}

TEST_CASE("openai request: strict schemas are closed where they say nothing", "[openai]") {
  const auto closed = [](const std::string& schema) {
    return read(Kind::chat, chat(R"("response_format": {"type": "json_schema", "json_schema": {"name": "n",
      "strict": true, "schema": )" +
                                 schema + "}}"))
        .schema;
  };
  const std::string close = R"(,"additionalProperties":false})", a = R"("properties":{"a":{"type":"integer"}})";
  CHECK(closed(R"({"type":"object"})") == R"({"type":"object")" + close);
  CHECK(closed(R"({"type":["null","object"]})") == R"({"type":["null","object"])" + close);
  CHECK(closed("{" + a + "}") == "{" + a + close);
  CHECK(closed(R"({"$defs":{"x":{)" + a + R"(}},"items":{)" + a + R"(},"prefixItems":[{)" + a + "}]}") ==
        R"({"$defs":{"x":{)" + a + close + R"(},"items":{)" + a + close + R"(,"prefixItems":[{)" + a + close + "]}");
  CHECK(closed(R"({"anyOf":[{)" + a + R"(},{"type":"null"}]})") ==
        R"({"anyOf":[{)" + a + close + R"(,{"type":"null"}]})");
  // A property may be called as a keyword is.
  CHECK(closed(R"({"properties":{"properties":{"type":"object"}}})") ==
        R"({"properties":{"properties":{"type":"object")" + close + "}" + close);
  for (const char* open :
       {R"({"type":"object","additionalProperties":true})", R"({"enum":[{"type":"object"}]})", R"({"$ref":"#"})",
        R"({"not":{"type":"object"}})", R"({"if":{"type":"object"},"then":{"type":"object"}})",
        R"({"type":"object","allOf":[{"type":"object"}]})", R"({"type":"object","anyOf":[{"type":"object"}]})",
        R"({"const":{"properties":{}}})", "true", R"({"type":"string"})"})
    CHECK(closed(open) == open);

  const auto tool = [](const std::string& strict, const std::string& parameters) {
    return R"({"type":"function","function":{"name":"f",)" + strict + R"("parameters":)" + parameters + "}}";
  };
  const std::string open = R"({"type":"object"})", shut = R"({"type":"object")" + close, yes = R"("strict":true,)",
                    no = R"("strict":false,)";
  CHECK(read(Kind::chat, chat(R"("tools": [)" + tool(yes, open) + "," + tool(no, open) + "," + tool("", open) + "]"))
            .conversation == R"({"messages":[{"role":"user","content":"Hi"}],"tools":[)" + tool("", shut) + "," +
                                 tool("", open) + "," + tool("", open) + "]}");
}

TEST_CASE("openai request: prompts of completions and embeddings", "[openai]") {
  const Request text = read(Kind::completion, R"({"prompt": "a", "echo": true, "logprobs": 2, "best_of": 1})");
  REQUIRE(text.prompts.size() == 1);
  CHECK(text.prompts[0].text == "a");
  CHECK(text.max_tokens == 16U);
  CHECK(text.echo);
  CHECK(text.logprobs == 2U);
  const Request tokens = read(Kind::completion, R"({"prompt": [1, 2], "suffix": "", "max_tokens": 0, "echo": true})");
  REQUIRE(tokens.prompts.size() == 1);
  CHECK(tokens.prompts[0].tokens == std::vector<std::int32_t>{1, 2});
  CHECK(tokens.max_tokens == 0U);
  const Request mixed =
      read(Kind::embeddings, R"({"input": ["a", "b"], "encoding_format": "base64", "dimensions": 3})");
  CHECK(mixed.prompts.size() == 2);
  CHECK(mixed.base64);
  CHECK(mixed.dimensions == 3U);
  CHECK(read(Kind::embeddings, R"({"input": [[1], [2, 3]]})").prompts[1].tokens.size() == 2);
}

TEST_CASE("openai request: what is wrong is named", "[openai][bad]") {
  const auto wrong = [](const std::string& fields, const std::string& says) {
    must_fail(Kind::chat, chat(fields), Code::format, says);
  };
  wrong(R"("temperature": -1)", R"("temperature" is -1, expected 0 to 100)");
  wrong(R"("temperature": "hot")", R"("temperature" is a string, expected a number)");
  wrong(R"("top_p": 1.5)", R"("top_p" is 1.5, expected 0 to 1)");
  wrong(R"("n": 0)", R"("n" is 0, expected 1 to 128)");
  wrong(R"("seed": 1.5)", R"("seed" is 1.5, expected an integer of 64 bits)");
  wrong(R"("stop": [""])", R"("stop" is "", expected texts of 1 to 4096 bytes)");
  wrong(R"("stop": 3)", R"("stop" is 3, expected texts of 1 to 4096 bytes)");
  wrong(R"("stream": 1)", R"("stream" is a number, expected true or false)");
  wrong(R"("logit_bias": {"x": 1})", R"("logit_bias" has the key "x", expected the number of a token)");
  wrong(R"("logit_bias": {"99999999999": 1})",
        R"("logit_bias" has the key "99999999999", expected the number of a token)");
  wrong(R"("seed": 18446744073709551616)", R"("seed" is 1.8446744073709552e+19, expected an integer of 64 bits)");
  wrong(R"("logit_bias": {"1": 101})", R"("logit_bias.1" is 101, expected a number from -100 to 100)");
  wrong(R"("top_logprobs": 2)", R"("top_logprobs" is 2 without "logprobs": true)");
  wrong(R"("tools": [{"type": "function", "function": {}}])",
        R"("tools[0]" is an object, expected a function with a name)");
  wrong(R"("tool_choice": "maybe")",
        R"("tool_choice" is "maybe", expected "auto", "none", "required" or a function with a name)");
  wrong(R"("tool_choice": "required")", R"("tool_choice" asks for a call, and there are no "tools")");
  wrong(R"("tools": [], "tool_choice": "required")", R"("tool_choice" asks for a call, and there are no "tools")");
  wrong(std::string(kTool) + R"(, "tool_choice": {"type": "function", "function": {"name": "g"}})",
        R"("tool_choice" names "g", which is none of the "tools")");
  wrong(std::string(kTool) + R"(, "tool_choice": {"type": "function", "function": "f"})",
        R"("tool_choice" is an object, expected a function with a name)");
  wrong(R"("response_format": {"type": "yaml"})",
        R"("response_format" is an object, expected an object of type "text", "json_object" or "json_schema")");
  wrong(R"("response_format": {"type": "json_schema"})", R"("response_format.json_schema.schema" is missing)");
  wrong(R"("response_format": {"type": "json_schema", "json_schema": {"name": 1, "schema": {}}})",
        R"("response_format.json_schema.name" is 1, expected a text)");
  wrong(R"("response_format": {"type": "json_schema", "json_schema": {"strict": 1, "schema": {}}})",
        R"("response_format.json_schema.strict" is 1, expected true or false)");
  wrong(R"("tools": [{"type": "function", "function": {"name": "f", "strict": "yes"}}])",
        R"("tools[0].function.strict" is "yes", expected true or false)");
  wrong(R"("verbosity": "loud")", R"("verbosity" is "loud", expected one of "low" "medium" "high")");
  wrong(R"("reasoning_effort": "some")",
        R"("reasoning_effort" is "some", expected one of "none" "minimal" "low" "medium" "high" "xhigh" "max")");
  wrong(R"("user": 5)", R"("user" is a number, expected a string)");
  wrong(R"("chat_template_kwargs": {"messages": 1})", R"("chat_template_kwargs" has "messages", which is a field)");

  const auto messages = [](const std::string& list, const std::string& says, Code code = Code::format) {
    must_fail(Kind::chat, R"({"messages": )" + list + "}", code, says);
  };
  messages("[]", R"("messages" is an array, expected a list of messages, not empty)");
  messages("[3]", R"("messages[0]" is 3, expected an object)");
  messages(R"([{"content": "x"}])", R"("messages[0].role" is missing)");
  messages(R"([{"role": "king", "content": "x"}])",
           R"("messages[0].role" is "king", expected system, developer, user, assistant or tool)");
  messages(R"([{"role": "user"}])", R"("messages[0].content" is missing, expected a text or a list of parts)");
  messages(R"([{"role": "user", "content": [{"type": "image_url"}]}])",
           R"("messages[0].content[0]" is a part of type "image_url", only texts are taken)", Code::unsupported);
  messages(R"([{"role": "assistant", "tool_calls": [{}]}])",
           R"("messages[0].tool_calls" is an object, expected calls with a function that has a name)");
  messages(R"([{"role": "assistant", "content": "", "function_call": {}}])",
           R"("messages[0].function_call" is not supported)", Code::unsupported);

  must_fail(Kind::completion, "{}", Code::format,
            R"("prompt" is missing, expected a text, a list of texts, a list of tokens, or a list of such lists)");
  must_fail(Kind::completion, R"({"prompt": [1, "a"]})", Code::format,
            R"("prompt" is "a", expected numbers of tokens)");
  must_fail(Kind::completion, R"({"prompt": "a", "max_tokens": 0})", Code::format,
            R"("max_tokens" is 0 without "echo": there would be no answer)");
  must_fail(Kind::embeddings, R"({"input": "a", "encoding_format": "hex"})", Code::format,
            R"("encoding_format" is "hex", expected "float" or "base64")");
  std::string many = R"({"n": 128, "prompt": ["a")";
  for (int i = 0; i < 40; ++i) many += R"(,"a")";
  must_fail(Kind::completion, many + "]}", Code::format,
            R"("n" is 128 for 41 prompts, expected at most 4096 choices in all)");
  must_fail(Kind::chat, "[]", Code::format, "expected an object");
}

TEST_CASE("openai request: no field is passed over", "[openai][bad]") {
  const auto refused = [](Kind kind, const std::string& json, const std::string& says) {
    must_fail(kind, json, Code::unsupported, says);
  };
  refused(Kind::chat, chat(R"("foo": 1)"), R"("foo" is not a field that is known here)");
  refused(Kind::chat, chat(R"("stream_options": {"foo": true})"),
          R"("stream_options.foo" is not a field that is known here)");
  refused(Kind::chat, chat(R"("audio": {})"), R"("audio" is not supported: answers are text)");
  refused(Kind::chat, chat(R"("store": true)"), R"("store" is not supported: nothing is stored)");
  refused(Kind::chat, chat(R"("functions": [])"), R"("functions" is not supported: send "tools")");
  refused(Kind::chat, chat(std::string(kTool) + R"(, "tool_choice": {"type": "custom", "custom": {"name": "f"}})"),
          R"("tool_choice.type" is "custom", expected "function")");
  refused(
      Kind::chat, chat(std::string(kTool) + R"(, "response_format": {"type": "json_object"})"),
      R"("response_format" of type json_object leaves no room for calls of tools; send "tool_choice": "none" with it)");
  refused(Kind::chat, chat(R"("tools": [{"type": "custom"}])"), R"("tools[0].type" is "custom", expected "function")");
  refused(Kind::completion, R"({"prompt": "a", "suffix": "b"})",
          R"("suffix" is not supported: text is made after the prompt alone)");
  refused(Kind::completion, R"({"prompt": "a", "best_of": 2})", R"("best_of" is 2, expected at most n, 1)");
  refused(Kind::completion, R"({"prompt": "a", "messages": []})", R"("messages" is not a field that is known here)");
  refused(Kind::embeddings, R"({"input": "a", "temperature": 1})",
          R"("temperature" is not a field that is known here)");
}
