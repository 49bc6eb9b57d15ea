// See eval.h. Nothing here allocates: sessions are linked through their own EvalState, batches are assembled in the
// model's scratch arena.
#include "engine/eval.h"

#include <algorithm>

#include "engine/forward.h"
#include "platform/thread.h"

namespace qinfer::engine {
namespace {

class Evaluation {
 public:
  Evaluation(const SessionList& sessions, const EvalOptions& options)
      : sessions_(sessions), options_(options), model_(sessions[0].model()) {}

  ~Evaluation() {
    for (std::size_t i = 0; i < n_marked_; ++i) sessions_[i].eval_state = {};
  }

  Status run() {
    QINFER_TRY(check());
    QINFER_TRY(take_room());
    for (std::size_t i = 0; i < n_marked_; ++i)  // one that only adopted blocks has new last tokens, too
      if (sessions_[i].eval_state.count != 0 || sessions_[i].eval_state.adopted != 0) sessions_[i].drop_logits();
    Status status;
    while (status.ok() && first_ != nullptr) status = next_batch();
    if (!status.ok())
      for (Session* s = first_; s != nullptr; s = s->eval_state.next) s->release_spare_blocks();
    return status;
  }

 private:
  Status check() {
    bool pending = false;
    for (std::size_t i = 0; i < sessions_.size(); ++i) {
      Session& session = sessions_[i];
      if (&session.cache() != &sessions_[0].cache())
        return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                        "session {} belongs to another KV cache than session 0", i);
      if (session.eval_state.active)
        return error_at(Code::invalid_argument, static_cast<std::int64_t>(i), "session {} appears twice", i);
      const std::size_t rows = std::max(options_.keep_logits, 1u);
      if (rows > session.max_logits())
        return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                        "keep_logits is {}, session {} has room for {} (max_logits)", rows, i, session.max_logits());
      session.eval_state = {};
      session.eval_state.active = true;
      session.eval_state.index = i;
      n_marked_ = i + 1;
      pending = pending || session.pending() != 0;
    }
    if (!pending) return error(Code::state, "no session has pending tokens: append some first");
    return Status();
  }

  /// Decides who evaluates how many tokens, and takes the blocks for them; after an error all is as before.
  Status take_room() {
    enlist(true);
    Status status = take_blocks();
    const auto drop_adopted = [&] {
      bool any = false;
      for (std::size_t i = 0; i < n_marked_; ++i) {
        any = any || sessions_[i].eval_state.adopted != 0;
        sessions_[i].drop_adopted();
      }
      return any;
    };
    // A prefix in use cannot give way to others: without it there may be room, as if there were no prefix cache.
    if (status.ok() || !drop_adopted()) return status;
    enlist(false);
    return take_blocks();
  }

  /// Links the sessions with pending tokens, fewest first, equal ones in the caller's order, and shares out max_tokens.
  void enlist(bool adopt) {
    first_ = last_ = nullptr;
    for (std::size_t i = 0; i < n_marked_; ++i) {
      Session& session = sessions_[i];
      session.eval_state.next = nullptr;
      session.eval_state.count = 0;
      if (session.pending() == 0) continue;
      if (adopt) session.adopt_prefix(std::max(options_.keep_logits, 1u));
      link(session);
    }
    share_out();
  }

  void link(Session& session) {
    if (last_ != nullptr && session.pending() >= last_->pending()) {
      last_->eval_state.next = &session;
      last_ = &session;
      return;
    }
    Session** at = &first_;
    while (*at != nullptr && (*at)->pending() <= session.pending()) at = &(*at)->eval_state.next;
    session.eval_state.next = *at;
    *at = &session;
    if (session.eval_state.next == nullptr) last_ = &session;
  }

  /// Gives each session its part of max_tokens; drops those that get none.
  void share_out() {
    std::size_t left = options_.max_tokens == 0 ? SIZE_MAX : options_.max_tokens;
    Session** at = &first_;
    while (*at != nullptr) {
      Session& session = **at;
      session.eval_state.count = std::min(session.pending(), left);
      session.eval_state.kept = std::min<std::size_t>(std::max(options_.keep_logits, 1u), session.eval_state.count);
      left -= session.eval_state.count;
      if (session.eval_state.count == 0) {
        *at = session.eval_state.next;
        session.drop_adopted();  // what it does not need yet may be needed by others
      } else {
        at = &session.eval_state.next;
      }
    }
  }

  /// Blocks that session s will need: new ones, and one if its partial block will still have another holder when the
  /// sessions before it in the list have copied theirs.
  std::size_t blocks_needed(const Session& s) const {
    std::size_t earlier = 0;
    for (const Session* t = first_; t != &s; t = t->eval_state.next)
      earlier += s.partial_block() != Session::kNoBlock && t->partial_block() == s.partial_block() ? 1 : 0;
    return s.blocks_needed(s.eval_state.count, earlier);
  }

  Status take_blocks() {
    std::size_t needed = 0;
    for (const Session* s = first_; s != nullptr; s = s->eval_state.next) {
      needed += blocks_needed(*s);
      const kv::PoolStats stats = s->cache().pool().stats();
      const std::uint64_t free = stats.blocks_total - stats.blocks_used;
      if (needed > free) return no_room(*s, free, stats.blocks_total);
    }
    for (Session* s = first_; s != nullptr; s = s->eval_state.next) {
      const Code code = s->reserve_blocks(s->eval_state.count);
      if (code == Code::ok) continue;
      // Somebody who loads a session was faster, or the system has no memory.
      const kv::PoolStats stats = s->cache().pool().stats();
      for (Session* t = first_; t != s; t = t->eval_state.next) t->release_spare_blocks();
      if (code == Code::kv_full) return no_room(*s, stats.blocks_total - stats.blocks_used, stats.blocks_total);
      return error(Code::no_memory, "the system has no memory or no mapping for {} tokens of session {}",
                   s->eval_state.count, s->eval_state.index);
    }
    return Status();
  }

  static Status no_room(const Session& s, std::uint64_t free, std::uint64_t total) {
    return error_at(Code::kv_full, static_cast<std::int64_t>(s.eval_state.index),
                    "the KV cache has {} of {} blocks free, session {} needs more for {} tokens", free, total,
                    s.eval_state.index, s.eval_state.count);
  }

  /// Fills the arena with the next rows, at most as many as it was made for.
  Batch assemble() {
    const BatchArrays arrays = batch_arrays(model_);
    const std::size_t capacity = model_.scratch_layout().batch;
    Batch batch;
    std::size_t row = 0, n_sequences = 0, n_logits = 0;
    for (Session* s = first_; s != nullptr && row < capacity; s = s->eval_state.next) {
      Session::EvalState& state = s->eval_state;
      const std::size_t n = std::min(capacity - row, state.count - state.done);
      const std::size_t position = s->evaluated();
      arrays.sequences[n_sequences++] = {s->kv_view(), static_cast<std::int32_t>(row), static_cast<std::int32_t>(n),
                                         static_cast<std::uint32_t>(position)};
      std::copy_n(s->tokens().data() + position, n, arrays.tokens + row);
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t remaining = state.count - (state.done + i);  // this token included
        if (remaining > state.kept) continue;
        arrays.logit_rows[n_logits] = static_cast<std::int32_t>(row + i);
        arrays.logit_out[n_logits++] = s->logits_row(state.kept - remaining);
      }
      batch.longest_context = std::max(batch.longest_context, static_cast<std::uint32_t>(position + n));
      row += n;
    }
    batch.n_rows = static_cast<std::int64_t>(row);
    batch.n_logits = static_cast<std::int64_t>(n_logits);
    batch.sequences = {arrays.sequences, n_sequences};
    return batch;
  }

  Status next_batch() {
    const Batch batch = assemble();
    const std::uint64_t begin = platform::now_ns();
    if (!forward(model_, sessions_[0].cache().layout(), batch, options_.cancelled))
      return error(Code::cancelled, "the evaluation was cancelled: {} tokens of session {} stay pending",
                   first_->pending(), first_->eval_state.index);
    account(batch, platform::now_ns() - begin);
    return Status();
  }

  /// Marks the rows of a batch as evaluated and shares its time among their sessions; finished sessions leave the list.
  void account(const Batch& batch, std::uint64_t elapsed) {
    AtomicMetrics& total = model_.runtime().metrics();
    for (const kernels::Sequence& sequence : batch.sequences) {
      Session& session = *first_;
      Session::EvalState& state = session.eval_state;
      const auto n = static_cast<std::uint64_t>(sequence.n_rows);
      const std::uint64_t share = elapsed * n / static_cast<std::uint64_t>(batch.n_rows);
      const bool is_decode = state.count == 1;
      (is_decode ? session.metrics().decode_tokens : session.metrics().prefill_tokens) += n;
      (is_decode ? session.metrics().decode_ns : session.metrics().prefill_ns) += share;
      (is_decode ? total.decode_tokens : total.prefill_tokens) += n;
      (is_decode ? total.decode_ns : total.prefill_ns) += share;
      session.advance(n);
      state.done += n;
      if (state.done < state.count) return;  // only the last session of a batch can be unfinished
      session.set_kept_logits(state.kept);
      ++session.metrics().evals;
      first_ = state.next;
    }
  }

  const SessionList& sessions_;
  const EvalOptions& options_;
  const Model& model_;
  std::size_t n_marked_ = 0;
  Session* first_ = nullptr;  ///< the list of what is left to do
  Session* last_ = nullptr;
};

}  // namespace

Status eval(const SessionList& sessions, const EvalOptions& options) {
  if (sessions.size() == 0) return error(Code::invalid_argument, "n_sessions is 0: there is nothing to evaluate");
  if (options.cancelled != nullptr && options.cancelled->load())
    return error(Code::cancelled, "the evaluation was cancelled before it began");
  Runtime& runtime = sessions[0].model().runtime();
  const std::uint64_t begin = platform::now_ns();
  const std::lock_guard lock(runtime.eval_mutex());
  const std::uint64_t waited = platform::now_ns() - begin;
  Status status = Evaluation(sessions, options).run();
  runtime.metrics().wait_ns += waited;
  if (!status.ok()) return status;
  ++runtime.metrics().evals;
  for (std::size_t i = 0; i < sessions.size(); ++i) sessions[i].metrics().wait_ns += waited;
  return status;
}

}  // namespace qinfer::engine
