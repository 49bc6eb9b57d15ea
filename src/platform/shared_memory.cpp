// See shared_memory.h.
#include "platform/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <utility>

#include "platform/error_text.h"
#include "platform/file.h"
#include "platform/size_limit.h"
#include "platform/thread.h"

namespace qinfer::platform {

Result<SharedMemory> SharedMemory::create(std::uint64_t bytes, bool commit) {
#if defined(MFD_CLOEXEC)
  SharedMemory memory;
  memory.descriptor_ = memfd_create("qinfer", MFD_CLOEXEC);
  if (memory.descriptor_ < 0)
    return error_at(errno == ENOSYS || errno == EPERM ? Code::unsupported : Code::no_memory, errno,
                    "no memory that can be mapped twice (memfd_create): {}", errno_text(errno));
  memory.size_ = bytes;
  constexpr std::uint64_t kChunk = 64 << 20;  // so that a signal does not undo all of it
  QINFER_TRY(memory.resize());
  for (std::uint64_t at = 0; commit && at < bytes; at += kChunk)
    if (const Code code = memory.allocate(at, std::min(kChunk, bytes - at)); code != Code::ok)
      return error_at(code, static_cast<std::int64_t>(bytes), "no memory for the KV cache ({} bytes)", bytes);
  return memory;
#else
  (void)bytes, (void)commit;
  return error(Code::unsupported, "the system offers no memory that can be mapped twice (memfd_create)");
#endif
}

SharedMemory::~SharedMemory() {
  if (descriptor_ >= 0) close(descriptor_);
}

void SharedMemory::swap(SharedMemory& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
}

Status SharedMemory::resize() const {
  ScopedSizeLimit limit;
  if (ftruncate(descriptor_, static_cast<off_t>(size_)) == 0) return Status();
  if (errno != EFBIG)
    return error_at(Code::no_memory, static_cast<std::int64_t>(size_), "no memory for the KV cache ({} bytes): {}",
                    size_, errno_text(errno));
  limit.exceeded();
  return error_at(Code::io, EFBIG, "memory of {} bytes that can be mapped twice is more than RLIMIT_FSIZE allows: {}",
                  size_, errno_text(EFBIG));
}

Code SharedMemory::write(std::uint64_t offset, const std::byte* from, std::uint64_t bytes) const {
  ScopedSizeLimit limit;
  while (bytes > 0) {
    const ssize_t n = pwrite(descriptor_, from, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EFBIG) {
      limit.exceeded();
      return Code::io;
    }
    if (n <= 0) return Code::no_memory;
    offset += static_cast<std::uint64_t>(n);
    from += n;
    bytes -= static_cast<std::uint64_t>(n);
  }
  return Code::ok;
}

Code SharedMemory::allocate(std::uint64_t offset, std::uint64_t bytes) const {
  ScopedSizeLimit limit;
  int failed = EINTR;
  while (failed == EINTR) failed = posix_fallocate(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  if (failed == EFBIG) limit.exceeded();
  return failed == 0 ? Code::ok : failed == EFBIG ? Code::io : Code::no_memory;
}

void SharedMemory::discard(std::uint64_t offset, std::uint64_t bytes) const {
#if defined(FALLOC_FL_PUNCH_HOLE)
  (void)fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(bytes));
#endif
}

std::uint64_t SharedMemory::committed_bytes() const {
  struct stat status = {};
  if (fstat(descriptor_, &status) != 0) return 0;
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

Result<AddressRange> AddressRange::reserve(std::uint64_t bytes, std::string_view what) {
  AddressRange range;
  if (bytes == 0) return range;
  void* data = bytes > SIZE_MAX / 2
                   ? MAP_FAILED
                   : mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    return error_at(Code::no_memory, static_cast<std::int64_t>(bytes), "no address space for {} ({} bytes)", what,
                    bytes);
  range.data_ = static_cast<std::byte*>(data);
  range.size_ = bytes;
  range.process_ = process_id();
  madvise(data, bytes, MADV_DONTFORK);
  return range;
}

AddressRange::~AddressRange() {
  if (data_ != nullptr && process_ == process_id()) munmap(data_, size_);
}

void AddressRange::swap(AddressRange& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(process_, other.process_);
}

bool AddressRange::map(std::uint64_t at, const SharedMemory& memory, std::uint64_t offset, std::uint64_t bytes,
                       bool populate) {
  void* data = mmap(data_ + at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | (populate ? MAP_POPULATE : 0),
                    memory.descriptor(), static_cast<off_t>(offset));
  if (data == MAP_FAILED) return false;
  madvise(data, bytes, MADV_DONTFORK);
  return true;
}

void AddressRange::unmap(std::uint64_t at, std::uint64_t bytes) {
  if (process_ != process_id()) return;
  void* data = mmap(data_ + at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (data != MAP_FAILED) madvise(data, bytes, MADV_DONTFORK);
}

bool AddressRange::commit(std::uint64_t at, std::uint64_t bytes) {
  return mprotect(data_ + at, bytes, PROT_READ | PROT_WRITE) == 0;
}

std::uint64_t max_mappings() {
  constexpr std::uint64_t kDefault = 65530;
  const std::string text = read_system_file("/proc/sys/vm/max_map_count");
  std::uint64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc() ? value : kDefault;
}

}  // namespace qinfer::platform
