// A host's request to stop, which every loop whose length a file or a text decides looks at.
#pragma once

#include <atomic>

#include "base/status.h"

namespace qinfer {

class CancelFlag {
 public:
  CancelFlag() = default;
  CancelFlag(const std::atomic<bool>* flag) : flag_(flag) {}

  bool requested() const { return flag_ != nullptr && flag_->load(); }
  /// QINFER_E_CANCELLED, "<what> was cancelled", once it is requested.
  Status check(std::string_view what) const {
    if (!requested()) return Status();
    return error(Code::cancelled, "{} was cancelled", what);
  }

 private:
  const std::atomic<bool>* flag_ = nullptr;
};

}  // namespace qinfer
