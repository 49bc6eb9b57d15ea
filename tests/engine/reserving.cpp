// Reservations: what the host evaluates itself waits for blocks that are promised to no request, and then no request
// finds its own taken.
#include <random>

#include "engine/parking_support.h"

using namespace qinfer::test;

namespace {

/// A session that the host evaluates, and its reservation.
struct Outside {
  std::unique_ptr<qi::Session> session;
  std::unique_ptr<qi::Request> request;
  std::uint32_t most = 0;  ///< tokens
  bool is_there = false, has_ended = false;

  void reserve(qi::KvCache& cache, qi::Scheduler& scheduler, std::uint32_t n_tokens) {
    most = n_tokens;
    auto session_options = qi::options<qinfer_session_options>();
    session_options.max_tokens = n_tokens;
    session = std::make_unique<qi::Session>(cache, session_options);
    auto options = qi::options<qinfer_request_options>();
    options.user = this;
    request = std::make_unique<qi::Request>(scheduler.reserve(*session, n_tokens, options));
  }
  void take(const qinfer_event& event) {
    CHECK((event.n_evaluated == 0 && event.n_tokens == 0));
    (event.kind == QINFER_EVENT_RESERVED ? is_there : has_ended) = true;
    if (event.kind == QINFER_EVENT_END) CHECK(event.status == QINFER_E_CANCELLED);
  }
  void evaluate() {
    session->append(std::vector<qi::Token>(20, 5));
    session->eval();
  }
};

/// One step; events of `outside` are its own, all others those of jobs.
void step(qi::Scheduler& scheduler, Outside& outside) {
  scheduler.step();
  for (qinfer_event event = scheduler.next(); event.kind != QINFER_EVENT_NONE; event = scheduler.next()) {
    if (event.user == &outside) {
      outside.take(event);
      continue;
    }
    Job& job = *static_cast<Job*>(event.user);
    if (event.kind == QINFER_EVENT_TOKEN) job.told.add(event.token);
    if (event.kind != QINFER_EVENT_END) continue;
    ++job.ends;
    job.status = event.status;
    job.message = event.message;
    job.generation.reset(), job.session.reset();
  }
}

}  // namespace

TEST_CASE("Reserving: a session waits for blocks that are promised to none, and others for its own", "[scheduler]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 8);
  qi::Scheduler scheduler(cache);
  Crowd crowd(model, 2, 7);
  for (auto& job : crowd.jobs) {
    job->prompt.resize(30, 7);
    job->options.max_tokens = 150;  // six of eight blocks
  }
  for (std::size_t i = 0; i < 2; ++i) crowd.expected[i] = crowd.jobs[i]->alone(crowd.alone);
  Outside outside;
  crowd.jobs[0]->submit(cache, scheduler);
  step(scheduler, outside);
  outside.reserve(cache, scheduler, 96);
  crowd.jobs[1]->submit(cache, scheduler);
  while (crowd.jobs[0]->ends == 0) {
    step(scheduler, outside);
    CHECK((!outside.is_there || crowd.jobs[0]->ends != 0));
  }
  for (int i = 0; i < 10 && !outside.is_there; ++i) step(scheduler, outside);
  REQUIRE(outside.is_there);
  outside.evaluate();
  for (int i = 0; i < 10; ++i) {  // it has the room of three blocks, of which it holds one
    REQUIRE(scheduler.wait(0));
    step(scheduler, outside);
    CHECK(crowd.jobs[1]->told.tokens.empty());
  }
  CHECK(scheduler.stats().running == 1);
  outside.request.reset();
  for (int i = 0; i < 10; ++i) step(scheduler, outside);
  CHECK_FALSE(crowd.jobs[1]->told.tokens.empty());  // what the session holds is allowed for, and no more
  outside.session.reset();
  while (crowd.jobs[1]->ends == 0) step(scheduler, outside);
  crowd.check_all_right();
  check_empty(scheduler, cache);
}

TEST_CASE("Reserving: among random requests none finds its blocks taken", "[scheduler]") {
  const qi::Model model = load();
  for (unsigned seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    qi::KvCache cache = cache_of(model, 12, seed % 2 == 0 ? 0 : QINFER_CACHE_PREFIX);
    qi::Scheduler scheduler(cache);
    Crowd crowd(model, 8, 500 + seed, 100);
    Outside outside;
    for (auto& job : crowd.jobs) job->submit(cache, scheduler);
    std::uint32_t n_evaluated = 0;
    while (n_evaluated < 10 || scheduler.wait(0)) {
      if (outside.request == nullptr && n_evaluated < 10)
        outside.reserve(cache, scheduler, 1 + static_cast<std::uint32_t>(crowd.random() % 200));
      step(scheduler, outside);
      if (!outside.is_there) continue;
      const std::uint32_t n = outside.most;
      for (std::uint32_t i = 0; i < n; i += 64) {
        outside.session->append(std::vector<qi::Token>(std::min(n - i, 64u), static_cast<qi::Token>(3 + seed)));
        outside.session->eval();
        step(scheduler, outside);
      }
      outside = {};
      ++n_evaluated;
    }
    crowd.check_all_right();
    check_empty(scheduler, cache);
  }
}

TEST_CASE("Reserving: what waits or is there can be cancelled, and what cannot be is refused", "[scheduler]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 4), other = cache_of(model, 4);
  qi::Scheduler scheduler(cache);
  Outside first, second;
  first.reserve(cache, scheduler, 128);
  second.reserve(cache, scheduler, 128);
  step(scheduler, first);
  CHECK(first.is_there);
  second.request->cancel();
  first.request->cancel();
  scheduler.step();
  std::uint32_t n_ends = 0;
  for (qinfer_event event = scheduler.next(); event.kind != QINFER_EVENT_NONE; event = scheduler.next())
    n_ends += event.kind == QINFER_EVENT_END && event.status == QINFER_E_CANCELLED ? 1 : 0;
  CHECK(n_ends == 2);
  check_empty(scheduler, cache);
  refuses(QINFER_E_KV_FULL, "the cache has", [&] { Outside().reserve(cache, scheduler, 200); });
  refuses(QINFER_E_INVALID_ARGUMENT, "another KV cache", [&] { Outside().reserve(other, scheduler, 20); });
  refuses(QINFER_E_INVALID_ARGUMENT, "n_tokens is 129, expected 1 to the 128",
          [&] { scheduler.reserve(*first.session, 129); });
  refuses(QINFER_E_INVALID_ARGUMENT, "n_tokens is 0", [&] { scheduler.reserve(*first.session, 0); });
  first.evaluate();
  refuses(QINFER_E_STATE, "holds blocks already", [&] { scheduler.reserve(*first.session, 20); });
  // What is freed while it waits, or is there, gives no events.
  Outside third;
  third.reserve(cache, scheduler, 20);
  third.request.reset(), third.session.reset();
  CHECK(scheduler.wait(0));
  step(scheduler, third);
  CHECK((!third.is_there && !third.has_ended && !scheduler.wait(0)));
}
