// Debug builds fill the buffers of a scratch arena with NaN outside the lifetimes that the memory plan states, so that
// tests notice an operation that reads what is not there yet, or no longer. Other builds do nothing here.
#pragma once

#include <cstddef>

#include "engine/layout.h"

namespace qinfer::engine {

class ScratchPoison {
 public:
#if defined(QINFER_POISON)
  ScratchPoison() = default;
  /// `region`: the buffers that scratch_layout() recorded.
  ScratchPoison(std::byte* scratch, const ScratchLayout& layout, PlannedRegion region);
  /// `step` of a layer has ended: poisons the buffers whose lifetime ends with it.
  void after(Step step) const;
  /// An evaluation has ended, or was cancelled: poisons everything but the arrays that its caller fills.
  void after_pass() const;

 private:
  std::byte* scratch_ = nullptr;
  ScratchLayout layout_;
  PlannedRegion region_;
#else
  void after(Step /*step*/) const {}
  void after_pass() const {}
#endif
};

}  // namespace qinfer::engine
