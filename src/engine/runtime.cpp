// See runtime.h.
#include "engine/runtime.h"

#include "platform/cpu.h"
#include "platform/thread.h"

namespace qinfer::engine {

Metrics AtomicMetrics::read() const {
  Metrics metrics{prefill_tokens.load(),
                  decode_tokens.load(),
                  evals.load(),
                  cached_tokens.load(),
                  prefill_ns.load(),
                  decode_ns.load(),
                  sample_ns.load(),
                  wait_ns.load(),
                  {},
                  {}};
  for (std::size_t i = 0; i < schedule::kMaxDraft; ++i) {
    metrics.drafted[i] = drafted[i].load();
    metrics.accepted[i] = accepted[i].load();
  }
  return metrics;
}

Result<std::uint32_t> thread_count(const RuntimeOptions& options) {
  if (options.n_threads > Runtime::kMaxThreads)
    return error(Code::invalid_argument, "n_threads is {}, at most {} are accepted", options.n_threads,
                 Runtime::kMaxThreads);
  if (options.n_threads != 0) return options.n_threads;
  return std::min(platform::usable_cores().physical, Runtime::kMaxThreads);
}

namespace {

constexpr std::string_view kTileFeature = "amx_";

/// The features without those of AMX.
std::string without_tiles(std::string features) {
  for (std::size_t at = features.find(kTileFeature); at != features.npos; at = features.find(kTileFeature))
    features.erase(at, features.find(' ', at) - at);
  while (features.ends_with(' ')) features.pop_back();
  return features;
}

struct UsableFeatures {
  std::string names;
  std::string refusal;  ///< why tiles may not be used, where the CPU has them
};

/// The usable features of the CPU. The system is asked for its permission to use tiles only if a set is named that
/// needs them; where it refuses, the CPU is as one without.
UsableFeatures usable_features(const RuntimeOptions& options, bool asks) {
  std::string features = platform::cpu_features(*options.tiles);
  if (features.find(kTileFeature) == features.npos) return {std::move(features), {}};
  if (options.no_tiles) return {without_tiles(std::move(features)), "; QINFER_RUNTIME_NO_TILES rules out tiles"};
  const kernels::KernelSet* set = kernels::find_kernel_set(options.cpu_target, features, options.exact);
  const bool wants_tiles =
      set != nullptr && set != kernels::find_kernel_set(options.cpu_target, without_tiles(features), options.exact);
  if (!wants_tiles || !asks) return {std::move(features), {}};
  const Status permitted = options.tiles->request_permission();
  if (permitted.ok()) return {std::move(features), {}};
  return {without_tiles(std::move(features)), format_text("; {}", permitted.message())};
}

}  // namespace

Result<KernelChoice> choose_kernels(const RuntimeOptions& options, bool asks) {
  const UsableFeatures usable = usable_features(options, asks);
  const std::string& features = usable.names;
  const kernels::KernelSet* set = kernels::find_kernel_set(options.cpu_target, features, options.exact);
  if (set != nullptr) {
    KernelChoice choice{set, {}, options.tiles->request_permission, usable.refusal};
    if (options.cpu_target.empty()) choice.some_models = kernels::find_preferred_sets(features, options.exact);
    return choice;
  }
  std::string names;
  for (const kernels::KernelSetRow& info : kernels::kernel_sets()) {
    if (!names.empty()) names += ' ';
    names += info.name;
    if (info.name != options.cpu_target) continue;
    if (kernels::find_kernel_set(info.name, features) != nullptr)
      return error(Code::unsupported, "cpu_target \"{}\" rounds to 16 bits, which QINFER_RUNTIME_EXACT rules out",
                   info.name);
    return error(Code::unsupported, "cpu_target \"{}\" needs the CPU features {}, this CPU and system have {}{}",
                 info.name, info.needs, features.empty() ? "none that are known" : features, usable.refusal);
  }
  return error(Code::unsupported, "cpu_target \"{}\" is not known, expected one of {}", options.cpu_target, names);
}

Result<std::shared_ptr<Runtime>> Runtime::create(const RuntimeOptions& options) {
  std::shared_ptr<Runtime> runtime(new Runtime);
  runtime->options_ = options;
  runtime->process_ = platform::process_id();
  QINFER_ASSIGN(runtime->kernels_, choose_kernels(options));
  TeamOptions team;
  QINFER_ASSIGN(team.n_threads, thread_count(options));
  if (!options.cpu_ids.empty() && options.cpu_ids.size() != team.n_threads)
    return error(Code::invalid_argument, "n_cpu_ids is {}, but there are {} threads", options.cpu_ids.size(),
                 team.n_threads);
  for (std::size_t i = 0; i < options.cpu_ids.size(); ++i)
    if (options.cpu_ids[i] > INT32_MAX || !platform::may_use_cpu(static_cast<int>(options.cpu_ids[i])))
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "cpu_ids[{}] is {}, a CPU that does not exist or that this process may not use", i,
                      options.cpu_ids[i]);
  team.spin_us = options.spin_us;
  team.usable_cpus = platform::usable_cores().logical;
  team.cpu_ids = options.cpu_ids;
  team.executor = options.executor;
  QINFER_ASSIGN(runtime->team_, ThreadTeam::create(team));
  runtime->log(LogLevel::info, "runtime: kernel set {}, {} threads", runtime->kernels_.any_model->name, team.n_threads);
  return runtime;
}

Runtime::~Runtime() {
  if (team_ != nullptr && platform::process_id() != process_) team_->abandon_threads();
}

void Runtime::parallel_for(std::int64_t n, const std::function<void(std::int64_t begin, std::int64_t end)>& body) {
  const Lock lock(eval_mutex_);
  team_->run_parts([&](std::int32_t worker) {
    const std::int64_t begin = n * worker / team_->size(), end = n * (worker + 1) / team_->size();
    if (begin < end) body(begin, end);
  });
}

Status Runtime::check_process() const {
  if (platform::process_id() == process_) return Status();
  return error(Code::state, "handles do not work in a fork()ed child: create them after the fork");
}

}  // namespace qinfer::engine
