// Memory that can stand at several addresses at once: pages of an anonymous file (memfd), mapped piece by piece into
// reserved address space. It is to the CPU what a sparse buffer over a placement heap is to a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace qinfer::platform {

/// Pages without an address. What was never written, or was discarded, reads as zero and takes no memory.
class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept { swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    SharedMemory(static_cast<SharedMemory&&>(other)).swap(*this);
    return *this;
  }
  ~SharedMemory();

  /// QINFER_E_UNSUPPORTED where the system has none, QINFER_E_IO (EFBIG) where RLIMIT_FSIZE does not allow as much.
  /// `commit`: all pages are there from the start.
  static Result<SharedMemory> create(std::uint64_t bytes, bool commit);

  std::uint64_t size() const { return size_; }
  int descriptor() const { return descriptor_; }
  /// Code::no_memory if there is no memory for it, Code::io if RLIMIT_FSIZE does not allow it.
  Code write(std::uint64_t offset, const std::byte* from, std::uint64_t bytes) const;
  /// Gives memory to a range now; what is there already stays. Fails as write() does.
  Code allocate(std::uint64_t offset, std::uint64_t bytes) const;
  void discard(std::uint64_t offset, std::uint64_t bytes) const;
  /// Bytes for which there is memory, each counted once however often it is mapped.
  std::uint64_t committed_bytes() const;

 private:
  void swap(SharedMemory& other) noexcept;
  Status resize() const;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// Address space that holds no memory until something is mapped into it. A fork()ed child does not inherit it; there
/// the object does nothing, for the addresses may belong to another object.
class AddressRange {
 public:
  AddressRange() = default;
  AddressRange(AddressRange&& other) noexcept { swap(other); }
  AddressRange& operator=(AddressRange&& other) noexcept {
    AddressRange(static_cast<AddressRange&&>(other)).swap(*this);
    return *this;
  }
  ~AddressRange();

  static Result<AddressRange> reserve(std::uint64_t bytes, std::string_view what);

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  /// Whole pages, in place of what was there. False (and nothing changed) if the system refuses.
  /// `populate`: without page faults later.
  bool map(std::uint64_t at, const SharedMemory& memory, std::uint64_t offset, std::uint64_t bytes, bool populate);
  void unmap(std::uint64_t at, std::uint64_t bytes);
  /// Puts private memory, zeros, in place of what was there. False if the system has none.
  bool commit(std::uint64_t at, std::uint64_t bytes);

 private:
  void swap(AddressRange& other) noexcept;
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  std::int32_t process_ = 0;
};

/// How many mappings the process may have.
std::uint64_t max_mappings();

}  // namespace qinfer::platform
