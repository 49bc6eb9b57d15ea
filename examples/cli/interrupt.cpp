// interrupt.cpp: see interrupt.h.
#include "interrupt.h"

#include <signal.h>

#include <atomic>

namespace cli {
namespace {

std::atomic<qinfer_cancel*> interrupted_call{nullptr};
static_assert(std::atomic<qinfer_cancel*>::is_always_lock_free, "read in a signal handler");

extern "C" void request_cancel(int) { qinfer_cancel_request(interrupted_call.load()); }

}  // namespace

InterruptGuard::InterruptGuard(qi::Cancel& cancel, bool once) {
  interrupted_call.store(cancel.native());
  struct sigaction current {};
  if (sigaction(SIGINT, nullptr, &current) != 0 || current.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = request_cancel;
  action.sa_flags = static_cast<int>((once ? SA_RESETHAND : 0) | SA_RESTART);
  installed_ = sigaction(SIGINT, &action, nullptr) == 0;
}

InterruptGuard::~InterruptGuard() {
  if (installed_) signal(SIGINT, SIG_DFL);
}

}  // namespace cli
