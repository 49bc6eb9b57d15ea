// The job that generates alone, at once or on a separate thread. There it is ahead of its reader, as far as the options
// allow.
#include <algorithm>
#include <chrono>

#include "pieces.h"

namespace qinfer_node {
namespace {

constexpr std::uint32_t kDefaultAhead = 64;
/// Waking the reader takes about as long as a small model needs for a token, so those that come faster than this are
/// delivered together, with the next one.
constexpr std::chrono::milliseconds kWakeInterval(2);

class GenerateJob final : public PieceJob {
 public:
  /// generate(session, {maxTokens, stop: [texts], topLogprobs, ahead, reply, maxReasoningTokens}, queued,
  /// onPiece(token, text, info) or undefined)
  explicit GenerateJob(const Args& args);

 private:
  std::int32_t add(const char* data, std::size_t size, qinfer_token token, const qinfer_token_info* info);
  bool hand_over(const Piece& piece, const std::string& piece_text);
  qinfer_status run(qinfer_error* err) override;

  Reference on_piece_;
  std::uint32_t ahead_ = kDefaultAhead;
  std::chrono::steady_clock::time_point woken_at_{};  ///< under mutex_
};

GenerateJob::GenerateJob(const Args& args)
    : PieceJob(args.env, args[0], Options(args.env, args[1]), !is_false(args.env, args[2])) {
  Options(args.env, args[1]).read("ahead", ahead_);
  ahead_ = std::max(ahead_, 1u);
  options_.user = this;
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

qinfer_status GenerateJob::run(qinfer_error* err) {
  note_length_before();
  return qinfer_generate(session(), &options_, &result_, err);
}

/// On the thread of the generation, after each token. Nothing may leave it as an exception.
std::int32_t GenerateJob::add(const char* data, std::size_t size, qinfer_token token,
                              const qinfer_token_info* info) try {
  Piece piece = piece_of(token, info);
  std::unique_lock<std::mutex> lock(mutex_);
  put(piece, data, size);
  if (!queued_) {
    lock.unlock();
    return !on_piece_ || hand_over(piece, std::string(size == 0 ? "" : data, size)) ? 0 : 1;
  }
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

napi_value generate(const Args& args) { return box(args.env, Kind::job, std::make_shared<GenerateJob>(args)); }

}  // namespace

void export_generate(napi_env env, napi_value exports) { export_all(env, exports, {{"generate", entry<generate>}}); }

}  // namespace qinfer_node
