// Files in memory, reached through a qinfer_files, as a host has them that keeps models and snapshots in an archive or
// a database. Counts what is opened, mapped and called, lets any call fail, and remembers what was written between
// syncs, so that tests can stop a saver anywhere.
#pragma once

#include <qinfer/qinfer.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace qinfer::test {

class MemoryFiles {
 public:
  /// One write, or (no bytes) a sync.
  struct Step {
    std::uint64_t offset = 0;
    std::string bytes;
    bool is_sync = false, is_cut = false;
  };
  struct Call {
    std::string what, name;
  };

  std::map<std::string, std::string> files;

  // How the host behaves.
  bool maps = false, unmaps = true, truncates = true;
  std::size_t fail_at = SIZE_MAX;  ///< the number of the call that fails, from 0 on
  qinfer_status fail_with = QINFER_E_IO;
  std::map<std::string, std::uint64_t> sizes;  ///< what size says, where it is not the truth
  std::size_t misaligned_by = 0;
  bool maps_null = false;

  // What has happened.
  std::vector<Call> calls;
  std::size_t n_open = 0, n_mapped = 0;  ///< now
  bool misused = false;                  ///< a call that the library promises not to make
  std::vector<Step> steps;

  MemoryFiles() = default;
  MemoryFiles(const MemoryFiles&) = delete;
  MemoryFiles& operator=(const MemoryFiles&) = delete;

  /// The callbacks; they use this object.
  const qinfer_files* callbacks() {
    std::memset(&calls_, 0, sizeof calls_);
    calls_.struct_size = sizeof calls_;
    calls_.user = this;
    calls_.open = open;
    calls_.size = size;
    calls_.read_at = read_at;
    calls_.close = close;
    if (maps) calls_.map = map;
    if (maps && unmaps) calls_.unmap = unmap;
    calls_.write_at = write_at;
    calls_.sync = sync;
    if (truncates) calls_.truncate = truncate;
    return &calls_;
  }
  bool all_closed() const { return n_open == 0 && n_mapped == 0; }
  void forget() {
    calls.clear();
    steps.clear();
    thread_ = std::thread::id();
  }

 private:
  struct Open {
    std::string name;
    bool writable = false, failed = false;
    const void* mapped = nullptr;
    std::unique_ptr<char[]> memory;
  };

  static MemoryFiles& self(void* user) { return *static_cast<MemoryFiles*>(user); }

  /// Counts a call; whether it is to fail.
  bool fails(const std::string& what, const std::string& name, Open* file) {
    if (thread_ == std::thread::id()) thread_ = std::this_thread::get_id();
    if (thread_ != std::this_thread::get_id()) misused = true;
    if (file != nullptr && file->failed && what != "close") misused = true;
    calls.push_back({what, name});
    const bool fail = calls.size() - 1 == fail_at;
    if (fail && file != nullptr) file->failed = true;
    return fail;
  }

  static qinfer_status open(const char* name, std::int32_t mode, void** out, void* user) {
    MemoryFiles& files = self(user);
    if (files.fails("open", name, nullptr)) return files.fail_with;
    if (mode != QINFER_FILE_READ && mode != QINFER_FILE_WRITE) files.misused = true;
    if (mode == QINFER_FILE_WRITE) files.files[name];
    if (files.files.count(name) == 0) return QINFER_E_NOT_FOUND;
    *out = new Open{name, mode == QINFER_FILE_WRITE, false, nullptr, nullptr};
    ++files.n_open;
    return QINFER_OK;
  }
  static qinfer_status size(void* handle, std::uint64_t* out, void* user) {
    MemoryFiles& files = self(user);
    auto* file = static_cast<Open*>(handle);
    if (files.fails("size", file->name, file)) return files.fail_with;
    *out = files.sizes.count(file->name) != 0 ? files.sizes[file->name] : files.files[file->name].size();
    return QINFER_OK;
  }
  static qinfer_status read_at(void* handle, std::uint64_t offset, void* data, std::size_t n, void* user) {
    MemoryFiles& files = self(user);
    auto* file = static_cast<Open*>(handle);
    if (files.fails("read_at", file->name, file)) return files.fail_with;
    const std::string& bytes = files.files[file->name];
    if (offset > bytes.size() || n > bytes.size() - offset) return QINFER_E_IO;
    std::memcpy(data, bytes.data() + offset, n);
    return QINFER_OK;
  }
  static qinfer_status close(void* handle, void* user) {
    MemoryFiles& files = self(user);
    const std::unique_ptr<Open> file(static_cast<Open*>(handle));
    if (file->mapped != nullptr && files.unmaps) files.misused = true;
    --files.n_open;
    return files.fails("close", file->name, file.get()) ? files.fail_with : QINFER_OK;
  }
  static qinfer_status map(void* handle, std::uint64_t n, const void** out, void* user) {
    MemoryFiles& files = self(user);
    auto* file = static_cast<Open*>(handle);
    if (files.fails("map", file->name, file)) return files.fail_with;
    if (files.maps_null) return QINFER_OK;
    const std::string& bytes = files.files[file->name];
    if (n > bytes.size()) return QINFER_E_IO;
    file->memory.reset(new char[bytes.size() + 128]);
    const std::size_t past = reinterpret_cast<std::uintptr_t>(file->memory.get()) % 64;
    char* at = file->memory.get() + (64 - past) % 64 + files.misaligned_by;
    std::memcpy(at, bytes.data(), n);
    file->mapped = *out = at;
    if (files.unmaps) ++files.n_mapped;
    return QINFER_OK;
  }
  static void unmap(void* handle, const void* data, std::uint64_t n, void* user) {
    MemoryFiles& files = self(user);
    auto* file = static_cast<Open*>(handle);
    if (file->mapped != data || data == nullptr || n > files.files[file->name].size()) files.misused = true;
    file->mapped = nullptr;
    --files.n_mapped;
  }
  static qinfer_status write_at(void* handle, std::uint64_t offset, const void* data, std::size_t n, void* user) {
    MemoryFiles& files = self(user);
    auto* file = static_cast<Open*>(handle);
    if (!file->writable) files.misused = true;
    if (files.fails("write_at", file->name, file)) return files.fail_with;
    const Step step{offset, std::string(static_cast<const char*>(data), n), false, false};
    apply(step, files.files[file->name]);
    files.steps.push_back(step);
    return QINFER_OK;
  }
  static qinfer_status sync(void* handle, void* user) {
    MemoryFiles& files = self(user);
    auto* file = static_cast<Open*>(handle);
    if (files.fails("sync", file->name, file)) return files.fail_with;
    files.steps.push_back({0, "", true, false});
    return QINFER_OK;
  }
  static qinfer_status truncate(void* handle, std::uint64_t n, void* user) {
    MemoryFiles& files = self(user);
    auto* file = static_cast<Open*>(handle);
    if (files.fails("truncate", file->name, file)) return files.fail_with;
    if (n > files.files[file->name].size()) files.misused = true;
    const Step step{n, "", false, true};
    apply(step, files.files[file->name]);
    files.steps.push_back(step);
    return QINFER_OK;
  }

  qinfer_files calls_;
  std::thread::id thread_;

 public:
  /// Does to a file what a step did. Between its end and what is written there may be anything.
  static void apply(const Step& step, std::string& bytes) {
    if (step.is_cut) bytes.resize(step.offset);
    if (step.is_sync || step.is_cut) return;
    if (bytes.size() < step.offset + step.bytes.size()) bytes.resize(step.offset + step.bytes.size(), '\x5a');
    bytes.replace(step.offset, step.bytes.size(), step.bytes);
  }
};

}  // namespace qinfer::test
