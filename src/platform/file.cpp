// See file.h.
#include "platform/file.h"

#include "base/checked.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace qinfer::platform {
namespace {

std::string errno_text(int code) {
  char buffer[128];
  return strerror_r(code, buffer, sizeof buffer);  // the GNU form: returns the text, thread-safe
}

Status io_error(int code, std::string_view what) {
  return error_at(code == ENOENT ? Code::not_found : Code::io, code, "{}: {}", what, errno_text(code));
}

}  // namespace

FileHandle::~FileHandle() {
  if (fd_ >= 0) close(fd_);
}

Result<Directory> Directory::open(const std::string& path) {
  Directory directory;
  directory.path_ = path;
  directory.handle_ = FileHandle(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.handle_.get() < 0) {
    const int code = errno;
    if (code == ENOTDIR) return error(Code::unsupported, "{}: not a model directory", path);
    return io_error(code, path);
  }
  return directory;
}

namespace {

/// `directory`: what a relative name is relative to.
Result<OpenFile> open_at(int directory, std::string name) {
  OpenFile file;
  file.name = std::move(name);
  file.handle = FileHandle(openat(directory, file.name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.handle.get() < 0) return io_error(errno, file.name);
  struct stat info = {};
  if (fstat(file.handle.get(), &info) != 0) return io_error(errno, file.name);
  if (!S_ISREG(info.st_mode)) return error_at(Code::format, -1, "{}: not a regular file", file.name);
  file.size = static_cast<std::uint64_t>(info.st_size);
  return file;
}

}  // namespace

Result<OpenFile> open_path(const std::string& path) { return open_at(AT_FDCWD, path); }

namespace {

Status write_at(const FileHandle& handle, const std::string& path, std::uint64_t offset,
                std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = pwrite(handle.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0) {
      if (errno == EINTR) continue;
      return io_error(errno, path);
    }
    offset += static_cast<std::uint64_t>(done);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  return Status();
}

}  // namespace

namespace {

/// Takes the lock of an open file; QINFER_E_STATE if somebody else has it. False if meanwhile the path leads to another
/// file, which then has a lock of its own.
Result<bool> lock_file(const FileHandle& handle, const std::string& opened, const std::string& path) {
  if (flock(handle.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return error(Code::state, "{} is being written to by somebody else", path);
    return io_error(errno, path);
  }
  struct stat mine = {}, there = {};
  if (fstat(handle.get(), &mine) != 0) return io_error(errno, path);
  return stat(opened.c_str(), &there) == 0 && mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

/// So that a rename lasts: the entry is in the directory.
Status sync_directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == path.npos ? "." : path.substr(0, slash + 1);
  const FileHandle handle(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // EINVAL: a file system without anything to sync.
  if (handle.get() < 0 || (fsync(handle.get()) != 0 && errno != EINVAL)) return io_error(errno, directory);
  return Status();
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  const std::string temporary = path + ".qinfer-new";
  for (;;) {
    // One that a killed process left behind is used again; its lock went with the process.
    struct stat old = {};
    const bool replaces = stat(path.c_str(), &old) == 0;
    // With the permissions that the process's mask leaves or, in place of a file, with that file's.
    FileHandle handle(::open(temporary.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, replaces ? 0600 : 0666));
    if (handle.get() < 0) return io_error(errno, path);
    QINFER_ASSIGN(const bool locked, lock_file(handle, temporary, path));
    if (!locked) continue;
    if (ftruncate(handle.get(), 0) != 0 || (replaces && fchmod(handle.get(), old.st_mode & 07777) != 0))
      return io_error(errno, path);
    return AtomicFile(std::move(handle), path, temporary);
  }
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(handle_.get(), bytes.data(), bytes.size());
    if (done < 0) {
      if (errno == EINTR) continue;
      return io_error(errno, path_);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  return Status();
}

Status AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  return platform::write_at(handle_, path_, offset, bytes);
}

Status AtomicFile::commit() {
  if (fsync(handle_.get()) != 0 || rename(temporary_.c_str(), path_.c_str()) != 0) return io_error(errno, path_);
  temporary_.clear();
  return sync_directory_of(path_);
}

Result<UpdatedFile> UpdatedFile::open(const std::string& path) {
  for (;;) {
    FileHandle handle(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (handle.get() < 0) return io_error(errno, path);
    QINFER_ASSIGN(const bool locked, lock_file(handle, path, path));
    if (locked) return UpdatedFile(std::move(handle), path);
  }
}

UpdatedFile::~UpdatedFile() {
  // A child that was forked meanwhile has the descriptor too, and would keep the lock.
  if (handle_.get() >= 0) flock(handle_.get(), LOCK_UN);
}

Result<OpenFile> UpdatedFile::reader() const {
  OpenFile file;
  file.name = path_;
  file.handle = FileHandle(fcntl(handle_.get(), F_DUPFD_CLOEXEC, 0));
  struct stat info = {};
  if (file.handle.get() < 0 || fstat(file.handle.get(), &info) != 0) return io_error(errno, path_);
  if (!S_ISREG(info.st_mode)) return error_at(Code::format, -1, "{}: not a regular file", path_);
  file.size = static_cast<std::uint64_t>(info.st_size);
  return file;
}

Status UpdatedFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  return platform::write_at(handle_, path_, offset, bytes);
}

Status UpdatedFile::sync() {
  if (fsync(handle_.get()) != 0) return io_error(errno, path_);
  return Status();
}

Result<OpenFile> Directory::open_file(std::string_view name) const {
  if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos || name.find('\0') != name.npos)
    return error_at(Code::format, -1, "\"{}\" is not a plain file name", name);
  return open_at(handle_.get(), std::string(name));
}

Result<std::string> Directory::read_text(std::string_view name, std::uint64_t max_bytes) const {
  QINFER_ASSIGN(const OpenFile file, open_file(name));
  if (file.size > max_bytes)
    return error_at(Code::format, -1, "{}: {} bytes, at most {} are accepted", name, file.size, max_bytes);
  std::string text(file.size, '\0');
  QINFER_TRY(read_at(file, 0, std::as_writable_bytes(std::span(text))));
  return text;
}

std::string read_system_file(const std::string& path) {
  std::string text;
  const FileHandle handle(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (handle.get() < 0) return text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = read(handle.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

bool is_regular_file(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool is_same_file(const OpenFile& file, const std::string& path) {
  struct stat a = {}, b = {};
  return fstat(file.handle.get(), &a) == 0 && stat(path.c_str(), &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

Result<std::shared_ptr<MappedFile>> MappedFile::map(const OpenFile& file) {
  if (file.size == 0) return std::shared_ptr<MappedFile>(new MappedFile(nullptr, 0));
  void* data = mmap(nullptr, file.size, PROT_READ, MAP_SHARED, file.handle.get(), 0);
  if (data == MAP_FAILED) return io_error(errno, file.name);
  std::shared_ptr<MappedFile> mapped(new MappedFile(static_cast<const std::byte*>(data), file.size));
  // A file that shrank between fstat and mmap would fault on its missing pages.
  struct stat info = {};
  if (fstat(file.handle.get(), &info) != 0 || static_cast<std::uint64_t>(info.st_size) != file.size)
    return error(Code::io, "{}: the file changed while it was opened", file.name);
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::drop(std::uint64_t offset, std::uint64_t bytes) const {
  constexpr std::uint64_t kPage = 4096;
  const std::uint64_t first = round_up(offset, kPage), end = (offset + bytes) / kPage * kPage;
  if (end > first) madvise(const_cast<std::byte*>(data_) + first, end - first, MADV_DONTNEED);
}

Status read_at(const OpenFile& file, std::uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = pread(file.handle.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      return io_error(errno, file.name);
    }
    if (got == 0)
      return error_at(Code::format, static_cast<std::int64_t>(offset), "{}: the file ends at {}", file.name, offset);
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return Status();
}

}  // namespace qinfer::platform
