// Where a tokenizer's tables are stored: while they are built, on the C++ heap; then, without room to grow, in the
// memory that the host's allocator gives, if it has one, so that the host sees every large byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "platform/memory.h"

namespace qinfer::text {

/// Not the default resource, which hosts may have replaced for themselves.
inline std::pmr::memory_resource* heap_memory() { return std::pmr::new_delete_resource(); }

/// A host's allocator as the containers' memory.
class HostMemory final : public std::pmr::memory_resource {
 public:
  explicit HostMemory(const platform::Allocator& allocator) : allocator_(allocator) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* memory = allocator_.alloc(bytes, aligned(alignment), allocator_.user);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    allocator_.release(memory, bytes, aligned(alignment), allocator_.user);
  }
  /// As for all other memory: hosts may hand the number to posix_memalign, which takes no small ones.
  static std::size_t aligned(std::size_t alignment) {
    return alignment < platform::Buffer::kAlignment ? platform::Buffer::kAlignment : alignment;
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  platform::Allocator allocator_;
};

/// The same contents in other memory, of just their size. May throw std::bad_alloc; then nothing has changed.
template <typename Container>
void move_to(std::pmr::memory_resource* memory, Container& container) {
  Container moved(container, memory);
  std::destroy_at(&container);
  std::construct_at(&container, std::move(moved));
}

/// The longest run of used slots in an open-addressing hash table, from the end on to the beginning: what a search that
/// finds nothing may walk through.
template <typename Slots, typename IsUsed>
std::size_t longest_run(const Slots& slots, IsUsed is_used) {
  std::size_t run = 0, longest = 0;
  for (std::size_t round = 0; round < 2; ++round) {  // twice, for the run that goes on from the end
    for (const auto& slot : slots) {
      run = is_used(slot) ? run + 1 : 0;
      if (run > longest) longest = run;
      if (longest > slots.size()) return slots.size();
    }
    if (run == 0) break;
  }
  return longest;
}

/// What a container takes from its memory.
template <typename T>
std::uint64_t bytes_taken(const std::pmr::vector<T>& vector) {
  return vector.capacity() * sizeof(T);
}
inline std::uint64_t bytes_taken(const std::pmr::string& text) {
  const bool inside = text.capacity() == std::pmr::string().capacity();  // short texts are part of the object
  return inside ? 0 : text.capacity() + 1;
}

}  // namespace qinfer::text
