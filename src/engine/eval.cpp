// See eval.h. Nothing here allocates: sessions are linked through their own EvalState, batches are assembled in the
// model's scratch arena.
//
// A call runs in three parts:
//   check()        refuses sessions of another cache, sessions that appear twice, and options that do not fit.
//   reserve_all()  lists the sessions with pending tokens and decides how many each evaluates; adopts known prefixes;
//                  has every block promised that the whole call will take. If there are not enough, prefixes are
//                  dropped and it tries once more; if that fails, everything is as it was before the call.
//   next_batch()   until the list is empty: takes the blocks of the next rows, runs the forward pass over them, and
//                  counts them as evaluated. The list is in order, so a batch has the rows of its first sessions, and
//                  only the last of those can have more to do.
// At the end promises are withdrawn, and windows give back the blocks that no later token sees.
//
// Room for blocks is a matter of four classes: Evaluation decides how much and in which order; SessionKeys does it for
// all groups of layers; BlockTable (block_table.h) knows positions and windows; BlockPool (kv/block_pool.h) counts.
#include "engine/eval.h"

#include <algorithm>
#include <cerrno>

#include "engine/forward.h"
#include "platform/thread.h"

namespace qinfer::engine {
/// The keys and values of an encoder's batch: those of one layer at a time, in blocks of the model's scratch arena,
/// which the sessions of a batch take one after another.
class TransientKeys {
 public:
  explicit TransientKeys(const Model& model) : model_(model) {}

  bool has_room_for(std::size_t n_tokens) const {
    return n_taken_ + layout().blocks_for(n_tokens) <= model_.scratch_layout().key_blocks;
  }
  KvView take(std::size_t n_tokens) {
    KvView view;
    view.arena = model_.scratch() + model_.scratch_layout().keys + n_taken_ * layout().block_bytes();
    n_taken_ += layout().blocks_for(n_tokens);
    return view;
  }
  /// A new batch begins.
  void clear() { n_taken_ = 0; }

 private:
  const KvLayout& layout() const { return model_.scratch_layout().kv; }
  const Model& model_;
  std::uint64_t n_taken_ = 0;
};

class Evaluation {
 public:
  Evaluation(const SessionList& sessions, const EvalOptions& options)
      : sessions_(sessions), options_(options), model_(sessions[0].model()), transient_(model_) {}

  ~Evaluation() {
    for (std::size_t i = 0; i < n_marked_; ++i) sessions_[i].end_evaluation();
  }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  Status run() {
    QINFER_TRY(check());
    QINFER_TRY(reserve_all());
    for (std::size_t i = 0; i < n_marked_; ++i)  // tokens that were guessed before need nothing but this
      if (sessions_[i].eval_state_.count != 0 || !sessions_.is_cancelled(i)) sessions_[i].catch_up();
    for (std::size_t i = 0; i < n_marked_; ++i)  // one that only adopted blocks has new last tokens, too
      if (sessions_[i].eval_state_.count != 0 || sessions_[i].eval_state_.adopted != 0) sessions_[i].drop_logits();
    Status status;
    while (status.ok() && first_ != nullptr) status = next_batch();
    for (std::size_t i = 0; i < n_marked_; ++i) sessions_[i].keys().finish_evaluation(sessions_[i].evaluated());
#if defined(QINFER_POISON)
    for (std::size_t i = 0; i < n_marked_; ++i)
      if (const char* wrong = sessions_[i].keys().find_inconsistency()) return error(Code::internal, "{}", wrong);
#endif
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
      if (session.eval_state_.active)
        return error_at(Code::invalid_argument, static_cast<std::int64_t>(i), "session {} appears twice", i);
      const std::size_t rows = options_.keep_logits;
      if (model_.spec().gives_logits() && rows > session.max_logits())
        return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                        "keep_logits is {}, session {} has room for {} (max_logits)", rows, i, session.max_logits());
      session.eval_state_ = {};
      session.eval_state_.active = true;
      session.eval_state_.index = i;
      n_marked_ = i + 1;
      pending = pending || session.pending() != 0;
      if (!keeps_keys() && !sessions_.is_cancelled(i)) QINFER_TRY(check_encoder(session, i));
      if (session.pending() != 0) QINFER_TRY(check_hidden(i));
    }
    if (!pending) return error(Code::state, "no session has pending tokens: append some first");
    return Status();
  }

  /// An encoder's tokens see each other, so they are evaluated all at once.
  Status check_encoder(const Session& session, std::size_t i) const {
    const std::size_t capacity = model_.scratch_layout().batch_capacity;
    if (session.pending() > capacity)
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "session {} has {} tokens, an encoder takes at most {} (max_batch_tokens) at once", i,
                      session.pending(), capacity);
    if (options_.max_tokens != 0 && session.pending() > options_.max_tokens)
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "session {} has {} tokens, which an encoder takes at once, but max_tokens is {}", i,
                      session.pending(), options_.max_tokens);
    return Status();
  }

  /// Whether the hidden states of session i are given, and asked for, as the stage has them.
  Status check_hidden(std::size_t i) const {
    const model::ModelSpec& spec = model_.spec();
    const auto check = [&](const void* given, bool wanted, const char* name, const char* why) {
      if ((given != nullptr) == wanted) return Status();
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "{}[{}] is {}NULL, but {} of {} layers {} {}", name, i, wanted ? "" : "not ",
                      spec.is_stage() ? "this stage" : "this model", spec.n_layers(), wanted ? "do" : "do not", why);
    };
    QINFER_TRY(check(options_.hidden_in != nullptr ? options_.hidden_in[i] : nullptr, spec.takes_hidden(), "hidden_in",
                     "take hidden states"));
    return check(options_.hidden_out != nullptr ? options_.hidden_out[i] : nullptr, spec.gives_hidden(), "hidden_out",
                 "give hidden states");
  }

  /// Decides how many tokens each session evaluates, and has their blocks promised; after an error all is as before.
  Status reserve_all() {
    enlist(true);
    const Session* refused = nullptr;
    Status status = promise_and_take_first(refused);
    const auto drop_adopted = [&] {
      bool any = false;
      for (std::size_t i = 0; i < n_marked_; ++i) {
        any = any || sessions_[i].eval_state_.adopted != 0;
        sessions_[i].drop_adopted();
      }
      return any;
    };
    // Adopted blocks cannot be evicted: once more without the prefix cache, with which there must not be less room than
    // without it.
    if ((!status.ok() || refused != nullptr) && drop_adopted()) {
      enlist(false);
      status = promise_and_take_first(refused);
    }
    if (refused != nullptr && options_.refused != nullptr) {
      *options_.refused = refused->eval_state_.index;
      return Status::fixed(Code::kv_full, "the KV cache has no room");
    }
    if (refused != nullptr) return no_room(*refused, refused->eval_state_.index, refused->eval_state_.count);
    return status;
  }

  /// Links the sessions with pending tokens, fewest first, equal ones in the caller's order, and shares out max_tokens.
  void enlist(bool adopt) {
    first_ = last_ = nullptr;
    for (std::size_t i = 0; i < n_marked_; ++i) {
      Session& session = sessions_[i];
      session.eval_state_.next = nullptr;
      session.eval_state_.count = 0;
      if (session.to_evaluate() == 0 || sessions_.is_cancelled(i)) continue;
      if (adopt) session.adopt_prefix(std::max(options_.keep_logits, 1u));  // one must be left to evaluate
      link(session);
    }
    share_out();
  }

  void link(Session& session) {
    if (last_ != nullptr && session.to_evaluate() >= last_->to_evaluate()) {
      last_->eval_state_.next = &session;
      last_ = &session;
      return;
    }
    Session** at = &first_;
    while (*at != nullptr && (*at)->to_evaluate() <= session.to_evaluate()) at = &(*at)->eval_state_.next;
    session.eval_state_.next = *at;
    *at = &session;
    if (session.eval_state_.next == nullptr) last_ = &session;
  }

  /// Gives each session its part of max_tokens; drops those that get none.
  void share_out() {
    std::size_t left = options_.max_tokens == 0 ? SIZE_MAX : options_.max_tokens;
    Session** at = &first_;
    while (*at != nullptr) {
      Session& session = **at;
      const std::size_t limit = sessions_.limit(session.eval_state_.index);
      session.eval_state_.count = std::min({session.to_evaluate(), left, limit});
      if (!keeps_keys() && session.eval_state_.count < session.to_evaluate()) session.eval_state_.count = 0;
      const bool keeps = model_.spec().gives_logits() && session.to_evaluate() <= limit;
      const std::size_t kept = keeps && options_.keep_logits != 0 ? options_.keep_logits + session.n_drafts() : 0;
      session.eval_state_.kept = std::min(kept, session.eval_state_.count);
      left -= session.eval_state_.count;
      if (session.eval_state_.count == 0) {
        *at = session.eval_state_.next;
        session.drop_adopted();  // other sessions may need the room
      } else {
        at = &session.eval_state_.next;
      }
    }
  }

  /// How many blocks a table of session s needs promised: new ones, and one for a copy if its partial block will still
  /// have another holder when the sessions before it in the list have copied theirs.
  std::size_t blocks_to_promise(const Session& s, std::size_t group) const {
    const BlockTable& table = s.keys().tables()[group];
    const std::uint32_t partial = table.partial_block(s.keys().evaluated());
    std::size_t earlier = 0;
    for (const Session* t = first_; t != &s; t = t->eval_state_.next)
      earlier +=
          partial != BlockTable::kNoBlock && t->keys().tables()[group].partial_block(t->keys().evaluated()) == partial
              ? 1
              : 0;
    return table.blocks_to_promise(s.keys().evaluated(), s.eval_state_.count, model_.scratch_layout().batch_capacity,
                                   earlier);
  }

  /// Has room promised for all that this call evaluates, then takes the blocks of each session's first batch, so that a
  /// system without memory is noticed before anything is computed.
  /// `refused`: the first session that there is no room for.
  Status promise_and_take_first(const Session*& refused) {
    refused = nullptr;
    for (Session* s = first_; s != nullptr && refused == nullptr; s = s->eval_state_.next) {
      for (std::size_t g = 0; g < s->keys().tables().size() && refused == nullptr; ++g)
        if (!s->keys().tables()[g].obtain_promise(blocks_to_promise(*s, g), s->keys().evaluated(),
                                                  s->eval_state_.count))
          refused = s;
    }
    Status status;
    for (Session* s = first_; s != nullptr && status.ok() && refused == nullptr; s = s->eval_state_.next)
      status = extend_for_batch(*s);
    if (!status.ok() || refused != nullptr)
      for (Session* t = first_; t != nullptr; t = t->eval_state_.next) t->keys().give_back_unused();
    return status;
  }

  /// Takes blocks for a session's next tokens, as many as a batch may have.
  Status extend_for_batch(Session& s) const {
    const std::size_t n =
        std::min<std::size_t>(s.eval_state_.count - s.eval_state_.done, model_.scratch_layout().batch_capacity);
    const Code code = s.keys().extend(n);
    if (code == Code::ok) return Status();
    if (code == Code::io)
      return error_at(Code::io, EFBIG, "RLIMIT_FSIZE does not allow the memory that {} tokens of session {} need", n,
                      s.eval_state_.index);
    return error(Code::no_memory, "the system has no memory or no mapping for {} tokens of session {}", n,
                 s.eval_state_.index);
  }

  /// Adds a session's next n tokens as rows of the batch.
  void add_rows(Session& s, std::size_t n, Batch& batch) {
    const BatchArrays arrays = batch_arrays(model_);
    Session::EvalState& state = s.eval_state_;
    const auto row = static_cast<std::size_t>(batch.n_rows);
    const std::size_t position = s.keys().evaluated();
    kernels::Sequence sequence{
        {}, static_cast<std::int32_t>(row), static_cast<std::int32_t>(n), static_cast<std::uint32_t>(position)};
    for (std::size_t g = 0; g < kv_layouts().size(); ++g) {
      sequence.kv = keeps_keys() ? s.keys().view(g) : transient_.take(n);
      arrays.sequences_of(g)[batch.n_sequences] = sequence;
    }
    if (model_.spec().is_stage()) arrays.hidden[batch.n_sequences] = hidden_rows(state, row, n);
    ++batch.n_sequences;
    std::copy_n(s.with_drafts().data() + position, n, arrays.tokens + row);
    const model::ModelSpec& spec = model_.spec();
    for (std::size_t i = 0; i < n && spec.n_positions != 0; ++i)
      arrays.positions[row + i] = static_cast<std::int32_t>(spec.first_position + position + i);
    for (std::size_t i = 0; i < n && spec.n_types != 0; ++i) arrays.types[row + i] = s.type_of(position + i);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t remaining = state.count - (state.done + i);  // this token included
      if (remaining > state.kept) continue;
      arrays.logit_rows[batch.n_logits] = static_cast<std::int32_t>(row + i);
      arrays.logit_out[batch.n_logits++] = s.logits_row(state.kept - remaining);
    }
    if (s.has_embeddings())
      arrays.embeddings[batch.n_embeddings++] = s.hidden_state_rows(sequence.first_row, sequence.n_rows);
    batch.longest_context = std::max(batch.longest_context, static_cast<std::uint32_t>(position + n));
    batch.n_rows += static_cast<std::int64_t>(n);
  }

  HiddenRows hidden_rows(const Session::EvalState& state, std::size_t row, std::size_t n) const {
    const std::size_t done = state.done * model_.spec().n_embd;
    HiddenRows rows{nullptr, nullptr, static_cast<std::int32_t>(row), static_cast<std::int32_t>(n)};
    if (model_.spec().takes_hidden()) rows.in = options_.hidden_in[state.index] + done;
    if (model_.spec().gives_hidden()) rows.out = options_.hidden_out[state.index] + done;
    return rows;
  }

  /// Whether sessions keep keys and values, and a part of one's pending tokens can be evaluated alone.
  bool keeps_keys() const { return model_.spec().causal; }
  /// Of each group of layers, where keys and values of a batch are.
  std::span<const KvLayout> kv_layouts() const {
    return keeps_keys() ? sessions_[0].cache().layouts() : std::span(&model_.scratch_layout().kv, 1);
  }

  /// Fills the arena with the next rows, at most as many as it was made for.
  Result<Batch> assemble() {
    const std::size_t capacity = model_.scratch_layout().batch_capacity;
    Batch batch;
    transient_.clear();
    for (Session* s = first_; s != nullptr; s = s->eval_state_.next) {
      const std::size_t rest = s->eval_state_.count - s->eval_state_.done;
      const std::size_t n = std::min(capacity - static_cast<std::size_t>(batch.n_rows), rest);
      if (n == 0) break;
      if (!keeps_keys() && (n < rest || !transient_.has_room_for(n))) break;
      if (s->eval_state_.done != 0) QINFER_TRY(extend_for_batch(*s));
      add_rows(*s, n, batch);
    }
    return batch;
  }

  /// Takes those from the list that are to leave: what they have not evaluated stays pending.
  void drop_cancelled() {
    Session** at = &first_;
    while (*at != nullptr) {
      Session::EvalState& state = (*at)->eval_state_;
      if (sessions_.is_cancelled(state.index)) {
        *at = state.next;
      } else {
        at = &state.next;
      }
    }
  }

  Status next_batch() {
    drop_cancelled();
    if (first_ == nullptr) return Status();
    QINFER_ASSIGN(const Batch batch, assemble());
    const std::uint64_t begin = platform::now_ns();
    if (!forward(model_, kv_layouts(), batch, options_.cancelled))
      return Status::fixed(Code::cancelled, "the evaluation was cancelled: what was not evaluated stays pending");
    account(batch, platform::now_ns() - begin);
    return Status();
  }

  /// Marks the rows of a batch as evaluated and shares its time among their sessions; finished sessions leave the list.
  void account(const Batch& batch, std::uint64_t elapsed) {
    AtomicMetrics& total = model_.runtime().metrics();
    const kernels::Sequence* sequences = batch_arrays(model_).sequences;
    learn_costs(batch, elapsed);
    for (std::size_t i = 0; i < batch.n_sequences; ++i) {
      const kernels::Sequence& sequence = sequences[i];
      Session& session = *first_;
      Session::EvalState& state = session.eval_state_;
      const auto n = static_cast<std::uint64_t>(sequence.n_rows);
      const std::uint64_t share = elapsed * n / static_cast<std::uint64_t>(batch.n_rows);
      const std::size_t n_drafts = session.n_drafts();
      const bool is_decode = state.count == n_drafts + 1;
      const std::uint64_t tokens = is_decode ? n - n_drafts : n;  // drafts count when they are drawn
      (is_decode ? session.metrics().decode_tokens : session.metrics().prefill_tokens) += tokens;
      (is_decode ? session.metrics().decode_ns : session.metrics().prefill_ns) += share;
      (is_decode ? total.decode_tokens : total.prefill_tokens) += tokens;
      (is_decode ? total.decode_ns : total.prefill_ns) += share;
      for (std::size_t k = 0; k < n_drafts; ++k) ++session.metrics().drafted[k], ++total.drafted[k];
      session.advance(n);
      state.done += n;
      if (state.done < state.count) return;  // only the last session of a batch can be unfinished
      session.set_kept_logits(state.kept);
      ++session.metrics().evals;
      first_ = state.next;
    }
  }

  /// Where every row gives logits, as in steps that decode.
  void learn_costs(const Batch& batch, std::uint64_t ns) const {
    if (batch.n_rows > schedule::RowCosts::kMost || batch.n_logits != batch.n_rows) return;
    std::uint64_t context = 0;
    const kernels::Sequence* sequences = batch_arrays(model_).sequences;
    for (std::size_t i = 0; i < batch.n_sequences; ++i)
      context += sequences[i].first_position + static_cast<std::uint64_t>(sequences[i].n_rows);
    model_.learn_row_costs(static_cast<std::uint32_t>(batch.n_rows), context, static_cast<double>(ns) * 1e-9);
  }

  const SessionList& sessions_;
  const EvalOptions& options_;
  const Model& model_;
  TransientKeys transient_;
  std::size_t n_marked_ = 0;
  Session* first_ = nullptr;  ///< the list of what is left to do
  Session* last_ = nullptr;
};

Status eval(const SessionList& sessions, const EvalOptions& options) {
  if (sessions.size() == 0) return error(Code::invalid_argument, "n_sessions is 0: there is nothing to evaluate");
  if (options.cancelled != nullptr && options.cancelled->load())
    return Status::fixed(Code::cancelled, "the evaluation was cancelled before it began");
  Runtime& runtime = sessions[0].model().runtime();
  const std::uint64_t begin = platform::now_ns();
  const Lock lock(runtime.eval_mutex());
  const std::uint64_t waited = platform::now_ns() - begin;
  Status status = Evaluation(sessions, options).run();
  runtime.metrics().wait_ns += waited;
  if (!status.ok()) return status;
  ++runtime.metrics().evals;
  for (std::size_t i = 0; i < sessions.size(); ++i) sessions[i].metrics().wait_ns += waited;
  return status;
}

Status no_room(const Session& session, std::size_t index, std::size_t n_tokens) {
  return error_at(Code::kv_full, static_cast<std::int64_t>(index),
                  "the KV cache has {}, session {} needs more for {} tokens", session.cache().describe_room(), index,
                  n_tokens);
}

Status eval(Session& session, const EvalOptions& options) {
  const auto at = [&](std::size_t) -> Session& { return session; };
  return eval(SessionList(1, at), options);
}

}  // namespace qinfer::engine
