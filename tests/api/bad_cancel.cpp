// Cancellation at every place where it is looked at: before and during loading, before and during an evaluation, during
// generation; and callbacks that ask to stop. What was evaluated stays, the rest stays pending, and going on gives the
// same logits bit for bit.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/c_api.h"
#include "support/targets.h"

using namespace qinfer::test;

namespace {

struct Stack {
  explicit Stack(const TinySpec& spec) : dir(spec) {
    auto options = sized<qinfer_load_options>();
    options.max_batch_tokens = 64;
    model = load_model(runtime, dir.path(), &options);
    cache = make_cache(model);
    session = make_session(cache);
  }
  ModelDir dir;
  Runtime runtime = make_runtime(2);
  Model model;
  Cache cache;
  Session session;
};

/// Counts the calls of a callback and stops, by its result or by a cancel object, at one of them.
struct Watcher {
  std::int64_t calls = 0, stop_at = 0;
  qinfer_cancel* cancel = nullptr;
  std::string text;

  std::int32_t seen() {
    if (++calls != stop_at) return 0;
    if (cancel == nullptr) return 1;
    qinfer_cancel_request(cancel);
    return 0;
  }
  static std::int32_t on_progress(std::uint64_t, std::uint64_t, void* user) {
    return static_cast<Watcher*>(user)->seen();
  }
  static std::int32_t on_token(const char* text, std::size_t len, qinfer_token, void* user) {
    static_cast<Watcher*>(user)->text.append(text, len);
    return static_cast<Watcher*>(user)->seen();
  }
};

std::vector<qinfer_token> tokens_of(const Session& session) {
  std::vector<qinfer_token> tokens(qinfer_session_length(session.get()));
  std::size_t n = 0;
  REQUIRE_OK(qinfer_session_get_tokens(session.get(), tokens.data(), tokens.size(), &n, &err));
  return tokens;
}

/// A model whose first tokens never end a generation.
TinySpec endless() {
  TinySpec spec;
  spec.seed = 3;
  return spec;
}

}  // namespace

TEST_CASE("Loading: cancelled before, by the cancel object during, or by the progress callback", "[bad]") {
  TinySpec spec;  // two matrices of 24 MiB, so that there are several reports
  spec.vocab = 393'216;
  const ModelDir dir{spec};
  const std::string target = GENERATE(from_range(usable_targets()));
  const Runtime runtime = make_runtime(2, target.c_str());
  const Cancel cancel = make_cancel();
  auto options = sized<qinfer_load_options>();
  options.cancel = cancel.get();
  const bool mapped = GENERATE(true, false);
  if (!mapped) options.flags = QINFER_LOAD_NO_MMAP;
  qinfer_model* model = nullptr;
  const auto load = [&](qinfer_error& err) {
    return qinfer_model_load(runtime.get(), dir.path().c_str(), &options, &model, &err);
  };
  qinfer_cancel_request(cancel.get());
  REQUIRE_FAILS(QINFER_E_CANCELLED, "loading was cancelled", load(err));
  REQUIRE_FAILS(QINFER_E_CANCELLED, "loading was cancelled", load(err));  // sticky
  qinfer_cancel_reset(cancel.get());
  Watcher count;
  options.progress = Watcher::on_progress;
  options.progress_user = &count;
  REQUIRE_OK(load(err));
  qinfer_model_free(model);
  INFO(target << ", mapped " << mapped);
  if (is_portable(target)) {
    REQUIRE(count.calls == (mapped ? 2 : 3));  // at the end of a tensor, or of each 16 MiB read
  } else {
    REQUIRE(count.calls == 3);  // the LM head is converted in steps of 16 MiB, too
  }
  for (std::int64_t at = 1; at <= count.calls; ++at) {
    Watcher watcher;
    watcher.stop_at = at;
    options.progress_user = &watcher;
    REQUIRE_FAILS(QINFER_E_CANCELLED, "loading was cancelled", load(err));
    REQUIRE(model == nullptr);
    watcher = Watcher();
    watcher.stop_at = at;
    watcher.cancel = cancel.get();
    REQUIRE_FAILS(QINFER_E_CANCELLED, "loading was cancelled", load(err));
    qinfer_cancel_reset(cancel.get());
  }
}

TEST_CASE("Evaluation: cancelled before it begins", "[bad]") {
  const Stack s{TinySpec()};
  const Cancel cancel = make_cancel();
  qinfer_cancel_request(cancel.get());
  auto options = sized<qinfer_eval_options>();
  options.cancel = cancel.get();
  append(s.session, some_tokens(100));
  qinfer_session* one = s.session.get();
  REQUIRE_FAILS(QINFER_E_CANCELLED, "cancelled before it began", qinfer_eval(&one, 1, &options, &err));
  REQUIRE(qinfer_session_pending(one) == 100);
  auto generate = sized<qinfer_generate_options>();
  generate.cancel = cancel.get();
  auto result = sized<qinfer_generate_result>();
  REQUIRE_FAILS(QINFER_E_CANCELLED, "cancelled", qinfer_generate(one, &generate, &result, &err));
  REQUIRE(result.new_tokens == 0);
  REQUIRE(qinfer_session_pending(one) == 100);
  qinfer_cancel_reset(cancel.get());
  REQUIRE_OK(qinfer_eval(&one, 1, &options, &err));
}

TEST_CASE("Evaluation: cancelled from another thread, then continued to the same logits bit for bit",
          "[bad][threads]") {
  TinySpec spec;
  spec.layers = 6;
  spec.context_tokens = 1024;
  const Stack s(spec);
  qinfer_session* one = s.session.get();
  const std::vector<qinfer_token> prompt = some_tokens(1000, 300);
  append(s.session, prompt);
  const auto begin = std::chrono::steady_clock::now();
  eval(s.session);
  const auto whole = std::chrono::steady_clock::now() - begin;
  const std::vector<float> expected = last_logits(s.session, 300);

  const Cancel cancel = make_cancel();
  auto options = sized<qinfer_eval_options>();
  options.cancel = cancel.get();
  int cancelled = 0, part_done = 0;
  for (int attempt = 0; attempt < 100 && (attempt < 10 || part_done == 0); ++attempt) {
    REQUIRE_OK(qinfer_session_truncate(one, 0, &err));
    append(s.session, prompt);
    qinfer_cancel_reset(cancel.get());
    const auto delay = whole * (attempt % 10 + 1) / 12;
    std::thread other([&] {
      std::this_thread::sleep_for(delay);
      qinfer_cancel_request(cancel.get());
    });
    qinfer_error error = {};
    const qinfer_status status = qinfer_eval(&one, 1, &options, &error);
    other.join();
    qinfer_cancel_reset(cancel.get());
    REQUIRE((status == QINFER_OK || status == QINFER_E_CANCELLED));
    REQUIRE(qinfer_session_length(one) == 1000);
    if (status == QINFER_E_CANCELLED) {
      ++cancelled;
      const std::size_t pending = qinfer_session_pending(one);
      REQUIRE(pending > 0);
      if (pending < 1000) ++part_done;
      REQUIRE_THAT(std::string(error.message), contains("what was not evaluated stays pending"));
      REQUIRE(qinfer_session_logits(one, 0) == nullptr);
      auto stats = sized<qinfer_kv_cache_stats>();
      REQUIRE_OK(qinfer_kv_cache_get_stats(s.cache.get(), &stats, &err));
      REQUIRE(stats.blocks_used == (1000 - pending + 31) / 32);  // blocks for the rest are given back
      REQUIRE_OK(qinfer_eval(&one, 1, &options, &err));
    }
    REQUIRE(last_logits(s.session, 300) == expected);
  }
  REQUIRE(cancelled > 0);
  REQUIRE(part_done > 0);
}

TEST_CASE("Generation: cancelled from on_token, then continued to the same tokens", "[bad]") {
  const Stack s(endless());
  qinfer_session* one = s.session.get();
  auto options = sized<qinfer_generate_options>();
  options.max_tokens = 12;
  append(s.session, some_tokens(5));
  auto result = sized<qinfer_generate_result>();
  REQUIRE_OK(qinfer_generate(one, &options, &result, &err));
  REQUIRE(result.finish == QINFER_FINISH_LENGTH);
  const std::vector<qinfer_token> expected = tokens_of(s.session);

  REQUIRE_OK(qinfer_session_truncate(one, 0, &err));
  append(s.session, some_tokens(5));
  const Cancel cancel = make_cancel();
  Watcher watcher;
  watcher.stop_at = 4;
  watcher.cancel = cancel.get();
  options.cancel = cancel.get();
  options.on_token = Watcher::on_token;
  options.user = &watcher;
  REQUIRE_FAILS(QINFER_E_CANCELLED, "cancelled", qinfer_generate(one, &options, &result, &err));
  REQUIRE(result.new_tokens == 4);
  REQUIRE(qinfer_session_length(one) == 9);
  qinfer_cancel_reset(cancel.get());
  options.max_tokens = 8;
  REQUIRE_OK(qinfer_generate(one, &options, &result, &err));
  REQUIRE(tokens_of(s.session) == expected);
}

TEST_CASE("Generation: on_token returning nonzero stops after that token", "[bad]") {
  const Stack s(endless());
  qinfer_session* one = s.session.get();
  append(s.session, some_tokens(5));
  auto options = sized<qinfer_generate_options>();
  Watcher watcher;
  watcher.stop_at = 3;
  options.on_token = Watcher::on_token;
  options.user = &watcher;
  auto result = sized<qinfer_generate_result>();
  REQUIRE_OK(qinfer_generate(one, &options, &result, &err));
  REQUIRE(result.finish == QINFER_FINISH_CALLBACK);
  REQUIRE(result.new_tokens == 3);
  REQUIRE(watcher.calls == 3);
  REQUIRE(qinfer_session_length(one) == 8);
}

TEST_CASE("After a cancelled evaluation, truncating to what is evaluated leaves a way on", "[bad][threads]") {
  TinySpec spec;
  spec.context_tokens = 1024;
  const ModelDir dir{spec};
  const Runtime runtime = make_runtime();
  auto load = sized<qinfer_load_options>();
  load.max_batch_tokens = 4;
  const Model model = load_model(runtime, dir.path(), &load);
  const Cache cache = make_cache(model);
  const Session session = make_session(cache);
  qinfer_session* one = session.get();
  const Cancel cancel = make_cancel();
  auto options = sized<qinfer_eval_options>();
  options.cancel = cancel.get();
  std::size_t evaluated = 0;
  for (int attempt = 0; attempt < 200 && evaluated == 0; ++attempt) {
    REQUIRE_OK(qinfer_session_truncate(one, 0, &err));
    qinfer_cancel_reset(cancel.get());
    append(session, some_tokens(1000));
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(200 + 50 * attempt));
      qinfer_cancel_request(cancel.get());
    });
    const qinfer_status status = qinfer_eval(&one, 1, &options, nullptr);
    canceller.join();
    if (status == QINFER_E_CANCELLED) evaluated = 1000 - qinfer_session_pending(one);
  }
  REQUIRE(evaluated > 0);
  REQUIRE_OK(qinfer_session_truncate(one, evaluated, &err));
  REQUIRE(qinfer_session_pending(one) == 1);  // there are no logits, so the last token must be evaluated again
  REQUIRE_OK(qinfer_eval(&one, 1, nullptr, &err));
  REQUIRE(qinfer_session_logits(one, 0) != nullptr);
  qinfer_token token = -1;
  REQUIRE_OK(qinfer_session_sample(one, &token, &err));
}

TEST_CASE("Generation: a request made before the call counts, also when nothing is pending", "[bad]") {
  const Stack s{endless()};
  append(s.session, some_tokens(5));
  qinfer_session* one = s.session.get();
  REQUIRE_OK(qinfer_eval(&one, 1, nullptr, &err));
  const Cancel cancel = make_cancel();
  qinfer_cancel_request(cancel.get());
  auto options = sized<qinfer_generate_options>();
  options.cancel = cancel.get();
  options.max_tokens = 1;
  REQUIRE_FAILS(QINFER_E_CANCELLED, "cancelled", qinfer_generate(one, &options, nullptr, &err));
  REQUIRE(qinfer_session_length(one) == 5);
}

#if !defined(QINFER_SANITIZED)  // GCC 12's AddressSanitizer does not follow the unwinding of a thread that is cancelled
TEST_CASE("A pthread_cancel waits until the call has returned", "[bad][threads]") {
  const ModelDir dir{TinySpec()};
  struct Shared {
    const std::string* path;
    qinfer_status status = QINFER_E_INTERNAL;
  } shared{&dir.path()};
  pthread_t thread;
  REQUIRE(pthread_create(
              &thread, nullptr,
              [](void* user) -> void* {
                auto* state = static_cast<Shared*>(user);
                pthread_cancel(pthread_self());  // acts at the next cancellation point: open, read, ...
                auto memory = sized<qinfer_memory>();
                state->status =
                    qinfer_model_plan(state->path->c_str(), nullptr, nullptr, nullptr, nullptr, &memory, nullptr);
                pthread_testcancel();
                return nullptr;
              },
              &shared) == 0);
  void* result = nullptr;
  pthread_join(thread, &result);
  REQUIRE(result == PTHREAD_CANCELED);
  REQUIRE(shared.status == QINFER_OK);
}
#endif
