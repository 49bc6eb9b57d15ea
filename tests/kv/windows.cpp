// Layers that differ in what they keep: sliding windows beside full attention and by themselves, through the C API. The
// bits are those of a session that computes everything itself, memory is what the windows need, and prefixes, forks,
// cutting back and snapshots work across windows that have moved.
#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "kv/support.h"
#include "support/c_api.h"
#include "support/catch.h"
#include "support/checkpoint_writer.h"

using qinfer::test::same_bits;
using qinfer::test::tokens_of;

namespace {

constexpr std::uint32_t kWindow = 64, kBatch = 96, kBlock = 32;
/// ceil((W - 1 + chunk) / block) + 1
constexpr std::uint32_t kMost = (kWindow - 1 + kBatch + kBlock - 1) / kBlock + 1;

qinfer::test::TinySpec spec(std::uint32_t full_layers) {
  qinfer::test::TinySpec spec;
  spec.architecture = "Qwen2ForCausalLM";
  spec.context_tokens = 4096;
  spec.layers = 3;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.window = kWindow;
  spec.full_layers = full_layers;
  spec.dtype = qinfer::DType::f16;
  return spec;
}

qi::Model load(const std::string& path) {
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = 2;
  qi::Runtime runtime(options);
  auto load_options = qi::options<qinfer_load_options>();
  load_options.max_batch_tokens = kBatch;
  return qi::Model::load(runtime, path, load_options);
}

qi::KvCache make_cache(const qi::Model& model, std::uint64_t blocks, std::uint32_t flags = 0,
                       std::uint32_t block_tokens = kBlock) {
  auto options = qi::options<qinfer_kv_cache_options>();
  options.budget_blocks = blocks;
  options.flags = flags;
  options.block_tokens = block_tokens;
  return qi::KvCache(model, options);
}

std::vector<float> after(qi::Session& session, const std::vector<std::int32_t>& tokens) {
  session.append(tokens);
  session.eval();
  return session.copy_logits();
}

std::vector<float> cold(const qi::Model& model, std::vector<std::int32_t> tokens) {
  qi::KvCache cache = make_cache(model, 130);
  qi::Session session(cache);
  return after(session, std::move(tokens));
}

std::vector<std::int32_t> joined(std::vector<std::int32_t> a, const std::vector<std::int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("a model with windows alone generates in a cache of just its window", "[kv]") {
  const qinfer::test::ModelDir directory(spec(0));
  const qi::Model model = load(directory.path());
  for (const std::uint32_t flags : {0u, std::uint32_t{QINFER_CACHE_CONTIGUOUS}, std::uint32_t{QINFER_CACHE_PREFIX}}) {
    qi::KvCache cache = make_cache(model, kMost, flags);
    qi::Session session(cache);
    const auto prompt = tokens_of(1000, 1);
    const auto logits = after(session, prompt);
    CHECK(same_bits(logits, cold(model, prompt)));
    CHECK(cache.stats().blocks_used <= kMost);
    for (int i = 0; i < 200; ++i) after(session, tokens_of(1, static_cast<unsigned>(i)));
    CHECK(cache.stats().blocks_used <= kWindow / kBlock + 1);
    // Prompts on top of a full window: room comes from the blocks that leave.
    after(session, tokens_of(500, 3));
    const auto last = after(session, {7});
    CHECK(same_bits(last, cold(model, session.tokens())));
    // One block less, and the same prompt does not go.
    qi::KvCache small = make_cache(model, kMost - 1, flags);
    qi::Session refused(small);
    refused.append(prompt);
    CHECK_THROWS(refused.eval());
    CHECK(small.stats().blocks_used == 0);
    CHECK(refused.pending() == 1000);
  }
}

TEST_CASE("windows beside full attention share one budget of bytes", "[kv]") {
  const qinfer::test::ModelDir directory(spec(1));
  const qi::Model model = load(directory.path());
  qi::KvCache cache = make_cache(model, 64);
  qi::Session session(cache);
  const auto prompt = tokens_of(1500, 2);
  CHECK(same_bits(after(session, prompt), cold(model, prompt)));
  CHECK(cache.stats().blocks_used >= 1500 / kBlock + kWindow / kBlock);
  CHECK(cache.stats().blocks_used <= (1500 + kBlock - 1) / kBlock + kWindow / kBlock + 1);
  // The layer that keeps everything can use what the windows do not: 64 of each would hold 2048 tokens, all the bytes
  // hold more.
  after(session, tokens_of(1500, 4));
  CHECK(session.pending() == 0);
  const std::uint64_t bytes = cache.stats().bytes_reserved;
  CHECK(cache.stats().bytes_committed <= bytes);
  CHECK(cache.stats().blocks_used <= cache.stats().blocks_total);
  qi::Session second(cache);
  qinfer_error error{};
  second.append(tokens_of(4000, 5));
  qinfer_session* handle = second.native();
  CHECK(qinfer_eval(&handle, 1, nullptr, &error) == QINFER_E_KV_FULL);
  CHECK(std::string(error.message).find("bytes free") != std::string::npos);
  CHECK(second.pending() == 4000);
}

TEST_CASE("forks and cutting back across windows", "[kv]") {
  for (const std::uint32_t full_layers : {0u, 1u}) {
    const qinfer::test::ModelDir directory(spec(full_layers));
    const qi::Model model = load(directory.path());
    for (const std::uint32_t flags : {0u, std::uint32_t{QINFER_CACHE_CONTIGUOUS}}) {
      INFO("full layers " << full_layers << ", flags " << flags);
      qi::KvCache cache = make_cache(model, 200, flags);
      qi::Session session(cache);
      const auto prompt = tokens_of(301, 6), more = tokens_of(150, 7);
      after(session, prompt);
      qi::Session fork = session.fork();
      CHECK(same_bits(after(fork, more), cold(model, joined(prompt, more))));
      CHECK(same_bits(after(session, {5, 6}), cold(model, joined(prompt, {5, 6}))));
      // Within the window: one token is evaluated again; beyond it: all are.
      session.truncate(302);
      CHECK(session.pending() == 1);
      session.eval();
      CHECK(same_bits(session.copy_logits(), cold(model, joined(prompt, {5}))));
      session.truncate(120);
      CHECK(session.pending() == 120);
      session.eval();
      CHECK(same_bits(session.copy_logits(),
                      cold(model, std::vector<std::int32_t>(prompt.begin(), prompt.begin() + 120))));
      CHECK(same_bits(after(fork, {9}), cold(model, joined(joined(prompt, more), {9}))));
    }
  }
}

TEST_CASE("prefixes are found again where windows still have them", "[kv]") {
  const qinfer::test::ModelDir directory(spec(1));
  const qi::Model model = load(directory.path());
  for (const unsigned storage : {0u, unsigned{QINFER_CACHE_CONTIGUOUS}}) {
    const std::uint32_t flags = QINFER_CACHE_PREFIX | storage;
    qi::KvCache cache = make_cache(model, 300, flags);
    const auto prompt = tokens_of(640, 8), more = tokens_of(40, 9), other = tokens_of(90, 10);
    {
      qi::Session first(cache);
      after(first, joined(prompt, more));
    }
    CHECK(cache.stats().blocks_used == 0);
    CHECK(cache.stats().blocks_cached > 20);
    qi::Session second(cache);
    CHECK(same_bits(after(second, joined(prompt, more)), cold(model, joined(prompt, more))));
    CHECK(second.metrics().cached_tokens == 672);
    // A cut in the middle: the windows' blocks of back then are still there.
    const std::vector<std::int32_t> half(prompt.begin(), prompt.begin() + 320);
    qi::Session third(cache);
    CHECK(same_bits(after(third, joined(half, other)), cold(model, joined(half, other))));
    CHECK(third.metrics().cached_tokens == 320);
    // Where they have gone, less is taken over, and the result is the same.
    qi::KvCache tight = make_cache(model, 12, flags);
    {
      qi::Session first(tight);
      after(first, joined(prompt, more));
    }
    qi::Session again(tight);
    CHECK(same_bits(after(again, joined(half, other)), cold(model, joined(half, other))));
    CHECK(again.metrics().cached_tokens < 320);
  }
}

TEST_CASE("snapshots hold what windows see, and go on in any cache", "[kv][snapshot]") {
  for (const std::uint32_t full_layers : {0u, 1u}) {
    const qinfer::test::ModelDir directory(spec(full_layers));
    const qi::Model model = load(directory.path());
    qi::KvCache cache = make_cache(model, 200);
    qi::Session session(cache);
    const std::string path = directory.file("session.kv");
    after(session, tokens_of(333, 11));
    session.save(path);
    after(session, tokens_of(200, 12));
    session.save(path);  // appended: the windows have moved
    const auto expected = after(session, {1, 2, 3});
    for (const std::uint32_t block_tokens : {32u, 128u})
      for (const std::uint32_t flags : {0u, std::uint32_t{QINFER_CACHE_CONTIGUOUS}}) {
        INFO("full layers " << full_layers << ", blocks of " << block_tokens << ", flags " << flags);
        qi::KvCache other = make_cache(model, 200, flags, block_tokens);
        qi::Session loaded = qi::Session::load(other, path);
        CHECK(loaded.length() == 533);
        CHECK(loaded.pending() == 1);
        loaded.append({1, 2, 3});
        loaded.eval();
        CHECK(same_bits(loaded.copy_logits(), expected));
      }
  }
  // A larger block than the file's begins before what the file has: nothing may look back that far.
  {
    const qinfer::test::ModelDir directory(spec(0));
    const qi::Model model = load(directory.path());
    qi::KvCache cache = make_cache(model, 100), coarse = make_cache(model, 50, 0, 128);
    qi::Session session(cache);
    const auto tokens = tokens_of(533, 16);
    after(session, tokens);
    const std::string path = directory.file("session.kv");
    session.save(path);
    qi::Session loaded = qi::Session::load(coarse, path);
    loaded.save(path);  // and so says the file that it writes
    qi::Session again = qi::Session::load(coarse, path);
    // And back into small blocks, of which the first that is needed is within the file's first one. What another
    // session has in the cache's first block stays as it is.
    qi::KvCache small = make_cache(model, 100);
    qi::Session other(small);
    const auto before = tokens_of(30, 18);
    after(other, before);
    qi::Session fine = qi::Session::load(small, path);
    other.append(7);
    other.eval();
    auto longer = before;
    longer.push_back(7);
    CHECK(same_bits(other.copy_logits(), cold(model, longer)));
    for (qi::Session* each : {&loaded, &again, &fine}) {
      each->truncate(460);
      each->eval();
      CHECK(
          same_bits(each->copy_logits(), cold(model, std::vector<std::int32_t>(tokens.begin(), tokens.begin() + 460))));
    }
  }
  // Cut back to where the window just reaches: the next token is pending, and no more is asked of the file.
  {
    const qinfer::test::ModelDir directory(spec(0));
    const qi::Model model = load(directory.path());
    qi::KvCache cache = make_cache(model, 100);
    const auto tokens = tokens_of(200, 17);
    const std::string path = directory.file("session.kv");
    for (std::size_t n = 150; n < 200; ++n) {
      qi::Session session(cache);
      after(session, tokens);
      session.truncate(n);
      session.save(path);
      qi::Session loaded = qi::Session::load(cache, path);
      CHECK(loaded.pending() == session.pending());
      session.eval();
      loaded.eval();
      CHECK(same_bits(loaded.copy_logits(), session.copy_logits()));
    }
  }
  // Windows of another model do not fit.
  const qinfer::test::ModelDir one(spec(0)), other(spec(1));
  const qi::Model model = load(one.path()), wrong = load(other.path());
  qi::KvCache cache = make_cache(model, 100), foreign = make_cache(wrong, 100);
  qi::Session session(cache);
  after(session, tokens_of(50, 13));
  session.save(one.file("session.kv"));
  CHECK_THROWS(qi::Session::load(foreign, one.file("session.kv")));
  CHECK(foreign.stats().blocks_used == 0);
}

TEST_CASE("memory taken at once is divided among the kinds of layers", "[kv]") {
  const qinfer::test::ModelDir directory(spec(1));
  const qi::Model model = load(directory.path());
  auto options = qi::options<qinfer_kv_cache_options>();
  options.flags = QINFER_CACHE_COMMIT;
  qi::KvCache cache(model, options);
  CHECK(cache.stats().bytes_committed == cache.stats().bytes_reserved);
  qi::Session session(cache);
  const auto prompt = tokens_of(4000, 14);
  CHECK(same_bits(after(session, prompt), cold(model, prompt)));
  // One session of the whole context: all of the full layer, the windows of the others.
  auto plain = qi::options<qinfer_kv_cache_options>();
  CHECK(qi::KvCache(model, plain).stats().bytes_reserved == cache.stats().bytes_reserved);
}

TEST_CASE("a stated budget holds where memory is taken at once, and is divided by need", "[kv]") {
  const qinfer::test::ModelDir directory(spec(1));
  const qi::Model model = load(directory.path());
  for (const std::uint64_t blocks : {1u, 3u, 8u, 40u, 300u}) {
    auto options = qi::options<qinfer_kv_cache_options>();
    options.flags = QINFER_CACHE_COMMIT;
    options.budget_bytes = blocks * qi::plan(directory.path()).kv_per_block + 100;
    qi::KvCache cache(model, options);
    INFO(blocks << " blocks of each kind");
    CHECK(cache.stats().bytes_reserved <= options.budget_bytes);
    // As many tokens as blocks of both kinds hold, or more, for windows need no more than theirs.
    qi::Session session(cache);
    const std::size_t n = std::min<std::size_t>(blocks * kBlock, 4096);
    session.append(tokens_of(n, 15));
    session.eval();
    CHECK(session.pending() == 0);
    CHECK(cache.stats().blocks_used <= cache.stats().blocks_total);
  }
}

TEST_CASE("layers that read the keys and values of others take no bytes", "[kv]") {
  const std::string folder = QINFER_TEST_FIXTURES "/models/llama-shared-f32";
  qinfer::test::ModelDir directory;
  std::ifstream file(folder + "/config.json");
  auto config = nlohmann::json::parse(file);
  directory.write("config.json", config.dump());
  const qinfer_memory shared = qi::plan(directory.file("config.json"));
  config.erase("num_kv_shared_layers");
  directory.write("config.json", config.dump());
  const qinfer_memory own = qi::plan(directory.file("config.json"));
  CHECK(own.kv_per_block == 2 * shared.kv_per_block);
}
