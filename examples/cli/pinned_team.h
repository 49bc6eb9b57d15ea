// pinned_team.h: threads pinned to CPUs that are there before the clock starts: creating them inside a measurement
// costs it a tenth of its result.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace cli {

class PinnedTeam {
 public:
  using Work = std::function<void(std::size_t worker)>;

  /// One worker per CPU, each pinned. Throws Failure if the system refuses.
  explicit PinnedTeam(const std::vector<std::uint32_t>& cpus);
  ~PinnedTeam();
  PinnedTeam(const PinnedTeam&) = delete;
  PinnedTeam& operator=(const PinnedTeam&) = delete;

  std::size_t size() const { return size_; }
  /// Runs work on every worker at once; returns the seconds from when all had begun until all were done. The calling
  /// thread sleeps meanwhile, so that it takes no CPU from them. work must not throw.
  double run(const Work& work);

 private:
  void start(std::uint32_t cpu);
  void stop();
  void loop(std::size_t worker);
  void wait_for_all();

  std::size_t size_;
  const Work* work_ = nullptr;  // null in a round: the workers end
  // Atomics that are waited for, not a condition variable: programs that wait on one of g++ 12's need its libstdc++.
  std::atomic<std::uint32_t> round_{0};  // counts calls of run
  std::atomic<std::uint32_t> done_{0};   // workers that finished the round
  double seconds_ = 0;
  std::atomic<std::size_t> arrived_{0};
  std::atomic<std::uint64_t> barrier_{0};
  std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

}  // namespace cli
