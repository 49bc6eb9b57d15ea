// options.cpp: see options.h.
#include "options.h"

#include <charconv>
#include <cmath>
#include <qinfer/qinfer.hpp>
#include <string_view>

#include "hub.h"
#include "support.h"

namespace cli {

CLI::Validator whole_number(std::uint64_t lowest, std::uint64_t highest) {
  const auto check = [lowest, highest](const std::string& text) -> std::string {
    std::uint64_t value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool decimal = text.size() == 1 || (!text.empty() && text.front() != '0');
    if (error == std::errc() && stop == text.data() + text.size() && decimal && value >= lowest && value <= highest) {
      return {};
    }
    return json_string(text) + " is not a whole number from " + std::to_string(lowest) + " to " +
           std::to_string(highest);
  };
  return CLI::Validator(check, "");
}

CLI::Validator real_number(double lowest, double highest) {
  const auto check = [lowest, highest](const std::string& text) -> std::string {
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && stop == text.data() + text.size() && std::isfinite(value) && value >= lowest &&
        value <= highest) {
      return {};
    }
    return format("%s is not a number from %g to %g", json_string(text.substr(0, 100)).c_str(), lowest, highest);
  };
  return CLI::Validator(check, "");
}

void add_runtime_args(CLI::App& command, RuntimeArgs& args) {
  command.add_option("-t,--threads", args.threads, "Compute threads (default: physical cores)")
      ->check(whole_number(1, 4096))
      ->type_name("N");
  command.add_option("--cpu-target", args.cpu_target, "Kernel set, e.g. reference (default: best for this CPU)")
      ->type_name("T");
  command.add_flag("--exact", args.exact, "f32 activations and sums");
}

namespace {

void print_log(int32_t level, const char* line, size_t line_len, void*) {
  const char* kind = level == QINFER_LOG_ERROR ? "error: " : level == QINFER_LOG_WARN ? "warning: " : "";
  try {
    report(std::string(kind).append(line, line_len));
  } catch (const std::exception&) {  // out of memory: the C code that called must not see an exception
  }
}

}  // namespace

qinfer_runtime_options runtime_options(const RuntimeArgs& args) {
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = args.threads;
  options.log = print_log;
  options.flags = args.exact ? QINFER_RUNTIME_EXACT : 0;
  options.cpu_target = args.cpu_target.empty() ? nullptr : args.cpu_target.c_str();
  return options;
}

void add_kv_arg(CLI::App& command, std::string& kv) {
  const auto check = [](const std::string& text) -> std::string {
    if (text == "f32" || text == "f16" || text == "bf16") return {};
    return json_string(text) + " is not one of f32, f16, bf16";
  };
  command.add_option("--kv", kv, "Type of the KV cache: f32, f16 or bf16")
      ->check(CLI::Validator(check, ""))
      ->type_name("TYPE");
}

int32_t kv_type(const std::string& kv) {
  if (kv == "f32") return QINFER_KV_F32;
  if (kv == "f16") return QINFER_KV_F16;
  if (kv == "bf16") return QINFER_KV_BF16;
  return QINFER_KV_DEFAULT;
}

void add_sampler_args(CLI::App& command, qinfer_sampler_options& sampler) {
  const auto real = [&](const char* name, float& value, double highest, const char* help) {
    command.add_option(name, value, help)->check(real_number(0, highest))->type_name("X");
  };
  real("--temp", sampler.temperature, 1000, "Temperature (default 0: greedy)");
  real("--top-p", sampler.top_p, 1, "Keep the likeliest tokens that together reach this probability");
  real("--min-p", sampler.min_p, 1, "Drop tokens less likely than this share of the likeliest");
  real("--repeat-penalty", sampler.repeat_penalty, 1000, "Divide the logits of tokens that occurred (1 = off)");
  command.add_option("--top-k", sampler.top_k, "Keep the K likeliest tokens")
      ->check(whole_number(0, 1u << 30))
      ->type_name("K");
  command.add_option("--seed", sampler.seed, "Equal seeds give equal texts (default 0)")
      ->check(whole_number(0, UINT64_MAX))
      ->type_name("S");
}

void add_model_arg(CLI::App& command, std::string& model) {
  command
      .add_option(
          "MODEL", model,
          "Directory with config.json, *.safetensors and tokenizer.json, a GGUF file, a packed file, or the id of a "
          "model in the Hugging Face cache (Qwen/Qwen3-0.6B)")
      ->required()
      ->transform(CLI::Validator([](std::string& path) { return path = find_model(path), std::string(); }, ""))
      ->type_name("");
}

}  // namespace cli
