// Replies taken apart: what each family of models writes comes out as content, reasoning and calls, however the text is
// cut into pieces; what is not written so is content; and what the real templates write of a message is read back as
// that message.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "jinja/support.h"
#include "reply/parser.h"
#include "support/catch.h"
#include "support/test_data.h"

namespace {

using namespace qinfer;
using namespace qinfer::test;
using reply::Format;
using reply::PartKind;
using Json = nlohmann::ordered_json;

constexpr const char* kTools = R"({"tools": [
  {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"type": "integer"}}}}},
  {"name": "stop"}]})";

reply::Setup setup_for(Format format, const std::string& conversation = kTools) {
  const auto parsed = formats::parse_json(conversation, "conversation");
  REQUIRE(parsed.ok());
  reply::Setup setup;
  setup.format = format;
  setup.tools = reply::ToolList(parsed.value().root());
  return setup;
}

/// The parts in a short notation, pieces of one kind together: "content|(reasoning)|name{...}".
std::string parts_of(reply::Parser& parser, std::string so_far = {}) {
  for (reply::Part part = parser.next(); part.kind != PartKind::none; part = parser.next()) {
    if (part.kind == PartKind::call) {
      so_far += "|" + part.name + part.text + "|";
    } else if (part.kind == PartKind::reasoning) {
      if (so_far.ends_with(')'))
        so_far.pop_back();
      else
        so_far += "(";
      so_far += part.text + ")";
    } else {
      so_far += part.text;
    }
  }
  return so_far;
}

/// The parts of a reply that comes in pieces of that many bytes; whole characters, as a detokeniser gives them, do not
/// matter to the parser.
std::string read(reply::Setup setup, const std::string& reply, std::size_t piece) {
  reply::Parser parser(std::move(setup));
  std::string parts;
  for (std::size_t i = 0; i < reply.size(); i += piece) {
    parser.push(std::string_view(reply).substr(i, piece));
    parts = parts_of(parser, std::move(parts));
  }
  parser.finish();
  return parts_of(parser, std::move(parts));
}

/// The parts, the same for pieces of any size.
std::string read(reply::Setup setup, const std::string& reply) {
  const std::string whole = read(setup, reply, reply.size() + 1);
  for (const std::size_t piece : {1, 2, 3, 5, 7, 11}) {
    CAPTURE(piece, reply);
    CHECK(read(setup, reply, piece) == whole);
  }
  return whole;
}

std::string read(Format format, const std::string& reply) { return read(setup_for(format), reply); }

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("Reasoning at the beginning of a reply is told from its content", "[chat]") {
  for (const Format format : {Format::plain, Format::hermes, Format::deepseek}) {
    CHECK(read(format, "<think>\nso\nit is\n</think>\n\nYes.") == "(so\nit is)Yes.");
    CHECK(read(format, " \n<think>a</think>b") == "(a)b");
    CHECK(read(format, "<think>\n\n</think>\n\nYes.") == "Yes.");
    CHECK(read(format, "<think>never ends\n") == "(never ends)");
    CHECK(read(format, "<think>never ends</thin") == "(never ends</thin)");
    CHECK(read(format, "</think>Yes") == "</think>Yes");
    CHECK(read(format, "Tags: <think>x</think>") == "Tags: <think>x</think>");
    CHECK(read(format, "<thinking>x") == "<thinking>x");
    CHECK(read(format, "<thi") == "<thi");
    CHECK(read(format, "") == "");
    CHECK(read(format, "  Hello \n") == "  Hello \n");
    CHECK(read(format, "</think>\n\n  indented").find("</think>") == 0);
    reply::Setup begun = setup_for(format);
    begun.in_reasoning = true;
    CHECK(read(begun, "so\n</think>\n\n  indented") == "(so)  indented");
  }
  CHECK(read(Format::mistral, "[THINK]hm[/THINK]Yes.") == "(hm)Yes.");
}

TEST_CASE("Calls between tags, as Hermes and Qwen write them", "[chat]") {
  const auto hermes = [](const std::string& reply) { return read(Format::hermes, reply); };
  CHECK(hermes("<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>") ==
        "|weather{\"city\": \"Paris\"}|");
  CHECK(hermes("Let me see.\n\n<tool_call>{\"arguments\": {\"a\": [1, {\"b\": \"}\"}]}, \"name\": \"f\"}</tool_call>\n"
               "<tool_call>{\"name\": \"stop\"}</tool_call>\n") ==
        "Let me see.|f{\"a\": [1, {\"b\": \"}\"}]}||stop{}|");
  CHECK(hermes("<think>\nI call.\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>") ==
        "(I call.)|f{}|");
  // A text that holds the arguments, the end that a model forgot, text after a call.
  CHECK(hermes(R"(<tool_call>{"name": "f", "arguments": "{\"x\": 1}"}</tool_call> and so on)") ==
        "|f{\"x\": 1}|and so on");
  CHECK(hermes(R"(<tool_call>{"name": "f", "arguments": {"x": 1}})") == R"(|f{"x": 1}|)");
  CHECK(hermes(R"(<tool_call>{"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}</tool_call>)") ==
        R"(|f{"x": 1}|)");
  // What is no call stays as it is.
  for (const char* bad : {R"(<tool_call>{"name": "f", "arguments": {"x": }}</tool_call>)", "<tool_call></tool_call>",
                          R"(<tool_call>{"name": "", "arguments": {}}</tool_call>)", "a <tool_call> b", "<tool_call",
                          R"(<tool_call>{"name": 1, "arguments": {}}</tool_call>)", "x < y",
                          "<tool_call>[1]</tool_call>", R"(<tool_call>{"name": "f", "arguments": [1]}</tool_call>)",
                          R"(<tool_call>{"name": "f", "arguments": {}, "name": "g"}</tool_call>)",
                          R"(<tool_call>{"function": {"function": {"name": "f"}}}</tool_call>)"})
    CHECK(hermes(bad) == bad);
  CHECK(hermes("<tool_call>no <tool_call>{\"name\": \"f\"}</tool_call>") == "<tool_call>no|f{}|");
}

TEST_CASE("Calls whose parameters are tags, with the types of the tool's schema", "[chat]") {
  const auto tags = [](const std::string& body) {
    return read(Format::hermes, "<tool_call>\n" + body + "\n</tool_call>");
  };
  CHECK(
      tags("<function=weather>\n<parameter=city>\n42\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>") ==
      R"(|weather{"city": "42", "days": 3}|)");
  CHECK(
      tags(
          "<function=other>\n<parameter=a>\n{\"b\": [1]}\n</parameter>\n<parameter=c>\ntwo\nlines \"q\"\n</parameter>\n"
          "</function>") == R"(|other{"a": {"b": [1]}, "c": "two\nlines \"q\""}|)");
  CHECK(tags("<function=stop>\n</function>") == "|stop{}|");
  for (const char* bad : {"<function=>\n</function>", "<function=f\n>\n</function>", "<function=f>\n1\n</function>",
                          "<function", "<function=f><parameter=a>1</parameter><parameter=a>2</parameter></function>"}) {
    const std::string whole = std::string("<tool_call>\n") + bad + "\n</tool_call>";
    CHECK(tags(bad) == whole);
  }
}

namespace {

/// A tool with a parameter of every kind of schema.
constexpr const char* kEditTool = R"({"tools": [{"type": "function", "function": {"name": "edit", "parameters": {
  "type": "object",
  "properties": {
    "path": {"type": "string"}, "code": {"type": "string"}, "count": {"type": "integer"}, "flag": {"type": "boolean"},
    "zip": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "phone": {"type": ["string", "null"]},
    "mode": {"enum": ["1", "2"]}, "level": {"enum": [1, 2]}, "fixed": {"const": "7"}, "any": {},
    "key": {"$ref": "#/$defs/Key"}, "deep": {"allOf": [{"$ref": "#/$defs/Deep"}]}, "self": {"$ref": "#/$defs/Self"},
    "lost": {"$ref": "#/$defs/None"}, "names": {"type": "array", "items": {"type": "string"}}, "map": {"type": "object"},
    "limit": {"oneOf": [{"type": "integer"}, {"type": "null"}]}},
  "$defs": {"Key": {"type": "string"}, "Deep": {"anyOf": [{"$ref": "#/$defs/Key"}, {"type": "number"}]},
            "Self": {"anyOf": [{"$ref": "#/$defs/Self"}, {"type": "integer"}]}}}}}]})";

std::string edit(const std::string& reply) { return read(setup_for(Format::hermes, kEditTool), reply); }

/// As Qwen3-Coder writes a call.
std::string tagged(const std::vector<std::pair<std::string, std::string>>& parameters) {
  std::string out = "<tool_call>\n<function=edit>\n";
  for (const auto& [key, value] : parameters) out += "<parameter=" + key + ">\n" + value + "\n</parameter>\n";
  return out + "</function>\n</tool_call>";
}

}  // namespace

TEST_CASE("Values between tags have the types that the schema allows, texts first", "[chat]") {
  struct Case {
    const char *key, *value, *json;
  };
  for (const Case& c : {Case{"zip", "10115", R"("10115")"},
                        {"zip", "null", "null"},
                        {"zip", "None", "null"},
                        {"path", "null", R"("null")"},
                        {"phone", "301234", R"("301234")"},
                        {"mode", "1", R"("1")"},
                        {"level", "1", "1"},
                        {"fixed", "7", R"("7")"},
                        {"key", "42", R"("42")"},
                        {"deep", "4.5", R"("4.5")"},
                        {"self", "12", "12"},
                        {"lost", "12", "12"},
                        {"any", "12", "12"},
                        {"any", "True", R"("True")"},
                        {"count", " 5 ", "5"},
                        {"count", "five", R"("five")"},
                        {"limit", "5", "5"},
                        {"limit", "null", "null"},
                        {"flag", "True", "true"},
                        {"flag", "false", "false"},
                        {"names", "['a', \"b'c\", 'd\\n\\x41\\u00e9',]", R"(["a", "b'c", "d\nA\u00e9"])"},
                        {"names", R"(["a", "b"])", R"(["a", "b"])"},
                        {"names", "('a', 1.5, None, [], {})", R"(["a", 1.5, null, [], {}])"},
                        {"names", "['a'", R"("['a'")"},
                        {"names", "[1 2]", R"("[1 2]")"},
                        {"map", "{'k': True, \"l\": {'m': -1e3}}", R"({"k": true, "l": {"m": -1e3}})"},
                        {"map", "{1: 2}", R"("{1: 2}")"}}) {
    INFO(c.key << ": " << c.value);
    const std::string got = edit(tagged({{c.key, c.value}}));
    REQUIRE(got.starts_with("|edit{"));
    CHECK(Json::parse(got.substr(5, got.size() - 6)) == Json{{c.key, Json::parse(c.json)}});
  }
  CHECK(edit(tagged({{"names", std::string(100, '[') + std::string(100, ']')}})).starts_with("|edit{\"names\": \"[["));
}

TEST_CASE("A value between tags ends where the format ends it, and nowhere else", "[chat]") {
  for (const std::string value :
       {"x = \"</parameter>\"\ny = 1", "say </tool_call> now", "</function>", "a\n</function>\nb",
        "\n<parameter=other>\n", "<", "</parameter", "", "\n", "  two  ", "<tool_call>\n<function=edit>"}) {
    INFO(value);
    CHECK(edit(tagged({{"code", value}, {"path", "p"}})) ==
          "|edit{\"code\": " + Json(value).dump() + ", \"path\": \"p\"}|");
  }
  // Beside its tag.
  CHECK(edit("<tool_call><function=edit><parameter=path>a</parameter><parameter=count>2</parameter></function>"
             "</tool_call>") == R"(|edit{"path": "a", "count": 2}|)");
  // JSON decides for itself.
  CHECK(edit("<tool_call>\n{\"name\": \"edit\", \"arguments\": {\"code\": \"a </tool_call> b\"}}\n</tool_call>!") ==
        R"(|edit{"code": "a </tool_call> b"}|!)");
  CHECK(edit("<tool_call>\n{\"name\": \"edit\", \"arguments\": {\"code\": \"a\n\tb\"}}\n</tool_call>") ==
        R"(|edit{"code": "a\n\tb"}|)");
  CHECK(read(Format::deepseek,
             "<｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": "
             "\"<｜tool▁call▁end｜>\n\"}\n```<｜tool▁call▁end｜>") == R"(|weather{"city": "<｜tool▁call▁end｜>\n"}|)");
  CHECK(read(Format::llama3, "{\"name\": \"weather\", \"parameters\": {\"city\": \"a\r\nb\"}}") ==
        R"(|weather{"city": "a\u000d\nb"}|)");
}

TEST_CASE("Tags of a call that a model left out", "[chat]") {
  const std::string call = R"(|edit{"path": "a.txt"}|)";
  const std::string body = "<function=edit>\n<parameter=path>\na.txt\n";
  CHECK(edit("I will edit it.\n\n" + body + "</parameter>\n</function>\n</tool_call>") == "I will edit it." + call);
  CHECK(edit(body + "</parameter>\n</function>") == call);
  CHECK(edit(body + "</parameter>\n</function>\nDone.") == call + "Done.");
  CHECK(edit(body + "</parameter>\n</function>\n" + body + "</parameter>\n</function>") == call + call);
  CHECK(edit("<tool_call>" + body + "</parameter>\n</function>") == call);
  CHECK(edit("<tool_call>" + body + "</parameter>\n</tool_call>") == call);
  CHECK(edit("<tool_call>" + body + "</parameter>") == call);
  CHECK(edit("<tool_call>" + body + "</function>\n</tool_call>") == call);
  CHECK(edit(body + "</function>") == call);
  CHECK(edit("<tool_call>\n<function=edit>\n<parameter=path>\na.txt</parameter>\n</function>\n</tool_call>") == call);
  CHECK(edit("<tool_call>\n<function=edit>\n<parameter=path>\na.txt\n<parameter=count>\n3\n</parameter>\n</function>\n"
             "</tool_call>") == R"(|edit{"path": "a.txt", "count": 3}|)");
  // A value without its end is content; so are tags without <tool_call> that name no tool of the conversation.
  for (const std::string& bad :
       {"<tool_call>" + body, body, std::string("<tool_call><function=edit>"), std::string("<function=edit>"),
        std::string("<function=other>\n</function>"), std::string("<function=ed"), std::string("a <function= b"),
        std::string("<function=edits>")}) {
    CHECK(edit(bad) == bad);
  }
}

TEST_CASE("A call as the whole reply, as Llama 3 writes it", "[chat]") {
  const auto llama = [](const std::string& reply) { return read(Format::llama3, reply); };
  CHECK(llama(R"({"name": "weather", "parameters": {"city": "Paris"}})") == R"(|weather{"city": "Paris"}|)");
  CHECK(llama(R"( {"type": "function", "name": "stop", "parameters": {}}; {"name": "stop"})") == "|stop{}||stop{}|");
  CHECK(llama(R"(<|python_tag|>{"name": "any", "parameters": {"x": "{"}})") == R"(|any{"x": "{"}|)");
  for (const char* other :
       {R"({"name": "unknown", "parameters": {}})", R"({"answer": 42})", R"({"name": "weather")",
        R"(The answer: {"name": "weather"})", "{", "<|python_tag|>print(1)", R"({"name": "stop",})"})
    CHECK(llama(other) == other);
  // An answer in JSON is not held back until it is complete.
  reply::Parser parser(setup_for(Format::llama3));
  parser.push(R"({"answer": [1, )");
  CHECK(parts_of(parser) == R"({"answer": [1,)");
  // Without tools no answer is a call.
  CHECK(read(setup_for(Format::llama3, "{}"), R"({"name": "weather", "parameters": {}})") ==
        R"({"name": "weather", "parameters": {}})");
}

TEST_CASE("Calls after one marker, as Mistral and Firefunction write them", "[chat]") {
  const auto mistral = [](const std::string& reply) { return read(Format::mistral, reply); };
  CHECK(
      mistral(R"([TOOL_CALLS] [{"name": "f", "arguments": {"a": "]"}}, {"name": "g", "arguments": {}, "id": "x"}])") ==
      R"(|f{"a": "]"}||g{}|)");
  CHECK(mistral(R"(Wait.[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{})") ==
        R"(Wait.|f{"a": 1}||g{}|)");
  CHECK(mistral(R"([TOOL_CALLS]f{"a": 1}</s>)") == R"(|f{"a": 1}|</s>)");
  for (const char* bad : {"[TOOL_CALLS]", "[TOOL_CALLS][]", "[TOOL_CALLS][1]", "[TOOL_CALLS][{\"name\": \"f\"}",
                          "[TOOL_CALLS]two words{}", "[TOOL_CALLS]f[ARGS]{", "[TOOL_CALLS]f[ARGS]{x}"})
    CHECK(mistral(bad) == bad);
  const auto fire = [](const std::string& reply) { return read(Format::firefunction, reply); };
  CHECK(fire(R"( functools[{"name": "f", "arguments": {"a": 1}}])") == R"(|f{"a": 1}|)");
  CHECK(fire("import functools\nfunctools.cache [1]") == "import functools\nfunctools.cache [1]");
  // What stands between the marker and the arguments has a bound, and the same one however the text is cut.
  const std::string far = "[TOOL_CALLS]f[CALL_ID]" + std::string(600, 'x') + "[ARGS]{}";
  CHECK(read(Format::mistral, far) == far);
  // So has white space before a call, and before reasoning.
  const std::string space(257, '\n'), call = R"({"name": "stop", "parameters": {}})";
  CHECK(read(Format::llama3, call + space + call) == "|stop{}|" + call);
  CHECK(read(Format::plain, space + "<think>a</think>") == space + "<think>a</think>");
}

TEST_CASE("Calls between markers, as DeepSeek writes them", "[chat]") {
  const auto deepseek = [](const std::string& reply) { return read(Format::deepseek, reply); };
  CHECK(deepseek("I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n"
                 "{\"city\": \"Paris\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>stop\n"
                 "```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>") ==
        "I look.|weather{\"city\": \"Paris\"}||stop{}|");
  CHECK(deepseek("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>stop<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"
                 "<｜tool▁calls▁end｜>") == "|stop{\"a\": 1}|");
  for (const char* bad : {"<｜tool▁call▁begin｜>function<｜tool▁call▁end｜>",
                          "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\n```<｜tool▁call▁end｜>"})
    CHECK(deepseek(bad) == bad);
}

TEST_CASE("Parts with recipients, as Functionary writes them", "[chat]") {
  reply::Setup begun = setup_for(Format::functionary);
  begun.begun = ">>>";
  CHECK(read(begun, "all\nHello, 1 >>> 2\n>>>weather\n{\"city\": \"Paris\"}>>>stop\n{}") ==
        "Hello, 1 >>> 2|weather{\"city\": \"Paris\"}||stop{}|");
  CHECK(read(begun, "python\nprint(1 >>> 2)\nx") == "|pythonprint(1 >>> 2)\nx|");
  CHECK(read(begun, "Hello") == "Hello");
  CHECK(read(begun, "") == "");
  CHECK(read(begun, "unknown\n{}") == "unknown\n{}");
  CHECK(read(begun, "weather\nno JSON") == "weather\nno JSON");
  CHECK(read(Format::functionary, ">>>all\nHello") == "Hello");
  CHECK(read(Format::functionary, ">>> 1 + 1\n2") == ">>> 1 + 1\n2");
}

TEST_CASE("Content and reasoning come as soon as they are certain", "[chat]") {
  reply::Parser parser(setup_for(Format::hermes));
  const auto push = [&](const char* text) {
    parser.push(text);
    return parts_of(parser);
  };
  CHECK(push("<think>") == "");
  CHECK(push("I ") == "(I)");
  CHECK(push("see</") == "( see)");
  CHECK(push("think>") == "");
  CHECK(push("\n\nWell") == "Well");
  CHECK(push(" <") == "");
  CHECK(push("b> ") == " <b>");
  CHECK(push("<tool_call>{\"name\": \"f\"}") == "");
  CHECK(push("</tool_call>") == "|f{}|");
  CHECK(parser.message() ==
        R"({"role": "assistant", "content": "Well <b>", "reasoning_content": "I see", "tool_calls": )"
        R"([{"id": "call00000", "type": "function", "function": {"name": "f", "arguments": {}}}]})");
}

TEST_CASE("What cannot become JSON any more is content at once", "[chat]") {
  for (const auto& [format, text] : {std::pair{Format::llama3, R"({"name": <b>, )"},
                                     {Format::mistral, R"([TOOL_CALLS][{"name": <b>, )"},
                                     {Format::mistral, "[TOOL_CALLS]weather{<b>, "},
                                     {Format::firefunction, "functools[<b>, "},
                                     {Format::hermes, R"(<tool_call>{"name": <b>, )"}}) {
    reply::Parser parser(setup_for(format));
    parser.push(text);
    CAPTURE(text);
    CHECK(parts_of(parser) + " " == text);
  }
}

TEST_CASE("A reply of markers, or a call that never ends, takes time in proportion to its size", "[chat]") {
  // What is held back is looked at once, and given up at the bound.
  for (const Format format :
       {Format::hermes, Format::llama3, Format::mistral, Format::deepseek, Format::functionary, Format::firefunction}) {
    const std::string_view marker = reply::syntax_of(format).call;
    std::string markers;
    while (markers.size() < 2 * reply::kMaxCallBytes) markers += marker;
    for (const std::string& reply :
         {markers, std::string(marker) + std::string(2 * reply::kMaxCallBytes, '['),
          std::string(marker) + "weather\n{\"x\": \"" + std::string(2 * reply::kMaxCallBytes, 'x')}) {
      CAPTURE(static_cast<int>(format), reply.substr(0, 40));
      CHECK(read(setup_for(format), reply, 4096) == reply);
      CHECK(read(setup_for(format), reply, reply.size()) == reply);
    }
  }
}

TEST_CASE("Markers that become no call, and calls of many parameters, take time in proportion to their size",
          "[chat]") {
  const auto times = [](const std::string& text, std::size_t n) {
    std::string out;
    for (std::size_t i = 0; i < n; ++i) out += text;
    return out;
  };
  const std::string tool_call = R"({"name": "stop", "arguments": {}})";
  // What follows markers that begin no call is still read.
  CHECK(read(setup_for(Format::hermes), times("<tool_call>", 50) + tool_call + "</tool_call>", 4096) ==
        times("<tool_call>", 49) + "|stop{}|");
  for (const std::string& reply :
       {times("<tool_call>", 90'000) + "</tool_call>", times("<tool_call>{", 80'000) + "</tool_call>",
        times("<tool_call><function=f><parameter=k>", 30'000) + "</tool_call>",
        times("<tool_call>", 45'000) + std::string(400'000, ' ') + "</tool_call>", times("<function=", 90'000),
        times("<function=weather>", 50'000), times("<function=weather><parameter=city>\n", 30'000) + "x"}) {
    CAPTURE(reply.substr(0, 40));
    CHECK(read(setup_for(Format::hermes), reply, reply.size()) == reply);
    CHECK(read(setup_for(Format::hermes), reply, 10'000) == reply);
  }
  const std::string arrays = times("[TOOL_CALLS][", 80'000) + times("]", 80'000);
  CHECK(read(setup_for(Format::mistral), arrays, arrays.size()) == arrays);
  const std::string begins = times("<｜tool▁call▁begin｜>", 20'000) + "<｜tool▁call▁end｜>";
  CHECK(read(setup_for(Format::deepseek), begins, begins.size()) == begins);
  std::string parameters = "<tool_call><function=f>", arguments;
  for (int i = 0; i < 30'000; ++i) {
    parameters += fmt::format("<parameter=k{}>{}</parameter>", i, i);
    arguments += fmt::format("{}\"k{}\": {}", i == 0 ? "" : ", ", i, i);
  }
  parameters += "</function></tool_call>";
  CHECK(read(setup_for(Format::hermes), parameters, parameters.size()) == "|f{" + arguments + "}|");
}

namespace {

constexpr const char* kWeatherTool = R"({"type": "function", "function": {
  "name": "get_weather", "description": "The weather", "parameters": {"type": "object", "properties": {
    "city": {"type": "string", "description": "Where"}, "days": {"type": "integer", "description": "How far"}}}}})";

/// Arguments of the tool, with markers in texts where they end none in the format.
Json random_arguments(std::mt19937& engine) {
  const auto pick = [&](std::initializer_list<const char*> texts) {
    return *(texts.begin() + engine() % texts.size());
  };
  std::string city;
  for (std::size_t n = engine() % 6; n-- > 0;)
    city += pick({"a",
                  " ",
                  "\"",
                  "\\",
                  "\n",
                  "x</tool_call>",
                  "x</parameter>",
                  "{",
                  "}",
                  "]",
                  "'",
                  "é",
                  "<",
                  ">>>",
                  "1",
                  "<tool_call>",
                  "[TOOL_CALLS]",
                  "null",
                  "x<parameter=days>",
                  "x</function>",
                  "\t"});
  Json arguments = {{"city", city}};
  if (engine() % 2 == 0) arguments["days"] = static_cast<int>(engine() % 2000) - 1000;
  return arguments;
}

/// A conversation with every variable that some template asks for.
Json conversation_about_weather() {
  const Json tool = Json::parse(kWeatherTool);
  return {{"messages", {{{"role", "user"}, {"content", "Weather?"}}}},
          {"tools", {tool}},
          {"functions", Json::array({tool}).dump()},
          {"datetime", "now"},
          {"bos_token", ""},
          {"eos_token", "</s>"},
          {"enable_thinking", false},
          {"add_generation_prompt", true}};
}

/// What a template writes of a message as the reply to a prompt: the text from where the prompt ends, up to the token
/// that ends the message.
std::string reply_of(const std::string& source, Json conversation, const Json& message, std::string& prompt) {
  ChatResult begun = render_chat(source, conversation.dump());
  if (!begun.ok()) {  // some template cannot write tools, in transformers either
    conversation.erase("tools");
    begun = render_chat(source, conversation.dump());
  }
  INFO(begun.message);
  REQUIRE(begun.ok());
  prompt = begun.text();
  conversation["messages"].push_back(message);
  conversation["add_generation_prompt"] = false;
  const ChatResult whole = render_chat(source, conversation.dump());
  INFO(whole.message);
  REQUIRE(whole.ok());
  // The two may part before the prompt's end, where it has begun a block of reasoning; not inside a marker.
  const std::string& text = whole.text();
  const auto parting = std::mismatch(text.begin(), text.end(), prompt.begin(), prompt.end()).first;
  auto at = static_cast<std::size_t>(parting - text.begin());
  const std::size_t open = text.rfind('<', at - 1), close = text.rfind('>', at - 1);
  if (open != text.npos && (close == text.npos || close < open)) at = open;
  std::string reply = text.substr(at);
  for (const char* end :
       {"<|im_end|>", "<|eot_id|>", "<|end|>", "<｜end▁of▁sentence｜>", "</s>", "<|END_OF_TURN_TOKEN|>"})
    reply.resize(std::min(reply.find(end), reply.size()));
  return reply;
}

/// The message that a reply to such a prompt is read as.
Json message_read(Format format, const std::string& prompt, const std::string& reply) {
  reply::Setup setup = setup_for(format, conversation_about_weather().dump());
  if (prompt.ends_with(">>>")) setup.begun = ">>>";
  reply::Parser parser(std::move(setup));
  parser.push(reply);
  parser.finish();
  return Json::parse(parser.message());
}

}  // namespace

TEST_CASE("What a real template writes of a message is read back as that message", "[chat]") {
  SKIP_UNLESS_TEST_DATA("golden-chat/conversations.json");
  const std::filesystem::path folder =
      find_test_data("golden-chat/conversations.json").parent_path() / ".." / "chat-templates";
  std::vector<Json> all = {{{"city", "Paris <\"x\">"}, {"days", 3}}};
  std::mt19937 engine(5);
  for (int i = 0; i < 40; ++i) all.push_back(random_arguments(engine));
  int n_calls = 0, n_plain = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string(), source = read_text(file.path());
    if (name.starts_with("CohereForAI")) continue;  // asks for another kind of reply than it writes of the past
    const Format format = reply::find_format(source);
    const reply::Syntax& syntax = reply::syntax_of(format);
    CAPTURE(name, static_cast<int>(format));
    std::string prompt;
    const Json plain = {{"role", "assistant"}, {"content", "It is 21."}};
    const std::string answer = reply_of(source, conversation_about_weather(), plain, prompt);
    CAPTURE(answer);
    CHECK(message_read(format, prompt, answer) == plain);
    ++n_plain;
    if (format == Format::plain) continue;

    for (const Json& arguments : all) {
      Json calling = {{"role", "assistant"}, {"content", syntax.null_content ? Json() : Json("")}};
      calling["tool_calls"] = {
          {{"id", "call00000"},
           {"type", "function"},
           {"function",
            {{"name", "get_weather"}, {"arguments", syntax.text_arguments ? Json(arguments.dump()) : arguments}}}}};
      const std::string call = reply_of(source, conversation_about_weather(), calling, prompt);
      CAPTURE(call);
      CHECK(message_read(format, prompt, call) == calling);
    }
    ++n_calls;
  }
  CHECK(n_calls >= 8);
  CHECK(n_plain >= 10);
}

TEST_CASE("Where nothing may be called, what looks like a call is content", "[chat]") {
  const auto read_without = [](Format format, const std::string& text) {
    reply::Setup setup;
    setup.format = format;
    setup.calls = false;
    reply::Parser parser(std::move(setup));
    parser.push(text);
    parser.finish();
    return parser.message();
  };
  const auto content_of = [&](Format format, const std::string& text) {
    const Json message = Json::parse(read_without(format, text));
    CHECK_FALSE(message.contains("tool_calls"));
    return message["content"].get<std::string>();
  };
  for (const std::string text :
       {R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)", R"({"name": "f", "parameters": {}})",
        R"([TOOL_CALLS][{"name": "f", "arguments": {}}])", R"(functools[{"name": "f", "arguments": {}}])"})
    for (const Format format :
         {Format::hermes, Format::llama3, Format::mistral, Format::deepseek, Format::firefunction})
      CHECK(content_of(format, text) == text);
  CHECK(content_of(Format::functionary, ">>>all\nHi") == "Hi");
  CHECK(content_of(Format::functionary, ">>>python\nprint(1)") == ">>>python\nprint(1)");
}
