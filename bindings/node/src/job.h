// Calls that take long. A Job holds the arguments of one call and everything that the call uses; it runs either at once
// on the JavaScript thread or on a separate thread, and callbacks of JavaScript run on the JavaScript thread both
// ways.
//
// A thread of our own, and not one of libuv's pool: a stream may wait for its reader, and four of them would keep every
// file operation of the process from running.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "handles.h"
#include "instance.h"

namespace qinfer_node {

class Job : public std::enable_shared_from_this<Job> {
 public:
  explicit Job(napi_env env);
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Runs on this thread and returns the result, or throws.
  napi_value run_here();
  /// Runs apart from this thread. on_done(failed, value) is called when it is over, with the result or what is thrown;
  /// on_ready() when pieces can be taken (GenerateJob).
  void start(napi_value on_done, napi_value on_ready);
  /// The outcome of a job that was started and defers it: the result, or throws. Only after on_done, and once.
  napi_value settle();
  /// Whether the process stays alive for this job; from its start on it does.
  void hold(bool held);
  virtual void request_cancel() { qinfer_cancel_request(cancel_.get()); }
  /// The session that the call uses is closed: it ends, and is freed without waiting for settle().
  void request_close();

  /// Runs `work` on the JavaScript thread and waits for it; from any thread. False if it returned false or threw (what
  /// it threw comes out of the call), if an earlier one threw (unless `always`), or if the environment ends.
  bool on_js_thread(const std::function<bool()>& work, bool always = false);

  /// The JavaScript environment ends: cancels the call and waits for its thread.
  void request_end();
  void wait_for_end();

  struct Message {
    Job* job;
    void (Job::*handle)();
  };

 protected:
  /// The call, on the thread that it runs on.
  virtual qinfer_status run(qinfer_error* err) = 0;
  /// Whether the outcome waits for settle(); until then the sessions stay in use.
  virtual bool defers_outcome() const { return false; }
  /// What it gives, after it succeeded.
  virtual napi_value result() = 0;
  /// After the call, on the JavaScript thread: may change the outcome, while the sessions are still its own.
  virtual void conclude() {}
  /// Begins the call apart from the JavaScript thread, on a separate thread unless overridden. It ends with
  /// post_done().
  virtual void start_work();
  /// Apart from the JavaScript thread nothing uses the call any more.
  virtual void finish_work();
  /// Whether messages follow the one of post_done(); the last one calls forget().
  virtual bool has_more_messages() const { return false; }
  void forget() { instance_->running.erase(shared_from_this()); }
  /// The environment ends, or the session is closed: what the call waits for will not come.
  virtual void stop_waiting() {}

  void post(Message& message);
  void post_done() { post(done_message_); }
  const qinfer_cancel* cancel() const { return cancel_.get(); }
  void set_outcome(qinfer_status status, const std::string& message, std::int64_t detail);
  /// What a callback threw does not count.
  void forget_raised() { raised_.reset(); }

  const napi_env env_;
  Instance* const instance_;
  std::vector<std::shared_ptr<Session>> sessions_;  ///< that the call needs for itself
  qinfer_status status_ = QINFER_OK;
  std::mutex mutex_;     ///< for what threads share: the members that say so, here and in GenerateJob
  bool ending_ = false;  ///< under mutex_, as is the next one
  bool closing_ = false;
  Message ready_{this, &Job::handle_ready};

 private:
  void begin();
  void end();
  void let_go();
  void execute();
  napi_value outcome();
  bool guarded(const std::function<bool()>& work, bool always);
  void handle_request();
  void handle_ready();
  void handle_done();

  std::shared_ptr<qinfer_cancel> cancel_;
  std::string message_;
  std::int64_t detail_ = 0;
  Reference raised_;  ///< what a callback threw
  Reference on_done_, on_ready_;
  bool held_ = false, over_ = false, settled_ = false;
  std::thread thread_;
  std::thread::id js_thread_ = std::this_thread::get_id();
  std::condition_variable answered_;
  const std::function<bool()>* request_ = nullptr;  ///< under mutex_, with the next three
  bool request_always_ = false, has_answer_ = false, answer_ = false;
  Message request_message_{this, &Job::handle_request}, done_message_{this, &Job::handle_done};
};

/// Delivers a Job::Message on the JavaScript thread.
void deliver_message(napi_env env, napi_value, void* context, void* data);

}  // namespace qinfer_node
