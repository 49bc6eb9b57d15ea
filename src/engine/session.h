// Session: a list of tokens (session_tokens.h), the keys and values of those that are evaluated (session_keys.h), and
// how the next one is drawn (session_sampling.h); with the logits and hidden states that the last evaluation left.
//
// The first tokens of the list are evaluated, the others are pending. append() adds pending tokens, eval() (eval.h)
// evaluates them, sample() draws a token from the logits of the last one and appends it, truncate() removes tokens from
// the end. All memory of a session is taken when it is created.
//
// session_snapshot.cpp has save() and load(), session_embedding.cpp the vector of a text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "engine/kv_cache.h"
#include "engine/layout.h"
#include "engine/model.h"
#include "engine/session_keys.h"
#include "engine/session_sampling.h"
#include "engine/session_tokens.h"
#include "engine/shared_buffer.h"
#include "sampling/stored_options.h"
#include "text/detokenizer.h"

namespace qinfer::engine {

class Session {
 public:
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<KvCache> cache, const SessionOptions& options);
  ~Session();

  /// The same tokens, blocks, logits and sampler; metrics begin at zero.
  Result<std::unique_ptr<Session>> fork() const;

  /// Writes tokens, keys, values and sampler to a file, or what is new to one that holds the beginning already.
  /// `files` null: the operating system's.
  Status save(const std::string& path, const platform::Files* files = nullptr) const;
  struct LoadSessionOptions {
    bool any_bits = false;     ///< keys and values that the same kernel set computed with other options are accepted
    bool no_recovery = false;  ///< the state before the last one is refused
    std::shared_ptr<const platform::Files> files;  ///< of the host; null: the operating system's
    std::uint32_t max_draft = 0;                   ///< of SessionOptions
  };
  struct LoadSessionResult {
    std::size_t n_tokens = 0, n_evaluated = 0;  ///< as they were saved
    bool recovered = false;                     ///< what was saved last was damaged: this is the state before
    bool other_bits = false;  ///< keys and values were computed by another kernel set or with other options
  };
  /// A session as it was saved, with its limits; the last token is pending, for the file holds no logits.
  static Result<std::unique_ptr<Session>> load(std::shared_ptr<KvCache> cache, const std::string& path,
                                               const LoadSessionOptions& options, LoadSessionResult& result);

  const Model& model() const { return cache_->model(); }
  KvCache& cache() { return *cache_; }
  const KvCache& cache() const { return *cache_; }

  std::span<const std::int32_t> tokens() const { return tokens_.all(); }
  std::size_t length() const { return tokens_.size(); }
  /// Another number after each change of its tokens.
  std::uint64_t revision() const { return tokens_.revision(); }
  /// Those that an evaluation has shown: drafts that were drawn since are not, though their keys are there.
  std::size_t evaluated() const { return std::min(keys_.evaluated(), n_shown_); }
  std::size_t pending() const { return length() - evaluated(); }
  std::uint32_t max_tokens() const { return layout_.max_tokens; }
  std::uint32_t max_logits() const { return layout_.max_logits; }
  /// Tokens that a generation may guess ahead.
  std::uint32_t max_draft() const { return layout_.max_draft; }
  const SessionKeys& keys() const { return keys_; }
  const SessionSampling& sampling() const { return sampling_; }
  SessionSampling& sampling() { return sampling_; }

  /// All or nothing: QINFER_E_INVALID_ARGUMENT for an id out of range (detail: its index), QINFER_E_CONTEXT_FULL.
  /// `type`: which of a pair of texts they are of, 0 or 1, for models that add a row for it to embeddings; others take
  /// 0 alone. QINFER_E_INVALID_ARGUMENT for a type that the model does not have, and for 0 after 1.
  Status append(std::span<const std::int32_t> tokens, std::uint32_t type = 0);
  Status truncate(std::size_t n_tokens);
  /// Makes these its tokens, and returns how many at the beginning were there already: those are kept as they are, and
  /// evaluated no more, the rest is pending. Errors as append()'s, then nothing has changed.
  Result<std::size_t> set_tokens(std::span<const std::int32_t> tokens);

  /// How tokens are drawn from now on.
  Status set_sampler(const sampling::SamplerOptions& options);
  /// DRY's sequence breakers; absent: the default ones, which a model without a tokenizer does not have.
  /// QINFER_E_INVALID_ARGUMENT for too many, or one that is empty or too long; QINFER_E_NOT_FOUND for some without a
  /// tokenizer.
  Status set_dry_breakers(const std::optional<std::vector<std::string>>& texts);

  /// Draws a token after the last one, by its logits, and appends it.
  Result<std::int32_t> sample(bool with_hook);
  /// The token at `position`, which another session has drawn, counts as drawn here: the hook may refuse it.
  Status show_to_hook(std::size_t position);
  /// QINFER_E_UNSUPPORTED for an encoder, which has no logits.
  Status check_samples() const;

  /// Guesses of the tokens that sample() will draw, at most max_draft(), in place of others (none: that is all): they
  /// are evaluated after the pending tokens. For some there must be a pending one, and room. A token that was guessed
  /// right is pending once it is drawn, like any; but evaluating it is catch_up(). The first that was not, and every
  /// change of the tokens, drops the rest.
  void draft(std::span<const std::int32_t> tokens);
  void drop_drafts();
  /// Counts pending tokens as evaluated whose keys are there.
  void catch_up();
  std::size_t n_drafts() const { return tokens_.with_drafts().size() - length(); }

  /// The logits of the last evaluated token, or of the one `back` earlier; empty if not kept.
  std::span<const float> logits(std::size_t back) const;

  /// Whether every token is evaluated, the last one with QINFER_EVAL_NO_LOGITS; and the error of a call that needs its
  /// logits then.
  bool has_skipped_logits() const {
    return model().spec().gives_logits() && n_logits_ == 0 && length() != 0 && pending() == 0;
  }
  static Status skipped_logits();

  /// The log probabilities of tokens in row logits(back), in double. QINFER_E_STATE if the row is not kept,
  /// QINFER_E_INVALID_ARGUMENT (detail: its index) for a token that is not in the vocabulary.
  Status logprobs(std::size_t back, std::span<const std::int32_t> tokens, std::span<double> out) const;
  /// The most likely tokens of that row, in descending order, and their log probabilities.
  Status top_logprobs(std::size_t back, std::span<std::int32_t> tokens, std::span<double> out) const;
  /// The error that says why logits(back) is empty.
  Status no_logits(std::size_t back) const;
  /// How many rows logits() has.
  std::size_t n_logits() const {
    return std::min<std::size_t>(n_logits_ - std::min(n_logits_, n_hidden()), layout_.max_logits);
  }

  using Pooling = model::Pooling;
  struct EmbeddingOptions {
    std::optional<Pooling> pooling;  ///< absent: the model's
    bool unscaled = false;           ///< not of length 1, but as pooling and layers give it
  };
  bool has_embeddings() const { return layout_.embeddings; }
  /// The final hidden states of all tokens, pooled, through the model's layers after pooling, and of length 1: the
  /// first values, as many as `out` has, of embedding_dims(). QINFER_E_STATE unless the session was made for embeddings
  /// and all its tokens are evaluated.
  Status embedding(const EmbeddingOptions& options, std::span<float> out) const;
  /// Whether there is one.
  Status check_embedding() const;
  /// What the model's classifier (model::ClassifierSpec) gives for the session's tokens: a number for each label, as
  /// they are, without softmax or sigmoid. QINFER_E_UNSUPPORTED if there is no classifier; other errors as embedding().
  Status classify(std::span<float> out) const;
  /// What the layers after pooling give, as they give it, in a model whose files say that this makes scores.
  Status label_values(std::span<float> out) const;

  /// All but the blocks of the cache.
  std::uint64_t other_bytes() const { return memory_.size() + tokens_.bytes() + layout_.logits_bytes; }
  const Metrics& metrics() const { return metrics_; }

  // ---- For eval ----

  SessionKeys& keys() { return keys_; }
  std::span<const std::int32_t> with_drafts() const { return tokens_.with_drafts(); }
  /// The type of the token at a position.
  std::int32_t type_of(std::size_t position) const { return position >= tokens_.second_text() ? 1 : 0; }
  /// Pending tokens, and drafts after them.
  std::size_t to_evaluate() const { return with_drafts().size() - keys_.evaluated(); }
  /// Adopts published blocks of the cache that hold pending tokens, but not the last `keep` tokens.
  void adopt_prefix(std::size_t keep);
  /// Undoes adopt_prefix(): the tokens are pending again.
  void drop_adopted();
  /// The next n tokens are evaluated now.
  void advance(std::size_t n) {
    keys_.advance(n, tokens());
    n_shown_ = std::min(keys_.evaluated(), length());
  }
  /// Where the hidden states of the next rows to be evaluated are gathered; rows [first_row, first_row + n_rows) of the
  /// batch are this session's.
  HiddenStateRows hidden_state_rows(std::int32_t first_row, std::int32_t n_rows) const;
  /// Where the logits of row `row` of the `kept` rows of this evaluation go.
  float* logits_row(std::size_t row) const;
  void set_kept_logits(std::size_t kept) { n_logits_ = kept; }
  /// Before an evaluation: forgets the old logits, and makes sure that new ones are not written where a fork reads.
  void drop_logits();
  Metrics& metrics() { return metrics_; }
  /// All tokens are pending again.
  void forget_everything();
  /// Keys and values are elsewhere now, and all tokens pending, until come_back(): then all is as before.
  void leave() {
    keys_.leave();
    away_logits_ = std::exchange(n_logits_, 0);
  }
  void come_back() {
    keys_.come_back();
    n_logits_ = away_logits_;
  }
  /// The evaluation that the session took part in is over, and what it knew of the session is gone.
  void end_evaluation() { eval_state_ = {}; }

  // ---- For generations ----

  std::span<char> text_buffer() const { return {memory_.as<char>() + layout_.text, layout_.text_bytes}; }
  text::Detokenizer* detokenizer() { return detokenizer_ ? &*detokenizer_ : nullptr; }

 private:
  friend class Evaluation;  // eval.cpp
  /// What an evaluation knows of a session that takes part in it; here, so that it needs no memory of its own.
  struct EvalState {
    Session* next = nullptr;  ///< in the list of what is left to do
    std::size_t index = 0;    ///< in the caller's array
    std::size_t count = 0;    ///< tokens to evaluate in this call
    std::size_t done = 0;     ///< of them
    std::size_t kept = 0;     ///< rows of logits wanted
    std::size_t adopted = 0;  ///< blocks, by adopt_prefix()
    bool active = false;      ///< in the call
  };

  Session() = default;
  float* embedding_data() const { return reinterpret_cast<float*>(memory_.data() + layout_.embedding); }
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<KvCache> cache, const SessionLayout& layout);
  Status check_room_for(std::span<const std::int32_t> tokens, std::size_t n_before) const;
  /// truncate(), where with `others_follow` tokens are appended at once, so that the last one kept needs no logits.
  Status cut(std::size_t n_tokens, bool others_follow);
  /// Tokens and drafts whose keys are there, after the evaluated ones.
  std::size_t n_hidden() const { return keys_.evaluated() - evaluated(); }
  /// Forgets keys and logits of hidden ones from position n on.
  void forget_hidden(std::size_t n);
  /// A token that was drawn, which the hook may refuse.
  Status append_drawn(std::int32_t token, bool with_hook);

  std::shared_ptr<KvCache> cache_;
  SessionLayout layout_;
  Charge charge_;
  platform::Buffer memory_;
  SessionTokens tokens_;
  SessionKeys keys_;
  SessionSampling sampling_;
  SharedBuffer logits_;
  std::size_t n_shown_ = 0;      ///< see evaluated()
  std::size_t n_logits_ = 0;     ///< rows, those of hidden tokens included
  std::size_t away_logits_ = 0;  ///< the same, while keys are elsewhere
  std::size_t draft_begin_ = 0;  ///< length when the last draft was made
  std::optional<text::Detokenizer> detokenizer_;
  Metrics metrics_;
  EvalState eval_state_;
};

}  // namespace qinfer::engine
