// Runtime: the thread team, the chosen kernel set, the allocator, the log sink and the counters, which all models of a
// runtime use. There is no process-wide state but the system's permission to use tiles (platform/tiles.h), so two hosts
// in one process do not affect each other.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "engine/team.h"
#include "kernel_set.h"
#include "platform/cpu.h"
#include "platform/memory.h"
#include "schedule/drafts.h"

namespace qinfer::engine {

enum class LogLevel : std::int32_t { error = 1, warn = 2, info = 3, debug = 4 };
using LogFunction = void (*)(std::int32_t level, const char* line, std::size_t line_len, void* user);

struct RuntimeOptions {
  std::uint32_t n_threads = 0;  ///< 0 = physical cores
  std::uint32_t spin_us = 0;
  Executor executor;  ///< of the host, for n_threads parts
  LogLevel log_level = LogLevel::warn;
  LogFunction log = nullptr;
  void* log_user = nullptr;
  std::vector<std::uint32_t> cpu_ids;
  bool exact = false;
  std::string cpu_target;  ///< empty = best
  bool no_tiles = false;   ///< the system is not asked for tiles
  const platform::TileSystem* tiles = &platform::tile_system();
  platform::Allocator allocator;
};

/// Totals since creation, in tokens, calls and nanoseconds.
struct Metrics {
  std::uint64_t prefill_tokens = 0, decode_tokens = 0, evals = 0, cached_tokens = 0;
  std::uint64_t prefill_ns = 0, decode_ns = 0, sample_ns = 0, wait_ns = 0;
  /// Guesses that were evaluated, and those that were right, by their place in the draft.
  std::array<std::uint64_t, schedule::kMaxDraft> drafted{}, accepted{};
};

/// The same, counted by several threads.
struct AtomicMetrics {
  std::atomic<std::uint64_t> prefill_tokens{0}, decode_tokens{0}, evals{0}, cached_tokens{0};
  std::atomic<std::uint64_t> prefill_ns{0}, decode_ns{0}, sample_ns{0}, wait_ns{0};
  std::array<std::atomic<std::uint64_t>, schedule::kMaxDraft> drafted{}, accepted{};
  Metrics read() const;
};

/// The kernel sets that models of a runtime run on; blueprint.h chooses for each of them.
struct KernelChoice {
  const kernels::KernelSet* any_model = nullptr;
  std::vector<const kernels::KernelSetRow*> some_models;  ///< instead, for those that they are chosen for, best first
  Status (*ask_for_tiles)() = nullptr;                    ///< of the system, before one that needs them is used
  std::string no_tiles;                                   ///< why they are not among these, if they could be
};

class Runtime {
 public:
  static constexpr std::uint32_t kMaxThreads = 1024;

  static Result<std::shared_ptr<Runtime>> create(const RuntimeOptions& options);
  ~Runtime();

  /// QINFER_E_STATE in a fork()ed child, where the team's threads do not exist.
  Status check_process() const;

  const KernelChoice& kernels() const { return kernels_; }
  const platform::Allocator& allocator() const { return options_.allocator; }
  bool exact() const { return options_.exact; }
  ThreadTeam& team() { return *team_; }
  /// Held during an evaluation: they run one after another. It guards what an evaluation uses on the team's threads,
  /// which clang's analysis does not see: the team itself, and the scratch memory of models.
  Mutex& eval_mutex() ABSL_LOCK_RETURNED(eval_mutex_) { return eval_mutex_; }
  /// Calls body(begin, end) for parts of [0, n), on all threads at once, and returns when all are done. Not for bodies
  /// that hold eval_mutex().
  void parallel_for(std::int64_t n, const std::function<void(std::int64_t begin, std::int64_t end)>& body);
  AtomicMetrics& metrics() { return metrics_; }
  const AtomicMetrics& metrics() const { return metrics_; }

  bool logs(LogLevel level) const { return options_.log != nullptr && level <= options_.log_level; }
  template <typename... Args>
  void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const {
    if (!logs(level)) return;
    const std::string line = format_text(format, std::forward<Args>(args)...);
    options_.log(static_cast<std::int32_t>(level), line.data(), line.size(), options_.log_user);
  }

 private:
  Runtime() = default;
  RuntimeOptions options_;
  KernelChoice kernels_;
  std::unique_ptr<ThreadTeam> team_;
  Mutex eval_mutex_;
  AtomicMetrics metrics_;
  std::int32_t process_ = 0;
};

/// The number of threads that a runtime with these options has, without creating it.
Result<std::uint32_t> thread_count(const RuntimeOptions& options);
/// `asks`: the system for tiles, where a set is named that needs them; otherwise its permission is assumed.
Result<KernelChoice> choose_kernels(const RuntimeOptions& options, bool asks = true);

}  // namespace qinfer::engine
