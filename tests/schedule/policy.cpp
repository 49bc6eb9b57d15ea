// The scheduler's policy and what it learns of costs, by hand.
#include "schedule/policy.h"

#include <cmath>
#include <map>
#include <random>

#include "support/catch.h"

using namespace qinfer;
using namespace qinfer::schedule;

namespace {

/// 1 ms a row.
class PlainCosts final : public StepCosts {
 public:
  double predict(const StepShape& step) const override { return 0.001 * (step.decode_rows + step.prefill_rows); }
  void learn(const StepShape&, double) override {}
};

Request request(std::uint64_t id, std::uint64_t key, std::uint32_t prompt, std::uint64_t blocks = 1) {
  return {.id = id, .key = key, .prompt_tokens = prompt, .prompt_blocks = blocks, .all_blocks = 2 * blocks};
}

constexpr auto kNothing = [](std::uint64_t) { return 0u; };

void begin_all(Policy& policy) {
  while (const auto id = policy.next(kNothing)) policy.begin(*id, 0);
}

std::map<std::uint64_t, std::uint32_t> rows_of(Policy& policy) {
  std::map<std::uint64_t, std::uint32_t> rows;
  for (const Share& share : policy.plan()) rows[share.id] = share.rows;
  return rows;
}

}  // namespace

TEST_CASE("schedule: keys share a step, and the prompts of a key their part", "[schedule]") {
  PlainCosts costs;
  Policy policy({.blocks = 1000}, costs);
  // One that decodes, so that the step's time counts: 100 rows, of which it has one.
  policy.submit(request(1, 9, 1));
  begin_all(policy);
  rows_of(policy);
  policy.stepped(0.001);
  policy.submit(request(2, 1, 5000));
  for (std::uint64_t id = 3; id < 13; ++id) policy.submit(request(id, 2, 5000));
  begin_all(policy);
  std::map<std::uint64_t, std::uint32_t> sums;
  for (int step = 0; step < 50; ++step) {
    const auto rows = rows_of(policy);
    std::uint32_t all = 0;
    for (const auto& [id, n] : rows) sums[id] += n, all += n;
    CHECK(rows.at(1) == 1);
    CHECK(all == 100);
    policy.stepped(0.1);
  }
  // Half of 4,950 for the key with one prompt, a tenth of the other half for each of ten.
  CHECK(std::abs(static_cast<int>(sums[2]) - 2475) <= 50);
  for (std::uint64_t id = 3; id < 13; ++id) CHECK(std::abs(static_cast<int>(sums[id]) - 247) <= 25);
}

TEST_CASE("schedule: a short prompt does not wait for the end of a long one", "[schedule]") {
  PlainCosts costs;
  Policy policy({.blocks = 1000}, costs);
  policy.submit(request(1, 0, 1));
  policy.submit(request(2, 0, 4000));
  begin_all(policy);
  rows_of(policy);
  policy.stepped(0.1);
  policy.submit(request(3, 0, 40));
  begin_all(policy);
  CHECK(rows_of(policy).at(3) == 40);
}

TEST_CASE("schedule: prompts have the least of rows where decoding takes all the time", "[schedule]") {
  PlainCosts costs;
  Policy policy({.step_seconds = 0.002, .blocks = 1000}, costs);
  for (std::uint64_t id = 1; id < 5; ++id) policy.submit(request(id, id, 1));
  begin_all(policy);
  rows_of(policy);
  policy.stepped(0.1);
  policy.submit(request(9, 9, 100));
  begin_all(policy);
  const auto rows = rows_of(policy);
  CHECK(rows.at(9) == 8);
  CHECK(rows.size() == 5);
}

TEST_CASE("schedule: without anyone who decodes a step takes longer, and all rows that it may", "[schedule]") {
  PlainCosts costs;
  Policy policy({.blocks = 1000}, costs);
  policy.submit(request(1, 0, 4000));
  begin_all(policy);
  CHECK(rows_of(policy).at(1) == 400);  // four times a tenth of a second
  Policy fast({.step_seconds = 1, .blocks = 1000}, costs);
  fast.submit(request(1, 0, 4000));
  begin_all(fast);
  CHECK(rows_of(fast).at(1) == 512);
}

TEST_CASE("schedule: what begins first", "[schedule]") {
  PlainCosts costs;
  Policy policy({.max_running = 2, .blocks = 1000}, costs);
  policy.submit(request(1, 7, 10));
  policy.submit(request(2, 7, 10));
  policy.submit(request(3, 8, 10));
  policy.submit(request(4, 8, 10));
  CHECK(policy.next(kNothing) == 1);  // the oldest
  policy.begin(1, 0);
  CHECK(policy.next(kNothing) == 3);                                            // of the key that has none
  CHECK(policy.next([](std::uint64_t id) { return id == 4 ? 5u : 0u; }) == 4);  // whose prompt is there
  Request urgent = request(5, 7, 10);
  urgent.priority = 1;
  policy.submit(urgent);
  CHECK(policy.next(kNothing) == 5);
  policy.begin(5, 0);
  CHECK(!policy.next(kNothing));  // max_running
  policy.end(1);
  policy.end(5);
  CHECK(policy.next(kNothing) == 2);
}

TEST_CASE("schedule: one that was passed over often enough comes next, and all wait for its blocks", "[schedule]") {
  PlainCosts costs;
  Policy policy({.blocks = 20, .most_passed = 3}, costs);
  policy.submit(request(1, 0, 10, 1));
  begin_all(policy);
  policy.submit(request(2, 0, 10, 10));  // 20 blocks at most, of which 2 are promised
  for (std::uint64_t id = 3; id < 7; ++id) policy.submit(request(id, 1, 10, 1));
  begin_all(policy);
  CHECK(policy.n_running() == 4);  // three passed it over
  CHECK(policy.promised_blocks() == 8);
  for (const std::uint64_t id : {1, 3, 4}) policy.end(id);
  CHECK(!policy.next(kNothing));
  policy.end(5);
  CHECK(policy.next(kNothing) == 2);
  // By the prompt alone it would have begun.
  Policy bold({.blocks = 20, .overcommit = true}, costs);
  bold.submit(request(1, 0, 10, 1));
  bold.submit(request(2, 0, 10, 10));
  begin_all(bold);
  CHECK(bold.n_running() == 2);
  CHECK(bold.promised_blocks() == 11);
}

TEST_CASE("schedule: waiting requests have a bound, and may leave", "[schedule]") {
  PlainCosts costs;
  Policy policy({.max_waiting = 2, .blocks = 10}, costs);
  CHECK(policy.submit(request(1, 0, 1)));
  CHECK(policy.submit(request(2, 0, 1)));
  CHECK(!policy.submit(request(3, 0, 1)));
  policy.end(2);
  CHECK(!policy.submit(request(2, 0, 1, 6)));  // 12 blocks: it would keep all others from beginning
  CHECK(policy.submit(request(2, 0, 1, 5)));
  policy.end(2);
  CHECK(policy.submit(request(2, 0, 1)));
  policy.end(1);
  policy.end(77);
  CHECK(policy.submit(request(3, 0, 1)));
  begin_all(policy);
  CHECK(policy.n_running() == 2);
  policy.end(2);
  policy.end(3);
  CHECK(policy.promised_blocks() == 0);
  CHECK(policy.plan().empty());
}

TEST_CASE("schedule: costs are learned, followed when they change, and never negative", "[schedule]") {
  std::mt19937 random(3);
  LearnedCosts costs;
  const auto truth = [](const StepShape& step, double slower) {
    const double rows = step.decode_rows + step.prefill_rows;
    return slower * (step.prefill_rows != 0 ? 0.01 + 0.0015 * rows + 2e-6 * static_cast<double>(step.context)
                                            : 0.03 + 0.001 * rows + 3e-6 * static_cast<double>(step.context));
  };
  const auto step = [&] {
    const std::uint32_t decoding = random() % 17;
    const std::uint32_t prompts = random() % 2 != 0 || decoding == 0 ? 8 + random() % 100 : 0;
    return StepShape{decoding, prompts, (decoding + prompts) * (random() % 3000)};
  };
  // Times are off by up to 5 %, and what is learned by no more.
  for (const double slower : {1.0, 3.0, 0.5}) {
    for (int i = 0; i < 4000; ++i) {
      const StepShape shape = step();
      costs.learn(shape, truth(shape, slower) * std::uniform_real_distribution<>(0.95, 1.05)(random));
    }
    for (int i = 0; i < 200; ++i) {
      const StepShape shape = step();
      CAPTURE(slower, shape.decode_rows, shape.prefill_rows, shape.context);
      CHECK(costs.predict(shape) == Approx(truth(shape, slower)).epsilon(0.05));
    }
  }
  // All alike: the same numbers again and again say nothing of each term.
  LearnedCosts alike;
  for (int i = 0; i < 5000; ++i) alike.learn({4, 0, 4000}, 0.05);
  CHECK(alike.predict({4, 0, 4000}) == Approx(0.05).epsilon(0.02));
  CHECK(alike.predict({16, 0, 16000}) >= 0.05);
  for (const double bad : {-1.0, double{NAN}, double{INFINITY}}) alike.learn({4, 0, 4000}, bad);
  CHECK(alike.predict({4, 0, 4000}) == Approx(0.05).epsilon(0.02));
  CHECK(LearnedCosts().predict({1, 0, 0}) > 0);
}

TEST_CASE("schedule: what others hold keeps requests waiting while one runs, but not what a request holds itself",
          "[schedule]") {
  PlainCosts costs;
  Policy policy({.blocks = 10}, costs);
  for (std::uint64_t id = 1; id <= 3; ++id) policy.submit(request(id, 0, 10, 2));  // four blocks at most
  const auto holds = [](std::uint64_t held) { return [held](std::uint64_t) { return Policy::Has{0, held}; }; };
  CHECK(policy.next(holds(0), 10) == 1);  // nothing runs: it tries
  policy.begin(1, 0);
  CHECK_FALSE(policy.next(holds(0), 3));
  CHECK(policy.next(holds(0), 2) == 2);
  CHECK(policy.next(holds(3), 5) == 2);
  CHECK_FALSE(policy.next(holds(3), 6));
  policy.begin(2, 0);
  CHECK_FALSE(policy.next(holds(4), 4));  // two are left
  policy.end(1);
  CHECK(policy.next(holds(4), 4) == 3);
}

namespace {

/// Three that decode, with so many tokens left each, and hold four of twelve blocks.
void fill(Policy& policy, std::span<const std::uint64_t> left) {
  for (std::uint64_t id = 1; id <= 3; ++id) {
    Request wanted = request(id, 0, 10, 3);
    wanted.all_blocks = 12;
    wanted.all_tokens = 10 + left[id - 1];
    policy.submit(wanted);
  }
  begin_all(policy);
  rows_of(policy);
  policy.stepped(0.1);
  for (std::uint64_t id = 1; id <= 3; ++id) policy.holds(id, 4);
}

}  // namespace

TEST_CASE("schedule: where blocks run out the request with the most left to do is parked, and returns", "[schedule]") {
  PlainCosts costs;
  Policy policy({.blocks = 12, .overcommit = true, .headroom_blocks = 1}, costs);
  fill(policy, std::vector<std::uint64_t>{50, 70, 60});
  CHECK(policy.promised_blocks() == 12);
  Policy::Relief relief = policy.relieve(1);
  CHECK((relief.leaves == 2 && relief.is_coming));
  relief = policy.relieve(3);
  CHECK((relief.leaves == 0 && relief.is_coming));  // one at a time
  CHECK(rows_of(policy) == std::map<std::uint64_t, std::uint32_t>{{1, 1}, {3, 1}});
  CHECK(policy.promised_blocks() == 12);  // until they are given back
  CHECK_FALSE(policy.next_to_return(0));
  policy.parked(2);
  CHECK(policy.n_parked() == 1);
  CHECK(policy.promised_blocks() == 8);
  policy.submit(request(4, 0, 10, 1));
  CHECK_FALSE(policy.next(kNothing));     // while one is parked
  CHECK_FALSE(policy.next_to_return(0));  // four blocks, and no headroom
  policy.end(1);
  CHECK_FALSE(policy.next_to_return(3));  // four of its own, four of 3, one of headroom each: two are left
  CHECK(policy.next_to_return(2) == 2);
  CHECK(policy.promised_blocks() == 8);
  CHECK_FALSE(policy.next_to_return(0));
  CHECK(rows_of(policy).count(2) == 0);
  policy.stay_parked(2);
  CHECK(policy.promised_blocks() == 4);
  CHECK(policy.next_to_return(0) == 2);
  CHECK_FALSE(policy.next(kNothing));
  policy.returned(2);
  CHECK(rows_of(policy).count(2) == 1);
  CHECK(policy.next(kNothing) == 4);
  CHECK(policy.n_parked() == 0);
}

TEST_CASE("schedule: who leaves and who cannot be helped", "[schedule]") {
  PlainCosts costs;
  Policy policy({.blocks = 12, .overcommit = true}, costs);
  Request urgent = request(9, 0, 10, 1);
  urgent.priority = 1;
  urgent.all_tokens = 10'000;
  policy.submit(urgent);
  fill(policy, std::vector<std::uint64_t>{50, 70, 70});
  policy.holds(9, 2);
  CHECK(policy.relieve(9).leaves == 3);  // not the urgent one; of equal ones the youngest
  policy.end(3);                         // cancelled meanwhile
  CHECK(policy.relieve(1).leaves == 2);
  policy.parked(2);
  CHECK(policy.relieve(9).leaves == 1);
  policy.parked(1);
  Policy::Relief relief = policy.relieve(9);
  CHECK((relief.leaves == 0 && !relief.is_coming));  // no one else holds any
  policy.end(9);
  CHECK(policy.next_to_return(12) == 1);  // the oldest; none is left that could make room
  policy.returned(1);
  policy.submit(request(5, 0, 10, 1));
  CHECK(policy.relieve(1).leaves == 0);
  policy.holds(1, 0);
  CHECK_FALSE(policy.relieve(1).is_coming);
  policy.end(2);
  begin_all(policy);
  policy.holds(1, 3);
  relief = policy.relieve(5);  // which holds none
  CHECK((relief.leaves == 0 && relief.is_coming));
}

TEST_CASE("schedule: a paused request has no rows, leaves first, and keeps none from beginning or returning",
          "[schedule]") {
  PlainCosts costs;
  Policy policy({.blocks = 12, .overcommit = true}, costs);
  fill(policy, std::vector<std::uint64_t>{50, 70, 60});
  policy.pause(1, true);
  CHECK(rows_of(policy) == std::map<std::uint64_t, std::uint32_t>{{2, 1}, {3, 1}});
  CHECK(policy.relieve(2).leaves == 1);  // though it has the least left to do
  policy.parked(1);
  policy.submit(request(4, 0, 10, 1));
  CHECK(policy.next(kNothing) == 4);
  CHECK_FALSE(policy.next_to_return(0));
  policy.pause(1, false);
  CHECK_FALSE(policy.next(kNothing));
  CHECK(policy.next_to_return(0) == 1);
}

TEST_CASE("schedule: a paused request leaves for one that waits or is parked, and does not begin", "[schedule]") {
  PlainCosts costs;
  Policy policy({.max_running = 4, .blocks = 12, .overcommit = true}, costs);
  fill(policy, std::vector<std::uint64_t>{50, 70, 60});
  policy.submit(request(4, 0, 10, 5));
  CHECK_FALSE(policy.next(kNothing));
  CHECK_FALSE(policy.make_room());  // those that run will come to their ends
  policy.pause(1, true);
  policy.pause(4, true);
  CHECK_FALSE(policy.next(kNothing));
  CHECK_FALSE(policy.make_room());  // nor does one that is paused itself need room
  policy.pause(4, false);
  CHECK(policy.make_room() == 1);
  CHECK_FALSE(policy.make_room());  // one at a time
  policy.parked(1);
  policy.pause(2, true);
  CHECK_FALSE(policy.next(kNothing));
  CHECK(policy.make_room() == 2);
  policy.parked(2);
  policy.pause(4, true);
  CHECK_FALSE(policy.next(kNothing));
  policy.pause(4, false);
  CHECK(policy.next(kNothing) == 4);
  policy.begin(4, 0);
  policy.holds(4, 5);
  policy.pause(1, false);
  CHECK_FALSE(policy.next_to_return(0));
  CHECK_FALSE(policy.make_room());
  policy.pause(4, true);
  CHECK(policy.make_room() == 4);
}

TEST_CASE("schedule: no paused request leaves where no place is free, or nothing is parked", "[schedule]") {
  PlainCosts costs;
  for (const bool parks : {true, false}) {
    Policy policy({.max_running = parks ? 3u : 4u, .blocks = 12, .overcommit = parks}, costs);
    fill(policy, std::vector<std::uint64_t>{50, 70, 60});
    policy.pause(1, true);
    policy.submit(request(4, 0, 10, 5));
    CHECK_FALSE(policy.next(kNothing));
    CHECK_FALSE(policy.make_room());
  }
}

TEST_CASE("schedule: one that waits for another's prompt is passed over, but not for ever", "[schedule]") {
  PlainCosts costs;
  Policy policy({.blocks = 100, .most_passed = 2}, costs);
  for (std::uint64_t id = 1; id <= 5; ++id) policy.submit(request(id, 0, 10));
  const auto has = [](std::uint64_t id) { return Policy::Has{0, 0, id == 1}; };
  for (const std::uint64_t id : {2, 3}) {
    CHECK(policy.next(has, 0) == id);
    policy.begin(id, 0);
  }
  CHECK(policy.next(has, 0) == 1);
}
