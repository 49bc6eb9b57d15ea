// type_ahead.cpp: see type_ahead.h.
#include "type_ahead.h"

#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <cstddef>
#include <iterator>

namespace cli {
namespace {

/// Those that end or stop the program: the terminal is then to be as it was before.
constexpr int kTypeAheadSignals[] = {SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};

// For the handler, which only reads them.
termios mode_before, mode_quiet;
struct sigaction actions_before[std::size(kTypeAheadSignals)];

extern "C" void leave_terminal(int number) {
  tcsetattr(STDIN_FILENO, TCSANOW, &mode_before);
  if (number == SIGTSTP) {
    kill(getpid(), SIGSTOP);  // it happens here
    // In the background the terminal is another program's.
    if (tcgetpgrp(STDIN_FILENO) == getpgrp()) tcsetattr(STDIN_FILENO, TCSANOW, &mode_quiet);
    return;
  }
  signal(number, SIG_DFL);
  raise(number);
}

}  // namespace

TypeAhead::TypeAhead() {
  if (tcgetattr(STDIN_FILENO, &mode_before) != 0) return;
  mode_quiet = mode_before;
  mode_quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
  mode_quiet.c_lflag |= NOFLSH;
  mode_quiet.c_cc[VMIN] = 1;
  mode_quiet.c_cc[VTIME] = 0;
  struct sigaction action {};
  action.sa_handler = leave_terminal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < std::size(kTypeAheadSignals); ++i)
    sigaction(kTypeAheadSignals[i], &action, &actions_before[i]);
  held_ = tcsetattr(STDIN_FILENO, TCSANOW, &mode_quiet) == 0;
}

TypeAhead::~TypeAhead() {
  if (!held_) return;
  tcsetattr(STDIN_FILENO, TCSANOW, &mode_before);
  for (std::size_t i = 0; i < std::size(kTypeAheadSignals); ++i)
    sigaction(kTypeAheadSignals[i], &actions_before[i], nullptr);
}

}  // namespace cli
