// A folder of files that are this library's own, used by one object of one process at a time: each file is written
// whole or not at all, and readable by its owner alone. It is locked while it is open. Other files in it are not
// touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "platform/file.h"

namespace qinfer::platform {

class Folder {
 public:
  /// Makes it (for its owner alone) where there is none. QINFER_E_STATE while it is open elsewhere.
  static Result<Folder> open(const std::string& path);
  Folder(Folder&&) = default;
  Folder& operator=(Folder&&) = delete;
  ~Folder();

  struct Entry {
    std::string name;
    std::uint64_t bytes = 0;
    std::int64_t used_ns = 0;  ///< when it was written or touched last, since 1970
  };
  /// Its regular files. QINFER_E_UNSUPPORTED for more than `most`.
  Result<std::vector<Entry>> list(std::size_t most) const;
  /// Fills all parts, one after the other, with a file of exactly their size. QINFER_E_FORMAT for one of another size,
  /// QINFER_E_NOT_FOUND. `name`: a plain file name, here and below.
  Status read(const std::string& name, std::span<const std::span<std::byte>> parts) const;
  /// A file of these parts, one after the other, in place of one with the same name. It survives this process, and not
  /// a crash of the machine, after which its content may be missing. For one thread at a time.
  Status write(const std::string& name, std::span<const std::span<const std::byte>> parts);
  /// What cannot be removed or touched stays as it is.
  void remove(const std::string& name);
  void touch(const std::string& name, std::int64_t used_ns);

 private:
  Folder(FileHandle folder, FileHandle lock, std::string path)
      : folder_(std::move(folder)), lock_(std::move(lock)), path_(std::move(path)) {}
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }

  FileHandle folder_, lock_;
  std::string path_;
};

}  // namespace qinfer::platform
