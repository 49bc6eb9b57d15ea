// A mutex and its lock that clang's -Wthread-safety understands, which the ones of the standard library are not
// annotated for. A member that a mutex guards is marked with ABSL_GUARDED_BY, a function that expects the lock to be
// held with ABSL_EXCLUSIVE_LOCKS_REQUIRED; `./dev lint` then fails where one is used without the lock.
//
// The macros are those of Abseil, whose header is needed for that check alone: every other build leaves them empty, so
// that it does the same wherever it runs.
#pragma once

#include <mutex>

#if defined(QINFER_CHECK_THREAD_SAFETY)
#include <absl/base/thread_annotations.h>
#else
#define ABSL_GUARDED_BY(x)
#define ABSL_EXCLUSIVE_LOCKS_REQUIRED(...)
#define ABSL_LOCK_RETURNED(x)
#define ABSL_LOCKABLE
#define ABSL_SCOPED_LOCKABLE
#define ABSL_EXCLUSIVE_LOCK_FUNCTION(...)
#define ABSL_UNLOCK_FUNCTION(...)
#define ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(...)
#define ABSL_ASSERT_EXCLUSIVE_LOCK(...)
#endif

namespace qinfer {

class ABSL_LOCKABLE Mutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
};

/// Holds a mutex while it lives.
class ABSL_SCOPED_LOCKABLE Lock {
 public:
  explicit Lock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex.lock(); }
  /// Takes over a mutex that the caller has locked.
  Lock(Mutex& mutex, std::adopt_lock_t) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) : mutex_(mutex) {}
  ~Lock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace qinfer
