// Calls at the wrong time or without room: the wrong order, a full context, a full cache, a budget that is one byte too
// small, an allocator that fails, handles freed in any order, a fork()ed child. After each failure the objects are as
// they were and go on working.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "support/c_api.h"
#include "text/utf8.h"

using namespace qinfer::test;

namespace {

struct Stack {
  ModelDir dir{TinySpec()};
  Runtime runtime = make_runtime(1);
  Model model = load_model(runtime, dir.path());
};

/// An allocator that counts, and fails at one request.
struct Heap {
  std::int64_t requests = 0, live = 0, live_bytes = 0, fail_at = -1;

  qinfer_allocator allocator() {
    auto out = sized<qinfer_allocator>();
    out.user = this;
    out.alloc = [](std::size_t size, std::size_t alignment, void* user) -> void* {
      Heap& heap = *static_cast<Heap*>(user);
      if (heap.requests++ == heap.fail_at) return nullptr;
      ++heap.live;
      heap.live_bytes += static_cast<std::int64_t>(size);
      return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    };
    out.release = [](void* data, std::size_t size, std::size_t, void* user) {
      Heap& heap = *static_cast<Heap*>(user);
      --heap.live;
      heap.live_bytes -= static_cast<std::int64_t>(size);
      std::free(data);
    };
    return out;
  }
};

qinfer_kv_cache_options blocks(std::uint64_t n) {
  auto options = sized<qinfer_kv_cache_options>();
  options.budget_blocks = n;
  return options;
}

std::uint64_t blocks_used(const Cache& cache) {
  auto stats = sized<qinfer_kv_cache_stats>();
  REQUIRE_OK(qinfer_kv_cache_get_stats(cache.get(), &stats, &err));
  return stats.blocks_used;
}

}  // namespace

TEST_CASE("Calls in the wrong order are QINFER_E_STATE and change nothing", "[bad]") {
  const Stack s;
  const Cache cache = make_cache(s.model);
  const Session session = make_session(cache);
  qinfer_session* one = session.get();
  qinfer_token token = 0;
  REQUIRE_FAILS(QINFER_E_STATE, "no logits", qinfer_session_sample(one, &token, &err));
  REQUIRE_FAILS(QINFER_E_STATE, "no session has pending tokens", qinfer_eval(&one, 1, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_STATE, "the session is empty", qinfer_generate(one, nullptr, nullptr, &err));
  REQUIRE(qinfer_session_logits(one, 0) == nullptr);
  append(session, {1, 2, 3});
  REQUIRE_FAILS(QINFER_E_STATE, "3 tokens are pending", qinfer_session_sample(one, &token, &err));
  REQUIRE(token == -1);
  eval(session);
  REQUIRE_FAILS(QINFER_E_STATE, "no session has pending tokens", qinfer_eval(&one, 1, nullptr, &err));
  REQUIRE_OK(qinfer_session_sample(one, &token, &err));
  REQUIRE_FAILS(QINFER_E_STATE, "1 tokens are pending", qinfer_session_sample(one, &token, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "cannot truncate to 5 tokens", qinfer_session_truncate(one, 5, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "cannot truncate", qinfer_session_truncate(one, SIZE_MAX, &err));
  REQUIRE(qinfer_session_length(one) == 4);
}

TEST_CASE("A model without weights has no KV cache, one without tokenizer.json no text", "[bad]") {
  const Stack s;
  auto options = sized<qinfer_load_options>();
  options.flags = QINFER_LOAD_NO_WEIGHTS;
  const Model bare = load_model(s.runtime, s.dir.path(), &options);
  qinfer_kv_cache* cache = nullptr;
  REQUIRE_FAILS(QINFER_E_STATE, "QINFER_LOAD_NO_WEIGHTS", qinfer_kv_cache_create(bare.get(), nullptr, &cache, &err));
  s.dir.remove("tokenizer.json");
  const Model mute = load_model(s.runtime, s.dir.path());
  std::size_t n = 0;
  qinfer_detok* detok = nullptr;
  REQUIRE_FAILS(QINFER_E_NOT_FOUND, "tokenizer.json", qinfer_tokenize(mute.get(), "a", 1, 0, nullptr, 0, &n, &err));
  REQUIRE_FAILS(QINFER_E_NOT_FOUND, "tokenizer.json", qinfer_detok_create(mute.get(), &detok, &err));
  const Session session = make_session(make_cache(mute));
  append(session, {1});
  const char* stop = "x";
  auto generate = sized<qinfer_generate_options>();
  generate.stop = &stop;
  generate.n_stop = 1;
  REQUIRE_FAILS(QINFER_E_NOT_FOUND, "tokenizer.json", qinfer_generate(session.get(), &generate, nullptr, &err));
}

TEST_CASE("A full context", "[bad]") {
  const Stack s;
  const Cache cache = make_cache(s.model);
  auto options = sized<qinfer_session_options>();
  options.max_tokens = 4;
  const Session session = make_session(cache, &options);
  qinfer_session* one = session.get();
  const std::vector<qinfer_token> five = {1, 2, 3, 4, 5};
  REQUIRE_FAILS(QINFER_E_CONTEXT_FULL, "0 of at most 4 tokens, 5 more",
                qinfer_session_append(one, five.data(), 5, &err));
  append(session, {1, 2, 3, 4});
  REQUIRE_FAILS(QINFER_E_CONTEXT_FULL, "4 of at most 4", qinfer_session_append(one, five.data(), 1, &err));
  eval(session);
  qinfer_token token = 0;
  REQUIRE_FAILS(QINFER_E_CONTEXT_FULL, "4 tokens, its limit", qinfer_session_sample(one, &token, &err));
  auto result = sized<qinfer_generate_result>();
  REQUIRE_OK(qinfer_generate(one, nullptr, &result, &err));
  REQUIRE(result.finish == QINFER_FINISH_LENGTH);
  REQUIRE(result.new_tokens == 0);
  REQUIRE_OK(qinfer_session_truncate(one, 2, &err));
  REQUIRE_OK(qinfer_generate(one, nullptr, &result, &err));
  REQUIRE(qinfer_session_length(one) <= 4);
}

TEST_CASE("A full KV cache changes nothing, and says which session has no room", "[bad]") {
  const Stack s;
  const auto three = blocks(3);
  const Cache cache = make_cache(s.model, &three);
  const Session a = make_session(cache), b = make_session(cache), c = make_session(cache);
  append(a, some_tokens(33));
  eval(a);
  REQUIRE(blocks_used(cache) == 2);
  const std::vector<float> before = last_logits(a, 300);
  append(b, some_tokens(10));
  append(c, some_tokens(20));
  qinfer_session* both[] = {c.get(), b.get()};
  // Sessions with few pending tokens come first, so that the last block is b's and c has none.
  REQUIRE_FAILS_AT(QINFER_E_KV_FULL, 0, "1 of 3 blocks free", qinfer_eval(both, 2, nullptr, &err));
  REQUIRE(blocks_used(cache) == 2);
  REQUIRE(qinfer_session_pending(b.get()) == 10);
  REQUIRE(qinfer_session_pending(c.get()) == 20);
  REQUIRE(last_logits(a, 300) == before);
  qinfer_session* swapped[] = {b.get(), c.get()};
  REQUIRE_FAILS_AT(QINFER_E_KV_FULL, 1, "session 1 needs more for 20 tokens", qinfer_eval(swapped, 2, nullptr, &err));
  REQUIRE_OK(qinfer_session_truncate(a.get(), 0, &err));
  REQUIRE(blocks_used(cache) == 0);
  REQUIRE_OK(qinfer_eval(both, 2, nullptr, &err));
  REQUIRE(blocks_used(cache) == 2);
}

TEST_CASE("The same session twice, and sessions of two caches, in one evaluation", "[bad]") {
  const Stack s;
  const Cache cache = make_cache(s.model), other = make_cache(s.model);
  const Session a = make_session(cache), b = make_session(cache), c = make_session(other);
  for (const Session* session : {&a, &b, &c}) append(*session, {1, 2, 3});
  qinfer_session* twice[] = {a.get(), b.get(), a.get()};
  REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 2, "session 2 appears twice", qinfer_eval(twice, 3, nullptr, &err));
  qinfer_session* mixed[] = {a.get(), c.get()};
  REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 1, "session 1 belongs to another KV cache",
                   qinfer_eval(mixed, 2, nullptr, &err));
  qinfer_session* good[] = {a.get(), b.get()};
  REQUIRE_OK(qinfer_eval(good, 2, nullptr, &err));
  REQUIRE(last_logits(a, 300) == last_logits(b, 300));
}

TEST_CASE("Budgets: one byte too small, and just enough", "[bad]") {
  const Stack s;
  auto plan = sized<qinfer_memory>();
  auto runtime = sized<qinfer_runtime_options>();
  runtime.n_threads = 1;
  auto options = sized<qinfer_load_options>();
  for (const std::uint32_t flags : {0u, std::uint32_t{QINFER_LOAD_NO_MMAP}}) {
    options.flags = flags;
    options.memory_budget_bytes = 0;
    REQUIRE_OK(qinfer_model_plan(s.dir.path().c_str(), &runtime, &options, nullptr, nullptr, &plan, &err));
    options.memory_budget_bytes = plan.load_peak - 1;
    qinfer_model* model = nullptr;
    REQUIRE_FAILS_AT(QINFER_E_NO_MEMORY, static_cast<std::int64_t>(plan.load_peak),
                     "memory_budget_bytes is " + std::to_string(plan.load_peak - 1),
                     qinfer_model_load(s.runtime.get(), s.dir.path().c_str(), &options, &model, &err));
    options.memory_budget_bytes = plan.load_peak;
    load_model(s.runtime, s.dir.path(), &options);
  }
  auto cache = sized<qinfer_kv_cache_options>();
  cache.budget_bytes = plan.kv_per_block - 1;
  qinfer_kv_cache* created = nullptr;
  REQUIRE_FAILS(QINFER_E_NO_MEMORY, "budget_bytes is " + std::to_string(plan.kv_per_block - 1),
                qinfer_kv_cache_create(s.model.get(), &cache, &created, &err));
  cache.budget_bytes = plan.kv_per_block;
  const Cache smallest = make_cache(s.model, &cache);
  const Session session = make_session(smallest);
  append(session, some_tokens(32));
  eval(session);
  append(session, {1});
  qinfer_session* one = session.get();
  REQUIRE_FAILS_AT(QINFER_E_KV_FULL, 0, "0 of 1 blocks free", qinfer_eval(&one, 1, nullptr, &err));
}

TEST_CASE("A host allocator that fails at its n-th request, for every n", "[bad]") {
  const ModelDir dir{TinySpec()};
  bool succeeded = false;
  for (std::int64_t n = 0; !succeeded; ++n) {
    INFO("request " << n);
    REQUIRE(n < 100);
    Heap heap;
    heap.fail_at = n;
    const qinfer_allocator allocator = heap.allocator();
    {
      auto options = sized<qinfer_runtime_options>();
      options.n_threads = 1;
      options.allocator = &allocator;
      auto load = sized<qinfer_load_options>();
      load.flags = QINFER_LOAD_NO_MMAP;
      load.weight_format = "bf16";
      qinfer_runtime* runtime = nullptr;
      qinfer_model* model = nullptr;
      qinfer_kv_cache* cache = nullptr;
      qinfer_session* session = nullptr;
      qinfer_error error = {};
      qinfer_status status = qinfer_runtime_create(&options, &runtime, &error);
      if (status == QINFER_OK) status = qinfer_model_load(runtime, dir.path().c_str(), &load, &model, &error);
      if (status == QINFER_OK) status = qinfer_kv_cache_create(model, nullptr, &cache, &error);
      if (status == QINFER_OK) status = qinfer_session_create(cache, nullptr, &session, &error);
      const Runtime r(runtime);
      const Model m(model);
      const Cache c(cache);
      const Session e(session);
      if (status == QINFER_OK) {
        REQUIRE(heap.requests == n);
        append(e, some_tokens(40));
        eval(e);
        REQUIRE_OK(qinfer_generate(session, nullptr, nullptr, &err));
        REQUIRE(heap.requests == n);  // append, eval, sample and generate take nothing
        succeeded = true;
      } else {
        REQUIRE(status == QINFER_E_NO_MEMORY);
        REQUIRE_THAT(std::string(error.message), contains("no memory for "));
        REQUIRE((session == nullptr && (cache == nullptr || n > 0)));
      }
    }
    REQUIRE(heap.live == 0);
    REQUIRE(heap.live_bytes == 0);
  }
}

TEST_CASE("Handles may be freed in any order", "[bad]") {
  const ModelDir dir{TinySpec()};
  int order[5] = {0, 1, 2, 3, 4};
  do {
    Runtime runtime = make_runtime(1);
    Model model = load_model(runtime, dir.path());
    Cache cache = make_cache(model);
    Session session = make_session(cache);
    qinfer_detok* created = nullptr;
    REQUIRE_OK(qinfer_detok_create(model.get(), &created, &err));
    Detok detok(created);
    append(session, {1, 2});
    for (const int which : order) {
      if (which == 0) runtime.reset();
      if (which == 1) model.reset();
      if (which == 2) cache.reset();
      if (which == 3) session.reset();
      if (which == 4) detok.reset();
      if (session != nullptr) {  // what is left works on
        append(session, {3});
        eval(session);
      }
    }
  } while (std::next_permutation(order, order + 5));
}

TEST_CASE("In a fork()ed child every call is QINFER_E_STATE, and freeing does not hang", "[bad]") {
  const ModelDir dir{TinySpec()};
  Runtime runtime = make_runtime(3);
  Model model = load_model(runtime, dir.path());
  Cache cache = make_cache(model);
  Session session = make_session(cache);
  qinfer_detok* created = nullptr;
  REQUIRE_OK(qinfer_detok_create(model.get(), &created, &err));
  Detok detok(created);
  append(session, some_tokens(10));
  eval(session);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    int failed = 0, number = 0;
    const auto check = [&](auto call) {
      qinfer_error err = {};
      ++number;
      if (call(&err) != QINFER_E_STATE || std::strstr(err.message, "fork") == nullptr) failed = number;
    };
    qinfer_session* one = session.get();
    qinfer_token token = 0;
    std::size_t n = 0;
    float values[300];
    char text[64];
    qinfer_model* new_model = nullptr;
    qinfer_kv_cache* new_cache = nullptr;
    qinfer_session* new_session = nullptr;
    qinfer_detok* new_detok = nullptr;
    auto info = sized<qinfer_model_info>();
    auto memory = sized<qinfer_memory>();
    auto metrics = sized<qinfer_metrics>();
    auto stats = sized<qinfer_kv_cache_stats>();
    auto used = sized<qinfer_session_memory>();
    check([&](auto* e) { return qinfer_model_load(runtime.get(), dir.path().c_str(), nullptr, &new_model, e); });
    check([&](auto* e) { return qinfer_runtime_get_metrics(runtime.get(), &metrics, e); });
    check([&](auto* e) { return qinfer_model_get_info(model.get(), &info, e); });
    check([&](auto* e) { return qinfer_model_get_memory(model.get(), &memory, e); });
    check([&](auto* e) { return qinfer_tokenize(model.get(), "a", 1, 0, &token, 1, &n, e); });
    check([&](auto* e) { return qinfer_detok_create(model.get(), &new_detok, e); });
    check([&](auto* e) { return qinfer_detok_push(detok.get(), 5, text, 64, &n, e); });
    check([&](auto* e) { return qinfer_detok_finish(detok.get(), text, 64, &n, e); });
    check([&](auto* e) { return qinfer_kv_cache_create(model.get(), nullptr, &new_cache, e); });
    check([&](auto* e) { return qinfer_kv_cache_get_stats(cache.get(), &stats, e); });
    check([&](auto* e) { return qinfer_session_create(cache.get(), nullptr, &new_session, e); });
    check([&](auto* e) { return qinfer_session_fork(one, &new_session, e); });
    check([&](auto* e) { return qinfer_session_save(one, "session.kv", e); });
    check([&](auto* e) { return qinfer_session_load(cache.get(), "session.kv", &new_session, e); });
    check([&](auto* e) { return qinfer_session_truncate(one, 0, e); });
    check([&](auto* e) { return qinfer_session_append(one, &token, 1, e); });
    check([&](auto* e) { return qinfer_session_get_tokens(one, &token, 1, &n, e); });
    check([&](auto* e) { return qinfer_session_set_sampler(one, nullptr, e); });
    check([&](auto* e) { return qinfer_session_set_bias(one, nullptr, nullptr, 0, e); });
    check([&](auto* e) { return qinfer_eval(&one, 1, nullptr, e); });
    check([&](auto* e) { return qinfer_session_sample(one, &token, e); });
    check([&](auto* e) { return qinfer_session_copy_logits(one, 0, values, 300, &n, e); });
    check([&](auto* e) { return qinfer_generate(one, nullptr, nullptr, e); });
    check([&](auto* e) { return qinfer_session_get_memory(one, &used, e); });
    auto state = sized<qinfer_session_info>();
    check([&](auto* e) { return qinfer_session_get_info(one, &state, e); });
    check([&](auto* e) { return qinfer_session_set_logits_hook(one, nullptr, e); });
    double logprob = 0;
    check([&](auto* e) { return qinfer_session_logprobs(one, 0, &token, 1, &logprob, e); });
    check([&](auto* e) { return qinfer_session_top_logprobs(one, 0, &token, &logprob, 1, e); });
    check([&](auto* e) { return qinfer_token_find(model.get(), "a", 1, &token, e); });
    check([&](auto* e) { return qinfer_model_end_tokens(model.get(), &token, 1, &n, e); });
    check([&](auto* e) { return qinfer_model_expert_counts(model.get(), 0, nullptr, 0, &n, e); });
    check([&](auto* e) { return qinfer_model_chat_template(model.get(), nullptr, text, 64, &n, e); });
    check([&](auto* e) { return qinfer_session_get_metrics(one, &metrics, e); });
    detok.reset();
    session.reset();
    cache.reset();
    model.reset();
    runtime.reset();
    _exit(failed);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);  // otherwise the number of the check that failed
  append(session, {1});               // the parent is as before
  eval(session);
}

TEST_CASE("A message that is too long keeps its beginning and its end, whole characters", "[bad]") {
  for (int shift = 0; shift < 6; ++shift) {
    std::string path = "/" + std::string(static_cast<std::size_t>(shift), 'x');
    for (int i = 0; i < 60; ++i) path += "\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82";
    qinfer_model* model = nullptr;
    qinfer_error err = {};
    REQUIRE(qinfer_model_load(nullptr, path.c_str(), nullptr, &model, &err) == QINFER_E_IO);  // ENAMETOOLONG
    const std::string message = err.message;
    REQUIRE(message.size() <= 239);
    REQUIRE(message.size() >= 230);
    REQUIRE(path.starts_with(message.substr(0, message.find("..."))));
    REQUIRE(message.ends_with("File name too long"));
    REQUIRE(qinfer::text::find_invalid_utf8(message) == message.size());
  }
}

TEST_CASE("Two runtimes in two threads do not know of each other", "[bad][threads]") {
  const ModelDir dir{TinySpec()};
  const std::vector<float> expected = logits_of(dir);
  // Without Catch's macros, which are not made for threads.
  const auto work = [&dir](std::vector<float>& out) {
    auto options = sized<qinfer_runtime_options>();
    options.n_threads = 2;
    qinfer_runtime* runtime = nullptr;
    qinfer_model* model = nullptr;
    qinfer_kv_cache* cache = nullptr;
    qinfer_session* session = nullptr;
    const std::vector<qinfer_token> tokens = some_tokens(20, 300);
    if (qinfer_runtime_create(&options, &runtime, nullptr) == QINFER_OK &&
        qinfer_model_load(runtime, dir.path().c_str(), nullptr, &model, nullptr) == QINFER_OK &&
        qinfer_kv_cache_create(model, nullptr, &cache, nullptr) == QINFER_OK &&
        qinfer_session_create(cache, nullptr, &session, nullptr) == QINFER_OK &&
        qinfer_session_append(session, tokens.data(), tokens.size(), nullptr) == QINFER_OK &&
        qinfer_eval(&session, 1, nullptr, nullptr) == QINFER_OK) {
      const float* row = qinfer_session_logits(session, 0);
      out.assign(row, row + 300);
    }
    qinfer_runtime_free(runtime);
    qinfer_model_free(model);
    qinfer_kv_cache_free(cache);
    qinfer_session_free(session);
  };
  std::vector<float> seen[2];
  std::thread first([&] { work(seen[0]); }), second([&] { work(seen[1]); });
  first.join();
  second.join();
  REQUIRE(seen[0] == expected);
  REQUIRE(seen[1] == expected);
}
