// pinned_team.cpp: see pinned_team.h.
#include "pinned_team.h"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <cstring>

#include "support.h"

namespace cli {

PinnedTeam::PinnedTeam(const std::vector<std::uint32_t>& cpus) : size_(cpus.size()) {
  threads_.reserve(size_);
  try {
    for (const std::uint32_t cpu : cpus) start(cpu);
  } catch (...) {
    stop();
    throw;
  }
}

PinnedTeam::~PinnedTeam() { stop(); }

void PinnedTeam::start(std::uint32_t cpu) {
  threads_.emplace_back([this, worker = threads_.size()] { loop(worker); });
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  const int error = pthread_setaffinity_np(threads_.back().native_handle(), sizeof set, &set);
  if (error != 0) throw Failure(format("cannot pin a thread to CPU %u: %s", cpu, std::strerror(error)));
}

/// Wakes the workers for a round without work.
void PinnedTeam::stop() {
  work_ = nullptr;
  round_.fetch_add(1);
  round_.notify_all();
}

double PinnedTeam::run(const Work& work) {
  work_ = &work;
  done_ = 0;
  round_.fetch_add(1);
  round_.notify_all();
  for (std::uint32_t done = 0; done != size_; done = done_.load()) done_.wait(done);
  return seconds_;
}

void PinnedTeam::loop(std::size_t worker) {
  using Clock = std::chrono::steady_clock;
  for (std::uint32_t seen = 0;; ++seen) {
    round_.wait(seen);
    const Work* work = work_;
    if (work == nullptr) return;
    wait_for_all();
    const Clock::time_point begin = Clock::now();
    (*work)(worker);
    wait_for_all();
    const std::chrono::duration<double> elapsed = Clock::now() - begin;
    if (worker == 0) seconds_ = elapsed.count();
    done_.fetch_add(1);
    done_.notify_one();
  }
}

/// Spins: each worker has a CPU of its own, and sleeping would cost more than what is being measured.
void PinnedTeam::wait_for_all() {
  const std::uint64_t barrier = barrier_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    barrier_.store(barrier + 1, std::memory_order_release);
    return;
  }
  while (barrier_.load(std::memory_order_acquire) == barrier) {
  }
}

}  // namespace cli
