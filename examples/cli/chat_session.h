// chat_session.h: a conversation on a terminal, with its commands, or one message and its answer where input or output
// is none.
#pragma once

#include <qinfer/qinfer.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "conversation.h"
#include "line_editor.h"
#include "reply_printer.h"
#include "sampling.h"

namespace cli {

struct ChatView {
  std::string model;   ///< its name, for people
  std::string resume;  ///< a conversation to go on with; empty: a new one
  bool keeps_history = true;
  bool wraps = true;  ///< words at the edge of the terminal
};

/// The commands of a conversation, a line for each.
std::string chat_help();

class ChatSession {
 public:
  /// `sampling`: what the model says of it; that of `options` is in use.
  ChatSession(const qi::Model& model, ConversationOptions options, Sampling sampling, ChatView view);

  /// A conversation on a terminal, until it ends.
  void run();
  /// One message and its answer.
  void run_once(const std::string& message);

 private:
  friend struct ChatCommands;
  enum class Input { message, end, nothing };
  using Ask = std::function<TurnCounts(const qi::Cancel&, const Conversation::OnPart&)>;

  Input read_message(std::string& text);
  bool read_more(const char* prompt, std::string& text);
  bool read_block(std::string& text);
  /// Answers a message or obeys a command. What goes wrong is reported, and the conversation goes on.
  void handle(const std::string& text, bool may_be_command);
  void answer(const Ask& ask);
  void answer_calls();
  TurnCounts turn(const Ask& ask, bool holds_typing);
  std::string remark(const TurnCounts& counts) const;
  void say_if_full(const TurnCounts& counts) const;
  LineEditor::Completion complete(const std::string& before) const;

  // Commands; `rest` is what follows the name.
  void ask(const std::string& text);
  void set(const std::string& rest);
  void show(const std::string& rest);
  void set_system(const std::string& rest);
  void attach(const std::string& rest);
  void retry(const std::string& rest);
  void undo(const std::string& rest);
  void edit(const std::string& rest);
  void reset(const std::string& rest);
  void save(const std::string& rest);
  void load(const std::string& rest);
  void stats(const std::string& rest);
  void help(const std::string& rest);
  void leave(const std::string& rest);

  ChatView view_;
  Style style_;
  qi::Cancel cancel_;
  Conversation conversation_;
  Sampling sampling_;
  LineEditor editor_;
  std::string attached_;  // files of the next message
  std::string name_;      // under which the conversation was saved or loaded last
  bool ends_ = false;
};

}  // namespace cli
