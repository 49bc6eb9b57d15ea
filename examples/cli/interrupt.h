// interrupt.h: Ctrl-C as a request to cancel the call that is running, instead of the end of the program.
#pragma once

#include <qinfer/qinfer.hpp>

namespace cli {

/// While it lives, SIGINT requests cancellation; with `once` a second one kills the program, as if there were no guard.
/// One at a time. A signal that is ignored, e.g. under nohup, stays so.
class InterruptGuard {
 public:
  explicit InterruptGuard(qi::Cancel& cancel, bool once = true);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  bool installed_ = false;
};

}  // namespace cli
