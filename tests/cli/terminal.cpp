// Talks with `qinfer chat` as a person does: in a pseudo-terminal, typing, pressing Ctrl-C in the middle of an answer
// and at the prompt, changing the size of the window, pasting several lines, calling up the line before.
//   cli_terminal PATH_TO_QINFER MODEL
// Ends with the number of checks; the exit status is 1 if one failed, 77 where there are no pseudo-terminals, or where
// the command was built without libedit, which edits lines and keeps history.
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/checkpoint_writer.h"

namespace {

namespace fs = std::filesystem;

int n_checks = 0, n_failed = 0;

void check(bool good, const std::string& what, const std::string& seen = {}) {
  ++n_checks;
  if (good) return;
  ++n_failed;
  std::printf("FAILED: %s\n  the terminal shows: %s\n", what.c_str(), seen.c_str());
}

/// A program in a terminal of its own.
class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& arguments) {
    winsize size{24, 80, 0, 0};
    child_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (child_ == 0) {
      setenv("TERM", "xterm", 1);
      unsetenv("NO_COLOR");
      std::vector<char*> pointers;
      for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
      pointers.push_back(nullptr);
      execv(pointers[0], pointers.data());
      _exit(127);
    }
  }
  ~Terminal() {
    if (child_ > 0) kill(child_, SIGKILL);
    if (child_ > 0) waitpid(child_, nullptr, 0);
    close(terminal_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(std::string_view keys) {
    shown_.clear();
    if (write(terminal_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) std::abort();
  }
  void resize(int columns) {
    winsize size{24, static_cast<unsigned short>(columns), 0, 0};
    ioctl(terminal_, TIOCSWINSZ, &size);
  }
  /// Reads until the terminal shows this text, and checks that it does in time.
  bool wait_for(std::string_view text, const std::string& what) {
    const bool found = read_until([&] { return shown_.find(text) != std::string::npos; });
    check(found, what, shown_);
    return found;
  }
  /// Reads until the program asks for the next line.
  bool wait_for_prompt(const std::string& what) {
    const bool found = read_until([&] { return shown_.ends_with("\n> "); });
    check(found, what, shown_);
    return found;
  }
  /// The exit status, -1 if the program does not end.
  int wait_for_end() {
    read_until([] { return false; });
    int status = 0;
    for (int i = 0; i < 100; ++i) {
      if (waitpid(child_, &status, WNOHANG) == child_) {
        child_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      }
      usleep(50000);
    }
    return -1;
  }
  const std::string& shown() const { return shown_; }

 private:
  template <typename Done>
  bool read_until(Done done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      pollfd input{terminal_, POLLIN, 0};
      if (poll(&input, 1, 200) < 1) continue;
      char bytes[4096];
      const ssize_t n = read(terminal_, bytes, sizeof bytes);
      if (n <= 0) return done();
      shown_.append(bytes, static_cast<std::size_t>(n));
    }
    return true;
  }

  pid_t child_ = -1;
  int terminal_ = -1;
  std::string shown_;
};

nlohmann::json saved(const fs::path& file) {
  std::ifstream stream(file);
  return nlohmann::json::parse(std::string(std::istreambuf_iterator<char>(stream), {}), nullptr, false);
}

std::vector<std::string> chat_with(const char* qinfer, const std::string& model, const fs::path& folder) {
  return {qinfer, "chat", model, "--template", (folder / "template").string(), "-t", "1", "--no-history", "--greedy"};
}

/// Answers that end by themselves: commands, history, what is one message, files.
void talk(const char* qinfer, const char* model, const fs::path& folder) {
  Terminal chat(chat_with(qinfer, model, folder));
  if (!chat.wait_for_prompt("a prompt")) return;
  chat.type("Once upon a time\r");
  chat.wait_for("there was", "an answer");
  chat.wait_for("context", "a remark after it");
  chat.wait_for_prompt("a prompt after it");
  check(chat.shown().find("\x1b[2m[") != std::string::npos, "remarks are dimmed on a terminal", chat.shown());
  chat.type("/stats\r");
  chat.wait_for("key-value cache", "/stats");
  chat.wait_for_prompt("a prompt again");
  chat.type("\x1b[A\r");
  chat.wait_for("key-value cache", "the line before, called up and sent again");
  chat.wait_for_prompt("a prompt again");
  chat.type("/frobnicate\r");
  chat.wait_for("no command /frobnicate", "an unknown command");
  chat.wait_for_prompt("a prompt after it");
  chat.type("/save " + (folder / "first.json").string() + "\r");
  chat.wait_for_prompt("/save");
  check(chat.shown().find("saved 2 messages in ") != std::string::npos, "/save says so", chat.shown());
  std::ofstream(folder / "other.txt") << "not a conversation";
  chat.type("/save " + (folder / "other.txt").string() + "\r");
  chat.wait_for("is no conversation", "/save replaces nothing else");
  chat.wait_for_prompt("a prompt after it");
  std::ostringstream other;
  other << std::ifstream(folder / "other.txt").rdbuf();
  check(other.str() == "not a conversation", "what /save refused is as it was", other.str());
  fs::permissions(folder / "first.json", fs::perms::owner_write, fs::perm_options::remove);
  chat.type("/save " + (folder / "first.json").string() + "\r");
  chat.wait_for("is a read-only file", "/save leaves a read-only file");
  chat.wait_for_prompt("a prompt after it");
  chat.type("/reset\r");
  chat.wait_for_prompt("/reset");
  chat.type("Once\r\rtwo \xc3\xa4\r");  // a paste of three lines
  chat.wait_for("context", "an answer to a paste");
  chat.wait_for_prompt("a prompt after it");
  chat.type("/save " + (folder / "second.json").string() + "\r");
  chat.wait_for_prompt("/save again");
  chat.type("\"\"\"\r");
  chat.wait_for(". ", "a block is open");
  chat.type("Lily\r");
  chat.wait_for(". ", "and goes on");
  chat.type("\"\"\"\r");
  chat.wait_for("context", "an answer to a block");
  chat.wait_for_prompt("a prompt after it");
  chat.type("/load " + (folder / "first.json").string() + "\r");
  chat.wait_for_prompt("/load");
  check(chat.shown().find("goes on after 2 messages") != std::string::npos, "/load says so", chat.shown());
  chat.type("\x04");
  check(chat.wait_for_end() == 0, "Ctrl-D ends the program with status 0", chat.shown());

  const auto first = saved(folder / "first.json"), second = saved(folder / "second.json");
  check(first.is_object() && first["messages"].size() == 2, "the first conversation", first.dump());
  check(second.is_object() && second["messages"].size() == 2, "the second conversation", second.dump());
  if (n_failed != 0) return;
  check(first["messages"][0]["content"] == "Once upon a time", "what was asked first", first.dump());
  check(!first["messages"][1]["content"].get<std::string>().empty(), "what was answered", first.dump());
  check(second["messages"][0]["content"] == "Once\n\ntwo \xc3\xa4", "a paste is one message", second.dump());
}

/// A model that never ends its answer, large enough to take a while: Ctrl-C, and windows that change.
void interrupt(const char* qinfer, const fs::path& folder) {
  qinfer::test::TinySpec spec;
  spec.hidden = 256;
  spec.ffn = 512;
  spec.context_tokens = 1 << 16;
  const qinfer::test::ModelDir endless(spec);
  nlohmann::json config = qinfer::test::tiny_config(spec);
  config.erase("eos_token_id");
  endless.write("config.json", config.dump());

  std::vector<std::string> arguments = chat_with(qinfer, endless.path(), folder);
  arguments.insert(arguments.end(), {"--context", "60000"});
  Terminal chat(arguments);
  if (!chat.wait_for_prompt("a prompt")) return;
  for (const int columns : {50, 100}) {
    chat.type("Hello\r");
    chat.wait_for("Hello\r\n", "what was typed");
    chat.resize(columns);
    usleep(300000);
    chat.type("\x03");
    chat.wait_for("interrupted", "Ctrl-C ends the answer");
    chat.wait_for_prompt("and not the program");
    if (columns == 50) chat.type("/reset\r");
    if (columns == 50) chat.wait_for_prompt("/reset");
  }
  chat.type("half a line\x03");
  chat.wait_for_prompt("Ctrl-C at the prompt");
  chat.resize(60);
  chat.type("\x03\x03");
  chat.wait_for_prompt("Ctrl-C twice");
  chat.type("/save " + (folder / "cut.json").string() + "\r");
  chat.wait_for_prompt("/save after lines that were given up");
  chat.type("/exit\r");
  check(chat.wait_for_end() == 0, "/exit ends the program with status 0", chat.shown());
  const auto cut = saved(folder / "cut.json");
  check(cut.is_object() && cut["messages"].size() == 2, "answers stay as far as they came",
        cut.is_object() ? std::to_string(cut["messages"].size()) + " messages" : "no file");
}

/// An answer that may have a few tokens only.
void cut_short(const char* qinfer, const char* model, const fs::path& folder) {
  std::vector<std::string> arguments = chat_with(qinfer, model, folder);
  arguments.insert(arguments.end(), {"-n", "5"});
  Terminal chat(arguments);
  chat.wait_for_prompt("a prompt");
  chat.type("Once\r");
  chat.wait_for("ended by the length limit", "the length limit");
  chat.wait_for_prompt("a prompt after it");
  chat.type("/exit\r");
  check(chat.wait_for_end() == 0, "/exit ends the program with status 0", chat.shown());
}

#ifdef QINFER_HAS_LIBEDIT
constexpr bool kEditsLines = true;
#else
constexpr bool kEditsLines = false;
#endif

int skip(const char* reason) {
  std::printf("skipped: machine: %s\n", reason);
  return 77;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  if (!kEditsLines) return skip("qinfer chat was built without libedit");
  int terminal = -1, program_side = -1;
  if (openpty(&terminal, &program_side, nullptr, nullptr, nullptr) != 0) return skip("it has no pseudo-terminals");
  close(terminal);
  close(program_side);
  std::string name = (fs::temp_directory_path() / "qinfer-terminal-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) return 2;
  std::ofstream(fs::path(name) / "template") << "{% for m in messages %}{{ m.content }}{% endfor %}";
  talk(argv[1], argv[2], name);
  interrupt(argv[1], name);
  cut_short(argv[1], argv[2], name);
  fs::remove_all(name);
  std::printf("%d checks, %d failed\n", n_checks, n_failed);
  return n_failed == 0 ? 0 : 1;
}
