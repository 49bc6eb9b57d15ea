// layers: how fast a model's layers are without the LM head, on which a model of few layers spends most of its time,
// and the ceilings of the machine, measured on the same threads before; one line of JSON for each.
//
//   layers MODEL [-t THREADS] [--cpu-target T] [-p TOKENS] [-n STEPS] [--sessions 1 4 8 16] [-r REPETITIONS]
//
// MODEL is a directory that make_checkpoint wrote, dense or a mixture of experts. Tokens are not sampled but the same
// random ones in every run. What a step has to read is counted: weights of the layers, of a mixture only the experts
// that some session's token used (the library counts them), and the keys and values of all sessions; norms are left
// out.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <qinfer/qinfer.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ceilings.h"
#include "statistics.h"
#include "support.h"

namespace cli {
namespace {

using qinfer::bench::quantile;

constexpr std::uint32_t kPrompt = 8;  // tokens of a session before those that are decoded
constexpr std::uint32_t kBlock = 32;  // tokens of a block of keys and values

struct LayersArgs {
  std::string model, target;
  std::uint32_t threads = 0, prefill = 512, steps = 32, repetitions = 5;
  std::vector<std::uint32_t> sessions = {1, 4, 8, 16};
  std::vector<std::uint32_t> cpus;
};

/// What a layer has, in parameters.
struct LayerShape {
  double layers = 0, attention = 0, router = 0, network = 0;  // network: one expert, or the dense one
  double experts = 0, top_k = 1;                              // experts: 0 where the layers are dense
  double heads_width = 0;

  explicit LayerShape(const std::filesystem::path& directory) {
    std::ifstream file(directory / "config.json");
    if (!file) throw Failure("no config.json in " + directory.string());
    const nlohmann::json config = nlohmann::json::parse(file);
    const std::string type = config.at("model_type");
    if (type != "qwen3" && type != "qwen3_moe") throw Failure("layers counts Qwen3 and Qwen3-MoE, not " + type);
    const bool mixture = type == "qwen3_moe";
    if (mixture &&
        (config.value("decoder_sparse_step", 1) != 1 || !config.value("mlp_only_layers", nlohmann::json()).empty()))
      throw Failure("some layers of this model are dense, others not: they are not counted here");
    const auto number = [&](const char* key) { return config.at(key).get<double>(); };
    const double hidden = number("hidden_size");
    layers = number("num_hidden_layers");
    heads_width = number("num_attention_heads") * number("head_dim");
    attention = 2 * hidden * (heads_width + number("num_key_value_heads") * number("head_dim"));
    if (mixture) {
      experts = number("num_experts");
      top_k = number("num_experts_per_tok");
      router = experts * hidden;
    }
    network = 3 * hidden * number(mixture ? "moe_intermediate_size" : "intermediate_size");
  }

  /// Parameters of all layers that a pass reads which uses `used` experts of each; dense layers have one network.
  double parameters(double used) const { return layers * (attention + router + used * network); }
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

qinfer_eval_options layers_only() {
  auto options = qi::options<qinfer_eval_options>();
  options.flags = QINFER_EVAL_NO_LOGITS;
  return options;
}

class Bench {
 public:
  explicit Bench(const LayersArgs& args) : args_(args), shape_(args.model) {
    auto options = qi::options<qinfer_runtime_options>();
    options.cpu_target = args.target.empty() ? nullptr : args.target.c_str();
    options.n_threads = static_cast<std::uint32_t>(args.cpus.size());
    options.cpu_ids = args.cpus.data();
    options.n_cpu_ids = options.n_threads;
    runtime_ = std::make_unique<qi::Runtime>(options);
    model_ = std::make_unique<qi::Model>(load_model(*runtime_, args.model));

    auto session_options = qi::options<qinfer_session_options>();
    session_options.max_tokens = std::max(args.prefill, kPrompt + args.steps);
    const std::uint32_t most = *std::max_element(args.sessions.begin(), args.sessions.end());
    auto cache_options = qi::options<qinfer_kv_cache_options>();
    cache_options.flags = QINFER_CACHE_COMMIT;
    cache_options.block_tokens = kBlock;
    cache_options.budget_blocks = (session_options.max_tokens + kBlock - 1) / kBlock * most;
    cache_ = std::make_unique<qi::KvCache>(*model_, cache_options);
    for (std::uint32_t i = 0; i < most; ++i) sessions_.emplace_back(*cache_, session_options);
    position_bytes_ =
        static_cast<double>(qi::plan(args.model, &options, nullptr, &cache_options).kv_per_block) / kBlock;
  }

  qinfer_model_info info() const { return model_->info(); }
  std::string kernel_set() const { return model_->info().kernel_set; }

  void run() {
    prefill();  // brings weights into memory, also where nothing is to be measured
    if (args_.prefill > 0) measure_prefill();
    for (const std::uint32_t n : args_.sessions) measure_decode(n);
  }

 private:
  std::vector<qinfer_token> random_tokens(std::size_t n) {
    std::vector<qinfer_token> tokens(n);
    for (qinfer_token& token : tokens) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      token = static_cast<qinfer_token>((state_ >> 33) % model_->info().n_vocab);
    }
    return tokens;
  }

  double prefill() {
    qi::Session& session = sessions_[0];
    session.truncate(0);
    session.append(random_tokens(std::max(args_.prefill, kPrompt)));
    const auto start = std::chrono::steady_clock::now();
    session.eval(layers_only());
    return seconds_since(start);
  }

  void measure_prefill() {
    std::vector<double> seconds;
    for (std::uint32_t i = 0; i < args_.repetitions; ++i) seconds.push_back(prefill());
    const double n = args_.prefill;
    const double flops =
        2 * shape_.parameters(shape_.top_k) * n + 4 * shape_.heads_width * shape_.layers * n * (n + 1) / 2;
    print(format("{\"name\": \"prefill %u\", \"tokens\": %u, \"layers\": %.0f, %s, \"flops\": %.0f}\n", args_.prefill,
                 args_.prefill, shape_.layers, times(seconds).c_str(), flops));
    flush_output();
  }

  struct Steps {
    double seconds = 0;  // of one, in which each session evaluates a token
    double experts = 0;  // of a layer that one used; 1 where layers are dense: their one network
  };

  Steps decode(std::uint32_t n) {
    std::vector<qi::Session*> batch;
    for (std::uint32_t i = 0; i < n; ++i) {
      batch.push_back(&sessions_[i]);
      sessions_[i].truncate(0);
      sessions_[i].append(random_tokens(kPrompt));
    }
    qi::eval(batch, layers_only());
    Steps sum;
    std::vector<std::uint64_t> counts = expert_counts();
    for (std::uint32_t step = 0; step < args_.steps; ++step) {
      for (qi::Session* session : batch) session->append(random_tokens(1));
      const auto start = std::chrono::steady_clock::now();
      qi::eval(batch, layers_only());
      sum.seconds += seconds_since(start);
      std::vector<std::uint64_t> later = expert_counts();
      for (std::size_t i = 0; i < counts.size(); ++i) sum.experts += later[i] != counts[i] ? 1 : 0;
      counts = std::move(later);
    }
    const double used = shape_.experts > 0 ? sum.experts / shape_.layers / args_.steps : 1;
    return {sum.seconds / args_.steps, used};
  }

  /// How often each expert was chosen so far, those of all layers.
  std::vector<std::uint64_t> expert_counts() const {
    std::vector<std::uint64_t> counts;
    for (std::uint32_t layer = 0; layer < static_cast<std::uint32_t>(shape_.layers); ++layer) {
      const std::vector<std::uint64_t> of_layer = model_->expert_counts(layer);
      counts.insert(counts.end(), of_layer.begin(), of_layer.end());
    }
    return counts;
  }

  void measure_decode(std::uint32_t n) {
    std::vector<double> seconds;
    double experts = 0;
    for (std::uint32_t i = 0; i <= args_.repetitions; ++i) {
      const Steps steps = decode(n);
      if (i == 0) continue;  // a warm-up
      seconds.push_back(steps.seconds);
      experts += steps.experts / args_.repetitions;
    }
    const double positions = kPrompt + (args_.steps + 1.0) / 2;
    const double bytes = 2 * shape_.parameters(experts) + n * position_bytes_ * positions;
    print(format("{\"name\": \"decode, %u session%s\", \"tokens\": %u, \"layers\": %.0f, %s, \"bytes\": %.0f", n,
                 n == 1 ? "" : "s", n, shape_.layers, times(seconds).c_str(), bytes));
    print(shape_.experts > 0 ? format(", \"experts\": %.2f}\n", experts) : "}\n");
    flush_output();
  }

  static std::string times(std::vector<double> seconds) {
    return format("\"seconds\": %.9f, \"lowest\": %.9f, \"highest\": %.9f", quantile(seconds, 0.5),
                  quantile(seconds, 0), quantile(seconds, 1));
  }

  const LayersArgs& args_;
  const LayerShape shape_;
  std::unique_ptr<qi::Runtime> runtime_;
  std::unique_ptr<qi::Model> model_;
  std::unique_ptr<qi::KvCache> cache_;
  std::vector<qi::Session> sessions_;
  double position_bytes_ = 0;
  std::uint64_t state_ = 42;
};

void run(const LayersArgs& args) {
  const FmaPeak peak = measure_fma_peak(args.cpus);
  const Bandwidth bandwidth = measure_read_bandwidth(args.cpus);
  Bench bench(args);
  const std::string weights = bench.info().weight_format != nullptr ? bench.info().weight_format : "";
  if (weights != "f16" && weights != "bf16") throw Failure("weights are counted as 16 bits, these are " + weights);
  const bool f16 = kernels_need(bench.kernel_set(), "avx512_fp16") && weights == "f16" && peak.f16_flops > 0;
  const bool dot = bench.kernel_set() == "avx512_bf16" && peak.dot_flops > 0;
  print(
      format("{\"name\": \"ceilings\", \"bytes_per_second\": %.0f, \"f32_flops\": %.0f, \"f16_flops\": %.0f, "
             "\"dot_flops\": %.0f, \"avx2_flops\": %.0f, \"kernel_set\": \"%s\", \"weight_format\": \"%s\", \"sums\": "
             "\"%s\", \"peak\": \"%s\"}\n",
             bandwidth.bytes_per_second, peak.flops, peak.f16_flops, peak.dot_flops, peak.avx2_flops,
             bench.kernel_set().c_str(), weights.c_str(), f16 ? "f16" : "f32",
             dot                                        ? "bf16-dot"
             : f16                                      ? "f16-fma"
             : kernels_need(bench.kernel_set(), "avx2") ? "avx2-fma"
                                                        : "f32-fma"));
  bench.run();
}

}  // namespace
}  // namespace cli

int main(int argc, char** argv) {
  CLI::App app("Measures the layers of a model without its LM head.");
  cli::LayersArgs args;
  app.add_option("model", args.model, "A directory that make_checkpoint wrote")->required();
  app.add_option("-t,--threads", args.threads, "Compute threads (default: physical cores)");
  app.add_option("--cpu-target", args.target, "Kernel set (default: best for this CPU)");
  app.add_option("-p", args.prefill, "Tokens of the prompt; 0 = no prefill")->check(CLI::Range(0, 16384));
  app.add_option("-n", args.steps, "Decoding steps of a repetition")->check(CLI::Range(1, 4096));
  app.add_option("--sessions", args.sessions, "Numbers of sessions that decode together")->check(CLI::Range(1, 64));
  app.add_option("-r", args.repetitions, "Repetitions, of which the median counts")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  try {
    args.cpus = cli::choose_cpus(args.threads);
    cli::run(args);
    return 0;
  } catch (const std::exception& error) {
    cli::report(error.what());
    return 1;
  }
}
