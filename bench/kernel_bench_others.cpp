// Benches of what has no weights to multiply: attention over the KV cache, norms, the embedding, and the barriers of
// the thread team, of which a decoded token passes a few in each layer.
#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "kernel_bench.h"

namespace qinfer::bench {
namespace {

using kernels::KernelSet;

constexpr std::int64_t kHidden = 1024, kHeads = 16, kKvHeads = 8, kHeadDim = 128, kVocab = 151936;
constexpr std::int64_t kChunk = 512;  // rows that the engine evaluates at once, if not told otherwise

KvLayout kv_layout(const KernelSet& set, std::int64_t layers) {
  KvLayout layout;
  layout.type = set.default_kv_type(false);
  layout.n_layers = static_cast<std::uint32_t>(layers);
  layout.n_kv_heads = kKvHeads;
  layout.head_dim = kHeadDim;
  layout.head_dim_padded = set.kv_head_dim_padded(kHeadDim, layout.type);
  layout.order = set.kv_order(layout.type);
  return layout;
}

// ---- attention ----

/// Of the products with keys and values of the type that the set's caches have. `avx512_fp16` computes scores in f32,
/// so that its share of the f16 peak stays far below 1.
double attention_peak(const Context& context, const KernelSet& set) {
  return projection_peak(context.ceilings, set, encoding_of(set.default_kv_type(false)));
}

/// A cache of enough layers that decoding, which walks through them, finds none in a CPU cache; prefill computes long
/// on each and needs only one.
std::shared_ptr<RandomCache> attention_cache(Context& context, const KernelSet& set, std::int64_t tokens, bool decode) {
  const std::string key = fmt::format("{}/attention/{}/{}", set.name, tokens, decode);
  return context.shared<RandomCache>(key, [&] {
    const KvLayout one = kv_layout(set, 1);
    const std::int64_t layers = decode ? cold_copies(one.token_bytes() * static_cast<std::uint64_t>(tokens)) : 1;
    return new RandomCache(kv_layout(set, layers), 1, static_cast<std::uint64_t>(tokens));
  });
}

OperationMemory attention_memory(const Context& context, const KernelSet& set, const KvLayout& layout,
                                 std::int64_t tokens) {
  kernels::Shape sizes;
  sizes.batch = kChunk;
  sizes.n_heads = kHeads, sizes.n_kv_heads = kKvHeads, sizes.head_dim = kHeadDim;
  sizes.context = static_cast<std::uint32_t>(tokens);
  sizes.head_dim_padded = layout.head_dim_padded;
  return OperationMemory(set.attention_workspace(sizes), context.team.size());
}

kernels::AttentionArgs attention_args(const RandomCache& cache, std::int64_t n, const RandomRows& q,
                                      const RandomRows& out, const OperationMemory& memory) {
  kernels::AttentionArgs args;
  args.n = n;
  args.q = q.view(), args.out = out.view();
  args.n_heads = kHeads;
  args.scale = 0.08838834764831845f;  // 1 / sqrt(128)
  args.kv = cache.layout();
  args.workspace = memory.view();
  return args;
}

/// One token at the end of a context.
void bench_decode(benchmark::State& state, Context& context, const KernelSet& set, std::int64_t tokens) {
  const auto cache = attention_cache(context, set, tokens, true);
  const OperationMemory memory = attention_memory(context, set, cache->layout(), tokens);
  const RandomRows q = random_queries(set, 1, kHeads, kHeadDim), out = random_operand(set, 1, kHeads * kHeadDim);
  const std::vector<kernels::Sequence> sequences = {{cache->view(0), 0, 1, static_cast<std::uint32_t>(tokens - 1)}};
  kernels::AttentionArgs args = attention_args(*cache, 1, q, out, memory);
  args.sequences = sequences;
  // The engine's choice (engine/forward.cpp).
  args.split = tokens > kSegmentTokens;
  const std::int64_t layers = cache->layout().n_layers;
  const double positions = static_cast<double>(tokens);
  const Work work{positions * static_cast<double>(kv_layout(set, 1).token_bytes()), 4.0 * kHeads * kHeadDim * positions,
                  attention_peak(context, set)};
  measure(state, context, work, [&](std::int32_t worker, std::int64_t call) {
    kernels::AttentionArgs own = args;
    own.layer = static_cast<std::uint32_t>(call % layers);
    context.team.run_operation(set.attention, own, worker);
  });
}

/// A whole prompt from position 0, in the chunks in which the engine evaluates it.
void bench_prefill(benchmark::State& state, Context& context, const KernelSet& set, std::int64_t tokens) {
  const auto cache = attention_cache(context, set, tokens, false);
  const OperationMemory memory = attention_memory(context, set, cache->layout(), tokens);
  const RandomRows q = random_queries(set, kChunk, kHeads, kHeadDim),
                   out = random_operand(set, kChunk, kHeads * kHeadDim);
  std::vector<kernels::Sequence> chunks;
  for (std::int64_t first = 0; first < tokens; first += kChunk)
    chunks.push_back({cache->view(0), 0, kChunk, static_cast<std::uint32_t>(first)});
  const kernels::AttentionArgs args = attention_args(*cache, kChunk, q, out, memory);
  const double n = static_cast<double>(tokens);
  const Work work{0, 4.0 * kHeads * kHeadDim * n * (n + 1) / 2, attention_peak(context, set)};
  measure(state, context, work, [&](std::int32_t worker, std::int64_t) {
    for (const kernels::Sequence& chunk : chunks) {
      kernels::AttentionArgs own = args;
      own.sequences = {&chunk, 1};
      context.team.run_operation(set.attention, own, worker);
    }
  });
}

void add_attention(Context& context, const KernelSet& set) {
  for (const std::int64_t tokens : {1024, 4096, 16384})
    add(fmt::format("{}/attention/decode/context:{}", set.name, tokens),
        [&context, &set, tokens](benchmark::State& state) { bench_decode(state, context, set, tokens); });
  for (const std::int64_t tokens : {512, 4096})
    add(fmt::format("{}/attention/prefill/{}", set.name, tokens),
        [&context, &set, tokens](benchmark::State& state) { bench_prefill(state, context, set, tokens); });
}

// ---- rows ----

/// Activations lie in a cache when they are normalised, so GB/s have no share here.
void bench_norm(benchmark::State& state, Context& context, const KernelSet& set, std::int64_t n) {
  const RandomRows x = random_residual(set, n, kHidden), weight(1, kHidden), out = random_operand(set, n, kHidden);
  kernels::NormArgs args;
  args.n = n, args.width = kHidden;
  args.x = x.view(), args.weight = weight.view().f32();
  args.eps = 1e-6f;
  args.out = out.view();
  const double bytes = 2.0 * static_cast<double>(n) * kHidden * sizeof(float);
  measure(state, context, {bytes, 0, 0, false},
          [&](std::int32_t worker, std::int64_t) { context.team.run_operation(set.norm, args, worker); });
}

/// Out of an LM head's tiles, where the set keeps tied weights as such; otherwise out of a table.
void bench_embed(benchmark::State& state, Context& context, const KernelSet& set, std::int64_t n) {
  const auto weights = context.shared<Weights>(fmt::format("{}/embed", set.name), [&] {
    return new Weights(context.team, set, context.format(set, kernels::WeightRole::tied), kVocab, kHidden, 1);
  });
  const RandomRows out = random_residual(set, n, kHidden);
  std::vector<std::int32_t> tokens;
  for (std::int64_t m = 0; m < n; ++m) tokens.push_back(static_cast<std::int32_t>((m * 7919 + 101) % kVocab));
  const kernels::EmbedArgs args{n, tokens.data(), weights->copy(0), out.view()};
  const double bytes = static_cast<double>(n) * kHidden * sizeof(float);
  measure(state, context, {bytes, 0, 0, false},
          [&](std::int32_t worker, std::int64_t) { context.team.run_operation(set.embed, args, worker); });
}

void bench_barrier(benchmark::State& state, Context& context) {
  measure(state, context, {}, [&](std::int32_t worker, std::int64_t) { context.team.barrier(worker); });
}

/// Waking the team for a pass, and waiting for its end.
void bench_run(benchmark::State& state, Context& context) {
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    context.team.run([](std::int32_t) {});
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
}

}  // namespace

bool add_other_benches(Context& context, const KernelSet& set, std::string_view operation) {
  const auto add_rows = [&](auto bench) {
    for (const std::int64_t n : {1, 8, 512})
      add(fmt::format("{}/{}/M:{}", set.name, operation, n),
          [&context, &set, n, bench](benchmark::State& state) { bench(state, context, set, n); });
    return true;
  };
  if (operation == "attention") return add_attention(context, set), true;
  if (operation == "norm") return add_rows(bench_norm);
  if (operation == "embed") return add_rows(bench_embed);
  return false;
}

void add_team_benches(Context& context) {
  add("team/barrier", [&context](benchmark::State& state) { bench_barrier(state, context); });
  add("team/run", [&context](benchmark::State& state) { bench_run(state, context); });
}

}  // namespace qinfer::bench
