// Files of a host (qinfer_files) that ask nothing of heap and system during a call: what fails then is the library's
// own. Counts what is open and mapped.
#pragma once

#include <qinfer/qinfer.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace qinfer::faults {

class HostFiles {
 public:
  explicit HostFiles(bool maps) {
    calls_.struct_size = sizeof calls_;
    calls_.user = this;
    calls_.open = open;
    calls_.size = size;
    calls_.read_at = read_at;
    calls_.close = close;
    if (maps) calls_.map = map;
    if (maps) calls_.unmap = unmap;
    calls_.write_at = write_at;
    calls_.sync = [](void*, void*) { return qinfer_status{QINFER_OK}; };
    calls_.truncate = [](void* file, std::uint64_t n, void*) {
      static_cast<File*>(file)->size = n;
      return qinfer_status{QINFER_OK};
    };
  }
  HostFiles(const HostFiles&) = delete;
  HostFiles& operator=(const HostFiles&) = delete;
  ~HostFiles() {
    for (const File& file : files_) std::free(file.data);
  }

  const qinfer_files* calls() const { return &calls_; }
  /// Before the first call. The file can grow to `capacity`; without `exists` it is not there yet.
  void add(std::string name, const std::string& bytes, std::size_t capacity = 0, bool exists = true) {
    capacity = (std::max(capacity, bytes.size()) + 64) / 64 * 64;
    files_.push_back({std::move(name), static_cast<char*>(std::aligned_alloc(64, capacity)), capacity, 0, false});
    set(files_.size() - 1, bytes, exists);
  }
  void set(std::size_t i, const std::string& bytes, bool exists = true) {
    std::memcpy(files_[i].data, bytes.data(), bytes.size());
    files_[i].size = bytes.size();
    files_[i].exists = exists;
  }
  std::string bytes(std::size_t i) const { return {files_[i].data, files_[i].size}; }
  long n_open() const { return n_open_; }
  long n_mapped() const { return n_mapped_; }

 private:
  struct File {
    std::string name;
    char* data;
    std::size_t capacity;
    std::uint64_t size;
    bool exists;
  };

  static qinfer_status open(const char* name, std::int32_t mode, void** out, void* user) {
    auto* self = static_cast<HostFiles*>(user);
    for (File& file : self->files_) {
      if (file.name != name) continue;
      if (!file.exists && mode == QINFER_FILE_READ) return QINFER_E_NOT_FOUND;
      file.exists = true;
      ++self->n_open_;
      *out = &file;
      return QINFER_OK;
    }
    return QINFER_E_NOT_FOUND;
  }
  static qinfer_status size(void* file, std::uint64_t* out, void*) {
    *out = static_cast<File*>(file)->size;
    return QINFER_OK;
  }
  static qinfer_status read_at(void* handle, std::uint64_t offset, void* data, std::size_t n, void*) {
    const auto* file = static_cast<File*>(handle);
    if (offset + n > file->size) return QINFER_E_IO;
    std::memcpy(data, file->data + offset, n);
    return QINFER_OK;
  }
  static qinfer_status close(void*, void* user) {
    --static_cast<HostFiles*>(user)->n_open_;
    return QINFER_OK;
  }
  static qinfer_status map(void* file, std::uint64_t, const void** out, void* user) {
    ++static_cast<HostFiles*>(user)->n_mapped_;
    *out = static_cast<File*>(file)->data;
    return QINFER_OK;
  }
  static void unmap(void*, const void*, std::uint64_t, void* user) { --static_cast<HostFiles*>(user)->n_mapped_; }
  static qinfer_status write_at(void* handle, std::uint64_t offset, const void* data, std::size_t n, void*) {
    auto* file = static_cast<File*>(handle);
    if (offset + n > file->capacity) return QINFER_E_IO;
    std::memcpy(file->data + offset, data, n);
    if (offset + n > file->size) file->size = offset + n;
    return QINFER_OK;
  }

  qinfer_files calls_ = {};
  std::vector<File> files_;
  long n_open_ = 0, n_mapped_ = 0;
};

}  // namespace qinfer::faults
