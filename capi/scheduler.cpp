// A scheduler, and the requests that are submitted to it.
#include <qinfer/qinfer.h>

#include <optional>
#include <utility>

#include "engine/scheduler.h"
#include "files.h"
#include "generation.h"
#include "support.h"

using namespace qinfer;
using capi::guard;

namespace qinfer::capi {

/// Holds its generation, which holds session and reply: the host may free all of them while a step runs.
class HeldRequest final : public engine::Request {
 public:
  HeldRequest(qinfer_generation& generation, const qinfer_request_options& options)
      : engine::Request(*generation.impl, generation.event, generation.session->busy, generation.cancelled,
                        {options.priority, options.key, options.deadline_ns}),
        user(options.user),
        generation_(&generation) {
    ++generation.holders;
  }
  /// A reservation, which holds its session.
  HeldRequest(qinfer_session& session, const qinfer_request_options& options)
      : engine::Request(*session.impl, {options.priority, options.key, options.deadline_ns}),
        user(options.user),
        session_(&session) {
    ++session.holders;
  }
  ~HeldRequest() override { HeldRequest::let_go(); }
  void let_go() override {
    capi::release(std::exchange(generation_, nullptr));
    capi::release(std::exchange(session_, nullptr));
  }
  HeldRequest(const HeldRequest&) = delete;
  HeldRequest& operator=(const HeldRequest&) = delete;

  void* user;
  qinfer_request* handle = nullptr;

 private:
  qinfer_generation* generation_ = nullptr;
  qinfer_session* session_ = nullptr;
};

}  // namespace qinfer::capi

using capi::HeldRequest;

struct qinfer_request {
  std::shared_ptr<HeldRequest> impl;
};

struct qinfer_scheduler {
  std::unique_ptr<engine::Scheduler> impl;
};

namespace {

Status check(const qinfer_scheduler* scheduler) {
  if (scheduler == nullptr) return capi::null_argument("scheduler");
  return scheduler->impl->cache().model().runtime().check_process();
}

Result<std::optional<engine::ParkingOptions>> parking_of(const qinfer_scheduler_options& options) {
  if (options.park_path == nullptr) {
    if (options.park_files == nullptr && options.park_bytes == 0) return std::optional<engine::ParkingOptions>();
    return error(Code::invalid_argument, "park_files or park_bytes is set, and park_path is NULL: none is parked");
  }
  engine::ParkingOptions parking;
  parking.path = options.park_path;
  parking.most_bytes = options.park_bytes;
  QINFER_ASSIGN(parking.files, capi::host_files(options.park_files, capi::FileUse::write));
  return std::optional(std::move(parking));
}

Result<engine::SchedulerOptions> parse(const qinfer_scheduler_options* options) {
  qinfer_scheduler_options o;
  QINFER_TRY(capi::copy_in(options, o, "qinfer_scheduler_options"));
  QINFER_TRY(capi::unknown_flags(o.flags, 0, "qinfer_scheduler_options.flags"));
  engine::SchedulerOptions parsed;
  if (o.max_running != 0) parsed.max_running = o.max_running;
  if (o.max_waiting != 0) parsed.max_waiting = o.max_waiting;
  if (o.step_ns != 0) parsed.step_ns = o.step_ns;
  parsed.clock = o.clock, parsed.clock_user = o.clock_user;
  QINFER_ASSIGN(parsed.parking, parking_of(o));
  return parsed;
}

qinfer_event event_of(const engine::SchedulerEvent& event) {
  using Kind = engine::SchedulerEvent::Kind;
  qinfer_event out = {};
  out.message = "";
  if (event.kind == Kind::none) return out;
  const auto& request = static_cast<const HeldRequest&>(*event.request);
  out.kind = event.kind == Kind::prompt     ? QINFER_EVENT_PROMPT
             : event.kind == Kind::token    ? QINFER_EVENT_TOKEN
             : event.kind == Kind::reserved ? QINFER_EVENT_RESERVED
                                            : QINFER_EVENT_END;
  out.request = request.handle;
  out.user = request.user;
  out.n_evaluated = event.evaluated;
  out.n_tokens = event.tokens;
  if (event.kind == Kind::token) out.token = capi::info_of(request.event());
  if (event.kind == Kind::end) {
    out.status = static_cast<qinfer_status>(request.status().code());
    if (!request.status().message().empty()) out.message = request.status().message().data();  // ends with NUL
  }
  return out;
}

}  // namespace

extern "C" {

qinfer_status qinfer_scheduler_plan(const qinfer_scheduler_options* options, uint64_t* out_bytes, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out_bytes);
    *out_bytes = 0;
    QINFER_ASSIGN(const engine::SchedulerOptions parsed, parse(options));
    QINFER_TRY(engine::Scheduler::check(parsed));
    *out_bytes = engine::Scheduler::memory_bytes(parsed.max_running, parsed.max_waiting, parsed.parking.has_value());
    return Status();
  });
}

qinfer_status qinfer_scheduler_create(qinfer_kv_cache* cache, const qinfer_scheduler_options* options,
                                      qinfer_scheduler** out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    QINFER_REQUIRE(cache);
    QINFER_TRY(cache->impl->model().runtime().check_process());
    QINFER_ASSIGN(engine::SchedulerOptions parsed, parse(options));
    if (parsed.parking && parsed.parking->files == nullptr)  // to be told now
      QINFER_TRY(platform::make_unnamed_file(parsed.parking->path).take_status());
    auto handle = std::make_unique<qinfer_scheduler>();
    QINFER_ASSIGN(handle->impl, engine::Scheduler::create(cache->impl, std::move(parsed)));
    *out = handle.release();
    return Status();
  });
}

qinfer_status qinfer_scheduler_submit(qinfer_scheduler* scheduler, qinfer_generation* generation,
                                      const qinfer_request_options* options, qinfer_request** out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    QINFER_TRY(check(scheduler));
    QINFER_REQUIRE(generation);
    qinfer_request_options o;
    QINFER_TRY(capi::copy_in(options, o, "qinfer_request_options"));
    auto handle = std::make_unique<qinfer_request>();
    {  // not longer: a step may take the session at once
      const capi::Exclusive exclusive(generation->session);
      auto session = capi::usable(generation->session, exclusive);
      if (!session.ok()) return session.take_status();
      handle->impl = std::make_shared<HeldRequest>(*generation, o);
      handle->impl->handle = handle.get();
    }
    QINFER_TRY(scheduler->impl->submit(handle->impl));
    *out = handle.release();
    return Status();
  });
}

qinfer_status qinfer_scheduler_reserve(qinfer_scheduler* scheduler, qinfer_session* session, uint64_t n_tokens,
                                       const qinfer_request_options* options, qinfer_request** out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    QINFER_TRY(check(scheduler));
    QINFER_REQUIRE(session);
    qinfer_request_options o;
    QINFER_TRY(capi::copy_in(options, o, "qinfer_request_options"));
    auto handle = std::make_unique<qinfer_request>();
    const capi::Exclusive exclusive(session);
    auto used = capi::usable(session, exclusive);
    if (!used.ok()) return used.take_status();
    handle->impl = std::make_shared<HeldRequest>(*session, o);
    handle->impl->handle = handle.get();
    QINFER_TRY(scheduler->impl->reserve(handle->impl, n_tokens));
    *out = handle.release();
    return Status();
  });
}

void qinfer_request_cancel(qinfer_request* request) {
  if (request != nullptr) request->impl->cancel();
}

void qinfer_request_pause(qinfer_request* request, int32_t paused) {
  if (request != nullptr) request->impl->pause(paused != 0);
}

void qinfer_request_free(qinfer_request* request) {
  if (request == nullptr) return;
  request->impl->forget();
  delete request;
}

qinfer_status qinfer_scheduler_step(qinfer_scheduler* scheduler, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_TRY(check(scheduler));
    return scheduler->impl->step();
  });
}

qinfer_status qinfer_scheduler_wait(qinfer_scheduler* scheduler, uint64_t timeout_ns, int32_t* out_has_requests,
                                    qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out_has_requests);
    *out_has_requests = 0;
    QINFER_TRY(check(scheduler));
    *out_has_requests = scheduler->impl->wait(timeout_ns) ? 1 : 0;
    return Status();
  });
}

qinfer_status qinfer_scheduler_next(qinfer_scheduler* scheduler, qinfer_event* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    QINFER_TRY(capi::copy_out(qinfer_event{}, out, "qinfer_event"));
    QINFER_TRY(check(scheduler));
    return capi::copy_out(event_of(scheduler->impl->next()), out, "qinfer_event");
  });
}

qinfer_status qinfer_scheduler_get_stats(qinfer_scheduler* scheduler, qinfer_scheduler_stats* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    QINFER_TRY(check(scheduler));
    const engine::SchedulerStats stats = scheduler->impl->stats();
    qinfer_scheduler_stats values = {};
    values.waiting = stats.waiting, values.running = stats.running;
    values.promised_bytes = stats.promised_bytes;
    values.submitted = stats.submitted, values.ended = stats.ended, values.steps = stats.steps;
    values.decode_rows = stats.decode_rows, values.prompt_rows = stats.prompt_rows;
    values.last_step_ns = stats.last_step_ns;
    values.parked = stats.parked, values.parked_bytes = stats.parked_bytes, values.times_parked = stats.n_parked;
    return capi::copy_out(values, out, "qinfer_scheduler_stats");
  });
}

void qinfer_scheduler_free(qinfer_scheduler* scheduler) { delete scheduler; }

}  // extern "C"
