// responses.h: OpenAI's POST /v1/responses, of which nothing is stored.
#pragma once

#include <string>
#include <string_view>

#include "chat_answer.h"

namespace server {

/// What the answer needs of the request.
struct ResponsesAsked {
  bool is_stream = false;
  Json shown;  ///< fields of the response that say what was asked for
};

/// The request as a chat completion. Throws Refusal.
Json chat_of_responses(std::string_view body, ResponsesAsked& asked);

class Responses final : public ChatAnswer {
 public:
  std::string request(const std::string& body) override;
  bool is_stream() const override { return asked_.is_stream; }
  Response refusal(const Refusal& refused) const override;

 protected:
  void begin(const Head& head, const Facts& facts) override;
  void add_reasoning(const std::string& text) override;
  void add_text(const std::string& text) override;
  void add_call(const std::string& id, const std::string& name, const std::string& arguments) override;
  void end(const std::string& finish, const ChatUsage& usage, const Facts& facts) override;
  void fail(const Json& error) override;

 private:
  enum class Item : std::uint8_t { none, reasoning, message };
  void open(Item item);
  /// `status`: of the item that is open.
  void close(const char* status);
  /// An event, with its number; nothing where none are asked for.
  void tell(Json event);
  /// Of the item that is open, or comes next.
  Json about_item(const char* type) const;
  std::string id_of_item(const char* kind) const;
  void add_item(const Json& item);
  void finish_item(Json item);

  ResponsesAsked asked_;
  Json response_;
  std::string hex_;
  Item open_ = Item::none;
  std::string text_;  ///< of the item that is open
  std::uint64_t n_told_ = 0;
};

}  // namespace server
