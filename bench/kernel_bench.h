// What the files of kernel_bench have in common: the context of all benches, and the loop that measures one.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <any>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "harness.h"

namespace qinfer::bench {

/// Lives as long as the process: registered benches refer to it.
class Context {
 public:
  Context(const std::vector<std::uint32_t>& cpus, std::optional<Encoding> weights) : team(cpus), weight_type(weights) {}

  Team team;
  Ceilings ceilings;
  std::optional<Encoding> weight_type;  ///< asked for on the command line
  std::int64_t calls = 0;               ///< so far, of whatever is measured: chooses the copy of the weights

  kernels::WeightFormat format(const kernels::KernelSet& set, kernels::WeightRole role) const {
    return format_for(set, role, weight_type ? &*weight_type : nullptr);
  }

  /// What make() returns, kept until another key is asked for: benches that follow each other share their weights.
  template <typename T, typename Make>
  std::shared_ptr<T> shared(const std::string& key, Make make) {
    if (key != key_) {
      kept_.reset();  // first, so that there is never memory for two
      key_.clear();
      kept_ = std::shared_ptr<T>(make());
      key_ = key;
    }
    return std::any_cast<std::shared_ptr<T>>(kept_);
  }

 private:
  std::string key_;
  std::any kept_;
};

/// What one call has to do at least. 0: not reported.
struct Work {
  double bytes = 0, flops = 0;
  double peak = 0;   ///< FLOP/s that the flops are compared with
  bool cold = true;  ///< the bytes come from memory: compared with the read bandwidth
};

inline void report(benchmark::State& state, const Context& context, const Work& work, double seconds) {
  if (work.bytes > 0) {
    state.counters["GB/s"] = work.bytes / seconds / 1e9;
    if (work.cold) state.counters["%bandwidth"] = 100 * work.bytes / seconds / context.ceilings.bandwidth;
  }
  if (work.flops > 0) {
    state.counters["GFLOP/s"] = work.flops / seconds / 1e9;
    state.counters["%peak"] = 100 * work.flops / seconds / work.peak;
  }
}

/// Measures body(worker, call), which ends with a barrier, in runs of the team of a millisecond or more, so that
/// waking the team is no part of the result.
template <typename Body>
void measure(benchmark::State& state, Context& context, const Work& work, Body body) {
  constexpr double kRunSeconds = 1e-3;
  const double once = context.team.time(context.calls++, 1, body);  // also brings code and activations into the caches
  const auto batch = static_cast<std::int64_t>(std::clamp(kRunSeconds / std::max(once, 1e-9), 1.0, 1e5));
  double seconds = 0;
  std::int64_t calls = 0;
  while (state.KeepRunningBatch(batch)) {
    const double run = context.team.time(context.calls, batch, body);
    context.calls += batch;
    calls += batch;
    seconds += run;
    state.SetIterationTime(run);
  }
  report(state, context, work, seconds / static_cast<double>(calls));
}

template <typename Function>
void add(const std::string& name, Function function) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(function))->UseManualTime()->Unit(benchmark::kMicrosecond);
}

// kernel_bench_projections.cpp, kernel_bench_others.cpp: registers the benches of one row of the kernel table; false if
// the file has none for its operation.
bool add_projection_benches(Context& context, const kernels::KernelSet& set, std::string_view operation);
bool add_other_benches(Context& context, const kernels::KernelSet& set, std::string_view operation);
/// Mixtures of experts (kernel_bench_moe.cpp).
void add_moe_benches(Context& context, const kernels::KernelSet& set);
/// Packing weights, and barriers, which are no operations of the table.
void add_pack_bench(Context& context, const kernels::KernelSet& set);
void add_team_benches(Context& context);

}  // namespace qinfer::bench
