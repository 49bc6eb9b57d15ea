// Parked requests where something goes wrong beside them: others that are cancelled, damaged, or take all room; clocks
// and hosts that call when they should not; a child of fork().

#include "engine/parking_support.h"
#include "support/in_child.h"

using namespace qinfer::test;

namespace {

/// Two requests that fill a cache of nine blocks: the second one leaves.
struct Two {
  explicit Two(qi::KvCache& cache_, qinfer_scheduler_options options = qi::options<qinfer_scheduler_options>(),
               MemoryFiles* files = nullptr)
      : cache(cache_) {
    options.step_ns = 1;
    options.park_path = files != nullptr ? "parked" : "/tmp";
    options.park_files = files != nullptr ? files->callbacks() : nullptr;
    scheduler = std::make_unique<qi::Scheduler>(cache, options);
    qi::KvCache alone = cache_of(model(), 64);
    for (std::size_t i = 0; i < 2; ++i) {
      jobs[i].prompt.assign(40 + 10 * i, static_cast<qi::Token>(5 + 2 * i));
      jobs[i].options.max_tokens = i == 0 ? 110 : 200;
      jobs[i].bias.emplace_back(2, -INFINITY);
      expected[i] = jobs[i].alone(alone);
      jobs[i].frees = true;
      jobs[i].submit(cache, *scheduler);
    }
  }
  static const qi::Model& model() {
    static const qi::Model loaded = load();
    return loaded;
  }
  void until_leaving() {
    while (scheduler->stats().parked == 0 && scheduler->wait(0)) step(*scheduler);
    REQUIRE(scheduler->stats().parked == 1);
    REQUIRE(cache.stats().blocks_used == 9);
  }
  void until_parked() {
    until_leaving();
    const std::uint64_t before = scheduler->stats().times_parked;
    while (scheduler->stats().times_parked == before) step(*scheduler);
  }
  void check_right(std::size_t i) const {
    CAPTURE(i, jobs[i].message);
    CHECK(jobs[i].status == QINFER_OK);
    CHECK(jobs[i].told == expected[i]);
  }

  qi::KvCache& cache;
  std::unique_ptr<qi::Scheduler> scheduler;
  Job jobs[2];
  Told expected[2];
};

}  // namespace

TEST_CASE("Parking: one that ends while it leaves takes nobody along who waits for its blocks",
          "[scheduler][parking]") {
  for (const int how : {0, 1, 2, 3}) {
    CAPTURE(how);
    qi::KvCache cache = cache_of(Two::model(), 9);
    Two two(cache);
    two.until_leaving();
    Job& leaving = two.jobs[1];
    if (how == 0) leaving.request->cancel();
    if (how == 1) leaving.request.reset();
    if (how == 2) leaving.request.reset(), leaving.generation.reset(), leaving.session.reset();
    if (how == 3) leaving.session->truncate(leaving.session->length() - 1);  // which it may not
    for (int i = 0; i < 20; ++i) step(*two.scheduler);
    if (how == 1) leaving.generation.reset(), leaving.session.reset();  // which holds its blocks
    run(*two.scheduler);
    two.check_right(0);
    if (how == 0) CHECK(leaving.status == QINFER_E_CANCELLED);
    if (how == 3) CHECK(leaving.status == QINFER_E_STATE);
    leaving.generation.reset(), leaving.session.reset();
    check_empty(*two.scheduler, cache);
  }
}

TEST_CASE("Parking: a damaged file ends the one that returns, while another waits for blocks", "[scheduler][parking]") {
  for (const bool cut : {false, true}) {
    qi::KvCache cache = cache_of(Two::model(), 9);
    MemoryFiles files;
    files.truncates = cut;  // a host that cannot is served as well
    Two two(cache, qi::options<qinfer_scheduler_options>(), &files);
    two.until_parked();
    std::string& file = files.files.at("parked/0");
    file[file.size() / 2] ^= 1;
    run(*two.scheduler);
    two.check_right(0);
    CHECK(two.jobs[1].status == QINFER_E_FORMAT);
    CHECK(two.jobs[1].message.find("parked/0: damaged") != std::string::npos);
    check_empty(*two.scheduler, cache);
  }
}

TEST_CASE("Parking: a stall of one that is cancelled is none of those that come later", "[scheduler][parking]") {
  for (const std::uint64_t begin : {0, 5}) {
    CAPTURE(begin);
    std::uint64_t time = begin;
    auto options = qi::options<qinfer_scheduler_options>();
    options.clock = [](void* user) { return *static_cast<std::uint64_t*>(user); };
    options.clock_user = &time;
    qi::KvCache cache = cache_of(Two::model(), 9);
    Two two(cache, options);
    for (int round = 0; round < 2; ++round) {
      two.until_parked();
      qi::Session greedy(cache);
      const auto take_all = [&] {
        while (cache.stats().blocks_used < 9) greedy.append(std::vector<qi::Token>(32, 5)), greedy.eval();
      };
      take_all();
      two.jobs[0].request->cancel();
      step(*two.scheduler);
      take_all();
      for (int i = 0; i < 20 && two.scheduler->wait(0); ++i) step(*two.scheduler);
      CHECK(two.jobs[1].ends == 0);  // no time has passed
      time += 9'000'000'000;
      step(*two.scheduler);
      CHECK(two.jobs[1].ends == 0);
      two.jobs[1].request->cancel();
      run(*two.scheduler);
      CHECK(two.jobs[1].status == QINFER_E_CANCELLED);
      if (round == 0)
        for (Job& job : two.jobs) job.submit(cache, *two.scheduler);
    }
  }
}

TEST_CASE("Parking: one that is here waits as well where other sessions have its room", "[scheduler][parking]") {
  for (const bool frees : {true, false}) {
    std::uint64_t time = 1;
    auto options = qi::options<qinfer_scheduler_options>();
    options.clock = [](void* user) { return *static_cast<std::uint64_t*>(user); };
    options.clock_user = &time;
    qi::KvCache cache = cache_of(Two::model(), 9);
    Two two(cache, options);
    two.jobs[1].request->cancel();
    while (two.jobs[0].told.tokens.empty()) step(*two.scheduler);
    auto greedy = std::make_unique<qi::Session>(cache);
    while (cache.stats().blocks_used < 9) greedy->append(std::vector<qi::Token>(32, 5)), greedy->eval();
    for (int i = 0; i < 200 && two.jobs[0].ends == 0; ++i) {
      step(*two.scheduler);
      if (i == 120) CHECK(two.jobs[0].ends == 0);
      if (i == 120 && frees) greedy.reset();
      if (i > 120) time += 1'000'000'000;
    }
    if (frees) {
      run(*two.scheduler);
      two.check_right(0);
    } else {
      CHECK(two.jobs[0].status == QINFER_E_KV_FULL);
    }
  }
}

TEST_CASE("Parking: a host that evaluates a parked session ends that request, and harms nothing",
          "[scheduler][parking]") {
  for (const std::uint32_t flags : {0u, std::uint32_t{QINFER_CACHE_CONTIGUOUS}})
    for (const bool draws : {false, true}) {
      qi::KvCache cache = cache_of(Two::model(), 9, flags);
      Two two(cache);
      two.until_parked();
      two.jobs[0].request->cancel();
      two.scheduler
          ->step();  // its blocks are free when the events are taken, and the other one's turn is the next step
      for (qinfer_event event = two.scheduler->next(); event.kind != QINFER_EVENT_NONE; event = two.scheduler->next()) {
      }
      two.jobs[0].request.reset(), two.jobs[0].generation.reset(), two.jobs[0].session.reset();
      Job& parked = two.jobs[1];
      try {
        draws ? void(parked.generation->next()) : parked.session->eval();
      } catch (const qi::Error&) {  // while it returns its session may be in use
      }
      run(*two.scheduler);
      CHECK(parked.ends == 1);
      CHECK((parked.status == QINFER_E_STATE || parked.status == QINFER_OK));
      if (parked.status == QINFER_OK) two.check_right(1);
      check_empty(*two.scheduler, cache);
    }
}

TEST_CASE("Parking: a clock may call the scheduler", "[scheduler][parking]") {
  qi::Scheduler* asked = nullptr;
  auto options = qi::options<qinfer_scheduler_options>();
  options.clock = [](void* user) -> std::uint64_t {
    auto* scheduler = *static_cast<qi::Scheduler**>(user);
    return scheduler == nullptr ? 1 : scheduler->stats().submitted;
  };
  options.clock_user = &asked;
  qi::KvCache cache = cache_of(Two::model(), 9);
  Two two(cache, options);
  asked = two.scheduler.get();
  run(*two.scheduler);
  two.check_right(0), two.check_right(1);
}

TEST_CASE("Parking: a scheduler that is freed leaves sessions that go on", "[scheduler][parking]") {
  for (int later = 0; later < 12; ++later) {
    qi::KvCache cache = cache_of(Two::model(), 9);
    Two two(cache);
    two.until_leaving();
    for (int i = 0; i < later; ++i) step(*two.scheduler);
    two.scheduler.reset();
    two.jobs[0].request.reset(), two.jobs[0].generation.reset(), two.jobs[0].session.reset();
    Job& left = two.jobs[1];
    while (left.told.finish == 0) left.told.add(left.generation->next());
    CHECK(left.told == two.expected[1]);
    left.request.reset(), left.generation.reset(), left.session.reset();
    CHECK(cache.stats().blocks_used == 0);
  }
}

TEST_CASE("Parking: what a child of fork() frees stays the parent's", "[scheduler][parking][fork]") {
  qi::KvCache cache = cache_of(Two::model(), 9);
  Two two(cache);
  two.until_parked();
  CHECK(in_child([&] { two.scheduler.reset(); }).empty());
  run(*two.scheduler);
  two.check_right(0), two.check_right(1);
}

TEST_CASE("Parking: one of higher priority does not leave for one of lower", "[scheduler][parking]") {
  qi::KvCache cache = cache_of(Two::model(), 9);
  auto options = qi::options<qinfer_scheduler_options>();
  options.step_ns = 1;
  options.park_path = "/tmp";
  qi::Scheduler scheduler(cache, options);
  qi::KvCache alone = cache_of(Two::model(), 64);
  Job jobs[3];
  Told expected[3];
  for (std::size_t i = 0; i < 3; ++i) {
    jobs[i].prompt.assign(50, static_cast<qi::Token>(5 + i));
    jobs[i].options.max_tokens = i == 0 ? 200 : 100;
    jobs[i].bias.emplace_back(2, -INFINITY);
    expected[i] = jobs[i].alone(alone);
    jobs[i].frees = true;
    jobs[i].begin(cache);
    auto request = qi::options<qinfer_request_options>();
    request.user = &jobs[i];
    request.priority = i == 0 ? 1 : 0;
    jobs[i].request = std::make_unique<qi::Request>(scheduler.submit(*jobs[i].generation, request));
  }
  std::uint64_t n_parked = 0;
  while (scheduler.wait(0)) {
    step(scheduler);
    n_parked = scheduler.stats().times_parked;
    if (jobs[0].ends == 0 && !jobs[0].told.tokens.empty()) CHECK(jobs[0].session->info().n_evaluated != 0);
  }
  CHECK(n_parked > 0);
  for (std::size_t i = 0; i < 3; ++i) CHECK((jobs[i].status == QINFER_OK && jobs[i].told == expected[i]));
}

TEST_CASE("Parking: hooks that forbid, and forks", "[scheduler][parking]") {
  /// Forbids every third token by its number and what was accepted last.
  struct Forbids : qi::LogitsHook {
    qi::Token last = 0;
    bool apply(float* logits, std::uint32_t n) override {
      for (std::uint32_t i = 3; i < n; ++i)
        if ((i + static_cast<std::uint32_t>(last)) % 3 == 0) logits[i] = -INFINITY;
      return true;
    }
    bool accept(qi::Token token) override {
      last = token;
      return true;
    }
    std::unique_ptr<qi::LogitsHook> clone() const override { return std::make_unique<Forbids>(*this); }
  };
  qi::KvCache cache = cache_of(Two::model(), 9), large = cache_of(Two::model(), 64);
  std::vector<Told> expected(4);
  const auto begin = [&](Job& job, qi::Session session, std::size_t i) {
    job.session = std::make_unique<qi::Session>(std::move(session));
    job.options.max_tokens = 150 + static_cast<std::uint32_t>(i);
    auto sampler = qi::options<qinfer_sampler_options>();
    sampler.temperature = 0.9F;
    sampler.seed = i;
    job.session->set_sampler(sampler);
    // A kernel set may draw an end token before there is no room.
    std::vector<std::pair<qi::Token, float>> no_ends = {{0, -INFINITY}, {1, -INFINITY}, {2, -INFINITY}};
    for (const qi::Token token : Two::model().end_tokens())
      if (token > 2) no_ends.emplace_back(token, -INFINITY);
    job.session->set_bias(no_ends);
    job.session->set_logits_hook(std::make_unique<Forbids>());
    job.generation = std::make_unique<qi::Generation>(*job.session, job.options);
  };
  for (const bool alone : {true, false}) {
    qi::Session original(alone ? large : cache);
    original.append(std::vector<qi::Token>(70, 9));
    original.eval();
    qi::Scheduler scheduler = scheduler_of(cache, nullptr);
    std::vector<Job> jobs(4);
    for (std::size_t i = 0; i < jobs.size(); ++i) begin(jobs[i], original.fork(), i);
    if (alone) {
      for (std::size_t i = 0; i < jobs.size(); ++i)
        while (expected[i].finish == 0) expected[i].add(jobs[i].generation->next());
      continue;
    }
    for (Job& job : jobs) {
      job.frees = true;
      auto request = qi::options<qinfer_request_options>();
      request.user = &job;
      job.request = std::make_unique<qi::Request>(scheduler.submit(*job.generation, request));
    }
    original.truncate(0);
    run(scheduler);
    CHECK(scheduler.stats().times_parked > 0);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      CAPTURE(i, jobs[i].message);
      CHECK(jobs[i].status == QINFER_OK);
      CHECK(jobs[i].told == expected[i]);
    }
    check_empty(scheduler, cache);
  }
}
