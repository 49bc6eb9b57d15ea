// The reply to a conversation, token by token: the parser of the model's family (reply/parser.h), set up from the chat
// template and from how the prompt ends, and fed with tokens, of which some are markers that a text would not show.
#pragma once

#include <memory>
#include <optional>
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

  /// The same for a conversation that was parsed and rendered.
  struct ReplyOptions {
    reply::Format format;  ///< not automatic
    bool reasons, calls;   ///< false: what looks so is content
    bool one_call = false;
  };
  static Result<std::unique_ptr<ChatReply>> create(std::shared_ptr<const Model> model,
                                                   const formats::Json& conversation, const jinja::Rendered& prompt,
                                                   const ReplyOptions& options);
  /// Another one for the same prompt, to which nothing was pushed yet.
  std::unique_ptr<ChatReply> clone() const;

  /// Tokens that the vocabulary does not have, and control tokens that are no markers, say nothing.
  Status push(text::TokenId token);
  /// The same in two steps, for a caller that turns tokens into text with this detokenizer itself. After finish() they
  /// do nothing.
  text::Detokenizer& detokenizer() { return detokenizer_; }
  void push_text(std::string_view text);
  bool is_marker(text::TokenId token) const { return find_marker(token) != markers_.end(); }
  void push_marker(text::TokenId token);
  /// Whether it is the marker that ends reasoning, and there is some.
  bool ends_reasoning(text::TokenId token) const {
    const auto marker = find_marker(token);
    return in_reasoning() && marker != markers_.end() && marker->second == parser_.syntax().think_end;
  }
  /// Nothing follows.
  Status finish();
  reply::Part next();
  /// What next() has given: bytes of content and reasoning, and how many of them before each call. Into how many parts
  /// texts are cut is chance.
  struct Given {
    std::size_t text = 0;
    std::vector<std::size_t> before_calls;
  };
  Given given() const;
  /// A state to which it can go back.
  struct Mark {
    text::Detokenizer detokenizer;
    reply::Parser parser;
    Given given;
    std::optional<reply::Part> cut;
    std::string expected;
  };
  Mark mark() const { return {detokenizer_, parser_, given_, cut_, expected_}; }
  void restore(const Mark& mark);
  /// After restore(): does not give again what was given, as far as it still is what it was.
  void skip(const Given& given);
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
  ChatReply(const ChatReply&) = default;
  Status find_reasoning_end();
  using Markers = std::vector<std::pair<text::TokenId, std::string_view>>;
  Markers::const_iterator find_marker(text::TokenId token) const;

  std::shared_ptr<const Model> model_;
  text::Detokenizer detokenizer_;
  std::vector<char> text_;  // of one token
  /// The markers of the family that are control tokens.
  Markers markers_;
  std::vector<text::TokenId> reasoning_end_;
  reply::Parser parser_;
  reply::Part take();
  void expect(std::size_t n);
  Given given_;
  std::optional<reply::Part> cut_;  ///< what skip() left of a part, which is the next one
  std::string expected_;            ///< text that next() has given before, and that is not known again yet
  bool finished_ = false;
};

}  // namespace qinfer::engine
