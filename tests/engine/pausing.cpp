// Requests that are paused: nothing of theirs is drawn meanwhile, the others go on, and each gives what it gives alone,
// also where it is parked while it is paused.
#include <time.h>

#include "engine/parking_support.h"
#include "support/soak.h"

using namespace qinfer::test;

namespace {

std::uint64_t cpu_ns() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

TEST_CASE("Pausing: a paused request waits, others go on, and it goes on later", "[scheduler]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 64);
  auto options = qi::options<qinfer_scheduler_options>();
  options.max_running = 2;
  qi::Scheduler scheduler(cache, options);
  Crowd crowd(model, 4, 1, 60);
  for (auto& job : crowd.jobs) job->submit(cache, scheduler);
  step(scheduler);
  Job& paused = *crowd.jobs[0];
  paused.request->pause(true);
  crowd.jobs[3]->request->pause(true);  // which waits
  crowd.jobs[3]->request->pause(false);
  const std::size_t n_tokens = paused.told.tokens.size();
  while (crowd.jobs[1]->ends + crowd.jobs[2]->ends + crowd.jobs[3]->ends < 3) step(scheduler);
  CHECK(paused.told.tokens.size() == n_tokens);
  CHECK(scheduler.stats().running == 1);
  // One that waits for a paused request does so without computing.
  const std::uint64_t begin = cpu_ns(), steps = scheduler.stats().steps;
  for (int i = 0; i < 100; ++i) {
    REQUIRE(scheduler.wait(1'000'000'000));
    step(scheduler);
  }
  CHECK(cpu_ns() - begin < 50'000'000);
  CHECK(scheduler.stats().steps == steps);
  paused.request->pause(false);
  run(scheduler);
  crowd.check_all_right();
  check_empty(scheduler, cache);
}

TEST_CASE("Pausing: what is paused can be cancelled and freed, and its deadline holds", "[scheduler]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 64);
  std::uint64_t time = 100;
  auto options = qi::options<qinfer_scheduler_options>();
  options.clock = [](void* user) { return *static_cast<std::uint64_t*>(user); };
  options.clock_user = &time;
  qi::Scheduler scheduler(cache, options);
  std::vector<Job> jobs(3);
  for (Job& job : jobs) {
    job.prompt = model.tokenize("Once upon a time");
    job.options.max_tokens = 50;
    job.submit(cache, scheduler, 200);
  }
  step(scheduler);
  for (Job& job : jobs) job.request->pause(true);
  step(scheduler);
  jobs[0].request->cancel();
  jobs[1].request.reset(), jobs[1].generation.reset(), jobs[1].session.reset();
  step(scheduler);
  CHECK(jobs[0].status == QINFER_E_CANCELLED);
  CHECK((jobs[1].ends == 0 && jobs[2].ends == 0));
  time = 200;
  step(scheduler);
  CHECK(jobs[2].status == QINFER_E_CANCELLED);
  jobs.clear();
  check_empty(scheduler, cache);
}

TEST_CASE("Pausing: random requests pause and go on while others are parked", "[scheduler][parking]") {
  const qi::Model model = load();
  std::uint64_t n_parked = 0;
  std::uint32_t n_pauses = 0;
  for (unsigned seed = 0; seed < soak_steps(20); ++seed) {
    CAPTURE(seed);
    qi::KvCache cache = cache_of(model, 9, seed % 2 == 0 ? 0 : QINFER_CACHE_PREFIX);
    MemoryFiles files;
    qi::Scheduler scheduler = scheduler_of(cache, &files, 0, 5);
    Crowd crowd(model, 8, 300 + seed + first_seed());
    for (auto& job : crowd.jobs) job->submit(cache, scheduler);
    std::uint32_t n_steps = 0;
    while (scheduler.wait(0)) {
      step(scheduler);
      REQUIRE(++n_steps < 100'000);
      for (auto& job : crowd.jobs) {
        if (job->request == nullptr || job->ends != 0 || crowd.random() % 50 != 0) continue;
        const bool pauses = crowd.random() % 2 == 0;
        job->request->pause(pauses);
        n_pauses += pauses ? 1 : 0;
      }
    }
    n_parked += scheduler.stats().times_parked;
    crowd.check_all_right();
    check_empty(scheduler, cache);
    CHECK_FALSE(files.misused);
  }
  CHECK((n_pauses > 50 || has_soak_seed()));
  CHECK((n_parked > 20 || has_soak_seed()));
}

TEST_CASE("Pausing: a paused request gives its blocks to others", "[scheduler][parking]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 9);
  MemoryFiles files;
  qi::Scheduler scheduler = scheduler_of(cache, &files);
  Crowd crowd(model, 2, 7);
  for (auto& job : crowd.jobs) {
    job->options.max_tokens = 180;
    job->prompt.resize(30, 7);
  }
  for (std::size_t i = 0; i < 2; ++i) crowd.expected[i] = crowd.jobs[i]->alone(crowd.alone);
  auto session_options = qi::options<qinfer_session_options>();
  session_options.max_tokens = 64;
  qi::Session others(cache, session_options);  // two of the nine blocks
  others.append(std::vector<qi::Token>(60, 5));
  others.eval();
  for (auto& job : crowd.jobs) job->submit(cache, scheduler);
  while (crowd.jobs[0]->told.tokens.size() < 60) step(scheduler);
  crowd.jobs[0]->request->pause(true);
  while (crowd.jobs[1]->ends == 0) {
    REQUIRE(scheduler.wait(0));
    step(scheduler);
  }
  CHECK(scheduler.stats().times_parked == 1);
  CHECK(scheduler.stats().parked == 1);
  crowd.jobs[0]->request->pause(false);
  run(scheduler);
  crowd.check_all_right();
}

TEST_CASE("Pausing: paused requests leave for one that waits, and lose nothing", "[scheduler][parking]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 9, QINFER_CACHE_PREFIX);
  MemoryFiles files;
  qi::Scheduler scheduler = scheduler_of(cache, &files, 0, 3);
  Crowd crowd(model, 3, 7);
  for (auto& job : crowd.jobs) {
    job->options.max_tokens = 120;
    job->prompt.resize(90, static_cast<qi::Token>(job->prompt[0]));
  }
  for (std::size_t i = 0; i < 3; ++i) crowd.expected[i] = crowd.jobs[i]->alone(crowd.alone);
  for (std::size_t i = 0; i < 2; ++i) crowd.jobs[i]->submit(cache, scheduler);
  while (crowd.jobs[0]->told.tokens.size() < 20 || crowd.jobs[1]->told.tokens.size() < 20) step(scheduler);
  for (std::size_t i = 0; i < 2; ++i) crowd.jobs[i]->request->pause(true);
  crowd.jobs[2]->submit(cache, scheduler);
  for (int i = 0; crowd.jobs[2]->ends == 0; ++i) {
    REQUIRE(i < 10'000);
    REQUIRE(scheduler.wait(0));
    step(scheduler);
  }
  CHECK(scheduler.stats().parked != 0);
  for (std::size_t i = 0; i < 2; ++i) crowd.jobs[i]->request->pause(false);
  run(scheduler);
  crowd.check_all_right();
  check_empty(scheduler, cache);
}
