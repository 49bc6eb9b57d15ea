// paired: kernel sets, or other forms of a model, against each other in one process and in turns of a few tokens. A
// machine that others share wanders by a factor of two within minutes; two turns in a row see the same machine, so what
// is compared is each turn with the first contestant's of the same round, and what is reported is the median of those
// ratios with its 95 % confidence interval (order statistics; no assumption about how times are distributed).
//
//   paired [--rounds N] [--turn TOKENS] [--prefill TOKENS] MODEL=TARGET MODEL=TARGET ...
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>

#include "ceilings.h"
#include "support.h"

namespace cli {
namespace {

constexpr std::uint32_t kPrompt = 8;      // tokens before those that are decoded
constexpr std::size_t kSameTokens = 256;  // decoded before a session is cut back, so that all depths come up

struct PairedArgs {
  std::vector<std::string> contestants;
  std::uint32_t rounds = 100, turn = 1, prefill = 0, threads = 0;
  std::vector<std::uint32_t> cpus;
};

/// A model with threads, a cache and a session of its own. Threads of the others sleep while one has its turn.
class Contestant {
 public:
  Contestant(const std::string& name, const PairedArgs& args) : name_(name), args_(args) {
    const std::size_t cut = name.rfind('=');
    if (cut == std::string::npos) throw UsageError(format("%s is not of the form MODEL=TARGET", name.c_str()));
    const std::string path = name.substr(0, cut), target = name.substr(cut + 1);
    auto runtime_options = qi::options<qinfer_runtime_options>();
    runtime_options.cpu_target = target.c_str();
    runtime_options.n_threads = static_cast<std::uint32_t>(args.cpus.size());
    runtime_options.cpu_ids = args.cpus.data();
    runtime_options.n_cpu_ids = runtime_options.n_threads;
    runtime_ = std::make_unique<qi::Runtime>(runtime_options);
    model_ = std::make_unique<qi::Model>(qi::Model::load(*runtime_, path));
    auto session_options = qi::options<qinfer_session_options>();
    session_options.max_tokens = kPrompt + static_cast<std::uint32_t>(kSameTokens) + args.turn + args.prefill;
    auto cache_options = qi::options<qinfer_kv_cache_options>();
    cache_options.flags = QINFER_CACHE_COMMIT;
    cache_options.budget_blocks = session_options.max_tokens / kBlock + 2;
    cache_options.block_tokens = kBlock;
    cache_ = std::make_unique<qi::KvCache>(*model_, cache_options);
    session_ = std::make_unique<qi::Session>(*cache_, session_options);
    begin();
  }

  /// Seconds per token of one turn.
  double turn() {
    if (args_.prefill > 0) return prefill() / args_.prefill;
    if (session_->length() >= kPrompt + kSameTokens) begin();
    const auto start = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < args_.turn; ++i) {
      session_->sample();
      session_->eval();
    }
    return seconds_since(start) / args_.turn;
  }

  const std::string& name() const { return name_; }
  std::vector<double> seconds;  ///< per token, a value for each round

 private:
  static constexpr std::uint32_t kBlock = 32;

  static double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  std::vector<qinfer_token> tokens(std::size_t n) const {
    std::vector<qinfer_token> ids(n);
    for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<qinfer_token>(i * 7919 % model_->info().n_vocab);
    return ids;
  }

  void begin() {
    session_->truncate(0);
    session_->append(tokens(kPrompt));
    session_->eval();
  }

  double prefill() {
    session_->truncate(0);
    session_->append(tokens(args_.prefill));
    const auto start = std::chrono::steady_clock::now();
    session_->eval();
    return seconds_since(start);
  }

  std::string name_;
  const PairedArgs& args_;
  std::unique_ptr<qi::Runtime> runtime_;
  std::unique_ptr<qi::Model> model_;
  std::unique_ptr<qi::KvCache> cache_;
  std::unique_ptr<qi::Session> session_;
};

/// The q-quantile of values, sorted by this.
double quantile(std::vector<double>& values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

/// How far from the middle the order statistics lie that enclose the median with 95 % probability: 1.96 standard
/// deviations of a binomial distribution with p = 1/2, as a quantile.
double median_interval(std::size_t n) { return std::min(0.5, 1.96 * 0.5 / std::sqrt(static_cast<double>(n))); }

void print_results(std::vector<Contestant>& all) {
  std::size_t width = 0;
  for (const Contestant& each : all) width = std::max(width, each.name().size());
  for (Contestant& each : all) {
    std::vector<double> ratios;
    std::size_t wins = 0;
    for (std::size_t i = 0; i < each.seconds.size(); ++i) {
      ratios.push_back(all[0].seconds[i] / each.seconds[i]);
      wins += static_cast<std::size_t>(ratios.back() >= 1);
    }
    std::vector<double> rates;
    for (const double seconds : each.seconds) rates.push_back(1 / seconds);
    std::string line = format("%-*s  %7.1f tokens/s (quartiles %.1f..%.1f)", static_cast<int>(width),
                              each.name().c_str(), quantile(rates, 0.5), quantile(rates, 0.25), quantile(rates, 0.75));
    const double half = median_interval(ratios.size());
    if (&each != all.data())
      line += format("  %.3fx the first (95 %%: %.3f..%.3f; quartiles %.2f..%.2f), faster in %zu of %zu",
                     quantile(ratios, 0.5), quantile(ratios, 0.5 - half), quantile(ratios, 0.5 + half),
                     quantile(ratios, 0.25), quantile(ratios, 0.75), wins, ratios.size());
    print(line + "\n");
  }
}

void run(const PairedArgs& args) {
  std::vector<Contestant> all;
  all.reserve(args.contestants.size());
  for (const std::string& name : args.contestants) all.emplace_back(name, args);
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(1);
  for (std::uint32_t round = 0; round <= args.rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      const double seconds = all[i].turn();
      if (round > 0) all[i].seconds.push_back(seconds);  // the first round brings the weights into memory
    }
  }
  print(args.prefill > 0 ? format("prefill of %u tokens, %u rounds\n", args.prefill, args.rounds)
                         : format("decode, turns of %u tokens, %u rounds\n", args.turn, args.rounds));
  print_results(all);
}

}  // namespace
}  // namespace cli

int main(int argc, char** argv) {
  CLI::App app("Measures models and kernel sets against each other in turns of a few tokens.");
  cli::PairedArgs args;
  app.add_option("contestants", args.contestants, "MODEL=TARGET; the first is what the others are compared with")
      ->required()
      ->expected(2, 16);
  app.add_option("--rounds", args.rounds, "Turns of each")->check(CLI::Range(5, 100000))->capture_default_str();
  app.add_option("--turn", args.turn, "Tokens decoded in a turn")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--prefill", args.prefill, "Measure prompts of so many tokens instead")->check(CLI::Range(1, 16384));
  app.add_option("-t,--threads", args.threads, "Compute threads (default: physical cores)");
  CLI11_PARSE(app, argc, argv);
  try {
    args.cpus = cli::usable_cpus();
    const std::size_t wanted = args.threads != 0 ? args.threads : qi::cpu_info().n_physical_cores;
    args.cpus.resize(std::clamp<std::size_t>(wanted, 1, args.cpus.size()));
    cli::run(args);
  } catch (const std::exception& error) {
    cli::report(error.what());
    return 1;
  }
}
