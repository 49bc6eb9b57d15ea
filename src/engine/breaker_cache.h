// DRY's sequence breakers for a model's vocabulary. Looking through all tokens takes milliseconds, and most sessions
// have the same few breakers: a model keeps the last ones.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "sampling/dry.h"
#include "text/tokenizer.h"

namespace qinfer::engine {

class BreakerCache {
 public:
  /// `tokenizer` lives as long as what is returned. `texts` are within their bounds.
  std::shared_ptr<const sampling::DryBreakers> get(const text::Tokenizer& tokenizer, std::uint32_t n_vocab,
                                                   std::vector<std::string> texts);

 private:
  Mutex mutex_;
  std::array<std::shared_ptr<const sampling::DryBreakers>, 4> kept_ ABSL_GUARDED_BY(mutex_);  ///< the last one first
};

}  // namespace qinfer::engine
