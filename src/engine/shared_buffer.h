// Memory of a session that its forks read too until they have their own. A fork copies nothing: it brings memory for
// one more holder, and whoever writes first goes over to that. So forking costs the same for long sessions and large
// vocabularies, and writing allocates nothing.
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

  /// The same contents for a fork, with `spare`, freshly created and of the same size, in reserve. May allocate.
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

  /// Takes a spare, with a copy of the first bytes, and leaves the rest to the others; null if there are none.
  static std::shared_ptr<Shared> part(Shared& shared, std::uint64_t keep);

  std::shared_ptr<Shared> shared_;
};

}  // namespace qinfer::engine
