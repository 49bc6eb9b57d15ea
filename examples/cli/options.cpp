// options.cpp: see options.h.
#include "options.h"

#include <qinfer/qinfer.hpp>
#include <string_view>

#include "hub.h"
#include "support.h"

namespace cli {

void add_runtime_args(Options& options, RuntimeArgs& args) {
  options.add("-t,--threads", args.threads, "Compute threads (default: physical cores)")
      .whole_number(1, 4096)
      .type_name("N");
  options.add("--cpu-target", args.cpu_target, "Kernel set, e.g. reference (default: best for this CPU)")
      .type_name("T");
  options.flag("--exact", args.exact, "f32 activations and sums");
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

void add_kv_arg(Options& options, std::string& kv) {
  options.add("--kv", kv, "Type of the KV cache").one_of({"f32", "f16", "bf16"}).type_name("TYPE");
}

int32_t kv_type(const std::string& kv) {
  if (kv == "f32") return QINFER_KV_F32;
  if (kv == "f16") return QINFER_KV_F16;
  if (kv == "bf16") return QINFER_KV_BF16;
  return QINFER_KV_DEFAULT;
}

void add_draft_arg(Options& options, std::uint32_t& max_draft) {
  options
      .add(
          "--draft", max_draft,
          "Tokens that are guessed ahead from earlier text, which costs memory and changes no text (default 8; at most "
          "16; 0 = none)")
      .whole_number(0, 16)
      .type_name("N");
}

void add_sampler_args(Options& options, qinfer_sampler_options& sampler) {
  const auto real = [&](const char* name, float& value, double highest, const char* help) {
    options.add(name, value, help).real_number(0, highest).type_name("X");
  };
  real("--temp", sampler.temperature, 1000, "Temperature; 0 is greedy (default 0; in chat as the model says)");
  real("--top-p", sampler.top_p, 1, "Keep the likeliest tokens that together reach this probability");
  real("--min-p", sampler.min_p, 1, "Drop tokens less likely than this share of the likeliest");
  real("--repeat-penalty", sampler.repeat_penalty, 1000, "Divide the logits of tokens that occurred (1 = off)");
  options.add("--top-k", sampler.top_k, "Keep the K likeliest tokens").whole_number(0, 1u << 30).type_name("K");
  options.add("--seed", sampler.seed, "Equal seeds give equal texts (default 0)")
      .whole_number(0, UINT64_MAX)
      .type_name("S");
}

void add_model_arg(Options& options, std::string& model, const char* help, std::string (*find)(const std::string&)) {
  const char* any =
      "Directory with config.json, *.safetensors and tokenizer.json, a GGUF file, a packed file, or the id of a "
      "model in the Hugging Face cache (Qwen/Qwen3-0.6B)";
  options.add("MODEL", model, help != nullptr ? help : any)
      .required()
      .replaced_by([find](const std::string& path) { return find != nullptr ? find(path) : find_model(path); })
      .type_name("");
}

}  // namespace cli
