// See memory.h.
#include "platform/memory.h"

#include "base/checked.h"
#include "platform/cgroup.h"
#include "platform/file.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace qinfer::platform {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// The whole pages inside a range. Those at its ends may hold neighbours too, which unlocking would unlock as well.
std::span<std::byte> own_pages(std::span<std::byte> range) {
  const auto address = reinterpret_cast<std::uintptr_t>(range.data());
  const std::uint64_t page = page_bytes(), skip = round_up(address, page) - address;
  if (skip >= range.size()) return {};
  return range.subspan(skip, (range.size() - skip) / page * page);
}

/// An anonymous mapping; with 2 MiB pages it starts on one, so that all but its end can use them.
void* map_anonymous(std::uint64_t bytes, Pages pages) {
  const std::uint64_t extra = pages == Pages::huge && bytes >= kHugePage ? kHugePage : 0;
  void* data = mmap(nullptr, bytes + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  if (extra == 0) return data;
  auto* begin = static_cast<std::byte*>(data);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uint64_t skip = round_up(address, kHugePage) - address;
  const std::uint64_t end = round_up(skip + bytes, page_bytes());
  if (skip > 0) munmap(begin, skip);
  if (bytes + extra > end) munmap(begin + end, bytes + extra - end);
  madvise(begin + skip, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // a wish: refused, pages are small
  return begin + skip;
}

}  // namespace

std::uint64_t page_bytes() { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }

Result<Buffer> Buffer::allocate(const Allocator& allocator, std::uint64_t bytes, std::string_view what, Pages pages) {
  Buffer buffer;
  buffer.allocator_ = allocator;
  if (bytes == 0) return buffer;
  if (bytes > SIZE_MAX / 2) return error(Code::no_memory, "{} bytes for {} cannot be addressed", bytes, what);
  void* data = nullptr;
  if (!allocator.is_mapping()) {
    data = allocator.alloc(bytes, kAlignment, allocator.user);
    if (data != nullptr) std::memset(data, 0, bytes);
  } else if (bytes < page_bytes()) {
    data = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (data != nullptr) std::memset(data, 0, bytes);
  } else {
    data = map_anonymous(bytes, allocator.normal_pages ? Pages::normal : pages);
    if (allocator.normal_pages && data != nullptr) madvise(data, round_up(bytes, page_bytes()), MADV_NOHUGEPAGE);
  }
  if (data == nullptr)
    return error_at(Code::no_memory, static_cast<std::int64_t>(bytes), "no memory for {} ({} bytes)", what, bytes);
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.size_ = bytes;
  return buffer;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (locked_) munlock(own_pages({data_, size_}).data(), own_pages({data_, size_}).size());
  if (!allocator_.is_mapping()) {
    allocator_.release(data_, size_, kAlignment, allocator_.user);
  } else if (size_ < page_bytes()) {
    std::free(data_);
  } else {
    munmap(data_, size_);
  }
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(allocator_, other.allocator_);
  std::swap(locked_, other.locked_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
}

void Buffer::discard(std::size_t offset, std::size_t bytes) {
  if (data_ == nullptr || !allocator_.is_mapping() || size_ < page_bytes()) return;
  const std::uint64_t page = page_bytes(), first = round_up(offset, page), end = (offset + bytes) / page * page;
  if (end > first) madvise(data_ + first, end - first, MADV_DONTNEED);
}

void Buffer::hide_from_children() {
  if (data_ != nullptr && allocator_.is_mapping() && size_ >= page_bytes())
    madvise(data_, round_up(size_, page_bytes()), MADV_DONTFORK);
}

void Buffer::commit() {
  volatile std::byte* bytes = data_;
  const std::uint64_t page = page_bytes();
  for (std::uint64_t i = 0; i < size_; i += page) bytes[i] = bytes[i];
}

Status Buffer::lock() {
  const std::span<std::byte> pages = own_pages({data_, size_});
  if (pages.empty()) return Status();
  QINFER_TRY(lock_memory(pages.data(), pages.size()));
  locked_ = true;
  return Status();
}

std::uint64_t resident_bytes(const void* data, std::uint64_t bytes) {
  constexpr std::size_t kChunk = 4096;  // pages
  unsigned char resident[kChunk];
  const std::uint64_t page = page_bytes(), skip = reinterpret_cast<std::uintptr_t>(data) % page;
  auto* at = static_cast<std::byte*>(const_cast<void*>(data)) - skip;
  std::uint64_t pages = ceil_div(bytes + skip, page), count = 0;
  while (pages > 0) {
    const std::size_t n = std::min<std::uint64_t>(pages, kChunk);
    if (mincore(at, n * page, resident) != 0) return 0;
    for (std::size_t i = 0; i < n; ++i) count += resident[i] & 1u;
    at += n * page;
    pages -= n;
  }
  return count * page;
}

std::uint64_t huge_page_bytes(const void* data, std::uint64_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::string text = read_system_file("/proc/self/smaps");
  constexpr std::string_view kField = "AnonHugePages:";
  std::uint64_t total = 0;
  bool inside = false;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    // "7f00-7f80 rw-p ..." begins a mapping, "AnonHugePages:   2048 kB" is one of the lines about it.
    std::uint64_t first = 0, last = 0, kib = 0;
    const char* end = line.data() + line.size();
    const auto address = std::from_chars(line.data(), end, first, 16);
    if (address.ec == std::errc() && address.ptr != end && *address.ptr == '-' &&
        std::from_chars(address.ptr + 1, end, last, 16).ec == std::errc())
      inside = first < begin + bytes && last > begin;
    if (!inside || !line.starts_with(kField)) continue;
    const std::size_t digits = line.find_first_not_of(' ', kField.size());
    if (digits != line.npos && std::from_chars(line.data() + digits, end, kib).ec == std::errc()) total += kib * 1024;
  }
  return total;
}

namespace {

/// What this process has locked, 0 where the system does not tell.
std::uint64_t locked_bytes() {
  const std::string text = read_system_file("/proc/self/status");
  constexpr std::string_view kField = "VmLck:";
  const std::size_t field = text.find(kField);
  const std::size_t digits = text.find_first_of("0123456789", field == text.npos ? field : field + kField.size());
  if (digits == text.npos) return 0;
  return static_cast<std::uint64_t>(std::max(leading_integer(std::string_view(text).substr(digits)), 0LL)) * 1024;
}

}  // namespace

LockRoom lock_room(std::uint64_t bytes) {
  LockRoom room;
  const std::uint64_t pages = round_up(bytes, page_bytes());
  if (pages == 0 || pages < bytes) return room;
  // Pages of a range that cannot be accessed never become resident, and MLOCK_ONFAULT does not ask for it.
  void* range = mmap(nullptr, pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return room;
  room.enough = mlock2(range, pages, MLOCK_ONFAULT) == 0 || (errno != ENOMEM && errno != EPERM);
  munmap(range, pages);
  if (room.enough) return room;
  rlimit limit = {};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) room.limit = limit.rlim_cur;
  room.locked = locked_bytes();
  return room;
}

Status lock_memory(const void* data, std::size_t bytes) {
  if (bytes == 0 || mlock(data, bytes) == 0) return Status();
  return error_at(Code::no_memory, static_cast<std::int64_t>(bytes), "cannot lock {} bytes in memory: {}", bytes,
                  errno == ENOMEM || errno == EPERM ? "RLIMIT_MEMLOCK is too small" : "the system refused");
}

}  // namespace qinfer::platform
