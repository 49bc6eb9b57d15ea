// mutex.h: a mutex and its lock that clang's -Wthread-safety understands, by Abseil's annotations: `./dev lint` fails
// where what a mutex guards is used without it. As in the library (src/base/mutex.h), of which hosts include nothing
// but its interface, Abseil's header is needed for that check alone. Its Mutex is not used: Debian's build of it tells
// ThreadSanitizer nothing, which would then see races everywhere.
#pragma once

#include <mutex>

#if defined(QINFER_CHECK_THREAD_SAFETY)
#include <absl/base/thread_annotations.h>
#else
#define ABSL_GUARDED_BY(x)
#define ABSL_LOCKABLE
#define ABSL_SCOPED_LOCKABLE
#define ABSL_EXCLUSIVE_LOCK_FUNCTION(...)
#define ABSL_UNLOCK_FUNCTION(...)
#endif

namespace server {

class ABSL_LOCKABLE Mutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Holds a mutex while it lives.
class ABSL_SCOPED_LOCKABLE Lock {
 public:
  explicit Lock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex.lock(); }
  ~Lock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace server
