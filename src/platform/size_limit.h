// Writing beyond RLIMIT_FSIZE raises SIGXFSZ, which ends the process unless the host has decided otherwise. Around each
// call that can make a file longer the signal is held back from the calling thread, and one that the call raised is
// taken away: what remains is the error EFBIG. The host's mask, its handler and a SIGXFSZ that others
// sent stay as they were.
#pragma once

#include <signal.h>

namespace qinfer::platform {

class ScopedSizeLimit {
 public:
  ScopedSizeLimit();
  ~ScopedSizeLimit();
  ScopedSizeLimit(const ScopedSizeLimit&) = delete;
  ScopedSizeLimit& operator=(const ScopedSizeLimit&) = delete;
  /// To be told of each EFBIG.
  void exceeded();

 private:
  sigset_t before_;
  bool is_pending_ = false;  ///< for this thread, since before
};

}  // namespace qinfer::platform
