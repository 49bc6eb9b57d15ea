// The scheduler's policy over simulated arrivals: no model, and time that is computed. A machine's true costs are a
// function that the policy must learn; requests of several kinds come from many keys, one of which floods.
// `qinfer_tests_schedule "[schedule-table]"` prints how long they wait.
#include "schedule/policy.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "support/catch.h"

using namespace qinfer;
using namespace qinfer::schedule;

namespace {

/// Weights are read once a step, and rows are computed meanwhile: 40 ms, or 2 ms a row where that is more; attention 1
/// us for each position that a row sees.
double true_seconds(const StepShape& step) {
  const double rows = step.decode_rows + step.prefill_rows;
  return std::max(0.040, 0.002 * rows) + 1e-6 * static_cast<double>(step.context);
}

struct Kind {
  const char* name;
  std::uint32_t least_prompt, most_prompt, least_new, most_new;
  double share;
};
constexpr Kind kKinds[] = {
    {"chat", 40, 400, 50, 200, 0.6}, {"short", 8, 40, 4, 16, 0.3}, {"document", 1500, 4096, 30, 80, 0.1}};
/// Some add far more tokens than their prompts have.
constexpr Kind kLongKinds[] = {
    {"chat", 40, 400, 50, 200, 0.6}, {"short", 8, 40, 4, 16, 0.2}, {"reasoning", 100, 500, 100, 3500, 0.2}};
/// What the machine computes when it is full, with steps of a tenth of a second and this mix.
constexpr double kRowsPerSecond = 330;
/// To write a block or to read it.
constexpr double kSecondsPerBlock = 0.004;
constexpr std::uint64_t kFlood = 0;  ///< the key that sends half of everything

struct Job {
  Request request;
  std::size_t kind = 0;
  std::uint32_t left = 0;  ///< tokens to be drawn
  std::uint32_t evaluated = 0, passed = 0;
  std::uint64_t held = 0;   ///< blocks; those that it had where it is parked
  std::uint64_t moved = 0;  ///< of them, to where it leaves for or back
  double arrived = 0, began = -1, first = -1, last = -1;
};

double at_quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())))];
}

struct Outcome {
  std::map<std::string, std::vector<double>> waits,
      firsts;                ///< seconds until a request began, and its first token came
  std::vector<double> gaps;  ///< between two tokens of a request
  std::vector<double>
      over;  ///< gaps by what they may be: the step's time, or that of the decoding rows and the least of prompts
  std::uint32_t finished = 0, refused = 0, cancelled = 0, parked = 0;
  std::uint64_t moved_blocks = 0;
  double seconds = 0;
  std::uint64_t rows = 0;
};

class Simulation {
 public:
  Simulation(const PolicyOptions& options, std::span<const Kind, 3> kinds, std::uint32_t n, double load, unsigned seed)
      : options_(options), kinds_(kinds), policy_(options, costs_), random_(seed), left_(n) {
    double rows = 0;
    for (const Kind& kind : kinds)
      rows += kind.share * (kind.least_prompt + kind.most_prompt + kind.least_new + kind.most_new) / 2.0;
    apart_ = rows / (load * kRowsPerSecond);
    next_arrival_ = 0;
  }

  Outcome run() {
    while (left_ > 0 || !jobs_.empty()) {
      arrive();
      cancel();
      const double spent = move();
      begin();
      step(spent);
    }
    out_.seconds = now_;
    CHECK(policy_.n_waiting() == 0);
    CHECK(policy_.n_running() == 0);
    CHECK(policy_.promised_blocks() == 0);
    return std::move(out_);
  }

 private:
  std::uint32_t between(std::uint32_t low, std::uint32_t high) {
    return std::uniform_int_distribution<std::uint32_t>(low, high)(random_);
  }

  void arrive() {
    while (left_ > 0 && next_arrival_ <= now_) {
      --left_;
      Job job;
      const double drawn = std::uniform_real_distribution<>()(random_);
      job.kind = drawn < kinds_[0].share ? 0 : drawn < kinds_[0].share + kinds_[1].share ? 1 : 2;
      const Kind& kind = kinds_[job.kind];
      job.request.id = ++last_id_;
      job.request.key = between(0, 1) == 0 ? kFlood : between(1, 30);
      job.request.priority = between(0, 9) == 0 ? 1 : 0;
      job.request.prompt_tokens = between(kind.least_prompt, kind.most_prompt);
      job.left = between(kind.least_new, kind.most_new);
      job.request.prompt_blocks = job.request.prompt_tokens / 32 + 1;
      job.request.all_tokens = job.request.prompt_tokens + job.left;
      job.request.all_blocks = job.request.all_tokens / 32 + 1;
      job.arrived = next_arrival_;
      next_arrival_ += std::exponential_distribution<>(1 / apart_)(random_);
      if (policy_.submit(job.request)) {
        jobs_[job.request.id] = job;
      } else {
        ++out_.refused;
      }
    }
    if (jobs_.empty()) now_ = std::max(now_, next_arrival_);
  }

  /// Now and then a client goes away.
  void cancel() {
    if (jobs_.empty() || between(0, 499) != 0) return;
    const auto gone = std::next(jobs_.begin(), between(0, static_cast<std::uint32_t>(jobs_.size()) - 1));
    finish(gone->first);
    ++out_.cancelled;
  }

  void finish(std::uint64_t id) {
    policy_.end(id);
    used_ -= id == parked_id(id) ? 0 : jobs_[id].held;
    parked_.erase(id);
    if (moving_ == id) moving_ = 0, leaves_ = false;
    jobs_.erase(id);
  }
  std::uint64_t parked_id(std::uint64_t id) const { return parked_.count(id) != 0 ? id : 0; }

  /// A slice of what moves between the cache and elsewhere; returns its seconds.
  double move() {
    if (moving_ == 0) {
      if (const auto id = policy_.next_to_return(0)) {
        moving_ = *id;
        Job& job = jobs_[*id];
        job.moved = 0;
        used_ += job.held;
        parked_.erase(*id);
        REQUIRE(used_ <= options_.blocks);
      }
    }
    if (moving_ == 0) return 0;
    Job& job = jobs_[moving_];
    double seconds = 0;
    for (; job.moved < job.held && seconds < options_.step_seconds / 2; ++job.moved, ++out_.moved_blocks)
      seconds += kSecondsPerBlock;
    if (job.moved == job.held) {
      const std::uint64_t id = std::exchange(moving_, 0);
      if (std::exchange(leaves_, false)) {
        used_ -= job.held;
        parked_.insert(id);
        policy_.parked(id);
      } else {
        policy_.returned(id);
      }
    }
    now_ += seconds;
    return seconds;
  }

  /// Whether a request has the blocks for so many tokens; otherwise one may have to leave.
  bool has_room(Job& job, std::uint64_t tokens) {
    if (!options_.overcommit) return true;
    const std::uint64_t needed = tokens / 32 + 1, more = needed - std::min(needed, job.held);
    if (used_ + more > options_.blocks) {
      const Policy::Relief relief = policy_.relieve(job.request.id);
      REQUIRE((relief.is_coming || relief.leaves != 0));
      if (relief.leaves == 0) return false;
      moving_ = relief.leaves;
      leaves_ = true;
      jobs_[moving_].moved = 0;
      ++out_.parked;
      return false;
    }
    used_ += more;
    job.held += more;
    policy_.holds(job.request.id, job.held);
    return true;
  }

  void begin() {
    const auto resident = [&](std::uint64_t id) { return id % 3 == 0 ? jobs_[id].request.prompt_tokens / 2 : 0; };
    while (const auto id = policy_.next(resident)) {
      Job& job = jobs_[*id];
      for (auto& [other, waiting] : jobs_)  // by id, which is the order of arrival
        if (other < *id && waiting.began < 0) REQUIRE(++waiting.passed <= options_.most_passed);
      job.evaluated = resident(*id);
      policy_.begin(*id, job.evaluated);
      job.began = now_;
      out_.waits[label(job)].push_back(now_ - job.arrived);
      if (!options_.overcommit) REQUIRE(policy_.promised_blocks() <= options_.blocks);
      REQUIRE(policy_.n_running() <= options_.max_running);
    }
  }

  std::string label(const Job& job) const {
    return std::string(kinds_[job.kind].name) + (job.request.key == kFlood ? ", flood" : "");
  }

  void step(double spent) {
    const auto planned = policy_.plan(spent);
    if (planned.empty()) {
      REQUIRE((jobs_.empty() || moving_ != 0 || spent > 0));  // otherwise it would stand still
      return;
    }
    std::vector<Share> plan(planned.begin(), planned.end());
    std::erase_if(plan, [&](const Share& share) {
      Job& job = jobs_[share.id];
      const bool skipped = moving_ == share.id || !has_room(job, job.evaluated + share.rows);
      return skipped || moving_ == share.id;
    });
    StepShape shape;
    std::uint32_t total = 0;
    for (const Share& share : plan) {
      const Job& job = jobs_[share.id];
      REQUIRE(share.rows > 0);
      REQUIRE(share.is_prompt == (job.evaluated < job.request.prompt_tokens));
      if (share.is_prompt) REQUIRE(share.rows <= job.request.prompt_tokens - job.evaluated);
      (share.is_prompt ? shape.prefill_rows : shape.decode_rows) += share.rows;
      shape.context += std::uint64_t{share.rows} * (job.evaluated + share.rows / 2);
      total += share.rows;
    }
    REQUIRE(total <= options_.most_rows);
    StepShape least = shape;
    least.prefill_rows = std::min(shape.prefill_rows, options_.least_rows);
    const double seconds = true_seconds(shape), bound = std::max(options_.step_seconds, true_seconds(least));
    now_ += seconds;
    out_.rows += total;
    policy_.stepped(seconds);
    for (const auto& [id, job] : jobs_) policy_.evaluated(id, job.evaluated);  // some were skipped
    for (const Share& share : plan) policy_.evaluated(share.id, jobs_[share.id].evaluated + share.rows);
    for (const Share& share : plan) follow(jobs_[share.id], share, seconds, bound);
  }

  void follow(Job& job, const Share& share, double seconds, double bound) {
    job.evaluated += share.rows;
    if (!share.is_prompt) {
      out_.gaps.push_back(now_ - job.last);
      out_.over.push_back(seconds / bound);
    } else if (job.evaluated < job.request.prompt_tokens) {
      return;
    } else {
      out_.firsts[label(job)].push_back(now_ - job.arrived);
    }
    job.last = now_;
    if (--job.left > 0) return;
    ++out_.finished;
    finish(job.request.id);
  }

  PolicyOptions options_;
  std::span<const Kind, 3> kinds_;
  LearnedCosts costs_;
  Policy policy_;
  std::mt19937 random_;
  std::uint32_t left_;
  std::uint64_t last_id_ = 0;
  double now_ = 0, next_arrival_ = 0, apart_ = 0;
  std::map<std::uint64_t, Job> jobs_;
  std::set<std::uint64_t> parked_;
  std::uint64_t used_ = 0;    ///< blocks
  std::uint64_t moving_ = 0;  ///< the request that leaves or returns
  bool leaves_ = false;
  Outcome out_;
};

void print(const Outcome& out, double load) {
  std::printf(
      "load %.1f: %u finished, %u refused, %u went away, %.0f rows/s; ms between tokens p50 %.0f p99 %.0f longest "
      "%.0f\n",
      load, out.finished, out.refused, out.cancelled, static_cast<double>(out.rows) / out.seconds,
      1e3 * at_quantile(out.gaps, 0.5), 1e3 * at_quantile(out.gaps, 0.99), 1e3 * at_quantile(out.gaps, 1));
  std::printf("  %-18s %8s %30s %30s\n", "", "requests", "first token, s: p50 p99 longest",
              "began after, s: p50 p99 longest");
  for (const auto& [name, firsts] : out.firsts) {
    const auto& waits = out.waits.at(name);
    std::printf("  %-18s %8zu %12.2f %8.2f %8.2f %14.2f %8.2f %8.2f\n", name.c_str(), firsts.size(),
                at_quantile(firsts, 0.5), at_quantile(firsts, 0.99), at_quantile(firsts, 1), at_quantile(waits, 0.5),
                at_quantile(waits, 0.99), at_quantile(waits, 1));
  }
}

Outcome simulated(double load) {
  PolicyOptions options;
  options.blocks = 1200;
  return Simulation(options, kKinds, 10'000, load, 7).run();
}

/// With a cache that holds few requests.
Outcome simulated_short(double load, bool overcommit, std::uint64_t headroom = 4) {
  PolicyOptions options;
  options.blocks = 150;
  options.overcommit = overcommit;
  options.headroom_blocks = headroom;
  return Simulation(options, kLongKinds, 10'000, load, 7).run();
}

}  // namespace

TEST_CASE("schedule: 10,000 arrivals of several kinds, none starves, and bounds hold", "[schedule]") {
  for (const double load : {0.5, 0.8, 1.2}) {
    CAPTURE(load);
    const Outcome out = simulated(load);
    CHECK(out.finished + out.refused + out.cancelled == 10'000);
    if (load < 1) CHECK(out.refused == 0);
    // Between two tokens: the budget, or the rows that decode with the least of prompts.
    CHECK(at_quantile(out.over, 0.99) <= 1.1);
    // Who sends half of everything waits, and not the others.
    if (load == 0.8)
      CHECK(at_quantile(out.firsts.at("chat"), 0.99) < 0.6 * at_quantile(out.firsts.at("chat, flood"), 0.99));
  }
}

TEST_CASE("schedule: the table of the simulation", "[.][schedule-table]") {
  for (const double load : {0.3, 0.5, 0.8, 1.0, 1.2}) print(simulated(load), load);
}

TEST_CASE("schedule: 10,000 arrivals that find few blocks, and all come to their end", "[schedule]") {
  for (const double load : {0.3, 0.5, 1.0}) {
    CAPTURE(load);
    const Outcome out = simulated_short(load, true);
    CHECK(out.finished + out.refused + out.cancelled == 10'000);
    CHECK(out.parked > 20);
  }
}

TEST_CASE("schedule: the table of few blocks", "[.][schedule-table]") {
  for (const double load : {0.3, 0.5, 0.8}) {
    std::printf("150 blocks, promised whole\n");
    print(simulated_short(load, false), load);
    for (const std::uint64_t headroom : {0, 4, 16}) {
      const Outcome out = simulated_short(load, true, headroom);
      std::printf("150 blocks, by the prompt, headroom %llu: parked %u, blocks moved %llu\n",
                  static_cast<unsigned long long>(headroom), out.parked,
                  static_cast<unsigned long long>(out.moved_blocks));
      print(out, load);
    }
  }
}
