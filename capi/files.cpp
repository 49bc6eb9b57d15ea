// See files.h.
#include "files.h"

#include <algorithm>

#include "support.h"

namespace qinfer::capi {
namespace {

/// Where mapped weights may begin: whatever kernels ask for.
constexpr std::uint64_t kMapAlignment = 64;

/// The result of a callback, as a Status.
Status status_of(qinfer_status given, bool opening, std::string_view call, const std::string& name) {
  if (given == QINFER_OK) return Status();
  constexpr qinfer_status kLast = QINFER_E_NUMERIC;
  const bool known = given < 0 && given >= kLast && given != QINFER_E_INTERNAL;
  const bool passed_on = known && (opening || given != QINFER_E_NOT_FOUND);
  const Code code = passed_on ? static_cast<Code>(given) : Code::io;
  if (opening && code == Code::not_found) return error(code, "{}: the host has no such file", name);
  if (given < 0 && given >= kLast)
    return error(code, "{}: the host's {} gave {}", name, call, qinfer_status_name(given));
  return error(code, "{}: the host's {} gave {}, which is no status", name, call, given);
}

/// One open file of a host.
class HostFile final : public platform::WritableFile {
 public:
  static Result<std::shared_ptr<HostFile>> open(const qinfer_files& calls, const std::string& name, std::int32_t mode) {
    // Made first, so that no file is lost where there is no memory for it.
    auto file = std::make_shared<HostFile>(calls, name);
    QINFER_TRY(status_of(calls.open(name.c_str(), mode, &file->handle_, calls.user), true, "open", name));
    file->is_open_ = true;
    QINFER_TRY(status_of(calls.size(file->handle_, &file->size_, calls.user), false, "size", name));
    if (file->size_ > INT64_MAX)
      return error_at(Code::format, -1, "{}: the host says that it has {} bytes, at most 2^63 - 1 are possible", name,
                      file->size_);
    return file;
  }
  HostFile(const qinfer_files& calls, const std::string& name) : calls_(calls), name_(name) {}
  ~HostFile() override {
    if (is_open_) static_cast<void>(calls_.close(handle_, calls_.user));
  }

  Status read_at(const std::string&, std::uint64_t offset, std::span<std::byte> out) const override {
    if (out.empty()) return Status();
    if (offset > size_ || out.size() > size_ - offset)
      return error_at(Code::format, static_cast<std::int64_t>(size_), "{}: the file ends at {}", name_, size_);
    return checked(calls_.read_at(handle_, offset, out.data(), out.size(), calls_.user), "read_at");
  }
  Result<std::shared_ptr<platform::MappedFile>> map(const platform::OpenFile& self) const override;
  bool host_failed() const override { return failed_; }

  std::uint64_t size() const override { return size_; }
  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    if (bytes.empty()) return Status();
    QINFER_TRY(checked(calls_.write_at(handle_, offset, bytes.data(), bytes.size(), calls_.user), "write_at"));
    size_ = std::max(size_, offset + bytes.size());
    return Status();
  }
  Status truncate(std::uint64_t bytes) override {
    if (calls_.truncate == nullptr) return Status();
    QINFER_TRY(checked(calls_.truncate(handle_, bytes, calls_.user), "truncate"));
    size_ = bytes;
    return Status();
  }
  Status sync() override { return checked(calls_.sync(handle_, calls_.user), "sync"); }
  Status close() override {
    is_open_ = false;
    return checked(calls_.close(handle_, calls_.user), "close");
  }

  void unmap(const void* data) const {
    if (calls_.unmap != nullptr) calls_.unmap(handle_, data, size_, calls_.user);
  }

 private:
  Status checked(qinfer_status given, std::string_view call) const {
    if (given != QINFER_OK) failed_ = true;
    return status_of(given, false, call, name_);
  }

  const qinfer_files calls_;
  const std::string name_;  ///< as the host was asked for it
  void* handle_ = nullptr;
  std::uint64_t size_ = 0;
  bool is_open_ = false;
  mutable bool failed_ = false;
};

/// Keeps its file open.
class HostMapping final : public platform::MappedFile {
 public:
  explicit HostMapping(std::shared_ptr<const HostFile> file) : file_(std::move(file)) {}
  ~HostMapping() override {
    if (bytes_.data() != nullptr) file_->unmap(bytes_.data());
  }
  void set(const void* data, std::uint64_t size) { bytes_ = {static_cast<const std::byte*>(data), size}; }
  void drop(std::uint64_t, std::uint64_t) const override {}
  void prefer(platform::Pages) const override {}

 private:
  std::shared_ptr<const HostFile> file_;
};

Result<std::shared_ptr<platform::MappedFile>> HostFile::map(const platform::OpenFile& self) const {
  auto mapped = std::make_shared<HostMapping>(std::static_pointer_cast<const HostFile>(self.file));
  if (size_ == 0) return std::shared_ptr<platform::MappedFile>(std::move(mapped));
  const void* data = nullptr;
  QINFER_TRY(checked(calls_.map(handle_, size_, &data, calls_.user), "map"));
  if (data == nullptr) return error(Code::io, "{}: the host's map gave NULL for {} bytes", name_, size_);
  mapped->set(data, size_);  // from here on it is unmapped, too
  if (reinterpret_cast<std::uintptr_t>(data) % kMapAlignment != 0)
    return error(Code::unsupported,
                 "{}: the host's map gave an address that is not a multiple of {}: align it, or leave map NULL", name_,
                 kMapAlignment);
  return std::shared_ptr<platform::MappedFile>(std::move(mapped));
}

class HostFiles final : public platform::Files {
 public:
  explicit HostFiles(const qinfer_files& calls) : calls_(calls) {}
  Result<platform::OpenFile> open(const std::string& name) const override {
    QINFER_ASSIGN(std::shared_ptr<HostFile> file, HostFile::open(calls_, name, QINFER_FILE_READ));
    const std::uint64_t size = file->size();
    return platform::OpenFile{std::move(file), size, name};
  }
  Result<std::shared_ptr<platform::WritableFile>> open_to_write(const std::string& name) const override {
    QINFER_ASSIGN(std::shared_ptr<HostFile> file, HostFile::open(calls_, name, QINFER_FILE_WRITE));
    return std::shared_ptr<platform::WritableFile>(std::move(file));
  }

 private:
  const qinfer_files calls_;
};

}  // namespace

Result<std::shared_ptr<const platform::Files>> host_files(const qinfer_files* caller, FileUse use) {
  if (caller == nullptr) return std::shared_ptr<const platform::Files>();
  qinfer_files calls;
  QINFER_TRY(copy_in(caller, calls, "qinfer_files"));
  const auto missing = [](std::string_view name) {
    return error(Code::invalid_argument, "qinfer_files.{} is NULL", name);
  };
  if (calls.open == nullptr) return missing("open");
  if (calls.size == nullptr) return missing("size");
  if (calls.read_at == nullptr) return missing("read_at");
  if (calls.close == nullptr) return missing("close");
  if (calls.map == nullptr && calls.unmap != nullptr)
    return error(Code::invalid_argument, "qinfer_files.unmap is set, and map is NULL");
  if (use == FileUse::write && calls.write_at == nullptr) return missing("write_at");
  if (use == FileUse::write && calls.sync == nullptr) return missing("sync");
  return std::shared_ptr<const platform::Files>(std::make_shared<HostFiles>(calls));
}

bool maps_files(const qinfer_files& caller) {
  qinfer_files calls;
  return copy_in(&caller, calls, "qinfer_files").ok() && calls.map != nullptr;
}

}  // namespace qinfer::capi
