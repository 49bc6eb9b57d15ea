// See team.h.
#include "engine/team.h"

namespace qinfer::engine {
namespace {

constexpr std::uint64_t kBarrierSpinNs = 100'000;
constexpr int kSpinsPerClockRead = 64;

}  // namespace

Result<std::unique_ptr<ThreadTeam>> ThreadTeam::create(const TeamOptions& options) {
  std::unique_ptr<ThreadTeam> team(new ThreadTeam);
  team->size_ = static_cast<std::int32_t>(options.n_threads);
  team->may_spin_ = options.n_threads <= options.usable_cpus;
  team->idle_spin_ns_ = team->may_spin_ ? std::uint64_t{options.spin_us} * 1000 : 0;
  const auto cpu_of = [&options](std::uint32_t i) {
    return i < options.cpu_ids.size() ? static_cast<int>(options.cpu_ids[i]) : -1;
  };
  team->caller_cpu_ = cpu_of(0);
  team->executor_ = options.executor;
  if (options.executor.run != nullptr) {
    team->has_run_ = std::make_unique<std::atomic<bool>[]>(options.n_threads);
    return team;
  }
  team->threads_.reserve(options.n_threads - 1);
  for (std::uint32_t i = 1; i < options.n_threads; ++i) {
    ThreadTeam* self = team.get();
    QINFER_ASSIGN(platform::Thread thread,
                  platform::Thread::start([self, i] { self->worker_loop(static_cast<std::int32_t>(i)); }, cpu_of(i)));
    team->threads_.push_back(std::move(thread));
  }
  return team;
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true);
  generation_.fetch_add(1);
  platform::futex_wake_all(generation_);
  for (platform::Thread& thread : threads_) thread.join();
}

void ThreadTeam::abandon_threads() {
  for (platform::Thread& thread : threads_) thread.abandon();
}

/// Waits until `word` is not `old` any more: spins for spin_ns, then sleeps. No wake-up is lost: a sleeper counts
/// itself and then looks at the word, the waker changes the word and then looks at the count, so one of them sees the
/// other. That needs sequential consistency, which all atomics here have (but for taken_, which the barriers order).
void ThreadTeam::wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t old, std::uint64_t spin_ns,
                                 std::atomic<std::uint32_t>& sleepers) {
  if (spin_ns > 0) {
    const std::uint64_t end = platform::now_ns() + spin_ns;
    do {
      for (int i = 0; i < kSpinsPerClockRead; ++i) {
        if (word.load() != old) return;
        platform::cpu_relax();
      }
    } while (platform::now_ns() < end);
  }
  sleepers.fetch_add(1);
  while (word.load() == old) platform::futex_wait(word, old);
  sleepers.fetch_sub(1);
}

void ThreadTeam::wait_at_barrier(Job completion, std::int32_t worker) {
  const std::uint32_t phase = phase_.load();
  if (arrived_.fetch_add(1) + 1 == static_cast<std::uint32_t>(size_)) {
    completion.call(completion.context, worker);
    taken_.store(0);  // before phase_, which lets the others take from it again
    arrived_.store(0);
    phase_.store(phase + 1);
    if (barrier_sleepers_.load() != 0) platform::futex_wake_all(phase_);
    return;
  }
  wait_for_change(phase_, phase, may_spin_ ? kBarrierSpinNs : 0, barrier_sleepers_);
}

void ThreadTeam::run_job(Job job) {
  const platform::ScopedFloatEnvironment environment;
  if (executor_.run != nullptr) return job.call(job.context, 0);
  const platform::ScopedPin pin(caller_cpu_);
  job_ = job;
  generation_.fetch_add(1);
  if (idle_sleepers_.load() != 0) platform::futex_wake_all(generation_);
  job.call(job.context, 0);
  barrier(0);
}

/// A part that the host calls twice runs once, and one that it has not called when it says that it is done runs here.
void ThreadTeam::execute(Job job) {
  job_ = job;
  taken_.store(0);
  const auto parts = static_cast<std::uint32_t>(size_);
  for (std::uint32_t i = 0; i < parts; ++i) has_run_[i].store(false);
  executor_.run(
      parts, [](std::uint32_t index, void* team) { static_cast<ThreadTeam*>(team)->run_part(index); }, this,
      executor_.user);
  for (std::uint32_t i = 0; i < parts; ++i) run_part(i);
}

void ThreadTeam::run_part(std::uint32_t index) {
  if (index >= static_cast<std::uint32_t>(size_) || has_run_[index].exchange(true)) return;
  const platform::ScopedFloatEnvironment environment;
  job_.call(job_.context, static_cast<std::int32_t>(index));
}

void ThreadTeam::worker_loop(std::int32_t worker) {
  const platform::ScopedFloatEnvironment environment;
  std::uint32_t seen = 0;
  for (;;) {
    wait_for_change(generation_, seen, idle_spin_ns_, idle_sleepers_);
    ++seen;  // a run ends only when every worker has passed its last barrier, so none is ever skipped
    if (stop_.load()) return;
    job_.call(job_.context, worker);
    barrier(worker);
  }
}

}  // namespace qinfer::engine
