// engine.cpp: see engine.h.
#include "engine.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace server {
namespace {

/// Of the model, that the cache holds where the command line does not say how many bytes it has.
constexpr std::uint64_t kWholeContexts = 4;
constexpr std::uint64_t kWait = 100'000'000;

qi::Runtime runtime_of(const EngineOptions& options) {
  auto runtime = qi::options<qinfer_runtime_options>();
  runtime.n_threads = options.threads;
  return qi::Runtime(runtime);
}

/// An encoder takes a text at once, so it has room for the longest one, within reason.
qi::Model load(qi::Runtime& runtime, const EngineOptions& options) {
  constexpr std::uint32_t kUsual = 512, kMost = 8192;
  auto load = qi::options<qinfer_load_options>();
  load.max_batch_tokens = options.max_batch_tokens;
  load.max_context = options.context;
  if (load.max_batch_tokens == 0) {
    const qi::ModelDetails details = qi::inspect(options.model_path);
    if ((details.flags & QINFER_MODEL_ENCODER) != 0)
      load.max_batch_tokens = std::clamp(details.context_tokens, kUsual, kMost);
  }
  return qi::Model::load(runtime, options.model_path, load);
}

std::uint32_t context_of(const qi::Model& model, const EngineOptions& options) {
  const std::uint32_t most = model.info().context_tokens;
  return options.context == 0 ? most : std::min(most, options.context);
}

qi::KvCache cache_of(const qi::Model& model, const EngineOptions& options) {
  auto cache = qi::options<qinfer_kv_cache_options>();
  cache.flags = QINFER_CACHE_PREFIX;
  auto load = qi::options<qinfer_load_options>();
  load.max_context = options.context;
  auto session = qi::options<qinfer_session_options>();
  session.max_tokens = context_of(model, options);
  const qinfer_memory memory = qi::plan(options.model_path, nullptr, &load, &cache, &session);
  const std::uint64_t whole = memory.kv_per_session;
  cache.budget_bytes = options.cache_bytes != 0 ? options.cache_bytes : kWholeContexts * whole;
  if (options.cache_bytes == 0 && memory.system_available != 0)
    cache.budget_bytes = std::max(whole, std::min(cache.budget_bytes, memory.system_available / 2));
  return qi::KvCache(model, cache);
}

qi::Scheduler scheduler_of(qi::KvCache& cache, const EngineOptions& options) {
  auto scheduler = qi::options<qinfer_scheduler_options>();
  scheduler.max_running = options.max_running;
  scheduler.max_waiting = options.max_waiting;
  scheduler.step_ns = std::uint64_t{options.step_ms} * 1'000'000;
  scheduler.park_path = options.park_path.empty() ? nullptr : options.park_path.c_str();
  return qi::Scheduler(cache, scheduler);
}

}  // namespace

Engine::Engine(const EngineOptions& options)
    : runtime_(runtime_of(options)),
      model_(load(runtime_, options)),
      cache_(cache_of(model_, options)),
      scheduler_(scheduler_of(cache_, options)),
      grammars_(model_),
      keeper_(options.keep_path.empty() ? nullptr : std::make_unique<Keeper>(cache_, options)),
      context_tokens_(context_of(model_, options)),
      most_choices_(options.max_running + options.max_waiting),
      name_(std::filesystem::path(options.model_path).lexically_normal().filename().string()) {
  for (const std::string& path : {options.model_path, options.park_path, options.keep_path}) folders_.add(path);
  if (name_.empty()) name_ = "model";
  using Json = nlohmann::json;  // whose texts are UTF-8
  name_ = Json::parse(Json(name_).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() { end(); }

void Engine::end() {
  ends_ = true;
  if (thread_.joinable()) thread_.join();  // which gives the keeper its last sessions
}

void Engine::run() {
  while (!ends_)
    if (scheduler_.wait(kWait)) step();
  // What is drawn now is kept as far as it is, and its jobs let go.
  const auto n_drawn = [this] {
    const Lock lock(mutex_);
    for (const Job::Choice* choice : drawn_) qinfer_request_cancel(choice->request);
    for (const Room* room : rooms_) qinfer_request_cancel(room->request_);
    return drawn_.size() + rooms_.size();
  };
  while (n_drawn() != 0) step();
}

void Engine::step() {
  try {
    scheduler_.step();
  } catch (const qi::Error&) {  // no memory: nothing was evaluated, and the next step tries again
  }
  for (qinfer_event event = scheduler_.next(); event.kind != QINFER_EVENT_NONE; event = scheduler_.next())
    static_cast<Told*>(event.user)->take(event);
}

void Engine::count_times(Job::Choice& choice, const qinfer_event& event) {
  const auto now = std::chrono::steady_clock::now();
  const auto since = [&](std::chrono::steady_clock::time_point then) {
    return std::chrono::duration<double>(now - then).count();
  };
  if (event.kind == QINFER_EVENT_END) return times_.whole.count(since(choice.job.arrived_));
  if (choice.last_token) {
    times_.between.count(since(*choice.last_token));
  } else {
    times_.first_token.count(since(choice.job.arrived_));
  }
  choice.last_token = now;
}

void Engine::take(Job::Choice& choice, const qinfer_event& event) {
  Job& job = choice.job;
  choice.has_begun = true;
  job.note_use(event);
  if (event.kind == QINFER_EVENT_PROMPT) return;
  count_times(choice, event);
  job.add(choice, event);
  if (event.kind != QINFER_EVENT_END) return;
  if (event.status == QINFER_OK) note_end();
  const std::shared_ptr<Job> keeps = std::move(choice.keeps);
  {
    const Lock lock(mutex_);
    drawn_.erase(&choice);
  }
  const Lock lock(job.mutex_);
  qinfer_request_free(std::exchange(choice.request, nullptr));
  qinfer_generation_free(std::exchange(choice.generation, nullptr));
  const bool is_whole = event.status == QINFER_OK || event.status == QINFER_E_CANCELLED;
  if (keeper_ != nullptr && is_whole && (job.info_.flags & QINFER_OPENAI_PROMPT_LOGPROBS) == 0)
    keeper_->keep(std::move(choice.session), job.tenant_.name);
  choice.session.reset();
}

/// How long the next one of those that wait has to wait for an end, by the last ten or so.
void Engine::note_end() {
  constexpr double kNew = 0.1;
  const auto now = std::chrono::steady_clock::now();
  if (last_end_) {
    const double seconds = std::chrono::duration<double>(now - *last_end_).count();
    seconds_per_request_ = (1 - kNew) * seconds_per_request_ + kNew * seconds;
  }
  last_end_ = scheduler_.stats().waiting != 0 ? std::optional(now) : std::nullopt;
}

bool Engine::has_waiting() {
  const Lock lock(mutex_);
  return std::any_of(drawn_.begin(), drawn_.end(),
                     [](const Job::Choice* choice) { return !choice->has_begun && !choice->job.is_paused_; }) ||
         std::any_of(rooms_.begin(), rooms_.end(), [](const Room* room) { return room->waits(); });
}

std::uint32_t Engine::retry_after_s() {
  const qinfer_scheduler_stats stats = scheduler_.stats();
  const double seconds = seconds_per_request_ * (stats.waiting + 1);
  return static_cast<std::uint32_t>(std::clamp(std::ceil(seconds), 1.0, 3600.0));
}

}  // namespace server
