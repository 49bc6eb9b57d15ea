// A generation as a job: its options, and what comes of each token, which is a piece. On the JavaScript thread a piece
// is handed to a function at once; of a generation that runs elsewhere pieces are put into a queue. A reader that
// leaves says how many pieces it has consumed: what was drawn beyond them is taken back, so that the session is as if
// the generation had stopped there.
#pragma once

#include <condition_variable>

#include "job.h"
#include "reply.h"

namespace qinfer_node {

/// Where a reply is.
struct Reasoning {
  std::uint32_t n_tokens = 0;  ///< of it so far
  bool inside = false;
};

struct Piece {
  qinfer_token token;        ///< -1: text that was held back until the end
  std::size_t text_end;      ///< in PieceJob::text_; it begins where the piece before it ends
  std::size_t length_after;  ///< tokens of the session
  Reasoning reasoning_after;
  double logprob = 0;
  std::vector<qinfer_token> top_tokens;
  std::vector<double> top_logprobs;
};

class PieceJob : public Job {
 public:
  /// The pieces since the last time, as {texts, tokens, infos}, or undefined if there are none; then on_ready is called
  /// when there is one.
  napi_value take();
  /// The reader has consumed n pieces and wants no more.
  virtual void leave(std::size_t n);

 protected:
  /// options: {maxTokens, stop: [texts], topLogprobs, reply, maxReasoningTokens}
  PieceJob(napi_env env, napi_value session, const Options& options, bool queued);

  qinfer_session* session() const { return sessions_[0]->handle; }
  /// Before the first token.
  void note_length_before();
  /// Of a token that was drawn just now, on the thread of the generation. info may be null.
  Piece piece_of(qinfer_token token, const qinfer_token_info* info);
  /// Adds the text and, where there is a queue, the piece. Under mutex_.
  void put(Piece& piece, const char* data, std::size_t size);
  napi_value info_object(const Piece& piece) const;

  napi_value result() override;
  void conclude() override;
  /// A reader may leave after the last token was drawn, too.
  bool defers_outcome() const override { return queued_; }
  void stop_waiting() override { room_.notify_all(); }

  qinfer_generate_options options_ = sized<qinfer_generate_options>();  ///< without callbacks
  qinfer_generate_result result_ = sized<qinfer_generate_result>();
  const bool queued_;
  bool with_info_ = false, out_of_memory_ = false;

  // Under mutex_ while the generation runs.
  std::vector<Piece> pieces_;
  std::size_t n_taken_ = 0;
  bool wanted_ = false;  ///< the reader waits for on_ready
  bool left_ = false;
  std::condition_variable room_;  ///< the reader has taken pieces, or has left

 private:
  void read_stop_texts(napi_value list);
  void read_reply(const Options& options);
  bool in_reasoning() const;
  Reasoning reasoning_at(std::size_t length);
  std::size_t text_begin(std::size_t index) const { return index == 0 ? 0 : pieces_[index - 1].text_end; }

  std::vector<std::string> stop_;
  std::vector<const char*> stop_texts_;
  std::vector<std::size_t> stop_lengths_;
  std::size_t length_before_ = 0;
  std::shared_ptr<qinfer_reply> reply_;  ///< a copy, for the thread of the generation
  bool reasons_before_ = false;
  Reasoning reasoning_;  ///< at the last piece, when the session had length_told_ tokens
  std::size_t length_told_ = 0;
  std::string text_;  ///< under mutex_, as is the next one
  std::size_t n_consumed_ = 0;
};

}  // namespace qinfer_node
