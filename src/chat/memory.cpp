// See memory.h.
#include "chat/memory.h"

namespace qinfer::chat {

void* Memory::take(std::size_t bytes) {
  const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  used_ += size;
  if (size > kChunk / 4) {
    chunks_.emplace_back(new std::byte[size]);
    return chunks_.back().get();
  }
  if (size > left_) {
    chunks_.emplace_back(new std::byte[kChunk]);
    free_ = chunks_.back().get();
    left_ = kChunk;
  }
  std::byte* taken = free_;
  free_ += size;
  left_ -= size;
  return taken;
}

}  // namespace qinfer::chat
