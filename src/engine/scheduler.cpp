// See scheduler.h.
#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "engine/eval.h"
#include "platform/thread.h"

namespace qinfer::engine {
namespace {

Status cancelled() { return Status::fixed(Code::cancelled, "the request was cancelled: the tokens made so far stay"); }
Status late() {
  return Status::fixed(Code::cancelled, "the request's deadline has passed: the tokens made so far stay");
}
Status in_use() {
  return Status::fixed(Code::state, "the request's session is in use by another call, or by another request");
}

/// Of each group, blocks that are left free for each request that is here (schedule/policy.h), but not more than this
/// part of a small cache. In a simulation with 150 blocks none moved three times as many blocks to files and back, and
/// more than four kept requests waiting.
constexpr std::uint64_t kHeadroom = 4, kHeadroomPart = 32;

/// How long wait() waits where nothing can be done: a thousandth of a second.
constexpr std::uint64_t kStalledWait = 1'000'000;

}  // namespace

Status Scheduler::check(const SchedulerOptions& options) {
  constexpr std::uint32_t kMost = 1u << 20;
  if (options.max_waiting == 0 || options.max_waiting > kMost)
    return error(Code::invalid_argument, "max_waiting is {}, expected 1 to {}", options.max_waiting, kMost);
  if (options.max_running == 0 || options.max_running > kMost)
    return error(Code::invalid_argument, "max_running is {}, expected 1 to {}", options.max_running, kMost);
  return Status();
}

Result<std::unique_ptr<Scheduler>> Scheduler::create(std::shared_ptr<KvCache> cache, SchedulerOptions options) {
  const Model& model = cache->model();
  if (!model.spec().gives_logits())
    return error(Code::unsupported, "the model gives no logits, so there are no tokens to draw");
  if (model.spec().is_stage())
    return error(Code::unsupported, "the model is a stage, whose hidden states come from the stage before it");
  const std::uint32_t capacity = model.scratch_layout().batch_capacity;
  QINFER_TRY(check(options));
  if (options.max_running >= capacity)
    return error(Code::invalid_argument,
                 "max_running is {}, expected less than the {} rows of a batch (max_batch_tokens)", options.max_running,
                 capacity);
  schedule::PolicyOptions policy;
  policy.max_running = options.max_running;
  policy.max_waiting = options.max_waiting;
  policy.step_seconds = static_cast<double>(options.step_ns) * 1e-9;
  policy.most_rows = capacity;
  policy.least_rows = std::min(policy.least_rows, capacity - options.max_running);
  policy.blocks = cache->blueprint().size.bytes;
  policy.overcommit = options.parking.has_value();
  for (const KvLayout& layout : cache->layouts()) policy.headroom_blocks += kHeadroom * layout.block_bytes();
  policy.headroom_blocks = std::min(policy.headroom_blocks, policy.blocks / kHeadroomPart);
  const std::uint64_t bytes = memory_bytes(options.max_running, options.max_waiting, policy.overcommit);
  QINFER_ASSIGN(Charge charge, model.charge(bytes, "a scheduler", [](std::uint64_t) {
    return std::string("fewer max_waiting or max_running take less");
  }));
  std::unique_ptr<Scheduler> scheduler(new Scheduler(std::move(cache), std::move(options), policy));
  scheduler->charge_ = std::move(charge);
  return scheduler;
}

std::uint64_t Scheduler::memory_bytes(std::uint32_t max_running, std::uint32_t max_waiting, bool parks) {
  const std::uint64_t running = max_running, all = running + max_waiting;
  return sizeof(Scheduler) + sizeof(void*) +
         running * (sizeof(Row) + sizeof(std::size_t) + sizeof(schedule::DraftClaim)) +
         2 * all * sizeof(std::shared_ptr<Request>) + (2 * running + all) * sizeof(SchedulerEvent) +
         schedule::Policy::memory_bytes(max_running, max_waiting) + (parks ? Parking::memory_bytes(max_running) : 0);
}

Scheduler::Scheduler(std::shared_ptr<KvCache> cache, SchedulerOptions options, const schedule::PolicyOptions& policy)
    : cache_(std::move(cache)),
      options_(std::move(options)),
      process_(platform::process_id()),
      policy_(policy, costs_) {
  const std::size_t running = options_.max_running, all = running + options_.max_waiting;
  rows_.reserve(running);
  evaluated_.reserve(running);
  claims_.reserve(running);
  requests_.reserve(all);
  over_.reserve(all);
  events_.reserve(2 * running + all);
  if (options_.parking) parking_ = std::make_unique<Parking>(std::move(*options_.parking), options_.max_running);
}

Scheduler::~Scheduler() {
  if (platform::process_id() != process_) return;
  std::vector<std::shared_ptr<Request>> requests;
  {
    const Lock lock(mutex_);
    requests.swap(requests_);
  }
  for (const auto& request : requests) forget_parked(*request);
}

Scheduler::Requests::iterator Scheduler::lower_bound(Requests& requests, std::uint64_t id) {
  return std::lower_bound(requests.begin(), requests.end(), id,
                          [](const auto& request, std::uint64_t wanted) { return request->id() < wanted; });
}

std::shared_ptr<Request>& Scheduler::find(Requests& requests, std::uint64_t id) { return *lower_bound(requests, id); }

std::uint64_t Scheduler::now() const {
  return options_.clock != nullptr ? options_.clock(options_.clock_user) : platform::now_ns();
}

// ---- Requests come

Status Scheduler::submit(const std::shared_ptr<Request>& request) {
  const Generation& generation = request->generation();
  const Session& session = generation.session();
  QINFER_TRY(generation.check());
  if (&session.cache() != cache_.get())
    return error(Code::invalid_argument, "the generation's session belongs to another KV cache than the scheduler");
  if (session.length() == 0) return error(Code::state, "the generation's session has no tokens: append a prompt first");
  schedule::Request wanted;
  wanted.prompt_tokens = static_cast<std::uint32_t>(session.length());
  wanted.all_tokens = std::min<std::uint64_t>(generation.most_tokens(), session.max_tokens());
  wanted.prompt_blocks = room_for(*request, session.length());
  wanted.all_blocks = room_for(*request, generation.most_tokens());
  return enqueue(request, wanted);
}

Status Scheduler::reserve(const std::shared_ptr<Request>& request, std::uint64_t tokens) {
  const Session& session = request->session();
  if (&session.cache() != cache_.get())
    return error(Code::invalid_argument, "the session belongs to another KV cache than the scheduler");
  if (tokens == 0 || tokens > session.max_tokens())
    return error(Code::invalid_argument, "n_tokens is {}, expected 1 to the {} of the session", tokens,
                 session.max_tokens());
  if (session.keys().n_held() != 0)
    return error(Code::state, "the session holds blocks already: reserve room for it before it is evaluated");
  schedule::Request wanted;
  wanted.is_reservation = true;
  wanted.prompt_tokens = static_cast<std::uint32_t>(tokens);
  wanted.all_tokens = tokens;
  wanted.prompt_blocks = wanted.all_blocks = room_for(*request, tokens);
  request->looked_up_ = true;
  return enqueue(request, wanted);
}

Status Scheduler::enqueue(const std::shared_ptr<Request>& request, schedule::Request wanted) {
  {
    const Lock lock(mutex_);
    if (wanted.all_blocks > cache_->blueprint().size.bytes)
      return error_at(Code::kv_full, 0, "the request may need {} bytes of KV blocks, the cache has {}",
                      wanted.all_blocks, cache_->blueprint().size.bytes);
    wanted.id = stats_.submitted + 1;
    wanted.key = request->options_.key;
    wanted.priority = request->options_.priority;
    if (!policy_.submit(wanted))
      return error(Code::no_memory, "{} requests are waiting, as many as the scheduler takes (max_waiting)",
                   policy_.n_waiting());
    request->id_ = wanted.id;
    requests_.push_back(request);
    ++stats_.submitted;
  }
  submissions_.fetch_add(1);
  platform::futex_wake_all(submissions_);
  return Status();
}

bool Scheduler::wait(std::uint64_t ns) {
  const std::uint32_t seen = submissions_.load();
  const auto has_requests = [this] {
    const Lock lock(mutex_);
    return !requests_.empty();
  };
  if (has_requests()) {
    // Nothing can be done until other sessions give blocks back: not to be asked for all the time.
    if (is_stalled_.load()) platform::futex_wait_for(submissions_, seen, std::min(ns, kStalledWait));
    return true;
  }
  platform::futex_wait_for(submissions_, seen, ns);
  return has_requests();
}

// ---- A step

Status Scheduler::step() {
  QINFER_TRY(cache_->model().runtime().check_process());
  if (stepping_.exchange(true)) return Status::fixed(Code::state, "another step of the scheduler has not returned");
  struct Ending {  // also where a message finds no memory
    Scheduler& scheduler;
    ~Ending() {
      scheduler.release_sessions();
      scheduler.stepping_.store(false);
    }
  } const ending{*this};
  std::uint64_t moved_ns = 0;
  QINFER_TRY(plan_step(moved_ns));
  if (rows_.empty()) return Status();
  const std::uint64_t begin = now();
  guess();
  QINFER_TRY(evaluate(begin));
  for (Row& row : rows_) take_in(row);
  finish_step(now() - begin, moved_ns);
  return Status();
}

/// What the step evaluates. `moved_ns`: the time in which blocks were moved before.
Status Scheduler::plan_step(std::uint64_t& moved_ns) {
  const std::uint64_t time = now();
  {
    const Lock lock(mutex_);
    QINFER_TRY(begin_step(time));
    if (!rows_.empty()) return Status();
    is_stalled_.store((parks() || n_paused_ != 0) && mover_ == nullptr);  // unless something is evaluated
  }
  moved_ns = move_blocks();
  const Lock lock(mutex_);
  begin_requests();
  for (const schedule::Share& share : policy_.plan(static_cast<double>(moved_ns) * 1e-9)) add_row(share);
  return Status();
}

/// Ends what is over, and finds rows that need not be evaluated; without any the one that returns next.
Status Scheduler::begin_step(std::uint64_t time) {
  if (n_taken_ < events_.size())
    return error(Code::state, "{} events of the last step were not taken", events_.size() - n_taken_);
  events_.clear();
  n_taken_ = 0;
  end_what_is_over(time);
  note_pauses();
  if (!add_rows_ahead()) choose_who_returns(time);
  return Status();
}

void Scheduler::note_pauses() {
  n_paused_ = 0;
  for (const auto& request : requests_) {
    request->is_paused_ = request->asked_to_pause_.load();
    policy_.pause(request->id_, request->is_paused_);
    n_paused_ += request->is_paused_ || request->is_reservation() ? 1 : 0;
  }
}

/// Those whose next token need not be evaluated.
bool Scheduler::add_rows_ahead() {
  for (const auto& request : requests_)
    if (request->is_ahead_ && request->is_here_ && !request->is_paused_) add_row({request->id_, 0, false});
  return !rows_.empty();
}

void Scheduler::end_what_is_over(std::uint64_t time) {
  for (std::size_t i = 0; i < requests_.size();) {
    Request& request = *requests_[i];
    const std::uint64_t deadline = request.options_.deadline_ns;
    if (request.is_cancelled()) {
      end(request, cancelled());
    } else if (deadline != 0 && time >= deadline) {
      end(request, late());
    } else {
      ++i;
    }
  }
}

void Scheduler::begin_requests() {
  if (policy_.n_waiting() == 0) return;
  look_up_beginnings();
  auto* const requests = &requests_;
  const auto has = [this, requests](std::uint64_t id) { return what_it_has(*requests, *find(*requests, id)); };
  while (policy_.n_waiting() != 0 && policy_.n_running() < options_.max_running) {
    // What has ended in this step holds its blocks until the host knows.
    const std::optional<std::uint64_t> id = policy_.next(has, held_by_others(), over_.empty());
    if (!id) return let_paused_leave();
    Request& request = *find(*requests, *id);
    if (request.is_reservation()) {
      policy_.begin(*id, 0);
      request.running_ = true;
      add_event(Kind::reserved, find(*requests, *id));
      continue;
    }
    const Session& session = request.session();
    // What is all evaluated, with its logits, is as if the last token were to be evaluated.
    policy_.begin(*id, static_cast<std::uint32_t>(std::min(session.evaluated(), session.length() - 1)));
    request.running_ = true;
    if (parks()) policy_.holds(*id, taken_by(request));
    for (const auto& other : requests_)
      if (!other->running_) compare_beginnings(*other, request);
  }
}

void Scheduler::add_row(const schedule::Share& share) {
  rows_.push_back({find(requests_, share.id), share.rows});
  Row& row = rows_.back();
  Request& request = *row.request;
  row.is_prompt = share.is_prompt;
  request.is_ahead_ = false;
  row.in_use = !request.session_in_use_->exchange(true);
  if (!row.in_use) {
    request.status_ = in_use();
    return;
  }
  const Generation& generation = request.generation();
  request.status_ = generation.check();
  const bool draws = !generation.is_at_limit() || generation.n_new() == 0;
  if (request.status_.ok() && draws) generation.session().catch_up();
  row.evaluates = request.status_.ok() && draws && generation.session().pending() != 0;
}

/// Rows for guesses, where no prompt needs the time.
void Scheduler::guess() {
  std::uint64_t context = 0;
  std::uint32_t n = 0;
  claims_.clear();
  for (Row& row : rows_) {
    if (row.is_prompt) return;
    claims_.emplace_back();
    if (!row.evaluates) continue;
    claims_.back() = row.request->generation().guess();
    context += row.request->session().length();
    ++n;
  }
  if (n == 0) return;
  cache_->model().share_drafts(claims_, n, context);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (claims_[i].given == 0) continue;  // nor is a session of another call touched
    rows_[i].n_drafts = claims_[i].given;
    rows_[i].limit += claims_[i].given;
    rows_[i].request->generation().draft(claims_[i].given);
  }
}

/// Those that find no room end or, with parking, wait; the others go on; but first without guesses.
Status Scheduler::evaluate(std::uint64_t time) {
  while (true) {
    evaluated_.clear();
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (rows_[i].evaluates && rows_[i].request->status_.ok()) evaluated_.push_back(i);
    if (evaluated_.empty()) return Status();
    const auto row = [&](std::size_t i) -> const Row& { return rows_[evaluated_[i]]; };
    const auto at = [&](std::size_t i) -> Session& { return row(i).request->session(); };
    const auto is_cancelled = [&](std::size_t i) { return row(i).request->is_cancelled(); };
    const auto limit = [&](std::size_t i) { return row(i).limit; };
    EvalOptions options;
    std::size_t refused = 0;
    options.refused = &refused;
    if (evaluated_.size() == 1) options.cancelled = &row(0).request->asked_to_end_;  // it need not wait for a batch
    Status status = eval(SessionList(evaluated_.size(), at, is_cancelled, limit), options);
    if (status.ok() || status.code() == Code::cancelled) return Status();
    if (drop_guesses()) continue;
    if (status.code() != Code::kv_full) return status;
    Row& row_refused = rows_[evaluated_[refused]];
    if (!relieve(row_refused, time))
      row_refused.request->status_ = no_room(at(refused), refused, std::min(row_refused.limit, at(refused).pending()));
  }
}

/// Of all rows. False: there were none.
bool Scheduler::drop_guesses() {
  bool any = false;
  for (Row& row : rows_) {
    if (row.n_drafts == 0) continue;
    row.request->session().drop_drafts();
    row.limit -= std::exchange(row.n_drafts, 0);
    any = true;
  }
  return any;
}

/// What has come of a row: progress of a prompt, or a token.
void Scheduler::take_in(Row& row) {
  if (row.skipped) return;
  Request& request = *row.request;
  Session& session = request.session();
  bool draws = false;
  if (request.status_.ok() && request.is_cancelled()) request.status_ = cancelled();
  if (request.status_.ok()) {
    draws = !row.evaluates || session.pending() == 0;
    *request.event_ = {};
    if (draws) request.status_ = request.generation().draw(*request.event_);
    request.is_ahead_ = draws && session.to_evaluate() == 0;
  }
  const Lock lock(mutex_);
  if (request.status_.ok()) {
    add_event(draws ? Kind::token : Kind::prompt, row.request);
    if (!draws || request.event_->finish == Finish::none) return;
  }
  end(request, std::move(request.status_));
}

void Scheduler::finish_step(std::uint64_t ns, std::uint64_t moved_ns) {
  const Lock lock(mutex_);
  std::uint32_t n_drafts = 0;
  for (const Row& row : rows_) {
    if (row.skipped) {
      policy_.skipped(row.request->id_);
      continue;
    }
    row.request->short_since_.reset();
    is_stalled_.store(false);
  }
  for (const Row& row : rows_) n_drafts += static_cast<std::uint32_t>(row.n_drafts);
  policy_.stepped(static_cast<double>(ns) * 1e-9, n_drafts);
  for (const Row& row : rows_)
    if (!row.skipped) (row.is_prompt ? stats_.prompt_rows : stats_.decode_rows) += row.limit;
  for (const Row& row : rows_)
    if (!row.request->ended_)
      policy_.evaluated(row.request->id_, static_cast<std::uint32_t>(row.request->session().evaluated()));
  if (parks()) note_holdings();
  if (evaluated_.empty()) return;
  ++stats_.steps;
  stats_.last_step_ns = ns + moved_ns;
}

void Scheduler::release_sessions() {
  for (Row& row : rows_) {
    if (!row.in_use) continue;
    Session& session = row.request->session();
    if (session.to_evaluate() != 0) session.drop_drafts();  // they were not evaluated
    row.request->session_in_use_->store(false);
  }
  rows_.clear();
  for (const auto& request : over_) forget_parked(*request);
  over_.clear();
}

// ---- Requests and events

void Scheduler::end(Request& request, Status status) {
  request.status_ = std::move(status);
  request.ended_ = true;
  policy_.end(request.id_);
  ++stats_.ended;
  const auto at = requests_.begin() + (&find(requests_, request.id_) - requests_.data());
  add_event(Kind::end, *at);
  if (mover_ == *at) mover_.reset();
  over_.push_back(std::move(*at));
  requests_.erase(at);
}

void Scheduler::add_event(Kind kind, const std::shared_ptr<Request>& request) {
  if (request->forgotten_.load()) return;
  events_.push_back({kind, request, 0, 0});
  if (request->is_reservation()) return;
  const Session& session = request->session();
  events_.back().evaluated = static_cast<std::uint32_t>(session.evaluated());
  events_.back().tokens = static_cast<std::uint32_t>(session.length());
}

SchedulerEvent Scheduler::next() {
  while (true) {
    SchedulerEvent event;
    {
      const Lock lock(mutex_);
      if (n_taken_ == events_.size()) return {};
      event = std::move(events_[n_taken_++]);
    }
    if (event.kind == Kind::end) event.request->let_go();
    if (!event.request->forgotten_.load()) return event;
  }
}

SchedulerStats Scheduler::stats() {
  const Lock lock(mutex_);
  SchedulerStats stats = stats_;
  stats.waiting = static_cast<std::uint32_t>(policy_.n_waiting());
  stats.running = static_cast<std::uint32_t>(policy_.n_running());
  stats.promised_bytes = policy_.promised_blocks();
  if (parks()) stats.parked_bytes = parking_->bytes();
  stats.parked = static_cast<std::uint32_t>(policy_.n_running() - policy_.n_here());
  return stats;
}

}  // namespace qinfer::engine
