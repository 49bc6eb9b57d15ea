// job.h: one request of OpenAI's interface with all of its choices. It is prepared on any thread, and drawn on the
// engine's own. What it has is given to its owner as bytes, by calls from the engine's thread.
#pragma once

#include <qinfer/qinfer.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "grammars.h"
#include "mutex.h"
#include "record.h"
#include "refusal.h"
#include "room.h"

namespace server {

Refusal refusal_of(const qi::Error& error);

class Engine;

/// Whose a request is.
struct Tenant {
  std::string name;                ///< of kept conversations
  std::uint32_t prefix_space = 0;  ///< of beginnings in the cache: only requests of the same one find them
};

/// One request. Handles are freed on the engine's thread, or with the job where it was never submitted.
class Job : public std::enable_shared_from_this<Job> {
 public:
  /// `bytes`: of the answer; `is_last`: nothing follows.
  using OnBytes = std::function<void(std::string bytes, bool is_last)>;

  /// Throws Refusal.
  Job(Engine& engine, std::int32_t kind, const std::string& body, Tenant tenant);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  bool is_stream() const { return is_stream_; }
  std::uint32_t prompt_tokens() const { return info_.longest_prompt; }
  /// Whether the last step ended the answer with a stop text. On the engine's thread.
  bool is_stopped() const { return is_stopped_; }
  /// What was drawn so far. On the engine's thread.
  const Usage& usage() const { return usage_; }
  /// The status of HTTP that an answer which has failed would have had; 0: it has not. On the engine's thread.
  int failure() const { return failure_; }
  /// Makes a grammar of the schema, if there is one, before submit(). Throws Refusal.
  void compile();
  /// Whether that takes long: seconds for the largest schemas.
  bool compiles_long() const { return info_.schema_len > kLongSchema; }
  /// Whether submit() evaluates, and waits for room to: on a thread that may take long.
  bool evaluates() const {
    return info_.kind == QINFER_OPENAI_EMBEDDINGS || (info_.flags & QINFER_OPENAI_PROMPT_LOGPROBS) != 0;
  }
  /// Draws all choices. Throws Refusal; then nothing is given. Where it was cancelled nothing happens.
  void submit(OnBytes on_bytes);
  /// From any thread: nothing more is drawn, until it goes on.
  void pause(bool paused);
  /// From any thread: it ends soon, and gives nothing more.
  void cancel();

 private:
  static constexpr std::size_t kLongSchema = 8 << 10;
  friend class Engine;
  struct Choice;
  void add(Choice& choice, const qinfer_event& event);
  void fail(qinfer_status status, const char* message);
  void give();
  void note_use(const qinfer_event& event);
  void note_end(Choice& choice, const qinfer_event& event);
  void check_context(std::uint32_t context) const;
  void check_choices() const;
  void count_prompts();
  void embed();
  void fetch() noexcept;
  bool begin(Choice& choice);
  std::shared_ptr<Room> wait_for_room(qi::Session& session);
  void submit_all(const std::vector<Choice*>& ready);

  Engine& engine_;
  const Tenant tenant_;
  bool is_stream_ = false, is_stopped_ = false;
  qinfer_openai_request* request_ = nullptr;
  qinfer_openai_answer* answer_ = nullptr;
  qinfer_openai_info info_ = {};
  Grammars::Compiled grammar_;  ///< of the content; null = none
  std::vector<std::unique_ptr<Choice>> choices_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Room> room_ ABSL_GUARDED_BY(mutex_);  ///< that submit() waits for, or is in
  OnBytes on_bytes_;
  int failure_ = 0;
  Usage usage_;
  bool is_complete_ = false;  ///< all bytes are given
  const std::chrono::steady_clock::time_point arrived_ = std::chrono::steady_clock::now();
  std::atomic<bool> is_cancelled_{false}, is_paused_{false};
  qi::Cancel cancel_;  ///< the same, for what evaluates a prompt
  Mutex mutex_;        ///< of the choices' requests too
};

/// One text of an answer. Its handles are freed on the engine's thread.
struct Job::Choice : Told {
  Choice(Job& owner, std::size_t i) : job(owner), index(i) {}
  ~Choice() override;
  Choice(const Choice&) = delete;
  Choice& operator=(const Choice&) = delete;
  void take(const qinfer_event& event) override;

  Job& job;
  std::size_t index;
  std::unique_ptr<qi::Session> session;
  qinfer_generation* generation = nullptr;
  qinfer_request* request = nullptr;
  std::atomic<bool> has_begun{false};
  bool is_answered = false;    ///< nothing more is added to the answer
  std::shared_ptr<Job> keeps;  ///< the job, until this choice has ended
  std::optional<std::chrono::steady_clock::time_point> last_token;
};

}  // namespace server
