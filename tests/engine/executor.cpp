// Threads of a host instead of the runtime's: whatever executor there is, with however many threads, and however badly
// it counts, the logits are the same to the bit. And sessions that leave a batch.
#include <qinfer/qinfer.hpp>

#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "support/c_api.h"
#include "support/catch.h"

using namespace qinfer::test;

namespace {

using Task = void (*)(std::uint32_t, void*);

/// A pool as hosts have them: threads that take tasks until there are none, and a caller that waits.
class Pool {
 public:
  explicit Pool(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) threads_.emplace_back([this] { loop(); });
  }
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void run(std::uint32_t n, Task task, void* context) {
    std::unique_lock lock(mutex_);
    task_ = task, context_ = context, next_ = 0, n_ = n, left_ = n;
    wake_.notify_all();
    done_.wait(lock, [this] { return left_ == 0; });
    n_ = 0;
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return ends_ || next_ < n_; });
      if (ends_) return;
      const std::uint32_t index = next_++;
      const Task task = task_;
      void* context = context_;
      lock.unlock();
      task(index, context);
      lock.lock();
      if (--left_ == 0) done_.notify_all();
    }
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  Task task_ = nullptr;
  void* context_ = nullptr;
  std::uint32_t next_ = 0, n_ = 0, left_ = 0;
  bool ends_ = false;
};

using Run = std::function<void(std::uint32_t n, Task task, void* context)>;

qi::Model load_with(const std::string& name, std::uint32_t n_tasks, const Run& run) {
  qinfer_executor executor = qi::options<qinfer_executor>();
  executor.n_tasks = n_tasks;
  executor.run = [](std::uint32_t n, Task task, void* context, void* user) {
    (*static_cast<const Run*>(user))(n, task, context);
  };
  executor.user = const_cast<Run*>(&run);
  auto options = qi::options<qinfer_runtime_options>();
  options.executor = &executor;
  qi::Runtime runtime(options);
  return qi::Model::load(runtime, QINFER_TEST_MODELS "/" + name);
}

/// Logits after a prompt, and after each of some tokens; and an embedding.
std::vector<float> computed(const qi::Model& model) {
  qi::KvCache cache(model);
  auto options = qi::options<qinfer_session_options>();
  options.flags = QINFER_SESSION_EMBEDDINGS;
  qi::Session session(cache, options);
  std::vector<float> out;
  const auto take = [&] {
    session.eval();
    const std::vector<float> row = session.copy_logits();
    out.insert(out.end(), row.begin(), row.end());
  };
  std::vector<qi::Token> prompt(90);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<qi::Token>((i * 37 + 5) % 200);
  session.append(prompt);
  take();
  for (const qi::Token token : {7, 60, 41}) {
    session.append(std::vector<qi::Token>{token});
    take();
  }
  const std::vector<float> embedding = session.embedding();
  out.insert(out.end(), embedding.begin(), embedding.end());
  return out;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("executor: the bits are those of the runtime's threads", "[executor][threads]") {
  for (const std::string name : {"tiny-stories", "tiny-stories-moe"}) {
    auto options = qi::options<qinfer_runtime_options>();
    options.n_threads = 3;
    qi::Runtime runtime(options);
    const std::vector<float> expected = computed(qi::Model::load(runtime, QINFER_TEST_MODELS "/" + name));
    const auto check = [&](const char* what, std::uint32_t n_tasks, const Run& run) {
      CAPTURE(name, what, n_tasks);
      CHECK(same(computed(load_with(name, n_tasks, run)), expected));
    };
    const Run in_turn = [](std::uint32_t n, Task task, void* context) {
      for (std::uint32_t i = 0; i < n; ++i) task(i, context);
    };
    for (const std::uint32_t n : {1U, 2U, 5U}) {
      Pool pool(n);
      const Run by_pool = [&](std::uint32_t tasks, Task task, void* context) { pool.run(tasks, task, context); };
      check("a pool", n, by_pool);
      check("a pool with more tasks", 3 * n, by_pool);
      check("one after another", n, in_turn);
    }
    check("backwards", 4, [](std::uint32_t n, Task task, void* context) {
      while (n-- > 0) task(n, context);
    });
    // It would be a fault of the host, and gives the right answer all the same.
    check("none is called", 4, [](std::uint32_t, Task, void*) {});
    check("each twice, and others", 3, [](std::uint32_t n, Task task, void* context) {
      for (std::uint32_t i = 0; i < 2 * n; ++i) task(i % (n + 1), context);
    });
  }
}

TEST_CASE("executor: several threads of a host evaluate and load at once", "[executor][threads]") {
  Pool pool(2);
  const Run by_pool = [&](std::uint32_t n, Task task, void* context) { pool.run(n, task, context); };
  const qi::Model model = load_with("tiny-stories", 2, by_pool);
  const std::vector<float> expected = computed(model);
  std::vector<std::vector<float>> got(3);
  std::vector<std::thread> threads;
  for (std::vector<float>& each : got) threads.emplace_back([&] { each = computed(model); });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& each : got) CHECK(same(each, expected));
}

TEST_CASE("executor: options that cannot be", "[executor][bad]") {
  qinfer_runtime* out = nullptr;
  qinfer_executor executor = qi::options<qinfer_executor>();
  auto options = qi::options<qinfer_runtime_options>();
  options.executor = &executor;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "executor.run is NULL", qinfer_runtime_create(&options, &out, &err));
  executor.run = [](std::uint32_t, Task, void*, void*) {};
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "n_tasks is 0", qinfer_runtime_create(&options, &out, &err));
  executor.n_tasks = 1025;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "n_tasks is 1025", qinfer_runtime_create(&options, &out, &err));
  executor.n_tasks = 2;
  options.n_threads = 2;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "with an executor leave them 0",
                qinfer_runtime_create(&options, &out, &err));
}

TEST_CASE("a cancelled session leaves a batch, and its neighbours do not notice", "[engine]") {
  auto load = qi::options<qinfer_load_options>();
  load.max_batch_tokens = 16;
  const qi::Model model = qi::Model::load(QINFER_TEST_MODELS "/tiny-stories", load);
  auto cache_options = qi::options<qinfer_kv_cache_options>();
  cache_options.budget_blocks = 64;
  qi::KvCache cache(model, cache_options);
  const auto prompt = [](std::size_t n, int step) {
    std::vector<qi::Token> tokens(n);
    for (std::size_t i = 0; i < n; ++i) tokens[i] = static_cast<qi::Token>((i * static_cast<std::size_t>(step)) % 199);
    return tokens;
  };
  qi::Session alone(cache);
  alone.append(prompt(100, 7));
  alone.eval();
  const std::vector<float> expected = alone.copy_logits();

  qi::Session kept(cache), left(cache), late(cache);
  kept.append(prompt(100, 7));
  left.append(prompt(50, 11));
  late.append(prompt(120, 5));
  qi::Cancel before, during, never;
  before.request();
  const qinfer_cancel* cancels[] = {nullptr, before.native(), during.native()};
  qinfer_session* sessions[] = {kept.native(), left.native(), late.native()};
  auto options = qi::options<qinfer_eval_options>();
  options.session_cancels = cancels;
  std::thread other([&] { during.request(); });
  REQUIRE_OK(qinfer_eval(sessions, 3, &options, &err));
  other.join();
  CHECK(left.pending() == 50);
  CHECK(kept.pending() == 0);
  CHECK(same(kept.copy_logits(), expected));
  // What left goes on later, as if it had never been in the batch.
  const auto finish = [&](qi::Session& session, const std::vector<qi::Token>& tokens) {
    qi::Session fresh(cache);
    fresh.append(tokens);
    fresh.eval();
    if (session.pending() != 0) session.eval();
    CHECK(same(session.copy_logits(), fresh.copy_logits()));
  };
  finish(left, prompt(50, 11));
  finish(late, prompt(120, 5));
  before.request();
  const qinfer_cancel* all[] = {before.native()};
  options.session_cancels = all;
  kept.append(prompt(3, 2));
  REQUIRE_OK(qinfer_eval(sessions, 1, &options, &err));
  CHECK(kept.pending() == 3);

  // One that leaves before the call takes no room, and none of max_tokens.
  auto tight = qi::options<qinfer_kv_cache_options>();
  tight.budget_blocks = 2;
  qi::KvCache little(model, tight);
  qi::Session gone(little), goes(little);
  gone.append(prompt(60, 3));
  goes.append(prompt(40, 7));
  qinfer_session* both[] = {gone.native(), goes.native()};
  const qinfer_cancel* first_gone[] = {before.native(), nullptr};
  options.session_cancels = first_gone;
  options.max_tokens = 40;
  REQUIRE_OK(qinfer_eval(both, 2, &options, &err));
  CHECK(goes.pending() == 0);
  CHECK(gone.pending() == 60);
}
