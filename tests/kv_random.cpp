// The KV cache against a naive one: random appending, evaluating, forking, cutting back and freeing over many sessions.
//
// Nothing is computed. What a kernel would write, the test writes itself: for each position a number that depends on
// all tokens up to it, as keys and values do. The naive cache is the list of tokens; after every step each evaluated
// position of every session must hold its number, and the pool's counts must agree with who holds what.
#include <fmt/format.h>

#include <memory>
#include <random>
#include <vector>

#include "catch.h"
#include "checkpoint_writer.h"
#include "engine/session.h"

using namespace qinfer;

namespace {

constexpr std::uint32_t kMaxTokens = 640;

struct Config {
  DType type;
  std::uint32_t block_tokens;
  bool prefix;
  kv::Storage storage;
};

std::shared_ptr<const engine::Model> tiny_model() {
  static test::ModelDir* directory = [] {
    test::TinySpec spec;
    spec.context_tokens = kMaxTokens;
    return new test::ModelDir(spec);
  }();
  auto runtime = engine::Runtime::create({});
  REQUIRE(runtime.ok());
  auto model = engine::Model::load(runtime.value(), directory->path(), {}, {}, nullptr);
  REQUIRE(model.ok());
  return model.value();
}

/// A session and what it should be.
struct Twin {
  std::unique_ptr<engine::Session> session;
  std::vector<std::int32_t> tokens;
  std::size_t evaluated = 0;
};

class RandomCache {
 public:
  RandomCache(const std::shared_ptr<const engine::Model>& model, const Config& config, unsigned seed) : random_(seed) {
    engine::KvCacheOptions options;
    options.type = config.type;
    options.block_tokens = config.block_tokens;
    options.prefix = config.prefix;
    options.storage = config.storage;
    options.budget_blocks = 24 * 32 / config.block_tokens + 2;
    auto cache = engine::KvCache::create(model, options);
    REQUIRE(cache.ok());
    cache_ = cache.value();
  }

  std::size_t full = 0, forks = 0, adopted = 0;  ///< so that a test can see that all this happened

  void step() {
    const unsigned kind = random_() % 100;
    if (twins_.empty() || (kind < 6 && twins_.size() < 10)) return create();
    Twin& twin = twins_[random_() % twins_.size()];
    if (kind < 16 && twins_.size() < 10) return fork(twin);
    if (kind < 24) return free(twin);
    if (kind < 36) return truncate(twin);
    if (kind < 60) return append(twin);
    evaluate(twin);
  }

  void check(std::size_t step) {
    for (std::size_t i = 0; i < twins_.size(); ++i) check_twin(i, step);
    const kv::PoolStats stats = cache_->pool().stats();
    std::vector<std::uint32_t> holders(stats.blocks_total);
    for (const Twin& twin : twins_) {
      for (const std::uint32_t block : twin.session->blocks()) ++holders[block];
    }
    const char* wrong = cache_->pool().find_inconsistency(holders);
    if (wrong != nullptr) FAIL("step " << step << ": " << wrong);
    if (stats.bytes_committed != (stats.blocks_used + stats.blocks_cached) * cache_->layout().block_bytes())
      FAIL("step " << step << ": committed bytes are wrong");
#if !defined(QINFER_POISON)
    if (cache_->pool().resident_bytes() > stats.bytes_committed)
      FAIL("step " << step << ": " << cache_->pool().resident_bytes() << " bytes are resident, "
                   << stats.bytes_committed << " should be");
#endif
  }

  void free_all() {
    twins_.clear();
    const kv::PoolStats stats = cache_->pool().stats();
    CHECK(stats.blocks_used == 0);
    CHECK(stats.blocks_shared == 0);
  }

 private:
  /// What position p holds, whose tokens are those before it and its own.
  static std::uint64_t value_of(std::uint64_t before, std::int32_t token) {
    return (before ^ static_cast<std::uint64_t>(token + 1)) * 0x9e3779b97f4a7c15u + 0x7f4a7c15u;
  }

  /// Writes (or compares) at the first K and the last V that belong to a position.
  template <typename F>
  void visit(const engine::Session& session, std::size_t position, F f) const {
    const KvLayout& layout = cache_->layout();
    const KvView view = session.kv_view();
    const auto tile = static_cast<std::uint32_t>(position / kTileTokens);
    const std::size_t lane = position % kTileTokens, size = dtype_bytes(layout.type);
    f(view.k_tile(layout, 0, 0, tile) + lane * size);
    f(view.k_tile(layout, layout.n_layers - 1, layout.n_kv_heads - 1, tile) + layout.tile_bytes() +
      lane * layout.head_dim_padded * size);
  }

  void create() {
    auto session = engine::Session::create(cache_, engine::SessionOptions());
    REQUIRE(session.ok());
    Twin twin;
    twin.session = std::move(session.value());
    twins_.push_back(std::move(twin));
  }

  void fork(Twin& twin) {
    const kv::PoolStats before = cache_->pool().stats();
    auto copy = twin.session->fork();
    REQUIRE(copy.ok());
    if (cache_->pool().stats().blocks_used != before.blocks_used) FAIL("a fork took blocks");
    Twin other{std::move(copy.value()), twin.tokens, twin.evaluated};
    twins_.push_back(std::move(other));
    ++forks;
  }

  void free(Twin& twin) {
    std::swap(twin, twins_.back());
    twins_.pop_back();
  }

  void truncate(Twin& twin) {
    const std::size_t n = random_() % (twin.tokens.size() + 1);
    REQUIRE(twin.session->truncate(n).ok());
    twin.tokens.resize(n);
    // No logits are ever kept here, so the last token is pending again unless none was evaluated beyond the cut.
    if (twin.evaluated >= n) twin.evaluated = n == 0 ? 0 : n - 1;
  }

  void append(Twin& twin) {
    const std::size_t room = kMaxTokens - twin.tokens.size();
    const std::size_t n = std::min<std::size_t>(random_() % 3 == 0 ? random_() % 500 : random_() % 40, room);
    // Mostly what every sequence has at these positions, so that equal prefixes are common.
    const bool common = random_() % 12 != 0;
    std::vector<std::int32_t> tokens(n);
    for (std::size_t i = 0; i < n; ++i)
      tokens[i] = static_cast<std::int32_t>(common ? (twin.tokens.size() + i) % 7 : random_() % 7);
    REQUIRE(twin.session->append(tokens).ok());
    twin.tokens.insert(twin.tokens.end(), tokens.begin(), tokens.end());
  }

  void evaluate(Twin& twin) {
    engine::Session& session = *twin.session;
    if (session.pending() == 0) return;
    session.eval_state = {};
    session.adopt_prefix(1);
    const std::size_t from_cache = session.evaluated() - twin.evaluated;
    const std::size_t n = 1 + random_() % session.pending();
    if (session.reserve_blocks(n) != Code::ok) {
      session.drop_adopted();
      ++full;
      return;
    }
    adopted += from_cache;
    twin.evaluated += from_cache;
    std::uint64_t value = 0;
    for (std::size_t p = 0; p < twin.evaluated + n; ++p) {
      value = value_of(value, twin.tokens[p]);
      if (p < twin.evaluated) continue;
      visit(session, p, [&](std::byte* at) { std::memcpy(at, &value, dtype_bytes(cache_->layout().type)); });
    }
    session.advance(n);
    session.release_spare_blocks();
    twin.evaluated += n;
  }

  void check_twin(std::size_t index, std::size_t step) const {
    const Twin& twin = twins_[index];
    if (twin.session->evaluated() != twin.evaluated || twin.session->length() != twin.tokens.size())
      FAIL("step " << step << ", session " << index << ": " << twin.session->evaluated() << " of "
                   << twin.session->length() << " tokens evaluated, expected " << twin.evaluated << " of "
                   << twin.tokens.size());
    std::uint64_t value = 0;
    for (std::size_t p = 0; p < twin.evaluated; ++p) {
      value = value_of(value, twin.tokens[p]);
      visit(*twin.session, p, [&](const std::byte* at) {
        if (std::memcmp(at, &value, dtype_bytes(cache_->layout().type)) != 0)
          FAIL("step " << step << ", session " << index << ": position " << p << " of " << twin.evaluated
                       << " holds something else");
      });
    }
  }

  std::mt19937 random_;
  std::shared_ptr<engine::KvCache> cache_;
  std::vector<Twin> twins_;
};

}  // namespace

namespace {

void run(const std::shared_ptr<const engine::Model>& model, const Config& config, std::size_t steps, unsigned seed) {
  INFO(fmt::format("{}, type {}, blocks of {} tokens, prefix cache {}",
                   config.storage == kv::Storage::paged ? "paged" : "contiguous", static_cast<int>(config.type),
                   config.block_tokens, config.prefix));
  RandomCache cache(model, config, seed);
  for (std::size_t i = 0; i < steps; ++i) {
    cache.step();
    cache.check(i);
  }
  CHECK(cache.full > 0);
  CHECK(cache.forks > 0);
  CHECK((cache.adopted > 0) == config.prefix);
  cache.free_all();
}

}  // namespace

TEST_CASE("random operations leave the KV cache as a naive one would be", "[kv]") {
  const auto model = tiny_model();
  const char* soak = std::getenv("QINFER_SOAK_STEPS");  // for each configuration
  const std::size_t steps = soak != nullptr ? std::strtoull(soak, nullptr, 10) : 100000 / 36 + 1;
  unsigned seed = 1;
  for (const kv::Storage storage : {kv::Storage::paged, kv::Storage::contiguous})
    for (const DType type : {DType::f32, DType::f16, DType::bf16})
      for (const std::uint32_t block_tokens : {32u, 64u, 256u})
        for (const bool prefix : {false, true}) run(model, {type, block_tokens, prefix, storage}, steps, seed++);
}
