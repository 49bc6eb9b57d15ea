// Generation: what happens between two evaluations while a session generates. A token is drawn, or one that was drawn
// elsewhere is taken in; out comes an event: new text, log probabilities, and whether it is over and why.
//
// It evaluates nothing itself. So the same object serves a single session (evaluate, then draw()), many sessions that a
// host evaluates as one batch, and a caller that draws tokens by its own rule and hands them to push(). Tokens can be
// taken back: text, stop texts and the reply are then as if those tokens had never been drawn.
//
//   draw()  -> a limit is reached?   -> the last event
//           -> an earlier generation has drawn the token? that one
//           -> the reply reasons for too long? the tokens of its end marker, whatever the model would draw
//           -> Session::sample(), with the session's hook unless the reply is in its reasoning
//           -> push()
//   push()  -> end token, stop token -> the last event
//           -> TextOutput: new text, less what may begin a stop text -> the reply, if there is one -> an event
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "engine/chat_reply.h"
#include "engine/session.h"
#include "engine/text_output.h"
#include "schedule/drafts.h"

namespace qinfer::engine {

enum class Finish : std::int32_t { none = 0, end = 1, stop = 2, length = 3, callback = 4 };

inline constexpr std::uint32_t kMaxTop = 64;

struct GenerationOptions {
  std::uint32_t max_tokens = 0;            ///< new tokens; 0 = no limit but the context
  std::span<const std::string_view> stop;  ///< must outlive the generation
  bool logprobs = false;                   ///< events have log probabilities
  std::uint32_t n_top = 0;                 ///< then also of so many of the most likely tokens; at most kMaxTop
  /// Gets the text of the tokens, up to a stop text. While it is in its reasoning, the session's hook rests: a grammar
  /// begins where the content begins.
  ChatReply* reply = nullptr;
  /// With a reply: after so many tokens of reasoning its end marker follows, whatever the model would draw; 0 = no
  /// bound.
  std::uint32_t max_reasoning_tokens = 0;
  bool may_take_back = false;  ///< take_back() is of use with a reply, whose beginning is kept for it
  /// The last tokens of the session that an earlier generation of the same options has drawn, in another process
  /// perhaps: the first steps give them again, without log probabilities and without an evaluation.
  std::size_t n_drawn = 0;
};

/// What a token has brought. Texts and arrays are valid until the generation is next used.
struct GenerationEvent {
  std::int32_t token = -1;    ///< -1: none, the limit was reached or the generation was ended
  std::string_view text;      ///< whole characters that are output now
  bool is_late = false;       ///< the text was held back, and comes after the last token
  bool in_reasoning = false;  ///< the token is part of the reply's reasoning, or of its markers
  bool has_logprobs = false;
  double logprob = 0;
  std::span<const std::int32_t> top_tokens;
  std::span<const double> top_logprobs;
  Finish finish = Finish::none;  ///< of the last event: why
};

struct GenerationCounts {
  std::uint32_t prompt_tokens = 0, cached_tokens = 0, new_tokens = 0;
  std::uint32_t kept_tokens = 0;       ///< of the prompt, which the session had evaluated before
  std::uint32_t reasoning_tokens = 0;  ///< of new_tokens; its end marker is one of them
  bool in_reasoning = false;           ///< of the reply, now
  /// This session's part of the evaluations before the first token was drawn, and since, with the time they waited.
  std::uint64_t prefill_ns = 0, decode_ns = 0;
};

class Generation {
 public:
  /// What is wrong with options for this session.
  static Status check(const Session& session, const GenerationOptions& options);

  /// After check(). `detokenizer` (null without a tokenizer) and `buffer` (Session::text_buffer's size) are for this
  /// generation alone. With a reply its own detokenizer serves, so that text and parts are the same.
  Generation(Session& session, const GenerationOptions& options, text::Detokenizer* detokenizer,
             std::span<char> buffer);

  /// Whether there can be another step: QINFER_E_STATE once it has ended, or where the session's tokens are not those
  /// of the last step.
  Status check() const;
  /// Whether the next step gives a token that was drawn before.
  bool is_drawn_before() const { return length_ < session_.length() && finish_ == Finish::none; }
  /// Before the first step: the session was given the same tokens anew.
  void begin_anew() { revision_ = session_.revision(); }
  /// Draws the next token and appends it to the session, whose tokens must all be evaluated.
  Status draw(GenerationEvent& event);
  /// Before the evaluation of the last token: guesses what may follow it (schedule/drafts.h), as far as the session and
  /// the limits allow. What is given of the claim can be evaluated with it: draft(claim.given).
  schedule::DraftClaim guess();
  void draft(std::size_t n) { session_.draft(std::span(guess_.tokens).first(n)); }
  /// Whether draw() will end it because a limit is reached, so that nothing need be evaluated.
  bool is_at_limit() const;
  /// How many tokens the session has at most when it has ended, but for the session's own limit.
  std::uint64_t most_tokens() const {
    return options_.max_tokens == 0 ? UINT64_MAX : first_ + std::uint64_t{options_.max_tokens};
  }
  /// Takes in a token that was appended to the session.
  Status push(std::int32_t token, GenerationEvent& event);
  /// Ends it, unless it has ended: what was held back is text after all. `reason` may be none: after an error.
  void end(Finish reason, GenerationEvent& event);
  /// Takes the last n tokens from the session, and from all that was made of them; a generation that has ended goes on.
  /// Returns how many bytes of the texts of all events so far are still right. Parts that the reply has given stay
  /// given. QINFER_E_STATE with a reply without may_take_back.
  Result<std::size_t> take_back(std::size_t n);

  Finish finish() const { return finish_; }
  std::size_t n_new() const { return length_ - first_; }
  GenerationCounts counts() const;
  Session& session() const { return session_; }

 private:
  Status check_tokens() const;
  Result<std::int32_t> draw_token();
  Result<std::int32_t> draw_freely(bool with_hook);
  Status take_forced(std::int32_t token);
  Status take_in(std::int32_t token, GenerationEvent& event);
  void give(std::string_view text, GenerationEvent& event);
  void learn_from_guess(std::int32_t token);
  void look_up(std::int32_t token, GenerationEvent& event);
  bool is_stop_token(std::int32_t token) const;
  std::uint64_t evaluation_ns() const;
  void note_first_draw();
  void go_on_with_reply(const ChatReply::Given& given);

  Session& session_;
  GenerationOptions options_;
  text::Detokenizer* detokenizer_;  ///< null with a reply
  TextOutput text_;
  std::size_t first_;       ///< length of the session before the first token
  std::size_t length_;      ///< and now
  std::uint64_t revision_;  ///< of its tokens
  std::size_t kept_;        ///< evaluated tokens before
  std::size_t n_text_ = 0;  ///< bytes of text in all events
  std::uint32_t reasoning_tokens_ = 0;
  Finish finish_ = Finish::none;
  bool unseen_content_ = false;    ///< see check()
  std::int64_t forced_from_ = -1;  ///< length of the session before the reply's end marker was forced; -1: it was not
  std::optional<ChatReply::Mark> begin_;
  schedule::Draft guess_;
  std::uint32_t n_guessed_ = 0;  ///< tokens of it that were drawn, or all once it was wrong
  schedule::Acceptance acceptance_;
  std::uint64_t cached_before_, ns_before_;
  std::optional<std::uint64_t> cached_, prefill_ns_;  ///< when the first token was drawn
  std::int32_t top_tokens_[kMaxTop];
  double top_logprobs_[kMaxTop];
};

}  // namespace qinfer::engine
