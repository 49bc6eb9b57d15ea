// chat_session.cpp: see chat_session.h. Answers go to stdout as they come; Ctrl-C ends the answer, not the program.
#include "chat_session.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "chat_commands.h"
#include "interrupt.h"
#include "prompt.h"
#include "saved.h"
#include "support.h"
#include "type_ahead.h"

namespace cli {
namespace {

constexpr std::string_view kBlock = "\"\"\"";

bool is_blank(const std::string& text) { return text.find_first_not_of(" \t\r\n") == std::string::npos; }

/// "/home/x is full" is a message: names of commands have one slash.
bool is_command(const std::string& text) {
  return text.front() == '/' && text.find('\n') == std::string::npos &&
         text.substr(1, text.find(' ') - 1).find('/') == std::string::npos;
}

}  // namespace

ChatSession::ChatSession(const qi::Model& model, ConversationOptions options, Sampling sampling, ChatView view)
    : view_(std::move(view)),
      style_(view_.wraps),
      conversation_(model, std::move(options)),
      sampling_(std::move(sampling)),
      editor_(view_.keeps_history && !state_folder().empty() ? state_folder() + "/chat_history" : "") {
  editor_.set_completer([this](const std::string& before) { return complete(before); });
  if (!view_.resume.empty()) conversation_.load(load_conversation(view_.resume));
  name_ = view_.resume;
}

/// Appends another line; false where there is none.
bool ChatSession::read_more(const char* prompt, std::string& text) {
  std::string line;
  if (editor_.read(prompt, line) != LineEditor::Result::line) return false;
  text += '\n' + line;
  return true;
}

/// The rest of a block whose first line is `text`, without the quotes around it.
bool ChatSession::read_block(std::string& text) {
  text.erase(0, kBlock.size());
  while (!text.ends_with(kBlock))
    if (!read_more(". ", text)) return false;
  text.resize(text.size() - kBlock.size());
  if (text.starts_with('\n')) text.erase(0, 1);
  if (text.ends_with('\n')) text.pop_back();
  return true;
}

ChatSession::Input ChatSession::read_message(std::string& text) {
  switch (editor_.read("> ", text)) {
    case LineEditor::Result::end: return Input::end;
    case LineEditor::Result::interrupted: print("\n"); return Input::nothing;
    case LineEditor::Result::line: break;
  }
  if (text.starts_with(kBlock)) {
    if (!read_block(text)) return Input::nothing;
    if (!is_blank(text)) handle(text, false);
    return Input::nothing;
  }
  while (text.ends_with('\\')) {
    text.pop_back();
    if (!read_more(". ", text)) return Input::nothing;
  }
  while (!text.starts_with('/') && LineEditor::has_more())
    if (!read_more(". ", text)) break;
  return is_blank(text) ? Input::nothing : Input::message;
}

std::string ChatSession::remark(const TurnCounts& counts) const {
  std::string text = "[" + count_text(counts.new_tokens);
  const std::uint64_t decoded = counts.new_tokens > 0 ? counts.new_tokens - 1 : 0;
  text += rate(decoded, counts.decode_ns);
  const bool is_full = conversation_.context_used() >= conversation_.context_tokens();
  if (counts.finish == 0) text += ", interrupted";
  if (counts.finish == QINFER_FINISH_LENGTH)
    text += is_full ? ", ended because the context is full" : ", ended by the length limit";
  if (counts.in_reasoning && counts.finish != 0) text += " inside of its reasoning (see --max-think)";
  return text + ", context " + std::to_string(conversation_.context_used()) + " of " +
         std::to_string(conversation_.context_tokens()) + "]";
}

/// What can be done where a context is full, or has become so.
void ChatSession::say_if_full(const TurnCounts& counts) const {
  if (counts.dropped_turns != 0)
    style_.remark("[the context is full: the model no longer sees the oldest " +
                  std::to_string(conversation_.dropped_turns()) +
                  (conversation_.dropped_turns() == 1 ? " turn]" : " turns]"));
  if (counts.finish == QINFER_FINISH_LENGTH && conversation_.context_used() >= conversation_.context_tokens() &&
      !conversation_.options().drops_oldest)
    style_.remark(kFullContext);
}

/// One reply, which a request of cancel_ ends.
TurnCounts ChatSession::turn(const Ask& ask, bool holds_typing) {
  cancel_.reset();
  // What a program reads that asked for a grammar is the answer alone.
  ReplyPrinter printer(style_, style_.is_terminal() || !conversation_.has_grammar());
  std::optional<TypeAhead> held;
  if (holds_typing) held.emplace();
  const TurnCounts counts =
      ask(cancel_, [&](std::int32_t kind, std::string_view text) { printer.print_part(kind, text); });
  printer.end();
  for (const ToolCall& call : conversation_.open_calls())
    print(style_.harmless("call " + call.name + " " + call.arguments) + "\n");
  return counts;
}

void ChatSession::answer(const Ask& ask) {
  const TurnCounts counts = turn(ask, true);
  if (counts.new_tokens != 0) attached_.clear();
  style_.remark(remark(counts));
  say_if_full(counts);
  answer_calls();
}

void ChatSession::ask(const std::string& text) {
  const std::string message = attached_ + text;
  answer([&](const auto& cancel, const auto& on_part) { return conversation_.ask(message, cancel, on_part); });
}

/// The person at the terminal is the tool.
void ChatSession::answer_calls() {
  while (!conversation_.open_calls().empty()) {
    std::vector<std::string> results;
    for (const ToolCall& call : conversation_.open_calls()) {
      std::string result;
      if (editor_.read("result of " + call.name + "> ", result) != LineEditor::Result::line) return;
      results.push_back(result);
    }
    const TurnCounts counts = turn(
        [&](const auto& cancel, const auto& on_part) { return conversation_.answer_calls(results, cancel, on_part); },
        true);
    style_.remark(remark(counts));
    say_if_full(counts);
  }
}

void ChatSession::handle(const std::string& text, bool may_be_command) {
  try {
    if (may_be_command && is_command(text))
      ChatCommands::obey(*this, text);
    else
      ask(text);
  } catch (const ContextFull& error) {
    report(error.what());
    style_.remark(kFullContext);
  } catch (const qi::Error& error) {
    report(std::string(error.what()) + " (" + error.status_name() + ")");
  } catch (const std::exception& error) {  // whatever it is: the conversation is not lost
    report(error.what());
  }
}

void ChatSession::run() {
  const InterruptGuard guard(cancel_, false);
  style_.remark("/help names the commands, Ctrl-D ends.");
  if (conversation_.n_messages() != 0 && !view_.resume.empty())
    style_.remark("goes on after " + std::to_string(conversation_.n_messages()) + " messages");
  for (std::string text; !ends_;) {
    const Input input = read_message(text);
    if (input == Input::end) break;
    if (input == Input::message) handle(text, true);
  }
  if (!ends_) print("\n");
}

void ChatSession::run_once(const std::string& message) {
  const InterruptGuard guard(cancel_);
  const TurnCounts counts =
      turn([&](const auto& cancel, const auto& on_part) { return conversation_.ask(message, cancel, on_part); }, false);
  flush_output();
  std::string text = remark(counts);
  report("prompt " + count_text(counts.prompt_tokens) + rate(counts.prompt_tokens, counts.prefill_ns) + ", reply " +
         text.substr(1, text.size() - 2));
  if (counts.finish == 0) throw Failure("cancelled");
}

}  // namespace cli
