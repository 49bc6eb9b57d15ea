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
  /// Where there is no room: the index of the session is put here, and the error says no more (see no_room()), so that
  /// nothing is allocated.
  std::size_t* refused = nullptr;
  /// Of a stage, one for each session, f32 [tokens that it evaluates][n_embd] each: what goes into its layers, where it
  /// takes hidden states, and what comes out, where it gives some.
  const float* const* hidden_in = nullptr;
  float* const* hidden_out = nullptr;
};

/// The sessions of a call, as a function of their index, so that the caller's array of handles need not be copied;
/// which of them are to leave it, and how many tokens of each are evaluated at most.
class SessionList {
 public:
  /// `at`: (std::size_t) -> Session&. `cancelled`: (std::size_t) -> bool, asked between batches. `limit`: (std::size_t)
  /// -> std::size_t; of a session that has more pending no logits are kept. All must outlive it.
  template <typename At, typename Cancelled, typename Limit>
  SessionList(std::size_t size, const At& at, const Cancelled& cancelled, const Limit& limit)
      : size_(size),
        at_(&at),
        cancelled_(&cancelled),
        limit_(&limit),
        call_at_(
            [](const void* function, std::size_t i) -> Session& { return (*static_cast<const At*>(function))(i); }),
        call_cancelled_(
            [](const void* function, std::size_t i) -> bool { return (*static_cast<const Cancelled*>(function))(i); }),
        call_limit_([](const void* function, std::size_t i) -> std::size_t {
          return (*static_cast<const Limit*>(function))(i);
        }) {}
  template <typename At, typename Cancelled>
  SessionList(std::size_t size, const At& at, const Cancelled& cancelled)
      : SessionList(size, at, cancelled, kNoLimit) {}
  template <typename At>
  SessionList(std::size_t size, const At& at) : SessionList(size, at, kNever) {}

  std::size_t size() const { return size_; }
  Session& operator[](std::size_t index) const { return call_at_(at_, index); }
  bool is_cancelled(std::size_t index) const { return call_cancelled_(cancelled_, index); }
  std::size_t limit(std::size_t index) const { return call_limit_(limit_, index); }

 private:
  static constexpr auto kNever = [](std::size_t) { return false; };
  static constexpr auto kNoLimit = [](std::size_t) { return SIZE_MAX; };
  std::size_t size_;
  const void *at_, *cancelled_, *limit_;
  Session& (*call_at_)(const void*, std::size_t);
  bool (*call_cancelled_)(const void*, std::size_t);
  std::size_t (*call_limit_)(const void*, std::size_t);
};

/// `sessions`: distinct, of one cache. Sessions without pending tokens are passed over (their logits stay);
/// QINFER_E_STATE if none has any. Under max_tokens sessions with few pending tokens come first. All blocks are
/// promised before anything is computed: QINFER_E_KV_FULL (detail: index of the first session without room) changes
/// nothing. After cancellation the tokens of finished batches stay evaluated, the rest stays pending.
Status eval(const SessionList& sessions, const EvalOptions& options);
/// The error that says that sessions[index] has found no room for so many tokens.
Status no_room(const Session& session, std::size_t index, std::size_t n_tokens);
/// One session alone.
Status eval(Session& session, const EvalOptions& options);

}  // namespace qinfer::engine
