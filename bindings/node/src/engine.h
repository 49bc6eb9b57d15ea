// An engine: a scheduler, and the thread that steps it. The thread begins with the first request and rests while there
// is none; it ends when the engine is closed or collected, or when its JavaScript environment ends.
//
// Handles of requests, generations and sessions are made and freed on the JavaScript thread alone, because a session
// that is freed releases its hook, which is JavaScript's. The thread of the engine only tells requests of their events.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "handles.h"

namespace qinfer_node {

struct Instance;

class Engine {
 public:
  /// Who is told of a request's events, on the thread of the engine. Nothing may leave these as an exception.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void token(const qinfer_token_info& info) = 0;
    /// What the system refused to all requests: this one ends soon, with this error.
    virtual void fail(qinfer_status status, const std::string& message) = 0;
    /// The last call: the engine uses neither it nor its generation any more. `closed`: because the engine was.
    virtual void ended(qinfer_status status, const std::string& message, bool closed) = 0;
  };

  /// engineCreate(cache, model, {maxRunning, maxWaiting, stepMs, park, parkBytes})
  explicit Engine(const Args& args);
  /// There are no requests, since they keep the engine.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// The listener must live until it was told of the end.
  qinfer_request* submit(napi_env env, qinfer_generation* generation, qinfer_request_options options,
                         Listener& listener);
  /// What was told of an end is done: the program has its session back, and has had its turn to close it.
  void end_taken();
  /// All requests end, and none comes any more; does not wait for that.
  void close();
  void wait_for_end();
  /// The instance is about to go.
  void forget_instance() { instance_ = nullptr; }

  qinfer_scheduler_stats stats(napi_env env);
  std::uint64_t memory_bytes() const { return memory_bytes_; }
  /// Whether a token that ends a generation by a stop text is that text itself, which is a control token.
  bool is_control(qinfer_token token) const;

 private:
  template <class Function>
  void call_open(napi_env env, const Function& function);
  void begin_thread();
  void run();
  bool step(std::string& message, qinfer_status& status);
  void take_events();
  void tell_end(const qinfer_event& event);
  void wait_until_ends_are_taken();
  void end_all(qinfer_status status, const std::string& message, bool closed);

  Instance* instance_;
  const std::shared_ptr<qinfer_model> model_;  ///< null where it was closed before
  std::uint64_t memory_bytes_ = 0;
  std::thread thread_;
  qinfer_scheduler* stepped_ = nullptr;  ///< the scheduler, for the thread of the engine

  std::mutex mutex_;  ///< for all that follows; never held while callbacks may run
  std::condition_variable changed_;
  qinfer_scheduler* scheduler_ = nullptr;  ///< null once the thread of the engine has freed it
  std::map<Listener*, qinfer_request*> requests_;
  std::size_t n_ends_told_ = 0;  ///< and not taken yet
  bool closing_ = false;
};

}  // namespace qinfer_node
