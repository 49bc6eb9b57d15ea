// syscall_faults: stands in for the functions through which the library calls the operating system, and lets each of
// their calls fail in turn, with each error that fits it, or do half of what it was asked; then lets one function fail
// for as long as a call lasts. Each call must end with a status and a message, leave the file that it was to replace
// as it was or whole and new, no temporary one, and no descriptor.
//
//   syscall_faults MODEL_DIR [STRIDE]     one of STRIDE calls of the system; without it, each
#include <fcntl.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <string>
#include <vector>

#include "held.h"
#include "sweep.h"

namespace {

enum Function {
  kOpen,
  kOpenat,
  kRead,
  kPread,
  kWrite,
  kPwrite,
  kFstat,
  kStat,
  kLstat,
  kFsync,
  kFdatasync,
  kFtruncate,
  kRename,
  kUnlink,
  kFlock,
  kFcntl,
  kMmap,
  kMadvise,
  kMprotect,
  kMlock,
  kMemfd,
  kPosixFallocate,
  kFallocate,
  kMincore,
  kReadlink,
  kThread,
  kSetAffinity,
  kGetAffinity,
  kGetrlimit,
  kFchmod,
  kAccess,
  kFunctions
};

/// Stands for a call that does half of what it was asked.
constexpr int kHalf = -1;

struct Kind {
  const char* name;
  std::vector<int> errors;
};

/// In the order of Function.
const Kind kKinds[kFunctions] = {
    {"open", {EACCES, EMFILE, EIO, EINTR, ESTALE}},
    {"openat", {EACCES, ENFILE, EIO, EINTR, ESTALE}},
    {"read", {EIO, EINTR, kHalf}},
    {"pread", {EIO, EINTR, ESTALE, kHalf}},
    {"write", {ENOSPC, EIO, EINTR, EFBIG, kHalf}},
    {"pwrite", {ENOSPC, EIO, EINTR, EFBIG, kHalf}},
    {"fstat", {EIO, ENOMEM, ESTALE}},
    {"stat", {EIO, ENOMEM, EACCES, ESTALE}},
    {"lstat", {EIO, EACCES}},
    {"fsync", {EIO, ENOSPC, EINTR}},
    {"fdatasync", {EIO, ENOSPC}},
    {"ftruncate", {EIO, ENOSPC, EINTR, EFBIG}},
    {"rename", {EIO, ENOSPC, EACCES, ESTALE}},
    {"unlink", {EIO, EACCES}},
    {"flock", {ENOLCK, EIO, EINTR, EWOULDBLOCK}},
    {"fcntl", {EMFILE, EIO}},
    {"mmap", {ENOMEM, EACCES, ENODEV}},
    {"madvise", {ENOMEM, EINVAL}},
    {"mprotect", {ENOMEM, EACCES}},
    {"mlock", {ENOMEM, EPERM, EAGAIN}},
    {"memfd_create", {ENOMEM, EMFILE, ENOSYS, EPERM}},
    {"posix_fallocate", {ENOSPC, EINTR, EINVAL}},
    {"fallocate", {ENOSPC, EOPNOTSUPP, EINTR}},
    {"mincore", {ENOMEM, EAGAIN}},
    {"readlink", {EIO, EACCES}},
    {"pthread_create", {EAGAIN, EPERM}},
    {"sched_setaffinity", {EINVAL, EPERM}},
    {"sched_getaffinity", {EINVAL, EPERM}},
    {"getrlimit", {EPERM}},
    {"fchmod", {EIO, EPERM}},
    {"access", {EIO, EACCES}},
};

std::atomic<bool> counting{false};
std::atomic<long> calls{0}, fail_at{0}, mapped{0};
std::atomic<int> fail_function{-1}, fail_error{0};
/// The function of each call that was counted; room for all, so that recording allocates nothing.
Function trace[1 << 16];

/// The error that this call is to fail with, kHalf, or 0.
int fault(Function function) {
  if (!counting) return 0;
  const long n = calls++;
  if (n < static_cast<long>(std::size(trace))) trace[n] = function;
  const bool chosen = fail_at != 0 ? n + 1 == fail_at : function == fail_function;
  return chosen ? fail_error.load() : 0;
}

/// Fails, or makes the call with the arguments of a system call.
template <typename... Arguments>
long checked(Function function, long number, Arguments... arguments) {
  if (const int error = fault(function); error > 0) {
    errno = error;
    return -1;
  }
  return syscall(number, arguments...);
}

/// The same for what transfers bytes: of at least two only half are asked for where the case wants that.
template <typename Buffer, typename... More>
ssize_t transfer(Function function, long number, int file, Buffer* buffer, size_t size, More... more) {
  const int error = fault(function);
  if (error > 0) {
    errno = error;
    return -1;
  }
  return syscall(number, file, reinterpret_cast<long>(buffer), error == kHalf ? (size + 1) / 2 : size, more...);
}

mode_t mode_of(int flags, va_list& arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

extern "C" {
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return static_cast<int>(checked(kOpen, SYS_openat, AT_FDCWD, path, flags, mode));
}
int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return static_cast<int>(checked(kOpenat, SYS_openat, folder, path, flags, mode));
}
int open64(const char*, int, ...) __attribute__((alias("open")));
int openat64(int, const char*, int, ...) __attribute__((alias("openat")));
ssize_t read(int file, void* buffer, size_t size) { return transfer(kRead, SYS_read, file, buffer, size); }
ssize_t write(int file, const void* buffer, size_t size) { return transfer(kWrite, SYS_write, file, buffer, size); }
ssize_t pread(int file, void* buffer, size_t size, off_t at) {
  return transfer(kPread, SYS_pread64, file, buffer, size, at);
}
ssize_t pwrite(int file, const void* buffer, size_t size, off_t at) {
  return transfer(kPwrite, SYS_pwrite64, file, buffer, size, at);
}
ssize_t pread64(int, void*, size_t, off64_t) __attribute__((alias("pread")));
ssize_t pwrite64(int, const void*, size_t, off64_t) __attribute__((alias("pwrite")));
int fstat(int file, struct stat* out) noexcept { return static_cast<int>(checked(kFstat, SYS_fstat, file, out)); }
// By the calls that every processor has.
int stat(const char* path, struct stat* out) noexcept {
  return static_cast<int>(checked(kStat, SYS_newfstatat, AT_FDCWD, path, out, 0));
}
int lstat(const char* path, struct stat* out) noexcept {
  return static_cast<int>(checked(kLstat, SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW));
}
int fsync(int file) { return static_cast<int>(checked(kFsync, SYS_fsync, file)); }
int fdatasync(int file) { return static_cast<int>(checked(kFdatasync, SYS_fdatasync, file)); }
int ftruncate(int file, off_t size) noexcept {
  return static_cast<int>(checked(kFtruncate, SYS_ftruncate, file, size));
}
int ftruncate64(int, off64_t) noexcept __attribute__((alias("ftruncate")));
int rename(const char* from, const char* to) noexcept {
  return static_cast<int>(checked(kRename, SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
}
int unlink(const char* path) noexcept { return static_cast<int>(checked(kUnlink, SYS_unlinkat, AT_FDCWD, path, 0)); }
int flock(int file, int operation) noexcept { return static_cast<int>(checked(kFlock, SYS_flock, file, operation)); }
int fchmod(int file, mode_t mode) noexcept { return static_cast<int>(checked(kFchmod, SYS_fchmod, file, mode)); }
int access(const char* path, int mode) noexcept {
  return static_cast<int>(checked(kAccess, SYS_faccessat, AT_FDCWD, path, mode));
}
int fcntl(int file, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const long argument = va_arg(arguments, long);
  va_end(arguments);
  return static_cast<int>(checked(kFcntl, SYS_fcntl, file, command, argument));
}
int fcntl64(int, int, ...) __attribute__((alias("fcntl")));
void* mmap(void* address, size_t size, int protection, int flags, int file, off_t offset) noexcept {
  void* data = reinterpret_cast<void*>(checked(kMmap, SYS_mmap, address, size, protection, flags, file, offset));
  if (data != MAP_FAILED && (flags & MAP_FIXED) == 0) mapped += static_cast<long>((size + 4095) / 4096 * 4096);
  return data;
}
int munmap(void* address, size_t size) noexcept {
  const auto result = static_cast<int>(syscall(SYS_munmap, address, size));
  if (result == 0) mapped -= static_cast<long>((size + 4095) / 4096 * 4096);
  return result;
}
int madvise(void* address, size_t size, int advice) noexcept {
  return static_cast<int>(checked(kMadvise, SYS_madvise, address, size, advice));
}
int mprotect(void* address, size_t size, int protection) noexcept {
  return static_cast<int>(checked(kMprotect, SYS_mprotect, address, size, protection));
}
int mlock(const void* address, size_t size) noexcept {
  return static_cast<int>(checked(kMlock, SYS_mlock, address, size));
}
int memfd_create(const char* name, unsigned flags) noexcept {
  return static_cast<int>(checked(kMemfd, SYS_memfd_create, name, flags));
}
int posix_fallocate(int file, off_t offset, off_t size) {
  if (const int error = fault(kPosixFallocate); error > 0) return error;
  return syscall(SYS_fallocate, file, 0, offset, size) == 0 ? 0 : errno;
}
int fallocate(int file, int mode, off_t offset, off_t size) {
  return static_cast<int>(checked(kFallocate, SYS_fallocate, file, mode, offset, size));
}
int mincore(void* address, size_t size, unsigned char* out) noexcept {
  return static_cast<int>(checked(kMincore, SYS_mincore, address, size, out));
}
ssize_t readlink(const char* path, char* buffer, size_t size) noexcept {
  return checked(kReadlink, SYS_readlinkat, AT_FDCWD, path, buffer, size);
}
int getrlimit(__rlimit_resource_t resource, struct rlimit* out) noexcept {
  return static_cast<int>(checked(kGetrlimit, SYS_getrlimit, static_cast<int>(resource), out));
}
int sched_setaffinity(pid_t process, size_t size, const cpu_set_t* set) noexcept {
  return static_cast<int>(checked(kSetAffinity, SYS_sched_setaffinity, process, size, set));
}
int sched_getaffinity(pid_t process, size_t size, cpu_set_t* set) noexcept {
  std::memset(set, 0, size);
  return checked(kGetAffinity, SYS_sched_getaffinity, process, size, set) < 0 ? -1 : 0;
}
int pthread_create(pthread_t* out, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (const int error = fault(kThread); error > 0) return error;
  return create(out, attributes, body, argument);
}
}

namespace qinfer::faults {

long heap_bytes() { return 0; }
long block_bytes(const void*) { return 0; }
long mapped_bytes() { return mapped; }

void faults_begin() {
  calls = 0;
  counting = true;
}

void faults_end() {
  counting = false;
  fail_at = 0;
  fail_function = -1;
}

namespace {

/// One call (at > 0) or all calls of a function fail.
struct Case {
  long at;
  Function function;
  int error;
};

class SyscallInjector final : public Injector {
 public:
  void count() override { fail_at = 0, fail_function = -1; }
  std::size_t cases(long stride) override;
  void arm(std::size_t index) override {
    present_ = cases_[index];
    fail_error = present_.error;
    fail_at = present_.at;
    fail_function = present_.at == 0 ? present_.function : -1;
  }
  std::string describe(std::size_t index) const override {
    const Case& one = cases_[index];
    std::string text = std::string(kKinds[one.function].name) + "() ";
    text +=
        one.error == kHalf ? "doing half of what it should" : std::string("failing with ") + strerrorname_np(one.error);
    return text + (one.at == 0 ? " always" : " at call " + std::to_string(one.at));
  }
  std::string counted() const override { return std::to_string(n_calls_) + " calls of the system"; }
  std::string judge(qinfer_status status, const qinfer_error& err) const override {
    if (status == QINFER_OK) return {};
    if (status == QINFER_E_INTERNAL) return std::string("QINFER_E_INTERNAL (") + err.message + "); ";
    return err.code == status && std::strlen(err.message) != 0 ? "" : "no message; ";
  }
  /// One that is not locked, or perhaps not the one that is, may be another process's.
  bool keeps_temporaries() const override {
    return present_.function == kUnlink || present_.function == kFlock || present_.function == kFstat ||
           present_.function == kStat;
  }

 private:
  std::vector<Case> cases_;
  Case present_ = {};
  long n_calls_ = 0;
};

std::size_t SyscallInjector::cases(long stride) {
  n_calls_ = std::min<long>(calls, std::size(trace));
  cases_.clear();
  constexpr long kFew = 100;  // calls of one function, of which a short stride leaves none out
  long count[kFunctions] = {}, seen[kFunctions] = {};
  for (long n = 0; n < n_calls_; ++n) ++count[trace[n]];
  for (long n = 0; n < n_calls_; ++n) {
    const Function function = trace[n];
    if (seen[function]++ % stride != 0 && count[function] > kFew / stride) continue;
    for (const int error : kKinds[function].errors) cases_.push_back({n + 1, function, error});
  }
  // A function that is interrupted for ever may be called for ever.
  for (int function = 0; function < kFunctions; ++function)
    for (const int error : kKinds[function].errors)
      if (count[function] != 0 && error != EINTR) cases_.push_back({0, static_cast<Function>(function), error});
  return cases_.size();
}

}  // namespace
}  // namespace qinfer::faults

int main(int argc, char** argv) {
  qinfer::faults::SyscallInjector injector;
  return qinfer::faults::run_program(argc, argv, injector);
}
