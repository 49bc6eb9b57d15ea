// See size_limit.h.
#include "platform/size_limit.h"

#include <pthread.h>
#include <time.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "platform/file.h"

namespace qinfer::platform {
namespace {

/// Whether SIGXFSZ waits for the calling thread itself, not for the process: sigpending() does not tell them apart, and
/// of two signals of one kind for one thread only one is kept.
bool is_pending_for_thread() {
  constexpr std::string_view kField = "\nSigPnd:\t";
  const std::string status = read_system_file("/proc/thread-self/status");
  const std::size_t at = status.find(kField);
  std::uint64_t mask = 0;
  if (at == status.npos) return true;  // not known: nothing is taken that may be the host's
  const char* begin = status.data() + at + kField.size();
  std::from_chars(begin, status.data() + status.size(), mask, 16);
  return (mask >> (SIGXFSZ - 1) & 1) != 0;
}

}  // namespace

ScopedSizeLimit::ScopedSizeLimit() {
  sigset_t size_signal;
  sigemptyset(&size_signal);
  sigaddset(&size_signal, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &size_signal, &before_);
  if (sigismember(&before_, SIGXFSZ) != 1) return;  // what was not blocked cannot have been waiting
  sigset_t pending;
  is_pending_ = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1 && is_pending_for_thread();
}

void ScopedSizeLimit::exceeded() {
  if (is_pending_) return;  // ours has become one with that
  sigset_t size_signal;
  sigemptyset(&size_signal);
  sigaddset(&size_signal, SIGXFSZ);
  const timespec at_once = {};
  const int saved = errno;
  while (sigtimedwait(&size_signal, nullptr, &at_once) < 0 && errno == EINTR) {
  }
  errno = saved;
}

ScopedSizeLimit::~ScopedSizeLimit() {
  const int saved = errno;
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = saved;
}

}  // namespace qinfer::platform
