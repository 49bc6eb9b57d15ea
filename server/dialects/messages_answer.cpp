// messages_answer.cpp: what a chat completion gives, as Anthropic's message or its events.
#include <cctype>
#include <utility>

#include "messages.h"

namespace server {
namespace {

/// Of a block of thinking, which nobody signs; clients send it back as it is, and some drop blocks where it is empty.
constexpr const char* kSignature = "unsigned";

const char* type_of_status(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
  }
}

/// The id of a request is in its answer's head.
Json error_of(const char* type, const Json& message) {
  return {{"type", "error"}, {"error", {{"type", type}, {"message", message}}}, {"request_id", nullptr}};
}

std::vector<std::uint64_t> numbers_in(const std::string& text) {
  std::vector<std::uint64_t> numbers;
  bool is_inside = false;
  for (const char letter : text) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(letter)) != 0;
    if (is_digit && !is_inside) numbers.push_back(0);
    if (is_digit) numbers.back() = numbers.back() * 10 + static_cast<std::uint64_t>(letter - '0');
    is_inside = is_digit;
  }
  return numbers;
}

/// What does not fit the context, in the service's words: programs read them, to ask for fewer tokens or to shorten the
/// conversation. `message`: has the context's tokens, the prompt's and the new ones.
std::string too_long(const std::string& message) {
  const std::vector<std::uint64_t> numbers = numbers_in(message);
  if (numbers.size() != 3) return message;
  const std::string context = std::to_string(numbers[0]), prompt = std::to_string(numbers[1]);
  if (numbers[1] >= numbers[0]) return "prompt is too long: " + prompt + " tokens > " + context + " maximum";
  return "input length and `max_tokens` exceed context limit: " + prompt + " + " + std::to_string(numbers[2]) + " > " +
         context + ", decrease input length or `max_tokens` and try again";
}

/// Each message has all of these.
Json usage_of(std::uint64_t input, std::uint64_t cached, std::uint64_t output) {
  Json usage = {{"input_tokens", input},
                {"cache_creation_input_tokens", 0},
                {"cache_read_input_tokens", cached},
                {"output_tokens", output}};
  for (const char* key :
       {"cache_creation", "inference_geo", "output_tokens_details", "server_tool_use", "service_tier"})
    usage[key] = nullptr;
  return usage;
}

/// The specification requires `citations`, which may be null; the AI SDK refuses an answer in which it is.
Json text_block(const std::string& text) { return {{"type", "text"}, {"text", text}}; }

}  // namespace

std::string Messages::request(const std::string& body) { return text_of(chat_of_messages(body, counts_, asked_)); }

std::string Messages::counted(std::uint32_t n_tokens) const { return text_of(Json{{"input_tokens", n_tokens}}); }

Response Messages::refusal(const Refusal& refused) const {
  std::string message = "The request failed";
  const auto given = try_read_object(refused.json);
  if (given && given->contains("error")) {
    const Json& error = (*given)["error"];
    if (error.contains("message") && error["message"].is_string()) message = error["message"];
    if (error.contains("code") && error["code"] == "context_length_exceeded") message = too_long(message);
  }
  return {refused.status, "application/json", text_of(error_of(type_of_status(refused.status), message))};
}

void Messages::begin(const Head& head, const Facts& facts) {
  message_ = {{"id", "msg_" + head.hex},  {"type", "message"},
              {"role", "assistant"},      {"model", head.model},
              {"content", Json::array()}, {"stop_reason", nullptr},
              {"stop_sequence", nullptr}, {"stop_details", nullptr},
              {"container", nullptr},     {"usage", usage_of(facts.prompt_tokens, 0, 0)}};
  if (!is_stream()) return;
  give_event({{"type", "message_start"}, {"message", message_}});
  give_event({{"type", "ping"}});
}

// ---- Blocks

void Messages::give_delta(Json delta) {
  if (is_stream()) give_event({{"type", "content_block_delta"}, {"index", index_}, {"delta", std::move(delta)}});
}

void Messages::open(Block block) {
  if (open_ == block) return;
  close();
  open_ = block;
  if (!is_stream()) return;
  Json made = block == Block::text ? text_block("") : Json{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
  give_event({{"type", "content_block_start"}, {"index", index_}, {"content_block", std::move(made)}});
}

void Messages::close() {
  const Block closed = std::exchange(open_, Block::none);
  if (closed == Block::none) return;
  const std::string text = std::exchange(text_, {});
  if (closed == Block::thinking) give_delta({{"type", "signature_delta"}, {"signature", kSignature}});
  if (is_stream()) {
    give_event({{"type", "content_block_stop"}, {"index", index_}});
  } else if (closed == Block::text) {
    message_["content"].push_back(text_block(text));
  } else {
    message_["content"].push_back({{"type", "thinking"}, {"thinking", text}, {"signature", kSignature}});
  }
  ++index_;
}

void Messages::add_reasoning(const std::string& text) {
  open(Block::thinking);
  if (asked_.omits_thinking) return;
  if (!is_stream()) text_ += text;
  give_delta({{"type", "thinking_delta"}, {"thinking", text}});
}

void Messages::add_text(const std::string& text) {
  open(Block::text);
  if (!is_stream()) text_ += text;
  give_delta({{"type", "text_delta"}, {"text", text}});
}

/// Arguments that are no object cannot be said: then there are none, and the tool will say what is missing.
void Messages::add_call(const std::string& id, const std::string& name, const std::string& arguments) {
  close();
  auto input = try_read_object(arguments);
  Json block = {{"type", "tool_use"}, {"id", id}, {"name", name}, {"input", Json::object()}};
  block["caller"] = {{"type", "direct"}};
  if (is_stream()) {
    give_event({{"type", "content_block_start"}, {"index", index_}, {"content_block", block}});
    give_delta({{"type", "input_json_delta"}, {"partial_json", input ? arguments : "{}"}});
    give_event({{"type", "content_block_stop"}, {"index", index_}});
  } else {
    if (input) block["input"] = std::move(*input);
    message_["content"].push_back(std::move(block));
  }
  ++index_;
}

void Messages::end(const std::string& finish, const ChatUsage& usage, const Facts& facts) {
  close();
  const bool is_stopped = finish == "stop" && facts.is_stopped && !asked_.stops.empty();
  const char* reason = finish == "length"       ? "max_tokens"
                       : finish == "tool_calls" ? "tool_use"
                       : is_stopped             ? "stop_sequence"
                                                : "end_turn";
  // Of several nobody says which one it was.
  const Json sequence = is_stopped && asked_.stops.size() == 1 ? Json(asked_.stops[0]) : Json();
  const Json counts = usage_of(usage.prompt - usage.cached, usage.cached, usage.completion);
  if (!is_stream()) {
    message_["stop_reason"] = reason;
    message_["stop_sequence"] = sequence;
    message_["usage"] = counts;
    return give(text_of(message_));
  }
  give_event({{"type", "message_delta"},
              {"delta", {{"stop_reason", reason}, {"stop_sequence", sequence}}},
              {"usage", counts}});
  give_event({{"type", "message_stop"}});
}

void Messages::fail(const Json& error) {
  give_event(error_of(type_of_status(status_of_error(error)), error.value("message", "The request failed")));
}

}  // namespace server
