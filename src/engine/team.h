// The thread team: persistent workers that execute one function together, the calling thread being worker 0.
//
// Inside run() workers meet at barriers: each waits until all have arrived. A layer has only microseconds of work
// between two barriers, so they wait in a loop (spin) for at most 100 us before they sleep. Between runs they sleep, or
// spin for spin_us first if the host asked for it.
//
// With an executor of the host there are no threads: the calling thread goes through what all workers would, and where
// they would compute it has the executor call each worker's part, on whatever threads, and wait for all of them. The
// parts are the same, and they never wait for each other, so that a pool of one thread will do.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "platform/thread.h"

namespace qinfer::engine {

/// Threads of a host: run() calls task(i, context) once for each i below n, and returns when all have returned.
struct Executor {
  void (*run)(std::uint32_t n, void (*task)(std::uint32_t index, void* context), void* context, void* user) = nullptr;
  void* user = nullptr;
};

struct TeamOptions {
  std::uint32_t n_threads = 1;         ///< with an executor: parts into which work is cut
  Executor executor{};                 ///< without a function: threads of the team
  std::uint32_t spin_us = 0;           ///< between runs
  std::uint32_t usable_cpus = 1;       ///< a larger team never spins: it would wait for threads that cannot run
  std::vector<std::uint32_t> cpu_ids;  ///< thread i is pinned to cpu_ids[i]; threads beyond are not pinned
};

class ThreadTeam {
 public:
  static Result<std::unique_ptr<ThreadTeam>> create(const TeamOptions& options);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  std::int32_t size() const { return size_; }

  /// Calls body(worker) on every thread of the team, with the default floating-point environment; returns when all
  /// are done. With an executor body(0) alone is called, on this thread: what workers compute goes through together().
  /// One run at a time. The body must not throw.
  template <typename Body>
  void run(Body&& body) {
    using Target = std::remove_reference_t<Body>;
    run_job({[](void* context, std::int32_t worker) { (*static_cast<Target*>(context))(worker); },
             const_cast<void*>(static_cast<const void*>(&body))});
  }

  /// Calls part(worker) once for each worker, on the team's threads or the host's; parts never wait for each other.
  template <typename Part>
  void run_parts(Part&& part) {
    run([&](std::int32_t worker) { together(worker, part, [](std::int32_t) {}); });
  }

  /// Within run(): each worker calls work(worker); when all have, one of them calls completion(worker) before any goes
  /// on.
  template <typename Work, typename Completion>
  void together(std::int32_t worker, Work&& work, Completion&& completion) {
    if (executor_.run == nullptr) {
      work(worker);
      barrier(worker, completion);
      return;
    }
    using Target = std::remove_reference_t<Work>;
    execute({[](void* context, std::int32_t w) { (*static_cast<Target*>(context))(w); },
             const_cast<void*>(static_cast<const void*>(&work))});
    completion(worker);
  }

  /// All workers of the current run wait for each other; the last to arrive calls completion(worker) before the others
  /// go on, which makes what it writes visible to them.
  template <typename Completion>
  void barrier(std::int32_t worker, Completion&& completion) {
    using Target = std::remove_reference_t<Completion>;
    wait_at_barrier({[](void* context, std::int32_t w) { (*static_cast<Target*>(context))(w); },
                     const_cast<void*>(static_cast<const void*>(&completion))},
                    worker);
  }
  void barrier(std::int32_t worker) {
    barrier(worker, [](std::int32_t) {});
  }

  /// Calls body(begin, end) for parts of [0, units), which the workers of the current run cover together; each worker
  /// calls this once between two barriers, with the same number of units. Most units are cut evenly. The last ones go
  /// in pieces to the workers that are done first, because cores are never equally fast (other processes use them,
  /// memory serves one after the other) and all would wait for the slowest. So a body runs any number of times.
  template <typename Body>
  void for_units(std::int32_t worker, std::int64_t units, Body&& body) {
    const std::int64_t shared = size_ > 1 ? units / kSharedUnits : 0, own = units - shared;
    const std::int64_t begin = own * worker / size_, end = own * (worker + 1) / size_;
    if (begin < end) body(begin, end);
    if (shared == 0) return;
    const std::int64_t piece = 1 + (shared - 1) / (kPiecesPerWorker * size_);
    for (std::int64_t at; (at = taken_.fetch_add(piece, std::memory_order_relaxed)) < shared;)
      body(own + at, own + (piece < shared - at ? at + piece : shared));
  }

  /// In a fork()ed child the workers do not exist: the destructor must not wait for them.
  void abandon_threads();

 private:
  struct Job {
    void (*call)(void* context, std::int32_t worker) = nullptr;
    void* context = nullptr;
  };
  static constexpr std::int64_t kSharedUnits = 16;  // one unit in 16 goes to the workers that are done first
  static constexpr std::int64_t kPiecesPerWorker = 8;
  ThreadTeam() = default;
  void run_job(Job job);
  void execute(Job job);
  void run_part(std::uint32_t index);
  void wait_at_barrier(Job completion, std::int32_t worker);
  void worker_loop(std::int32_t worker);
  void wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t old, std::uint64_t spin_ns,
                       std::atomic<std::uint32_t>& sleepers);

  std::int32_t size_ = 1;
  bool may_spin_ = false;
  std::uint64_t idle_spin_ns_ = 0;
  int caller_cpu_ = -1;
  Executor executor_;
  std::unique_ptr<std::atomic<bool>[]> has_run_;  ///< of each part, with an executor
  Job job_;
  std::vector<platform::Thread> threads_;
  // Each on a cache line of its own: they are written at every barrier, or for every piece.
  alignas(64) std::atomic<std::uint32_t> generation_{0};
  alignas(64) std::atomic<std::uint32_t> idle_sleepers_{0};
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> phase_{0};
  alignas(64) std::atomic<std::uint32_t> barrier_sleepers_{0};
  alignas(64) std::atomic<std::int64_t> taken_{0};  ///< shared units since the last barrier
  alignas(64) std::atomic<bool> stop_{false};
};

}  // namespace qinfer::engine
