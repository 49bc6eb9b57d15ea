// The job that generates. What comes of each token is a piece. On the JavaScript thread a piece is handed to a function
// at once; on a separate thread the generation puts pieces into a queue and goes on, as far ahead of its reader as
// the options allow. A reader that leaves says how many pieces it has consumed: what was drawn beyond them is taken
// back, so that the session is as if the generation had stopped there.
#include <algorithm>
#include <chrono>
#include <condition_variable>

#include "job.h"
#include "reply.h"

namespace qinfer_node {
namespace {

constexpr const char* kFinishes[] = {"error", "end", "stop", "length", "callback"};
constexpr std::uint32_t kDefaultAhead = 64;
/// Waking the reader takes about as long as a small model needs for a token, so those that come faster than this are
/// delivered together, with the next one.
constexpr std::chrono::milliseconds kWakeInterval(2);

/// Where a reply is.
struct Reasoning {
  std::uint32_t n_tokens = 0;  ///< of it so far
  bool inside = false;
};

struct Piece {
  qinfer_token token;        ///< -1: text that was held back until the end
  std::size_t text_end;      ///< in text_; it begins where the piece before it ends
  std::size_t length_after;  ///< tokens of the session
  Reasoning reasoning_after;
  double logprob = 0;
  std::vector<qinfer_token> top_tokens;
  std::vector<double> top_logprobs;
};

class GenerateJob final : public Job {
 public:
  /// generate(session, {maxTokens, stop: [texts], topLogprobs, ahead, reply, maxReasoningTokens}, queued,
  /// onPiece(token, text, info) or undefined)
  explicit GenerateJob(const Args& args);

  /// The pieces since the last time, as {texts, tokens, infos}, or undefined if there are none; then on_ready is called
  /// when there is one.
  napi_value take();
  /// The reader has consumed n pieces and wants no more.
  void leave(std::size_t n);

 private:
  void read_stop_texts(const Args& args, napi_value list);
  void read_reply(const Args& args, const Options& options);
  bool in_reasoning() const;
  Reasoning reasoning_at(std::size_t length);
  std::int32_t add(const char* data, std::size_t size, qinfer_token token, const qinfer_token_info* info);
  bool hand_over(const Piece& piece, const std::string& piece_text);
  napi_value info_object(const Piece& piece) const;
  std::size_t text_begin(std::size_t index) const { return index == 0 ? 0 : pieces_[index - 1].text_end; }

  qinfer_status run(qinfer_error* err) override;
  napi_value result() override;
  void conclude() override;
  /// A reader may leave after the last token was drawn, too.
  bool defers_outcome() const override { return queued_; }
  void stop_waiting() override { room_.notify_all(); }

  std::vector<std::string> stop_;
  std::vector<const char*> stop_texts_;
  std::vector<std::size_t> stop_lengths_;
  qinfer_generate_options options_ = sized<qinfer_generate_options>();
  qinfer_generate_result result_ = sized<qinfer_generate_result>();
  Reference on_piece_;
  bool queued_ = false, with_info_ = false, out_of_memory_ = false;
  std::uint32_t ahead_ = kDefaultAhead;
  std::size_t length_before_ = 0;
  std::shared_ptr<qinfer_reply> reply_;  ///< a copy, for the thread of the generation
  bool reasons_before_ = false;
  Reasoning reasoning_;  ///< at the last piece, when the session had length_told_ tokens
  std::size_t length_told_ = 0;

  // Under mutex_ while the generation runs.
  std::string text_;
  std::vector<Piece> pieces_;
  std::size_t n_taken_ = 0;
  bool wanted_ = false;  ///< the reader waits for on_ready
  std::chrono::steady_clock::time_point woken_at_{};
  bool left_ = false;
  std::size_t n_consumed_ = 0;
  std::condition_variable room_;  ///< the reader has taken pieces, or has left
};

GenerateJob::GenerateJob(const Args& args) : Job(args.env) {
  sessions_ = {object_of<Session>(args.env, args[0])};
  const Options options(args.env, args[1]);
  options.read("maxTokens", options_.max_tokens);
  options.read("ahead", ahead_);
  ahead_ = std::max(ahead_, 1u);
  with_info_ = options.has("topLogprobs");
  options.read("topLogprobs", options_.n_top);
  if (options.has("stop")) read_stop_texts(args, options.get("stop"));
  options_.stop = stop_texts_.data();
  options_.stop_lens = stop_lengths_.data();
  options_.n_stop = static_cast<std::uint32_t>(stop_.size());
  read_reply(args, options);
  options_.cancel = cancel();
  options_.user = this;
  queued_ = !is_false(args.env, args[2]);
  if (!is_nullish(args.env, args[3])) on_piece_ = Reference(args.env, args[3]);
  if (with_info_) {
    options_.on_token_info = [](const qinfer_token_info* info, void* user) {
      return static_cast<GenerateJob*>(user)->add(info->text, info->text_len, info->token, info);
    };
  } else {
    options_.on_token = [](const char* data, std::size_t size, qinfer_token token, void* user) {
      return static_cast<GenerateJob*>(user)->add(data, size, token, nullptr);
    };
  }
}

void GenerateJob::read_stop_texts(const Args& args, napi_value list) {
  std::uint32_t n = 0;
  check(args.env, napi_get_array_length(args.env, list, &n));
  for (std::uint32_t i = 0; i < n; ++i) {
    napi_value value = nullptr;
    check(args.env, napi_get_element(args.env, list, i, &value));
    stop_.push_back(text_of(args.env, value, "a stop text"));
  }
  for (const std::string& text : stop_) {
    stop_texts_.push_back(text.data());
    stop_lengths_.push_back(text.size());
  }
}

void GenerateJob::read_reply(const Args& args, const Options& options) {
  options.read("maxReasoningTokens", options_.max_reasoning_tokens);
  if (!options.has("reply")) return;
  reply_ = object_of<Reply>(args.env, options.get("reply"))->copy(args.env);
  options_.reply = reply_.get();
  reasons_before_ = reasoning_.inside = in_reasoning();
}

bool GenerateJob::in_reasoning() const {
  std::int32_t inside = 0;
  return reply_ != nullptr && qinfer_reply_in_reasoning(reply_.get(), &inside, nullptr) == QINFER_OK && inside != 0;
}

/// After each token, on the thread of the generation.
Reasoning GenerateJob::reasoning_at(std::size_t length) {
  if (reasoning_.inside) reasoning_.n_tokens += static_cast<std::uint32_t>(length - length_told_);
  reasoning_.inside = in_reasoning();
  length_told_ = length;
  return reasoning_;
}

qinfer_status GenerateJob::run(qinfer_error* err) {
  length_told_ = length_before_ = qinfer_session_length(sessions_[0]->handle);
  return qinfer_generate(sessions_[0]->handle, &options_, &result_, err);
}

/// On the thread of the generation, after each token. Nothing may leave it as an exception.
std::int32_t GenerateJob::add(const char* data, std::size_t size, qinfer_token token,
                              const qinfer_token_info* info) try {
  const std::size_t length = qinfer_session_length(sessions_[0]->handle);
  Piece piece = {token, 0, length, reasoning_at(length), 0, {}, {}};
  if (info != nullptr) {
    piece.logprob = info->logprob;
    piece.top_tokens.assign(info->top_tokens, info->top_tokens + info->n_top);
    piece.top_logprobs.assign(info->top_logprobs, info->top_logprobs + info->n_top);
  }
  std::unique_lock<std::mutex> lock(mutex_);
  if (size != 0) text_.append(data, size);
  piece.text_end = text_.size();
  if (!queued_) {
    lock.unlock();
    return !on_piece_ || hand_over(piece, std::string(size == 0 ? "" : data, size)) ? 0 : 1;
  }
  pieces_.push_back(std::move(piece));
  const auto now = std::chrono::steady_clock::now();
  const bool full = pieces_.size() - n_taken_ >= ahead_;
  if (wanted_ && (full || now - woken_at_ >= kWakeInterval)) {
    wanted_ = false;
    woken_at_ = now;
    post(ready_);
  }
  const auto unwanted = [this] { return left_ || ending_ || closing_; };
  room_.wait(lock, [&] { return unwanted() || pieces_.size() - n_taken_ < ahead_; });
  return unwanted() ? 1 : 0;
} catch (const std::bad_alloc&) {
  out_of_memory_ = true;
  return 1;
}

bool GenerateJob::hand_over(const Piece& piece, const std::string& piece_text) {
  return on_js_thread([&] {
    const napi_value info = with_info_ ? info_object(piece) : undefined(env_);
    return !is_false(env_, call_function(env_, undefined(env_), on_piece_.get(),
                                         {number(env_, piece.token), text(env_, piece_text), info}));
  });
}

/// {logprob, top: [{token, logprob}]}
napi_value GenerateJob::info_object(const Piece& piece) const {
  napi_value top = nullptr;
  check(env_, napi_create_array_with_length(env_, piece.top_tokens.size(), &top));
  for (std::size_t i = 0; i < piece.top_tokens.size(); ++i) {
    Record entry(env_);
    entry.set("token", piece.top_tokens[i]).set("logprob", piece.top_logprobs[i]);
    check(env_, napi_set_element(env_, top, static_cast<std::uint32_t>(i), entry.object()));
  }
  return Record(env_).set("logprob", piece.logprob).set("top", top).object();
}

napi_value GenerateJob::take() {
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

void GenerateJob::leave(std::size_t n) {
  const std::lock_guard<std::mutex> lock(mutex_);
  left_ = true;
  n_consumed_ = std::min(n, pieces_.size());
  room_.notify_one();
}

void GenerateJob::conclude() {
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
  qinfer_session* const session = sessions_[0]->handle;
  if (qinfer_session_length(session) <= length) return;
  Failure failure;
  const qinfer_status status = qinfer_session_truncate(session, length, failure.argument());
  if (status != QINFER_OK) set_outcome(status, failure.message(), failure.detail());
}

napi_value GenerateJob::result() {
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

napi_value generate(const Args& args) { return box(args.env, Kind::job, std::make_shared<GenerateJob>(args)); }

std::shared_ptr<GenerateJob> generation_of(const Args& args) {
  auto generation = std::dynamic_pointer_cast<GenerateJob>(object_of<Job>(args.env, args[0]));
  if (generation == nullptr) throw_type_error(args.env, "a call of generate is expected");
  return generation;
}

/// take(job of generate)
napi_value take(const Args& args) { return generation_of(args)->take(); }

/// leave(job of generate, pieces consumed)
napi_value leave(const Args& args) {
  generation_of(args)->leave(size_of(args.env, args[1], "consumed"));
  return nullptr;
}

}  // namespace

void export_generate(napi_env env, napi_value exports) {
  export_all(env, exports, {{"generate", entry<generate>}, {"take", entry<take>}, {"leave", entry<leave>}});
}

}  // namespace qinfer_node
