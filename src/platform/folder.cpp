// See folder.h.
#include "platform/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "platform/error_text.h"
#include "platform/size_limit.h"

namespace qinfer::platform {
namespace {

constexpr const char* kLock = "lock";
/// What a process that was killed has left of a file is written over.
constexpr const char* kUnfinished = "unfinished";

Status write_all(const FileHandle& handle, const std::string& path, std::span<const std::byte> bytes) {
  ScopedSizeLimit limit;
  while (!bytes.empty()) {
    const ssize_t n = ::write(handle.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int code = errno;
      if (code == EFBIG) limit.exceeded();
      return io_error(code, path);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return Status();
}

Status read_all(const FileHandle& handle, const std::string& path, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = ::read(handle.get(), out.data(), out.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(errno, path);
    if (n == 0) return error(Code::format, "{}: the file has become shorter", path);
    out = out.subspan(static_cast<std::size_t>(n));
  }
  return Status();
}

}  // namespace

Result<Folder> Folder::open(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return io_error(errno, path);
  FileHandle folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return io_error(errno, path);
  FileHandle lock(openat(folder.get(), kLock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock.get() < 0) return io_error(errno, path + "/" + kLock);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      return error(Code::state, "{} is in use: one process, and one object in it, may have it at a time", path);
    return io_error(errno, path + "/" + kLock);
  }
  return Folder(std::move(folder), std::move(lock), path);
}

Folder::~Folder() {
  // A child that was forked meanwhile has the descriptor too, and would keep the lock.
  if (lock_.get() >= 0) flock(lock_.get(), LOCK_UN);
}

Result<std::vector<Folder::Entry>> Folder::list(std::size_t most) const {
  FileHandle handle(openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.get() < 0) return io_error(errno, path_);
  const std::unique_ptr<DIR, int (*)(DIR*)> list(fdopendir(handle.get()), &closedir);
  if (list == nullptr) return io_error(errno, path_);
  static_cast<void>(handle.release());
  std::vector<Entry> entries;
  while (const dirent* entry = readdir(list.get())) {
    struct stat info = {};
    if (fstatat(folder_.get(), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    if (entries.size() == most) return error(Code::unsupported, "{} has more than {} files", path_, most);
    const std::int64_t used_ns = std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
    entries.push_back({entry->d_name, static_cast<std::uint64_t>(info.st_size), used_ns});
  }
  return entries;
}

Status Folder::read(const std::string& name, std::span<const std::span<std::byte>> parts) const {
  const std::string path = path_of(name);
  const FileHandle handle(openat(folder_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info = {};
  if (handle.get() < 0 || fstat(handle.get(), &info) != 0) return io_error(errno, path);
  std::uint64_t expected = 0;
  for (const auto part : parts) expected += part.size();
  if (!S_ISREG(info.st_mode) || static_cast<std::uint64_t>(info.st_size) != expected)
    return error(Code::format, "{}: not a file of {} bytes", path, expected);
  for (const auto part : parts) QINFER_TRY(read_all(handle, path, part));
  return Status();
}

Status Folder::write(const std::string& name, std::span<const std::span<const std::byte>> parts) {
  const std::string path = path_of(name);  // first: from the file's beginning on nothing is allocated but for errors
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
  const FileHandle handle(openat(folder_.get(), kUnfinished, kFlags, 0600));
  if (handle.get() < 0) return io_error(errno, path);
  Status status;
  for (const auto part : parts)
    if (status.ok()) status = write_all(handle, path, part);
  if (status.ok() && renameat(folder_.get(), kUnfinished, folder_.get(), name.c_str()) != 0)
    status = io_error(errno, path);
  if (!status.ok()) unlinkat(folder_.get(), kUnfinished, 0);
  return status;
}

void Folder::remove(const std::string& name) { unlinkat(folder_.get(), name.c_str(), 0); }

void Folder::touch(const std::string& name, std::int64_t used_ns) {
  timespec times[2] = {};
  times[0].tv_nsec = UTIME_OMIT;
  times[1].tv_sec = static_cast<time_t>(used_ns / 1'000'000'000);
  times[1].tv_nsec = static_cast<long>(used_ns % 1'000'000'000);
  utimensat(folder_.get(), name.c_str(), times, AT_SYMLINK_NOFOLLOW);
}

}  // namespace qinfer::platform
