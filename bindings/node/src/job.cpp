// See job.h; and the functions that run, hold and cancel jobs.
#include "job.h"

#include "grammar.h"
#include "hook.h"

namespace qinfer_node {

Job::Job(napi_env env) : env_(env), instance_(&instance_of(env)) {
  qinfer_cancel* cancel = nullptr;
  call(env, [&](qinfer_error* err) { return qinfer_cancel_create(&cancel, err); });
  cancel_.reset(cancel, qinfer_cancel_free);
}

void Job::begin() {
  for (const auto& session : sessions_) {
    if ((session->job != nullptr && session->job != this) || session->in_callback != 0) {
      end();
      throw_busy(env_);
    }
    if (session->job == nullptr && session->hook != nullptr) session->hook->hold(true);
    session->job = this;
  }
}

void Job::end() {
  for (const auto& session : sessions_) {
    if (session->job != this) continue;
    session->job = nullptr;
    if (session->hook != nullptr) session->hook->hold(false);
  }
}

void Job::set_outcome(qinfer_status status, const std::string& message, std::int64_t detail) {
  status_ = status;
  message_ = message;
  detail_ = detail;
}

void Job::execute() {
  Failure failure;
  const qinfer_status status = run(failure.argument());
  if (status == QINFER_OK)
    set_outcome(status, "", 0);
  else
    set_outcome(status, failure.message(), failure.detail());
}

napi_value Job::outcome() {
  settled_ = true;
  conclude();
  GrammarFailure of_grammar;
  if (status_ == QINFER_E_CANCELLED && sessions_.size() == 1) of_grammar = grammar_failure(*sessions_[0]);
  let_go();
  if (raised_) {
    const napi_value raised = raised_.get();
    raised_.reset();
    check(env_, napi_throw(env_, raised));
    throw Thrown();
  }
  if (of_grammar.status != QINFER_OK) {
    const napi_value cause = error_object(env_, of_grammar.status, of_grammar.message, 0);
    throw_error(env_, status_, message_ + ": " + of_grammar.message, detail_, cause);
  }
  if (status_ != QINFER_OK) throw_error(env_, status_, message_, detail_);
  return result();
}

napi_value Job::run_here() {
  begin();
  execute();
  return outcome();
}

napi_value Job::settle() {
  if (settled_ || !over_) throw_error(env_, QINFER_E_STATE, "the call is not over, or was settled before", 0);
  return outcome();
}

void Job::start(napi_value on_done, napi_value on_ready) {
  on_done_ = Reference(env_, on_done);
  on_ready_ = Reference(env_, on_ready);
  begin();
  try {
    instance_->running.insert(shared_from_this());
    hold(true);
    start_work();
  } catch (...) {  // no thread could be made, for example
    hold(false);
    instance_->running.erase(shared_from_this());
    end();
    throw;
  }
}

void Job::start_work() {
  thread_ = std::thread([this] {
    execute();
    post_done();
  });
}

void Job::finish_work() {
  if (thread_.joinable()) thread_.join();
}

void Job::hold(bool held) {
  if (held == held_) return;
  held_ = held;
  instance_->held += held ? 1 : -1;
  if (held && instance_->held == 1) check(env_, napi_ref_threadsafe_function(env_, instance_->wake));
  if (!held && instance_->held == 0) check(env_, napi_unref_threadsafe_function(env_, instance_->wake));
}

void Job::post(Message& message) {
  // The environment waits for this thread before it takes the queue down, so that the call cannot fail.
  napi_call_threadsafe_function(instance_->wake, &message, napi_tsfn_nonblocking);
}

bool Job::on_js_thread(const std::function<bool()>& work, bool always) {
  if (std::this_thread::get_id() == js_thread_) return guarded(work, always);
  std::unique_lock<std::mutex> lock(mutex_);
  if (ending_) return false;
  request_ = &work;
  request_always_ = always;
  has_answer_ = false;
  post(request_message_);
  answered_.wait(lock, [this] { return has_answer_ || ending_; });
  request_ = nullptr;
  return has_answer_ && answer_;
}

void Job::handle_request() {
  const std::function<bool()>* work = nullptr;
  bool always = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    work = request_;
    always = request_always_;
  }
  const bool answer = guarded(*work, always);
  const std::lock_guard<std::mutex> lock(mutex_);
  answer_ = answer;
  has_answer_ = true;
  answered_.notify_one();
}

bool Job::guarded(const std::function<bool()>& work, bool always) {
  if (raised_ && !always) return false;
  napi_handle_scope scope = nullptr;
  if (napi_open_handle_scope(env_, &scope) != napi_ok) return false;
  for (const auto& session : sessions_) ++session->in_callback;
  bool going = false;
  try {
    going = work();
  } catch (const Thrown&) {
    keep_exception(env_, raised_);
  } catch (const std::exception& exception) {
    napi_throw_error(env_, nullptr, exception.what());
    keep_exception(env_, raised_);
  }
  for (const auto& session : sessions_) --session->in_callback;
  napi_close_handle_scope(env_, scope);
  return going;
}

void Job::handle_ready() {
  if (on_ready_) call_function(env_, undefined(env_), on_ready_.get(), {});
}

void Job::handle_done() {
  finish_work();
  const std::shared_ptr<Job> self = shared_from_this();
  napi_value value = nullptr, failed = nullptr;
  bool has_failed = false;
  try {
    value = defers_outcome() ? undefined(env_) : outcome();
  } catch (const Thrown&) {
    has_failed = true;
    check(env_, napi_get_and_clear_last_exception(env_, &value));
  }
  hold(false);
  if (!has_more_messages()) forget();
  over_ = true;
  if (closing_) let_go();
  check(env_, napi_get_boolean(env_, has_failed, &failed));
  const napi_value on_done = on_done_.get();
  // The functions refer to what awaits the job, which refers to the job: this ends the circle.
  on_done_.reset();
  on_ready_.reset();
  call_function(env_, undefined(env_), on_done, {failed, value});
}

void Job::request_close() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  request_cancel();
  stop_waiting();
  if (over_ && !settled_) let_go();  // while it is settled, callbacks may run in a call with the session
}

void Job::let_go() {
  end();
  sessions_.clear();
}

void Job::request_end() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  request_cancel();
  answered_.notify_all();
  stop_waiting();
}

void Job::wait_for_end() {
  finish_work();
  end();
}

void deliver_message(napi_env env, napi_value, void*, void* data) {
  if (env == nullptr || instance_of(env).ending) return;
  const Job::Message* message = static_cast<Job::Message*>(data);
  const std::shared_ptr<Job> job = message->job->shared_from_this();
  try {
    (job.get()->*message->handle)();
  } catch (const Thrown&) {
    // What our own JavaScript throws is left pending, and becomes an uncaught exception.
  }
}

namespace {

/// runSync(job): the result, or throws.
napi_value run_sync(const Args& args) { return object_of<Job>(args.env, args[0])->run_here(); }

/// runAsync(job, onDone(failed, value), onReady())
napi_value run_async(const Args& args) {
  object_of<Job>(args.env, args[0])->start(args[1], args[2]);
  return nullptr;
}

/// hold(job, held): whether the process stays alive for it.
napi_value hold_job(const Args& args) {
  object_of<Job>(args.env, args[0])->hold(!is_false(args.env, args[1]));
  return nullptr;
}

/// settle(job): the result of a job that defers its outcome, or throws.
napi_value settle_job(const Args& args) { return object_of<Job>(args.env, args[0])->settle(); }

napi_value cancel_job(const Args& args) {
  object_of<Job>(args.env, args[0])->request_cancel();
  return nullptr;
}

}  // namespace

void export_job_control(napi_env env, napi_value exports) {
  export_all(env, exports,
             {{"runSync", entry<run_sync>},
              {"runAsync", entry<run_async>},
              {"hold", entry<hold_job>},
              {"settle", entry<settle_job>},
              {"cancel", entry<cancel_job>}});
}

}  // namespace qinfer_node
