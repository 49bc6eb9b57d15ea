// Fuzzes replies of models: the input chooses a family and text made of markers, names, JSON and plain pieces. How the
// text is cut into pieces changes nothing, and the message that comes of it is JSON.
#include "reply/parser.h"

#include <array>

#include "choices.h"
#include "formats/json.h"

namespace {

using qinfer::fuzz::Choices;
using namespace qinfer;

constexpr const char* kTools =
    R"({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
      "a": {"type": "string"}, "n": {"type": "integer"}, "l": {"type": "array"}}}}}, {"name": "g"}, 7]})";

constexpr const char* kPieces[] = {"<think>",
                                   "</think>",
                                   "[THINK]",
                                   "[/THINK]",
                                   "<tool_call>",
                                   "</tool_call>",
                                   "<function=f>",
                                   "</function>",
                                   "<parameter=a>",
                                   "</parameter>",
                                   "<function=g>\n",
                                   "<parameter=a>\n",
                                   "<parameter=n>\n",
                                   "<parameter=l>\n",
                                   "\n</parameter>\n",
                                   "\n</function>\n",
                                   "['x', None]",
                                   "{'k': True}",
                                   "<|python_tag|>",
                                   "[TOOL_CALLS]",
                                   "[ARGS]",
                                   "[CALL_ID]",
                                   "<\xef\xbd\x9ctool\xe2\x96\x81"
                                   "calls\xe2\x96\x81"
                                   "begin\xef\xbd\x9c>",
                                   "<\xef\xbd\x9ctool\xe2\x96\x81"
                                   "call\xe2\x96\x81"
                                   "begin\xef\xbd\x9c>",
                                   "<\xef\xbd\x9ctool\xe2\x96\x81sep\xef\xbd\x9c>",
                                   "<\xef\xbd\x9ctool\xe2\x96\x81"
                                   "call\xe2\x96\x81"
                                   "end\xef\xbd\x9c>",
                                   "<\xef\xbd\x9ctool\xe2\x96\x81"
                                   "calls\xe2\x96\x81"
                                   "end\xef\xbd\x9c>",
                                   "```json\n",
                                   "\n```",
                                   "function",
                                   ">>>",
                                   ">>>all\n",
                                   ">>>f\n",
                                   ">>>python\n",
                                   "functools[",
                                   "{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}",
                                   "{\"name\": \"f\", \"parameters\": {}}",
                                   "{\"type\": \"function\", ",
                                   "{\"name\": \"g\"}",
                                   "\"arguments\": ",
                                   "\"name\": ",
                                   "\"f\"",
                                   "{",
                                   "}",
                                   "[",
                                   "]",
                                   "\"",
                                   "\\",
                                   "\\u00e9",
                                   "\\ud800",
                                   ",",
                                   ":",
                                   "<",
                                   ">",
                                   "</",
                                   "1e5",
                                   "null",
                                   "true",
                                   "f",
                                   " ",
                                   "\n",
                                   "\xc3\xa9",
                                   "\xf0\x9f\x98\x80",
                                   "text"};

reply::Setup make_setup(Choices& choices) {
  static const auto tools = formats::parse_json(kTools, "conversation");
  constexpr std::array kFormats = {reply::Format::plain,       reply::Format::hermes,   reply::Format::llama3,
                                   reply::Format::mistral,     reply::Format::deepseek, reply::Format::functionary,
                                   reply::Format::firefunction};
  reply::Setup setup;
  setup.format = kFormats[choices.below(kFormats.size())];
  setup.in_reasoning = choices.one_of(4);
  if (!choices.one_of(4)) setup.tools = reply::ToolList(tools.value().root());
  // As src/engine/chat_reply.cpp has it: no other family's prompts end with a marker.
  if (setup.format == reply::Format::functionary && choices.one_of(2)) setup.begun = ">>>";
  return setup;
}

struct Read {
  std::string parts, message;
};

/// Text as a detokeniser gives it: UTF-8.
std::string make_text(Choices& choices) {
  std::string text;
  while (!choices.done() && text.size() < 4096) {
    std::string piece = choices.of(kPieces);
    if (choices.one_of(8)) {
      piece = choices.text(1 + choices.below(8));
      for (char& byte : piece) byte = static_cast<char>(byte & 0x7f);
    }
    text += piece;
  }
  return text;
}

/// All parts, those of one kind that follow each other together, and the message.
Read read(const reply::Setup& setup, std::string_view text, Choices* cuts) {
  reply::Parser parser(setup);
  Read out;
  reply::PartKind last = reply::PartKind::none;
  const auto take = [&] {
    for (reply::Part part = parser.next(); part.kind != reply::PartKind::none; part = parser.next()) {
      if (part.kind != last || part.kind == reply::PartKind::call)
        out.parts += "\x01" + std::to_string(static_cast<int>(part.kind)) + part.name + "\x02" + part.id + "\x02";
      out.parts += part.text;
      last = part.kind;
    }
  };
  while (!text.empty()) {
    const std::size_t n = cuts == nullptr ? text.size() : std::min(text.size(), 1 + cuts->below(16));
    parser.push(text.substr(0, n));
    text.remove_prefix(n);
    take();
  }
  parser.finish();
  take();
  out.message = parser.message();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Choices choices({reinterpret_cast<const char*>(data), size});
  const reply::Setup setup = make_setup(choices);
  Choices cuts(std::string_view(reinterpret_cast<const char*>(data), size));
  const std::string text = make_text(choices);
  const Read whole = read(setup, text, nullptr), cut = read(setup, text, &cuts);
  if (whole.parts != cut.parts || whole.message != cut.message) __builtin_trap();
  if (!formats::parse_json(whole.message, "message").ok()) __builtin_trap();
  return 0;
}
