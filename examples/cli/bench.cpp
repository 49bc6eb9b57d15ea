// bench.cpp: `qinfer bench`: how fast a model is read and answered here, and what share that is of what the machine can
// do. Ceilings and model run on the same pinned threads, ceilings first, so that their buffer is gone before the model
// is loaded. Reported are medians with the range of all repetitions. What each share counts is printed beside it.
// Sessions that decode together have prompts of their own, so that they choose experts of their own.
#include "bench_arrival.h"
#include "bench_clients.h"
#include "bench_report.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "support.h"

namespace cli {
namespace {

constexpr std::uint32_t kShortPrompt = 8;  // tokens before the decoded ones, unless --depth says otherwise
constexpr std::uint32_t kBlockTokens = 32;
constexpr std::uint32_t kCountedSteps = 32;
constexpr std::size_t kWarmUp = 512;  // tokens of the prompt that is not timed

struct BenchArgs {
  std::string model, kv;
  bool contiguous = false;
  RuntimeArgs runtime;
  std::uint32_t prefill = 512, decode = 64, repetitions = 5;
  std::uint32_t depth = kShortPrompt, sessions = 1;  // of decoding
  std::uint32_t read_mib = 2048;
  bool prefill_given = false, decode_given = false;
  std::uint32_t clients = 0, step_ms = 100, blocks = 0, arrival = 0;
  std::string park;
  bool no_limit = false;
  bool json = false, all_targets = false;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Default amounts are cut to what the model's context holds; given ones are not, so that the library can refuse them.
void fit_to_context(BenchArgs& args, std::uint32_t context) {
  if (!args.prefill_given && args.prefill > context) {
    args.prefill = context;
    report(format("prefill cut to the model's context of %u tokens", context));
  }
  if (!args.decode_given && args.decode + args.depth > context) {
    args.decode = context > args.depth ? context - args.depth : 0;
    report(format("decode cut to %u tokens by the model's context of %u", args.decode, context));
  }
}

Samples time_prefill(qi::Session& session, const std::vector<qinfer_token>& tokens, std::uint32_t repetitions,
                     ConditionsMeter& meter) {
  Samples samples;
  // A first run brings the weights into memory.
  session.append(tokens.data(), std::min(tokens.size(), kWarmUp));
  session.eval();
  for (std::uint32_t i = 0; i < repetitions; ++i) {
    session.truncate(0);
    session.append(tokens);
    meter.begin();
    const auto begin = std::chrono::steady_clock::now();
    session.eval();
    samples.seconds.push_back(seconds_since(begin));
    samples.conditions.push_back(meter.end());
  }
  return samples;
}

std::vector<qi::Session*> batch_of(std::vector<qi::Session>& sessions) {
  std::vector<qi::Session*> batch;
  batch.reserve(sessions.size());
  for (qi::Session& session : sessions) batch.push_back(&session);
  return batch;
}

/// Every session has its prompt evaluated, and nothing after it.
void back_to_prompt(std::vector<qi::Session>& sessions, std::uint32_t depth) {
  for (qi::Session& session : sessions) session.truncate(depth);
  if (sessions[0].pending() > 0) qi::eval(batch_of(sessions));
}

/// Decodes with all sessions in one batch; the prompts are evaluated once, and cut back to between repetitions.
Samples time_decode(std::vector<qi::Session>& sessions, std::uint32_t n_vocab, const BenchArgs& args,
                    ConditionsMeter& meter) {
  Samples samples;
  const std::vector<qi::Session*> batch = batch_of(sessions);
  for (std::uint32_t i = 0; i < sessions.size(); ++i) {
    sessions[i].truncate(0);
    sessions[i].append(random_tokens(args.depth, n_vocab, i));
    sessions[i].eval();
  }
  for (std::uint32_t i = 0; i <= args.repetitions; ++i) {
    if (i > 0) meter.begin();
    back_to_prompt(sessions, args.depth);  // evaluates a token, which brings small models back into the caches
    const std::uint32_t n = i > 0 ? args.decode : std::min(args.decode, kShortPrompt);
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint32_t done = 0; done < n; ++done) {
      for (qi::Session& session : sessions) session.sample();
      qi::eval(batch);
    }
    if (i == 0) continue;
    samples.seconds.push_back(seconds_since(begin));
    samples.conditions.push_back(meter.end());
  }
  return samples;
}

/// Decodes a few of the tokens that were timed once more, step by step, and counts which experts each step chose.
Experts count_experts(const qi::Model& model, std::vector<qi::Session>& sessions, const BenchArgs& args) {
  const qinfer_model_info info = model.info();
  Experts experts{info.n_experts, info.n_active_experts, info.n_expert_layers, 0, 0};
  if (info.n_experts == 0 || args.decode == 0) return experts;
  const auto counts = [&] {
    std::vector<std::uint64_t> all;
    for (std::uint32_t layer = 0; layer < info.n_layers; ++layer)
      for (const std::uint64_t count : model.expert_counts(layer)) all.push_back(count);
    return all;
  };
  back_to_prompt(sessions, args.depth);
  std::uint64_t touched = 0;
  experts.steps = std::min(args.decode, kCountedSteps);
  for (std::uint32_t step = 0; step < experts.steps; ++step) {
    const std::vector<std::uint64_t> before = counts();
    for (qi::Session& session : sessions) session.sample();
    qi::eval(batch_of(sessions));
    const std::vector<std::uint64_t> after = counts();
    for (std::size_t i = 0; i < after.size(); ++i) touched += after[i] != before[i] ? 1 : 0;
  }
  experts.touched = static_cast<double>(touched) / experts.steps / experts.layers;
  return experts;
}

void measure_model(BenchArgs& args, const std::vector<std::uint32_t>& cpus, BenchReport& out) {
  qinfer_runtime_options options = runtime_options(args.runtime);
  options.n_threads = static_cast<std::uint32_t>(cpus.size());
  options.cpu_ids = cpus.data();
  options.n_cpu_ids = options.n_threads;
  qi::Runtime runtime(options);
  const qi::Model model = load_model(runtime, args.model);
  const qinfer_model_info info = model.info();
  fit_to_context(args, info.context_tokens);

  auto session_options = qi::options<qinfer_session_options>();
  session_options.max_tokens = std::max(args.prefill, args.depth + args.decode);
  auto cache_options = qi::options<qinfer_kv_cache_options>();
  cache_options.flags = QINFER_CACHE_COMMIT;  // so that no page fault is timed
  if (args.contiguous) cache_options.flags |= QINFER_CACHE_CONTIGUOUS;
  cache_options.kv_type = kv_type(args.kv);
  cache_options.block_tokens = kBlockTokens;
  const std::uint64_t blocks = (session_options.max_tokens + kBlockTokens - 1) / kBlockTokens;
  cache_options.budget_blocks = blocks * args.sessions;
  qi::KvCache cache(model, cache_options);
  std::vector<qi::Session> sessions;
  for (std::uint32_t i = 0; i < args.sessions; ++i) sessions.emplace_back(cache, session_options);

  report(format("running %u x prefill %u, decode %u", args.repetitions, args.prefill, args.decode));
  ConditionsMeter meter(cpus, std::uint64_t{args.read_mib} << 18,
                        multiplier_of(info.kernel_set, info.weight_format != nullptr ? info.weight_format : ""));
  if (args.prefill > 0)
    out.prefill = time_prefill(sessions[0], random_tokens(args.prefill, info.n_vocab), args.repetitions, meter);
  if (args.decode > 0) out.decode = time_decode(sessions, info.n_vocab, args, meter);
  out.experts = count_experts(model, sessions, args);
  out.prefill.tokens = args.prefill;
  out.decode.tokens = args.decode * args.sessions;
  out.depth = args.depth;
  out.sessions = args.sessions;
  out.kernel_set = info.kernel_set;
  const qinfer_memory plan = qi::plan(args.model, &options, nullptr, &cache_options);
  const double position_bytes = static_cast<double>(plan.kv_per_block) / kBlockTokens;
  out.work = count_work(model, out.experts, position_bytes, args.prefill, args.depth, args.decode);
  out.model_name = model_name(info, args.model);
  out.n_params = info.n_params;
  out.n_active_params = info.n_active_params;
  out.weight_format = info.weight_format != nullptr ? info.weight_format : "";
}

/// The kernel sets that this machine can run, after the one that the library chooses: its name is empty.
std::vector<std::string> targets_of(const BenchArgs& args) {
  std::vector<std::string> targets = {""};
  for (const qinfer_kernel_set_info& set : qi::kernel_sets())
    if ((set.flags & QINFER_KERNELS_USABLE) != 0 && (!args.runtime.exact || (set.flags & QINFER_KERNELS_EXACT) != 0))
      targets.emplace_back(set.name);
  return targets;
}

/// The peak of tiles, once a model has run on them: then the system lets this process use them.
void add_tile_peak(BenchReport& result) {
  if (kernels_need(result.kernel_set, "amx_bf16")) result.fma = measure_fma_peak(result.cpus, true);
}

/// Measures a model with one kernel set after the other. One that cannot take the model says why.
void compare_targets(BenchArgs& args, const BenchReport& machine) {
  std::string chosen;
  for (const std::string& target : targets_of(args)) {
    if (target == chosen && !chosen.empty()) continue;
    BenchReport result = machine;
    args.runtime.cpu_target = target;
    try {
      measure_model(args, result.cpus, result);
      add_tile_peak(result);
    } catch (const qi::Error& error) {
      if (chosen.empty()) throw;  // the library's own choice
      args.json ? report(target + ": " + error.what()) : print_row(target, error.what());
      continue;
    }
    if (args.json) {
      print_json(result);
    } else {
      if (chosen.empty()) print_comparison(result);
      print_target(result, chosen.empty());
    }
    if (chosen.empty()) chosen = result.kernel_set;
  }
}

/// Requests of several clients, instead of the model's speed.
int run_clients(const BenchArgs& args) {
  if (args.prefill == 0 || args.decode == 0) throw UsageError("clients need a prompt (-p) and tokens to decode (-n)");
  ClientsArgs clients;
  clients.cpus = choose_cpus(args.runtime.threads);
  clients.n = args.clients, clients.step_ms = args.step_ms, clients.requests = args.repetitions;
  clients.prompt = args.prefill, clients.decode = args.decode;
  clients.blocks = args.blocks, clients.park = args.park, clients.no_limit = args.no_limit;
  qinfer_runtime_options options = runtime_options(args.runtime);
  options.n_threads = static_cast<std::uint32_t>(clients.cpus.size());
  options.cpu_ids = clients.cpus.data();
  options.n_cpu_ids = options.n_threads;
  qi::Runtime runtime(options);
  const qi::Model model = load_model(runtime, args.model);
  if (args.arrival != 0)
    print_arrival(measure_arrival(model, kv_type(args.kv), clients, args.arrival), args.json);
  else
    print_clients(measure_clients(model, kv_type(args.kv), clients), args.json);
  return 0;
}

int run_bench(BenchArgs& args) {
  if (args.clients != 0) return run_clients(args);
  if (args.prefill == 0 && args.decode == 0) throw UsageError("-p 0 -n 0 leaves nothing to measure");
  BenchReport result;
  result.cpus = choose_cpus(args.runtime.threads);
  result.cpu = qi::cpu_info();
  result.cpu_name = qi::cpu_name();
  result.exact = args.runtime.exact;
  result.kv = args.kv;
  // What cannot work should say so now and not after the ceilings have been measured.
  const qinfer_runtime_options options = runtime_options(args.runtime);
  auto session = qi::options<qinfer_session_options>();
  session.max_tokens =
      std::max(args.prefill_given ? args.prefill : 0, args.decode_given ? args.decode + args.depth : 0);
  qi::plan(args.model, &options, nullptr, nullptr, &session);

  report(format("measuring the ceilings of %zu thread%s", result.cpus.size(), result.cpus.size() == 1 ? "" : "s"));
  result.fma = measure_fma_peak(result.cpus, false);
  result.bandwidth = measure_read_bandwidth(result.cpus, std::uint64_t{args.read_mib} << 20);
  if (args.all_targets) {
    compare_targets(args, result);
    return 0;
  }
  measure_model(args, result.cpus, result);
  add_tile_peak(result);
  args.json ? print_json(result) : print_table(result);
  return 0;
}

}  // namespace

void add_bench(Commands& commands) {
  auto args = std::make_shared<BenchArgs>();
  Options options = commands.add("bench", "Measure prefill and decode against what this machine can do");
  options.set_footer("Example:\n  qinfer bench model.gguf -p 512 -n 128");
  add_model_arg(options, args->model);
  const auto number = [&](const char* name, std::uint32_t& value, std::uint64_t lowest, const char* help) {
    return options.add(name, value, help).whole_number(lowest, 1u << 24).type_name("N");
  };
  const Option prefill = number("-p", args->prefill, 0, "Tokens of the prompt (default 512; 0 = no prefill)");
  const Option decode = number("-n", args->decode, 0, "Tokens to decode (default 64; 0 = no decode)");
  number("--depth", args->depth, 1, "Tokens in the context before the decoded ones (default 8)");
  number("--sessions", args->sessions, 1, "Sessions that decode in one batch (default 1)");
  Option clients =
      number("--clients", args->clients, 1, "Instead: clients that each send -r requests, one after the other");
  number("--step-ms", args->step_ms, 1, "With --clients: what a step of the scheduler should take (default 100)");
  number("--blocks", args->blocks, 1, "With --clients: blocks of 32 tokens of the cache (default: for all of them)");
  options.add("--park", args->park, "With --clients: park requests in this directory where blocks run out")
      .type_name("DIR");
  number("--arrival", args->arrival, 1,
         "With --clients: how they fare when a prompt of N tokens arrives, and how it does")
      .excludes("--blocks")
      .excludes("--park");
  options.flag("--no-limit", args->no_limit, "With --clients: requests do not say how many tokens they will decode");
  clients.excludes("--sessions");
  number("-r", args->repetitions, 1, "Repetitions, of which the median counts (default 5)");
  number("--read-mib", args->read_mib, 8, "Memory that is read to know its bandwidth, in MiB (default 2048)");
  add_kv_arg(options, args->kv);
  options.flag("--contiguous", args->contiguous, "Lay each session's blocks side by side in address space");
  add_runtime_args(options, args->runtime);
  options.flag("--json", args->json, "Print one JSON object (with --all-targets, one on each line)");
  options.flag("--all-targets", args->all_targets, "Compare all kernel sets that this CPU can run")
      .excludes("--cpu-target")
      .excludes("--clients");
  options.run([args, prefill, decode] {
    args->prefill_given = prefill.count() > 0;
    args->decode_given = decode.count() > 0;
    return run_bench(*args);
  });
}

}  // namespace cli
