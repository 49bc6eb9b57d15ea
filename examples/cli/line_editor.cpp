// line_editor.cpp: see line_editor.h.
#include "line_editor.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cwchar>
#include <exception>
#include <filesystem>
#include <iterator>
#include <utility>

#include "support.h"
#include "word_wrap.h"

#ifdef QINFER_HAS_LIBEDIT
#include <histedit.h>
#endif

namespace cli {
namespace {

/// Those that end the program first.
constexpr int kSignals[] = {SIGTERM, SIGHUP, SIGINT, SIGWINCH, SIGTSTP};

/// Of each signal on its own: several may arrive at once.
volatile std::sig_atomic_t signals_seen[std::size(kSignals)] = {};
extern "C" void note_signal(int number) {
  for (std::size_t i = 0; i < std::size(kSignals); ++i)
    if (kSignals[i] == number) signals_seen[i] = 1;
}

/// One that has arrived and was not taken yet; 0 if there is none.
int take_signal() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    if (signals_seen[i] == 0) continue;
    signals_seen[i] = 0;
    return kSignals[i];
  }
  return 0;
}

/// While it lives, these signals arrive only where wait() waits for input, so that none is missed and none finds the
/// terminal in a state that only an editor understands.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t held;
    sigemptyset(&held);
    for (const int number : kSignals) sigaddset(&held, number);
    sigprocmask(SIG_BLOCK, &held, &before_mask_);
    for (volatile std::sig_atomic_t& seen : signals_seen) seen = 0;
    struct sigaction action {};
    action.sa_handler = note_signal;
    for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &before_[i]);
  }
  ~HeldSignals() {
    for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
    sigprocmask(SIG_SETMASK, &before_mask_, nullptr);
    // What came together with another signal and was not taken.
    for (int number = take_signal(); number != 0; number = take_signal())
      if (number == SIGTERM || number == SIGHUP) raise(number);
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  /// 0 when there is input, otherwise a signal that arrived.
  int wait() const {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    for (;;) {
      if (const int number = take_signal(); number != 0) return number;
      if (ppoll(&input, 1, nullptr, &before_mask_) >= 0) return 0;
    }
  }
  /// What the signal does where there is no editor.
  void let_happen(int number) const {
    struct sigaction action {
    }, ours{};
    action.sa_handler = SIG_DFL;
    sigaction(number, &action, &ours);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &one, nullptr);  // it happens here
    sigprocmask(SIG_BLOCK, &one, nullptr);
    sigaction(number, &ours, nullptr);
  }

 private:
  sigset_t before_mask_{};
  struct sigaction before_[std::size(kSignals)]{};
};

LineEditor::Result read_plain(const std::string& prompt, std::string& line) {
  if (isatty(STDIN_FILENO) == 1) {
    print(prompt);
    flush_output();
  }
  const HeldSignals signals;
  for (;;) {
    const int number = signals.wait();
    if (number == SIGINT) return LineEditor::Result::interrupted;
    if (number != 0) {
      signals.let_happen(number);
      continue;
    }
    char c = 0;
    const ssize_t n = ::read(STDIN_FILENO, &c, 1);
    if (n <= 0) return line.empty() ? LineEditor::Result::end : LineEditor::Result::line;
    if (c == '\n') return LineEditor::Result::line;
    line += c;
  }
}

}  // namespace

#ifdef QINFER_HAS_LIBEDIT

struct LineEditor::Terminal {
  EditLine* edit = nullptr;
  History* lines = nullptr;
  std::string prompt;
  const HeldSignals* signals = nullptr;  // while a line is read
  bool interrupted = false;
  Completer completer;

  Terminal() : edit(el_init("qinfer", stdin, stdout, stderr)), lines(history_init()) {
    if (edit == nullptr || lines == nullptr) return;
    constexpr int kMaxHistory = 1000;
    HistEvent event;
    history(lines, &event, H_SETSIZE, kMaxHistory);
    history(lines, &event, H_SETUNIQUE, 1);
    el_set(edit, EL_CLIENTDATA, this);
    char* (*const prompt_of)(EditLine*) = [](EditLine* self) { return of(self).prompt.data(); };
    int (*const read_from)(EditLine*, wchar_t*) = [](EditLine* self, wchar_t* out) {
      return of(self).read_character(*out);
    };
    el_set(edit, EL_PROMPT, prompt_of);
    el_set(edit, EL_GETCFN, read_from);
    el_set(edit, EL_EDITOR, "emacs");
    el_set(edit, EL_HIST, history, lines);
    unsigned char (*const complete_line)(EditLine*, int) = [](EditLine* self, int) { return of(self).complete(); };
    el_set(edit, EL_ADDFN, "qinfer-complete", "complete a command or a file", complete_line);
    const auto bind = [this](const char* keys, const char* command) { el_set(edit, EL_BIND, keys, command, nullptr); };
    bind("^R", "em-inc-search-prev");
    bind("^I", "qinfer-complete");
    bind("\\e[3~", "ed-delete-next-char");
    bind("\\e[1~", "ed-move-to-beg");
    bind("\\e[4~", "ed-move-to-end");
    bind("\\e[H", "ed-move-to-beg");
    bind("\\e[F", "ed-move-to-end");
    bind("\\e[1;5C", "em-next-word");
    bind("\\e[1;5D", "ed-prev-word");
    el_source(edit, nullptr);  // the person's own ~/.editrc
  }
  ~Terminal() {
    if (edit != nullptr) el_end(edit);
    if (lines != nullptr) history_end(lines);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

 private:
  static Terminal& of(EditLine* edit) {
    void* terminal = nullptr;
    el_get(edit, EL_CLIENTDATA, &terminal);
    return *static_cast<Terminal*>(terminal);
  }

  /// 1 with a character, 0 at the end of the input, -1 to give the line up.
  int read_character(wchar_t& out) {
    std::mbstate_t state{};
    for (;;) {
      const int number = signals->wait();
      if (number == SIGINT) {
        interrupted = true;
        show_end();
        return -1;
      }
      if (number != 0) {
        handle(number);
        continue;
      }
      char byte = 0;
      const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
      if (n <= 0) return static_cast<int>(n);
      const std::size_t size = std::mbrtowc(&out, &byte, 1, &state);
      if (size == 0 || size == 1) return 1;
      if (size == static_cast<std::size_t>(-1)) state = {};  // a byte that is part of no character
    }
  }

  /// The cursor after the line, so that what is printed next does not overwrite the rest of it.
  void show_end() {
    const LineInfo* line = el_line(edit);
    el_cursor(edit, static_cast<int>(line->lastchar - line->cursor));
    el_set(edit, EL_REFRESH);
  }

  /// What all of them begin with.
  static std::string common_beginning(const std::vector<std::string>& texts) {
    std::string begin = texts.front();
    for (const std::string& text : texts)
      begin.resize(static_cast<std::size_t>(std::mismatch(begin.begin(), begin.end(), text.begin(), text.end()).first -
                                            begin.begin()));
    while (!begin.empty() && texts.size() > 1 && (static_cast<unsigned char>(begin.back()) & 0xC0) != 0 &&
           static_cast<unsigned char>(begin.back()) >= 0x80)
      begin.pop_back();  // no half of a character
    return begin;
  }

  /// Adds what is certain; lists what may be meant where nothing is.
  unsigned char complete() {
    const LineInfo* line = el_line(edit);
    if (!completer) return CC_ERROR;
    Completion found;
    try {
      found = completer(std::string(line->buffer, line->cursor));
    } catch (const std::exception&) {  // libedit, which is C, called
      return CC_ERROR;
    }
    if (found.whole.empty()) return CC_ERROR;
    const std::string certain = common_beginning(found.whole);
    if (certain.size() > found.given.size() && certain.starts_with(found.given)) {
      el_insertstr(edit, certain.c_str() + found.given.size());
      return CC_REFRESH;
    }
    if (found.whole.size() == 1) return CC_ERROR;
    std::string list = "\n";
    for (const std::string& one : found.whole) list += one + "  ";
    print(wrapped(list, terminal_columns()) + "\n");
    flush_output();
    return CC_REDISPLAY;
  }

  /// Windows change their size, and programs are stopped and ended, outside the editor's mode.
  void handle(int number) {
    if (number == SIGWINCH) {
      el_resize(edit);
      return;
    }
    el_set(edit, EL_PREP_TERM, 0);
    signals->let_happen(number);
    el_set(edit, EL_PREP_TERM, 1);
    el_set(edit, EL_REFRESH);
  }
};

LineEditor::LineEditor(std::string history_file) : history_file_(std::move(history_file)) {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) return;
  use_utf8();
  terminal_ = std::make_unique<Terminal>();
  if (terminal_->edit == nullptr || terminal_->lines == nullptr) {
    terminal_.reset();
    return;
  }
  HistEvent event;
  if (!history_file_.empty()) history(terminal_->lines, &event, H_LOAD, history_file_.c_str());
}

LineEditor::~LineEditor() {
  if (terminal_ == nullptr || history_file_.empty()) return;
  // What people write to a model is theirs alone to read.
  std::error_code error;
  const std::filesystem::path path(history_file_);
  std::filesystem::create_directories(path.parent_path(), error);
  const mode_t before = umask(077);
  HistEvent event;
  history(terminal_->lines, &event, H_SAVE, history_file_.c_str());
  umask(before);
}

void LineEditor::set_completer(Completer completer) {
  if (terminal_ != nullptr) terminal_->completer = std::move(completer);
}

LineEditor::Result LineEditor::read(const std::string& prompt, std::string& line, const std::string& text) {
  line.clear();
  if (terminal_ == nullptr) return read_plain(prompt, line);
  const HeldSignals signals;
  terminal_->prompt = prompt;
  terminal_->signals = &signals;
  terminal_->interrupted = false;
  // el_gets shows the prompt first and changes the terminal's mode after it: a Ctrl-D pressed between the two would be
  // the terminal's own and be lost.
  el_set(terminal_->edit, EL_PREP_TERM, 1);
  if (!text.empty()) el_push(terminal_->edit, text.c_str());
  int n = 0;
  const char* typed = el_gets(terminal_->edit, &n);
  if (terminal_->interrupted) {
    el_reset(terminal_->edit);
    return Result::interrupted;
  }
  if (typed == nullptr || n <= 0) return Result::end;
  line = typed;
  if (line.ends_with('\n')) line.pop_back();
  HistEvent event;
  if (!line.empty()) history(terminal_->lines, &event, H_ENTER, line.c_str());
  return Result::line;
}

#else

struct LineEditor::Terminal {};
LineEditor::LineEditor(std::string) {}
LineEditor::~LineEditor() = default;
void LineEditor::set_completer(Completer) {}
LineEditor::Result LineEditor::read(const std::string& prompt, std::string& line, const std::string&) {
  line.clear();
  return read_plain(prompt, line);
}

#endif

bool LineEditor::has_more() {
  constexpr int kMilliseconds = 20;  // longer than the pieces of a paste are apart, shorter than any typing
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, kMilliseconds) == 1 && (input.revents & POLLIN) != 0;
}

}  // namespace cli
