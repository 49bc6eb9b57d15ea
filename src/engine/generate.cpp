// See generate.h.
#include "engine/generate.h"

namespace qinfer::engine {
namespace {

/// One message, wherever the generation was when it was cancelled.
Status cancelled_error() {
  return Status::fixed(Code::cancelled, "the generation was cancelled: the tokens made so far stay");
}

/// What is pending, and guesses of what will follow.
Status evaluate(Generation& generation, const std::atomic<bool>* cancelled) {
  Session& session = generation.session();
  session.catch_up();
  if (session.pending() == 0) return Status();
  EvalOptions options;
  options.cancelled = cancelled;
  schedule::DraftClaim claim = generation.guess();
  if (claim.size != 0) session.model().share_drafts({&claim, 1}, 1, session.length());
  generation.draft(claim.given);
  Status status = eval(session, options);
  if (!status.ok()) session.drop_drafts();
  // Guesses must not fail for want of room where without them nothing would.
  if (!status.ok() && status.code() != Code::cancelled && claim.given != 0) status = eval(session, options);
  return status.code() == Code::cancelled ? cancelled_error() : std::move(status);
}

Status run(Generation& generation, const GenerateCallbacks& callbacks) {
  GenerationEvent event;
  while (generation.finish() == Finish::none) {
    QINFER_TRY(next(generation, callbacks.cancelled, event));
    const bool says_nothing = event.token < 0 && event.text.empty();
    if (says_nothing || callbacks.on_event == nullptr) continue;
    const bool stops = callbacks.on_event(event, callbacks.user);
    if (stops && event.finish == Finish::none) generation.end(Finish::callback, event);
  }
  return Status();
}

}  // namespace

Status next(Generation& generation, const std::atomic<bool>* cancelled, GenerationEvent& event) {
  event = {};
  QINFER_TRY(generation.check());
  if (generation.is_drawn_before()) return generation.draw(event);
  const bool draws = !generation.is_at_limit();
  if (draws || generation.n_new() == 0) QINFER_TRY(evaluate(generation, cancelled));
  // Evaluations look at the flag too, but there may be nothing to evaluate.
  if (draws && cancelled != nullptr && cancelled->load()) return cancelled_error();
  return generation.draw(event);
}

Status generate(Session& session, const GenerationOptions& options, const GenerateCallbacks& callbacks,
                GenerationCounts& out, Finish& finish) {
  out = {};
  finish = Finish::none;
  QINFER_TRY(Generation::check(session, options));
  Generation generation(session, options, session.detokenizer(), session.text_buffer());
  Status status = run(generation, callbacks);
  finish = generation.finish();
  out = generation.counts();
  if (status.ok()) return status;
  // The tokens made so far stay in the session, so their text belongs to the host.
  GenerationEvent event;
  generation.end(Finish::none, event);
  if (!event.text.empty() && callbacks.on_event != nullptr) callbacks.on_event(event, callbacks.user);
  return status;
}

}  // namespace qinfer::engine
