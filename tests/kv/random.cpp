// The KV cache against a naive one: random appending, evaluating, forking, cutting back, saving, loading and freeing
// over many sessions, with windows in no layer, in some and in all.
//
// Nothing is computed. What a kernel would write, the test writes itself: for each position a number that depends on
// all tokens up to it, as keys and values do. The naive cache is the list of tokens; after every step each evaluated
// position of every session that its windows see must hold its number, and the pools' counts must agree with who holds
// what. Threads then do the same to one cache.
#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "engine/session.h"
#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/soak.h"

using namespace qinfer;

namespace {

constexpr std::uint32_t kMaxTokens = 640, kWindow = 100, kBatch = 48;

enum class Windows { none, some, all };

struct Config {
  DType type;
  std::uint32_t block_tokens;
  bool prefix;
  kv::Storage storage;
  Windows windows;
};

std::string describe(const Config& config) {
  return fmt::format("{}, type {}, blocks of {} tokens, prefix cache {}, windows {}",
                     config.storage == kv::Storage::paged ? "paged" : "contiguous", static_cast<int>(config.type),
                     config.block_tokens, config.prefix, static_cast<int>(config.windows));
}

struct TinyModel {
  std::unique_ptr<test::ModelDir> directory;
  std::shared_ptr<const engine::Model> model;
};

TinyModel tiny_model(Windows windows) {
  test::TinySpec spec;
  spec.architecture = "Qwen2ForCausalLM";
  spec.context_tokens = kMaxTokens;
  spec.layers = 3;
  spec.window = windows == Windows::none ? 0 : kWindow;
  spec.full_layers = windows == Windows::some ? 1 : 0;
  TinyModel tiny{std::make_unique<test::ModelDir>(spec), nullptr};
  engine::RuntimeOptions options;
  options.n_threads = 1;
  auto runtime = engine::Runtime::create(options);
  REQUIRE(runtime.ok());
  engine::LoadOptions load;
  load.max_batch_tokens = kBatch;
  auto model = engine::Model::load(runtime.value(), tiny.directory->path(), load, {});
  REQUIRE(model.ok());
  tiny.model = model.value();
  REQUIRE(tiny.model->spec().kv_groups.size() == (windows == Windows::some ? 2 : 1));
  return tiny;
}

std::shared_ptr<engine::KvCache> make_cache(const TinyModel& tiny, const Config& config, std::uint64_t blocks) {
  engine::KvCacheOptions options;
  options.type = config.type;
  options.block_tokens = config.block_tokens;
  options.prefix = config.prefix;
  options.storage = config.storage;
  options.budget_blocks = blocks;
  auto cache = engine::KvCache::create(tiny.model, options);
  REQUIRE(cache.ok());
  return cache.value();
}

/// A session and what it should be.
struct Twin {
  std::unique_ptr<engine::Session> session;
  std::vector<std::int32_t> tokens;
  std::size_t evaluated = 0;
};

/// What a test reports, from whatever thread: Catch's own assertions are for one.
struct Failure {
  std::string what;
};

class RandomSessions {
 public:
  /// `evaluating`: held while a session is evaluated, as a runtime does.
  RandomSessions(std::shared_ptr<engine::KvCache> cache, std::string snapshot, unsigned seed, std::mutex& evaluating)
      : random_(seed), cache_(std::move(cache)), snapshot_(std::move(snapshot)), evaluating_(evaluating) {}

  std::size_t full = 0, forks = 0, adopted = 0, loaded = 0;  ///< so that a test can see that all this happened
  std::vector<Twin> twins;

  void step() {
    const unsigned kind = random_() % 100;
    if (twins.empty() || (kind < 6 && twins.size() < kMost)) return create();
    Twin& twin = twins[random_() % twins.size()];
    if (kind < 14 && twins.size() < kMost) return fork(twin);
    if (kind < 16 && twins.size() < kMost) return save_and_load(twin);
    if (kind < 24) return free(twin);
    if (kind < 36) return truncate(twin);
    if (kind < 60) return append(twin);
    evaluate(twin);
  }

  void check() const {
    for (std::size_t i = 0; i < twins.size(); ++i) check_twin(i);
  }

 private:
  static constexpr std::size_t kMost = 10;

  /// What position p holds, whose tokens are those before it and its own.
  static std::uint64_t value_of(std::uint64_t before, std::int32_t token) {
    return (before ^ static_cast<std::uint64_t>(token + 1)) * 0x9e3779b97f4a7c15u + 0x7f4a7c15u;
  }

  /// Writes (or compares) at the first K and the last V that belong to a position in a group.
  template <typename F>
  void visit(const engine::Session& session, std::size_t group, std::size_t position, F f) const {
    const KvLayout& layout = cache_->layout(group);
    const KvView view = session.keys().view(group);
    const auto tile = static_cast<std::uint32_t>(position / kTileTokens);
    const auto lane = static_cast<std::uint32_t>(position % kTileTokens);
    const std::size_t size = dtype_bytes(layout.type);
    f(view.k_tile(layout, 0, 0, tile) + layout.k_index(lane, 0) * size);
    f(view.k_tile(layout, layout.n_layers - 1, layout.n_kv_heads - 1, tile) + layout.tile_bytes() +
      layout.v_index(lane, 0) * size);
  }

  std::uint32_t window(std::size_t group) const { return cache_->model().spec().kv_groups[group].window; }

  void create() {
    auto session = engine::Session::create(cache_, engine::SessionOptions());
    if (!session.ok()) throw Failure{"no session"};
    Twin twin;
    twin.session = std::move(session.value());
    twins.push_back(std::move(twin));
  }

  void fork(Twin& twin) {
    auto copy = twin.session->fork();
    if (!copy.ok()) throw Failure{"no fork"};
    Twin other{std::move(copy.value()), twin.tokens, twin.evaluated};
    twins.push_back(std::move(other));
    ++forks;
  }

  void save_and_load(Twin& twin) {
    if (Status saved = twin.session->save(snapshot_); !saved.ok()) throw Failure{std::string(saved.message())};
    engine::Session::LoadSessionResult result;
    auto session = engine::Session::load(cache_, snapshot_, {}, result);
    const Status status = session.take_status();
    if (!status.ok()) {
      if (status.code() != Code::kv_full) throw Failure{std::string(status.message())};
      ++full;
      return;
    }
    // The last token is evaluated again, for its logits.
    const bool whole = twin.evaluated == twin.tokens.size() && twin.evaluated != 0;
    Twin other{std::move(session.value()), twin.tokens, twin.evaluated - (whole ? 1 : 0)};
    twins.push_back(std::move(other));
    ++loaded;
  }

  void free(Twin& twin) {
    std::swap(twin, twins.back());
    twins.pop_back();
  }

  void truncate(Twin& twin) {
    const std::size_t n = random_() % (twin.tokens.size() + 1);
    bool lost = n == 0;  // windows have moved beyond what the last token sees
    for (std::size_t g = 0; g < cache_->n_groups(); ++g)
      lost = lost || (window(g) != 0 && twin.session->keys().tables()[g].first() * cache_->block_tokens() >
                                            (n > window(g) ? n - window(g) : 0));
    if (!twin.session->truncate(n).ok()) throw Failure{"not truncated"};
    twin.tokens.resize(n);
    // No logits are ever kept here, so the last token is pending again unless none was evaluated beyond the cut.
    if (twin.evaluated >= n) twin.evaluated = lost ? 0 : n - 1;
  }

  void append(Twin& twin) {
    const std::size_t room = kMaxTokens - twin.tokens.size();
    const std::size_t n = std::min<std::size_t>(random_() % 3 == 0 ? random_() % 500 : random_() % 40, room);
    // Mostly what every sequence has at these positions, so that equal prefixes are common.
    const bool common = random_() % 12 != 0;
    std::vector<std::int32_t> tokens(n);
    for (std::size_t i = 0; i < n; ++i)
      tokens[i] = static_cast<std::int32_t>(common ? (twin.tokens.size() + i) % 7 : random_() % 7);
    if (!twin.session->append(tokens).ok()) throw Failure{"not appended"};
    twin.tokens.insert(twin.tokens.end(), tokens.begin(), tokens.end());
  }

  void evaluate(Twin& twin) {
    engine::Session& session = *twin.session;
    if (session.pending() == 0) return;
    const std::lock_guard lock(evaluating_);
    session.end_evaluation();
    session.adopt_prefix(1);
    const std::size_t from_cache = session.evaluated() - twin.evaluated;
    std::size_t left = 1 + random_() % session.pending();
    if (session.keys().reserve(left) != Code::ok) {
      session.drop_adopted();
      ++full;
      return;
    }
    adopted += from_cache;
    twin.evaluated += from_cache;
    std::uint64_t value = 0;
    for (std::size_t p = 0; p < twin.evaluated; ++p) value = value_of(value, twin.tokens[p]);
    while (left > 0) {
      const std::size_t n = std::min<std::size_t>(1 + random_() % kBatch, left);
      for (std::size_t p = twin.evaluated; p < twin.evaluated + n; ++p) {
        value = value_of(value, twin.tokens[p]);
        for (std::size_t g = 0; g < cache_->n_groups(); ++g)
          visit(session, g, p, [&](std::byte* at) { std::memcpy(at, &value, dtype_bytes(cache_->layout().type)); });
      }
      session.advance(n);
      twin.evaluated += n;
      left -= n;
      if (left > 0 && random_() % 20 == 0) break;  // cancelled
      if (left > 0 && session.keys().extend(std::min<std::size_t>(left, kBatch)) != Code::ok)
        throw Failure{"what was promised is not there"};
    }
    session.keys().finish_evaluation(session.evaluated());
  }

  void check_twin(std::size_t index) const {
    const Twin& twin = twins[index];
    if (twin.session->evaluated() != twin.evaluated || twin.session->length() != twin.tokens.size())
      throw Failure{fmt::format("session {}: {} of {} tokens evaluated, expected {} of {}", index,
                                twin.session->evaluated(), twin.session->length(), twin.evaluated, twin.tokens.size())};
    if (const char* wrong = twin.session->keys().find_inconsistency())
      throw Failure{fmt::format("session {}: {}", index, wrong)};
    for (std::size_t g = 0; g < cache_->n_groups(); ++g) {
      const std::size_t most = engine::blocks_of_session(cache_->layout(g), window(g), kMaxTokens, kBatch);
      if (twin.session->keys().tables()[g].held().size() > most)
        throw Failure{fmt::format("session {}: {} blocks of group {}, at most {} should be", index,
                                  twin.session->keys().tables()[g].held().size(), g, most)};
      // By the next token.
      const std::size_t seen = window(g) != 0 && twin.evaluated >= window(g) ? twin.evaluated - window(g) + 1 : 0;
      std::uint64_t value = 0;
      for (std::size_t p = 0; p < twin.evaluated; ++p) {
        value = value_of(value, twin.tokens[p]);
        if (p < seen) continue;
        visit(*twin.session, g, p, [&](const std::byte* at) {
          if (std::memcmp(at, &value, dtype_bytes(cache_->layout().type)) != 0)
            throw Failure{fmt::format("session {}: position {} of {} in group {} holds something else", index, p,
                                      twin.evaluated, g)};
        });
      }
    }
  }

  std::mt19937 random_;
  std::shared_ptr<engine::KvCache> cache_;
  std::string snapshot_;
  std::mutex& evaluating_;
};

/// Whether the counts of a cache agree with who holds what.
void check_cache(const engine::KvCache& cache, const std::vector<Twin>& twins) {
  std::uint64_t committed = 0;
  for (std::size_t g = 0; g < cache.n_groups(); ++g) {
    const kv::PoolStats stats = cache.pool(g).stats();
    std::vector<std::uint32_t> holders(stats.blocks_total);
    for (const Twin& twin : twins)
      for (const std::uint32_t block : twin.session->keys().tables()[g].held()) ++holders[block];
    if (const char* wrong = cache.pool(g).find_inconsistency(holders)) throw Failure{wrong};
    committed += (stats.blocks_used + stats.blocks_cached) * cache.layout(g).block_bytes();
  }
  const kv::PoolStats stats = cache.stats();
  if (stats.bytes_committed != committed || committed > stats.bytes_reserved)
    throw Failure{
        fmt::format("{} of {} bytes committed, expected {}", stats.bytes_committed, stats.bytes_reserved, committed)};
#if !defined(QINFER_POISON)
  if (cache.resident_bytes() > committed)
    throw Failure{fmt::format("{} bytes are resident, {} should be", cache.resident_bytes(), committed)};
#endif
}

void check_empty(const engine::KvCache& cache) {
  CHECK(cache.stats().blocks_used == 0);
  CHECK(cache.stats().blocks_shared == 0);
}

/// Runs one configuration; what went wrong, or nothing.
std::string run(const TinyModel& tiny, const Config& config, std::size_t steps, unsigned seed) {
  const std::uint64_t tiles = config.windows == Windows::none ? 24 : config.windows == Windows::some ? 14 : 10;
  const auto cache = make_cache(tiny, config, tiles * 32 / config.block_tokens + 2);
  std::mutex evaluating;
  RandomSessions sessions(cache, tiny.directory->file("random.kv"), seed, evaluating);
  std::size_t step = 0;
  try {
    for (; step < steps; ++step) {
      sessions.step();
      sessions.check();
      check_cache(*cache, sessions.twins);
    }
  } catch (const Failure& failure) {
    return fmt::format("step {}: {}", step, failure.what);
  }
  CHECK(sessions.forks > 0);
  CHECK(sessions.loaded > 0);
  CHECK(sessions.full > 0);
  if (!config.prefix) CHECK(sessions.adopted == 0);
  if (config.prefix && config.block_tokens == 32) CHECK(sessions.adopted > 0);
  sessions.twins.clear();
  check_empty(*cache);
  return {};
}

}  // namespace

TEST_CASE("random operations leave the KV cache as a naive one would be", "[kv]") {
  // Eighteen configurations (storage, type, block size), each in six ways (prefix cache, windows).
  const std::size_t steps = qinfer::test::soak_steps(100000 / 18) / 6 + 1;
  unsigned seed = qinfer::test::first_seed();
  for (const Windows windows : {Windows::none, Windows::some, Windows::all}) {
    const TinyModel tiny = tiny_model(windows);
    for (const kv::Storage storage : {kv::Storage::paged, kv::Storage::contiguous})
      for (const DType type : {DType::f32, DType::f16, DType::bf16})
        for (const std::uint32_t block_tokens : {32u, 64u, 256u})
          for (const bool prefix : {false, true}) {
            const Config config{type, block_tokens, prefix, storage, windows};
            INFO(describe(config));
            CHECK(run(tiny, config, steps, seed++) == "");
          }
  }
}

TEST_CASE("threads that work on one cache at random find what they left", "[kv][threads]") {
  for (const Windows windows : {Windows::none, Windows::some})
    for (const kv::Storage storage : {kv::Storage::paged, kv::Storage::contiguous}) {
      const Config config{DType::f16, 32, true, storage, windows};
      INFO(describe(config));
      const TinyModel tiny = tiny_model(windows);
      const auto cache = make_cache(tiny, config, 60);
      std::mutex evaluating;
      std::vector<std::string> failures(4);
      std::vector<std::thread> threads;
      for (unsigned t = 0; t < failures.size(); ++t) {
        threads.emplace_back([&, t] {
          RandomSessions sessions(cache, tiny.directory->file(fmt::format("random-{}.kv", t)),
                                  qinfer::test::first_seed() + t, evaluating);
          try {
            for (int i = 0; i < 150; ++i) {
              sessions.step();
              sessions.check();
            }
          } catch (const Failure& failure) {
            failures[t] = failure.what;
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      for (const std::string& failure : failures) CHECK(failure == "");
      check_empty(*cache);
    }
}
