// responses_answer.cpp: what a chat completion gives, as OpenAI's response or its events.
#include <chrono>
#include <utility>

#include "responses.h"

namespace server {
namespace {

Json output_text(const std::string& text) {
  return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

Json reasoning_text(const std::string& text) { return {{"type", "reasoning_text"}, {"text", text}}; }

Json message_of(const std::string& id, const char* status, Json content) {
  return {{"id", id}, {"type", "message"}, {"status", status}, {"role", "assistant"}, {"content", std::move(content)}};
}

Json reasoning_of(const std::string& id, const char* status, Json content) {
  return {{"id", id},
          {"type", "reasoning"},
          {"status", status},
          {"summary", Json::array()},
          {"content", std::move(content)},
          {"encrypted_content", nullptr}};
}

std::int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string Responses::request(const std::string& body) { return text_of(chat_of_responses(body, asked_)); }

Response Responses::refusal(const Refusal& refused) const { return {refused.status, "application/json", refused.json}; }

void Responses::tell(Json event) {
  if (!is_stream()) return;
  event["sequence_number"] = n_told_++;
  give_event(event);
}

void Responses::begin(const Head& head, const Facts&) {
  hex_ = head.hex;
  response_ = {{"id", "resp_" + hex_},
               {"object", "response"},
               {"created_at", head.created},
               {"completed_at", nullptr},
               {"status", "in_progress"},
               {"background", false},
               {"error", nullptr},
               {"incomplete_details", nullptr},
               {"model", head.model},
               {"output", Json::array()},
               {"usage", nullptr}};
  for (const auto& [key, value] : asked_.shown.items()) response_[key] = value;
  tell({{"type", "response.created"}, {"response", response_}});
  tell({{"type", "response.in_progress"}, {"response", response_}});
}

// ---- Items

std::string Responses::id_of_item(const char* kind) const {
  return std::string(kind) + '_' + hex_ + std::to_string(response_["output"].size());
}

Json Responses::about_item(const char* type) const {
  return {{"type", type},
          {"item_id", id_of_item(open_ == Item::reasoning ? "rs"
                                 : open_ == Item::message ? "msg"
                                                          : "fc")},
          {"output_index", response_["output"].size()}};
}

void Responses::add_item(const Json& item) {
  tell({{"type", "response.output_item.added"}, {"output_index", response_["output"].size()}, {"item", item}});
}

void Responses::finish_item(Json item) {
  tell({{"type", "response.output_item.done"}, {"output_index", response_["output"].size()}, {"item", item}});
  response_["output"].push_back(std::move(item));
}

void Responses::open(Item item) {
  if (open_ == item) return;
  close("completed");
  open_ = item;
  const bool is_message = item == Item::message;
  const std::string id = id_of_item(is_message ? "msg" : "rs");
  add_item(is_message ? message_of(id, "in_progress", Json::array()) : reasoning_of(id, "in_progress", Json::array()));
  Json event = about_item("response.content_part.added");
  event["content_index"] = 0;
  event["part"] = is_message ? output_text("") : reasoning_text("");
  tell(std::move(event));
}

void Responses::close(const char* status) {
  if (open_ == Item::none) return;
  const bool is_message = open_ == Item::message;
  const std::string text = std::exchange(text_, {});
  Json event = about_item(is_message ? "response.output_text.done" : "response.reasoning_text.done");
  event["content_index"] = 0;
  event["text"] = text;
  if (is_message) event["logprobs"] = Json::array();
  tell(std::move(event));
  const Json part = is_message ? output_text(text) : reasoning_text(text);
  event = about_item("response.content_part.done");
  event["content_index"] = 0;
  event["part"] = part;
  tell(std::move(event));
  const std::string id = id_of_item(is_message ? "msg" : "rs");
  open_ = Item::none;
  finish_item(is_message ? message_of(id, status, Json::array({part})) : reasoning_of(id, status, Json::array({part})));
}

void Responses::add_reasoning(const std::string& text) {
  open(Item::reasoning);
  text_ += text;
  Json event = about_item("response.reasoning_text.delta");
  event["content_index"] = 0;
  event["delta"] = text;
  tell(std::move(event));
}

void Responses::add_text(const std::string& text) {
  open(Item::message);
  text_ += text;
  Json event = about_item("response.output_text.delta");
  event["content_index"] = 0;
  event["delta"] = text;
  event["logprobs"] = Json::array();
  tell(std::move(event));
}

void Responses::add_call(const std::string& id, const std::string& name, const std::string& arguments) {
  close("completed");
  Json item = {{"id", id_of_item("fc")}, {"type", "function_call"}, {"status", "in_progress"}, {"call_id", id},
               {"name", name},           {"arguments", ""}};
  add_item(item);
  Json event = about_item("response.function_call_arguments.delta");
  event["delta"] = arguments;
  tell(std::move(event));
  event = about_item("response.function_call_arguments.done");
  event["name"] = name;
  event["arguments"] = arguments;
  tell(std::move(event));
  item["status"] = "completed";
  item["arguments"] = arguments;
  finish_item(std::move(item));
}

// ---- The end

void Responses::end(const std::string& finish, const ChatUsage& usage, const Facts&) {
  const bool is_cut = finish == "length";
  close(is_cut ? "incomplete" : "completed");
  response_["status"] = is_cut ? "incomplete" : "completed";
  if (is_cut) {
    response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
  } else {
    response_["completed_at"] = seconds_since_1970();
  }
  response_["usage"] = {{"input_tokens", usage.prompt},
                        {"input_tokens_details", {{"cached_tokens", usage.cached}, {"cache_write_tokens", 0}}},
                        {"output_tokens", usage.completion},
                        {"output_tokens_details", {{"reasoning_tokens", usage.reasoning}}},
                        {"total_tokens", usage.prompt + usage.completion}};
  if (!is_stream()) return give(text_of(response_));
  tell({{"type", is_cut ? "response.incomplete" : "response.completed"}, {"response", std::move(response_)}});
}

void Responses::fail(const Json& error) {
  if (response_.is_null()) begin({}, {});
  close("incomplete");
  response_["status"] = "failed";
  response_["error"] = {{"code", "server_error"}, {"message", error.value("message", "The request failed")}};
  tell({{"type", "response.failed"}, {"response", std::move(response_)}});
}

}  // namespace server
