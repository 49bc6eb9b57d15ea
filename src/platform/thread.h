// Threads, futexes, clocks, process identity and the floating-point environment: the primitives under the thread team.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"

namespace qinfer::platform {

/// Sleeps while *word == expected; may wake for no reason.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected);
/// The same for at most so many nanoseconds.
void futex_wait_for(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t ns);
void futex_wake_all(const std::atomic<std::uint32_t>& word);

/// Tells the core that this is a spin loop.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

/// Monotonic nanoseconds.
std::uint64_t now_ns();

/// Changes in a fork()ed child.
std::int32_t process_id();

/// A joinable thread that blocks all signals, so that the host's handlers never run on it.
class Thread {
 public:
  Thread();
  Thread(Thread&& other) noexcept;
  Thread& operator=(Thread&& other) noexcept;
  ~Thread();

  static constexpr std::size_t kStackBytes = 512 * 1024;

  /// `pin_to_cpu` < 0: not pinned. QINFER_E_NO_MEMORY if the system has no room for a thread.
  static Result<Thread> start(std::function<void()> body, int pin_to_cpu);
  void join();
  /// In a fork()ed child the thread does not exist: forget it without joining.
  void abandon();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Holds back pthread_cancel of the calling thread: glibc ends the process when the forced unwinding of a cancelled
/// thread meets a catch (...), as the C ABI has.
class ScopedNoCancel {
 public:
  ScopedNoCancel();
  ~ScopedNoCancel();
  ScopedNoCancel(const ScopedNoCancel&) = delete;
  ScopedNoCancel& operator=(const ScopedNoCancel&) = delete;

 private:
  int saved_ = 0;
};

/// Whether a thread of this process may run on a CPU: it exists, and neither the system nor a cgroup rules it out.
bool may_use_cpu(int cpu);

/// Restricts the calling thread to one CPU while it lives, and puts the former affinity back.
class ScopedPin {
 public:
  explicit ScopedPin(int cpu);
  ~ScopedPin();
  ScopedPin(const ScopedPin&) = delete;
  ScopedPin& operator=(const ScopedPin&) = delete;

 private:
  bool active_ = false;
  alignas(8) unsigned char saved_[128] = {};
};

/// Computes under the default floating-point environment (round to nearest, subnormals kept, no traps) and restores
/// the caller's, so that a host's settings change neither results nor control flow. On x86-64 that is MXCSR = 0x1F80.
class ScopedFloatEnvironment {
 public:
  ScopedFloatEnvironment();
  ~ScopedFloatEnvironment();
  ScopedFloatEnvironment(const ScopedFloatEnvironment&) = delete;
  ScopedFloatEnvironment& operator=(const ScopedFloatEnvironment&) = delete;

 private:
  alignas(16) unsigned char saved_[64];
};

}  // namespace qinfer::platform
