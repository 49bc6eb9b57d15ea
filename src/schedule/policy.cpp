// See policy.h.
#include "schedule/policy.h"

#include <algorithm>
#include <tuple>

namespace qinfer::schedule {
namespace {

/// How many times longer a step may take while nothing decodes: no token is late then, but a request that arrives
/// during the step waits for its end.
constexpr double kAlone = 4;

}  // namespace

Policy::Policy(const PolicyOptions& options, StepCosts& costs) : options_(options), costs_(costs) {
  waiting_.reserve(options.max_waiting);
  running_.reserve(options.max_running);
  keys_.reserve(options.max_running);
  plan_.reserve(options.max_running);
  claims_.reserve(options.max_running);
  saved_.reserve(std::size_t{2} * options.max_running);
}

bool Policy::submit(const Request& request) {
  if (waiting_.size() == options_.max_waiting || request.all_blocks > options_.blocks) return false;
  waiting_.push_back({request, 0, {}, false});
  return true;
}

void Policy::end(std::uint64_t id) {
  std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.request.id == id; });
  const auto at = std::find_if(running_.begin(), running_.end(), [&](const Running& r) { return r.request.id == id; });
  if (at == running_.end()) return;
  const std::uint64_t key = at->request.key;
  running_.erase(at);
  if (running_of(key) == 0) std::erase_if(keys_, [&](const Key& k) { return k.key == key; });
}

Policy::Running* Policy::find(std::uint64_t id) {
  const auto at = std::find_if(running_.begin(), running_.end(), [&](const Running& r) { return r.request.id == id; });
  return at == running_.end() ? nullptr : &*at;
}

std::size_t Policy::n_at(Place place) const {
  return static_cast<std::size_t>(
      std::count_if(running_.begin(), running_.end(), [&](const Running& r) { return r.place == place; }));
}

// ---- Blocks

std::uint64_t Policy::to_begin(const Request& request) const {
  return options_.overcommit ? request.prompt_blocks : request.all_blocks;
}

std::uint64_t Policy::promised_to(const Running& running) const {
  if (running.place == Place::parked) return 0;
  return std::max(to_begin(running.request), running.held);
}

std::uint64_t Policy::promised_blocks() const {
  std::uint64_t sum = 0;
  for (const Running& running : running_) sum += promised_to(running);
  return sum;
}

/// What a request may soon need beyond the blocks that it has.
std::uint64_t Policy::headroom_of(const Request& request, std::uint64_t has) const {
  if (!options_.overcommit) return 0;
  return std::min(options_.headroom_blocks, request.all_blocks - std::min(request.all_blocks, has));
}

/// The same of all that are here.
std::uint64_t Policy::headroom() const {
  std::uint64_t sum = 0;
  for (const Running& running : running_)
    if (running.is_here()) sum += headroom_of(running.request, promised_to(running));
  return sum;
}

std::size_t Policy::running_of(std::uint64_t key) const {
  return static_cast<std::size_t>(
      std::count_if(running_.begin(), running_.end(), [&](const Running& r) { return r.request.key == key; }));
}

/// Of two that may begin. Equal ones keep their order, which is that of arrival.
bool Policy::comes_before(const Waiting& a, const Waiting& b) const {
  const auto rank = [&](const Waiting& w) {
    return std::tuple(-static_cast<std::int64_t>(w.request.priority), running_of(w.request.key),
                      -static_cast<std::int64_t>(w.has.resident));
  };
  return rank(a) < rank(b);
}

/// What it holds itself is in what it needs.
bool Policy::fits(const Waiting& waiting) const {
  const std::uint64_t taken = promised_blocks(), left = options_.blocks - std::min(options_.blocks, taken);
  const std::uint64_t others = others_ - std::min(waiting.has.held, others_), needs = to_begin(waiting.request);
  const std::uint64_t soon = running_.empty() ? 0 : headroom() + headroom_of(waiting.request, needs);
  return needs + soon <= left - std::min(others, left);
}

std::optional<std::uint64_t> Policy::choose() const {
  if (std::any_of(running_.begin(), running_.end(), [](const Running& r) { return r.is_awaited(); }))
    return std::nullopt;
  const Waiting* best = nullptr;
  for (const Waiting& waiting : waiting_) {
    if (waiting.paused) continue;
    const bool is_next = waiting.passed >= options_.most_passed;
    const bool may_begin = fits(waiting) && (is_next || !waiting.has.waits);
    if (is_next)  // the oldest of these
      return may_begin ? std::optional(waiting.request.id) : std::nullopt;
    if (may_begin && (best == nullptr || comes_before(waiting, *best))) best = &waiting;
  }
  return best != nullptr ? std::optional(best->request.id) : std::nullopt;
}

void Policy::begin(std::uint64_t id, std::uint32_t evaluated) {
  const auto at = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& w) { return w.request.id == id; });
  if (at == waiting_.end()) return;
  for (auto older = waiting_.begin(); older != at; ++older) ++older->passed;
  running_.push_back({at->request, evaluated, {.served_at = ++turn_}});
  key_of(at->request.key);
  waiting_.erase(at);
}

Policy::Key& Policy::key_of(std::uint64_t key) {
  for (Key& known : keys_)
    if (known.key == key) return known;
  return keys_.emplace_back(Key{key, {.served_at = ++turn_}});
}

/// Deficit round robin over the claims, of which each has its whole part before the next has any.
void Policy::share(std::vector<Claim*>& claims, std::uint32_t rows) {
  std::sort(claims.begin(), claims.end(), [](const Claim* a, const Claim* b) { return a->served_at < b->served_at; });
  for (Claim* claim : claims) claim->given = 0;
  for (bool any = true; rows > 0 && any;) {
    const auto active = static_cast<std::uint32_t>(
        std::count_if(claims.begin(), claims.end(), [](const Claim* c) { return c->given < c->wanted; }));
    any = active > 0;
    if (!any) break;
    const std::uint32_t part = std::max((rows + active - 1) / active, options_.least_rows);
    for (Claim* claim : claims) {
      if (claim->given == claim->wanted) continue;
      if (rows == 0) break;
      if (claim->deficit == 0) claim->deficit = part;  // what it has left over comes first
      const std::uint32_t give = std::min({claim->deficit, claim->wanted - claim->given, rows});
      claim->given += give;
      claim->deficit -= give;
      rows -= give;
      if (claim->given == claim->wanted) claim->deficit = 0;
      if (claim->deficit == 0) claim->served_at = ++turn_;
    }
  }
}

void Policy::share_among_keys(std::uint32_t rows) {
  claims_.clear();
  for (Key& key : keys_) {
    key.claim.wanted = 0;
    for (const Running& running : running_)
      if (running.request.key == key.key && running.is_planned() && !running.decodes())
        key.claim.wanted += running.request.prompt_tokens - running.evaluated;
    if (key.claim.wanted > 0) claims_.push_back(&key.claim);
  }
  share(claims_, rows);
  for (const Key& key : keys_) {
    claims_.clear();
    for (Running& running : running_) {
      if (running.request.key != key.key || !running.is_planned() || running.decodes()) continue;
      running.claim.wanted = running.request.prompt_tokens - running.evaluated;
      running.claim.given = 0;
      claims_.push_back(&running.claim);
    }
    if (key.claim.wanted > 0) share(claims_, key.claim.given);
  }
}

std::span<const Share> Policy::plan(double spent) {
  plan_.clear();
  shape_ = {};
  spent_ = spent;
  bool prompts = false;
  for (const Running& running : running_) {
    if (!running.is_planned()) continue;
    if (!running.decodes()) {
      prompts = true;
      continue;
    }
    ++shape_.decode_rows;
    shape_.context += running.evaluated;
    plan_.push_back({running.request.id, 1, false});
  }
  if (prompts) share_rows();
  return plan_;
}

/// Adds to the plan as many rows of prompts as the step has time for. What a row costs depends on whose it is, so rows
/// are shared out first and their time looked at then: by halves, the most that fit.
void Policy::share_rows() {
  const std::uint32_t most = options_.most_rows - shape_.decode_rows;
  std::uint32_t fits = std::min(options_.least_rows, most), too_many = most + 1;
  save_claims();
  const double seconds = options_.step_seconds * (shape_.decode_rows == 0 ? kAlone : 1) - spent_;
  while (too_many - fits > 1) {
    const std::uint32_t rows = fits + (too_many - fits) / 2;
    share_among_keys(rows);
    (costs_.predict(planned_shape()) <= seconds ? fits : too_many) = rows;
    restore_claims();
  }
  share_among_keys(fits);
  for (const Running& running : running_)
    if (running.is_planned() && !running.decodes() && running.claim.given > 0)
      plan_.push_back({running.request.id, running.claim.given, true});
  shape_ = planned_shape();
}

/// The decoding rows and what has been shared out.
StepShape Policy::planned_shape() const {
  StepShape shape = shape_;
  for (const Running& running : running_) {
    const std::uint32_t given = !running.is_planned() || running.decodes() ? 0 : running.claim.given;
    shape.prefill_rows += given;
    shape.context += std::uint64_t{given} * (running.evaluated + given / 2);
  }
  return shape;
}

void Policy::save_claims() {
  saved_.clear();
  for (const Key& key : keys_) saved_.push_back(key.claim);
  for (const Running& running : running_) saved_.push_back(running.claim);
}

void Policy::restore_claims() {
  auto at = saved_.begin();
  for (Key& key : keys_) key.claim = *at++;
  for (Running& running : running_) running.claim = *at++;
}

void Policy::stepped(double seconds, std::uint32_t more_rows) {
  if (plan_.empty()) return;
  shape_.decode_rows += more_rows;
  costs_.learn(shape_, seconds);
  for (const Share& share : plan_)
    if (Running* running = find(share.id)) running->evaluated += share.rows;
  plan_.clear();
}

void Policy::skipped(std::uint64_t id) {
  const auto at = std::find_if(plan_.begin(), plan_.end(), [&](const Share& share) { return share.id == id; });
  if (at == plan_.end()) return;
  (at->is_prompt ? shape_.prefill_rows : shape_.decode_rows) -= at->rows;
  if (const Running* running = find(id))
    shape_.context -= std::uint64_t{at->rows} * (running->evaluated + at->rows / 2);
  plan_.erase(at);
}

void Policy::pause(std::uint64_t id, bool paused) {
  if (Running* running = find(id)) running->paused = paused;
  for (Waiting& waiting : waiting_)
    if (waiting.request.id == id) waiting.paused = paused;
}

void Policy::evaluated(std::uint64_t id, std::uint32_t tokens) {
  if (Running* running = find(id)) running->evaluated = tokens;
}

// ---- Parking

void Policy::holds(std::uint64_t id, std::uint64_t blocks) {
  if (Running* running = find(id)) running->held = blocks;
}

Policy::Relief Policy::relieve(std::uint64_t id) {
  if (n_at(Place::leaving) + n_at(Place::returning) != 0) return {};
  const Running* refused = find(id);
  if (refused == nullptr) return {};
  Running* leaves = nullptr;
  std::size_t n_holders = 0;
  const auto rank = [](const Running& r) {
    return std::tuple(r.paused, -std::int64_t{r.request.priority}, r.tokens_left(), r.request.id);
  };
  for (Running& running : running_) {
    if (!running.is_here() || running.held == 0) continue;
    ++n_holders;
    if (running.request.priority > refused->request.priority && !running.paused) continue;
    if (leaves == nullptr || rank(running) > rank(*leaves)) leaves = &running;
  }
  const bool is_holder = refused->held != 0;
  const bool is_last = n_holders < 2 && leaves != nullptr && !leaves->paused;
  if (is_last || leaves == nullptr) return {0, n_holders > (is_holder ? 1u : 0u)};
  leaves->place = Place::leaving;
  return {leaves->request.id, true};
}

std::optional<std::uint64_t> Policy::make_room() {
  if (!options_.overcommit || n_at(Place::leaving) + n_at(Place::returning) != 0) return std::nullopt;
  const bool returns = std::any_of(running_.begin(), running_.end(), [](const Running& r) { return r.is_awaited(); });
  const bool begins = running_.size() < options_.max_running &&
                      std::any_of(waiting_.begin(), waiting_.end(),
                                  [&](const Waiting& waiting) { return !waiting.paused && !fits(waiting); });
  if (!returns && !begins) return std::nullopt;
  for (Running& running : running_) {
    if (!running.paused || !running.is_here() || running.held == 0) continue;
    running.place = Place::leaving;
    return running.request.id;
  }
  return std::nullopt;
}

void Policy::parked(std::uint64_t id) {
  if (Running* running = find(id)) running->place = Place::parked;
}

std::optional<std::uint64_t> Policy::next_to_return(std::uint64_t others) {
  if (n_at(Place::leaving) + n_at(Place::returning) != 0) return std::nullopt;
  Running* next = nullptr;
  const auto rank = [](const Running& r) { return std::tuple(-std::int64_t{r.request.priority}, r.request.id); };
  for (Running& running : running_)
    if (running.place == Place::parked && !running.paused && (next == nullptr || rank(running) < rank(*next)))
      next = &running;
  if (next == nullptr) return std::nullopt;
  const std::uint64_t taken = promised_blocks() + others + headroom() + headroom_of(next->request, next->held);
  if (n_at(Place::here) != 0 && next->held + taken > options_.blocks) return std::nullopt;
  next->place = Place::returning;
  return next->request.id;
}

void Policy::returned(std::uint64_t id) {
  if (Running* running = find(id)) running->place = Place::here;
}

}  // namespace qinfer::schedule
