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
  for (std::size_t worker = 0; worker < size_; ++worker) {
    threads_.emplace_back([this, worker](const std::stop_token& stop) { loop(stop, worker); });
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpus[worker], &set);
    const int error = pthread_setaffinity_np(threads_.back().native_handle(), sizeof set, &set);
    if (error != 0) throw Failure(format("cannot pin a thread to CPU %u: %s", cpus[worker], std::strerror(error)));
  }
}

double PinnedTeam::run(const Work& work) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  done_ = 0;
  ++round_;
  wake_.notify_all();
  wake_.wait(lock, [this] { return done_ == size_; });
  return seconds_;
}

void PinnedTeam::loop(const std::stop_token& stop, std::size_t worker) {
  using Clock = std::chrono::steady_clock;
  std::uint64_t seen = 0;
  while (true) {
    const Work* work = nullptr;
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [&] { return round_ != seen; })) return;
      seen = round_;
      work = work_;
    }
    wait_for_all();
    const Clock::time_point begin = Clock::now();
    (*work)(worker);
    wait_for_all();
    const std::chrono::duration<double> elapsed = Clock::now() - begin;
    {
      const std::lock_guard lock(mutex_);
      if (worker == 0) seconds_ = elapsed.count();
      ++done_;
    }
    wake_.notify_all();
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
