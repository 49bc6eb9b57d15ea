// paired: kernel sets, or other forms of a model, against each other in one process and in turns of a few tokens.
//
// The speed of a shared machine changes by a factor of two within minutes; two turns in a row see the same machine, so
// each turn is compared with the first contestant's of the same round. A turn begins with a token that is not timed, so
// that caches hold what the contestant itself left there, not what another one with the same file did. Memory of a
// virtual machine is not equally fast everywhere either (weights at another place decoded 1.28x as fast, for as long as
// they stayed there), so everything is loaded several times, in random order, and files that no other process has
// mapped are dropped from the page cache before. What is reported is the median of the ratios of each load, from the
// smallest to the largest, and the median of those.
//
//   paired [--loads N] [--rounds N] [--turn TOKENS | --prefill TOKENS] [-t THREADS] MODEL=TARGET MODEL=TARGET ...
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>

#include "ceilings.h"
#include "statistics.h"
#include "support.h"

namespace cli {
namespace {

using qinfer::bench::quantile;

constexpr std::uint32_t kPrompt = 8;   // tokens before those that are decoded
constexpr std::uint32_t kDepth = 256;  // a session that would be longer is cut back to its prompt

struct PairedArgs {
  std::vector<std::string> contestants;
  std::uint32_t loads = 5, rounds = 50, turn = 1, prefill = 0, threads = 0;
  std::vector<std::uint32_t> cpus;
};

struct Name {
  std::string whole, path, target;

  explicit Name(const std::string& name) : whole(name) {
    const std::size_t cut = name.rfind('=');
    if (cut == std::string::npos) throw UsageError(format("%s is not of the form MODEL=TARGET", name.c_str()));
    path = name.substr(0, cut), target = name.substr(cut + 1);
  }
};

/// Makes the system forget what it holds of a model's files, so that they come to lie elsewhere.
void drop_from_cache(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    for (const auto& entry : std::filesystem::directory_iterator(path)) drop_from_cache(entry.path());
    return;
  }
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;  // loading will say why
  (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  close(file);
}

/// A model with threads, a cache and a session of its own. Threads of the others sleep while one has its turn.
class Contestant {
 public:
  Contestant(const Name& name, const PairedArgs& args) : args_(args) {
    auto runtime_options = qi::options<qinfer_runtime_options>();
    runtime_options.cpu_target = name.target.c_str();
    runtime_options.n_threads = static_cast<std::uint32_t>(args.cpus.size());
    runtime_options.cpu_ids = args.cpus.data();
    runtime_options.n_cpu_ids = runtime_options.n_threads;
    runtime_ = std::make_unique<qi::Runtime>(runtime_options);
    model_ = std::make_unique<qi::Model>(qi::Model::load(*runtime_, name.path));
    auto session_options = qi::options<qinfer_session_options>();
    session_options.max_tokens = args.prefill > 0 ? std::max(args.prefill, kPrompt + 1) : kDepth;
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
    if (args_.prefill > 0 || session_->length() + 1 + args_.turn > kDepth) begin();
    decode();
    if (args_.prefill > 0) return prefill() / args_.prefill;
    const auto start = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < args_.turn; ++i) decode();
    return seconds_since(start) / args_.turn;
  }

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

  void decode() {
    session_->sample();
    session_->eval();
  }

  double prefill() {
    session_->truncate(0);
    session_->append(tokens(args_.prefill));
    const auto start = std::chrono::steady_clock::now();
    session_->eval();
    return seconds_since(start);
  }

  const PairedArgs& args_;
  std::unique_ptr<qi::Runtime> runtime_;
  std::unique_ptr<qi::Model> model_;
  std::unique_ptr<qi::KvCache> cache_;
  std::unique_ptr<qi::Session> session_;
};

/// What one load gave for each contestant: seconds per token of each round.
using Times = std::vector<std::vector<double>>;

Times run_load(const std::vector<Name>& names, const PairedArgs& args, std::mt19937& random) {
  std::vector<std::size_t> order(names.size());
  std::iota(order.begin(), order.end(), 0);
  for (const Name& name : names) drop_from_cache(name.path);
  std::vector<std::unique_ptr<Contestant>> all(names.size());
  std::shuffle(order.begin(), order.end(), random);
  for (const std::size_t i : order) all[i] = std::make_unique<Contestant>(names[i], args);
  Times times(names.size());
  for (std::uint32_t round = 0; round <= args.rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      const double seconds = all[i]->turn();
      if (round > 0) times[i].push_back(seconds);  // the first round brings the weights into memory
    }
  }
  return times;
}

/// Of contestant i, in each load: the median of its ratios to the first.
std::vector<double> ratios_of(const std::vector<Times>& loads, std::size_t i) {
  std::vector<double> medians;
  for (const Times& times : loads) {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < times[i].size(); ++round) ratios.push_back(times[0][round] / times[i][round]);
    medians.push_back(quantile(ratios, 0.5));
  }
  return medians;
}

void print_results(const std::vector<Name>& names, const std::vector<Times>& loads) {
  std::size_t width = 0;
  for (const Name& name : names) width = std::max(width, name.whole.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::vector<double> rates;
    for (const Times& times : loads)
      for (const double seconds : times[i]) rates.push_back(1 / seconds);
    std::string line = names[i].whole + std::string(width - names[i].whole.size(), ' ');
    line += format("  %7.1f tokens/s (quartiles %.1f..%.1f)", quantile(rates, 0.5), quantile(rates, 0.25),
                   quantile(rates, 0.75));
    if (i > 0) {
      std::vector<double> ratios = ratios_of(loads, i);
      line += format("  %.3fx the first; loads:", quantile(ratios, 0.5));
      for (const double ratio : ratios) line += format(" %.2f", ratio);
    }
    print(line + "\n");
  }
}

void run(const PairedArgs& args) {
  const std::vector<Name> names(args.contestants.begin(), args.contestants.end());
  std::mt19937 random(1);
  std::vector<Times> loads;
  for (std::uint32_t i = 0; i < args.loads; ++i) loads.push_back(run_load(names, args, random));
  print(args.prefill > 0 ? format("prefill of %u tokens", args.prefill)
                         : format("decode, turns of %u tokens", args.turn));
  print(format(", %u loads of %u rounds, %zu threads\n", args.loads, args.rounds, args.cpus.size()));
  print_results(names, loads);
  flush_output();
}

}  // namespace
}  // namespace cli

int main(int argc, char** argv) {
  CLI::App app("Measures models and kernel sets against each other in turns of a few tokens.");
  cli::PairedArgs args;
  app.add_option("contestants", args.contestants, "MODEL=TARGET; the first is what the others are compared with")
      ->required()
      ->expected(2, 16);
  app.add_option("--loads", args.loads, "How often models are loaded")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--rounds", args.rounds, "Turns of each after a load")
      ->check(CLI::Range(5, 100000))
      ->capture_default_str();
  auto* turn =
      app.add_option("--turn", args.turn, "Tokens decoded in a turn")->check(CLI::Range(1, 200))->capture_default_str();
  app.add_option("--prefill", args.prefill, "Measure prompts of this many tokens instead")
      ->check(CLI::Range(1, 16384))
      ->excludes(turn);
  app.add_option("-t,--threads", args.threads, "Compute threads (default: physical cores)");
  CLI11_PARSE(app, argc, argv);
  try {
    args.cpus = cli::choose_cpus(args.threads);
    cli::run(args);
  } catch (const cli::UsageError& error) {
    cli::report(error.what());
    return 2;
  } catch (const std::exception& error) {
    cli::report(error.what());
    return 1;
  }
}
