// LogitsHook: code of the host that runs between the logits of a session and its sampler, for example a grammar, which
// rules out tokens, or a watermark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"

namespace qinfer::engine {

/// A session owns at most one. Where a function returns bool, false ends the call of the host with Code::cancelled, and
/// the session is as it was before that call.
class LogitsHook {
 public:
  virtual ~LogitsHook() = default;

  /// Changes a private copy of the logits: any may become -infinity, the others must stay finite.
  virtual bool apply(std::span<float> logits) = 0;
  /// `token` was drawn and is the last one of the session. False: it is taken off again.
  virtual bool accept(std::int32_t token) = 0;
  /// The last `n_tokens` of the tokens that were accepted are about to leave the session.
  virtual bool rewind(std::size_t n_tokens) = 0;
  /// The hook of a fork; null if the fork is to have none. Forks may be made by several threads at once.
  virtual Result<std::unique_ptr<LogitsHook>> clone() const = 0;
};

}  // namespace qinfer::engine
