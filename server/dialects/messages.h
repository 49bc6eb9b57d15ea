// messages.h: Anthropic's POST /v1/messages and /v1/messages/count_tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat_answer.h"

namespace server {

/// What the answer needs of the request.
struct MessagesAsked {
  bool is_stream = false;
  bool omits_thinking = false;  ///< blocks of thinking come without their text
  std::vector<std::string> stops;
};

/// The request as a chat completion. `counts`: its tokens are to be counted alone. Throws Refusal.
Json chat_of_messages(std::string_view body, bool counts, MessagesAsked& asked);

class Messages final : public ChatAnswer {
 public:
  explicit Messages(bool counts) : counts_(counts) {}

  std::string request(const std::string& body) override;
  bool is_stream() const override { return asked_.is_stream; }
  bool counts() const override { return counts_; }
  std::string counted(std::uint32_t n_tokens) const override;
  Response refusal(const Refusal& refused) const override;

 protected:
  void begin(const Head& head, const Facts& facts) override;
  void add_reasoning(const std::string& text) override;
  void add_text(const std::string& text) override;
  void add_call(const std::string& id, const std::string& name, const std::string& arguments) override;
  void end(const std::string& finish, const ChatUsage& usage, const Facts& facts) override;
  void fail(const Json& error) override;

 private:
  enum class Block : std::uint8_t { none, thinking, text };
  void open(Block block);
  void close();
  void give_delta(Json delta);

  bool counts_;
  MessagesAsked asked_;
  Json message_;
  Block open_ = Block::none;
  std::size_t index_ = 0;  ///< of the block that is open, or comes next
  std::string text_;       ///< of the block that is open
};

}  // namespace server
