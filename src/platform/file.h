// Files: those of a model directory, opened by plain name beneath it, and single ones by their path; read, mapped or
// written. Where a path leads is decided by the operating system or, where a host brings files of its own (an archive,
// an encrypted store, memory), by its Files; File and MappedFile are what both have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "platform/memory.h"

namespace qinfer::platform {

/// A file descriptor that closes itself.
class FileHandle {
 public:
  explicit FileHandle(int fd = -1) : fd_(fd) {}
  FileHandle(FileHandle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileHandle();
  int get() const { return fd_; }
  /// It is another's to close from now on.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

class MappedFile;
struct OpenFile;

/// An open file of the operating system or of a host. Closed by its destructor.
class File {
 public:
  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  virtual ~File() = default;
  /// Reads exactly out.size() bytes at `offset`; QINFER_E_FORMAT if the file ends before. `name` is for messages.
  virtual Status read_at(const std::string& name, std::uint64_t offset, std::span<std::byte> out) const = 0;
  /// `self` is this file. QINFER_E_NO_MEMORY without address space.
  virtual Result<std::shared_ptr<MappedFile>> map(const OpenFile& self) const = 0;
  /// Whether a host's callback has failed, which says nothing about what is in the file.
  virtual bool host_failed() const { return false; }
  /// That of the operating system, or -1.
  virtual int descriptor() const { return -1; }
};

/// A regular file of known size.
struct OpenFile {
  std::shared_ptr<const File> file;
  std::uint64_t size = 0;
  std::string name;
};

/// A file of a host that is read and changed in place. Several processes at once are for the host to keep apart.
class WritableFile : public File {
 public:
  virtual std::uint64_t size() const = 0;
  /// Anywhere; the file grows as needed.
  virtual Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// Cuts off what is beyond `bytes`, where the host can.
  virtual Status truncate(std::uint64_t bytes) = 0;
  /// Returns when all that was written will last, whatever happens to the process or the machine.
  virtual Status sync() = 0;
  /// To be told of a failure; otherwise the destructor closes.
  virtual Status close() = 0;
};

/// The files of a host, in place of the operating system's. Names are paths as the host of the library gave them, or
/// "<path>/<file>" in a directory.
class Files {
 public:
  virtual ~Files() = default;
  /// QINFER_E_NOT_FOUND if there is no such file.
  virtual Result<OpenFile> open(const std::string& name) const = 0;
  /// Makes an empty file where there is none.
  virtual Result<std::shared_ptr<WritableFile>> open_to_write(const std::string& name) const = 0;
};

/// Opens a regular file by its path; the name in messages is the path. `files` null: the operating system's.
Result<OpenFile> open_path(const std::string& path, const Files* files = nullptr);
/// An empty file of the operating system's without a name, in this directory: nothing is left of it when the object is
/// gone, whatever becomes of the process. Nobody else reads it.
Result<std::shared_ptr<WritableFile>> make_unnamed_file(const std::string& directory);
/// Whether a path is that of one file and not of a directory. Only a host's open() can fail.
Result<bool> is_one_file(const std::string& path, const Files* files);

/// A file that appears under its path whole or not at all: written as PATH.qinfer-new, synced and renamed by commit(),
/// removed again without it. Symbolic links are followed: the file that they lead to is replaced. It keeps
/// the permissions of a file that it replaces. QINFER_E_STATE while another writer has it, QINFER_E_FORMAT where
/// something else than a regular file is, QINFER_E_IO (EACCES) where the file's owner may not write to it.
class AtomicFile {
 public:
  /// Refuses to let a file be replaced; not asked about empty ones.
  using MayReplace = std::function<Status(const OpenFile& file)>;
  static Result<AtomicFile> create(const std::string& path, const MayReplace& may_replace = {});
  /// What create() would say of what is at the path now.
  static Status check_replaceable(const std::string& path, const MayReplace& may_replace);
  AtomicFile(AtomicFile&& other) noexcept
      : handle_(std::move(other.handle_)),
        path_(std::move(other.path_)),
        place_(std::move(other.place_)),
        temporary_(std::exchange(other.temporary_, {})),
        written_(other.written_) {}
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  /// After what was written this way before.
  Status write(std::span<const std::byte> bytes);
  /// At any offset; bytes that were never written read as zero.
  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  Status commit();

 private:
  /// Where a path leads, and what was there when it was judged.
  struct Place {
    std::string path;
    bool exists = false;
    std::uint64_t device = 0, number = 0;
    std::uint32_t permissions = 0;
  };
  static Result<Place> judge(const std::string& path, const MayReplace& may_replace);
  AtomicFile(FileHandle handle, std::string path, Place place, std::string temporary)
      : handle_(std::move(handle)),
        path_(std::move(path)),
        place_(std::move(place)),
        temporary_(std::move(temporary)) {}
  FileHandle handle_;
  std::string path_;  ///< as the caller wrote it
  Place place_;
  std::string temporary_;
  std::uint64_t written_ = 0;
};

/// An existing file that is changed in place, by one process at a time.
class UpdatedFile {
 public:
  /// QINFER_E_STATE while another writer has it, QINFER_E_IO (EACCES) where the file's owner may not write to it.
  static Result<UpdatedFile> open(const std::string& path);
  UpdatedFile(UpdatedFile&&) = default;
  UpdatedFile& operator=(UpdatedFile&&) = delete;
  ~UpdatedFile();
  /// The same file for reading.
  Result<OpenFile> reader() const;
  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Returns when all that was written has reached the disk.
  Status sync();

 private:
  UpdatedFile(FileHandle handle, std::string path) : handle_(std::move(handle)), path_(std::move(path)) {}
  FileHandle handle_;
  std::string path_;
};

class Directory {
 public:
  /// `files` null: the operating system's. A host's are asked for nothing yet, for they are not listed.
  static Result<Directory> open(const std::string& path, std::shared_ptr<const Files> files = nullptr);

  const std::string& path() const { return path_; }

  /// `name` must be a plain file name: a '/' or ".." in it is QINFER_E_FORMAT, because names also come from index
  /// files. A symbolic link is followed, since the download caches of model hubs consist of them. QINFER_E_NOT_FOUND
  /// if there is no such file.
  Result<OpenFile> open_file(std::string_view name) const;

  /// The same of a file in a folder of it; both names must be plain.
  Result<OpenFile> open_file_in(std::string_view folder, std::string_view name) const;

  /// The names of what is in it, sorted; nullopt if there are more than `most`. Of a host's files none.
  Result<std::optional<std::vector<std::string>>> names(std::size_t most) const;
  /// The whole text of a small file, which may be in a folder of the directory ("1_Pooling/config.json"); larger than
  /// `max_bytes` is QINFER_E_FORMAT.
  Result<std::string> read_text(std::string_view name, std::uint64_t max_bytes) const;

 private:
  Result<OpenFile> open_checked(std::string_view name) const;
  friend bool is_file_in(const Directory& directory, std::string_view name, const std::string& path);
  FileHandle handle_;
  std::shared_ptr<const Files> files_;
  std::string path_;
};

/// All of a file that the system writes as it is read (in /proc and /sys); empty if it cannot be read.
std::string read_system_file(const std::string& path);

bool is_regular_file(const std::string& path);
/// Whether the path leads to this very file.
bool is_same_file(const OpenFile& file, const std::string& path);
/// Whether the path, links followed, names a file of this name in this directory, be it there or not.
bool is_file_in(const Directory& directory, std::string_view name, const std::string& path);

/// A whole file as memory that is only read, until the object is destroyed. The operating system's pages are shared and
/// clean, so that it may drop them; a host's memory is only read.
class MappedFile {
 public:
  static Result<std::shared_ptr<MappedFile>> map(const OpenFile& file) { return file.file->map(file); }
  virtual ~MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return bytes_; }
  /// The pages of a range leave the process (not the system's cache); reading them again brings them back. Nothing is
  /// done to a host's memory.
  virtual void drop(std::uint64_t offset, std::uint64_t bytes) const = 0;
  /// A wish. With Pages::huge, file systems that can (XFS, and ext4 since Linux 6.16) read what is not in memory yet
  /// into 2 MiB pages, and map it as such; others go on with small pages, and so does a host's memory.
  virtual void prefer(Pages pages) const = 0;

 protected:
  MappedFile() = default;
  std::span<const std::byte> bytes_;
};

/// Reads exactly out.size() bytes at `offset`; QINFER_E_FORMAT if the file ends before.
Status read_at(const OpenFile& file, std::uint64_t offset, std::span<std::byte> out);

}  // namespace qinfer::platform
