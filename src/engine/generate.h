// generate: evaluate, sample, turn into text, and stop at the right place.
//
// Text is passed on as soon as it cannot become part of a stop text. Example: with the stop text "\n\n" a token
// "end.\n" passes on "end." and holds the "\n" back; if the next token is "\nNext", the generation stops and the host
// gets nothing of it; if it is "Next", the host gets "\nNext".
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/chat_reply.h"
#include "engine/eval.h"
#include "engine/session.h"

namespace qinfer::engine {

enum class Finish : std::int32_t { none = 0, end = 1, stop = 2, length = 3, callback = 4 };

inline constexpr std::uint32_t kMaxTop = 64;

/// One token of a generation, as it is reported to the host; the members of qinfer_token_info.
struct TokenInfo {
  std::int32_t token = -1;
  std::string_view text;
  double logprob = 0;
  std::span<const std::int32_t> top_tokens;
  std::span<const double> top_logprobs;
};

struct GenerateOptions {
  std::uint32_t max_tokens = 0;  ///< new tokens; 0 = no limit but the context
  std::span<const std::string_view> stop;
  /// New whole characters and the token they came with, -1 for text that was held back until the end; true stops.
  bool (*on_token)(std::string_view text, std::int32_t token, void* user) = nullptr;
  /// Once for each token, and once more for text held back; true stops.
  bool (*on_token_info)(const TokenInfo& info, void* user) = nullptr;
  std::uint32_t n_top = 0;  ///< most likely tokens for it; at most kMaxTop
  void* user = nullptr;
  const std::atomic<bool>* cancelled = nullptr;
  /// Gets each token before the callbacks do. While it is in its reasoning, the session's hook rests: a grammar begins
  /// where the content begins.
  ChatReply* reply = nullptr;
  /// With a reply: after so many tokens of reasoning its end marker follows, whatever the model would draw; 0 = no
  /// bound.
  std::uint32_t max_reasoning_tokens = 0;
};

struct GenerateResult {
  Finish finish = Finish::none;
  std::uint32_t prompt_tokens = 0, cached_tokens = 0, new_tokens = 0;
  std::uint32_t reasoning_tokens = 0;  ///< of new_tokens; its end marker is one of them
  bool in_reasoning = false;           ///< it ended there: there is no content
  std::uint64_t prefill_ns = 0, decode_ns = 0;
};

/// `out` is right after an error too. An end token becomes part of the session (pending) and gives no text.
Status generate(Session& session, const GenerateOptions& options, GenerateResult& out);

}  // namespace qinfer::engine
