// Large memory: anonymous mappings or the host's allocator, and files mapped for reading.
//
// Everything that a memory plan counts (weights, tables, scratch, KV blocks, sessions) is taken through an Allocator,
// so that the host sees every large byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/status.h"

namespace qinfer::platform {

/// Memory is mapped and locked in units of it: 4 KiB, on some systems 16 or 64.
std::uint64_t page_bytes();

/// The host's allocator, or (alloc == nullptr) anonymous mappings. Trivially copyable; the host keeps `user` alive.
struct Allocator {
  void* (*alloc)(std::size_t size, std::size_t alignment, void* user) = nullptr;
  void (*release)(void* ptr, std::size_t size, std::size_t alignment, void* user) = nullptr;
  void* user = nullptr;
  bool normal_pages = false;  ///< mappings on pages of the usual size alone, even where large ones were asked for

  bool is_mapping() const { return alloc == nullptr; }
};

enum class Pages : std::uint8_t { normal, huge };

/// Owns one zero-filled block from an Allocator, aligned to 64 bytes or more. Small requests (under one page) of the
/// mapping allocator come from the heap, since a mapping would round them up.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer();

  static constexpr std::size_t kAlignment = 64;

  /// QINFER_E_NO_MEMORY, naming `what` and the size, if the allocator has none. Zero bytes give an empty buffer.
  /// Pages::huge asks for 2 MiB pages wherever whole ones fit, so that not a byte more becomes resident.
  static Result<Buffer> allocate(const Allocator& allocator, std::uint64_t bytes, std::string_view what,
                                 Pages pages = Pages::normal);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

  /// Gives the pages of a range back to the operating system; they read as zero afterwards. Only mappings can.
  void discard(std::size_t offset, std::size_t bytes);
  /// A fork()ed child does not get the pages of a mapping; there the buffer must forget() them.
  void hide_from_children();
  /// Gives up the memory without freeing it.
  void forget() {
    data_ = nullptr;
    size_ = 0;
  }

  /// Touches every page, so that no page fault comes later.
  void commit();

  /// Keeps the whole pages of the buffer resident until it is destroyed.
  Status lock();

  void swap(Buffer& other) noexcept;

 private:
  Allocator allocator_;
  bool locked_ = false;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// How many bytes of a mapping are in memory; whole pages, 0 where the system does not tell.
std::uint64_t resident_bytes(const void* data, std::uint64_t bytes);

/// How many bytes of a range the system has put on 2 MiB pages.
std::uint64_t huge_page_bytes(const void* data, std::uint64_t bytes);

/// What the system would say to locking more memory.
struct LockRoom {
  bool enough = true;        ///< also where only locking itself could tell
  std::uint64_t limit = 0;   ///< RLIMIT_MEMLOCK, where it is not enough
  std::uint64_t locked = 0;  ///< what the process has locked already, where it is not enough
};
/// Whether this process may lock `bytes` more, by its privileges and limits. Nothing becomes resident for the answer.
LockRoom lock_room(std::uint64_t bytes);

/// Keeps mapped memory resident (mlock) until it is unmapped. QINFER_E_NO_MEMORY when the limit does not allow it.
Status lock_memory(const void* data, std::size_t bytes);

}  // namespace qinfer::platform
