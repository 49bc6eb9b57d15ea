// Memory of a session (its tokens, its logits) that its forks read too, until one of them writes: copy on write, with
// the memory for the copy taken beforehand.
//
// A fork copies nothing, so it costs the same for long sessions and large vocabularies. It brings spare memory of the
// same size, which is kept with the shared one: with n holders there are n - 1 spares. A holder that is about to
// write calls make_own(): if there are other holders, it leaves them the shared memory, takes a spare, and copies the
// bytes that it keeps. So writing allocates nothing and cannot fail. The last holder has no spare left, and writes to
// the memory itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "platform/memory.h"

namespace qinfer::engine {

class SharedBuffer {
 public:
  static Result<SharedBuffer> create(const platform::Allocator& allocator, std::uint64_t bytes, std::string_view what);

  SharedBuffer() = default;
  SharedBuffer(SharedBuffer&&) = default;
  SharedBuffer& operator=(SharedBuffer&& other) noexcept {
    std::swap(shared_, other.shared_);
    return *this;
  }
  ~SharedBuffer();

  /// A holder for a fork. `spare`: freshly created, of the same size. May allocate.
  SharedBuffer share(SharedBuffer spare) const;

  template <typename T>
  T* as() const {
    return shared_->memory.as<T>();
  }
  std::uint64_t size() const { return shared_->memory.size(); }
  /// Before writing: from here on the memory is this holder's alone. If it was not, only the first `keep` bytes remain.
  void make_own(std::uint64_t keep);

 private:
  struct Shared {
    platform::Buffer memory;  ///< written by a single holder, read by several
    std::int32_t process = 0;
    Mutex mutex;
    std::uint32_t holders ABSL_GUARDED_BY(mutex) = 1;
    std::vector<std::shared_ptr<Shared>> spares ABSL_GUARDED_BY(mutex);  ///< one for each holder but one
  };

  /// One holder leaves: returns a spare with a copy of the first `keep` bytes; null if there is no other holder.
  static std::shared_ptr<Shared> part(Shared& shared, std::uint64_t keep);

  std::shared_ptr<Shared> shared_;
};

}  // namespace qinfer::engine
