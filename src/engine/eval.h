// eval: evaluates pending tokens of sessions. Prefill (a prompt), chunked prefill (a part of one), decode (one token of
// each session) and continuous batching (any mixture) are this one call.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/session.h"

namespace qinfer::engine {

struct EvalOptions {
  std::uint32_t max_tokens = 0;   ///< in this call; 0 = all pending
  std::uint32_t keep_logits = 1;  ///< rows for each session; 0: the logits are not computed
  const std::atomic<bool>* cancelled = nullptr;
};

/// The sessions of a call, read through the array of handles that the caller has, so that it need not be copied.
class SessionList {
 public:
  using At = Session& (*)(const void* handles, std::size_t index);
  SessionList(const void* handles, std::size_t size, At at) : handles_(handles), size_(size), at_(at) {}
  std::size_t size() const { return size_; }
  Session& operator[](std::size_t index) const { return at_(handles_, index); }

 private:
  const void* handles_;
  std::size_t size_;
  At at_;
};

/// `sessions`: distinct, of one cache. Sessions without pending tokens are passed over (their logits stay);
/// QINFER_E_STATE if none has any. Under max_tokens sessions with few pending tokens come first. All blocks are
/// promised before anything is computed: QINFER_E_KV_FULL (detail: index of the first session without room) changes
/// nothing. After cancellation the tokens of finished batches stay evaluated, the rest stays pending.
Status eval(const SessionList& sessions, const EvalOptions& options);

}  // namespace qinfer::engine
