// conversation.h: a conversation with a model, turn by turn: messages as the chat template reads them, and the session
// that holds what of them is evaluated.
#pragma once

#include <qinfer/qinfer.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar.h"
#include "sampler_options.h"
#include "support.h"

namespace cli {

using Json = nlohmann::ordered_json;

struct ConversationOptions {
  std::string template_text, now;   ///< as in qinfer_chat_options; empty: none
  std::string system;               ///< the first message; empty: none
  Json tools;                       ///< an array, or null
  Json variables = Json::object();  ///< more variables of the template
  std::uint32_t max_tokens = 0;     ///< of a reply; 0 = until it ends
  std::uint32_t max_reasoning = 0;  ///< of these; 0 = no bound
  bool no_reasoning = false;        ///< a grammar holds from the first token on
  bool drops_oldest = false;        ///< when the context is full, the oldest turns are left out of the prompt
  std::uint32_t context_tokens = 0;
  std::uint32_t max_draft = 8;  ///< qinfer_session_options.max_draft
  std::string kv;
  GrammarArgs grammar;  ///< of each reply
  qinfer_sampler_options sampler = qi::options<qinfer_sampler_options>();
  SamplerTexts sampler_texts;
};

/// A prompt has more tokens than the context.
struct ContextFull : Failure {
  using Failure::Failure;
};

struct ToolCall {
  std::string name, id, arguments;
};

/// What one turn took.
struct TurnCounts {
  std::uint64_t prompt_tokens = 0;  ///< that were evaluated; the others were there already
  std::uint64_t new_tokens = 0;
  std::uint64_t prefill_ns = 0, decode_ns = 0;
  std::size_t dropped_turns = 0;  ///< that the prompt leaves out from this turn on, and the one before did not
  std::int32_t finish = 0;        ///< QINFER_FINISH_*; 0: cancelled
  bool in_reasoning = false;      ///< it ended there
};

class Conversation {
 public:
  /// Called with each piece of a reply: QINFER_PART_CONTENT or QINFER_PART_REASONING.
  using OnPart = std::function<void(std::int32_t kind, std::string_view text)>;

  Conversation(const qi::Model& model, ConversationOptions options);

  /// Adds a message of the user and the model's reply to it. Throws Failure or qi::Error and leaves the conversation as
  /// it was if there is no reply at all; a reply that was cancelled stays as far as it came.
  TurnCounts ask(const std::string& text, const qi::Cancel& cancel, const OnPart& on_part);
  /// The same in place of the last message of the user and all that came after it.
  TurnCounts ask_instead(const std::string& text, const qi::Cancel& cancel, const OnPart& on_part);
  /// Another reply to the last message of the user.
  TurnCounts retry(const qi::Cancel& cancel, const OnPart& on_part);
  bool has_grammar() const { return grammar_.is_set(); }
  /// The calls of tools in the last reply that have no result yet.
  const std::vector<ToolCall>& open_calls() const { return open_calls_; }
  /// Adds the results of all open calls, in their order, and the reply to them.
  TurnCounts answer_calls(const std::vector<std::string>& results, const qi::Cancel& cancel, const OnPart& on_part);

  /// The last message of the user. Throws Failure if there is none, or if it is not a text.
  std::string question() const;
  /// Takes the last message of the user and all that came after it back.
  void undo();
  /// Forgets all messages but the system's.
  void reset();
  /// Replaces the system's message, none if empty, and forgets all others.
  void set_system(const std::string& text);
  /// The conversation as `qinfer render` reads it.
  std::string text() const;
  /// Takes a conversation that text() gave, or any object with messages.
  void load(const std::string& text);
  /// Whether load() would take it.
  static bool is_conversation(const std::string& text);
  std::size_t n_messages() const { return root_["messages"].size(); }
  std::size_t dropped_turns() const { return dropped_; }
  /// The system's message; empty if there is none.
  std::string system() const;

  /// Changes hold from the next reply on, but for those that were needed to create it (template, tools, context, kv).
  ConversationOptions& options() { return options_; }
  const ConversationOptions& options() const { return options_; }
  void set_variable(const std::string& name, Json value) { root_[name] = std::move(value); }

  std::uint64_t context_used() const { return session_.length(); }
  std::uint64_t cache_bytes() const { return cache_.stats().bytes_committed; }
  std::uint64_t context_tokens() const { return context_tokens_; }
  const TurnCounts& total() const { return total_; }

 private:
  /// Throws Failure if there is no message of the user.
  std::size_t last_question() const;
  /// Replies to a conversation that takes the place of this one if there is a reply.
  TurnCounts reply(Json next, const qi::Cancel& cancel, const OnPart& on_part);
  /// The conversation as the prompt has it, with its tokens: all of it, or without its oldest turns.
  std::vector<qinfer_token> fit(const Json& next, std::string& conversation, std::size_t& dropped) const;
  TurnCounts generate(qi::Reply& reply, const qi::Cancel& cancel, const OnPart& on_part);
  void drain(qi::Reply& reply, const OnPart& on_part);
  qinfer_chat_options chat_options() const;

  const qi::Model& model_;
  ConversationOptions options_;
  std::uint32_t context_tokens_;
  qi::KvCache cache_;
  qi::Session session_;
  Grammar grammar_;
  Json root_;                // messages, tools and variables
  std::size_t dropped_ = 0;  // turns that the prompt leaves out
  std::vector<ToolCall> open_calls_;
  TurnCounts total_;
};

}  // namespace cli
