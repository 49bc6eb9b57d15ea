// See file.h.
#include "platform/file.h"

#include "base/checked.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "platform/error_text.h"
#include "platform/memory.h"
#include "platform/size_limit.h"
#include "platform/thread.h"

namespace qinfer::platform {
FileHandle::~FileHandle() {
  if (fd_ >= 0) close(fd_);
}

Result<Directory> Directory::open(const std::string& path, std::shared_ptr<const Files> files) {
  Directory directory;
  directory.path_ = path;
  directory.files_ = std::move(files);
  if (directory.files_ != nullptr) return directory;
  directory.handle_ = FileHandle(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.handle_.get() < 0) {
    const int code = errno;
    if (code == ENOTDIR) return error(Code::unsupported, "{}: not a model directory", path);
    return io_error(code, path);
  }
  return directory;
}

Result<std::optional<std::vector<std::string>>> Directory::names(std::size_t most) const {
  std::vector<std::string> names;
  if (files_ != nullptr) return std::optional(std::move(names));
  FileHandle handle(::openat(handle_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.get() < 0) return io_error(errno, path_);
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(handle.get()), &::closedir);
  if (list == nullptr) return io_error(errno, path_);
  static_cast<void>(handle.release());
  while (const dirent* entry = ::readdir(list.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (names.size() == most) return std::optional<std::vector<std::string>>();
    names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return std::optional(std::move(names));
}

namespace {

/// A file of the operating system's.
class SystemFile final : public File {
 public:
  explicit SystemFile(FileHandle handle) : handle_(std::move(handle)) {}
  Status read_at(const std::string& name, std::uint64_t offset, std::span<std::byte> out) const override;
  Result<std::shared_ptr<MappedFile>> map(const OpenFile& self) const override;
  int descriptor() const override { return handle_.get(); }

 private:
  FileHandle handle_;
};

class SystemMapping final : public MappedFile {
 public:
  ~SystemMapping() override {
    if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  void set(const void* data, std::size_t size) { bytes_ = {static_cast<const std::byte*>(data), size}; }
  void drop(std::uint64_t offset, std::uint64_t bytes) const override {
    const std::uint64_t page = page_bytes(), first = round_up(offset, page), end = (offset + bytes) / page * page;
    if (end > first) madvise(const_cast<std::byte*>(bytes_.data()) + first, end - first, MADV_DONTNEED);
  }
  void prefer(Pages pages) const override {
    const int advice = pages == Pages::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE;
    if (!bytes_.empty()) madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), advice);
  }
};

Status read_all(const FileHandle& handle, const std::string& name, std::uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = pread(handle.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      return io_error(errno, name);
    }
    if (got == 0)
      return error_at(Code::format, static_cast<std::int64_t>(offset), "{}: the file ends at {}", name, offset);
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return Status();
}

Status SystemFile::read_at(const std::string& name, std::uint64_t offset, std::span<std::byte> out) const {
  return read_all(handle_, name, offset, out);
}

Result<std::shared_ptr<MappedFile>> SystemFile::map(const OpenFile& self) const {
  // Made first, so that no mapping is lost where there is no memory for it.
  auto mapped = std::make_shared<SystemMapping>();
  if (self.size == 0) return std::shared_ptr<MappedFile>(std::move(mapped));
  void* data = mmap(nullptr, self.size, PROT_READ, MAP_SHARED, handle_.get(), 0);
  if (data == MAP_FAILED && errno == ENOMEM)
    return error_at(Code::no_memory, static_cast<std::int64_t>(self.size), "{}: no address space to map {} bytes",
                    self.name, self.size);
  if (data == MAP_FAILED) return io_error(errno, self.name);
  mapped->set(data, self.size);
  // A file that shrank between fstat and mmap would fault on its missing pages.
  struct stat info = {};
  if (fstat(handle_.get(), &info) != 0 || static_cast<std::uint64_t>(info.st_size) != self.size)
    return error(Code::io, "{}: the file changed while it was opened", self.name);
  return std::shared_ptr<MappedFile>(std::move(mapped));
}

/// The open file of a descriptor, which must be that of a regular file.
Result<OpenFile> open_file_of(FileHandle handle, std::string name) {
  struct stat info = {};
  if (handle.get() < 0 || fstat(handle.get(), &info) != 0) return io_error(errno, name);
  if (!S_ISREG(info.st_mode)) return error_at(Code::format, -1, "{}: not a regular file", name);
  return OpenFile{std::make_shared<SystemFile>(std::move(handle)), static_cast<std::uint64_t>(info.st_size),
                  std::move(name)};
}

/// `directory`: what a relative name is relative to.
Result<OpenFile> open_at(int directory, std::string name) {
  FileHandle handle(openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return open_file_of(std::move(handle), std::move(name));
}

}  // namespace

Result<OpenFile> open_path(const std::string& path, const Files* files) {
  return files != nullptr ? files->open(path) : open_at(AT_FDCWD, path);
}

Result<bool> is_one_file(const std::string& path, const Files* files) {
  if (files == nullptr) return is_regular_file(path);
  auto file = files->open(path);
  Status status = file.take_status();
  if (status.code() == Code::not_found) return false;
  QINFER_TRY(std::move(status));
  return true;
}

namespace {

Status write_at(const FileHandle& handle, const std::string& path, std::uint64_t offset,
                std::span<const std::byte> bytes) {
  ScopedSizeLimit limit;
  while (!bytes.empty()) {
    const ssize_t done = pwrite(handle.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0) {
      if (errno == EINTR) continue;
      if (errno == EFBIG) limit.exceeded();
      return io_error(errno, path);
    }
    offset += static_cast<std::uint64_t>(done);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  return Status();
}

/// See make_unnamed_file().
class UnnamedFile final : public WritableFile {
 public:
  UnnamedFile(FileHandle handle, const std::string& directory)
      : handle_(std::move(handle)), name_(directory + " (a file without a name)") {}
  Status read_at(const std::string& name, std::uint64_t offset, std::span<std::byte> out) const override {
    return read_all(handle_, name, offset, out);
  }
  Result<std::shared_ptr<MappedFile>> map(const OpenFile&) const override {
    return error(Code::unsupported, "{}: is not mapped", name_);
  }
  std::uint64_t size() const override { return size_; }
  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    QINFER_TRY(platform::write_at(handle_, name_, offset, bytes));
    size_ = std::max(size_, offset + bytes.size());
    return Status();
  }
  Status truncate(std::uint64_t bytes) override {
    const ScopedSizeLimit limit;
    if (ftruncate(handle_.get(), static_cast<off_t>(bytes)) != 0) return io_error(errno, name_);
    size_ = bytes;
    return Status();
  }
  Status sync() override { return Status(); }  // it need not last
  Status close() override { return Status(); }

 private:
  FileHandle handle_;
  const std::string name_;
  std::uint64_t size_ = 0;
};

}  // namespace

Result<std::shared_ptr<WritableFile>> make_unnamed_file(const std::string& directory) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC, kAttempts = 100;
  FileHandle handle(::open(directory.c_str(), kFlags | O_TMPFILE, 0600));
  // Some file systems have no files without names: then it loses its name at once.
  for (int i = 0; handle.get() < 0 && (errno == EOPNOTSUPP || errno == EISDIR) && i < kAttempts; ++i) {
    const std::string name = format_text("{}/.qinfer-{}-{}", directory, process_id(), now_ns());
    handle = FileHandle(::open(name.c_str(), kFlags | O_CREAT | O_EXCL, 0600));
    if (handle.get() >= 0) unlink(name.c_str());
    if (handle.get() < 0 && errno == EEXIST) errno = EISDIR;
  }
  if (handle.get() < 0) return io_error(errno, directory);
  return std::shared_ptr<WritableFile>(std::make_shared<UnnamedFile>(std::move(handle), directory));
}

namespace {

/// How often a file may be replaced while it is being opened.
constexpr int kMaxReplaced = 100;

/// Takes the lock of an open file; QINFER_E_STATE if it is taken. False if meanwhile the path leads to another
/// file, which then has a lock of its own.
Result<bool> lock_file(const FileHandle& handle, const std::string& opened, const std::string& path) {
  if (flock(handle.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return error(Code::state, "{} is being written to by another process or thread", path);
    return io_error(errno, path);
  }
  struct stat mine = {}, there = {};
  if (fstat(handle.get(), &mine) != 0) return io_error(errno, path);
  if (stat(opened.c_str(), &there) != 0) {
    if (errno == ENOENT) return false;
    return io_error(errno, path);
  }
  return mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

Status replaced_again(const std::string& path) {
  return error(Code::state, "{} was replaced {} times while it was opened", path, kMaxReplaced);
}

/// Where a path leads when symbolic links are followed, also where the last one leads to nothing yet.
Result<std::string> follow_links(std::string path) {
  constexpr int kMaxLinks = 40;
  for (int i = 0; i < kMaxLinks; ++i) {
    char target[4096];
    const ssize_t n = readlink(path.c_str(), target, sizeof target);
    if (n < 0) {
      if (errno == EINVAL || errno == ENOENT) return path;  // no link, or nothing there
      return io_error(errno, path);
    }
    if (static_cast<std::size_t>(n) == sizeof target) return io_error(ENAMETOOLONG, path);
    const std::string_view to(target, static_cast<std::size_t>(n));
    const std::size_t slash = path.rfind('/');
    if (to.starts_with('/') || slash == path.npos) {
      path = to;
    } else {
      path.replace(slash + 1, path.npos, to);
    }
  }
  return io_error(ELOOP, path);
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

/// Root may write to any file, and a rename asks for the directory's permissions alone: what the owner has protected is
/// left as it is all the same.
Status check_not_protected(const std::string& path, std::uint32_t permissions) {
  if ((permissions & S_IWUSR) != 0) return Status();
  return error_at(Code::io, EACCES,
                  "{}: a read-only file, and so not overwritten: make it writable (chmod u+w) or give another name",
                  path);
}

}  // namespace

/// What is at a path before it is written to.
Result<AtomicFile::Place> AtomicFile::judge(const std::string& path, const MayReplace& may_replace) {
  Place place;
  QINFER_ASSIGN(place.path, follow_links(path));
  struct stat info = {};
  if (stat(place.path.c_str(), &info) != 0) {
    if (errno == ENOENT) return place;
    return io_error(errno, path);
  }
  // Opened only now, for the mere opening of a device or a pipe can do something.
  if (!S_ISREG(info.st_mode)) return error_at(Code::format, -1, "{}: not a regular file, and so not overwritten", path);
  place.exists = true;
  place.device = info.st_dev;
  place.number = info.st_ino;
  place.permissions = info.st_mode & 07777;
  QINFER_TRY(check_not_protected(path, place.permissions));
  if (!may_replace || info.st_size == 0) return place;
  QINFER_ASSIGN(const OpenFile file, open_path(place.path));
  QINFER_TRY(may_replace(file));
  return place;
}

Status AtomicFile::check_replaceable(const std::string& path, const MayReplace& may_replace) {
  return judge(path, may_replace).take_status();
}

Result<AtomicFile> AtomicFile::create(const std::string& path, const MayReplace& may_replace) {
  QINFER_ASSIGN(Place place, judge(path, may_replace));
  std::string temporary = place.path + ".qinfer-new";
  // Made before there is a file that it has to remove: from then on nothing is allocated.
  AtomicFile file(FileHandle(), path, std::move(place), std::string());
  for (int i = 0; i < kMaxReplaced; ++i) {
    // One that a killed process has left is used again; its lock went with the process. With the permissions that
    // the process's mask leaves or, in place of a file, with that file's.
    FileHandle handle(::open(temporary.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                             file.place_.exists ? 0600 : 0666));
    if (handle.get() < 0) return io_error(errno, path);
    struct stat info = {};
    if (fstat(handle.get(), &info) != 0) return io_error(errno, path);
    // A file that also has another name belongs to something else.
    if (!S_ISREG(info.st_mode) || info.st_nlink > 1)
      return error_at(Code::format, -1, "{}: not a file of qinfer's own, and so not overwritten", temporary);
    QINFER_ASSIGN(const bool locked, lock_file(handle, temporary, path));
    if (!locked) continue;
    file.handle_ = std::move(handle);
    file.temporary_ = std::move(temporary);
    if (ftruncate(file.handle_.get(), 0) != 0 ||
        (file.place_.exists && fchmod(file.handle_.get(), file.place_.permissions) != 0))
      return io_error(errno, path);
    return file;
  }
  return replaced_again(path);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
  // A child that was forked meanwhile has the descriptor too, and would keep the lock.
  if (handle_.get() >= 0) flock(handle_.get(), LOCK_UN);
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  QINFER_TRY(write_at(written_, bytes));
  written_ += bytes.size();
  return Status();
}

Status AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  return platform::write_at(handle_, path_, offset, bytes);
}

Status AtomicFile::commit() {
  if (fsync(handle_.get()) != 0) return io_error(errno, path_);
  // Only what was judged is replaced.
  struct stat now = {};
  const bool exists = stat(place_.path.c_str(), &now) == 0;
  if (!exists && errno != ENOENT) return io_error(errno, path_);
  if (exists != place_.exists || (exists && (now.st_dev != place_.device || now.st_ino != place_.number)))
    return error(Code::state, "{} was changed by another process while it was written", path_);
  if (exists) QINFER_TRY(check_not_protected(path_, now.st_mode));
  if (rename(temporary_.c_str(), place_.path.c_str()) != 0) return io_error(errno, path_);
  temporary_.clear();
  return sync_directory_of(place_.path);
}

Result<UpdatedFile> UpdatedFile::open(const std::string& path) {
  for (int i = 0; i < kMaxReplaced; ++i) {
    struct stat info = {};
    if (stat(path.c_str(), &info) != 0) return io_error(errno, path);
    if (!S_ISREG(info.st_mode))
      return error_at(Code::format, -1, "{}: not a regular file, and so not overwritten", path);
    QINFER_TRY(check_not_protected(path, info.st_mode));
    FileHandle handle(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (handle.get() < 0) return io_error(errno, path);
    QINFER_ASSIGN(const bool locked, lock_file(handle, path, path));
    if (locked) return UpdatedFile(std::move(handle), path);
  }
  return replaced_again(path);
}

UpdatedFile::~UpdatedFile() {
  // A child that was forked meanwhile has the descriptor too, and would keep the lock.
  if (handle_.get() >= 0) flock(handle_.get(), LOCK_UN);
}

Result<OpenFile> UpdatedFile::reader() const {
  return open_file_of(FileHandle(fcntl(handle_.get(), F_DUPFD_CLOEXEC, 0)), path_);
}

Status UpdatedFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  return platform::write_at(handle_, path_, offset, bytes);
}

Status UpdatedFile::sync() {
  if (fsync(handle_.get()) != 0) return io_error(errno, path_);
  return Status();
}

namespace {

Status check_plain(std::string_view name) {
  if (!name.empty() && name != "." && name != ".." && name.find('/') == name.npos && name.find('\0') == name.npos)
    return Status();
  return error_at(Code::format, -1, "\"{}\" is not a plain file name", name);
}

}  // namespace

Result<OpenFile> Directory::open_file_in(std::string_view folder, std::string_view name) const {
  QINFER_TRY(check_plain(folder));
  QINFER_TRY(check_plain(name));
  return open_checked(format_text("{}/{}", folder, name));
}

Result<OpenFile> Directory::open_file(std::string_view name) const {
  QINFER_TRY(check_plain(name));
  return open_checked(name);
}

Result<OpenFile> Directory::open_checked(std::string_view name) const {
  if (files_ == nullptr) {
    auto file = open_at(handle_.get(), std::string(name));
    if (!file.ok()) return file.take_status().with_prefix(path_);
    return file;
  }
  const std::string_view separator = path_.empty() || path_.ends_with('/') ? "" : "/";
  QINFER_ASSIGN(OpenFile file, files_->open(format_text("{}{}{}", path_, separator, name)));
  file.name = name;  // as in a directory of the operating system's, wherever it is told apart by it
  return file;
}

Result<std::string> Directory::read_text(std::string_view name, std::uint64_t max_bytes) const {
  const std::size_t slash = name.find('/');
  QINFER_ASSIGN(const OpenFile file,
                slash == name.npos ? open_file(name) : open_file_in(name.substr(0, slash), name.substr(slash + 1)));
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
  return fstat(file.file->descriptor(), &a) == 0 && stat(path.c_str(), &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

bool is_file_in(const Directory& directory, std::string_view name, const std::string& path) {
  auto target = follow_links(path);
  if (!target.ok()) return false;
  const std::string& full = target.value();
  const std::size_t slash = full.rfind('/');
  const std::string folder = slash == full.npos ? "." : full.substr(0, slash + 1);
  struct stat a = {}, b = {};
  return full.substr(slash == full.npos ? 0 : slash + 1) == name && fstat(directory.handle_.get(), &a) == 0 &&
         stat(folder.c_str(), &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

Status read_at(const OpenFile& file, std::uint64_t offset, std::span<std::byte> out) {
  return file.file->read_at(file.name, offset, out);
}

}  // namespace qinfer::platform
