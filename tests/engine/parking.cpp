// Parked requests: with few blocks for many, each gives what it gives alone; what fails of one request's file fails for
// no other; a host that cancels, reads or frees at any moment finds sessions whole.
#include "engine/parking_support.h"
#include "support/drafts.h"
#include "support/soak.h"
#include "support/targets.h"

using namespace qinfer::test;

TEST_CASE("Parking: random requests give what each gives alone, on every set", "[scheduler][parking]") {
  std::uint32_t turn = 0;
  for (const std::string& target : usable_targets())
    for (const std::uint32_t flags : {0u, std::uint32_t{QINFER_CACHE_PREFIX}, std::uint32_t{QINFER_CACHE_CONTIGUOUS}})
      for (const bool host : {false, true}) {
        // All on the set that is chosen here; of the others, and of emulated ones, one each.
        if (target != usable_targets()[0] && turn++ % 7 != 0) continue;
        INFO(target << ", flags " << flags << (host ? ", files of the host" : ""));
        const qi::Model model = load(kStories, target.c_str());
        qi::KvCache cache = cache_of(model, 9, flags);
        MemoryFiles files;
        qi::Scheduler scheduler = scheduler_of(cache, host ? &files : nullptr);
        Crowd crowd(model, 20, 11 + first_seed());
        std::uint32_t most = 0, guessing = 0;
        const auto one = [&] {
          make_rows_free(model);
          step(scheduler);
          most = std::max(most, scheduler.stats().parked);
        };
        for (auto& job : crowd.jobs) {
          job->max_draft = ++guessing % 3 == 0 ? 8 : 0;
          job->submit(cache, scheduler);
          for (std::uint32_t n = crowd.random() % 6; n > 0; --n) one();
        }
        while (scheduler.wait(0)) one();
        crowd.check_all_right();
        CHECK((scheduler.stats().times_parked > 5 || has_soak_seed()));
        CHECK((most > 1 || has_soak_seed()));
        check_empty(scheduler, cache);
        CHECK_FALSE(files.misused);
      }
}

TEST_CASE("Parking: windows, groups of layers with pools of their own, and blocks that others share",
          "[scheduler][parking]") {
  for (const char* name : {"gemma3-released-bf16", "olmo3-f32", "mistral-window-bf16", "ministral3-f32"})
    for (const std::uint32_t flags : {0u, std::uint32_t{QINFER_CACHE_COMMIT}, std::uint32_t{QINFER_CACHE_PREFIX}}) {
      INFO(name << ", flags " << flags);
      auto load_options = qi::options<qinfer_load_options>();
      load_options.max_batch_tokens = 16;
      const qi::Model model = load(std::string(QINFER_TEST_FIXTURES "/models/") + name, nullptr, load_options);
      qi::KvCache cache = cache_of(model, 6, flags);
      qi::Scheduler scheduler = scheduler_of(cache, nullptr);
      Crowd crowd(model, 20, 5 + first_seed(), 66);
      for (std::size_t i = 1; i < crowd.jobs.size(); i += 2) {  // beginnings that the cache keeps
        const std::vector<qi::Token>& before = crowd.jobs[i - 1]->prompt;
        crowd.jobs[i]->prompt = before;
        crowd.expected[i] = crowd.jobs[i]->alone(crowd.alone);
      }
      for (auto& job : crowd.jobs) {
        job->submit(cache, scheduler);
        for (std::uint32_t n = crowd.random() % 4; n > 0; --n) step(scheduler);
      }
      run(scheduler);
      crowd.check_all_right();
      CHECK((scheduler.stats().times_parked > 2 || has_soak_seed()));
      crowd.jobs.clear();
      check_empty(scheduler, cache);
    }
}

TEST_CASE("Parking: requests without a limit run together", "[scheduler][parking]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 9);
  for (const bool parks : {false, true}) {
    qi::Scheduler scheduler = parks ? scheduler_of(cache, nullptr) : qi::Scheduler(cache);
    std::vector<Job> jobs(4);
    for (Job& job : jobs) {
      job.prompt = model.tokenize("Once upon a time");
      job.options.max_tokens = 200;  // seven blocks
      job.frees = true;
      job.submit(cache, scheduler);
    }
    step(scheduler), step(scheduler);
    CHECK(scheduler.stats().running == (parks ? 4 : 1));
    run(scheduler);
    for (const Job& job : jobs) CHECK((job.status == QINFER_OK && job.told == jobs[0].told));
  }
}

TEST_CASE("Parking: whatever call of the host's files fails, one request ends, and the others go on",
          "[scheduler][parking]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 9);
  std::size_t n_calls = SIZE_MAX, n_failed = 0;
  const qinfer_status given[] = {QINFER_E_IO, QINFER_E_NO_MEMORY, QINFER_E_CANCELLED};
  Crowd crowd(model, 6, 3);
  for (std::size_t fail_at = 0; fail_at <= n_calls; ++fail_at) {
    INFO("call " << fail_at << " fails");
    MemoryFiles files;
    files.fail_at = fail_at == 0 ? SIZE_MAX : fail_at - 1;
    files.fail_with = given[fail_at % 3];
    std::size_t failed = 0;
    {
      qi::Scheduler scheduler = scheduler_of(cache, &files, 0, 4);
      for (auto& job : crowd.jobs) {
        job->submit(cache, scheduler);
      }
      run(scheduler);
      for (std::size_t i = 0; i < crowd.jobs.size(); ++i) {
        Job& job = *crowd.jobs[i];
        INFO("request " << i << ": " << job.message);
        CHECK(job.ends == 1);
        if (job.status == QINFER_OK) {
          CHECK(job.told == crowd.expected[i]);
          continue;
        }
        ++failed;
        CHECK(job.status == files.fail_with);
        CHECK(job.message.find("parked/") != std::string::npos);
        CHECK(std::equal(job.told.tokens.begin(), job.told.tokens.end(), crowd.expected[i].tokens.begin()));
      }
      CHECK(failed <= 1);
      check_empty(scheduler, cache);
      if (fail_at == 0) n_calls = files.calls.size();
    }
    n_failed += failed;
    CHECK(files.all_closed());
    CHECK_FALSE(files.misused);
  }
  CHECK(n_calls > 20);
  CHECK(n_failed > n_calls / 2);
}

TEST_CASE("Parking: a damaged or cut file ends its request, whose tokens stay and go on", "[scheduler][parking]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 9);
  for (const bool cut : {false, true}) {
    Crowd crowd(model, 5, 4);
    MemoryFiles files;
    qi::Scheduler scheduler = scheduler_of(cache, &files, 0, 4);
    for (auto& job : crowd.jobs) job->frees = false, job->submit(cache, scheduler);
    std::string* file = nullptr;
    while (file == nullptr && scheduler.wait(0)) {
      step(scheduler);
      for (auto& job : crowd.jobs)
        if (job->ends != 0) job->generation.reset(), job->session.reset();
      if (scheduler.stats().times_parked == 1) file = &files.files.begin()->second;
    }
    REQUIRE(file != nullptr);
    cut ? file->resize(file->size() - 1) : void(file->at(file->size() / 2) ^= 1);
    std::size_t n_damaged = 0;
    while (scheduler.wait(0)) {
      step(scheduler);
      for (std::size_t i = 0; i < crowd.jobs.size(); ++i) {
        Job& job = *crowd.jobs[i];
        if (job.ends == 0 || job.generation == nullptr) continue;
        if (job.status != QINFER_OK) {
          ++n_damaged;
          CHECK(job.status == (cut ? QINFER_E_IO : QINFER_E_FORMAT));
          CHECK(job.message.find("parked/0") != std::string::npos);
          CHECK(job.session->info().n_evaluated == 0);
        }
        job.generation.reset(), job.session.reset();
      }
    }
    CHECK(n_damaged == 1);
    for (std::size_t i = 0; i < crowd.jobs.size(); ++i)
      if (crowd.jobs[i]->status == QINFER_OK) CHECK(crowd.jobs[i]->told == crowd.expected[i]);
    check_empty(scheduler, cache);
  }
}

TEST_CASE("Parking: files have a bound", "[scheduler][parking]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 9);
  const std::uint64_t block = cache.stats().bytes_reserved / 9;
  Crowd crowd(model, 6, 3);
  std::size_t failed = 0;
  for (const std::uint64_t blocks : {1, 100}) {
    qi::Scheduler scheduler = scheduler_of(cache, nullptr, blocks * block, 4);
    for (auto& job : crowd.jobs) job->submit(cache, scheduler);
    std::uint64_t most = 0;
    while (scheduler.wait(0)) step(scheduler), most = std::max(most, scheduler.stats().parked_bytes);
    CHECK(most <= blocks * block);
    for (std::size_t i = 0; i < crowd.jobs.size(); ++i) {
      const Job& job = *crowd.jobs[i];
      if (job.status == QINFER_OK) CHECK(job.told == crowd.expected[i]);
      if (job.status == QINFER_OK) continue;
      CHECK(job.status == QINFER_E_NO_MEMORY);
      CHECK(job.message.find("park_bytes") != std::string::npos);
      CHECK(blocks == 1);
      ++failed;
    }
    check_empty(scheduler, cache);
  }
  CHECK(failed > 0);
}

TEST_CASE("Parking: cancelled, freed and read at any moment", "[scheduler][parking]") {
  const qi::Model model = load();
  std::uint32_t n_cancelled = 0, n_read = 0;
  for (unsigned seed = 0; seed < soak_steps(12); ++seed) {
    CAPTURE(seed);
    qi::KvCache cache = cache_of(model, 9), other = cache_of(model, 64);
    MemoryFiles files;
    qi::Scheduler scheduler = scheduler_of(cache, &files, 0, 5);
    Crowd crowd(model, 8, 20 + seed + first_seed());
    for (auto& job : crowd.jobs) job->frees = false, job->submit(cache, scheduler);
    while (scheduler.wait(0)) {
      step(scheduler);
      for (auto& job : crowd.jobs)
        if (job->ends != 0) job->generation.reset(), job->session.reset(), job->request.reset();
      if (scheduler.stats().parked == 0 || crowd.random() % 4 != 0) continue;
      Job& job = *crowd.jobs[crowd.random() % crowd.jobs.size()];
      if (job.session == nullptr) continue;
      // Between two steps sessions can be read, here or not.
      const qinfer_session_info info = job.session->info();
      CHECK(info.n_evaluated <= info.n_tokens);
      if (info.n_evaluated == 0) ++n_read;
      MemoryFiles saved;
      auto save_options = qi::options<qinfer_session_save_options>();
      save_options.files = saved.callbacks();
      job.session->save("session", save_options);
      auto load_options = qi::options<qinfer_session_load_options>();
      load_options.files = saved.callbacks();
      auto result = qi::options<qinfer_session_load_result>();
      const qi::Session loaded = qi::Session::load(other, "session", load_options, result);
      CHECK(result.evaluated_tokens == info.n_evaluated);
      CHECK(result.tokens == info.n_tokens);
      const qi::Session copy = job.session->fork();
      CHECK(copy.info().n_evaluated == info.n_evaluated);
      if (crowd.random() % 2 == 0) continue;
      if (crowd.random() % 2 == 0) {
        job.request->cancel();
      } else {
        job.request.reset(), job.generation.reset(), job.session.reset();
      }
      ++n_cancelled;
    }
    for (std::size_t i = 0; i < crowd.jobs.size(); ++i) {
      const Job& job = *crowd.jobs[i];
      INFO("request " << i << ": " << job.message);
      if (job.status == QINFER_OK && job.ends == 1) CHECK(job.told == crowd.expected[i]);
      if (job.status != QINFER_OK) CHECK(job.status == QINFER_E_CANCELLED);
    }
    check_empty(scheduler, cache);
    CHECK_FALSE(files.misused);
  }
  CHECK((n_cancelled > 5 || has_soak_seed()));
  CHECK((n_read > 5 || has_soak_seed()));
}

TEST_CASE("Parking: a request that ends while it is parked can go on alone", "[scheduler][parking]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 9);
  Crowd crowd(model, 6, 3);
  std::size_t n_went_on = 0;
  for (std::uint32_t wait = 0; wait < 12; ++wait) {
    qi::Scheduler scheduler = scheduler_of(cache, nullptr, 0, 4);
    for (auto& job : crowd.jobs) job->frees = false, job->submit(cache, scheduler);
    while (scheduler.stats().parked == 0 && scheduler.wait(0)) step(scheduler);
    REQUIRE(scheduler.stats().parked == 1);
    for (std::uint32_t n = 0; n < wait; ++n) step(scheduler);
    for (auto& job : crowd.jobs) job->request->cancel();
    run(scheduler);
    for (const bool away : {false, true})  // those that are not free their blocks first
      for (std::size_t i = 0; i < crowd.jobs.size(); ++i) {
        Job& job = *crowd.jobs[i];
        if (job.session == nullptr || (job.session->info().n_evaluated == 0) != away) continue;
        if (away && job.status == QINFER_E_CANCELLED) {
          if (!job.told.tokens.empty()) ++n_went_on;
          while (job.told.finish == 0) job.told.add(job.generation->next());
          CHECK(job.told == crowd.expected[i]);
        }
        job.generation.reset(), job.session.reset();
      }
    check_empty(scheduler, cache);
  }
  CHECK(n_went_on > 3);
}

TEST_CASE("Parking: others that hold the room of all that are parked", "[scheduler][parking]") {
  const qi::Model model = load();
  for (const bool frees : {true, false}) {
    qi::KvCache cache = cache_of(model, 9);
    std::uint64_t time = 5;
    auto options = qi::options<qinfer_scheduler_options>();
    const std::string directory = std::filesystem::temp_directory_path();
    options.park_path = directory.c_str();
    options.clock = [](void* user) { return *static_cast<std::uint64_t*>(user); };
    options.clock_user = &time;
    qi::Scheduler scheduler(cache, options);
    std::vector<Job> jobs(2);
    for (Job& job : jobs) {
      job.prompt.assign(60, 5);
      job.options.max_tokens = 180;
      job.bias.emplace_back(2, -INFINITY);
    }
    const Told expected = jobs[0].alone(cache);
    for (Job& job : jobs) job.frees = true, job.submit(cache, scheduler);
    while (jobs[0].ends == 0 && jobs[1].ends == 0 && scheduler.stats().times_parked == 0) step(scheduler);
    REQUIRE(scheduler.stats().parked == 1);
    Job& first = jobs[1].told.tokens.size() > jobs[0].told.tokens.size() ? jobs[1] : jobs[0];
    Job& parked = &first == &jobs[0] ? jobs[1] : jobs[0];
    auto greedy = std::make_unique<qi::Session>(cache);
    const auto take_all = [&] {
      while (cache.stats().blocks_used < 9) greedy->append(std::vector<qi::Token>(32, 5)), greedy->eval();
    };
    take_all();
    first.request->cancel();
    step(scheduler);
    take_all();
    CHECK(parked.ends == 0);
    for (int i = 0; i < 50 && parked.ends == 0; ++i) {
      time += 1'000'000'000;
      if (frees && i == 5) greedy.reset();
      CHECK(scheduler.wait(1'000'000'000'000));  // returns at once, or after a moment
      step(scheduler);
    }
    CAPTURE(frees, parked.message);
    if (frees) {
      run(scheduler);
      CHECK(parked.status == QINFER_OK);
      CHECK(parked.told == expected);
    } else {
      CHECK(parked.status == QINFER_E_KV_FULL);
      CHECK(parked.message.find("other sessions") != std::string::npos);
    }
    greedy.reset();
    check_empty(scheduler, cache);
  }
}

TEST_CASE("Parking: options that cannot be", "[scheduler][parking]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 4);
  auto options = qi::options<qinfer_scheduler_options>();
  options.park_bytes = 5;
  refuses(QINFER_E_INVALID_ARGUMENT, "park_path is NULL", [&] { qi::Scheduler(cache, options); });
  options.park_path = "/nowhere/at/all";
  refuses(QINFER_E_NOT_FOUND, "/nowhere/at/all", [&] { qi::Scheduler(cache, options); });
  options.park_path = "/proc/self/exe";
  CHECK_THROWS_AS(qi::Scheduler(cache, options), qi::Error);
  MemoryFiles files;
  qinfer_files incomplete = *files.callbacks();
  incomplete.write_at = nullptr;
  options.park_files = &incomplete;
  refuses(QINFER_E_INVALID_ARGUMENT, "write_at is NULL", [&] { qi::Scheduler(cache, options); });
}
