// info_plan.cpp: `qinfer info` and `qinfer plan`: what a model is and what it takes. plan reads headers only.
#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "support.h"

namespace cli {
namespace {

struct InfoArgs {
  std::string model;
  RuntimeArgs runtime;
};

std::string end_tokens(const qi::Model& model, std::uint32_t n_vocab) {
  std::string text;
  for (std::uint32_t i = 0; i < n_vocab; ++i) {
    const auto token = static_cast<qinfer_token>(i);
    if ((model.token_flags(token) & QINFER_TOKEN_END) == 0) continue;
    if (!text.empty()) text += ", ";
    text += std::to_string(i) + " " + json_string(model.token_text(token));
  }
  return text.empty() ? "none" : text;
}

void print_model(const qi::Model& model, const qinfer_model_info& info, const std::string& path) {
  print_row("model", model_name(info, path));
  print_row("architecture", info.architecture != nullptr ? info.architecture : "");
  print_row("parameters", with_commas(info.n_params) + " (" + human_count(info.n_params) + ")");
  print_row("files", with_commas(info.file_bytes) + " B (" + human_bytes(info.file_bytes) + ")");
  print_row("weight format", info.weight_format != nullptr ? info.weight_format : "");
  print_row("layers", std::to_string(info.n_layers));
  print_row("embedding", std::to_string(info.n_embd));
  print_row("heads", format("%u, %u for keys and values, of %u", info.n_heads, info.n_kv_heads, info.head_dim));
  print_row("context", format("%u tokens", info.context_tokens));
  print_row("vocabulary", format("%u tokens of up to %u bytes", info.n_vocab, info.max_token_bytes));
  print_row("begin token", info.bos_token < 0
                               ? "none"
                               : std::to_string(info.bos_token) + " " + json_string(model.token_text(info.bos_token)));
  print_row("end tokens", end_tokens(model, info.n_vocab));
}

std::string amount(std::uint64_t bytes) {
  return format("%20s B  %s", with_commas(bytes).c_str(), human_bytes(bytes).c_str());
}

void print_model_memory(const qinfer_memory& memory) {
  print_row("weights mapped", amount(memory.weights_mapped));
  print_row("weights private", amount(memory.weights_private));
  print_row("tables", amount(memory.tables));
  print_row("scratch", amount(memory.scratch));
}

int run_info(const InfoArgs& args) {
  qi::Runtime runtime(runtime_options(args.runtime));
  // Weights included: without them the library knows neither how many there are nor in what format.
  const qi::Model model = load_model(runtime, args.model);
  const qinfer_cpu_info cpu = qi::cpu_info();
  print_model(model, model.info(), args.model);
  print_row("cpu", cpu.model_name);
  print_row("cores", format("%u physical, %u logical, %u NUMA nodes", cpu.n_physical_cores, cpu.n_logical_cores,
                            cpu.n_numa_nodes));
  print_row("cpu features", cpu.features);
  print_row("kernel set", args.runtime.cpu_target.empty() ? cpu.target : args.runtime.cpu_target.c_str());
  const qinfer_memory memory = model.memory();
  print_model_memory(memory);
  print_row("total", amount(memory.total));
  return 0;
}

struct PlanArgs {
  std::string model, kv;
  RuntimeArgs runtime;
  std::uint32_t context = 0, sessions = 1, block_tokens = 32, batch = 0;
  bool json = false;
};

struct Plan {
  qinfer_memory memory{};
  std::uint64_t blocks = 0;
  std::uint64_t total = 0;  // sessions included
};

/// A cache for `sessions` sessions of `context` tokens.
Plan make_plan(const PlanArgs& args) {
  const qinfer_runtime_options runtime = runtime_options(args.runtime);
  auto load = qi::options<qinfer_load_options>();
  load.max_batch_tokens = args.batch;
  auto session = qi::options<qinfer_session_options>();
  session.max_tokens = args.context;
  auto cache = qi::options<qinfer_kv_cache_options>();
  cache.kv_type = kv_type(args.kv);
  cache.block_tokens = args.block_tokens;

  Plan plan;
  std::uint64_t per_session = (std::uint64_t{args.context} + args.block_tokens - 1) / args.block_tokens;
  if (args.context == 0) {  // the library knows the context of the model: a default cache holds one session of it
    plan.memory = qi::plan(args.model, &runtime, &load, &cache, &session);
    per_session = plan.memory.kv_per_block != 0 ? plan.memory.kv_cache_bytes / plan.memory.kv_per_block : 0;
  }
  plan.blocks = per_session * args.sessions;
  cache.budget_blocks = plan.blocks;
  plan.memory = qi::plan(args.model, &runtime, &load, &cache, &session);
  plan.total = plan.memory.total + plan.memory.per_session * args.sessions;
  return plan;
}

void print_plan(const PlanArgs& args, const Plan& plan) {
  print_row("for",
            format("%u session%s of %s, blocks of %u tokens, %s blocks", args.sessions, args.sessions == 1 ? "" : "s",
                   args.context != 0 ? format("%u tokens", args.context).c_str() : "the model's context",
                   args.block_tokens, with_commas(plan.blocks).c_str()));
  print_model_memory(plan.memory);
  print_row("KV per block", amount(plan.memory.kv_per_block));
  print_row("KV cache", amount(plan.memory.kv_cache_bytes));
  print_row("per session", amount(plan.memory.per_session));
  print_row(format("sessions x %u", args.sessions), amount(plan.memory.per_session * args.sessions));
  print_row("load peak", amount(plan.memory.load_peak));
  print_row("total", amount(plan.total));
}

void print_plan_json(const PlanArgs& args, const Plan& plan) {
  const std::pair<const char*, std::uint64_t> fields[] = {
      {"sessions", args.sessions},
      {"block_tokens", args.block_tokens},
      {"blocks", plan.blocks},
      {"weights_mapped", plan.memory.weights_mapped},
      {"weights_private", plan.memory.weights_private},
      {"tables", plan.memory.tables},
      {"scratch", plan.memory.scratch},
      {"kv_per_block", plan.memory.kv_per_block},
      {"kv_cache_bytes", plan.memory.kv_cache_bytes},
      {"per_session", plan.memory.per_session},
      {"all_sessions", plan.memory.per_session * args.sessions},
      {"load_peak", plan.memory.load_peak},
      {"total", plan.total},
  };
  std::string text = "{\"model\": " + json_string(args.model) +
                     ", \"context\": " + (args.context != 0 ? std::to_string(args.context) : "null");  // the model's
  for (const auto& [name, value] : fields) text += ", \"" + std::string(name) + "\": " + std::to_string(value);
  print(text + "}\n");
}

int run_plan(const PlanArgs& args) {
  const Plan plan = make_plan(args);
  args.json ? print_plan_json(args, plan) : print_plan(args, plan);
  return 0;
}

}  // namespace

void add_info(CLI::App& app, Command& chosen) {
  auto args = std::make_shared<InfoArgs>();
  CLI::App* command =
      app.add_subcommand("info", "Show a model, its tokenizer, the kernel set and the memory to expect");
  add_model_arg(*command, args->model);
  add_runtime_args(*command, args->runtime);
  command->callback([args, &chosen] { chosen = [args] { return run_info(*args); }; });
}

void add_plan(CLI::App& app, Command& chosen) {
  auto args = std::make_shared<PlanArgs>();
  CLI::App* command = app.add_subcommand("plan", "Show the memory that loading and running will take, to the byte");
  add_model_arg(*command, args->model);
  const auto number = [&](const char* name, std::uint32_t& value, std::uint64_t highest, const char* help) {
    command->add_option(name, value, help)->check(whole_number(1, highest))->type_name("N");
  };
  number("--context", args->context, 1u << 30, "Tokens per session (default: the model's context)");
  number("--sessions", args->sessions, 1u << 20, "Sessions at once (default 1)");
  number("--block-tokens", args->block_tokens, 256, "Tokens per KV block, a power of two from 32 (default 32)");
  number("--batch", args->batch, 1u << 20, "Tokens evaluated in one pass (default 512)");
  add_kv_arg(*command, args->kv);
  add_runtime_args(*command, args->runtime);
  command->add_flag("--json", args->json, "Print one JSON object");
  command->callback([args, &chosen] { chosen = [args] { return run_plan(*args); }; });
}

}  // namespace cli
