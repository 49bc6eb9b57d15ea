// See thread.h.
#include "platform/thread.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cfenv>
#include <climits>
#include <cstring>

#include "platform/error_text.h"

namespace qinfer::platform {
namespace {

void* thread_entry(void* argument) {
  const std::unique_ptr<std::function<void()>> body(static_cast<std::function<void()>*>(argument));
  (*body)();
  return nullptr;
}

void pin_calling_thread(int cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  // Refused only if the CPU was taken from the process since the runtime was created.
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wait_for(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t ns) {
  timespec time = {};
  time.tv_sec = static_cast<time_t>(ns / 1'000'000'000u);
  time.tv_nsec = static_cast<long>(ns % 1'000'000'000u);
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, &time, nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

std::uint64_t now_ns() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(time.tv_nsec);
}

std::int32_t process_id() { return static_cast<std::int32_t>(getpid()); }

struct Thread::Impl {
  pthread_t id;
};

Thread::Thread() = default;
Thread::Thread(Thread&& other) noexcept = default;
Thread& Thread::operator=(Thread&& other) noexcept {
  join();
  impl_ = std::move(other.impl_);
  return *this;
}
Thread::~Thread() { join(); }

namespace {

/// With a stack of its own size, whatever RLIMIT_STACK says; where a host's thread-local data does not fit into that,
/// of the usual one.
int create_thread(pthread_t& id, void* argument) {
  pthread_attr_t attributes;
  if (const int code = pthread_attr_init(&attributes); code != 0) return code;
  pthread_attr_setstacksize(&attributes, Thread::kStackBytes);
  int code = pthread_create(&id, &attributes, thread_entry, argument);
  pthread_attr_destroy(&attributes);
  if (code == EINVAL) code = pthread_create(&id, nullptr, thread_entry, argument);
  return code;
}

}  // namespace

Result<Thread> Thread::start(std::function<void()> body, int pin_to_cpu) {
  Thread thread;
  thread.impl_ = std::make_unique<Impl>();
  auto entry = std::make_unique<std::function<void()>>([body = std::move(body), pin_to_cpu] {
    pin_calling_thread(pin_to_cpu);
    body();
  });
  // A new thread inherits the mask, so it never runs with one of the host's signals unblocked.
  sigset_t all, previous;
  sigfillset(&all);
  // What a thread does itself cannot wait: blocked, it would end the process past the handler that the host may have.
  for (const int synchronous : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&all, synchronous);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  const int code = create_thread(thread.impl_->id, entry.get());
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  if (code != 0) {
    thread.impl_.reset();
    return error(Code::no_memory, "the system refused another thread: {}", errno_text(code));
  }
  static_cast<void>(entry.release());  // thread_entry owns it now
  pthread_setname_np(thread.impl_->id, "qinfer");
  return thread;
}

void Thread::join() {
  if (impl_ != nullptr) pthread_join(impl_->id, nullptr);
  impl_.reset();
}

void Thread::abandon() { impl_.reset(); }

ScopedNoCancel::ScopedNoCancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &saved_); }
ScopedNoCancel::~ScopedNoCancel() { pthread_setcancelstate(saved_, nullptr); }

bool may_use_cpu(int cpu) {
  cpu_set_t before, one;
  if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof before, &before) != 0) return false;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(cpu), &one);
  // Asking is trying: what is allowed is more than what this thread is restricted to just now.
  const bool allowed = sched_setaffinity(0, sizeof one, &one) == 0;
  if (allowed) sched_setaffinity(0, sizeof before, &before);
  return allowed;
}

ScopedPin::ScopedPin(int cpu) {
  static_assert(sizeof(cpu_set_t) == sizeof saved_);
  if (cpu < 0) return;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return;
  std::memcpy(saved_, &set, sizeof set);
  active_ = true;
  pin_calling_thread(cpu);
}

ScopedPin::~ScopedPin() {
  if (!active_) return;
  cpu_set_t set;
  std::memcpy(&set, saved_, sizeof set);
  sched_setaffinity(0, sizeof set, &set);
}

#if defined(__x86_64__)
ScopedFloatEnvironment::ScopedFloatEnvironment() {
  const unsigned saved = __builtin_ia32_stmxcsr();
  std::memcpy(saved_, &saved, sizeof saved);
  __builtin_ia32_ldmxcsr(0x1F80);
}
ScopedFloatEnvironment::~ScopedFloatEnvironment() {
  unsigned saved = 0;
  std::memcpy(&saved, saved_, sizeof saved);
  __builtin_ia32_ldmxcsr(saved);
}
#else
static_assert(sizeof(std::fenv_t) <= 64);
ScopedFloatEnvironment::ScopedFloatEnvironment() {
  std::fegetenv(reinterpret_cast<std::fenv_t*>(saved_));
  std::fesetenv(FE_DFL_ENV);
}
ScopedFloatEnvironment::~ScopedFloatEnvironment() { std::fesetenv(reinterpret_cast<const std::fenv_t*>(saved_)); }
#endif

}  // namespace qinfer::platform
