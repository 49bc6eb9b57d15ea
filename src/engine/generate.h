// Generating with one session: the steps of a Generation with the evaluations between them, one at a time or all.
#pragma once

#include <atomic>

#include "engine/eval.h"
#include "engine/generation.h"

namespace qinfer::engine {

/// The next step: evaluates what is pending and draws a token. After QINFER_E_CANCELLED, and other errors of an
/// evaluation, the step can be done again.
Status next(Generation& generation, const std::atomic<bool>* cancelled, GenerationEvent& event);

/// What a host is told while it generates. Events without text and token are left out.
struct GenerateCallbacks {
  bool (*on_event)(const GenerationEvent& event, void* user) = nullptr;  ///< true stops
  void* user = nullptr;
  const std::atomic<bool>* cancelled = nullptr;
};

/// All steps. `out` is right after an error too. An end token becomes part of the session (pending) and gives no text.
Status generate(Session& session, const GenerationOptions& options, const GenerateCallbacks& callbacks,
                GenerationCounts& out, Finish& finish);

}  // namespace qinfer::engine
