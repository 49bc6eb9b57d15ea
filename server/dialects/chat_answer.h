// chat_answer.h: the chunks of a chat completion, taken apart for dialects: what its one choice says, and how it ends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dialect.h"
#include "json_input.h"

namespace server {

struct ChatUsage {
  std::uint64_t prompt = 0, cached = 0, completion = 0, reasoning = 0;
};

class ChatAnswer : public Dialect {
 public:
  std::string add(std::string_view bytes, bool is_last, const Facts& facts) final;

 protected:
  struct Head {
    std::string hex;  ///< the part of the id that is of chance
    std::string model;
    std::int64_t created = 0;
  };

  // ---- In the order in which it happens: begin() once, and end() or fail() at last.

  virtual void begin(const Head& head, const Facts& facts) = 0;
  virtual void add_reasoning(const std::string& text) = 0;
  virtual void add_text(const std::string& text) = 0;
  virtual void add_call(const std::string& id, const std::string& name, const std::string& arguments) = 0;
  /// `finish`: "stop", "length" or "tool_calls".
  virtual void end(const std::string& finish, const ChatUsage& usage, const Facts& facts) = 0;
  /// Of a stream that has begun: tells so. `error`: with a type and a message.
  virtual void fail(const Json& error) = 0;

  /// For the client: an event that is named by its type.
  void give_event(const Json& event);
  void give(std::string_view bytes) { out_ += bytes; }

 private:
  void take_event(std::string_view event, const Facts& facts);
  void take_delta(const Json& delta);

  std::string buffer_, out_, finish_;
  ChatUsage usage_;
  bool has_begun_ = false, has_failed_ = false;
};

/// The status of HTTP for an error of a chat completion that had begun.
int status_of_error(const Json& error);

}  // namespace server
