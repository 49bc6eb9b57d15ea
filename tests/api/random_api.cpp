// Calls of the C ABI in random order, with fixed seeds, against lists of tokens and fresh sessions. fuzz_api makes the
// same calls as libFuzzer leads it.
#include "fuzz/api_sequence.h"
#include "fuzz/choices.h"
#include "support/catch.h"
#include "support/soak.h"

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
