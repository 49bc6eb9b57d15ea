// See scratch_poison.h.
#include "engine/scratch_poison.h"

#if defined(QINFER_POISON)
#include <cstring>
#include <utility>

namespace qinfer::engine {
namespace {

/// NaN in f32, f16 and bf16, an index that no array has in i32.
constexpr int kDead = 0xff;

}  // namespace

ScratchPoison::ScratchPoison(std::byte* scratch, const ScratchLayout& layout, PlannedRegion region)
    : scratch_(scratch), layout_(layout), region_(std::move(region)) {
  after_pass();
}

void ScratchPoison::after(Step step) const {
  for (const PlannedBuffer& buffer : region_.buffers) {
    const bool ends = buffer.lifetime.within_steps || (step != Step::head && buffer.lifetime.last == step);
    if (ends) std::memset(scratch_ + buffer.offset, kDead, buffer.bytes);
  }
}

void ScratchPoison::after_pass() const {
  std::memset(scratch_, kDead, layout_.tokens);  // the caller's arrays begin there
  std::memset(scratch_ + layout_.keys, kDead, layout_.key_blocks * layout_.kv.block_bytes());
}

}  // namespace qinfer::engine
#endif
