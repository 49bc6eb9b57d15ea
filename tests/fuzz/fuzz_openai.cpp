// Fuzzes OpenAI's interface: the input is a request, as bytes or made of fields and values, and what a model answers.
// Reading never fails but with a message; a conversation that was read stays JSON in every form of a template; answers
// are JSON, a stream's chunks each.
#include <string>
#include <string_view>
#include <vector>

#include "choices.h"
#include "formats/json.h"
#include "openai/answer.h"
#include "openai/conversation.h"
#include "openai/request.h"

namespace {

using qinfer::fuzz::Choices;
using namespace qinfer;

constexpr const char* kFields[] = {"messages",
                                   "prompt",
                                   "input",
                                   "model",
                                   "n",
                                   "stream",
                                   "stream_options",
                                   "stop",
                                   "temperature",
                                   "top_p",
                                   "seed",
                                   "logit_bias",
                                   "logprobs",
                                   "top_logprobs",
                                   "tools",
                                   "tool_choice",
                                   "response_format",
                                   "max_tokens",
                                   "echo",
                                   "encoding_format",
                                   "dimensions",
                                   "chat_template_kwargs",
                                   "parallel_tool_calls",
                                   "user",
                                   "audio",
                                   "reasoning_effort",
                                   "max_completion_tokens",
                                   "best_of",
                                   "suffix",
                                   "x"};
constexpr const char* kValues[] = {
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "3",
    "1.5",
    "1e999",
    "18446744073709551615",
    "\"\"",
    "\"a\"",
    "\"auto\"",
    "\"none\"",
    "\"required\"",
    "\"base64\"",
    "\"\\ud83d\\ude00\\u0000\"",
    "[]",
    "{}",
    "[1,2]",
    "[[1],[2]]",
    "[\"a\",\"b\"]",
    "{\"include_usage\":true}",
    "{\"5\":-100,\"6\":1}",
    "{\"type\":\"json_object\"}",
    "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{}}}",
    "[{\"role\":\"user\",\"content\":\"Hi\"}]",
    "[{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":"
    "{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"x\"},"
    "{\"role\":\"user\",\"content\":\"Hi\",\"name\":null}]",
    "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}]",
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]"};
constexpr const char* kTexts[] = {"", "a", " b\n", "\"\\", "\xf0\x9f\x98\x80", "</x>", "\x01"};

std::string make_request(Choices& choices) {
  std::string json = "{";
  for (std::size_t n = 1 + choices.below(8); n-- > 0;) {
    if (json.size() > 1) json += ',';
    json += std::string("\"") + choices.of(kFields) + "\":" + choices.of(kValues);
  }
  return json + "}";
}

void must_parse(std::string_view json) {
  if (!formats::parse_json(json, "answer").ok()) __builtin_trap();
}

void check_conversation(const std::string& conversation, Choices& choices) {
  const auto parsed = formats::parse_json(conversation, "conversation");
  if (!parsed.ok()) __builtin_trap();
  openai::TemplateForms forms;
  for (std::size_t role = 0; role < openai::kRoles; ++role) {
    forms.text[role] = choices.one_of(2);
    forms.parts[role] = choices.one_of(2);
  }
  forms.object_arguments = choices.one_of(2);
  forms.text_arguments = choices.one_of(2);
  forms.null_content = choices.one_of(2);
  forms.empty_content = choices.one_of(2);
  auto adapted = openai::adapt(parsed.value().root(), forms);
  if (adapted.ok() && adapted.value()) must_parse(*adapted.value());
}

void check_answer(const openai::Request& request, Choices& choices) {
  if (request.n * (request.prompts.size() + 1) > 64) return;
  openai::Answer answer(request, {"id", "m", 1});
  const std::size_t n = request.kind == openai::Kind::chat ? request.n : request.n * request.prompts.size();
  std::string bytes;
  const auto take = [&] {
    bytes += answer.bytes();
    answer.drop_bytes();
  };
  for (std::size_t i = 0; i < n; ++i) {
    if (request.kind == openai::Kind::embeddings) {
      const float values[] = {1, -0.5F, static_cast<float>(choices.byte())};
      answer.add_embedding(values, 3);
      continue;
    }
    for (std::size_t steps = choices.below(8); steps-- > 0;) {
      const std::string_view text = choices.of(kTexts);
      const openai::LikelyToken top[] = {{text, -1}, {choices.of(kTexts), -2}, {"\xff", -3}};
      switch (choices.below(4)) {
        case 0: answer.add_content(i, text); break;
        case 1: answer.add_logprobs(i, top[choices.below(3)], {top, choices.below(4)}, 7, choices.one_of(2)); break;
        case 2:
          if (request.kind == openai::Kind::chat) answer.add_reasoning(i, text);
          break;
        default:
          if (request.kind == openai::Kind::chat) answer.add_call(i, {"id", text, choices.of(kTexts)});
          break;
      }
      if (choices.one_of(2)) take();
    }
    answer.end(i, choices.one_of(2) ? openai::Ending::length : openai::Ending::stop, {1, 2, 3, 4});
  }
  take();
  if (!answer.is_complete()) __builtin_trap();
  if (!request.stream) return must_parse(bytes);
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::size_t end = rest.find("\n\n");
    if (end == rest.npos || !rest.starts_with("data: ")) __builtin_trap();
    if (const std::string_view event = rest.substr(6, end - 6); event != "[DONE]") must_parse(event);
    rest.remove_prefix(end + 2);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Choices choices({reinterpret_cast<const char*>(data), size});
  const auto kind = static_cast<openai::Kind>(1 + choices.below(3));
  const bool raw = choices.one_of(4);
  const std::string json = raw ? std::string(reinterpret_cast<const char*>(data), size) : make_request(choices);
  auto request = openai::read_request(kind, json);
  if (!request.ok()) {
    must_parse(openai::error_json(request.take_status()));
    return 0;
  }
  if (kind == openai::Kind::chat) check_conversation(request.value().conversation, choices);
  check_answer(request.value(), choices);
  return 0;
}
