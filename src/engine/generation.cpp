// See generation.h.
#include "engine/generation.h"

#include <algorithm>
#include <utility>

#include "platform/thread.h"
#include "sampling/logprobs.h"
#include "text/utf8.h"

namespace qinfer::engine {
namespace {

Status check_stops(const Session& session, std::span<const std::string_view> stop) {
  for (std::size_t i = 0; i < stop.size(); ++i) {
    if (stop[i].empty() || stop[i].size() > kMaxStopBytes)
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "stop text {} has {} bytes, expected 1 to {}", i, stop[i].size(), kMaxStopBytes);
    if (const std::size_t bad = text::find_invalid_utf8(stop[i]); bad != stop[i].size())
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "stop text {} is not valid UTF-8 at byte {}, and output is: it would never appear", i, bad);
  }
  if (!stop.empty() && session.model().tokenizer() == nullptr)
    return error(Code::not_found, "stop texts need a tokenizer, the model directory has no tokenizer.json");
  return Status();
}

Status check_reply(const Session& session, const GenerationOptions& options) {
  if (options.reply == nullptr && options.max_reasoning_tokens != 0)
    return error(Code::invalid_argument,
                 "max_reasoning_tokens is {}, but there is no reply, which tells reasoning from content",
                 options.max_reasoning_tokens);
  if (options.reply == nullptr) return Status();
  if (&options.reply->model() != &session.model())
    return error(Code::invalid_argument, "the reply is of another model than the session");
  return options.reply->check_open();
}

}  // namespace

Status Generation::check(const Session& session, const GenerationOptions& options) {
  QINFER_TRY(check_stops(session, options.stop));
  const std::uint32_t most = std::min(kMaxTop, session.model().spec().n_vocab);
  if (options.n_top > most)
    return error(Code::invalid_argument, "n_top is {}, at most {} are accepted", options.n_top, most);
  QINFER_TRY(session.model().spec().check_gives_logits());
  if (session.length() == 0) return error(Code::state, "the session is empty: append a prompt first");
  return check_reply(session, options);
}

Generation::Generation(Session& session, const GenerationOptions& options, text::Detokenizer* detokenizer,
                       std::span<char> buffer)
    : session_(session),
      options_(options),
      detokenizer_(options.reply != nullptr ? nullptr : detokenizer),
      text_(options.reply != nullptr ? &options.reply->detokenizer() : detokenizer, buffer, options.stop),
      first_(session.length() - options.n_drawn),
      length_(first_),
      revision_(session.revision()),
      kept_(std::min(session.evaluated(), first_)),
      cached_before_(session.metrics().cached_tokens),
      ns_before_(evaluation_ns()) {
  // The text continues the session's, so the first word keeps its leading space.
  if (detokenizer_ != nullptr) detokenizer_->reset(false);
}

// ---- One step

bool Generation::is_at_limit() const {
  return (options_.max_tokens != 0 && length_ - first_ >= options_.max_tokens) || length_ == session_.max_tokens();
}

/// The session's tokens are those of the last step.
Status Generation::check_tokens() const {
  if (session_.revision() == revision_) return Status();
  return error(Code::state,
               "the session has {} tokens, {} after the last step of this generation, or others: begin another one "
               "after tokens were appended or taken back",
               session_.length(), length_);
}

Status Generation::check() const {
  if (finish_ != Finish::none)
    return Status::fixed(Code::state, "the generation has ended: begin another one, or take tokens back");
  QINFER_TRY(check_tokens());
  // The hook has not seen the content begin: a marker of several tokens ended inside of one.
  if (unseen_content_ && session_.sampling().hook() != nullptr)
    return error(Code::unsupported,
                 "the token {} ends the reasoning and begins the content, which the logits hook has not seen begin",
                 session_.tokens()[length_ - 1]);
  return Status();
}

Status Generation::draw(GenerationEvent& event) {
  event = {};
  QINFER_TRY(check());
  if (is_at_limit()) {
    end(Finish::length, event);
    return Status();
  }
  const bool drawn_before = is_drawn_before();
  if (!drawn_before) note_first_draw();
  QINFER_ASSIGN(const std::int32_t token, draw_token());
  ++length_;
  revision_ = session_.revision();
  learn_from_guess(token);
  const bool logprobs = std::exchange(options_.logprobs, options_.logprobs && !drawn_before);
  Status status = take_in(token, event);
  options_.logprobs = logprobs;
  return status;
}

schedule::DraftClaim Generation::guess() {
  guess_ = {};
  n_guessed_ = 0;
  const std::uint64_t limit = std::min<std::uint64_t>(session_.max_tokens(), most_tokens());
  const bool forced = options_.reply != nullptr && !options_.reply->forced.empty();
  if (session_.max_draft() == 0 || session_.pending() != 1 || forced || is_drawn_before() || length_ + 1 >= limit)
    return {};
  const auto room = static_cast<std::uint32_t>(limit - 1 - length_);  // the last token is drawn, and not evaluated
  guess_ = schedule::look_up(session_.tokens(), std::min(session_.max_draft(), room));
  return {&acceptance_, guess_.match, guess_.size};
}

/// Also from guesses that had no rows: how good they are is known by that.
void Generation::learn_from_guess(std::int32_t token) {
  if (n_guessed_ == guess_.size) return;
  const bool right = guess_.tokens[n_guessed_] == token;
  acceptance_.learn(guess_.match + n_guessed_, right);
  n_guessed_ = right ? n_guessed_ + 1 : guess_.size;
}

Status Generation::push(std::int32_t token, GenerationEvent& event) {
  event = {};
  if (session_.length() != length_ + 1 || session_.tokens().back() != token)
    return error(Code::state, "the token {} is not the one that the session has more than after the last step", token);
  revision_ = session_.revision();
  QINFER_TRY(check());
  length_ = session_.length();
  note_first_draw();
  return take_in(token, event);
}

/// Without the session's hook while the reply reasons, and, when it has reasoned for long enough, the tokens that end
/// that.
Result<std::int32_t> Generation::draw_token() {
  if (options_.reply == nullptr) return draw_freely(true);
  QINFER_TRY(options_.reply->check_open());  // a callback may have finished it
  const bool reasons = options_.reply->in_reasoning();
  std::span<const text::TokenId>& forced = options_.reply->forced;
  if (reasons && forced.empty() && options_.max_reasoning_tokens != 0 &&
      reasoning_tokens_ >= options_.max_reasoning_tokens)
    forced = options_.reply->reasoning_end();
  if (!reasons) forced = {};
  if (forced.empty()) return draw_freely(!reasons);
  forced_from_ = static_cast<std::int64_t>(length_ - (options_.reply->reasoning_end().size() - forced.size()));
  const std::int32_t token = forced.front();
  QINFER_TRY(take_forced(token));
  forced = forced.subspan(1);
  return token;
}

/// Samples, or takes what was drawn before.
Result<std::int32_t> Generation::draw_freely(bool with_hook) {
  if (!is_drawn_before()) return session_.sample(with_hook);
  if (with_hook) QINFER_TRY(session_.show_to_hook(length_));
  return session_.tokens()[length_];
}

Status Generation::take_forced(std::int32_t token) {
  if (!is_drawn_before()) return session_.append({&token, 1});
  if (session_.tokens()[length_] == token) return Status();
  return error(Code::state, "the session's token {} is {}, and the reasoning is to end with {}", length_,
               session_.tokens()[length_], token);
}

/// Stop texts are for content, not for reasoning, but for those that are a control token.
Status Generation::take_in(std::int32_t token, GenerationEvent& event) {
  event.token = token;
  if (options_.logprobs) look_up(token, event);
  ChatReply* reply = options_.reply;
  const bool reasons = reply != nullptr && reply->in_reasoning();
  if (reasons) ++reasoning_tokens_;
  event.in_reasoning = reasons;
  const bool stops = is_stop_token(token);  // also where it is an end token: the host has named it
  // One that stops is no text, but where it ends the reasoning, that has ended.
  const bool marks = reply != nullptr && reply->is_marker(token) && (!stops || reply->ends_reasoning(token));
  if (marks) {
    give(text_.push_free(token), event);
    reply->push_marker(token);
    event.in_reasoning = reasons || reply->in_reasoning();
  }
  if (stops || session_.model().is_end_token(token)) {
    const std::string_view text = event.text;
    end(stops ? Finish::stop : Finish::end, event);
    if (marks) event.text = text;  // after which nothing was held back
    return Status();
  }
  if (marks) return Status();
  if (reasons) {
    give(text_.push_free(token), event);
    unseen_content_ = reply->has_content();
    return Status();
  }
  const TextOutput::Piece piece = text_.push(token);
  give(piece.text, event);
  if (piece.stops) event.finish = finish_ = Finish::stop;
  return Status();
}

void Generation::give(std::string_view text, GenerationEvent& event) {
  event.text = text;
  n_text_ += text.size();
  if (options_.reply != nullptr) options_.reply->push_text(text);
}

void Generation::end(Finish reason, GenerationEvent& event) {
  event.is_late = true;
  if (finish_ != Finish::none) {
    event.finish = finish_;
    return;
  }
  event.finish = finish_ = reason;
  // A character of a reply may go on in the next generation of the same reply.
  const TextOutput::Rest rest = text_.flush(options_.reply != nullptr);
  event.text = rest.text;
  n_text_ += rest.text.size();
  if (options_.reply != nullptr) options_.reply->push_text(rest.text.substr(0, rest.text.size() - rest.n_unfinished));
}

/// Whether a stop text is this control token, which has no text of its own in the output.
bool Generation::is_stop_token(std::int32_t token) const {
  if (options_.stop.empty()) return false;  // otherwise there is a tokenizer
  const text::Tokenizer& tokenizer = *session_.model().tokenizer();
  return tokenizer.is_control(token) && std::any_of(options_.stop.begin(), options_.stop.end(),
                                                    [&](auto stop) { return tokenizer.find(stop) == token; });
}

/// The log probabilities of a token, while the logits that it was drawn from are there.
void Generation::look_up(std::int32_t token, GenerationEvent& event) {
  const std::span<const float> row = session_.logits(0);
  if (row.empty()) return;
  const platform::ScopedFloatEnvironment environment;
  auto normalizer = sampling::log_normalizer(row);
  if (!normalizer.ok()) return;  // not after it was drawn from them
  const std::span<std::int32_t> top(top_tokens_, options_.n_top);
  sampling::top_tokens(row, top);
  sampling::subtract(row, top, normalizer.value(), top_logprobs_);
  sampling::subtract(row, {&token, 1}, normalizer.value(), {&event.logprob, 1});
  event.has_logprobs = true;
  event.top_tokens = top;
  event.top_logprobs = {top_logprobs_, top.size()};
}

// ---- Back

Result<std::size_t> Generation::take_back(std::size_t n) {
  QINFER_TRY(check_tokens());
  if (is_drawn_before())
    return error(Code::state, "{} tokens that were drawn before are still to be given again: take back after them",
                 session_.length() - length_);
  if (n > length_ - first_)
    return error(Code::invalid_argument, "n is {}, the generation has {} tokens", n, length_ - first_);
  if (options_.reply != nullptr && !options_.may_take_back)
    return error(Code::state, "the beginning of the reply was not kept");
  QINFER_TRY(session_.truncate(length_ - n));
  length_ -= n;
  revision_ = session_.revision();
  guess_ = {};
  n_guessed_ = 0;
  const std::size_t given = n_text_;
  // What the tokens that stay have become is made again: stop texts, the reply and characters may reach across any.
  n_text_ = 0;
  reasoning_tokens_ = 0;
  unseen_content_ = false;
  finish_ = Finish::none;
  text_.clear();
  if (detokenizer_ != nullptr) detokenizer_->reset(false);
  const ChatReply::Given reply_given = begin_ ? options_.reply->given() : ChatReply::Given();
  if (begin_) options_.reply->restore(*begin_);
  const bool logprobs = std::exchange(options_.logprobs, false);
  Status status;
  GenerationEvent event;
  for (std::size_t i = first_; i < length_ && status.ok(); ++i) status = take_in(session_.tokens()[i], event);
  options_.logprobs = logprobs;
  QINFER_TRY(std::move(status));
  if (begin_) go_on_with_reply(reply_given);
  return std::min(given, n_text_);
}

/// After what it was given has become parts again, of which the host has so much.
void Generation::go_on_with_reply(const ChatReply::Given& given) {
  ChatReply& reply = *options_.reply;
  reply.skip(given);
  const auto length = static_cast<std::int64_t>(length_);
  reply.forced = {};
  if (length <= forced_from_) forced_from_ = -1;
  if (forced_from_ < 0) return;
  const auto n_forced = static_cast<std::size_t>(length - forced_from_);
  if (n_forced < reply.reasoning_end().size() && reply.in_reasoning())
    reply.forced = reply.reasoning_end().subspan(n_forced);
}

// ---- Counts

std::uint64_t Generation::evaluation_ns() const {
  const Metrics& m = session_.metrics();
  return m.prefill_ns + m.decode_ns + m.wait_ns;
}

void Generation::note_first_draw() {
  if (prefill_ns_) return;
  prefill_ns_ = evaluation_ns() - ns_before_;
  cached_ = session_.metrics().cached_tokens - cached_before_;
  if (options_.reply != nullptr && options_.may_take_back) begin_ = options_.reply->mark();
}

GenerationCounts Generation::counts() const {
  GenerationCounts counts;
  const std::uint64_t ns = evaluation_ns() - ns_before_;
  counts.prompt_tokens = static_cast<std::uint32_t>(first_);
  counts.kept_tokens = static_cast<std::uint32_t>(kept_);
  // Of tokens that were drawn before some may have been found in the cache, too: they are no part of the prompt.
  const std::uint64_t cached = cached_ ? *cached_ : session_.metrics().cached_tokens - cached_before_;
  counts.cached_tokens = static_cast<std::uint32_t>(std::min<std::uint64_t>(cached, first_ - kept_));
  counts.new_tokens = static_cast<std::uint32_t>(length_ - first_);
  counts.reasoning_tokens = reasoning_tokens_;
  counts.in_reasoning = options_.reply != nullptr && options_.reply->in_reasoning();
  counts.prefill_ns = prefill_ns_ ? *prefill_ns_ : ns;
  counts.decode_ns = ns - counts.prefill_ns;
  return counts;
}

}  // namespace qinfer::engine
