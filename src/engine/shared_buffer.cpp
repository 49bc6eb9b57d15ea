// See shared_buffer.h.
#include "engine/shared_buffer.h"

#include <cstring>

#include "platform/thread.h"

namespace qinfer::engine {

Result<SharedBuffer> SharedBuffer::create(const platform::Allocator& allocator, std::uint64_t bytes,
                                          std::string_view what) {
  SharedBuffer buffer;
  buffer.shared_ = std::make_shared<Shared>();
  buffer.shared_->process = platform::process_id();
  QINFER_ASSIGN(buffer.shared_->memory, platform::Buffer::allocate(allocator, bytes, what));
  return buffer;
}

SharedBuffer::~SharedBuffer() {
  // The spare goes too. In a fork()ed child the lock may be held by a thread that does not exist there.
  if (shared_ != nullptr && shared_->process == platform::process_id()) part(*shared_, 0);
}

SharedBuffer SharedBuffer::share(SharedBuffer spare) const {
  const Lock lock(shared_->mutex);
  shared_->spares.push_back(std::move(spare.shared_));
  ++shared_->holders;
  SharedBuffer copy;
  copy.shared_ = shared_;
  return copy;
}

std::shared_ptr<SharedBuffer::Shared> SharedBuffer::part(Shared& shared, std::uint64_t keep) {
  const Lock lock(shared.mutex);
  if (shared.holders == 1) return nullptr;
  std::shared_ptr<Shared> spare = std::move(shared.spares.back());
  shared.spares.pop_back();
  if (keep != 0) std::memcpy(spare->memory.data(), shared.memory.data(), keep);
  --shared.holders;
  return spare;
}

void SharedBuffer::make_own(std::uint64_t keep) {
  if (std::shared_ptr<Shared> spare = part(*shared_, keep)) shared_ = std::move(spare);
}

}  // namespace qinfer::engine
