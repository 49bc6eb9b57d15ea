// Requests of a scheduler for tests: what each gives, alone and among others, token by token.
#pragma once

#include <qinfer/qinfer.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/c_api.h"
#include "support/catch.h"

namespace qinfer::test {

struct Told {
  std::vector<qi::Token> tokens;
  std::string text;
  std::vector<double> logprobs;
  std::int32_t finish = 0;
  bool operator==(const Told&) const = default;

  void add(const qinfer_token_info& info) {
    if (info.token >= 0) tokens.push_back(info.token), logprobs.push_back(info.logprob);
    text.append(info.text, info.text_len);
    finish = info.finish;
  }
};

/// A request, what it should give, and what it has given.
struct Job {
  std::vector<qi::Token> prompt;
  qi::GenerateOptions options;
  float temperature = 0;
  std::uint64_t seed = 0, key = 0;
  std::uint32_t max_draft = 0;
  std::vector<std::pair<qi::Token, float>> bias;
  std::unique_ptr<qi::Session> session;
  std::unique_ptr<qi::Generation> generation;
  std::unique_ptr<qi::Request> request;
  Told told;
  std::uint32_t prompts = 0, ends = 0, evaluated = 0;
  bool frees = false;  ///< its blocks when it has ended
  qinfer_status status = 0;
  std::string message;

  void begin(qi::KvCache& cache) {
    auto session_options = qi::options<qinfer_session_options>();
    session_options.max_tokens = static_cast<std::uint32_t>(prompt.size()) + options.max_tokens + 1;
    session_options.max_draft = max_draft;
    session = std::make_unique<qi::Session>(cache, session_options);
    session->append(prompt);
    auto sampler = qi::options<qinfer_sampler_options>();
    sampler.temperature = temperature;
    sampler.seed = seed;
    session->set_sampler(sampler);
    session->set_bias(bias);
    generation = std::make_unique<qi::Generation>(*session, options);
  }
  void submit(qi::KvCache& cache, qi::Scheduler& scheduler, std::uint64_t deadline = 0) {
    told = {};
    prompts = ends = evaluated = 0;
    begin(cache);
    auto request_options = qi::options<qinfer_request_options>();
    request_options.key = key;
    request_options.user = this;
    request_options.deadline_ns = deadline;
    request = std::make_unique<qi::Request>(scheduler.submit(*generation, request_options));
  }
  Told alone(qi::KvCache& cache) {
    begin(cache);
    Told all;
    while (all.finish == 0) all.add(generation->next());
    generation.reset(), session.reset();
    return all;
  }
};

/// One step, and its events.
inline void step(qi::Scheduler& scheduler) {
  scheduler.step();
  for (qinfer_event event = scheduler.next(); event.kind != QINFER_EVENT_NONE; event = scheduler.next()) {
    Job& job = *static_cast<Job*>(event.user);
    REQUIRE(event.request == job.request->native());
    REQUIRE(job.ends == 0);
    if (event.kind == QINFER_EVENT_PROMPT) {
      CHECK(event.n_evaluated > job.evaluated);
      CHECK(event.n_evaluated < event.n_tokens);
      CHECK(job.told.tokens.empty());
      job.evaluated = event.n_evaluated;
      ++job.prompts;
    } else if (event.kind == QINFER_EVENT_TOKEN) {
      job.told.add(event.token);
    } else {
      ++job.ends;
      job.status = event.status;
      job.message = event.message;
      if (job.frees) job.generation.reset(), job.session.reset();
    }
  }
}

inline void run(qi::Scheduler& scheduler) {
  for (int n = 0; scheduler.wait(0); ++n) {
    REQUIRE(n < 100000);
    step(scheduler);
  }
}

/// That a call fails with this status, and a message that says this.
template <typename Call>
void refuses(qinfer_status status, const std::string& says, Call call) {
  try {
    call();
  } catch (const qi::Error& error) {
    CAPTURE(error.what());
    CHECK(error.status() == status);
    CHECK(std::string(error.what()).find(says) != std::string::npos);
    return;
  }
  FAIL("not refused: " << says);
}

}  // namespace qinfer::test
