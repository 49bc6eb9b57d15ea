// conversation.h: messages of a chat completion, made of the pieces that dialects have: texts, reasoning, calls of
// tools and their results. Pieces of an assistant that follow each other are one message.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "json_input.h"

namespace server {

class Conversation {
 public:
  /// `joins`: to the message before, where that has the same role.
  void add_text(std::string_view role, std::string text, bool joins);
  void add_reasoning(std::string_view text);
  /// `arguments`: JSON.
  void add_call(std::string id, std::string name, std::string arguments);
  void add_result(std::string id, std::string text);

  bool is_empty() const { return messages_.empty(); }
  /// Of the last message, or "".
  std::string_view last_role() const { return messages_.empty() ? std::string_view() : messages_.back().role; }
  Json take();

 private:
  struct Message {
    std::string role;
    std::vector<std::string> texts = {};
    std::string reasoning = {}, tool_call_id = {};
    Json calls = Json::array();
  };
  Message& last_of(std::string_view role, bool joins);

  std::vector<Message> messages_;
};

/// A tool as chat completions have it. `parameters`: a JSON schema, or null.
Json tool_of(const std::string& name, const std::optional<std::string>& description, const Json* parameters);

}  // namespace server
