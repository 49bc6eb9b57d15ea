// kernel_bench: every operation of every kernel set that this CPU can run, alone, on a pinned team, beside what the
// machine can do at best, measured in the same process just before. Shapes are Qwen3-0.6B's and those of one expert of
// Mixtral-8x22B.
//
//   kernel_bench [--threads=2] [--cpus=0,1] [--weights=ENCODING] [options of Google Benchmark]
//
// ENCODING: f32, f16, bf16, or one of GGUF's such as q4_k, where sets that have no such weights are left out.
// Names are SET/OPERATION/SHAPE, so that --benchmark_filter=avx512/linear chooses. %bandwidth: share of the read
// bandwidth, counting each weight, key and value once per call. %peak: share of the multiply-adds per second in the
// type that the set computes in (KernelSetRow::numerics). Weights come from memory, not from a cache: calls walk
// through copies of half a gigabyte together.
#include "kernel_bench.h"

#include <cstdio>
#include <cstdlib>
#include <exception>

namespace qinfer::bench {
namespace {

struct Options {
  std::uint32_t threads = 2;
  std::string cpus;
  std::optional<Encoding> weights;
  bool list_only = false;
};

/// The part of `arg` after "NAME=", or null.
const char* option_value(std::string_view arg, std::string_view name) {
  return arg.substr(0, name.size()) == name && arg.substr(name.size(), 1) == "=" ? arg.data() + name.size() + 1
                                                                                 : nullptr;
}

Encoding parse_encoding(std::string_view name) {
  if (const auto encoding = find_encoding(name)) return *encoding;
  throw std::runtime_error("--weights takes " + std::string(encoding_names()) + ", or a quantised type such as q4_k");
}

/// Takes our own options out of argv.
Options parse_options(int& argc, char** argv) {
  Options options;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    if (const char* threads = option_value(argv[i], "--threads")) {
      options.threads = static_cast<std::uint32_t>(std::max(1, std::atoi(threads)));
    } else if (const char* cpus = option_value(argv[i], "--cpus")) {
      options.cpus = cpus;
    } else if (const char* weights = option_value(argv[i], "--weights")) {
      options.weights = parse_encoding(weights);
    } else {
      if (std::string_view(argv[i]).starts_with("--benchmark_list_tests")) options.list_only = true;
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return options;
}

/// One bench or more for each operation of each set that this CPU can run.
void add_benches(Context& context) {
  add_team_benches(context);
  for (const kernels::KernelSet* set : usable_sets()) {
    kernels::WeightFormat format;
    if (context.weight_type && !is_plain(*context.weight_type) &&
        !set->weight_format(kernels::WeightRole::q, *context.weight_type, &*context.weight_type, false, format))
      continue;
    add_pack_bench(context, *set);
    for (const std::string_view operation : kernels::kOperations) {
      if (add_projection_benches(context, *set, operation) || add_other_benches(context, *set, operation)) continue;
      std::fprintf(stderr, "kernel_bench: no bench for %.*s\n", static_cast<int>(operation.size()), operation.data());
    }
  }
}

void print_ceilings(const Ceilings& ceilings) {
  const auto print = [](const char* name, double value, const char* unit) {
    if (value == 0) return;
    std::fprintf(stderr, "%-15s %8.1f %s\n", name, value / 1e9, unit);
    char text[64];
    std::snprintf(text, sizeof text, "%.1f %s", value / 1e9, unit);
    benchmark::AddCustomContext(name, text);
  };
  print("read bandwidth", ceilings.bandwidth, "GB/s");
  print("f32 FMA peak", ceilings.f32_flops, "GFLOP/s");
  print("f16 FMA peak", ceilings.f16_flops, "GFLOP/s");
  print("int16 dot peak", ceilings.int16_flops, "GFLOP/s");
  print("bf16 dot peak", ceilings.dot_flops, "GFLOP/s");
  print("AMX bf16 peak", ceilings.tile_flops, "GFLOP/s");
}

int run(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  const std::vector<std::uint32_t> cpus = parse_cpus(options.cpus, options.threads);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  Context context(cpus, options.weights);
  add_benches(context);
  if (!options.list_only) {
    context.ceilings = measure_ceilings(cpus);
    print_ceilings(context.ceilings);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace qinfer::bench

int main(int argc, char** argv) {
  try {
    return qinfer::bench::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "kernel_bench: %s\n", e.what());
    return 1;
  }
}
