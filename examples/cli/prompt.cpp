// prompt.cpp: see prompt.h.
#include "prompt.h"

#include <algorithm>
#include <chrono>

#include "options.h"
#include "support.h"

namespace cli {

qi::KvCache make_cache(const qi::Model& model, const std::string& kv, std::uint32_t max_tokens) {
  constexpr std::uint32_t kBlockTokens = 32;
  auto options = qi::options<qinfer_kv_cache_options>();
  options.kv_type = kv_type(kv);
  options.block_tokens = kBlockTokens;
  options.budget_blocks = (std::uint64_t{max_tokens} + kBlockTokens - 1) / kBlockTokens;
  return qi::KvCache(model, options);
}

std::uint64_t evaluate_prompt(qi::Session& session, const qi::Cancel& cancel) {
  // As many as are evaluated in one pass over the weights: pieces of this size cost nothing.
  constexpr std::uint32_t kPiece = 512;
  const std::size_t n_pending = session.pending();
  const auto begin = std::chrono::steady_clock::now();
  ProgressBar bar("reading");
  while (session.pending() != 0) {
    auto options = qi::options<qinfer_eval_options>();
    options.cancel = cancel.native();
    if (session.pending() > kPiece) {
      options.max_tokens = kPiece;
      options.flags = QINFER_EVAL_NO_LOGITS;
    }
    session.eval(options);
    if (n_pending > kPiece) bar.update(n_pending - session.pending(), n_pending, count_text(n_pending));
  }
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
}

std::string count_text(std::uint64_t tokens) { return std::to_string(tokens) + (tokens == 1 ? " token" : " tokens"); }

std::string rate(std::uint64_t tokens, std::uint64_t ns) {
  if (tokens == 0 || ns == 0) return "";
  return format(" at %.1f tokens/s", static_cast<double>(tokens) * 1e9 / static_cast<double>(ns));
}

const char* finish_name(std::int32_t finish) {
  switch (finish) {
    case QINFER_FINISH_END: return "an end token";
    case QINFER_FINISH_STOP: return "a stop text";
    case QINFER_FINISH_LENGTH: return "the length limit";
    case QINFER_FINISH_CALLBACK: return "a callback";
    default: return "cancellation";
  }
}

}  // namespace cli
