// Scheduler: the generations of many requests as one batch, step by step.
//
// A host that serves several users makes a Generation for each, and submits them. Each step() then evaluates what the
// policy (schedule/policy.h) chooses: a row of every request that decodes, and as many rows of prompts as the step has
// time for. What a step has brought are events, in order: how far a prompt is, a token with its text, and once for each
// request its end. A request's tokens do not depend on the others, nor on how its prompt was cut: evaluation promises
// that.
//
//   submit() [any thread]  ->  waiting  ->  running  ->  ended, with a Status
//   step()                 what is cancelled or late ends; requests begin; rows are evaluated; tokens are drawn
//
// Where sessions may guess tokens ahead (schedule/drafts.h) and no prompt is evaluated, the step has rows for the
// guesses that are worth it. A step draws one token of each request; for those whose guess was right the next step has
// nothing to evaluate, and it draws theirs alone.
//
//   next()                 the events of the step, one after the other; the next step begins when all were taken, so
//                          what events point to need not be kept
//
// What the host evaluates itself, prompts for their log probabilities and embeddings, has blocks promised by reserve():
// a reservation waits its turn as requests do, and has no rows.
//
// It has no thread of its own: the host calls step() and next() on one thread. Blocks of the cache are promised before
// a request begins, in bytes, for its prompt and all tokens that it may add; so the sessions of a scheduler never meet
// a full cache. Other sessions may use it too, those of requests that have ended among them: what they hold now is
// allowed for, and if they take more later the request that finds no room ends, and no other.
//
// Where requests can be parked (parking.h) blocks are promised for the prompt alone. A request that finds none then is
// passed over by the step, and one that the policy chooses leaves for a file, to return when there is room. Where only
// other sessions could make room, it waits for them for a while. Blocks are moved at the beginning of a step, for half
// its time at most. scheduler_parking.cpp has this.
//
// After it was made it allocates nothing, but for the messages of errors and the files of parked requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "engine/generation.h"
#include "engine/parking.h"
#include "schedule/policy.h"

namespace qinfer::engine {

struct SchedulerOptions {
  std::uint32_t max_running = 16, max_waiting = 256;
  std::uint64_t step_ns = 100'000'000;           ///< PolicyOptions::step_seconds
  std::uint64_t (*clock)(void* user) = nullptr;  ///< nanoseconds; null: the monotonic clock's
  void* clock_user = nullptr;
  std::optional<ParkingOptions> parking;
};

struct RequestOptions {
  std::int32_t priority = 0;      ///< higher ones first
  std::uint64_t key = 0;          ///< keys share alike
  std::uint64_t deadline_ns = 0;  ///< of the clock; 0 = none
};

/// A generation that is submitted. What it refers to must live as long as the request.
class Request {
 public:
  /// `session_in_use`: true while a call uses the generation's session. `cancelled`: the flag by which the host cancels
  /// the generation, or null.
  Request(Generation& generation, GenerationEvent& event, std::atomic<bool>& session_in_use,
          const std::atomic<bool>* cancelled, const RequestOptions& options)
      : session_(generation.session()),
        generation_(&generation),
        event_(&event),
        session_in_use_(&session_in_use),
        cancelled_(cancelled),
        options_(options) {}
  /// A reservation: others evaluate the session.
  Request(Session& session, const RequestOptions& options) : session_(session), options_(options) {}
  virtual ~Request() = default;
  /// Its end was told: what it refers to is used no more.
  virtual void let_go() {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  /// It ends with the step that runs, or the next one. From any thread.
  void cancel() { asked_to_end_.store(true); }
  /// Nothing of it is evaluated or drawn from the next step on, until it goes on. From any thread.
  void pause(bool paused) { asked_to_pause_.store(paused); }
  /// It is cancelled, and no events of it follow.
  void forget() {
    forgotten_.store(true);
    cancel();
  }

  bool is_reservation() const { return generation_ == nullptr; }
  /// Of a reservation only what never changes and what any thread may ask for.
  Session& session() const { return session_; }
  /// Not of a reservation, as is event().
  Generation& generation() const { return *generation_; }
  const GenerationEvent& event() const { return *event_; }  ///< of its last token
  /// Why it has ended.
  const Status& status() const { return status_; }
  std::uint64_t id() const { return id_; }

 private:
  friend class Scheduler;
  /// What was seen once stays, though the host may reset its flag.
  bool is_cancelled() {
    if (cancelled_ != nullptr && cancelled_->load()) asked_to_end_.store(true);
    return asked_to_end_.load();
  }

  Session& session_;
  Generation* generation_ = nullptr;
  GenerationEvent* event_ = nullptr;
  std::atomic<bool>* session_in_use_ = nullptr;
  const std::atomic<bool>* cancelled_ = nullptr;
  RequestOptions options_;
  std::atomic<bool> asked_to_end_{false}, asked_to_pause_{false}, forgotten_{false};
  std::uint64_t id_ = 0;
  bool running_ = false, ended_ = false;
  bool is_paused_ = false;         ///< as the policy knows
  bool is_ahead_ = false;          ///< its last token was guessed: nothing need be evaluated for the next one
  bool looked_up_ = false;         ///< resident_ is known
  std::uint32_t resident_ = 0;     ///< tokens of its prompt that are evaluated, be it by other sessions
  std::uint64_t like_ = 0;         ///< the running request whose prompt has more of them, or 0
  std::uint32_t like_tokens_ = 0;  ///< so many
  bool is_here_ = true;            ///< neither parked nor on its way there or back
  std::optional<std::uint64_t> short_since_;  ///< the time since when it finds no blocks, and none will come
  std::optional<std::size_t> slot_;           ///< of Parking, unless it is here
  Status status_;
};

struct SchedulerEvent {
  enum class Kind : std::uint8_t { none, prompt, token, end, reserved };
  Kind kind = Kind::none;
  std::shared_ptr<Request> request;
  std::uint32_t evaluated = 0, tokens = 0;  ///< of the session, after the step; 0 of a reservation
};

struct SchedulerStats {
  std::uint32_t waiting = 0, running = 0;
  std::uint64_t promised_bytes = 0;  ///< of the cache's blocks, to running requests
  std::uint64_t steps = 0, decode_rows = 0, prompt_rows = 0, submitted = 0, ended = 0;
  std::uint64_t last_step_ns = 0;
  std::uint32_t parked = 0;        ///< of running, with those that leave or return
  std::uint64_t parked_bytes = 0;  ///< in their files
  std::uint64_t n_parked = 0;      ///< times that a request was
};

class Scheduler {
 public:
  static Result<std::unique_ptr<Scheduler>> create(std::shared_ptr<KvCache> cache, SchedulerOptions options);
  ~Scheduler();
  /// What is wrong with them, whatever the model.
  static Status check(const SchedulerOptions& options);
  /// All that it takes with its handle, but for messages of errors and files of parked requests.
  static std::uint64_t memory_bytes(std::uint32_t max_running, std::uint32_t max_waiting, bool parks);

  /// QINFER_E_NO_MEMORY where max_waiting are waiting, QINFER_E_KV_FULL for one that the whole cache has no room for.
  Status submit(const std::shared_ptr<Request>& request);
  /// Blocks for so many tokens of a session that the host evaluates, and that has none yet: from Kind::reserved on they
  /// are promised, until the request is cancelled or forgotten. Errors as submit()'s.
  Status reserve(const std::shared_ptr<Request>& request, std::uint64_t tokens);
  /// One step; nothing where there is no request. QINFER_E_STATE with events that were not taken. After an error of the
  /// system (no memory) nothing was evaluated, and it can be called again when its events were taken.
  Status step();
  /// The next event of the last step; Kind::none after the last one.
  SchedulerEvent next();
  /// Waits until there is a request, for so many nanoseconds at most, and returns whether there is.
  bool wait(std::uint64_t ns);
  SchedulerStats stats();
  KvCache& cache() const { return *cache_; }

 private:
  using Kind = SchedulerEvent::Kind;
  using Requests = std::vector<std::shared_ptr<Request>>;
  /// A request in a step.
  struct Row {
    std::shared_ptr<Request> request;
    std::size_t limit = 0;     ///< tokens
    std::size_t n_drafts = 0;  ///< of them
    bool is_prompt = false, evaluates = false;
    bool in_use = false;   ///< its session is this step's
    bool skipped = false;  ///< it has found no blocks, and waits for some
  };

  Scheduler(std::shared_ptr<KvCache> cache, SchedulerOptions options, const schedule::PolicyOptions& policy);
  std::uint64_t now() const;
  /// The first one with this id or a later one; they are in their order.
  static Requests::iterator lower_bound(Requests& requests, std::uint64_t id);
  /// There must be one with this id.
  static std::shared_ptr<Request>& find(Requests& requests, std::uint64_t id);
  Status enqueue(const std::shared_ptr<Request>& request, schedule::Request wanted);
  Status plan_step(std::uint64_t& moved_ns);
  void end_what_is_over(std::uint64_t time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void begin_requests() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status begin_step(std::uint64_t time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void add_row(const schedule::Share& share) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void end(Request& request, Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void add_event(Kind kind, const std::shared_ptr<Request>& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void note_pauses() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool add_rows_ahead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void guess();
  bool drop_guesses();
  Status evaluate(std::uint64_t time);
  void take_in(Row& row);
  void finish_step(std::uint64_t ns, std::uint64_t moved_ns);
  void release_sessions();

  // ---- scheduler_room.cpp ----
  template <typename BlocksOf, typename Chosen>
  std::uint64_t room_of(BlocksOf blocks_of, Chosen chosen) const;
  std::uint64_t room_for(const Request& request, std::uint64_t tokens) const;
  std::uint64_t held_by(const Request& request) const;
  std::uint64_t taken_by(const Request& request) const;
  std::uint64_t needed_by(const Request& request) const;
  std::uint64_t held_by_others() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // ---- scheduler_beginnings.cpp ----
  void look_up_beginnings() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void compare_beginnings(Request& waiting, const Request& running) const;
  schedule::Policy::Has what_it_has(Requests& requests, Request& waiting) const;

  // ---- scheduler_parking.cpp ----
  bool parks() const { return parking_ != nullptr; }
  void choose_who_returns(std::uint64_t time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool make_place(Request& request, std::uint64_t time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::uint64_t move_blocks();
  Result<bool> move_some(Request& request, std::uint64_t until);
  void note_moved(Request& request, Result<bool> moved);
  bool relieve(Row& row, std::uint64_t time);
  void begin_to_leave(std::uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void let_paused_leave() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool is_patient(Request& request, std::uint64_t time);
  void note_holdings() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void forget_parked(Request& request);

  std::shared_ptr<KvCache> cache_;
  Charge charge_;  ///< given back before the cache
  SchedulerOptions options_;
  schedule::LearnedCosts costs_;
  std::atomic<bool> stepping_{false};
  std::vector<Row> rows_;               ///< of the step that runs
  std::vector<std::size_t> evaluated_;  ///< indices of those that are evaluated
  std::vector<schedule::DraftClaim> claims_;
  /// Ended in this step: what they hold may be freed by code of the host, so it is without the lock.
  std::vector<std::shared_ptr<Request>> over_;
  std::atomic<std::uint32_t> submissions_{0};
  std::unique_ptr<Parking> parking_;
  std::shared_ptr<Request> mover_;       ///< the one that leaves or returns
  bool leaves_ = false;                  ///< it leaves
  std::atomic<bool> is_stalled_{false};  ///< the last step did nothing: other sessions have all blocks, or requests are
                                         ///< paused
  const std::int32_t process_;           ///< in a fork()ed child files and lock are the parent's

  Mutex mutex_;
  schedule::Policy policy_ ABSL_GUARDED_BY(mutex_);
  Requests requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<SchedulerEvent> events_ ABSL_GUARDED_BY(mutex_);
  std::size_t n_taken_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t n_paused_ ABSL_GUARDED_BY(mutex_) = 0;  ///< and reservations: they have no rows
  SchedulerStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qinfer::engine
