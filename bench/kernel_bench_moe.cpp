// Benches of the mixture of experts, in Qwen3-30B-A3B's shapes: bytes are those of the experts that the rows choose, so
// that the share of the bandwidth says how well several experts are read together.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kernel_bench.h"

namespace qinfer::bench {
namespace {

using kernels::KernelSet;
using kernels::WeightRole;

constexpr std::int64_t kHidden = 2048, kWidth = 768, kExperts = 128, kTopK = 8;

struct MoeWeights {
  Weights router, gate, up, down;
};

std::shared_ptr<MoeWeights> moe_weights(Context& context, const KernelSet& set) {
  return context.shared<MoeWeights>(fmt::format("{}/moe_ffn", set.name), [&] {
    const auto make = [&](WeightRole role, std::int64_t rows, std::int64_t cols, std::int64_t copies) {
      return Weights(context.team, set, context.format(set, role), rows, cols, copies);
    };
    return new MoeWeights{
        make(WeightRole::router, kExperts, kHidden, 1), make(WeightRole::gate, kWidth, kHidden, kExperts),
        make(WeightRole::up, kWidth, kHidden, kExperts), make(WeightRole::down, kHidden, kWidth, kExperts)};
  });
}

void bench_moe(benchmark::State& state, Context& context, const KernelSet& set, std::int64_t n) {
  const auto weights = moe_weights(context, set);
  const RandomRows x = random_operand(set, n, kHidden), out = random_residual(set, n, kHidden);
  kernels::Shape sizes;
  sizes.batch = static_cast<std::uint32_t>(n);
  sizes.hidden = kHidden, sizes.expert_width = kWidth, sizes.experts = kExperts, sizes.top_k = kTopK;
  const kernels::MoeWorkspace size = set.moe_workspace(sizes);
  const Memory buffers(size.routes + size.gathered + size.inner);
  const OperationMemory memory({0, size.per_worker}, context.team.size());
  std::vector<std::uint64_t> usage(kExperts);
  kernels::MoeArgs args;
  args.n = n, args.x = x.view(), args.out = out.view();
  args.router = weights->router.copy(0);
  args.gate = &weights->gate.copy(0), args.up = &weights->up.copy(0), args.down = &weights->down.copy(0);
  args.experts = kExperts, args.top_k = kTopK, args.normalise = true;
  args.buffers = {buffers.data(), buffers.data() + size.routes, buffers.data() + size.routes + size.gathered};
  args.workspace = memory.view();
  args.usage = usage.data();
  const auto run = [&](std::int32_t worker, std::int64_t) { context.team.run_operation(set.moe_ffn, args, worker); };
  context.team.time(0, 1, run);
  const auto chosen = static_cast<double>(kExperts - std::count(usage.begin(), usage.end(), std::uint64_t{0}));
  const auto one = static_cast<double>(weights->gate.bytes() + weights->up.bytes() + weights->down.bytes());
  const Work work{chosen * one, 6.0 * static_cast<double>(n * kTopK * kHidden * kWidth),
                  projection_peak(context.ceilings, set, weights->gate.copy(0).format.encoding)};
  measure(state, context, work, run);
}

}  // namespace

void add_moe_benches(Context& context, const KernelSet& set) {
  for (const std::int64_t n : {1, 4, 16, 64, 512})
    add(fmt::format("{}/moe_ffn/experts:{}/top:{}/hidden:{}/ffn:{}/M:{}", set.name, kExperts, kTopK, kHidden, kWidth,
                    n),
        [&context, &set, n](benchmark::State& state) { bench_moe(state, context, set, n); });
}

}  // namespace qinfer::bench
