// bench_arrival.cpp: see bench_arrival.h. The others draw tokens until the one that arrives has its first; end tokens
// are biased away. What both take alone is measured before, with the same sessions' lengths and the same threads.
#include "bench_arrival.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "support.h"

namespace cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kArrivalBlock = 32;
constexpr std::uint32_t kBefore = 16;  // tokens that each of the others draws before the arrival
constexpr std::uint32_t kRows = 8;     // of a prompt, which the scheduler takes in every step
constexpr int kTimedSteps = 15;        // that are timed

double seconds_from(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// A request and what it holds.
struct Drawing {
  std::unique_ptr<qi::Session> session;
  std::unique_ptr<qi::Generation> generation;
  std::unique_ptr<qi::Request> request;
  Clock::time_point last;
  std::uint32_t n_tokens = 0;
};

class Arrival {
 public:
  Arrival(const qi::Model& model, std::int32_t kv_type, const ClientsArgs& args, std::uint32_t prompt)
      : model_(model), args_(args), prompt_(prompt), cache_(cache_of(kv_type)) {
    for (const qinfer_token token : model.end_tokens()) no_ends_.emplace_back(token, -INFINITY);
    report_.args = args;
    report_.prompt = prompt;
  }

  ArrivalReport run() {
    measure_alone();
    measure_among();
    return std::move(report_);
  }

 private:
  /// Tokens that a session of the others may come to.
  std::uint32_t longest() const { return std::min(args_.prompt + prompt_, model_.info().context_tokens); }

  qi::KvCache cache_of(std::int32_t kv_type) const {
    const auto blocks = [](std::uint32_t tokens) { return (tokens + kArrivalBlock) / kArrivalBlock + 1; };
    auto options = qi::options<qinfer_kv_cache_options>();
    options.kv_type = kv_type;
    options.block_tokens = kArrivalBlock;
    options.budget_blocks = args_.n * blocks(longest()) + blocks(prompt_);
    return qi::KvCache(model_, options);
  }

  std::unique_ptr<qi::Session> session_of(std::uint32_t prompt, std::uint32_t max_tokens, std::uint32_t seed) {
    auto options = qi::options<qinfer_session_options>();
    options.max_tokens = max_tokens;
    auto session = std::make_unique<qi::Session>(cache_, options);
    session->append(random_tokens(prompt, model_.info().n_vocab, seed));
    session->set_bias(no_ends_);
    return session;
  }

  /// The prompt as one, then steps of all: with the prompt's last rows, which are taken back after each.
  void measure_alone() {
    const auto newcomer = session_of(prompt_, prompt_ + 1, args_.n);
    const Clock::time_point begin = Clock::now();
    newcomer->eval();
    newcomer->sample();
    report_.alone = seconds_from(begin);

    std::vector<std::unique_ptr<qi::Session>> others;
    std::vector<qi::Session*> batch;
    for (std::uint32_t i = 0; i < args_.n; ++i) {
      others.push_back(session_of(args_.prompt, longest(), i));
      others.back()->eval();
      batch.push_back(others.back().get());
    }
    batch.push_back(newcomer.get());
    const std::vector<qinfer_token> tokens = random_tokens(prompt_, model_.info().n_vocab, args_.n);
    std::vector<double> steps;
    for (int i = 0; i < kTimedSteps; ++i) {
      newcomer->truncate(prompt_ - kRows);
      newcomer->append(tokens.data() + prompt_ - kRows, kRows);
      for (const auto& other : others) other->sample();
      const Clock::time_point step = Clock::now();
      qi::eval(batch);
      steps.push_back(seconds_from(step));
    }
    std::sort(steps.begin(), steps.end());
    report_.step = steps[steps.size() / 2];
  }

  Drawing drawing_of(qi::Scheduler& scheduler, std::unique_ptr<qi::Session> session, std::uint32_t key) {
    Drawing out;
    out.session = std::move(session);
    out.generation = std::make_unique<qi::Generation>(*out.session, qi::GenerateOptions());
    auto request = qi::options<qinfer_request_options>();
    request.user = reinterpret_cast<void*>(std::uintptr_t{key});
    request.key = key;
    out.request = std::make_unique<qi::Request>(scheduler.submit(*out.generation, request));
    out.last = Clock::now();
    return out;
  }

  void measure_among() {
    auto options = qi::options<qinfer_scheduler_options>();
    options.max_running = args_.n + 1;
    options.step_ns = std::uint64_t{args_.step_ms} * 1'000'000;
    qi::Scheduler scheduler(cache_, options);
    std::vector<Drawing> all;  // the one that arrives is the last
    for (std::uint32_t i = 0; i < args_.n; ++i)
      all.push_back(drawing_of(scheduler, session_of(args_.prompt, longest(), i), i));
    while (scheduler.wait(0)) {
      scheduler.step();
      for (qinfer_event event = scheduler.next(); event.kind != QINFER_EVENT_NONE; event = scheduler.next())
        take(event, all);
      const bool begun =
          std::all_of(all.begin(), all.end(), [](const Drawing& one) { return one.n_tokens >= kBefore; });
      if (all.size() == args_.n && begun)
        all.push_back(drawing_of(scheduler, session_of(prompt_, prompt_ + 1, args_.n), args_.n));
      if (report_.first > 0)
        for (Drawing& one : all) one.request->cancel();
    }
  }

  void take(const qinfer_event& event, std::vector<Drawing>& all) {
    const auto key = reinterpret_cast<std::uintptr_t>(event.user);
    if (event.kind == QINFER_EVENT_END && report_.first == 0)
      throw Failure(event.status == QINFER_OK ? "the model's context is too short for the others to go on meanwhile"
                                              : std::string("a request failed: ") + event.message);
    if (event.kind != QINFER_EVENT_TOKEN || event.token.token < 0 || report_.first > 0) return;
    Drawing& one = all[key];
    const double waited = seconds_from(one.last);
    if (key == args_.n) report_.first = waited;
    // The step in which it arrives is over when it arrives.
    if (key < args_.n && all.size() > args_.n) report_.between.push_back(waited);
    one.last = Clock::now();
    ++one.n_tokens;
  }

  const qi::Model& model_;
  const ClientsArgs& args_;
  const std::uint32_t prompt_;
  qi::KvCache cache_;
  std::vector<std::pair<qinfer_token, float>> no_ends_;
  ArrivalReport report_;
};

}  // namespace

ArrivalReport measure_arrival(const qi::Model& model, std::int32_t kv_type, const ClientsArgs& args,
                              std::uint32_t prompt) {
  if (prompt <= kRows) throw UsageError(format("--arrival needs more than %u tokens", kRows));
  report(format("a prompt of %u tokens arrives among %u clients", prompt, args.n));
  ArrivalReport out = Arrival(model, kv_type, args, prompt).run();
  out.cpu_name = qi::cpu_name();
  out.kernel_set = model.info().kernel_set;
  return out;
}

void print_arrival(const ArrivalReport& report, bool json) {
  const double p50 = percentile(report.between, 0.5), p99 = percentile(report.between, 0.99);
  const double bound = std::max<double>(report.args.step_ms, report.step * 1e3);
  if (json) {
    print(nlohmann::json({{"cpu", report.cpu_name},
                          {"kernel_set", report.kernel_set},
                          {"threads", report.args.cpus.size()},
                          {"clients", report.args.n},
                          {"arrival_tokens", report.prompt},
                          {"step_ms", report.args.step_ms},
                          {"alone_ms", report.alone * 1e3},
                          {"first_token_ms", report.first * 1e3},
                          {"smallest_step_ms", report.step * 1e3},
                          {"between_tokens_ms", {{"p50", p50}, {"p99", p99}}}})
              .dump() +
          "\n");
    return;
  }
  print(format("%s, %zu threads, %s\n", report.cpu_name.c_str(), report.args.cpus.size(), report.kernel_set.c_str()));
  print(format("%-16s %.0f ms, alone %.0f ms: %.2f times\n", "first token", report.first * 1e3, report.alone * 1e3,
               report.first / report.alone));
  print(format("%-16s p50 %.1f ms, p99 %.1f ms: %.2f times the larger of a step (%u ms) and the smallest (%.1f ms)\n",
               "between tokens", p50, p99, p99 / bound, report.args.step_ms, report.step * 1e3));
}

}  // namespace cli
