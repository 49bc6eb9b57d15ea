// info.cpp: `qinfer info`: what a model is, its tokenizer, the kernel set and the memory that it took.
#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "plan.h"
#include "support.h"

namespace cli {
namespace {

struct InfoArgs {
  std::string model;
  RuntimeArgs runtime;
};

std::string end_tokens(const qi::Model& model) {
  std::string text;
  for (const qi::Token token : model.end_tokens()) {
    if (!text.empty()) text += ", ";
    text += std::to_string(token) + " " + json_string(model.token_text(token));
  }
  return text.empty() ? "none" : text;
}

/// "q4_k 60 %, q6_k 40 %, f32 0 %: 5.24 bits a weight", of the bytes.
std::string encodings(const qi::Model& model) {
  const std::vector<qinfer_encoding_info> list = model.encodings();
  std::uint64_t bytes = 0, params = 0;
  for (const qinfer_encoding_info& info : list) bytes += info.file_bytes, params += info.n_params;
  std::string text;
  for (const qinfer_encoding_info& info : list) {
    if (!text.empty()) text += ", ";
    text += info.name + format(" %.1f %%", 100.0 * static_cast<double>(info.file_bytes) / static_cast<double>(bytes));
  }
  return text + format(": %.3f bits a weight", 8.0 * static_cast<double>(bytes) / static_cast<double>(params));
}

/// What is made of texts, where the model's files tell more than its sizes.
void print_texts(const qi::Model& model, const qinfer_model_info& info) {
  const std::vector<std::string> prompts = model.prompt_names();
  const bool tells = info.embedding_dims != info.n_embd || info.embedding_tokens != info.context_tokens;
  const char* pooling = info.pooling == QINFER_POOL_MEAN    ? "the mean"
                        : info.pooling == QINFER_POOL_FIRST ? "the first token"
                                                            : "the last token";
  if ((info.flags & QINFER_MODEL_ENCODER) != 0 || tells || !prompts.empty())
    print_row("text vectors",
              format("%u values of %s, for at most %u tokens", info.embedding_dims, pooling, info.embedding_tokens));
  std::string names;
  for (const std::string& name : prompts) names += (names.empty() ? "" : ", ") + name;
  if (!names.empty()) print_row("prompts", names);
  if (info.scoring != QINFER_SCORING_NONE)
    print_row("scores", info.scoring == QINFER_SCORING_CLASSIFIER ? "by a classifier" : "by the logits of two tokens");
}

void print_model(const qi::Model& model, const qinfer_model_info& info, const std::string& path) {
  print_row("model", model_name(info, path));
  print_row("architecture", info.architecture != nullptr ? info.architecture : "");
  print_parameters(qi::inspect(path));
  print_row("files", with_commas(info.file_bytes) + " B (" + human_bytes(info.file_bytes) + ")");
  print_row("stored as", encodings(model));
  print_row("weight format", info.weight_format != nullptr ? info.weight_format : "");
  print_row("layers", std::to_string(info.n_layers));
  print_row("embedding", std::to_string(info.n_embd));
  print_row("heads", format("%u, %u for keys and values, of %u", info.n_heads, info.n_kv_heads, info.head_dim));
  print_row("context", format("%u tokens", info.context_tokens));
  print_row("vocabulary", format("%u tokens of up to %u bytes", info.n_vocab, info.max_token_bytes));
  print_row("begin token", info.bos_token < 0
                               ? "none"
                               : std::to_string(info.bos_token) + " " + json_string(model.token_text(info.bos_token)));
  print_row("end tokens", end_tokens(model));
  print_texts(model, info);
  for (std::size_t i = 0; i < model.meta_count(); ++i)
    if (const std::string key(model.meta_key(i)); key.rfind("qinfer.note.", 0) == 0)
      print_row("note", std::string(model.meta(key).value_or("")));
}

int run_info(const InfoArgs& args) {
  qi::Runtime runtime(runtime_options(args.runtime));
  // Weights included: without them the library knows neither how many there are nor in what format.
  const qi::Model model = load_model(runtime, args.model);
  const qinfer_cpu_info cpu = qi::cpu_info();
  print_model(model, model.info(), args.model);
  print_row("cpu", qi::cpu_name());
  print_row("cores", format("%u physical, %u logical, %u NUMA nodes", cpu.n_physical_cores, cpu.n_logical_cores,
                            cpu.n_numa_nodes));
  print_row("cpu features", qi::cpu_features());
  print_row("kernel set", model.info().kernel_set);
  const qinfer_memory memory = model.memory();
  print_model_memory(memory);
  print_row("total", amount(memory.total));
  print_row("weights active", amount(memory.active_weight_bytes));
  return 0;
}

}  // namespace

void add_info(Commands& commands) {
  auto args = std::make_shared<InfoArgs>();
  Options options = commands.add("info", "Show a model, its tokenizer, the kernel set and the memory to expect");
  options.set_footer("Example:\n  qinfer info Qwen/Qwen3-0.6B");
  add_model_arg(options, args->model);
  add_runtime_args(options, args->runtime);
  options.run([args] { return run_info(*args); });
}

}  // namespace cli
