// conversation.cpp: see conversation.h.
#include "conversation.h"

#include <utility>

namespace server {

Conversation::Message& Conversation::last_of(std::string_view role, bool joins) {
  if (!joins || last_role() != role) messages_.push_back({std::string(role)});
  return messages_.back();
}

void Conversation::add_text(std::string_view role, std::string text, bool joins) {
  last_of(role, joins).texts.push_back(std::move(text));
}

void Conversation::add_reasoning(std::string_view text) {
  if (!text.empty()) last_of("assistant", true).reasoning += text;
}

void Conversation::add_call(std::string id, std::string name, std::string arguments) {
  Json call = {{"id", std::move(id)}, {"type", "function"}};
  call["function"] = {{"name", std::move(name)}, {"arguments", std::move(arguments)}};
  last_of("assistant", true).calls.push_back(std::move(call));
}

void Conversation::add_result(std::string id, std::string text) {
  Message& message = last_of("tool", false);
  message.tool_call_id = std::move(id);
  message.texts.push_back(std::move(text));
}

Json Conversation::take() {
  Json out = Json::array();
  for (Message& message : messages_) {
    Json made = {{"role", std::move(message.role)}};
    if (!message.tool_call_id.empty()) made["tool_call_id"] = std::move(message.tool_call_id);
    if (!message.reasoning.empty()) made["reasoning_content"] = std::move(message.reasoning);
    if (message.texts.size() == 1) {
      made["content"] = std::move(message.texts[0]);
    } else if (message.texts.empty()) {
      made["content"] = message.calls.empty() ? Json("") : Json();
    } else {
      Json& parts = made["content"] = Json::array();
      for (std::string& text : message.texts) parts.push_back({{"type", "text"}, {"text", std::move(text)}});
    }
    if (!message.calls.empty()) made["tool_calls"] = std::move(message.calls);
    out.push_back(std::move(made));
  }
  messages_.clear();
  return out;
}

Json tool_of(const std::string& name, const std::optional<std::string>& description, const Json* parameters) {
  Json function = {{"name", name}};
  if (description) function["description"] = *description;
  if (parameters != nullptr) function["parameters"] = *parameters;
  return {{"type", "function"}, {"function", std::move(function)}};
}

}  // namespace server
