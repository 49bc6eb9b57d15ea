// The reply to a conversation, token by token: the parser of the model's family (reply/parser.h), set up from the chat
// template and from how the prompt ends, and fed with tokens, of which some are markers that a text would not show.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/chat_prompt.h"
#include "engine/model.h"
#include "reply/parser.h"
#include "text/detokenizer.h"

namespace qinfer::engine {

class ChatReply {
 public:
  /// The conversation and the options that the prompt is made with. `format` automatic: the one that its template
  /// shows. `reasons` false: nothing is taken for reasoning, whatever the prompt ends with.
  static Result<std::unique_ptr<ChatReply>> create(std::shared_ptr<const Model> model, std::string_view conversation,
                                                   const ChatOptions& options, reply::Format format, bool reasons);

  /// Tokens that the vocabulary does not have, and control tokens that are no markers, say nothing.
  Status push(text::TokenId token);
  /// Nothing follows.
  Status finish();
  reply::Part next() { return parser_.next(); }
  std::string message() const { return parser_.message(); }
  bool in_reasoning() const { return parser_.in_reasoning(); }
  bool has_content() const { return parser_.has_content(); }
  /// The tokens that end reasoning.
  std::span<const text::TokenId> reasoning_end() const { return reasoning_end_; }
  /// Those of them that are still to come, where a generation has begun to force them: the next one goes on with them.
  std::span<const text::TokenId> forced = {};
  const Model& model() const { return *model_; }
  /// QINFER_E_STATE if it is finished.
  Status check_open() const;

 private:
  ChatReply(std::shared_ptr<const Model> model, reply::Setup setup);
  Status find_reasoning_end();

  std::shared_ptr<const Model> model_;
  text::Detokenizer detokenizer_;
  std::vector<char> text_;  // of one token
  /// The markers of the family that are control tokens.
  std::vector<std::pair<text::TokenId, std::string_view>> markers_;
  std::vector<text::TokenId> reasoning_end_;
  reply::Parser parser_;
  bool finished_ = false;
};

}  // namespace qinfer::engine
