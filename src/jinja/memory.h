// The memory of values: chunks that are freed together. Nothing in them has a destructor, so values that nest deeply or
// refer to each other in a circle are freed like any others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace qinfer::jinja {

class Memory {
 public:
  /// Throws std::bad_alloc where the heap has no more.
  void* take(std::size_t bytes);
  /// n values that are not yet written.
  template <typename T>
  T* array(std::size_t n) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kAlignment);
    return static_cast<T*>(take(n * sizeof(T)));
  }
  std::uint64_t used() const { return used_; }

 private:
  static constexpr std::size_t kAlignment = 16, kChunk = 32 * 1024;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::byte* free_ = nullptr;
  std::size_t left_ = 0;
  std::uint64_t used_ = 0;
};

}  // namespace qinfer::jinja
