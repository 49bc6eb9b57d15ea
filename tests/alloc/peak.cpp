// peak_memory: the largest resident memory of a whole run (load, prompt, decoding, sessions) beside the plan.
//
//   peak_memory make DIR         writes a model of some 110 MB, and another in a split GGUF file
//   peak_memory run DIR MODE     MODE: default, read (no mmap), mapped (weights as in the file), contiguous; quantised,
//                                quantised-read: the other model, Q4_K and Q6_K. Prints plan and peak, and fails if
//                                they differ by more than 2 % and 20 MiB of code and bookkeeping
#include <qinfer/qinfer.hpp>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "support/checkpoint_writer.h"
#include "support/gguf_writer.h"

namespace {

constexpr double kMiB = 1 << 20;

constexpr std::uint32_t kVocab = 16000, kContext = 1024;

/// The mix that llama-quantize calls Q4_K_M: 6 bits for the embedding, and in half of the layers for two matrices.
void make_quantised(const std::string& path) {
  constexpr std::uint32_t kQ4K = 12, kQ6K = 14;
  qinfer::test::GgufFile file = qinfer::test::tiny_gguf({.hidden = 512,
                                                         .heads = 8,
                                                         .kv_heads = 4,
                                                         .ffn = 2048,
                                                         .layers = 40,
                                                         .vocab = kVocab,
                                                         .context = kContext,
                                                         .type = kQ4K,
                                                         .tokenizer = false});
  for (qinfer::test::GgufTestTensor& tensor : file.tensors) {
    const bool often =
        tensor.name.find("ffn_down") != tensor.name.npos || tensor.name.find("attn_v") != tensor.name.npos;
    const bool even = often && std::stoi(tensor.name.substr(4)) % 2 == 0;
    if (tensor.name != "token_embd.weight" && !even) continue;
    tensor.type = kQ6K;
    tensor.data = qinfer::test::gguf_data(kQ6K, tensor.dims[0] * tensor.dims[1]);
  }
  for (const auto& [name, bytes] : qinfer::test::split_gguf(file, 3))
    std::ofstream(path + "/" + name, std::ios::binary) << bytes;
}

void make(const std::string& path) {
  qinfer::test::TinySpec spec;
  spec.architecture = "Qwen3ForCausalLM";
  spec.hidden = 512, spec.heads = 8, spec.kv_heads = 4, spec.head_dim = 64, spec.ffn = 2048, spec.layers = 10;
  spec.vocab = kVocab, spec.context_tokens = kContext, spec.tied = true, spec.dtype = qinfer::DType::bf16;
  const qinfer::test::ModelDir built(spec);
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"})
    std::ofstream(path + "/" + name, std::ios::binary) << built.read(name);
  make_quantised(path);
}

/// In bytes: "VmHWM:   1234 kB".
double peak() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) * 1024;
  return 0;
}

int run(const std::string& folder, const std::string& mode) {
  const std::string path = folder + (mode.starts_with("quantised") ? "/m-00001-of-00003.gguf" : "");
  auto runtime_options = qi::options<qinfer_runtime_options>();
  runtime_options.n_threads = 2;
  runtime_options.flags = QINFER_RUNTIME_NORMAL_PAGES;
  if (mode == "mapped") runtime_options.cpu_target = "reference";
  auto load = qi::options<qinfer_load_options>();
  if (mode.ends_with("read")) load.flags = QINFER_LOAD_NO_MMAP;
  auto cache_options = qi::options<qinfer_kv_cache_options>();
  if (mode == "contiguous") cache_options.flags = QINFER_CACHE_CONTIGUOUS;
  // The reference takes 20 s for a whole context.
  const std::uint32_t n_tokens = mode == "mapped" ? kContext / 2 : kContext;
  cache_options.block_tokens = 64;
  cache_options.budget_blocks = n_tokens / cache_options.block_tokens;
  auto session_options = qi::options<qinfer_session_options>();
  session_options.max_logits = 8;
  const qinfer_memory plan = qi::plan(path, &runtime_options, &load, &cache_options, &session_options);
  qi::Runtime runtime(runtime_options);
  const qi::Model model = qi::Model::load(runtime, path, load);
  const double loading = peak(), to_load = static_cast<double>(plan.load_peak);
  qi::KvCache cache(model, cache_options);
  qi::Session session(cache, session_options);
  auto sampler = qi::options<qinfer_sampler_options>();
  sampler.temperature = 1;
  sampler.repeat_penalty = 1.1f;
  session.set_sampler(sampler);
  // All that was planned is used: every block, all rows of a batch.
  std::vector<qinfer_token> tokens(n_tokens - 8);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<qinfer_token>(i * 7919 % kVocab);
  session.append(tokens);
  auto eval_options = qi::options<qinfer_eval_options>();
  eval_options.keep_logits = 8;
  session.eval(eval_options);
  for (int i = 0; i < 7; ++i) {
    session.sample();
    session.eval();
  }
  const double planned = static_cast<double>(plan.total + plan.per_session), taken = peak();
  std::printf("%s: planned %.1f MiB, peak %.1f MiB; for loading %.1f MiB, peak %.1f MiB\n", mode.c_str(),
              planned / kMiB, taken / kMiB, to_load / kMiB, loading / kMiB);
  const bool loads_as_planned = loading <= to_load * 1.02 + 20 * kMiB;
  return loads_as_planned && taken >= planned * 0.98 && taken <= planned * 1.02 + 20 * kMiB ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "make") == 0) return make(argv[2]), 0;
  if (argc == 4 && std::strcmp(argv[1], "run") == 0) return run(argv[2], argv[3]);
  return std::fputs("usage: peak_memory make DIR | run DIR MODE\n", stderr), 2;
}
