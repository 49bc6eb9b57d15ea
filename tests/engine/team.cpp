// The thread team, the block pool and the runtime under concurrency: what the thread sanitizer runs.
#include "engine/team.h"
#include "engine/phases.h"

#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "kv/block_pool.h"
#include "support/catch.h"
#include "support/checkpoint_writer.h"

using namespace qinfer;

TEST_CASE("barriers hold every worker until the last has come", "[team][threads]") {
  for (const std::uint32_t n : {1u, 2u, 3u, 8u}) {
    for (const std::uint32_t usable : {1u, 8u}) {  // with and without spinning
      auto team = engine::ThreadTeam::create({n, {}, 50, usable, {}});
      REQUIRE(team.ok());
      std::vector<std::uint64_t> slots(n, 0);  // plain memory: the barrier alone orders it
      std::uint64_t completions = 0;
      std::atomic<int> wrong{0};
      for (int run = 0; run < 20; ++run) {
        team.value()->run([&](std::int32_t worker) {
          for (std::uint64_t round = 1; round <= 20; ++round) {
            slots[static_cast<std::size_t>(worker)] = round;
            team.value()->barrier(worker, [&](std::int32_t) { ++completions; });
            for (const std::uint64_t slot : slots)
              if (slot != round) ++wrong;
            team.value()->barrier(worker);
          }
        });
      }
      CHECK(wrong == 0);
      CHECK(completions == 400);
    }
  }
}

TEST_CASE("every unit is run by one worker, whatever the numbers", "[team][threads]") {
  for (const std::uint32_t n : {1u, 2u, 3u, 8u}) {
    auto team = engine::ThreadTeam::create({n, {}, 50, 8, {}});
    REQUIRE(team.ok());
    for (const std::int64_t units : {0, 1, 7, 15, 16, 17, 32, 33, 1000, 4749}) {
      std::vector<int> runs(static_cast<std::size_t>(units), 0);  // plain memory: no two workers have the same unit
      std::atomic<int> empty{0};
      constexpr int kPhases = 4;
      team.value()->run([&](std::int32_t worker) {
        for (int phase = 0; phase < kPhases; ++phase) {
          team.value()->for_units(worker, units, [&](std::int64_t begin, std::int64_t end) {
            if (begin >= end) ++empty;
            if (worker == phase % 2) std::this_thread::yield();
            for (std::int64_t i = begin; i < end; ++i) ++runs[static_cast<std::size_t>(i)];
          });
          team.value()->barrier(worker);
        }
      });
      INFO(n << " workers, " << units << " units");
      CHECK(empty == 0);
      CHECK(std::count(runs.begin(), runs.end(), kPhases) == units);
    }
  }
}

TEST_CASE("what a slow worker leaves is taken by another", "[team][threads]") {
  auto team = engine::ThreadTeam::create({2, {}, 50, 8, {}});
  REQUIRE(team.ok());
  constexpr std::int64_t kUnits = 1600;  // 750 for each, and 100 to take
  std::atomic<std::int64_t> other{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  team.value()->run([&](std::int32_t worker) {
    team.value()->for_units(worker, kUnits, [&](std::int64_t begin, std::int64_t end) {
      if (worker == 1) other += end - begin;
      // Worker 0 is busy with its own units until worker 1 has done all the others.
      while (worker == 0 && end <= 750 && other < kUnits - 750 && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    });
  });
  CHECK(other == kUnits - 750);
}

namespace {

/// An operation whose phase 1 has as many units as phase 0 decided, and whose phase 2 may have none.
struct RoutedArgs {
  std::int64_t first, decided, trailing;
  std::atomic<std::int64_t>*routed, *ran;
};

std::int32_t routed_phases(const RoutedArgs&) { return 3; }

std::int64_t routed_units(const RoutedArgs& args, std::int32_t phase) {
  return phase == 0 ? args.first : phase == 1 ? args.routed->load() : args.trailing;
}

void run_routed(const RoutedArgs& args, std::int32_t phase, kernels::Slice slice) {
  if (phase == 0) {
    if (slice.begin == 0) *args.routed = args.decided;
    return;
  }
  args.ran[phase] += slice.end - slice.begin;
}

}  // namespace

TEST_CASE("the units of a phase may follow from what the phase before it wrote", "[team][threads]") {
  const kernels::Operation<RoutedArgs> operation{routed_phases, routed_units, run_routed};
  for (const std::uint32_t n : {1u, 2u, 3u, 8u}) {
    auto team = engine::ThreadTeam::create({n, {}, 50, 8, {}});
    REQUIRE(team.ok());
    for (const std::int64_t first : {0, 1, 40})
      for (const std::int64_t decided : {0, 1, 7, 500})
        for (const std::int64_t trailing : {0, 3}) {
          std::atomic<std::int64_t> routed{-1}, ran[3] = {};
          if (first == 0) routed = decided;
          std::atomic<int> wrong{0};
          const RoutedArgs args{first, decided, trailing, &routed, ran};
          int completions = 0;
          team.value()->run([&](std::int32_t worker) {
            engine::run_phases(*team.value(), operation, args, worker, [&](std::int32_t) {
              ++completions;
              if (ran[1] != decided || ran[2] != trailing) ++wrong;
            });
            if (completions != 1) ++wrong;
          });
          INFO(n << " threads, " << first << ", " << decided << " and " << trailing << " units");
          CHECK(wrong == 0);
        }
  }
}

TEST_CASE("a team can be made and freed without ever running", "[team][threads]") {
  for (int i = 0; i < 20; ++i) REQUIRE(engine::ThreadTeam::create({4, {}, 0, 4, {0}}).ok());
}

TEST_CASE("the block pool gives each block to one owner", "[kv][threads]") {
  KvLayout layout{DType::f16, 2, 1, 8, 8, 32};
  auto pool = kv::BlockPool::create(layout, {64, false, kv::PoolOptions::none}, {});
  REQUIRE(pool.ok());
  std::vector<std::atomic<int>> owners(64);
  std::atomic<int> clashes{0}, refused{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      unsigned state = t + 1;
      for (int i = 0; i < 500; ++i) {
        state = state * 1664525u + 1013904223u;
        std::vector<std::uint32_t> blocks(1 + state % 30);
        if (!pool.value()->take(blocks)) {
          ++refused;
          continue;
        }
        for (const std::uint32_t block : blocks)
          if (owners[block].fetch_add(1) != 0) ++clashes;
        for (const std::uint32_t block : blocks) owners[block].fetch_sub(1);
        pool.value()->give_back(blocks);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(clashes == 0);
  CHECK(pool.value()->stats().blocks_used == 0);
  std::vector<std::uint32_t> all(64), one(1);
  CHECK(pool.value()->take(all));
  CHECK_FALSE(pool.value()->take(one));
  CHECK(pool.value()->stats().bytes_committed == 64 * layout.block_bytes());
  pool.value()->give_back(all);
  CHECK(pool.value()->stats().bytes_committed == 0);
}

TEST_CASE("threads that share a model and a cache get what they get alone", "[runtime][threads]") {
  const test::ModelDir directory(test::TinySpec{});
  auto runtime_options = qi::options<qinfer_runtime_options>();
  runtime_options.n_threads = 2;
  qi::Runtime runtime(runtime_options);
  const qi::Model model = qi::Model::load(runtime, directory.path());
  auto cache_options = qi::options<qinfer_kv_cache_options>();
  cache_options.budget_blocks = 40;
  qi::KvCache cache(model, cache_options);
  const auto generate = [&](qi::Token first) {
    qi::Session session(cache);
    session.append(first);
    qi::GenerateOptions request;
    request.max_tokens = 40;
    session.generate(request);
    return session.tokens();
  };
  std::vector<std::vector<qi::Token>> expected, got(4);
  for (qi::Token t = 0; t < 4; ++t) expected.push_back(generate(t + 50));
  std::vector<std::thread> threads;
  for (qi::Token t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3; ++i) got[static_cast<std::size_t>(t)] = generate(t + 50);
      (void)model.tokenize("the thing in the thing");
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t t = 0; t < 4; ++t) CHECK(got[t] == expected[t]);
  CHECK(cache.stats().blocks_used == 0);
}

TEST_CASE("two runtimes in one process do not meet", "[runtime][threads]") {
  const test::ModelDir directory(test::TinySpec{});
  std::vector<std::thread> threads;
  std::atomic<int> done{0};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      auto options = qi::options<qinfer_runtime_options>();
      options.n_threads = 2;
      options.spin_us = 20;
      qi::Runtime runtime(options);
      const qi::Model model = qi::Model::load(runtime, directory.path());
      qi::KvCache cache(model);
      qi::Session session(cache);
      session.append(65);
      session.eval();
      if (runtime.metrics().evals == 1) ++done;
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(done == 3);
}
