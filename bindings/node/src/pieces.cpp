// See pieces.h; and the functions with which a stream reads a generation.
#include "pieces.h"

#include <algorithm>

namespace qinfer_node {
namespace {

constexpr const char* kFinishes[] = {"error", "end", "stop", "length", "callback"};

}  // namespace

PieceJob::PieceJob(napi_env env, napi_value session, const Options& options, bool queued) : Job(env), queued_(queued) {
  sessions_ = {object_of<Session>(env, session)};
  options.read("maxTokens", options_.max_tokens);
  with_info_ = options.has("topLogprobs");
  options.read("topLogprobs", options_.n_top);
  if (options.has("stop")) read_stop_texts(options.get("stop"));
  options_.stop = stop_texts_.data();
  options_.stop_lens = stop_lengths_.data();
  options_.n_stop = static_cast<std::uint32_t>(stop_.size());
  read_reply(options);
  options_.cancel = cancel();
}

void PieceJob::read_stop_texts(napi_value list) {
  std::uint32_t n = 0;
  check(env_, napi_get_array_length(env_, list, &n));
  for (std::uint32_t i = 0; i < n; ++i) {
    napi_value value = nullptr;
    check(env_, napi_get_element(env_, list, i, &value));
    stop_.push_back(text_of(env_, value, "a stop text"));
  }
  for (const std::string& text : stop_) {
    stop_texts_.push_back(text.data());
    stop_lengths_.push_back(text.size());
  }
}

void PieceJob::read_reply(const Options& options) {
  options.read("maxReasoningTokens", options_.max_reasoning_tokens);
  if (!options.has("reply")) return;
  reply_ = object_of<Reply>(env_, options.get("reply"))->copy(env_);
  options_.reply = reply_.get();
  reasons_before_ = reasoning_.inside = in_reasoning();
}

bool PieceJob::in_reasoning() const {
  std::int32_t inside = 0;
  return reply_ != nullptr && qinfer_reply_in_reasoning(reply_.get(), &inside, nullptr) == QINFER_OK && inside != 0;
}

/// After each token, on the thread of the generation.
Reasoning PieceJob::reasoning_at(std::size_t length) {
  if (reasoning_.inside) reasoning_.n_tokens += static_cast<std::uint32_t>(length - length_told_);
  reasoning_.inside = in_reasoning();
  length_told_ = length;
  return reasoning_;
}

void PieceJob::note_length_before() { length_told_ = length_before_ = qinfer_session_length(session()); }

Piece PieceJob::piece_of(qinfer_token token, const qinfer_token_info* info) {
  const std::size_t length = qinfer_session_length(session());
  Piece piece = {token, 0, length, reasoning_at(length), 0, {}, {}};
  if (info != nullptr) {
    piece.logprob = info->logprob;
    piece.top_tokens.assign(info->top_tokens, info->top_tokens + info->n_top);
    piece.top_logprobs.assign(info->top_logprobs, info->top_logprobs + info->n_top);
  }
  return piece;
}

void PieceJob::put(Piece& piece, const char* data, std::size_t size) {
  if (size != 0) text_.append(data, size);
  piece.text_end = text_.size();
  if (queued_) pieces_.push_back(std::move(piece));
}

/// {logprob, top: [{token, logprob}]}
napi_value PieceJob::info_object(const Piece& piece) const {
  napi_value top = nullptr;
  check(env_, napi_create_array_with_length(env_, piece.top_tokens.size(), &top));
  for (std::size_t i = 0; i < piece.top_tokens.size(); ++i) {
    Record entry(env_);
    entry.set("token", piece.top_tokens[i]).set("logprob", piece.top_logprobs[i]);
    check(env_, napi_set_element(env_, top, static_cast<std::uint32_t>(i), entry.object()));
  }
  return Record(env_).set("logprob", piece.logprob).set("top", top).object();
}

napi_value PieceJob::take() {
  napi_value texts = nullptr, tokens = nullptr, infos = undefined(env_);
  std::vector<Piece> pieces;
  std::vector<std::string> piece_texts;
  {
    // Copied under the lock, made objects after it: a setter of the program could come back to this job.
    const std::lock_guard<std::mutex> lock(mutex_);
    wanted_ = pieces_.size() == n_taken_;
    for (; n_taken_ < pieces_.size(); ++n_taken_) {
      const std::size_t begin = text_begin(n_taken_);
      pieces.push_back(pieces_[n_taken_]);
      piece_texts.push_back(text_.substr(begin, pieces.back().text_end - begin));
    }
    room_.notify_one();
  }
  const std::size_t n = pieces.size();
  if (n == 0) return undefined(env_);
  check(env_, napi_create_array_with_length(env_, n, &texts));
  check(env_, napi_create_array_with_length(env_, n, &tokens));
  if (with_info_) check(env_, napi_create_array_with_length(env_, n, &infos));
  for (std::size_t i = 0; i < n; ++i) {
    const auto index = static_cast<std::uint32_t>(i);
    check(env_, napi_set_element(env_, texts, index, text(env_, piece_texts[i])));
    check(env_, napi_set_element(env_, tokens, index, number(env_, pieces[i].token)));
    if (with_info_) check(env_, napi_set_element(env_, infos, index, info_object(pieces[i])));
  }
  return Record(env_).set("texts", texts).set("tokens", tokens).set("infos", infos).object();
}

void PieceJob::leave(std::size_t n) {
  const std::lock_guard<std::mutex> lock(mutex_);
  left_ = true;
  n_consumed_ = std::min(n, pieces_.size());
  room_.notify_one();
}

void PieceJob::conclude() {
  if (!left_) {
    if (out_of_memory_) set_outcome(QINFER_E_NO_MEMORY, "no memory for the text of the generation", 0);
    if (queued_ && closing_) set_outcome(QINFER_E_CANCELLED, "the session was closed during the generation", 0);
    return;
  }
  // Whatever happened beyond what the reader has seen, a failure too, did not happen.
  const std::size_t length = n_consumed_ == 0 ? length_before_ : pieces_[n_consumed_ - 1].length_after;
  text_.resize(text_begin(n_consumed_));
  result_.finish = QINFER_FINISH_CALLBACK;
  result_.new_tokens = static_cast<std::uint32_t>(length - length_before_);
  const Reasoning seen = n_consumed_ == 0 ? Reasoning{0, reasons_before_} : pieces_[n_consumed_ - 1].reasoning_after;
  result_.reasoning_tokens = seen.n_tokens;
  result_.flags = seen.inside ? QINFER_RESULT_IN_REASONING : 0;
  set_outcome(QINFER_OK, "", 0);
  forget_raised();
  if (sessions_.empty()) return;  // closed
  if (qinfer_session_length(session()) <= length) return;
  Failure failure;
  const qinfer_status status = qinfer_session_truncate(session(), length, failure.argument());
  if (status != QINFER_OK) set_outcome(status, failure.message(), failure.detail());
}

napi_value PieceJob::result() {
  const bool known = result_.finish >= 0 && result_.finish < static_cast<std::int32_t>(std::size(kFinishes));
  return Record(env_)
      .set("text", text(env_, text_))
      .set("finish", known ? kFinishes[result_.finish] : "unknown")
      .set("promptTokens", result_.prompt_tokens)
      .set("cachedTokens", result_.cached_tokens)
      .set("newTokens", result_.new_tokens)
      .set("reasoningTokens", result_.reasoning_tokens)
      .set_flag("inReasoning", (result_.flags & QINFER_RESULT_IN_REASONING) != 0)
      .set("prefillNs", result_.prefill_ns)
      .set("decodeNs", result_.decode_ns)
      .object();
}

namespace {

std::shared_ptr<PieceJob> generation_of(const Args& args) {
  auto generation = std::dynamic_pointer_cast<PieceJob>(object_of<Job>(args.env, args[0]));
  if (generation == nullptr) throw_type_error(args.env, "a call of generate is expected");
  return generation;
}

/// take(job of a generation)
napi_value take(const Args& args) { return generation_of(args)->take(); }

/// leave(job of a generation, pieces consumed)
napi_value leave(const Args& args) {
  generation_of(args)->leave(size_of(args.env, args[1], "consumed"));
  return nullptr;
}

}  // namespace

void export_pieces(napi_env env, napi_value exports) {
  export_all(env, exports, {{"take", entry<take>}, {"leave", entry<leave>}});
}

}  // namespace qinfer_node
