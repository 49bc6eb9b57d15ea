// plan.cpp: `qinfer plan`: what loading and running will take, from headers alone; as a table with a bar, as JSON,
// buffer by buffer, or turned around: what fits into a number of bytes.
#include "plan.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "support.h"

namespace cli {

std::string amount(std::uint64_t bytes) {
  return format("%20s B  %s", with_commas(bytes).c_str(), human_bytes(bytes).c_str());
}

void print_model_memory(const qinfer_memory& memory) {
  print_row("weights mapped", amount(memory.weights_mapped));
  print_row("weights private", amount(memory.weights_private));
  print_row("tables", amount(memory.tables));
  print_row("scratch", amount(memory.scratch));
}

void print_parameters(const qinfer_model_details& details) {
  const auto count = [](std::uint64_t n) { return with_commas(n) + " (" + human_count(n) + ")"; };
  print_row("parameters", count(details.n_params));
  if (details.n_experts == 0) return;
  print_row("active", count(details.n_active_params) + " for each token");
  print_row("experts", format("%u, of which %u for each token, in %u of %u layers; width %u", details.n_experts,
                              details.n_active_experts, details.n_expert_layers, details.n_layers, details.expert_ffn));
  if (details.shared_ffn != 0) print_row("shared network", format("width %u", details.shared_ffn));
}

namespace {

struct Plan {
  qi::ModelDetails details{};
  qinfer_memory memory{};
  std::uint64_t total = 0;  // sessions included
};

struct PlanOptions {
  qinfer_runtime_options runtime;
  qinfer_load_options load = qi::options<qinfer_load_options>();
  qinfer_kv_cache_options cache = qi::options<qinfer_kv_cache_options>();
  qinfer_session_options session = qi::options<qinfer_session_options>();

  explicit PlanOptions(const PlanArgs& args) : runtime(runtime_options(args.runtime)) {
    if (args.normal_pages) runtime.flags |= QINFER_RUNTIME_NORMAL_PAGES;
    load.max_batch_tokens = args.batch;
    session.max_tokens = load.max_context = args.context;
    cache.kv_type = kv_type(args.kv);
    cache.block_tokens = args.block_tokens;
    if (args.prefix) cache.flags |= QINFER_CACHE_PREFIX;
  }
};

std::uint64_t times(std::uint64_t bytes, std::uint32_t sessions) {
  if (bytes > UINT64_MAX / 4 / sessions)
    throw Failure(
        format("%s B for each of %u sessions are more than can be counted", with_commas(bytes).c_str(), sessions));
  return bytes * sessions;
}

/// A cache for `sessions` sessions of `context` tokens.
Plan make_plan(const PlanArgs& args, PlanOptions& options) {
  Plan plan;
  plan.memory = qi::plan(args.model, &options.runtime, &options.load, &options.cache, &options.session);
  options.cache.budget_bytes = times(plan.memory.kv_per_session, args.sessions);
  plan.memory = qi::plan(args.model, &options.runtime, &options.load, &options.cache, &options.session);
  plan.total = plan.memory.total + times(plan.memory.per_session, args.sessions);
  return plan;
}

/// Where the memory goes, as a bar of 60 characters.
void print_bar(const PlanArgs& args, const Plan& plan) {
  const std::pair<char, std::uint64_t> parts[] = {
      {'W', plan.memory.weights_mapped + plan.memory.weights_private},
      {'T', plan.memory.tables},
      {'A', plan.memory.scratch},
      {'K', plan.memory.kv_cache_bytes + plan.memory.kv_lists},
      {'S', plan.memory.per_session * args.sessions},
  };
  constexpr double kWidth = 60;
  std::string bar;
  double position = 0;
  for (const auto& [letter, bytes] : parts) {
    position += kWidth * static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(plan.total, 1));
    bar.resize(std::max(bar.size(), static_cast<std::size_t>(std::lround(position))), letter);
  }
  print_row("", "[" + bar + "]");
  print_row("", "W weights  T tables  A activations  K keys and values  S sessions");
}

std::string described_sessions(const PlanArgs& args) {
  return format("%u session%s of %s", args.sessions, args.sessions == 1 ? "" : "s",
                args.context != 0 ? format("%u tokens", args.context).c_str() : "the model's context");
}

void print_plan(const PlanArgs& args, const Plan& plan) {
  print_row("for", format("%s, blocks of %u tokens", described_sessions(args).c_str(), args.block_tokens));
  print_parameters(plan.details);
  print_model_memory(plan.memory);
  print_row("KV per token", amount(plan.memory.kv_per_token));
  print_row("KV per block", amount(plan.memory.kv_per_block));
  print_row("KV per session", amount(plan.memory.kv_per_session));
  print_row("KV cache", amount(plan.memory.kv_cache_bytes));
  print_row("KV lists", amount(plan.memory.kv_lists));
  print_row("per session", amount(plan.memory.per_session));
  print_row(format("sessions x %u", args.sessions), amount(plan.memory.per_session * args.sessions));
  print_row("weights active", amount(plan.memory.active_weight_bytes));
  print_row("load peak", amount(plan.memory.load_peak));
  print_row("total", amount(plan.total));
  print_bar(args, plan);
  if (plan.memory.system_limit != 0) print_row("system limit", amount(plan.memory.system_limit));
  if (plan.memory.system_available != 0) print_row("available now", amount(plan.memory.system_available));
}

void print_plan_json(const PlanArgs& args, const Plan& plan) {
  const std::pair<const char*, std::uint64_t> fields[] = {
      {"sessions", args.sessions},
      {"block_tokens", args.block_tokens},
      {"weights_mapped", plan.memory.weights_mapped},
      {"weights_private", plan.memory.weights_private},
      {"tables", plan.memory.tables},
      {"scratch", plan.memory.scratch},
      {"kv_per_token", plan.memory.kv_per_token},
      {"kv_per_block", plan.memory.kv_per_block},
      {"kv_per_session", plan.memory.kv_per_session},
      {"kv_cache_bytes", plan.memory.kv_cache_bytes},
      {"kv_lists", plan.memory.kv_lists},
      {"per_session", plan.memory.per_session},
      {"all_sessions", plan.memory.per_session * args.sessions},
      {"load_peak", plan.memory.load_peak},
      {"total", plan.total},
      {"system_limit", plan.memory.system_limit},
      {"system_available", plan.memory.system_available},
      {"active_weight_bytes", plan.memory.active_weight_bytes},
      {"expert_weight_bytes", plan.memory.expert_weight_bytes},
      {"n_params", plan.details.n_params},
      {"n_active_params", plan.details.n_active_params},
      {"n_experts", plan.details.n_experts},
      {"n_active_experts", plan.details.n_active_experts},
      {"n_expert_layers", plan.details.n_expert_layers},
  };
  std::string text = "{\"model\": " + json_string(args.model) +
                     ", \"context\": " + (args.context != 0 ? std::to_string(args.context) : "null");  // the model's
  for (const auto& [name, value] : fields) text += ", \"" + std::string(name) + "\": " + std::to_string(value);
  print(text + "}\n");
}

/// Whether the plan stays within the bytes. What cannot be addressed does not fit either.
bool fits(const PlanArgs& args) {
  try {
    PlanOptions options(args);
    return make_plan(args, options).total <= args.fit;
  } catch (const Failure&) {
    return false;
  } catch (const qi::Error& error) {
    if (error.status() == QINFER_E_NO_MEMORY) return false;
    throw;
  }
}

/// The longest context for which the plan stays within the bytes; 0 if not even the shortest does.
std::uint32_t longest_context(const PlanArgs& args, std::uint32_t most) {
  std::uint32_t enough = 0, too_many = most + 1;
  while (too_many - enough > 1) {
    PlanArgs tried = args;
    tried.context = enough + (too_many - enough) / 2;
    (fits(tried) ? enough : too_many) = tried.context;
  }
  return enough;
}

/// The most sessions of the chosen context, and the longest context of the chosen number of sessions.
int print_fit(const PlanArgs& args, std::uint32_t most_tokens) {
  PlanArgs tried = args;
  const std::uint32_t context = longest_context(tried, most_tokens);
  if (context == 0)
    throw Failure(format("%s B hold not even %s of 1 token", with_commas(args.fit).c_str(),
                         args.sessions == 1 ? "1 session" : format("%u sessions", args.sessions).c_str()));
  print_row("longest context", format("%u tokens x %u sessions", context, args.sessions));
  if (args.context == 0) tried.context = context;
  std::uint32_t enough = 0, too_many = 1u << 20;
  while (too_many - enough > 1) {
    tried.sessions = enough + (too_many - enough) / 2;
    (fits(tried) ? enough : too_many) = tried.sessions;
  }
  print_row("most sessions", format("%u x %u tokens", enough, tried.context));
  return 0;
}

/// Layers [first, first + n) with their part of the cache.
StageBytes bytes_of_stage(const PlanArgs& args, std::uint32_t first, std::uint32_t n) {
  PlanOptions options(args);
  options.load.first_layer = first;
  options.load.n_layers = n;
  const Plan plan = make_plan(args, options);
  return {plan.total, plan.memory.active_weight_bytes};
}

int run_plan(const PlanArgs& args) {
  if (args.map + (args.fit != 0) + !args.split.empty() > 1)
    throw UsageError("give one of --map, --fit and --split, not more");
  PlanOptions options(args);
  if (!args.split.empty())
    return print_split(args, qi::inspect(args.model, options.load).n_layers,
                       [&](std::uint32_t first, std::uint32_t n) { return bytes_of_stage(args, first, n); });
  if (args.fit != 0) return print_fit(args, qi::inspect(args.model, options.load).context_tokens);
  Plan plan = make_plan(args, options);
  plan.details = qi::inspect(args.model, options.load);
  if (args.map) {
    const std::string map = qi::plan_map(args.model, &options.runtime, &options.load, &options.cache, &options.session);
    args.json ? print(map + "\n") : print_map(map);
    return 0;
  }
  args.json ? print_plan_json(args, plan) : print_plan(args, plan);
  return 0;
}

}  // namespace

void add_plan(Commands& commands) {
  auto args = std::make_shared<PlanArgs>();
  Options options = commands.add("plan", "Show the memory that loading and running will take, to the byte");
  options.set_footer("Example:\n  qinfer plan model.gguf --context 4096 --sessions 8");
  add_model_arg(options, args->model, "Model directory, GGUF file, packed file, or a lone config.json");
  const auto number = [&](const char* name, auto& value, std::uint64_t highest, const char* help) {
    options.add(name, value, help).whole_number(1, highest).type_name("N");
  };
  number("--context", args->context, 1u << 30, "Tokens per session (default: the model's context)");
  number("--sessions", args->sessions, 1u << 20, "Sessions at once (default 1)");
  number("--block-tokens", args->block_tokens, 256, "Tokens per KV block, a power of two from 32 (default 32)");
  number("--batch", args->batch, 1u << 16, "Tokens evaluated in one pass (default 512)");
  options
      .add("--fit", args->fit, "Say what fits into so many bytes (200MiB, 8GB): how long a context, how many sessions")
      .bytes(1, UINT64_MAX / 2)
      .type_name("BYTES");
  options
      .add("--split", args->split,
           "Say where to cut the model into stages for so many machines, or for these with so many bytes each (--split "
           "2, --split 16GiB 8GiB)")
      .bytes(1, UINT64_MAX / 2)
      .type_name("N or BYTES ...");
  add_kv_arg(options, args->kv);
  add_runtime_args(options, args->runtime);
  options.flag("--prefix", args->prefix, "With a cache that keeps prefixes");
  options.flag("--normal-pages", args->normal_pages, "Without 2 MiB pages");
  options.flag("--json", args->json, "Print one JSON object");
  options.flag("--map", args->map, "Print every buffer; with --json as one JSON object");
  options.run([args] { return run_plan(*args); });
}

}  // namespace cli
