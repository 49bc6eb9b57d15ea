// chat_answer.cpp: see chat_answer.h.
#include "chat_answer.h"

#include <utility>

namespace server {
namespace {

constexpr std::string_view kEndOfEvent = "\n\n";

const std::string& text_in(const Json& object, std::string_view key) {
  static const std::string kNone;
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get_ref<const std::string&>() : kNone;
}

std::uint64_t count_in(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::uint64_t>() : 0;
}

const Json& object_in(const Json& object, std::string_view key) {
  static const Json kNone = Json::object();
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : kNone;
}

const Json& list_in(const Json& object, std::string_view key) {
  static const Json kNone = Json::array();
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : kNone;
}

}  // namespace

int status_of_error(const Json& error) {
  const std::string& type = text_in(error, "type");
  if (type == "invalid_request_error") return 400;
  if (type == "not_found_error") return 404;
  return type == "overloaded_error" ? 503 : 500;
}

std::string ChatAnswer::add(std::string_view bytes, bool is_last, const Facts& facts) {
  buffer_ += bytes;
  std::size_t at = 0;
  for (std::size_t end = 0; (end = buffer_.find(kEndOfEvent, at)) != std::string::npos; at = end + kEndOfEvent.size())
    take_event(std::string_view(buffer_).substr(at, end - at), facts);
  buffer_.erase(0, at);
  if (is_last && !has_failed_) end(finish_, usage_, facts);
  return std::exchange(out_, {});
}

void ChatAnswer::take_event(std::string_view event, const Facts& facts) {
  constexpr std::string_view kData = "data: ";
  if (has_failed_ || !event.starts_with(kData)) return;
  const auto chunk = try_read_object(event.substr(kData.size()));
  if (!chunk) return;  // [DONE]
  const Json& error = object_in(*chunk, "error");
  if (!error.empty()) {
    has_failed_ = true;
    if (!is_stream()) throw Refusal{status_of_error(error), text_of(*chunk)};
    return fail(error);
  }
  if (!std::exchange(has_begun_, true)) {
    const std::string& id = text_in(*chunk, "id");
    begin(
        {id.substr(id.find('-') + 1), text_in(*chunk, "model"), static_cast<std::int64_t>(count_in(*chunk, "created"))},
        facts);
  }
  for (const Json& choice : list_in(*chunk, "choices")) {
    take_delta(object_in(choice, "delta"));
    const std::string& finish = text_in(choice, "finish_reason");
    if (!finish.empty()) finish_ = finish;
  }
  const Json& usage = object_in(*chunk, "usage");
  if (usage.empty()) return;
  usage_ = {count_in(usage, "prompt_tokens"), count_in(object_in(usage, "prompt_tokens_details"), "cached_tokens"),
            count_in(usage, "completion_tokens"),
            count_in(object_in(usage, "completion_tokens_details"), "reasoning_tokens")};
}

void ChatAnswer::take_delta(const Json& delta) {
  const std::string &reasoning = text_in(delta, "reasoning_content"), &content = text_in(delta, "content");
  if (!reasoning.empty()) add_reasoning(reasoning);
  if (!content.empty()) add_text(content);
  for (const Json& call : list_in(delta, "tool_calls")) {
    const Json& function = object_in(call, "function");
    add_call(text_in(call, "id"), text_in(function, "name"), text_in(function, "arguments"));
  }
}

void ChatAnswer::give_event(const Json& event) {
  out_.append("event: ").append(text_in(event, "type")).append("\ndata: ").append(text_of(event)).append(kEndOfEvent);
}

}  // namespace server
