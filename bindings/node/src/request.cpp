// The job of a generation that an engine draws, together with others. It is submitted on the JavaScript thread; the
// thread of the engine puts its pieces into the queue, as fast as they come, since a reader that is slow must not keep
// the others waiting.
#include <atomic>
#include <chrono>

#include "engine.h"
#include "pieces.h"

namespace qinfer_node {
namespace {

constexpr std::uint64_t kNsPerMs = 1'000'000;

class RequestJob final : public PieceJob, private Engine::Listener {
 public:
  /// engineRequest(engine, session, {maxTokens, stop: [texts], topLogprobs, reply, maxReasoningTokens, priority, key,
  /// timeoutMs}, queued)
  explicit RequestJob(const Args& args);
  ~RequestJob() override { free_handles(); }

  void leave(std::size_t n) override;
  void request_cancel() override;

 private:
  void free_handles();
  void start_work() override;
  bool has_more_messages() const override { return true; }
  void handle_turn();
  void finish_work() override { free_handles(); }
  qinfer_status run(qinfer_error*) override { return QINFER_E_STATE; }  // only the engine's thread draws

  void token(const qinfer_token_info& info) override;
  void fail(qinfer_status status, const std::string& message) override;
  void ended(qinfer_status status, const std::string& message, bool closed) override;
  void add(qinfer_token token, const qinfer_token_info& info);
  void add_held_back();

  const std::shared_ptr<Engine> engine_;
  qinfer_request_options request_options_ = sized<qinfer_request_options>();
  std::optional<std::uint32_t> timeout_ms_;
  qinfer_generation* generation_ = nullptr;
  qinfer_request* request_ = nullptr;  ///< for the JavaScript thread only
  Message turn_message_{this, static_cast<void (Job::*)()>(&RequestJob::handle_turn)};
  std::atomic<bool> cancelled_{false};
  qinfer_status failed_ = QINFER_OK;  ///< for the thread of the engine only, as is the next one
  std::string failure_;
};

RequestJob::RequestJob(const Args& args)
    : PieceJob(args.env, args[1], Options(args.env, args[2]), !is_false(args.env, args[3])),
      engine_(object_of<Engine>(args.env, args[0])) {
  const Options options(args.env, args[2]);
  if (options.has("priority"))
    request_options_.priority =
        static_cast<std::int32_t>(integer_of(args.env, options.get("priority"), "priority", INT32_MIN, INT32_MAX));
  options.read("key", request_options_.key);
  if (options.has("timeoutMs")) options.read("timeoutMs", timeout_ms_.emplace());
  if (with_info_) options_.flags = QINFER_GENERATE_LOGPROBS;
}

/// The generation keeps the session of the library, and must go before the Session that its hook refers to.
void RequestJob::free_handles() {
  qinfer_request_free(request_);
  qinfer_generation_free(generation_);
  request_ = nullptr;
  generation_ = nullptr;
}

void RequestJob::start_work() try {
  note_length_before();
  call(env_, [&](qinfer_error* err) { return qinfer_generation_create(session(), &options_, &generation_, err); });
  if (timeout_ms_) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const auto now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    request_options_.deadline_ns = static_cast<std::uint64_t>(now_ns) + *timeout_ms_ * kNsPerMs;
  }
  request_ = engine_->submit(env_, generation_, request_options_, *this);
} catch (...) {
  free_handles();
  throw;
}

void RequestJob::request_cancel() {
  cancelled_.store(true);
  Job::request_cancel();
  qinfer_request_cancel(request_);
}

void RequestJob::leave(std::size_t n) {
  PieceJob::leave(n);
  request_cancel();
}

// ---- On the thread of the engine

void RequestJob::add(qinfer_token token, const qinfer_token_info& info) try {
  Piece piece = piece_of(token, with_info_ ? &info : nullptr);
  const std::lock_guard<std::mutex> lock(mutex_);
  put(piece, info.text, info.text_len);
  if (!wanted_) return;
  wanted_ = false;
  post(ready_);
} catch (const std::bad_alloc&) {
  out_of_memory_ = true;
  Job::request_cancel();
}

/// The pieces are those of qinfer_generate: without log probabilities nothing is told of a token that only ends it.
void RequestJob::token(const qinfer_token_info& info) {
  const bool only_ends = info.finish == QINFER_FINISH_END || info.finish == QINFER_FINISH_LENGTH ||
                         (info.finish == QINFER_FINISH_STOP && engine_->is_control(info.token));
  const qinfer_token token = only_ends && !with_info_ ? -1 : info.token;
  if (token >= 0 || info.text_len != 0) add(token, info);
}

void RequestJob::fail(qinfer_status status, const std::string& message) {
  if (failed_ == QINFER_OK) {
    failed_ = status;
    failure_ = message;
  }
  Job::request_cancel();
}

void RequestJob::add_held_back() {
  qinfer_token_info info = sized<qinfer_token_info>();
  if (qinfer_generation_finish(generation_, &info, nullptr) == QINFER_OK && info.text_len != 0) add(-1, info);
}

void RequestJob::ended(qinfer_status status, const std::string& message, bool closed) {
  if (qinfer_generation_get_result(generation_, &result_, nullptr) != QINFER_OK) result_.finish = 0;
  if (status != QINFER_OK) add_held_back();
  if (failed_ != QINFER_OK && status == QINFER_E_CANCELLED)
    set_outcome(failed_, failure_, 0);
  else if (closed && cancelled_.load())
    set_outcome(QINFER_E_CANCELLED, "the request was cancelled: the tokens made so far stay", 0);
  else if (closed)
    set_outcome(QINFER_E_STATE, "the engine was closed", 0);
  else
    set_outcome(status, message, 0);
  post_done();
  post(turn_message_);
}

/// Between two messages Node runs what waits for the first: the program has been told of the end.
void RequestJob::handle_turn() {
  engine_->end_taken();
  forget();
}

napi_value engine_request(const Args& args) { return box(args.env, Kind::job, std::make_shared<RequestJob>(args)); }

}  // namespace

void export_request(napi_env env, napi_value exports) {
  export_all(env, exports, {{"engineRequest", entry<engine_request>}});
}

}  // namespace qinfer_node
