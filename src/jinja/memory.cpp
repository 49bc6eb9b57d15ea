// See memory.h.
#include "jinja/memory.h"

namespace qinfer::jinja {

namespace {

/// Owned before it is listed: lengthening the list may fail, too.
std::unique_ptr<std::byte[]> chunk(std::size_t size) { return std::unique_ptr<std::byte[]>(new std::byte[size]); }

}  // namespace

void* Memory::take(std::size_t bytes) {
  const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  used_ += size;
  if (size > kChunk / 4) {
    chunks_.push_back(chunk(size));
    return chunks_.back().get();
  }
  if (size > left_) {
    chunks_.push_back(chunk(kChunk));
    free_ = chunks_.back().get();
    left_ = kChunk;
  }
  std::byte* taken = free_;
  free_ += size;
  left_ -= size;
  return taken;
}

}  // namespace qinfer::jinja
