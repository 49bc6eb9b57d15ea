// chat.cpp: `qinfer chat`: a conversation on a terminal, or one message and its answer where input or output is none.
// Answers go to stdout as they come, reasoning dimmed where there are colours; Ctrl-C ends the answer, not the program.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conversation.h"
#include "interrupt.h"
#include "line_editor.h"
#include "options.h"
#include "prompt.h"
#include "support.h"

namespace cli {
namespace {

struct ChatArgs {
  std::string model, message, template_file, tools_file, variables;
  bool no_thinking = false, no_history = false;
  RuntimeArgs runtime;
  ConversationOptions conversation;
};

constexpr const char* kHelp =
    "/system TEXT   say who the model is to be, and begin a new conversation (without TEXT: nobody)\n"
    "/reset         begin a new conversation\n"
    "/save FILE     write the conversation to a file, which `qinfer render` reads too\n"
    "/load FILE     go on with a conversation from a file\n"
    "/stats         tokens, speed and memory so far\n"
    "/help          this\n"
    "/exit          end, as Ctrl-D does\n"
    "A line that ends with \\ goes on in the next one, and so does all between two lines of \"\"\". Several lines that "
    "are\npasted are one message. Ctrl-C ends an answer.\n";

/// How output looks. On a terminal with colours, reasoning and remarks are dimmed.
class Style {
 public:
  Style() {
    const char* terminal = std::getenv("TERM");
    const char* no_color = std::getenv("NO_COLOR");
    terminal_ = isatty(STDOUT_FILENO) == 1;
    colours_ = terminal_ && (no_color == nullptr || *no_color == '\0') && terminal != nullptr &&
               std::string_view(terminal) != "dumb";
  }
  /// What a model writes must not move the cursor, set the window's title or ask the terminal for anything: on one, all
  /// control characters but the ends of lines and tabs are shown as U+FFFD.
  std::string harmless(std::string_view text) const {
    if (!terminal_) return std::string(text);
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      const bool in_c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
      if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F || in_c1)
        out += "\xEF\xBF\xBD";
      else
        out += text[i];
      if (in_c1) ++i;
    }
    return out;
  }
  bool is_terminal() const { return terminal_; }
  std::string dim(std::string_view text) const {
    return colours_ ? "\033[2m" + std::string(text) + "\033[0m" : std::string(text);
  }

 private:
  bool terminal_, colours_;
};

/// Writes the parts of a reply as they come.
class ReplyPrinter {
 public:
  ReplyPrinter(const Style& style, bool shows_reasoning) : style_(style), shows_reasoning_(shows_reasoning) {}

  void print_part(std::int32_t kind, std::string_view text) {
    const bool reasoning = kind == QINFER_PART_REASONING;
    if (reasoning && !shows_reasoning_) return;
    if (reasoning_ && !reasoning) print("\n\n");
    reasoning_ = reasoning;
    const std::string shown = style_.harmless(text);
    print(reasoning ? style_.dim(shown) : shown);
    flush_output();
    ends_line_ = text.ends_with('\n');
  }
  void end() const {
    if (!ends_line_) print("\n");
    flush_output();
  }

 private:
  const Style& style_;
  const bool shows_reasoning_;
  bool reasoning_ = false, ends_line_ = true;
};

class Chat {
 public:
  Chat(const qi::Model& model, ConversationOptions options) : conversation_(model, std::move(options)) {}

  /// A conversation on a terminal, until it ends.
  void run(bool keep_history);
  /// One message and its answer.
  void run_once(const std::string& message);

 private:
  enum class Input { message, end, nothing };

  Input read_message(LineEditor& editor, std::string& text) const;
  bool read_more(LineEditor& editor, const char* prompt, std::string& text) const;
  void answer(const std::string& text);
  void answer_calls(LineEditor& editor);
  TurnCounts turn(const std::function<TurnCounts(const qi::Cancel&, const Conversation::OnPart&)>& ask);
  bool obey(const std::string& command);
  void save(const std::string& name) const;
  void load(const std::string& name);
  std::string remark(const TurnCounts& counts) const;

  Style style_;
  qi::Cancel cancel_;
  Conversation conversation_;
};

std::string history_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state != nullptr && *state != '\0') return std::string(state) + "/qinfer/chat_history";
  return home != nullptr && *home != '\0' ? std::string(home) + "/.local/state/qinfer/chat_history" : "";
}

/// Appends another line; false where there is none.
bool Chat::read_more(LineEditor& editor, const char* prompt, std::string& text) const {
  std::string line;
  if (editor.read(prompt, line) != LineEditor::Result::line) return false;
  text += '\n' + line;
  return true;
}

Chat::Input Chat::read_message(LineEditor& editor, std::string& text) const {
  constexpr std::string_view kBlock = "\"\"\"";
  switch (editor.read("> ", text)) {
    case LineEditor::Result::end: return Input::end;
    case LineEditor::Result::interrupted: print("\n"); return Input::nothing;
    case LineEditor::Result::line: break;
  }
  if (text == kBlock) {
    text.clear();
    while (!text.ends_with("\n" + std::string(kBlock)))
      if (!read_more(editor, ". ", text)) return Input::nothing;
    text = text.size() > 4 ? text.substr(1, text.size() - 5) : "";
  } else {
    while (text.ends_with('\\')) {
      text.pop_back();
      if (!read_more(editor, ". ", text)) return Input::nothing;
    }
    while (!text.starts_with('/') && LineEditor::has_more())
      if (!read_more(editor, ". ", text)) break;
  }
  return text.find_first_not_of(" \t\r\n") == std::string::npos ? Input::nothing : Input::message;
}

std::string Chat::remark(const TurnCounts& counts) const {
  std::string text = "[" + count_text(counts.new_tokens);
  const std::uint64_t decoded = counts.new_tokens > 0 ? counts.new_tokens - 1 : 0;
  text += rate(decoded, counts.decode_ns);
  if (counts.finish == 0) text += ", interrupted";
  if (counts.finish == QINFER_FINISH_LENGTH) text += ", ended by the length limit";
  if (counts.in_reasoning && counts.finish != 0) text += " inside of its reasoning (see --max-think)";
  return text + ", context " + std::to_string(conversation_.context_used()) + " of " +
         std::to_string(conversation_.context_tokens()) + "]";
}

/// One reply, which a request of cancel_ ends.
TurnCounts Chat::turn(const std::function<TurnCounts(const qi::Cancel&, const Conversation::OnPart&)>& ask) {
  cancel_.reset();
  // What a program reads that asked for a grammar is the answer alone.
  ReplyPrinter printer(style_, style_.is_terminal() || !conversation_.has_grammar());
  const TurnCounts counts =
      ask(cancel_, [&](std::int32_t kind, std::string_view text) { printer.print_part(kind, text); });
  printer.end();
  for (const ToolCall& call : conversation_.open_calls())
    print(style_.harmless("call " + call.name + " " + call.arguments) + "\n");
  return counts;
}

void Chat::answer(const std::string& text) {
  const TurnCounts counts =
      turn([&](const auto& cancel, const auto& on_part) { return conversation_.ask(text, cancel, on_part); });
  print(style_.dim(remark(counts)) + "\n");
}

/// The person at the terminal is the tool.
void Chat::answer_calls(LineEditor& editor) {
  while (!conversation_.open_calls().empty()) {
    std::vector<std::string> results;
    for (const ToolCall& call : conversation_.open_calls()) {
      std::string result;
      if (editor.read("result of " + call.name + "> ", result) != LineEditor::Result::line) return;
      results.push_back(result);
    }
    const TurnCounts counts = turn(
        [&](const auto& cancel, const auto& on_part) { return conversation_.answer_calls(results, cancel, on_part); });
    print(style_.dim(remark(counts)) + "\n");
  }
}

/// "~/x" in the home folder, as a shell has it.
std::string path_of(const std::string& name) {
  const char* home = std::getenv("HOME");
  return home != nullptr && (name == "~" || name.starts_with("~/")) ? home + name.substr(1) : name;
}

/// A rename does not ask for the permissions of the file that it replaces.
bool is_protected(const std::filesystem::path& path) {
  const auto permissions = std::filesystem::status(path).permissions();
  return std::filesystem::exists(path) &&
         (permissions & std::filesystem::perms::owner_write) == std::filesystem::perms::none;
}

/// Whether nothing is lost if a conversation takes the place of what is there.
bool may_be_replaced(const std::filesystem::path& path) {
  constexpr std::uintmax_t kMaxBytes = std::uintmax_t{64} << 20;
  if (!std::filesystem::exists(path)) return true;
  return std::filesystem::is_regular_file(path) && std::filesystem::file_size(path) <= kMaxBytes &&
         Conversation::is_conversation(read_file(path.string()));
}

void Chat::save(const std::string& name) const {
  const std::string path = std::filesystem::weakly_canonical(path_of(name)).string();
  if (!may_be_replaced(path))
    throw Failure(path + " is no conversation, and /save replaces nothing else: give another name");
  if (is_protected(path))
    throw Failure(path + " is a read-only file: make it writable (chmod u+w) or give another name");
  std::string beside = path + ".XXXXXX";
  const int opened = mkstemp(beside.data());
  const std::string text = conversation_.text();
  std::FILE* file = opened >= 0 ? fdopen(opened, "wb") : nullptr;
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) written = std::fclose(file) == 0 && written;
  if (!written || std::rename(beside.c_str(), path.c_str()) != 0) {
    const int error = errno;
    if (opened >= 0) std::remove(beside.c_str());
    throw Failure(format("cannot write %s: %s", path.c_str(), std::strerror(error)));
  }
  print(style_.dim("saved " + std::to_string(conversation_.n_messages()) + " messages in " + path) + "\n");
}

void Chat::load(const std::string& name) {
  conversation_.load(read_file(path_of(name)));
  print(style_.dim("goes on after " + std::to_string(conversation_.n_messages()) + " messages") + "\n");
}

/// A line that begins with a slash. False: the conversation is to end.
bool Chat::obey(const std::string& line) {
  const std::size_t space = std::min(line.find(' '), line.size());
  const std::string command = line.substr(0, space);
  const std::size_t begin = std::min(line.find_first_not_of(' ', space), line.size());
  const std::string rest = line.substr(begin, line.find_last_not_of(' ') + 1 - begin);
  if (command == "/exit" || command == "/quit" || command == "/bye") return false;
  if (command == "/help") {
    print(kHelp);
  } else if (command == "/reset") {
    conversation_.reset();
  } else if (command == "/system") {
    conversation_.set_system(rest);
  } else if ((command == "/save" || command == "/load") && rest.empty()) {
    print(command + " needs the name of a file\n");
  } else if (command == "/save") {
    save(rest);
  } else if (command == "/load") {
    load(rest);
  } else if (command == "/stats") {
    const TurnCounts& total = conversation_.total();
    print("prompts " + count_text(total.prompt_tokens) + rate(total.prompt_tokens, total.prefill_ns) + ", replies " +
          count_text(total.new_tokens) + rate(total.new_tokens, total.decode_ns) + ", context " +
          std::to_string(conversation_.context_used()) + " of " + std::to_string(conversation_.context_tokens()) +
          ", key-value cache " + human_bytes(conversation_.cache_bytes()) + "\n");
  } else {
    print("no command " + command + "; /help names those that there are\n");
  }
  return true;
}

void Chat::run(bool keep_history) {
  const InterruptGuard guard(cancel_, false);
  LineEditor editor(keep_history ? history_file() : "");
  print(style_.dim("/help names the commands, Ctrl-D ends.") + "\n");
  for (std::string text;;) {
    const Input input = read_message(editor, text);
    if (input == Input::end) break;
    if (input == Input::nothing) continue;
    try {
      if (text.front() == '/' && text.find('\n') == std::string::npos) {
        if (!obey(text)) return;
      } else {
        answer(text);
        answer_calls(editor);
      }
    } catch (const qi::Error& error) {
      report(std::string(error.what()) + " (" + error.status_name() + ")");
    } catch (const Failure& failure) {
      report(failure.what());
    }
  }
  print("\n");
}

void Chat::run_once(const std::string& message) {
  const InterruptGuard guard(cancel_);
  const TurnCounts counts =
      turn([&](const auto& cancel, const auto& on_part) { return conversation_.ask(message, cancel, on_part); });
  flush_output();
  std::string text = remark(counts);
  report("prompt " + count_text(counts.prompt_tokens) + rate(counts.prompt_tokens, counts.prefill_ns) + ", reply " +
         text.substr(1, text.size() - 2));
  if (counts.finish == 0) throw Failure("cancelled");
}

Json parse_json(const std::string& text, const std::string& what) {
  Json parsed = Json::parse(text, nullptr, false);
  if (parsed.is_discarded()) throw Failure(what + " is not JSON");
  return parsed;
}

void read_files(ChatArgs& args) {
  ConversationOptions& options = args.conversation;
  if (!args.template_file.empty()) options.template_text = read_file(args.template_file);
  if (!args.tools_file.empty()) {
    options.tools = parse_json(read_file(args.tools_file), args.tools_file);
    if (!options.tools.is_array()) throw Failure(args.tools_file + ": expected an array of tools");
  }
  if (!args.variables.empty()) {
    options.variables = parse_json(args.variables, "--variables");
    if (!options.variables.is_object()) throw Failure("--variables: expected a JSON object");
  }
  if (args.no_thinking) options.variables["enable_thinking"] = false;
  options.no_reasoning = args.no_thinking;
}

/// What is asked where there is no conversation on a terminal: the message, and what is piped in after it.
std::string whole_message(const ChatArgs& args) {
  std::string text = args.message;
  if (isatty(STDIN_FILENO) == 1) return text;
  std::string piped = read_file("-");
  while (piped.ends_with('\n')) piped.pop_back();
  if (!text.empty() && !piped.empty()) text += "\n\n";
  return text + piped;
}

int run_chat(ChatArgs& args) {
  read_files(args);
  const bool on_terminal = isatty(STDIN_FILENO) == 1 && args.message.empty();
  const std::string message = on_terminal ? "" : whole_message(args);
  if (!on_terminal && message.empty()) throw Failure("there is no message: standard input is empty");
  qi::Cancel cancel;
  std::unique_ptr<InterruptGuard> guard = std::make_unique<InterruptGuard>(cancel);
  qi::Runtime runtime(runtime_options(args.runtime));
  auto load = qi::options<qinfer_load_options>();
  load.cancel = std::as_const(cancel).native();
  load.max_context = args.conversation.context_tokens;
  const qi::Model model = load_model(runtime, args.model, load);
  guard.reset();
  Chat chat(model, args.conversation);
  if (on_terminal)
    chat.run(!args.no_history);
  else
    chat.run_once(message);
  return 0;
}

void add_conversation_args(Options& options, ChatArgs& args) {
  ConversationOptions& conversation = args.conversation;
  options.add("--system", conversation.system, "What the model is to be").type_name("TEXT");
  options.add("-n", conversation.max_tokens, "Tokens of an answer at most (default: until it ends)")
      .whole_number(0, 1u << 30)
      .type_name("N");
  options
      .add("--context", conversation.context_tokens,
           "Tokens that the conversation has room for (default 8192, or "
           "the model's context where that is less)")
      .whole_number(1, 1u << 30)
      .type_name("N");
  options.add("--template", args.template_file, "A chat template in place of the model's").type_name("FILE");
  options.add("--tools", args.tools_file, "A JSON array of tools; you are asked for their results").type_name("FILE");
  options.add("--variables", args.variables, "More variables of the template, as a JSON object").type_name("JSON");
  options.add("--now", conversation.now, "What templates take for today, e.g. 2026-11-22 (default: the clock, in UTC)")
      .type_name("DATE");
  options.flag(
      "--no-think", args.no_thinking,
      "Ask for an answer without reasoning (enable_thinking is false); a grammar holds from the first token on");
  options.add("--max-think", conversation.max_reasoning, "Tokens of reasoning at most; then the answer begins")
      .whole_number(1, 1u << 30)
      .type_name("N");
  options.flag("--no-history", args.no_history, "Keep no file of the lines that were typed");
}

}  // namespace

void add_chat(Commands& commands) {
  auto args = std::make_shared<ChatArgs>();
  Options options = commands.add("chat", "Talk with a model: on a terminal, or once with MESSAGE or a pipe");
  add_model_arg(options, args->model);
  options.add("MESSAGE", args->message, "Answer this, and what is piped in after it, instead of a conversation")
      .type_name("");
  add_conversation_args(options, *args);
  add_grammar_args(options, args->conversation.grammar);
  add_sampler_args(options, args->conversation.sampler);
  add_draft_arg(options, args->conversation.max_draft);
  add_kv_arg(options, args->conversation.kv);
  add_runtime_args(options, args->runtime);
  options.run([args] { return run_chat(*args); });
}

}  // namespace cli
