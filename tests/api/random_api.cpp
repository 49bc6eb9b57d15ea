// Calls of the C ABI in random order, with fixed seeds, against lists of tokens and fresh sessions. fuzz_api makes the
// same calls as libFuzzer leads it.
#include "fuzz/api_sequence.h"
#include "fuzz/choices.h"
#include "support/catch.h"
#include "support/soak.h"

#include <thread>
#include <vector>

TEST_CASE("random calls of the API leave sessions as fresh ones would be", "[kv][fuzz]") {
  qinfer::fuzz::ApiSequences sequences;
  const std::size_t steps = qinfer::test::soak_steps(400);
  const std::size_t first = qinfer::test::first_seed();
  for (std::size_t i = 0; i < steps; ++i) sequences.run(qinfer::fuzz::random_bytes(first + i, 400));
  const qinfer::fuzz::ApiCounts& counts = sequences.counts();
  CHECK(counts.evals > steps);
  CHECK(counts.compared > steps);
  CHECK(counts.forks > steps / 10);
  CHECK(counts.loads > steps / 10);
  CHECK(counts.full > steps / 20);
  CHECK(counts.cancelled > steps / 20);
  CHECK(counts.refused > steps / 20);
  CHECK(counts.generated > steps / 10);
}

TEST_CASE("random calls of the API on several runtimes at once", "[kv][fuzz][threads]") {
  const std::size_t steps = qinfer::test::soak_steps(100), first = qinfer::test::first_seed();
  std::vector<std::size_t> compared(3);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < compared.size(); ++t)
    threads.emplace_back([&compared, steps, first, t] {
      qinfer::fuzz::ApiSequences sequences;  // with runtimes, models and caches of its own
      for (std::size_t i = 0; i < steps; ++i) sequences.run(qinfer::fuzz::random_bytes(first + t * steps + i, 400));
      compared[t] = sequences.counts().compared;
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::size_t count : compared) CHECK(count > steps);
}
