// engine.h: the model with its cache and scheduler, and the thread that steps it while jobs draw on it.
#pragma once

#include <qinfer/qinfer.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "folders.h"
#include "grammars.h"
#include "histogram.h"
#include "job.h"
#include "keeper.h"
#include "mutex.h"
#include "room.h"

namespace server {

struct EngineOptions {
  std::string model_path;
  std::uint32_t threads = 0, max_batch_tokens = 0;
  std::uint32_t context = 0;      ///< tokens of a request with its answer, at most; 0: as many as the model takes
  std::uint64_t cache_bytes = 0;  ///< 0: four sessions of the model's context, or half of what the machine has free
  std::uint32_t max_running = 16, max_waiting = 256, step_ms = 100;
  std::string park_path;
  std::string keep_path;                               ///< folder of kept conversations; "": none are kept
  std::uint64_t keep_bytes = std::uint64_t{16} << 30;  ///< of its files
};

class Engine {
 public:
  explicit Engine(const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// What is drawn ends, and nothing more is.
  void end();

  const qi::Model& model() const { return model_; }
  qi::KvCache& cache() { return cache_; }
  const std::string& name() const { return name_; }
  /// Of a request with its answer, at most.
  std::uint32_t context_tokens() const { return context_tokens_; }
  qinfer_scheduler_stats stats() { return scheduler_.stats(); }
  qinfer_kv_cache_stats cache_stats() { return cache_.stats(); }
  /// Seconds after which a request that was refused for want of room may be sent again: as long as those that wait take
  /// at the rate of the last ones.
  std::uint32_t retry_after_s();
  /// Whether a request that is not paused has not begun, or waits for room.
  bool has_waiting();
  /// What errors must not say.
  const Folders& folders() const { return folders_; }
  const Times& times() const { return times_; }
  /// Null where no conversations are kept.
  const Keeper* keeper() const { return keeper_.get(); }

 private:
  friend class Job;
  friend class Room;
  void run();
  void step();
  void take(Job::Choice& choice, const qinfer_event& event);
  void count_times(Job::Choice& choice, const qinfer_event& event);
  void note_end();

  qi::Runtime runtime_;
  qi::Model model_;
  qi::KvCache cache_;
  qi::Scheduler scheduler_;
  Grammars grammars_;
  std::unique_ptr<Keeper> keeper_;
  Times times_;
  Folders folders_;
  const std::uint32_t context_tokens_;
  const std::uint32_t most_choices_;  ///< of a request: more never find room to wait
  std::string name_;
  std::atomic<bool> ends_{false};
  std::atomic<double> seconds_per_request_{1};  ///< between two ends while requests waited; a guess at first
  std::optional<std::chrono::steady_clock::time_point> last_end_;  ///< after which some waited
  Mutex mutex_;
  std::set<Job::Choice*> drawn_ ABSL_GUARDED_BY(mutex_);  ///< submitted, and not ended
  std::set<Room*> rooms_ ABSL_GUARDED_BY(mutex_);         ///< asked for, and not ended
  std::thread thread_;
};

}  // namespace server
