// Memory: the plan equals what is taken, to the byte, and nothing is allocated while generating.
#include <qinfer/qinfer.hpp>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <thread>

#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/targets.h"

namespace {

/// Counts calls of the C++ heap while `counting`. Replacing operator new is enough for libqinfer's own objects, whose
/// every container uses it; large memory goes through the host allocator that the tests pass.
std::atomic<bool> counting{false};
std::atomic<long> allocations{0};
/// The C++ heap grants this many more requests and refuses the next; below zero it refuses none.
std::atomic<long> refuse_after{-1};

/// A host allocator that remembers what is out.
struct Ledger {
  std::mutex mutex;
  std::map<void*, std::size_t> blocks;
  std::size_t live = 0, peak = 0;
  bool wrong = false;

  static void* alloc(std::size_t size, std::size_t alignment, void* user) {
    auto* self = static_cast<Ledger*>(user);
    void* p = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    const std::lock_guard lock(self->mutex);
    self->blocks[p] = size;
    self->live += size;
    self->peak = std::max(self->peak, self->live);
    if (counting) ++allocations;
    return p;
  }
  /// Like alloc, but refuses as the C++ heap does.
  static void* alloc_or_refuse(std::size_t size, std::size_t alignment, void* user) {
    if (refuse_after >= 0 && refuse_after-- == 0) return nullptr;
    return alloc(size, alignment, user);
  }
  static void release(void* p, std::size_t size, std::size_t, void* user) {
    auto* self = static_cast<Ledger*>(user);
    const std::lock_guard lock(self->mutex);
    const auto it = self->blocks.find(p);
    if (it == self->blocks.end() || it->second != size) self->wrong = true;
    if (it != self->blocks.end()) self->blocks.erase(it);
    self->live -= size;
    std::free(p);
  }
};

}  // namespace

#if !defined(QINFER_SANITIZED)
// g++ 12 sees malloc inside the operator new that it inlines, and forgets that this operator delete belongs to it.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t size) {
  if (counting) ++allocations;
  if (refuse_after >= 0 && refuse_after-- == 0) throw std::bad_alloc();
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif

TEST_CASE("the plan is what is taken, to the byte", "[memory]") {
  for (const char* format : {static_cast<const char*>(nullptr), "f32"}) {
    for (const std::uint32_t flags : {0u, std::uint32_t{QINFER_LOAD_NO_MMAP}}) {
      const qinfer::test::ModelDir directory(
          qinfer::test::TinySpec{.context_tokens = 512, .dtype = qinfer::DType::bf16});
      Ledger ledger;
      auto allocator = qi::options<qinfer_allocator>();
      allocator.alloc = Ledger::alloc;
      allocator.release = Ledger::release;
      allocator.user = &ledger;
      auto runtime_options = qi::options<qinfer_runtime_options>();
      runtime_options.allocator = &allocator;
      runtime_options.n_threads = 3;
      auto load_options = qi::options<qinfer_load_options>();
      load_options.flags = flags;
      load_options.weight_format = format;
      load_options.max_batch_tokens = 77;
      auto cache_options = qi::options<qinfer_kv_cache_options>();
      cache_options.block_tokens = 64;
      cache_options.budget_blocks = 5;
      auto session_options = qi::options<qinfer_session_options>();
      session_options.max_tokens = 300;
      session_options.max_logits = 3;
      const qinfer_memory plan =
          qi::plan(directory.path(), &runtime_options, &load_options, &cache_options, &session_options);
      {
        qi::Runtime runtime(runtime_options);
        const qi::Model model = qi::Model::load(runtime, directory.path(), load_options);
        const qinfer_memory memory = model.memory();
        CHECK(memory.weights_mapped == plan.weights_mapped);
        CHECK(memory.weights_private == plan.weights_private);
        CHECK(memory.tables == plan.tables);
        CHECK(memory.scratch == plan.scratch);
        CHECK(memory.load_peak == plan.load_peak);
        // Everything but mapped files.
        const std::uint64_t loaded = plan.weights_private + plan.tables + plan.scratch;
        CHECK(plan.tables > 512 * 8 * 4);  // the RoPE table, and a tokenizer
        CHECK(ledger.live == loaded);
        CHECK(ledger.peak == plan.load_peak - plan.weights_mapped);
        qi::KvCache cache(model, cache_options);
        CHECK(ledger.live == loaded + plan.kv_cache_bytes + plan.kv_lists);
        CHECK(plan.kv_cache_bytes == 5 * plan.kv_per_block);
        CHECK(plan.total == memory.total + plan.kv_cache_bytes + plan.kv_lists);
        qi::Session session(cache, session_options);
        CHECK(ledger.live == loaded + plan.kv_cache_bytes + plan.kv_lists + plan.per_session);
        CHECK(session.memory().other == plan.per_session);
      }
      CHECK(ledger.live == 0);
      CHECK_FALSE(ledger.wrong);
    }
  }
}

TEST_CASE("the plan is what is taken for windows, shared layers, encoders and fused tensors too", "[memory]") {
  for (const char* name : {"gemma2-f32", "gemma3-capped-bf16", "gemma3-shared-f32", "gemma3-encoder-f32",
                           "bert-odd-bf16", "mpnet-odd-bf16", "modernbert-biases-f32", "phi3-window-bf16",
                           "phi3-partial-f32", "qwen2moe-f32", "qwen3moe-dense-f32"}) {
    INFO(name);
    const std::string folder = QINFER_TEST_FIXTURES "/models/" + std::string(name);
    Ledger ledger;
    qinfer_allocator allocator = {sizeof(qinfer_allocator), 0, Ledger::alloc, Ledger::release, &ledger};
    auto runtime_options = qi::options<qinfer_runtime_options>();
    runtime_options.allocator = &allocator;
    runtime_options.n_threads = 2;
    auto cache_options = qi::options<qinfer_kv_cache_options>();
    auto session_options = qi::options<qinfer_session_options>();
    session_options.flags = QINFER_SESSION_EMBEDDINGS;
    const qinfer_memory plan = qi::plan(folder, &runtime_options, nullptr, &cache_options, &session_options);
    {
      qi::Runtime runtime(runtime_options);
      const qi::Model model = qi::Model::load(runtime, folder);
      const std::uint64_t loaded = plan.weights_private + plan.tables + plan.scratch;
      const std::uint64_t of_cache = plan.kv_cache_bytes + plan.kv_lists;
      CHECK(ledger.live == loaded);
      CHECK(ledger.peak == plan.load_peak - plan.weights_mapped);
      CHECK(model.memory().total == plan.total - of_cache);
      qi::KvCache cache(model, cache_options);
      CHECK(ledger.live == loaded + of_cache);
      qi::Session session(cache, session_options);
      CHECK(ledger.live == loaded + of_cache + plan.per_session);
      session.append(std::vector<qinfer_token>(70, 5));
      session.eval();
      CHECK(ledger.live == loaded + of_cache + plan.per_session);
    }
    CHECK(ledger.live == 0);
  }
}

TEST_CASE("seven geometries, all kernel sets and options: the plan is what is taken", "[memory]") {
  qinfer::test::TinySpec specs[7];
  specs[1].architecture = "Qwen3ForCausalLM", specs[1].tied = true, specs[1].head_dim = 10,
  specs[1].dtype = qinfer::DType::f16;
  specs[2].architecture = "Qwen2ForCausalLM", specs[2].window = 40, specs[2].full_layers = 1, specs[2].layers = 3;
  specs[3].architecture = "MistralForCausalLM", specs[3].hidden = 40, specs[3].heads = 4, specs[3].kv_heads = 2;
  specs[4].shards = 2, specs[4].vocab = 1000, specs[4].dtype = qinfer::DType::bf16, specs[4].context_tokens = 700;
  specs[5].architecture = "Phi3ForCausalLM", specs[5].rotary_factor = 0.5, specs[5].dtype = qinfer::DType::bf16;
  specs[6].architecture = "Olmo2ForCausalLM", specs[6].heads = 3, specs[6].kv_heads = 1;  // rows wait for their norm
  for (const auto& spec : specs) {
    const qinfer::test::ModelDir directory(spec);
    for (const std::string& target : qinfer::test::usable_targets())
      for (const std::uint32_t variant : {0u, 1u, 2u, 3u}) {
        INFO(spec.architecture << " on " << target << ", options " << variant);
        Ledger ledger;
        qinfer_allocator allocator = {sizeof(qinfer_allocator), 0, Ledger::alloc, Ledger::release, &ledger};
        auto runtime_options = qi::options<qinfer_runtime_options>();
        runtime_options.allocator = &allocator;
        runtime_options.cpu_target = target.c_str();
        runtime_options.n_threads = 1 + variant % 3;
        auto load_options = qi::options<qinfer_load_options>();
        if (variant == 1) load_options.flags = QINFER_LOAD_NO_MMAP;
        if (variant == 2)
          load_options.weight_format = qinfer::test::holds(target, qinfer::Encoding::f32) ? "f32" : "bf16";
        load_options.max_batch_tokens = variant == 3 ? 5 : 100;
        auto cache_options = qi::options<qinfer_kv_cache_options>();
        cache_options.kv_type = static_cast<std::int32_t>(variant);  // default, f32, f16, bf16
        cache_options.block_tokens = 32u << variant % 3;
        if (variant % 2 == 1) cache_options.flags = QINFER_CACHE_PREFIX;
        auto session_options = qi::options<qinfer_session_options>();
        session_options.max_tokens = variant == 3 ? 33 : 0;
        if (variant == 2) session_options.flags = QINFER_SESSION_EMBEDDINGS;
        const qinfer_memory plan =
            qi::plan(directory.path(), &runtime_options, &load_options, &cache_options, &session_options);
        {
          qi::Runtime runtime(runtime_options);
          const qi::Model model = qi::Model::load(runtime, directory.path(), load_options);
          CHECK(ledger.peak == plan.load_peak - plan.weights_mapped);
          qi::KvCache cache(model, cache_options);
          CHECK(ledger.live == plan.total - plan.weights_mapped);
          qi::Session session(cache, session_options);
          CHECK(ledger.live == plan.total - plan.weights_mapped + plan.per_session);
          session.append(std::vector<qinfer_token>(33, 65));
          session.eval();
          CHECK(ledger.live == plan.total - plan.weights_mapped + plan.per_session);
        }
        CHECK(ledger.live == 0);
        CHECK_FALSE(ledger.wrong);
      }
  }
}

TEST_CASE("a memory budget holds for the model, its caches and sessions, to the byte", "[memory]") {
  const qinfer::test::ModelDir directory(qinfer::test::TinySpec{.context_tokens = 512});
  auto load = qi::options<qinfer_load_options>();
  auto cache_options = qi::options<qinfer_kv_cache_options>();
  cache_options.budget_blocks = 5;
  cache_options.flags = QINFER_CACHE_PREFIX;
  auto session_options = qi::options<qinfer_session_options>();
  session_options.max_tokens = 100;
  const qinfer_memory plan = qi::plan(directory.path(), nullptr, &load, &cache_options, &session_options);
  qi::Runtime runtime;
  qinfer_error error{};
  qinfer_model* refused = nullptr;
  load.memory_budget_bytes = plan.load_peak - 1;
  CHECK(qinfer_model_load(runtime.native(), directory.path().c_str(), &load, &refused, &error) == QINFER_E_NO_MEMORY);
  CHECK(error.detail == static_cast<std::int64_t>(plan.load_peak));
  load.memory_budget_bytes = plan.load_peak;
  CHECK_NOTHROW(qi::Model::load(runtime, directory.path(), load));

  // The session's rows of the RoPE table are taken when it is created, after the cache.
  const std::uint64_t rope = session_options.max_tokens * 8 * sizeof(float);
  load.memory_budget_bytes = plan.total - 1;
  {
    const qi::Model model = qi::Model::load(runtime, directory.path(), load);
    qi::KvCache cache(model, cache_options);
    qinfer_session* session = nullptr;
    CHECK(qinfer_session_create(cache.native(), &session_options, &session, &error) == QINFER_E_NO_MEMORY);
  }
  load.memory_budget_bytes = plan.total - rope - 1;
  {
    const qi::Model model = qi::Model::load(runtime, directory.path(), load);
    qinfer_kv_cache* cache = nullptr;
    CHECK(qinfer_kv_cache_create(model.native(), &cache_options, &cache, &error) == QINFER_E_NO_MEMORY);
    CHECK(error.detail == static_cast<std::int64_t>(plan.total - rope));
    CHECK(std::string(error.message).find("4 blocks of 32 tokens would fit") != std::string::npos);
    cache_options.budget_blocks = 4;
    CHECK_NOTHROW(qi::KvCache(model, cache_options));
  }
  cache_options.budget_blocks = 5;
  load.memory_budget_bytes = plan.total + 2 * plan.per_session - 1;
  {
    const qi::Model model = qi::Model::load(runtime, directory.path(), load);
    qi::KvCache cache(model, cache_options);
    qi::Session session(cache, session_options);
    session.append({1, 2});
    qinfer_session* second = nullptr;
    CHECK(qinfer_session_create(cache.native(), &session_options, &second, &error) == QINFER_E_NO_MEMORY);
    CHECK(error.detail == static_cast<std::int64_t>(plan.total + 2 * plan.per_session));
    CHECK(qinfer_session_fork(session.native(), &second, &error) == QINFER_E_NO_MEMORY);
    CHECK(second == nullptr);
  }
  load.memory_budget_bytes = plan.total + 2 * plan.per_session;
  const qi::Model model = qi::Model::load(runtime, directory.path(), load);
  qi::KvCache cache(model, cache_options);
  qi::Session session(cache, session_options);
  for (int i = 0; i < 3; ++i) CHECK_NOTHROW(session.fork());  // each gives back what it took
}

TEST_CASE("threads that share a memory budget get all of it and no more", "[memory][threads]") {
  const qinfer::test::ModelDir directory(qinfer::test::TinySpec{});
  auto cache_options = qi::options<qinfer_kv_cache_options>();
  auto runtime_options = qi::options<qinfer_runtime_options>();
  runtime_options.n_threads = 1;
  const qinfer_memory plan = qi::plan(directory.path(), &runtime_options, nullptr, &cache_options);
  auto load = qi::options<qinfer_load_options>();
  load.memory_budget_bytes = plan.total + 10 * plan.per_session + plan.per_session / 2;
  qi::Runtime runtime(runtime_options);
  const qi::Model model = qi::Model::load(runtime, directory.path(), load);
  qi::KvCache cache(model, cache_options);
  for (int round = 0; round < 3; ++round) {  // what was taken comes back
    std::atomic<int> created{0};
    std::vector<std::thread> threads;
    std::vector<std::vector<qinfer_session*>> sessions(4);
    for (auto& own : sessions)
      threads.emplace_back([&created, &cache, &own] {
        qinfer_session* session = nullptr;
        while (qinfer_session_create(cache.native(), nullptr, &session, nullptr) == QINFER_OK) {
          own.push_back(session);
          ++created;
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(created == 10);
    for (const auto& own : sessions)
      for (qinfer_session* session : own) qinfer_session_free(session);
  }
}

TEST_CASE("a tensor that passes through a buffer while it is loaded counts for the peak", "[memory]") {
  qinfer::test::TinySpec spec;
  spec.vocab = 20000;
  spec.dtype = qinfer::DType::bf16;
  const qinfer::test::ModelDir directory(spec);
  Ledger ledger;
  qinfer_allocator allocator = {sizeof(qinfer_allocator), 0, Ledger::alloc, Ledger::release, &ledger};
  auto runtime_options = qi::options<qinfer_runtime_options>();
  runtime_options.allocator = &allocator;
  runtime_options.n_threads = 1;
  auto load = qi::options<qinfer_load_options>();
  load.flags = QINFER_LOAD_NO_MMAP;
  load.weight_format = "f32";
  load.max_batch_tokens = 1;
  const qinfer_memory plan = qi::plan(directory.path(), &runtime_options, &load);
  CHECK(plan.load_peak > plan.total);
  qi::Runtime runtime(runtime_options);
  const qi::Model model = qi::Model::load(runtime, directory.path(), load);
  CHECK(ledger.peak == plan.load_peak);
  CHECK(ledger.live == plan.total);
}

TEST_CASE("a lone config.json can be planned", "[memory]") {
  const qinfer::test::ModelDir directory(qinfer::test::TinySpec{});
  const qinfer_memory whole = qi::plan(directory.path());
  const qinfer_memory lone = qi::plan(directory.file("config.json"));
  CHECK(lone.weights_mapped == whole.weights_mapped);
  CHECK(lone.weights_private == whole.weights_private);
  CHECK(lone.scratch == whole.scratch);
  CHECK(lone.kv_per_block == whole.kv_per_block);
  CHECK(lone.tables < whole.tables);
}

TEST_CASE("KV bytes are those of the published geometries", "[memory]") {
  // 2 x layers x kv_heads x positions x head_dim x element, by hand for Qwen3-0.6B (28, 8, 128) and 1024 positions.
  qinfer::test::ModelDir directory;
  directory.write("config.json",
                  R"({"architectures": ["Qwen3ForCausalLM"], "hidden_size": 1024, "intermediate_size": 3072,
    "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "tie_word_embeddings": true, "dtype": "bfloat16"})");
  auto cache = qi::options<qinfer_kv_cache_options>();
  cache.budget_blocks = 1024 / 32;
  cache.kv_type = QINFER_KV_F32;
  CHECK(qi::plan(directory.file("config.json"), nullptr, nullptr, &cache).kv_cache_bytes == 234'881'024);
  cache.kv_type = QINFER_KV_F16;
  const qinfer_memory memory = qi::plan(directory.file("config.json"), nullptr, nullptr, &cache);
  CHECK(memory.kv_cache_bytes == 117'440'512);
  // 596,049,920 parameters, of which 65,536 are norms (f32 here: 28 x (2 x 1024 + 2 x 128) + 1024 = 65,536).
  CHECK(memory.weights_mapped + memory.weights_private == 2 * (596'049'920 - 65'536) + 4 * 65'536);
  auto runtime = qi::options<qinfer_runtime_options>();
  runtime.cpu_target = "reference";
  const qinfer_memory mapped = qi::plan(directory.file("config.json"), &runtime, nullptr, &cache);
  CHECK(mapped.weights_mapped == 2 * (596'049'920 - 65'536));
  CHECK(mapped.weights_private == 4 * 65'536);
}

TEST_CASE("nothing is allocated while generating", "[memory]") {
  const qinfer::test::ModelDir directory(qinfer::test::TinySpec{.context_tokens = 1024});
  Ledger ledger;
  auto allocator = qi::options<qinfer_allocator>();
  allocator.alloc = Ledger::alloc;
  allocator.release = Ledger::release;
  allocator.user = &ledger;
  auto runtime_options = qi::options<qinfer_runtime_options>();
  runtime_options.allocator = &allocator;
  runtime_options.n_threads = 4;
  qi::Runtime runtime(runtime_options);
  const qi::Model model = qi::Model::load(runtime, directory.path());
  auto cache_options = qi::options<qinfer_kv_cache_options>();
  cache_options.budget_blocks = 128;
  cache_options.flags = QINFER_CACHE_PREFIX;
  qi::KvCache cache(model, cache_options);
  std::vector<qi::Session> sessions;
  for (int i = 0; i < 3; ++i) sessions.emplace_back(cache);
  sessions[0].append(std::vector<qinfer_token>(40, 66));
  sessions[0].eval();
  sessions.push_back(sessions[0].fork());  // which finds what it shares taken when it writes
  auto sampler = qi::options<qinfer_sampler_options>();
  sampler.temperature = 0.9f;
  sampler.top_k = 20;
  sampler.top_p = 0.9f;
  sampler.min_p = 0.01f;
  sampler.repeat_penalty = 1.1f;
  for (auto& session : sessions) session.set_sampler(sampler);
  qi::Detokenizer detok(model);
  std::vector<qinfer_token> prompt(50, 65);
  std::vector<qinfer_session*> handles;
  for (auto& session : sessions) handles.push_back(session.native());
  auto generate_options = qi::options<qinfer_generate_options>();
  generate_options.max_tokens = 30;
  const char* stops[] = {"zzzzzz", "\n\n\n\n"};
  generate_options.stop = stops;
  generate_options.n_stop = 2;
  char text[1024];

  allocations = 0;
  counting = true;
  qinfer_error error;
  int failures = 0;
  for (int round = 0; round < 5; ++round) {
    for (qinfer_session* session : handles)
      failures += qinfer_session_append(session, prompt.data(), prompt.size(), &error) != QINFER_OK;
    failures += qinfer_eval(handles.data(), handles.size(), nullptr, &error) != QINFER_OK;
    for (qinfer_session* session : handles) {
      qinfer_token token = 0;
      std::size_t n = 0;
      failures += qinfer_session_sample(session, &token, &error) != QINFER_OK;
      failures += qinfer_detok_push(detok.native(), token, text, sizeof text, &n, &error) != QINFER_OK;
      failures += qinfer_generate(session, &generate_options, nullptr, &error) != QINFER_OK;
      failures += qinfer_session_truncate(session, 20, &error) != QINFER_OK;
    }
  }
  counting = false;
  CHECK(failures == 0);
  CHECK(allocations == 0);
}

#if !defined(QINFER_SANITIZED)
TEST_CASE("forking, saving and loading without memory change nothing and lose nothing", "[memory][kv]") {
  const qinfer::test::ModelDir directory{qinfer::test::TinySpec()};
  Ledger ledger;
  qinfer_allocator allocator = {sizeof(qinfer_allocator), 0, Ledger::alloc_or_refuse, Ledger::release, &ledger};
  auto runtime_options = qi::options<qinfer_runtime_options>();
  runtime_options.allocator = &allocator;
  runtime_options.n_threads = 1;
  qi::Runtime runtime(runtime_options);
  auto cache_options = qi::options<qinfer_kv_cache_options>();
  cache_options.flags = QINFER_CACHE_PREFIX;
  cache_options.budget_blocks = 8;
  // For one more session at a time: what a refused call had charged must come back too.
  const qinfer_memory plan = qi::plan(directory.path(), &runtime_options, nullptr, &cache_options);
  auto load = qi::options<qinfer_load_options>();
  load.memory_budget_bytes = plan.total + 2 * plan.per_session;
  const qi::Model model = qi::Model::load(runtime, directory.path(), load);
  qi::KvCache cache(model, cache_options);
  qi::Session session(cache);
  session.append(std::vector<qinfer_token>(70, 65));
  session.eval();
  const std::string path = directory.file("session.kv");
  session.save(path);
  const std::vector<float> logits = session.copy_logits();

  using Make = qinfer_status (*)(qi::Session&, qi::KvCache&, const char*, qinfer_session**, qinfer_error*);
  const Make calls[] = {[](qi::Session& s, qi::KvCache&, const char*, qinfer_session** out, qinfer_error* error) {
                          return qinfer_session_fork(s.native(), out, error);
                        },
                        [](qi::Session&, qi::KvCache& c, const char* p, qinfer_session** out, qinfer_error* error) {
                          return qinfer_session_load(c.native(), p, out, error);
                        },
                        [](qi::Session& s, qi::KvCache&, const char* p, qinfer_session** out, qinfer_error* error) {
                          *out = nullptr;
                          return qinfer_session_save(s.native(), p, error);
                        }};
  for (const Make call : calls) {
    bool succeeded = false;
    for (long n = 0; !succeeded; ++n) {
      INFO("call " << (&call - calls) << ", refused request " << n);
      REQUIRE(n < 500);
      const std::size_t live = ledger.live, used = cache.stats().blocks_used;
      qinfer_session* out = nullptr;
      qinfer_error error{};
      refuse_after = n;
      const qinfer_status status = call(session, cache, path.c_str(), &out, &error);
      refuse_after = -1;
      succeeded = status == QINFER_OK;
      if (!succeeded) {
        REQUIRE(status == QINFER_E_NO_MEMORY);
        REQUIRE(out == nullptr);
      }
      qinfer_session_free(out);
      REQUIRE(ledger.live == live);
      REQUIRE(cache.stats().blocks_used == used);
      REQUIRE(cache.stats().blocks_shared == 0);
    }
  }
  session.save(path);
  qi::Session loaded = qi::Session::load(cache, path);
  loaded.eval();
  CHECK(loaded.copy_logits() == logits);
  CHECK(session.copy_logits() == logits);
}
#endif
