// generate: evaluate, sample, turn into text, and stop at the right place.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/eval.h"
#include "engine/session.h"

namespace qinfer::engine {

enum class Finish : std::int32_t { none = 0, end = 1, stop = 2, length = 3, callback = 4 };

struct GenerateOptions {
  std::uint32_t max_tokens = 0;  ///< new tokens; 0 = no limit but the context
  std::span<const std::string_view> stop;
  /// New whole characters and the token they came with; true stops.
  bool (*on_token)(std::string_view text, std::int32_t token, void* user) = nullptr;
  void* user = nullptr;
  const std::atomic<bool>* cancelled = nullptr;
};

struct GenerateResult {
  Finish finish = Finish::none;
  std::uint32_t prompt_tokens = 0, cached_tokens = 0, new_tokens = 0;
  std::uint64_t prefill_ns = 0, decode_ns = 0;
};

/// `out` is right after an error too. An end token becomes part of the session (pending) and gives no text.
Status generate(Session& session, const GenerateOptions& options, GenerateResult& out);

}  // namespace qinfer::engine
