// Schedulers: whatever arrives beside it, and however its prompt is cut, a request gives what it gives alone; each ends
// once, with the status that it should; a step that fails for one request fails for no other.
#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <thread>

#include "support/c_api.h"
#include "support/catch.h"
#include "support/drafts.h"
#include "support/requests.h"
#include "support/skip.h"
#include "support/soak.h"
#include "support/targets.h"

using namespace qinfer::test;

namespace {

const std::string kStories = QINFER_TEST_MODELS "/tiny-stories";

qi::Model load(const char* target = nullptr) {
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = 2;
  options.cpu_target = target;
  qi::Runtime runtime(options);
  return qi::Model::load(runtime, kStories);
}

qi::KvCache cache_of(const qi::Model& model, std::uint32_t blocks, bool prefix = false) {
  auto options = qi::options<qinfer_kv_cache_options>();
  options.budget_blocks = blocks;
  options.flags = prefix ? QINFER_CACHE_PREFIX : 0;
  return qi::KvCache(model, options);
}

Job random_job(std::mt19937& random, const qi::Model& model) {
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  Job job;
  job.prompt = model.tokenize("Once upon a time");
  const std::uint32_t length = 1 + below(below(3) == 0 ? 150 : 20);
  while (job.prompt.size() < length) job.prompt.push_back(static_cast<qi::Token>(3 + below(200)));
  job.prompt.resize(length);
  job.options.max_tokens = 1 + below(25);
  if (below(3) == 0) job.options.stop = {"the", "\n"};
  job.options.logprobs = true;
  job.temperature = below(2) == 0 ? 0.0F : 0.9F;
  job.seed = random();
  job.key = below(3);
  return job;
}

std::uint64_t used_blocks(qi::KvCache& cache) { return cache.stats().blocks_used; }

/// A hook that fails with its third token.
struct FailingHook : qi::LogitsHook {
  int n = 0;
  bool apply(float*, std::uint32_t) override { return ++n < 3; }
};

/// A hook that uses the scheduler when it is freed.
struct AskingHook : qi::LogitsHook {
  explicit AskingHook(qi::Scheduler& asked) : scheduler(asked) {}
  ~AskingHook() override { CHECK(scheduler.stats().submitted > 0); }
  bool apply(float*, std::uint32_t) override { return true; }
  qi::Scheduler& scheduler;
};

}  // namespace

TEST_CASE("Scheduler: random requests give what each gives alone, on every set", "[scheduler]") {
  for (const std::string& target : usable_targets())
    for (const bool prefix : {false, true}) {
      INFO(target << (prefix ? ", prefixes kept" : ""));
      const qi::Model model = load(target.c_str());
      qi::KvCache alone = cache_of(model, 64), cache = cache_of(model, 24, prefix);
      auto options = qi::options<qinfer_scheduler_options>();
      options.max_running = 5;
      options.step_ns = 1;  // 8 rows of prompts a step
      qi::Scheduler scheduler(cache, options);
      std::mt19937 random(6 + first_seed());
      std::vector<std::unique_ptr<Job>> jobs;
      std::vector<Told> expected;
      for (int i = 0; i < 25; ++i) {
        jobs.push_back(std::make_unique<Job>(random_job(random, model)));
        expected.push_back(jobs.back()->alone(alone));
        jobs.back()->frees = true;
        jobs.back()->submit(cache, scheduler);
        for (std::uint32_t n = random() % 6; n > 0; --n) step(scheduler);
      }
      run(scheduler);
      std::uint32_t cut = 0;
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        INFO("request " << i);
        CHECK(jobs[i]->told == expected[i]);
        CHECK(jobs[i]->ends == 1);
        CHECK(jobs[i]->status == QINFER_OK);
        cut += jobs[i]->prompts > 1 ? 1 : 0;
      }
      CHECK((cut > 3 || has_soak_seed()));
      const qinfer_scheduler_stats stats = scheduler.stats();
      CHECK((stats.waiting == 0 && stats.running == 0 && stats.promised_bytes == 0));
      CHECK((stats.submitted == 25 && stats.ended == 25));
      jobs.clear();
      CHECK(used_blocks(cache) == 0);
    }
}

TEST_CASE("Scheduler: requests that guess ahead give what they give without", "[scheduler][drafts]") {
  for (const std::string& target : usable_targets()) {
    INFO(target);
    const qi::Model model = load(target.c_str());
    qi::KvCache alone = cache_of(model, 64), cache = cache_of(model, 200, true);
    auto options = qi::options<qinfer_scheduler_options>();
    options.max_running = 5;
    qi::Scheduler scheduler(cache, options);
    std::mt19937 random(10 + first_seed());
    std::vector<std::unique_ptr<Job>> jobs;
    std::vector<Told> expected;
    std::uint64_t drafted = 0, accepted = 0, later = 0;
    for (int i = 0; i < 25; ++i) {
      jobs.push_back(std::make_unique<Job>(random_job(random, model)));
      Job& job = *jobs.back();
      job.options.max_tokens = 20 + random() % 60;
      for (std::uint32_t token = 0; token < model.info().n_vocab; ++token)  // few words: a text that repeats itself
        if (token < 3 || random() % 50 != 0) job.bias.emplace_back(static_cast<qi::Token>(token), -INFINITY);
      expected.push_back(job.alone(alone));
      job.max_draft = i % 4 == 0 ? 0 : 1 + random() % 16;
      job.submit(cache, scheduler);
      if (i % 9 == 8) job.request->cancel();
      for (std::uint32_t n = random() % 20; n > 0; --n) make_rows_free(model), step(scheduler);
    }
    while (scheduler.wait(0)) make_rows_free(model), step(scheduler);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      INFO("request " << i);
      CHECK(jobs[i]->ends == 1);
      if (i % 9 == 8) {
        CHECK(jobs[i]->status == QINFER_E_CANCELLED);
        continue;
      }
      CHECK(jobs[i]->status == QINFER_OK);
      CHECK(jobs[i]->told == expected[i]);
      drafted += sum(jobs[i]->session->metrics().drafted);
      accepted += sum(jobs[i]->session->metrics().accepted);
      later += jobs[i]->session->metrics().accepted[3];
    }
    CHECK((accepted > 100 || has_soak_seed()));
    CHECK(drafted > accepted);
    CHECK((later > 10 || has_soak_seed()));  // guesses stay from step to step
    CHECK(scheduler.stats().promised_bytes == 0);
    jobs.clear();
    CHECK(used_blocks(cache) == 0);
  }
}

TEST_CASE("Scheduler: cancelled, late and forgotten requests end, and no other", "[scheduler]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 64);
  std::uint64_t time = 100;
  auto options = qi::options<qinfer_scheduler_options>();
  options.max_running = 3;
  options.clock = [](void* user) { return *static_cast<std::uint64_t*>(user); };
  options.clock_user = &time;
  qi::Scheduler scheduler(cache, options);
  std::vector<Job> jobs(6);
  for (Job& job : jobs) {
    job.prompt = model.tokenize("Once upon a time");
    job.options.max_tokens = 20;
  }
  const Told expected = jobs[0].alone(cache);
  for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i].submit(cache, scheduler, i == 1 || i == 4 ? 200 : 0);
  step(scheduler);
  CHECK(scheduler.stats().running == 3);
  CHECK(scheduler.stats().waiting == 3);
  jobs[0].request->cancel();
  jobs[3].request->cancel();  // has not begun
  step(scheduler);
  CHECK(jobs[0].status == QINFER_E_CANCELLED);
  CHECK(jobs[0].message.find("was cancelled") != std::string::npos);
  CHECK(jobs[3].status == QINFER_E_CANCELLED);
  CHECK(jobs[0].told.tokens.size() == 1);
  // What it has is the host's again, and can go on without the scheduler.
  while (jobs[0].told.finish == 0) jobs[0].told.add(jobs[0].generation->next());
  CHECK(jobs[0].told == expected);
  time = 200;
  step(scheduler);
  for (const int late : {1, 4}) {
    CHECK(jobs[static_cast<std::size_t>(late)].status == QINFER_E_CANCELLED);
    CHECK(jobs[static_cast<std::size_t>(late)].message.find("deadline") != std::string::npos);
  }
  // Freed with its generation and session while it runs; what the host frees with them is freed without the lock.
  jobs[2].session->set_logits_hook(std::make_unique<AskingHook>(scheduler));
  jobs[2].request.reset(), jobs[2].generation.reset(), jobs[2].session.reset();
  run(scheduler);
  CHECK(jobs[2].ends == 0);
  CHECK(jobs[5].told == expected);
  CHECK(jobs[5].status == QINFER_OK);
  jobs.clear();
  CHECK(used_blocks(cache) == 0);
}

TEST_CASE("Scheduler: what fails for one request fails for no other", "[scheduler]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 8);
  qi::Scheduler scheduler(cache);
  std::vector<Job> jobs(4);
  for (Job& job : jobs) {
    job.prompt = model.tokenize("Once upon a time");
    job.options.max_tokens = 20;
  }
  const Told expected = jobs[0].alone(cache);
  for (Job& job : jobs) job.submit(cache, scheduler);
  jobs[1].session->set_logits_hook(std::make_unique<FailingHook>());
  // The second request with this session.
  auto twice = std::make_unique<qi::Generation>(*jobs[2].session);
  Job other;
  auto request_options = qi::options<qinfer_request_options>();
  request_options.user = &other;
  other.request = std::make_unique<qi::Request>(scheduler.submit(*twice, request_options));
  run(scheduler);
  CHECK(jobs[0].told == expected);
  CHECK(jobs[3].told == expected);
  CHECK(jobs[1].status == QINFER_E_CANCELLED);  // as a hook that returns false is said to
  CHECK(jobs[1].told.tokens.size() == 2);
  CHECK(jobs[2].told == expected);
  CHECK(other.status == QINFER_E_STATE);
  CHECK(other.message.find("in use") != std::string::npos);
  // Others of the cache leave no room.
  other.request.reset(), twice.reset(), jobs.clear();
  qi::Session greedy(cache);
  greedy.append(std::vector<qi::Token>(6 * 32, 5));
  greedy.eval();
  std::vector<Job> large(3);
  for (Job& job : large) {
    job.prompt = model.tokenize("Once upon a time");
    job.options.max_tokens = 20;
    job.submit(cache, scheduler);
  }
  run(scheduler);
  const auto n_full =
      std::count_if(large.begin(), large.end(), [](const Job& j) { return j.status == QINFER_E_KV_FULL; });
  CHECK(n_full == 1);
  CHECK(std::count_if(large.begin(), large.end(), [&](const Job& j) { return j.told == expected; }) == 2);
}

TEST_CASE("Scheduler: no request meets a full pool, where groups of layers have pools of their own", "[scheduler]") {
  for (const char* name : {"gemma3-released-bf16", "olmo3-f32"})
    for (const std::uint32_t flags : {std::uint32_t{0}, std::uint32_t{QINFER_CACHE_COMMIT}}) {
      INFO(name << ", flags " << flags);
      auto load_options = qi::options<qinfer_load_options>();
      load_options.max_batch_tokens = 16;
      const qi::Model model = qi::Model::load(std::string(QINFER_TEST_FIXTURES "/models/") + name, load_options);
      auto cache_options = qi::options<qinfer_kv_cache_options>();
      cache_options.budget_blocks = 12;
      cache_options.flags = flags;
      qi::KvCache cache(model, cache_options);
      auto options = qi::options<qinfer_scheduler_options>();
      options.max_running = 12;
      qi::Scheduler scheduler(cache, options);
      std::vector<Job> jobs(40);
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        jobs[i].prompt.assign(3 + i % 20, 5);
        jobs[i].options.max_tokens = 4;
        jobs[i].frees = true;
        jobs[i].submit(cache, scheduler);
      }
      run(scheduler);
      for (const Job& job : jobs) CHECK(job.status == QINFER_OK);
    }
}

TEST_CASE("Scheduler: what requests hold already is not asked for again", "[scheduler]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 16);
  qi::Scheduler scheduler(cache);
  std::vector<Job> jobs(2);  // six blocks each, of which they hold five
  for (Job& job : jobs) {
    job.prompt.assign(5 * 32, 5);
    job.options.max_tokens = 20;
    job.begin(cache);
    job.session->eval();
    auto request_options = qi::options<qinfer_request_options>();
    request_options.user = &job;
    job.request = std::make_unique<qi::Request>(scheduler.submit(*job.generation, request_options));
  }
  step(scheduler);
  CHECK(scheduler.stats().running == 2);
  CHECK((jobs[0].told.tokens.size() == 1 && jobs[1].told.tokens.size() == 1));
  run(scheduler);
  for (const Job& job : jobs) CHECK(job.status == QINFER_OK);
}

TEST_CASE("Scheduler: the same generation again and again, cancelled before and after it begins", "[scheduler]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 8);
  qi::Scheduler scheduler(cache);
  Job job;
  job.prompt = model.tokenize("Once upon a time");
  job.options.max_tokens = 20;
  const Told expected = job.alone(cache);
  job.begin(cache);
  const std::size_t n_times = soak_steps(5000);
  for (std::size_t i = 0; i < n_times; ++i) {
    auto request_options = qi::options<qinfer_request_options>();
    request_options.user = &job;
    job.ends = 0;
    job.request = std::make_unique<qi::Request>(scheduler.submit(*job.generation, request_options));
    if (i % (n_times / 5) == n_times / 5 - 1) step(scheduler);  // a token
    i % 2 == 0 ? job.request->cancel() : job.request.reset();
    scheduler.step();
    while (scheduler.next().kind != QINFER_EVENT_NONE) {
    }
  }
  const qinfer_scheduler_stats stats = scheduler.stats();
  CHECK((stats.submitted == n_times && stats.ended == n_times && stats.promised_bytes == 0));
  CHECK(job.told.tokens.size() == 5);
  while (job.told.finish == 0) job.told.add(job.generation->next());
  CHECK(job.told == expected);
}

TEST_CASE("Scheduler: calls that cannot be", "[scheduler]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 4), another = cache_of(model, 4);
  auto options = qi::options<qinfer_scheduler_options>();
  CHECK(qi::Scheduler::plan() > 10'000);
  options.max_running = 1u << 21;
  refuses(QINFER_E_INVALID_ARGUMENT, "max_running is 2097152", [&] { qi::Scheduler::plan(options); });
  options.max_running = 512;
  refuses(QINFER_E_INVALID_ARGUMENT, "max_running is 512", [&] { qi::Scheduler(cache, options); });
  options.max_running = 1;
  options.max_waiting = (1u << 20) + 1;
  refuses(QINFER_E_INVALID_ARGUMENT, "max_waiting is 1048577", [&] { qi::Scheduler(cache, options); });
  options.max_waiting = 2;
  qi::Scheduler scheduler(cache, options);
  CHECK_FALSE(scheduler.wait(1000));
  scheduler.step();  // without requests
  CHECK(scheduler.next().kind == QINFER_EVENT_NONE);
  Job elsewhere, large;
  elsewhere.prompt = large.prompt = {5, 6, 7};
  elsewhere.options.max_tokens = 5, large.options.max_tokens = 200;
  refuses(QINFER_E_INVALID_ARGUMENT, "another KV cache", [&] { elsewhere.submit(another, scheduler); });
  refuses(QINFER_E_KV_FULL, "the cache has", [&] { large.submit(cache, scheduler); });
  std::vector<Job> jobs(3);
  for (Job& job : jobs) job.prompt = {5, 6, 7}, job.options.max_tokens = 5;
  jobs[0].submit(cache, scheduler);
  jobs[1].submit(cache, scheduler);
  refuses(QINFER_E_NO_MEMORY, "max_waiting", [&] { jobs[2].submit(cache, scheduler); });
  scheduler.step();
  refuses(QINFER_E_STATE, "were not taken", [&] { scheduler.step(); });
  while (scheduler.next().kind != QINFER_EVENT_NONE) {
  }
  jobs[2].submit(cache, scheduler);
  {  // What it takes is the model's budget's.
    auto load_options = qi::options<qinfer_load_options>();
    load_options.memory_budget_bytes = qi::plan(kStories).total + 10'000'000;
    const qi::Model tight = qi::Model::load(kStories, load_options);
    qi::KvCache small = cache_of(tight, 4);
    options.max_waiting = 1u << 20;
    refuses(QINFER_E_NO_MEMORY, "a scheduler needs", [&] { qi::Scheduler(small, options); });
  }
  qinfer_error err = {};
  CHECK(qinfer_scheduler_step(nullptr, &err) == QINFER_E_INVALID_ARGUMENT);
  CHECK(qinfer_scheduler_submit(scheduler.native(), nullptr, nullptr, nullptr, &err) == QINFER_E_INVALID_ARGUMENT);
  qinfer_request_cancel(nullptr), qinfer_request_free(nullptr), qinfer_scheduler_free(nullptr);
  // Freed with requests in it, which are freed later.
}

TEST_CASE("Scheduler: any threads submit, cancel and free while one steps", "[scheduler][threads]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 64);
  auto options = qi::options<qinfer_scheduler_options>();
  options.max_running = 4;
  qi::Scheduler scheduler(cache, options);
  Job like;
  like.prompt = model.tokenize("Once upon a time");
  like.options.max_tokens = 8;
  const Told expected = like.alone(cache);
  constexpr int kThreads = 3, kJobs = 20;
  std::vector<std::vector<Job>> jobs(kThreads);
  std::atomic<int> over{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    jobs[static_cast<std::size_t>(t)].resize(kJobs);
    threads.emplace_back([&, t] {
      std::vector<Job>& own = jobs[static_cast<std::size_t>(t)];
      for (int i = 0; i < kJobs; ++i) {
        Job& job = own[static_cast<std::size_t>(i)];
        job.prompt = like.prompt, job.options = like.options;
        job.begin(cache);
        auto request_options = qi::options<qinfer_request_options>();
        request_options.key = static_cast<std::uint64_t>(t);
        job.request = std::make_unique<qi::Request>(scheduler.submit(*job.generation, request_options));
        if (i % 4 == 1) job.request->cancel();
        if (i % 4 == 2) job.request.reset();
      }
      ++over;
    });
  }
  int ends = 0, whole = 0;
  while (over < kThreads || scheduler.wait(0)) {
    if (!scheduler.wait(10'000'000)) continue;
    scheduler.step();
    for (qinfer_event event = scheduler.next(); event.kind != QINFER_EVENT_NONE; event = scheduler.next()) {
      if (event.kind != QINFER_EVENT_END) continue;
      ++ends;
      whole += event.status == QINFER_OK ? 1 : 0;
    }
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(ends <= kThreads * kJobs);
  CHECK(whole >= kThreads * kJobs / 2);
  for (const auto& own : jobs)
    for (std::size_t i = 0; i < own.size(); i += 4) CHECK(own[i].generation->native() != nullptr);
  CHECK(scheduler.stats().submitted == kThreads * kJobs);
  CHECK(scheduler.stats().ended == kThreads * kJobs);
  jobs.clear();
  CHECK(used_blocks(cache) == 0);
}

TEST_CASE("Scheduler: prompts that begin alike are evaluated once, where the cache keeps prefixes", "[scheduler]") {
  const qi::Model model = load();
  for (const bool prefix : {false, true})
    for (const bool later : {false, true}) {  // the others come while the first one's prompt is evaluated, or after it
      INFO(prefix << ", " << later);
      qi::KvCache alone = cache_of(model, 64), cache = cache_of(model, 64, prefix);
      auto options = qi::options<qinfer_scheduler_options>();
      options.step_ns = 1;
      qi::Scheduler scheduler(cache, options);
      std::vector<Job> jobs(5);
      std::vector<Told> expected;
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        jobs[i].prompt.assign(3 * 32 + 10, 7);
        if (i == 3) jobs[i].prompt.resize(70);      // two blocks of it
        if (i == 4) jobs[i].prompt.assign(100, 9);  // none
        jobs[i].options.max_tokens = 10;
        jobs[i].temperature = 0.9F;
        jobs[i].seed = i;
        expected.push_back(jobs[i].alone(alone));
      }
      jobs[0].submit(cache, scheduler);
      for (int i = 0; i < 3 || (later && jobs[0].told.tokens.empty()); ++i) step(scheduler);
      for (std::size_t i = 1; i < jobs.size(); ++i) jobs[i].submit(cache, scheduler);
      step(scheduler);
      if (prefix) CHECK(scheduler.stats().running == (later ? 5 : 2));  // the last one waits for none
      run(scheduler);
      std::uint64_t evaluated = 0;
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        CHECK(jobs[i].status == QINFER_OK);
        CHECK(jobs[i].told == expected[i]);
        evaluated += jobs[i].session->metrics().prefill_tokens;
      }
      CHECK(evaluated == (prefix ? 106 + 2 * 10 + 6 + 100 : 3 * 106 + 70 + 100));
    }
}

TEST_CASE("Scheduler: one that waits for another's prompt goes on where that is cancelled", "[scheduler]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 64, true);
  auto options = qi::options<qinfer_scheduler_options>();
  options.step_ns = 1;
  qi::Scheduler scheduler(cache, options);
  std::vector<Job> jobs(3);
  for (Job& job : jobs) {
    job.prompt.assign(150, 7);
    job.options.max_tokens = 5;
    job.submit(cache, scheduler);
  }
  for (int i = 0; i < 3; ++i) step(scheduler);
  CHECK(scheduler.stats().running == 1);
  jobs[0].request->cancel();
  run(scheduler);
  CHECK(jobs[1].status == QINFER_OK);
  CHECK(jobs[2].told == jobs[1].told);
  CHECK(jobs[2].session->metrics().prefill_tokens < 40);
}
