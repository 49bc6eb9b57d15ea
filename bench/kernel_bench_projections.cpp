// Benches of everything that multiplies with weights: linear layers, q/k/v, the feed-forward network, the LM head; and
// of packing, which brings weights into the form they are multiplied in.
#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "kernel_bench.h"

namespace qinfer::bench {
namespace {

using kernels::KernelSet;
using kernels::WeightRole;

constexpr std::int64_t kHidden = 1024, kFfn = 3072, kHeads = 16, kKvHeads = 8, kHeadDim = 128, kVocab = 151936;

double product_flops(std::int64_t n, std::int64_t cols, std::int64_t rows) {
  return 2.0 * static_cast<double>(n) * static_cast<double>(cols) * static_cast<double>(rows);
}

// ---- linear ----

void bench_linear(benchmark::State& state, Context& context, const KernelSet& set, std::int64_t cols, std::int64_t rows,
                  std::int64_t n) {
  const kernels::WeightFormat format = context.format(set, WeightRole::o);
  const auto weights = context.shared<Weights>(fmt::format("{}/linear/{}/{}", set.name, cols, rows), [&] {
    return new Weights(context.team, set, format, rows, cols, cold_copies(kernels::weight_bytes(format, rows, cols)));
  });
  kernels::Shape sizes;
  sizes.batch = static_cast<std::uint32_t>(n);
  sizes.hidden = static_cast<std::uint32_t>(cols);
  const OperationMemory memory(set.linear_workspace(sizes), context.team.size());
  const RandomRows x = random_operand(set, n, cols), out = random_residual(set, n, rows);
  const Work work{static_cast<double>(weights->bytes()), product_flops(n, cols, rows),
                  projection_peak(context.ceilings, set, format.encoding)};
  measure(state, context, work, [&](std::int32_t worker, std::int64_t call) {
    kernels::LinearArgs args;
    args.n = n;
    args.x = x.view();
    args.w = weights->copy(call);
    args.out = out.view();
    args.workspace = memory.view();
    context.team.run_operation(set.linear, args, worker);
  });
}

void add_linear(Context& context, const KernelSet& set) {
  constexpr std::int64_t kShapes[][2] = {{kHidden, kFfn}, {kFfn, kHidden}, {kHidden, kHidden}};
  for (const auto& [cols, rows] : kShapes)
    for (const std::int64_t n : {1, 2, 4, 8, 12, 16, 32, 64, 512})
      add(fmt::format("{}/linear/K:{}/N:{}/M:{}", set.name, cols, rows, n),
          [&context, &set, cols = cols, rows = rows, n](benchmark::State& state) {
            bench_linear(state, context, set, cols, rows, n);
          });
}

// ---- queries, keys and values ----

struct QkvWeights {
  Weights q, k, v;
};

KvLayout kv_layout(const KernelSet& set) {
  KvLayout layout;
  layout.type = DType::f16;
  layout.n_layers = 1;
  layout.n_kv_heads = kKvHeads;
  layout.head_dim = kHeadDim;
  layout.head_dim_padded = set.kv_head_dim_padded(kHeadDim, layout.type);
  layout.order = set.kv_order(layout.type);
  return layout;
}

std::shared_ptr<QkvWeights> qkv_weights(Context& context, const KernelSet& set) {
  return context.shared<QkvWeights>(fmt::format("{}/qkv", set.name), [&] {
    const auto make = [&](WeightRole role, std::int64_t heads, std::int64_t copies) {
      return Weights(context.team, set, context.format(set, role), heads * kHeadDim, kHidden, copies);
    };
    const std::uint64_t bytes =
        kernels::weight_bytes(context.format(set, WeightRole::q), (kHeads + 2 * kKvHeads) * kHeadDim, kHidden);
    const std::int64_t copies = cold_copies(bytes);
    return new QkvWeights{make(WeightRole::q, kHeads, copies), make(WeightRole::k, kKvHeads, copies),
                          make(WeightRole::v, kKvHeads, copies)};
  });
}

void bench_qkv(benchmark::State& state, Context& context, const KernelSet& set, std::int64_t n) {
  const auto weights = qkv_weights(context, set);
  const RandomCache cache(kv_layout(set), 1, static_cast<std::uint64_t>(n));
  const std::vector<kernels::Sequence> sequences = {{cache.view(0), 0, static_cast<std::int32_t>(n), 0}};
  const RandomRows x = random_operand(set, n, kHidden), q = random_queries(set, n, kHeads, kHeadDim);
  const RandomRows norms(2, kHeadDim), rope(n, kHeadDim);
  kernels::Shape sizes;
  sizes.batch = static_cast<std::uint32_t>(n);
  sizes.hidden = kHidden, sizes.n_heads = kHeads, sizes.n_kv_heads = kKvHeads, sizes.head_dim = kHeadDim;
  const OperationMemory memory(set.qkv_workspace(sizes), context.team.size());
  kernels::QkvArgs args;
  args.n = n;
  args.x = x.view();
  args.q_norm = norms.view().row(0), args.k_norm = norms.view().row(1);
  args.norm_eps = 1e-6f;
  args.rope = rope.view().f32();
  args.n_heads = kHeads;
  args.kv = cache.layout();
  args.sequences = sequences;
  args.q = q.view();
  args.workspace = memory.view();
  const Work work{static_cast<double>(weights->q.bytes() + weights->k.bytes() + weights->v.bytes()),
                  product_flops(n, kHidden, (kHeads + 2 * kKvHeads) * kHeadDim),
                  projection_peak(context.ceilings, set, weights->q.copy(0).format.encoding)};
  measure(state, context, work, [&](std::int32_t worker, std::int64_t call) {
    kernels::QkvArgs own = args;
    own.wq = weights->q.copy(call), own.wk = weights->k.copy(call), own.wv = weights->v.copy(call);
    context.team.run_operation(set.qkv, own, worker);
  });
}

void add_qkv(Context& context, const KernelSet& set) {
  for (const std::int64_t n : {1, 4, 8, 64, 512})
    add(fmt::format("{}/qkv/M:{}", set.name, n),
        [&context, &set, n](benchmark::State& state) { bench_qkv(state, context, set, n); });
}

// ---- the feed-forward network ----

struct FfnWeights {
  Weights gate, up, down;
};

std::shared_ptr<FfnWeights> ffn_weights(Context& context, const KernelSet& set, std::int64_t hidden, std::int64_t ffn) {
  return context.shared<FfnWeights>(fmt::format("{}/ffn/{}/{}", set.name, hidden, ffn), [&] {
    const std::uint64_t bytes = 3 * kernels::weight_bytes(context.format(set, WeightRole::gate), ffn, hidden);
    const std::int64_t copies = cold_copies(bytes);
    const auto make = [&](WeightRole role, std::int64_t rows, std::int64_t cols) {
      return Weights(context.team, set, context.format(set, role), rows, cols, copies);
    };
    return new FfnWeights{make(WeightRole::gate, ffn, hidden), make(WeightRole::up, ffn, hidden),
                          make(WeightRole::down, hidden, ffn)};
  });
}

void bench_ffn(benchmark::State& state, Context& context, const KernelSet& set, std::int64_t hidden, std::int64_t ffn,
               std::int64_t n) {
  const auto weights = ffn_weights(context, set, hidden, ffn);
  const RandomRows x = random_operand(set, n, hidden), out = random_residual(set, n, hidden);
  kernels::Shape sizes;
  sizes.batch = static_cast<std::uint32_t>(n);
  sizes.hidden = static_cast<std::uint32_t>(hidden), sizes.ffn = static_cast<std::uint32_t>(ffn);
  const OperationMemory memory(set.ffn_workspace(sizes), context.team.size());
  const Work work{static_cast<double>(weights->gate.bytes() + weights->up.bytes() + weights->down.bytes()),
                  3 * product_flops(n, hidden, ffn),
                  projection_peak(context.ceilings, set, weights->gate.copy(0).format.encoding)};
  measure(state, context, work, [&](std::int32_t worker, std::int64_t call) {
    kernels::FfnArgs args;
    args.n = n;
    args.x = x.view();
    args.gate = weights->gate.copy(call), args.up = weights->up.copy(call), args.down = weights->down.copy(call);
    args.out = out.view();
    args.workspace = memory.view();
    context.team.run_operation(set.ffn, args, worker);
  });
}

void add_ffn(Context& context, const KernelSet& set) {
  constexpr std::int64_t kShapes[][2] = {{kHidden, kFfn}, {6144, 16384}};
  for (const auto& [hidden, ffn] : kShapes)
    for (const std::int64_t n : {1, 4, 16, 64})
      add(fmt::format("{}/ffn/hidden:{}/ffn:{}/M:{}", set.name, hidden, ffn, n),
          [&context, &set, hidden = hidden, ffn = ffn, n](benchmark::State& state) {
            bench_ffn(state, context, set, hidden, ffn, n);
          });
}

// ---- the LM head ----

void bench_lm_head(benchmark::State& state, Context& context, const KernelSet& set, std::int64_t n) {
  const kernels::WeightFormat format = context.format(set, WeightRole::lm_head);
  const auto weights = context.shared<Weights>(fmt::format("{}/lm_head", set.name), [&] {
    return new Weights(context.team, set, format, kVocab, kHidden,
                       cold_copies(kernels::weight_bytes(format, kVocab, kHidden)));
  });
  const RandomRows x = random_operand(set, n, kHidden), out(n, kVocab);
  std::vector<float*> rows;
  for (std::int64_t m = 0; m < n; ++m) rows.push_back(out.view().row(m));
  kernels::Shape sizes;
  sizes.batch = static_cast<std::uint32_t>(n);
  sizes.hidden = kHidden, sizes.vocab = kVocab;
  const OperationMemory memory(set.lm_head_workspace(sizes), context.team.size());
  const Work work{static_cast<double>(weights->bytes()), product_flops(n, kHidden, kVocab),
                  projection_peak(context.ceilings, set, format.encoding)};
  measure(state, context, work, [&](std::int32_t worker, std::int64_t call) {
    const kernels::LmHeadArgs args{n, x.view(), weights->copy(call), rows.data(), memory.view()};
    context.team.run_operation(set.lm_head, args, worker);
  });
}

void add_lm_head(Context& context, const KernelSet& set) {
  for (const std::int64_t n : {1, 8})
    add(fmt::format("{}/lm_head/K:{}/N:{}/M:{}", set.name, kHidden, kVocab, n),
        [&context, &set, n](benchmark::State& state) { bench_lm_head(state, context, set, n); });
}

/// GB/s of the file's bytes: what is written comes on top.
void bench_pack(benchmark::State& state, Context& context, const KernelSet& set) {
  const kernels::WeightFormat format = context.format(set, WeightRole::lm_head);
  const Encoding stored = source_of(format.encoding);
  const auto source = context.shared<SourceMatrix>("pack", [&] { return new SourceMatrix(kVocab, kHidden, stored); });
  const Memory destination(kernels::weight_bytes(format, kVocab, kHidden));
  double seconds = 0;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    pack_on_team(context.team, set, source->view(), format, destination.data());
    const double run = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    seconds += run;
    state.SetIterationTime(run);
  }
  const auto bytes = static_cast<double>(kVocab * encoded_bytes(stored, kHidden));
  report(state, context, {bytes, 0, 0, false}, seconds / static_cast<double>(state.iterations()));
}

}  // namespace

bool add_projection_benches(Context& context, const KernelSet& set, std::string_view operation) {
  if (operation == "linear") return add_linear(context, set), true;
  if (operation == "qkv") return add_qkv(context, set), true;
  if (operation == "ffn") return add_ffn(context, set), true;
  if (operation == "moe_ffn") return add_moe_benches(context, set), true;
  if (operation == "lm_head") return add_lm_head(context, set), true;
  return false;
}

void add_pack_bench(Context& context, const KernelSet& set) {
  add(fmt::format("{}/pack/K:{}/N:{}", set.name, kHidden, kVocab),
      [&context, &set](benchmark::State& state) { bench_pack(state, context, set); });
}

}  // namespace qinfer::bench
