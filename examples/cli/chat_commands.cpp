// chat_commands.cpp: see chat_commands.h.
#include "chat_commands.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "command_line.h"
#include "prompt.h"
#include "saved.h"
#include "support.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

struct ChatCommand {
  const char *name, *also, *argument, *what;
};

/// In the order of the help. `also`: other names, as other programs have them.
constexpr ChatCommand kChatCommands[] = {
    {"/file", "/read", "FILE", "put a file of text into the next message"},
    {"/retry", "/regen", "", "answer again, with another seed"},
    {"/edit", "", "[TEXT]", "change the last message, and have it answered"},
    {"/undo", "", "", "take the last message and its answer back"},
    {"/set", "", "[NAME VALUE]", "change a setting: temp, seed, max-tokens, think, ..."},
    {"/show", "", "", "the model, the settings and the system's message"},
    {"/stats", "", "", "tokens, speed, memory and sampling so far"},
    {"/system", "", "[TEXT]", "say who the model is to be; a new conversation"},
    {"/reset", "/clear", "", "a new conversation"},
    {"/save", "", "[NAME]", "keep the conversation; a name with / or . is a file"},
    {"/load", "", "[NAME]", "go on with a conversation; without NAME: those kept"},
    {"/help", "/?", "", "this"},
    {"/exit", "/bye /quit", "", "end, as Ctrl-D does"},
};

constexpr const char* kTyping =
    "A line that ends with \\ goes on in the next one, and so does all from \"\"\" to\n"
    "the next \"\"\". Several lines that are pasted are one message. Ctrl-C ends an\n"
    "answer; what is typed while it comes stays for the next line. Tab completes\n"
    "commands and files.\n";

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const ChatCommand& command : kChatCommands) names.emplace_back(command.name);
  return names;
}

bool is_called(const ChatCommand& command, const std::string& name) {
  return name == command.name || (" " + std::string(command.also) + " ").find(" " + name + " ") != std::string::npos;
}

/// Files whose path begins so; folders end with a slash.
std::vector<std::string> files_from(const std::string& begin) {
  const std::size_t cut = begin.rfind('/') + 1;  // 0 without a slash
  const std::string folder = begin.substr(0, cut), name = begin.substr(cut);
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : file_path(folder), error)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with(name) || (name.empty() && file.starts_with('.'))) continue;
    found.push_back(folder + file + (entry.is_directory(error) ? "/" : ""));
  }
  return found;
}

void keep_those_with(const std::string& begin, std::vector<std::string>& texts) {
  const auto other = [&](const std::string& text) { return !text.starts_with(begin); };
  texts.erase(std::remove_if(texts.begin(), texts.end(), other), texts.end());
  std::sort(texts.begin(), texts.end());
}

void need(const std::string& rest, const char* command, const char* what) {
  if (rest.empty()) throw Failure(std::string(command) + " needs " + what);
}

}  // namespace

std::string chat_help() {
  std::string text;
  for (const ChatCommand& command : kChatCommands) {
    std::string what = command.what;
    if (command.also[0] != '\0') what += std::string(" (also ") + command.also + ")";
    const std::string usage = std::string(command.name) + " " + command.argument;
    text += format("  %-20s  %s\n", usage.c_str(), what.c_str());
  }
  return text;
}

LineEditor::Completion ChatSession::complete(const std::string& before) const {
  LineEditor::Completion found;
  if (!before.starts_with('/')) return found;
  const std::size_t space = before.find(' ');
  const std::string command = before.substr(0, space);
  if (space == std::string::npos) {
    found.given = command;
    found.whole = all_names();
  } else {
    found.given = before.substr(std::min(before.find_first_not_of(' ', space), before.size()));
    if (command == "/set") found.whole = setting_names();
    if (command == "/file" || command == "/read" || command == "/save" || command == "/load")
      found.whole = files_from(found.given);
    if (command == "/save" || command == "/load")
      for (std::string& name : saved_names()) found.whole.push_back(std::move(name));
  }
  keep_those_with(found.given, found.whole);
  if (found.whole.size() == 1 && !found.whole[0].ends_with('/')) found.whole[0] += ' ';
  return found;
}

void ChatCommands::obey(ChatSession& session, const std::string& line) {
  using Method = void (ChatSession::*)(const std::string&);
  static constexpr std::pair<const char*, Method> kMethods[] = {
      {"/file", &ChatSession::attach},       {"/retry", &ChatSession::retry}, {"/edit", &ChatSession::edit},
      {"/undo", &ChatSession::undo},         {"/set", &ChatSession::set},     {"/show", &ChatSession::show},
      {"/stats", &ChatSession::stats},       {"/reset", &ChatSession::reset}, {"/save", &ChatSession::save},
      {"/load", &ChatSession::load},         {"/help", &ChatSession::help},   {"/exit", &ChatSession::leave},
      {"/system", &ChatSession::set_system},
  };
  const std::size_t space = std::min(line.find(' '), line.size());
  std::string name = line.substr(0, space);
  const std::size_t begin = std::min(line.find_first_not_of(' ', space), line.size());
  const std::string rest = line.substr(begin, line.find_last_not_of(' ') + 1 - begin);
  if (name == "/image") throw Failure("/image: models read text alone here, no images; /file takes a file of text");
  for (const ChatCommand& command : kChatCommands)
    if (is_called(command, name)) name = command.name;
  for (const auto& [known, method] : kMethods)
    if (name == known) return (session.*method)(rest);
  throw Failure("no command " + name + suggestion(name, all_names()) + "; /help names those that there are");
}

void ChatSession::attach(const std::string& rest) {
  need(rest, "/file", "the name of a file");
  std::string summary;
  attached_ += read_attachment(rest, summary);
  style_.remark("[" + summary + ": part of the next message]");
}

void ChatSession::retry(const std::string&) {
  ConversationOptions& options = conversation_.options();
  (void)conversation_.question();  // throws if there is none
  const std::uint64_t before = options.sampler.seed++;
  if (options.sampler.temperature == 0)
    style_.remark("[greedy: the answer stays the same until /set temp 0.8, for one]");
  try {
    answer([&](const auto& cancel, const auto& on_part) { return conversation_.retry(cancel, on_part); });
  } catch (...) {
    options.sampler.seed = before;
    throw;
  }
}

void ChatSession::undo(const std::string&) {
  conversation_.undo();
  style_.remark("[took the last message back; " + std::to_string(conversation_.n_messages()) + " messages are left]");
}

void ChatSession::edit(const std::string& rest) {
  const std::string before = conversation_.question();
  std::string text = rest;
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  if (text.empty() && (!editor_.can_prefill() || std::any_of(before.begin(), before.end(), is_control)))
    text = edited(before);  // more than a line
  else if (text.empty() && editor_.read("edit> ", text, before) == LineEditor::Result::interrupted)
    print("\n");
  if (text.find_first_not_of(" \t\r\n") == std::string::npos || (text == before && rest.empty())) {
    style_.remark("[the message stays as it was]");
    return;
  }
  answer([&](const auto& cancel, const auto& on_part) { return conversation_.ask_instead(text, cancel, on_part); });
}

void ChatSession::set(const std::string& rest) {
  std::size_t space = std::min(rest.find(' '), rest.size());
  std::string name = rest.substr(0, space),
              value = rest.substr(std::min(rest.find_first_not_of(' ', space), rest.size()));
  ConversationOptions& options = conversation_.options();
  if (name == "parameter") return set(value);  // as ollama has it
  if (name.empty()) {
    print(settings_text(options) + format("%-20s %-7s %s\n%-20s %-7s %s\n", "think",
                                          options.no_reasoning ? "off" : "on", "ask for reasoning: on, off", "wrap",
                                          style_.wraps() ? "on" : "off", "break lines between words: on, off"));
    return;
  }
  if (name == "system") return set_system(value);
  need(value, "/set", "a name and a value: /set temp 0.7");
  if (name == "think" || name == "wrap") {
    if (const std::string reason = check_one_of(value, {"on", "off"}); !reason.empty())
      throw Failure(name + ": " + reason);
    if (name == "wrap") style_.set_wraps(value == "on");
    if (name == "think") conversation_.set_variable("enable_thinking", value == "on");
    if (name == "think") options.no_reasoning = value == "off";
  } else {
    set_by_name(options, name, value);
  }
  style_.remark("[" + name + " is " + value + " from the next answer on]");
}

void ChatSession::show(const std::string&) {
  const ConversationOptions& options = conversation_.options();
  style_.say("model    " + view_.model);
  style_.say("context  " + std::to_string(conversation_.context_used()) + " of " +
             std::to_string(conversation_.context_tokens()) + " tokens, " + std::to_string(conversation_.n_messages()) +
             " messages");
  if (!name_.empty()) style_.say("kept as  " + name_);
  const std::string system = conversation_.system();
  style_.say("system   " + (system.empty() ? "(none)" : system));
  style_.say("sampling " + sampling_text(options.sampler));
  set({});
}

void ChatSession::stats(const std::string&) {
  const TurnCounts& total = conversation_.total();
  const qinfer_sampler_options& now = conversation_.options().sampler;
  qinfer_sampler_options own = sampling_.options;
  own.seed = now.seed;  // no file says it
  style_.say("prompts " + count_text(total.prompt_tokens) + rate(total.prompt_tokens, total.prefill_ns) + ", replies " +
             count_text(total.new_tokens) + rate(total.new_tokens, total.decode_ns) + ", context " +
             std::to_string(conversation_.context_used()) + " of " + std::to_string(conversation_.context_tokens()) +
             ", key-value cache " + human_bytes(conversation_.cache_bytes()));
  const bool is_own = sampling_text(now) == sampling_text(own);
  style_.say("sampling: " + sampling_text(now) +
             (is_own ? " (" + sampling_.origin + ")"
                     : "; " + sampling_.origin + ": " + sampling_text(own) + ", which options or /set changed"));
}

void ChatSession::reset(const std::string&) {
  conversation_.reset();
  attached_.clear();
  name_.clear();
}

void ChatSession::set_system(const std::string& rest) {
  conversation_.set_system(rest);
  name_.clear();
}

void ChatSession::save(const std::string& rest) {
  const std::string name = rest.empty() ? name_ : rest;
  need(name, "/save", "a name: /save trip keeps the conversation, /save ./trip.json writes a file");
  const std::string path = save_conversation(name, conversation_.text());
  name_ = name;
  style_.remark("saved " + std::to_string(conversation_.n_messages()) + " messages in " + path);
}

void ChatSession::load(const std::string& rest) {
  if (rest.empty()) {
    std::string names;
    for (const std::string& name : saved_names()) names += (names.empty() ? "" : ", ") + name;
    style_.say(names.empty() ? "no conversation is kept yet: /save NAME" : "kept: " + names);
    return;
  }
  conversation_.load(load_conversation(rest));
  name_ = rest;
  style_.remark("goes on after " + std::to_string(conversation_.n_messages()) + " messages");
}

void ChatSession::help(const std::string&) { print(chat_help() + kTyping); }

void ChatSession::leave(const std::string&) { ends_ = true; }

}  // namespace cli
