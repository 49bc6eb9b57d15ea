// See engine.h; and the functions of the addon for engines, but for those of requests.
#include "engine.h"

#include <chrono>
#include <vector>

#include "instance.h"

namespace qinfer_node {
namespace {

constexpr const char* kClosed = "the engine was closed";

/// Requests are there, or will be soon: not how long the thread rests.
constexpr std::uint64_t kWaitNs = 100'000'000;
/// How long the JavaScript thread may be busy with other things before the next step does not wait for it.
constexpr std::chrono::seconds kTurn(1);
constexpr double kNsPerMs = 1e6;

/// The object of a handle, also where that is closed.
std::shared_ptr<qinfer_model> model_if_open(const Args& args) {
  return std::static_pointer_cast<qinfer_model>(box_of(args.env, args[1], Kind::model).object);
}

}  // namespace

Engine::Engine(const Args& args) : instance_(&instance_of(args.env)), model_(model_if_open(args)) {
  const auto cache = object_of<qinfer_kv_cache>(args.env, args[0]);
  const Options given(args.env, args[2]);
  qinfer_scheduler_options options = sized<qinfer_scheduler_options>();
  given.read("maxRunning", options.max_running);
  given.read("maxWaiting", options.max_waiting);
  given.read("parkBytes", options.park_bytes);
  if (given.has("stepMs"))
    options.step_ns = static_cast<std::uint64_t>(number_of(args.env, given.get("stepMs"), "stepMs") * kNsPerMs);
  const std::optional<std::string> park = given.c_text("park");
  if (park) options.park_path = park->c_str();
  call(args.env, [&](qinfer_error* err) { return qinfer_scheduler_plan(&options, &memory_bytes_, err); });
  call(args.env, [&](qinfer_error* err) { return qinfer_scheduler_create(cache.get(), &options, &scheduler_, err); });
  stepped_ = scheduler_;
  instance_->engines.insert(this);
}

Engine::~Engine() {
  close();
  wait_for_end();
  if (instance_ != nullptr) instance_->engines.erase(this);
  qinfer_scheduler_free(scheduler_);
}

/// Calls function(err) under mutex_, and throws after that, for then code of the program may run. QINFER_E_STATE if it
/// is closed.
template <class Function>
void Engine::call_open(napi_env env, const Function& function) {
  Failure failure;
  qinfer_status status = QINFER_OK;
  bool open = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    open = !closing_;
    if (open) status = function(failure.argument());
  }
  if (!open) throw_error(env, QINFER_E_STATE, kClosed, 0);
  if (status != QINFER_OK) throw_error(env, status, failure.message(), failure.detail());
}

void Engine::begin_thread() {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

qinfer_request* Engine::submit(napi_env env, qinfer_generation* generation, qinfer_request_options options,
                               Listener& listener) {
  options.user = &listener;
  qinfer_request* request = nullptr;
  call_open(env, [&](qinfer_error* err) {
    // Until the listener is in the list the thread does not look for events, of which the first may come at once.
    begin_thread();
    const auto at = requests_.emplace(&listener, nullptr).first;
    const qinfer_status status = qinfer_scheduler_submit(scheduler_, generation, &options, &at->second, err);
    request = at->second;
    if (status != QINFER_OK) requests_.erase(at);
    return status;
  });
  changed_.notify_one();
  return request;
}

void Engine::close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closing_ = true;
  for (const auto& [listener, request] : requests_) qinfer_request_cancel(request);  // shortens the step that runs
  changed_.notify_one();
}

void Engine::end_taken() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--n_ends_told_ == 0) changed_.notify_one();
}

void Engine::wait_for_end() {
  if (thread_.joinable()) thread_.join();
}

qinfer_scheduler_stats Engine::stats(napi_env env) {
  qinfer_scheduler_stats stats = sized<qinfer_scheduler_stats>();
  call_open(env, [&](qinfer_error* err) { return qinfer_scheduler_get_stats(scheduler_, &stats, err); });
  return stats;
}

bool Engine::is_control(qinfer_token token) const {
  return model_ != nullptr && (qinfer_token_flags(model_.get(), token) & QINFER_TOKEN_CONTROL) != 0;
}

// ---- On the thread of the engine

void Engine::run() {
  for (bool failed = false;;) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return closing_ || !requests_.empty(); });
      if (closing_) break;
    }
    std::string message;
    qinfer_status status = QINFER_OK;
    if (step(message, status)) {
      failed = false;
    } else if (failed) {  // though all requests are cancelled
      end_all(status, message, false);
      return;
    } else {
      failed = true;
      std::vector<Listener*> listeners;  // only this thread ends them
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const auto& [listener, request] : requests_) listeners.push_back(listener);
      }
      for (Listener* listener : listeners) listener->fail(status, message);
    }
    take_events();
    wait_until_ends_are_taken();
  }
  end_all(QINFER_E_STATE, kClosed, true);
}

/// False: nothing was evaluated, for want of memory or of what else the system gives.
bool Engine::step(std::string& message, qinfer_status& status) {
  Failure failure;
  std::int32_t has_requests = 0;
  status = qinfer_scheduler_wait(stepped_, kWaitNs, &has_requests, failure.argument());
  if (status == QINFER_OK) status = qinfer_scheduler_step(stepped_, failure.argument());
  if (status != QINFER_OK) message = failure.message();
  return status == QINFER_OK;
}

void Engine::take_events() {
  qinfer_event event = sized<qinfer_event>();
  while (qinfer_scheduler_next(stepped_, &event, nullptr) == QINFER_OK && event.kind != QINFER_EVENT_NONE) {
    if (event.kind == QINFER_EVENT_TOKEN) static_cast<Listener*>(event.user)->token(event.token);
    if (event.kind == QINFER_EVENT_END) tell_end(event);
  }
}

void Engine::tell_end(const qinfer_event& event) {
  Listener* const listener = static_cast<Listener*>(event.user);
  bool closed = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    requests_.erase(listener);
    ++n_ends_told_;
    closed = closing_ && event.status == QINFER_E_CANCELLED;
  }
  listener->ended(event.status, event.message == nullptr ? "" : event.message, closed);
}

/// The session of a request that has ended keeps its blocks until the program closes it, and a step at once may find
/// none for others, whose end that would be.
void Engine::wait_until_ends_are_taken() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (requests_.empty()) return;
  changed_.wait_for(lock, kTurn, [this] { return closing_ || n_ends_told_ == 0; });
}

/// No step follows. Without the scheduler nothing but the listeners uses their generations.
void Engine::end_all(qinfer_status status, const std::string& message, bool closed) {
  std::map<Listener*, qinfer_request*> requests;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    requests.swap(requests_);
    n_ends_told_ += requests.size();
    qinfer_scheduler_free(scheduler_);
    scheduler_ = nullptr;
  }
  for (const auto& [listener, request] : requests) listener->ended(status, message, closed);
}

namespace {

napi_value engine_create(const Args& args) { return box(args.env, Kind::engine, std::make_shared<Engine>(args)); }

napi_value engine_stats(const Args& args) {
  const auto engine = object_of<Engine>(args.env, args[0]);
  const qinfer_scheduler_stats stats = engine->stats(args.env);
  return Record(args.env)
      .set("waiting", stats.waiting)
      .set("running", stats.running)
      .set("parked", stats.parked)
      .set("promisedBytes", stats.promised_bytes)
      .set("submitted", stats.submitted)
      .set("ended", stats.ended)
      .set("steps", stats.steps)
      .set("decodeRows", stats.decode_rows)
      .set("promptRows", stats.prompt_rows)
      .set("lastStepNs", stats.last_step_ns)
      .set("parkedBytes", stats.parked_bytes)
      .set("timesParked", stats.times_parked)
      .set("memoryBytes", engine->memory_bytes())
      .object();
}

}  // namespace

void export_engine(napi_env env, napi_value exports) {
  export_all(env, exports, {{"engineCreate", entry<engine_create>}, {"engineStats", entry<engine_stats>}});
}

}  // namespace qinfer_node
