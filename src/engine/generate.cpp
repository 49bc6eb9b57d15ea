// See generate.h.
#include "engine/generate.h"

#include <algorithm>
#include <cstring>

#include "platform/thread.h"
#include "sampling/logprobs.h"
#include "text/utf8.h"

namespace qinfer::engine {
namespace {

/// Text on its way to the host: held back while its end may be the beginning of a stop text.
class TextOutput {
 public:
  TextOutput(Session& session, const GenerateOptions& options)
      : session_(session), options_(options), buffer_(session.text_buffer()), detokenizer_(session.detokenizer()) {
    // The text continues the session's, so the first word keeps its leading space.
    if (detokenizer_ != nullptr) detokenizer_->reset(session.length() == 0);
  }

  /// Adds the text of a token and passes on what is safe. Returns a reason to stop, or Finish::none. Stop texts are for
  /// content, not for reasoning, but for those that are a control token.
  Finish push(std::int32_t token, bool is_reasoning) {
    if (options_.on_token_info != nullptr) look_up(token);
    if (is_stop_token(token)) {  // also where it is an end token: the host has named it
      finish();
      return Finish::stop;
    }
    if (session_.model().is_end_token(token)) return Finish::end;
    if (detokenizer_ != nullptr) held_ += detokenizer_->push(token, buffer_.subspan(held_));
    if (is_reasoning) return emit(held_, token) ? Finish::callback : Finish::none;
    const std::size_t stop = first_stop();
    if (stop != std::string_view::npos) {
      emit(stop, token);
      held_ = 0;
      return Finish::stop;
    }
    return emit(held_ - longest_stop_beginning(), token) ? Finish::callback : Finish::none;
  }

  /// The generation ends without a stop text: everything held back is text after all.
  void finish() {
    if (detokenizer_ != nullptr) held_ += detokenizer_->finish(buffer_.subspan(held_));
    if (held_ != 0) {
      emit(held_, -1);
    } else if (info_.token >= 0) {
      tell({});  // the end token
    }
  }

 private:
  std::string_view held() const { return {buffer_.data(), held_}; }

  /// Whether a stop text is this control token, which has no text of its own in the output.
  bool is_stop_token(std::int32_t token) const {
    if (options_.stop.empty()) return false;  // otherwise there is a tokenizer
    const text::Tokenizer& tokenizer = *session_.model().tokenizer();
    return tokenizer.is_control(token) && std::any_of(options_.stop.begin(), options_.stop.end(),
                                                      [&](auto stop) { return tokenizer.find(stop) == token; });
  }

  std::size_t first_stop() const {
    std::size_t first = std::string_view::npos;
    for (const std::string_view stop : options_.stop) first = std::min(first, held().find(stop));
    return first;
  }

  /// The longest end of the held text with which some stop text begins.
  std::size_t longest_stop_beginning() const {
    std::size_t longest = 0;
    for (const std::string_view stop : options_.stop) {
      for (std::size_t n = std::min(stop.size() - 1, held_); n > longest; --n)
        if (held().ends_with(stop.substr(0, n))) longest = n;
    }
    return longest;
  }

  /// Fills in the TokenInfo of a token, while the logits that it was drawn from are there.
  void look_up(std::int32_t token) {
    info_.token = token;
    const std::span<const float> row = session_.logits(0);
    const platform::ScopedFloatEnvironment environment;
    auto normalizer = sampling::log_normalizer(row);
    if (!normalizer.ok()) return;  // not after it was drawn from them
    const std::span<std::int32_t> top(top_tokens_, options_.n_top);
    sampling::top_tokens(row, top);
    sampling::subtract(row, top, normalizer.value(), top_logprobs_);
    sampling::subtract(row, {&token, 1}, normalizer.value(), {&info_.logprob, 1});
    info_.top_tokens = top;
    info_.top_logprobs = {top_logprobs_, top.size()};
  }

  /// Passes on the token that was looked up last, once, or text without a token.
  bool tell(std::string_view text) {
    if (options_.on_token_info == nullptr) return false;
    info_.text = text;
    const bool stop = options_.on_token_info(info_, options_.user);
    info_ = {};
    return stop;
  }

  /// `token`: -1 where the text comes after the last one.
  bool emit(std::size_t n, std::int32_t token) {
    bool stop = options_.on_token != nullptr && options_.on_token(held().substr(0, n), token, options_.user);
    if (tell(held().substr(0, n))) stop = true;
    std::memmove(buffer_.data(), buffer_.data() + n, held_ - n);
    held_ -= n;
    return stop;
  }

  const Session& session_;
  const GenerateOptions& options_;
  TokenInfo info_;  ///< of the token that was not reported to the host yet
  std::int32_t top_tokens_[kMaxTop];
  double top_logprobs_[kMaxTop];
  std::span<char> buffer_;
  std::size_t held_ = 0;
  text::Detokenizer* detokenizer_;
};

Status check(const Session& session, const GenerateOptions& options) {
  for (std::size_t i = 0; i < options.stop.size(); ++i) {
    if (options.stop[i].empty() || options.stop[i].size() > kMaxStopBytes)
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "stop text {} has {} bytes, expected 1 to {}", i, options.stop[i].size(), kMaxStopBytes);
    if (const std::size_t bad = text::find_invalid_utf8(options.stop[i]); bad != options.stop[i].size())
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "stop text {} is not valid UTF-8 at byte {}, and output is: it would never appear", i, bad);
  }
  if (options.n_top > std::min(kMaxTop, session.model().spec().n_vocab))
    return error(Code::invalid_argument, "n_top is {}, at most {} are accepted", options.n_top,
                 std::min(kMaxTop, session.model().spec().n_vocab));
  if (!options.stop.empty() && session.model().tokenizer() == nullptr)
    return error(Code::not_found, "stop texts need a tokenizer, the model directory has no tokenizer.json");
  QINFER_TRY(session.model().spec().check_gives_logits());
  if (session.length() == 0) return error(Code::state, "the session is empty: append a prompt first");
  if (options.reply == nullptr && options.max_reasoning_tokens != 0)
    return error(Code::invalid_argument,
                 "max_reasoning_tokens is {}, but there is no reply, which tells reasoning from content",
                 options.max_reasoning_tokens);
  if (options.reply == nullptr) return Status();
  if (&options.reply->model() != &session.model())
    return error(Code::invalid_argument, "the reply is of another model than the session");
  return options.reply->check_open();
}

/// One message, wherever the generation was when it was cancelled.
Status cancelled() {
  return Status::fixed(Code::cancelled, "the generation was cancelled: the tokens made so far stay");
}

/// Evaluates the pending tokens and counts the time.
Status evaluate(Session& session, const GenerateOptions& options, std::uint64_t& ns) {
  if (session.pending() == 0) return Status();
  const std::uint64_t begin = platform::now_ns();
  const SessionList one(&session, 1, [](const void* handles, std::size_t) -> Session& {
    return *const_cast<Session*>(static_cast<const Session*>(handles));
  });
  EvalOptions eval_options;
  eval_options.cancelled = options.cancelled;
  Status status = eval(one, eval_options);
  ns += platform::now_ns() - begin;
  return status.code() == Code::cancelled ? cancelled() : std::move(status);
}

/// Draws the tokens of a reply: without the session's hook while it reasons, and, when it has reasoned for long enough,
/// the tokens that end that.
class Drawing {
 public:
  Drawing(Session& session, const GenerateOptions& options) : session_(session), options_(options) {}

  Result<std::int32_t> next(GenerateResult& out) {
    if (options_.reply == nullptr) return session_.sample(true);
    QINFER_TRY(options_.reply->check_open());  // a callback may have finished it
    const bool reasons = options_.reply->in_reasoning();
    was_reasoning_ = reasons;
    std::span<const text::TokenId>& forced = options_.reply->forced;
    if (reasons && forced.empty() && options_.max_reasoning_tokens != 0 &&
        out.reasoning_tokens >= options_.max_reasoning_tokens)
      forced = options_.reply->reasoning_end();
    if (!reasons) forced = {};
    QINFER_ASSIGN(const std::int32_t token, forced.empty() ? session_.sample(!reasons) : force(forced));
    QINFER_TRY(options_.reply->push(token));
    if (reasons) ++out.reasoning_tokens;
    return token;
  }
  /// Whether the last token was one of the reasoning.
  bool was_reasoning() const { return was_reasoning_; }
  /// After the token was passed on: a marker of several tokens may have ended inside of it.
  Status check_end(std::int32_t token) const {
    if (!was_reasoning_ || session_.logits_hook() == nullptr || !options_.reply->has_content()) return Status();
    return error(Code::unsupported,
                 "the token {} ends the reasoning and begins the content, which the logits hook has not seen begin",
                 token);
  }

 private:
  Result<std::int32_t> force(std::span<const text::TokenId>& forced) {
    const std::int32_t token = forced.front();
    QINFER_TRY(session_.append({&token, 1}));
    forced = forced.subspan(1);
    return token;
  }

  Session& session_;
  const GenerateOptions& options_;
  bool was_reasoning_ = false;
};

Status run(Session& session, const GenerateOptions& options, TextOutput& text, GenerateResult& out) {
  Drawing drawing(session, options);
  const std::uint64_t cached = session.metrics().cached_tokens;
  Status status = evaluate(session, options, out.prefill_ns);
  out.cached_tokens = static_cast<std::uint32_t>(session.metrics().cached_tokens - cached);
  QINFER_TRY(std::move(status));
  while (out.finish == Finish::none) {
    if ((options.max_tokens != 0 && out.new_tokens == options.max_tokens) || session.length() == session.max_tokens()) {
      out.finish = Finish::length;
      return Status();
    }
    if (out.new_tokens != 0) QINFER_TRY(evaluate(session, options, out.decode_ns));
    // Evaluations look at the flag too, but there may be nothing to evaluate.
    if (options.cancelled != nullptr && options.cancelled->load()) return cancelled();
    QINFER_ASSIGN(const std::int32_t token, drawing.next(out));
    ++out.new_tokens;
    out.finish = text.push(token, drawing.was_reasoning());
    QINFER_TRY(drawing.check_end(token));
  }
  return Status();
}

}  // namespace

Status generate(Session& session, const GenerateOptions& options, GenerateResult& out) {
  out = {};
  QINFER_TRY(check(session, options));
  out.prompt_tokens = static_cast<std::uint32_t>(session.length());
  TextOutput text(session, options);
  Status status = run(session, options, text, out);
  out.in_reasoning = options.reply != nullptr && options.reply->in_reasoning();
  // Also after an error: the tokens made so far stay in the session, so their text belongs to the host.
  if (out.finish != Finish::stop && out.finish != Finish::callback) text.finish();
  return status;
}

}  // namespace qinfer::engine
