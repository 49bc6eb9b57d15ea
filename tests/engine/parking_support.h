// What the tests of parked requests share: a cache of few blocks, schedulers that park, and crowds of requests of which
// it is known what each gives alone.
#pragma once

#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "support/c_api.h"
#include "support/catch.h"
#include "support/memory_files.h"
#include "support/requests.h"

namespace qinfer::test {

inline const std::string kStories = QINFER_TEST_MODELS "/tiny-stories";

/// Unless a target is named it is the same sums on every CPU: when requests leave and return depends on their answers.
inline qi::Model load(const std::string& path = kStories, const char* target = "reference",
                      const qinfer_load_options& load_options = qi::options<qinfer_load_options>()) {
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = 1;  // results do not depend on it, and steps are short
  options.cpu_target = target;
  qi::Runtime runtime(options);
  return qi::Model::load(runtime, path, load_options);
}

inline qi::KvCache cache_of(const qi::Model& model, std::uint32_t blocks, std::uint32_t flags = 0) {
  auto options = qi::options<qinfer_kv_cache_options>();
  options.budget_blocks = blocks;
  options.flags = flags;
  return qi::KvCache(model, options);
}

/// Files of the host where given, otherwise of the system.
inline qi::Scheduler scheduler_of(qi::KvCache& cache, MemoryFiles* files, std::uint64_t bytes = 0,
                                  std::uint32_t running = 8) {
  static const std::string kDirectory = std::filesystem::temp_directory_path();
  auto options = qi::options<qinfer_scheduler_options>();
  options.max_running = running;
  options.step_ns = 1;  // a block a step, and 8 rows of prompts
  options.park_path = files != nullptr ? "parked" : kDirectory.c_str();
  options.park_files = files != nullptr ? files->callbacks() : nullptr;
  options.park_bytes = bytes;
  return qi::Scheduler(cache, options);
}

inline Job random_job(std::mt19937& random, std::uint32_t n_vocab, std::uint32_t most_new = 180) {
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  Job job;
  for (std::uint32_t n = 1 + below(60); n > 0; --n)
    job.prompt.push_back(static_cast<qi::Token>(3 + below(std::min(n_vocab, 200u) - 3)));
  job.options.max_tokens = 1 + below(most_new);
  job.options.logprobs = true;
  job.temperature = below(2) == 0 ? 0.0F : 0.9F;
  job.seed = random();
  job.key = below(3);
  // Few words: a text that repeats itself, and does not end early.
  for (std::uint32_t token = 0; token < n_vocab; ++token)
    if (token != 5 && (token < 3 || random() % 50 != 0))
      job.bias.emplace_back(static_cast<qi::Token>(token), -INFINITY);
  return job;
}

/// So many jobs, what each gives alone, and the scheduler that has them.
struct Crowd {
  Crowd(const qi::Model& model, std::uint32_t n, unsigned seed, std::uint32_t most_new = 180)
      : random(seed), alone(cache_of(model, 64)) {
    for (std::uint32_t i = 0; i < n; ++i) {
      jobs.push_back(std::make_unique<Job>(random_job(random, model.info().n_vocab, most_new)));
      expected.push_back(jobs.back()->alone(alone));
      jobs.back()->frees = true;
    }
  }
  void check_all_right() {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      INFO("request " << i << ": " << jobs[i]->message);
      CHECK(jobs[i]->ends == 1);
      CHECK(jobs[i]->status == QINFER_OK);
      CHECK(jobs[i]->told == expected[i]);
    }
  }
  std::mt19937 random;
  qi::KvCache alone;
  std::vector<std::unique_ptr<Job>> jobs;
  std::vector<Told> expected;
};

inline void check_empty(qi::Scheduler& scheduler, qi::KvCache& cache) {
  const qinfer_scheduler_stats stats = scheduler.stats();
  CHECK((stats.waiting == 0 && stats.running == 0 && stats.parked == 0));
  CHECK((stats.promised_bytes == 0 && stats.parked_bytes == 0));
  CHECK(cache.stats().blocks_used == 0);
}

}  // namespace qinfer::test
