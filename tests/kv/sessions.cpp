// Forks and the prefix cache through the C API: the same bits as a session of one's own, memory as promised, and
// nothing changed when there is no room.
#include <qinfer/qinfer.hpp>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "kv/support.h"
#include "support/catch.h"
#include "support/checkpoint_writer.h"

using qinfer::test::same_bits;
using qinfer::test::tokens_of;

namespace {

qinfer::test::TinySpec spec() {
  qinfer::test::TinySpec spec;
  spec.architecture = "Qwen3ForCausalLM";
  spec.context_tokens = 1024;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.dtype = qinfer::DType::f16;
  return spec;
}

std::vector<std::int32_t> joined(std::vector<std::int32_t> a, const std::vector<std::int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

qi::Model load(const std::string& path) {
  auto runtime_options = qi::options<qinfer_runtime_options>();
  runtime_options.n_threads = 2;
  qi::Runtime runtime(runtime_options);
  return qi::Model::load(runtime, path);
}

qi::KvCache make_cache(const qi::Model& model, std::uint64_t n_blocks, std::uint32_t flags = 0) {
  auto options = qi::options<qinfer_kv_cache_options>();
  options.budget_blocks = n_blocks;
  options.flags = flags;
  return qi::KvCache(model, options);
}

/// The last logits of a session that has a cache of its own.
std::vector<float> cold(const qi::Model& model, const std::vector<std::int32_t>& tokens) {
  qi::KvCache cache = make_cache(model, 32);
  qi::Session session(cache);
  session.append(tokens);
  session.eval();
  return session.copy_logits();
}

std::vector<float> after(qi::Session& session, const std::vector<std::int32_t>& tokens) {
  session.append(tokens);
  session.eval();
  return session.copy_logits();
}

}  // namespace

TEST_CASE("forks share all blocks until they write, and then compute as if alone", "[kv]") {
  const qinfer::test::ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  qi::KvCache cache = make_cache(model, 64);
  const auto prompt = tokens_of(75, 1);
  qi::Session parent(cache);
  const auto at_fork = after(parent, prompt);
  CHECK(cache.stats().blocks_used == 3);

  qi::Session child = parent.fork(), sibling = parent.fork(), grandchild = child.fork();
  CHECK(cache.stats().blocks_used == 3);
  CHECK(cache.stats().blocks_shared == 3);
  const std::uint64_t block = cache.stats().bytes_committed / 3;
  CHECK(child.memory().kv_shared == 3 * block);
  CHECK(child.memory().kv_private == 0);
  CHECK(child.tokens() == prompt);
  CHECK(child.pending() == 0);
  CHECK(same_bits(grandchild.copy_logits(), at_fork));

  // The parent writes first: one block more, and the logits of the others stay.
  CHECK(same_bits(after(parent, {5}), cold(model, joined(prompt, {5}))));
  CHECK(cache.stats().blocks_used == 4);
  CHECK(parent.memory().kv_private == block);
  CHECK(same_bits(child.copy_logits(), at_fork));
  CHECK(same_bits(after(child, {6, 7}), cold(model, joined(prompt, {6, 7}))));
  CHECK(same_bits(grandchild.copy_logits(), at_fork));
  CHECK(same_bits(sibling.copy_logits(), at_fork));
  CHECK(cache.stats().blocks_used == 5);

  // Freed in any order; the last holder of a block writes to it without a copy.
  parent = child.fork();
  child = qi::Session(cache);
  CHECK(same_bits(after(parent, {8}), cold(model, joined(prompt, {6, 7, 8}))));
  grandchild = qi::Session(cache);
  CHECK(cache.stats().blocks_used == 4);
  CHECK(same_bits(after(sibling, {9}), cold(model, joined(prompt, {9}))));
  CHECK(cache.stats().blocks_used == 4);

  // A fork with pending tokens, and one of a session that was cut back into a shared block.
  sibling.append({1, 2, 3});
  qi::Session late = sibling.fork();
  CHECK(late.pending() == 3);
  sibling.truncate(70);
  late.eval();
  CHECK(same_bits(late.copy_logits(), cold(model, joined(prompt, {9, 1, 2, 3}))));
  const std::vector<std::int32_t> short_prompt(prompt.begin(), prompt.begin() + 70);
  CHECK(same_bits(after(sibling, {4}), cold(model, joined(short_prompt, {4}))));
}

TEST_CASE("contiguous storage gives the same bits and takes memory only for blocks in use", "[kv]") {
  const qinfer::test::ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  const auto prompt = tokens_of(200, 11), more = tokens_of(50, 12);
  for (const std::uint32_t flags : {0u, std::uint32_t{QINFER_CACHE_PREFIX}}) {
    qi::KvCache cache = make_cache(model, 32, flags | QINFER_CACHE_CONTIGUOUS);
    qi::Session session(cache);
    const std::uint64_t block = cache.stats().bytes_reserved / 32;
    CHECK(session.memory().kv_reserved == 32 * block);
    CHECK(cache.stats().bytes_resident == 0);
    CHECK(same_bits(after(session, prompt), cold(model, prompt)));
    CHECK(cache.stats().bytes_committed == 7 * block);
    CHECK(cache.stats().bytes_resident == 7 * block);
    qi::Session fork = session.fork();
    CHECK(cache.stats().bytes_resident == 7 * block);
    CHECK(same_bits(after(fork, more), cold(model, joined(prompt, more))));
    CHECK(cache.stats().bytes_resident == 9 * block);
    CHECK(same_bits(after(session, {7}), cold(model, joined(prompt, {7}))));
    qi::Session second(cache);
    CHECK(same_bits(after(second, joined(prompt, more)), cold(model, joined(prompt, more))));
    CHECK(second.metrics().cached_tokens == (flags == 0 ? 0 : 224));
    session.truncate(0);
    fork.truncate(0);
    second.truncate(0);
    CHECK(cache.stats().blocks_used == 0);
#if !defined(QINFER_POISON)
    CHECK(cache.stats().bytes_resident == cache.stats().blocks_cached * block);
#endif
  }
}

#if !defined(QINFER_POISON)  // which keeps freed pages, to fill them with NaN
TEST_CASE("a cache takes memory when tokens are evaluated and gives it back with them", "[kv]") {
  auto long_context = spec();
  long_context.context_tokens = 32768;
  const qinfer::test::ModelDir directory(long_context);
  const qi::Model model = load(directory.path());
  for (const std::uint32_t flags : {0u, std::uint32_t{QINFER_CACHE_CONTIGUOUS}}) {
    INFO("flags " << flags);
    qi::KvCache cache = make_cache(model, 1024, flags);
    const std::uint64_t block = cache.stats().bytes_reserved / 1024;
    qi::Session session(cache);
    CHECK(cache.stats().bytes_committed == 0);
    CHECK(cache.stats().bytes_resident == 0);
    after(session, tokens_of(100, 1));
    CHECK(cache.stats().bytes_committed == 4 * block);
    CHECK(cache.stats().bytes_resident == 4 * block);
    after(session, tokens_of(500, 2));
    CHECK(cache.stats().bytes_resident == 19 * block);
    session.truncate(40);
    CHECK(cache.stats().bytes_resident == 2 * block);
    session.truncate(0);
    CHECK(cache.stats().bytes_resident == 0);
    after(session, tokens_of(33, 3));
    session = qi::Session(cache);
    CHECK(cache.stats().bytes_committed == 0);
    CHECK(cache.stats().bytes_resident == 0);
  }
}
#endif

TEST_CASE("forks draw what the original would have drawn", "[kv]") {
  const qinfer::test::ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  qi::KvCache cache = make_cache(model, 64);
  qi::Session session(cache);
  auto sampler = qi::options<qinfer_sampler_options>();
  sampler.temperature = 1.5f;
  sampler.seed = 7;
  session.set_sampler(sampler);
  session.set_bias({{3, -5.0f}, {4, 1.0f}});
  after(session, tokens_of(40, 2));
  qi::Session copy = session.fork();
  for (int i = 0; i < 20; ++i) {
    REQUIRE(copy.sample() == session.sample());
    session.eval();
    copy.eval();
  }
}

TEST_CASE("64 forks that go different ways cost the prefix once and a tail each", "[kv]") {
  const qinfer::test::ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  qi::KvCache cache = make_cache(model, 10 + 64 * 2);
  qi::Session root(cache);
  after(root, tokens_of(320, 3));
  std::vector<qi::Session> forks;
  for (int i = 0; i < 64; ++i) forks.push_back(root.fork());
  CHECK(cache.stats().blocks_used == 10);
  for (int i = 0; i < 64; ++i) after(forks[static_cast<std::size_t>(i)], tokens_of(33, static_cast<unsigned>(i)));
  CHECK(cache.stats().blocks_used == 10 + 64 * 2);
  CHECK(cache.stats().blocks_shared == 10);
  // No room left: a clear answer, and nothing changed.
  qi::Session one = root.fork();
  one.append({1});
  qinfer_error error{};
  qinfer_session* handle = one.native();
  CHECK(qinfer_eval(&handle, 1, nullptr, &error) == QINFER_E_KV_FULL);
  CHECK(one.pending() == 1);
  forks.pop_back();
  one.eval();
  CHECK(same_bits(one.copy_logits(), cold(model, joined(tokens_of(320, 3), {1}))));
}

TEST_CASE("a known prefix is not computed again, and the bits are the same", "[kv]") {
  const qinfer::test::ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  qi::KvCache cache = make_cache(model, 32, QINFER_CACHE_PREFIX);
  const auto prompt = tokens_of(200, 4);
  auto first = std::make_unique<qi::Session>(cache);
  after(*first, prompt);
  CHECK(first->metrics().cached_tokens == 0);

  // While the first lives its blocks are shared, the partial one apart.
  qi::Session second(cache);
  CHECK(same_bits(after(second, prompt), cold(model, prompt)));
  CHECK(second.metrics().cached_tokens == 192);
  CHECK(second.metrics().prefill_tokens == 8);
  CHECK(cache.stats().blocks_shared == 6);
  CHECK(cache.stats().blocks_used == 8);

  // At most n - 1 tokens: the last must be evaluated, for its logits.
  qi::Session exact(cache);
  const std::vector<std::int32_t> head(prompt.begin(), prompt.begin() + 64);
  CHECK(same_bits(after(exact, head), cold(model, head)));
  CHECK(exact.metrics().cached_tokens == 32);

  // The same tokens after other ones have other keys.
  qi::Session shifted(cache);
  const auto other = joined({1}, prompt);
  CHECK(same_bits(after(shifted, other), cold(model, other)));
  CHECK(shifted.metrics().cached_tokens == 0);
  shifted.truncate(0);

  // Freed blocks stay findable; a longer prompt goes on where they end.
  first.reset();
  second.truncate(0);
  exact.truncate(0);
  CHECK(cache.stats().blocks_used == 0);
  CHECK(cache.stats().blocks_cached >= 6);
  const auto longer = joined(prompt, tokens_of(100, 5));
  CHECK(same_bits(after(second, longer), cold(model, longer)));
  CHECK(second.metrics().cached_tokens == 192 + 192);

  // Where more logits are wanted, fewer tokens may be skipped.
  auto options = qi::options<qinfer_session_options>();
  options.max_logits = 40;
  qi::Session rows(cache, options);
  rows.append(head);
  auto eval_options = qi::options<qinfer_eval_options>();
  eval_options.keep_logits = 40;
  rows.eval(eval_options);
  CHECK(rows.metrics().cached_tokens == 0);
  CHECK(rows.logits(39) != nullptr);

  auto generation = qi::GenerateOptions();
  generation.max_tokens = 1;
  qi::Session generated(cache);
  generated.append(longer);
  const qinfer_generate_result result = generated.generate(generation);
  CHECK(result.prompt_tokens == 300);
  CHECK(result.cached_tokens == 288);
}

TEST_CASE("cached prefixes give way to what is in use, and a refused call leaves them alone", "[kv]") {
  const qinfer::test::ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  qi::KvCache cache = make_cache(model, 8, QINFER_CACHE_PREFIX);
  const auto a = tokens_of(128, 6), b = tokens_of(128, 7);
  {
    qi::Session session(cache);
    after(session, a);
    session.truncate(0);
    after(session, b);
  }
  CHECK(cache.stats().blocks_cached == 8);
  qi::Session holder(cache);
  const auto mine = joined(a, tokens_of(64, 8));
  CHECK(same_bits(after(holder, mine), cold(model, mine)));  // 4 blocks of a, 2 evicted from the end of b
  CHECK(holder.metrics().cached_tokens == 128);
  CHECK(cache.stats().blocks_used == 6);
  CHECK(cache.stats().blocks_cached == 2);

  qi::Session big(cache);
  big.append(joined(b, tokens_of(128, 9)));
  qinfer_error error{};
  qinfer_session* handle = big.native();
  CHECK(qinfer_eval(&handle, 1, nullptr, &error) == QINFER_E_KV_FULL);
  CHECK(big.pending() == 256);
  CHECK(big.metrics().cached_tokens == 0);
  CHECK(cache.stats().blocks_used == 6);
  CHECK(cache.stats().blocks_cached == 2);
  big.truncate(0);
  CHECK(same_bits(after(big, {b.begin(), b.begin() + 64}), cold(model, {b.begin(), b.begin() + 64})));
  CHECK(big.metrics().cached_tokens == 32);
}

TEST_CASE("a call without room leaves no copies behind, and one with just enough goes through", "[kv]") {
  const qinfer::test::ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  qi::KvCache cache = make_cache(model, 12);
  qi::Session root(cache);
  after(root, tokens_of(340, 3));  // 11 blocks, the last one partial
  qi::Session a = root.fork(), b = root.fork();
  a.append({1});
  b.append({2});
  qinfer_session* both[] = {a.native(), b.native()};
  qinfer_error error{};
  CHECK(qinfer_eval(both, 2, nullptr, &error) == QINFER_E_KV_FULL);
  CHECK(error.detail == 1);
  CHECK(cache.stats().blocks_used == 11);
  b.eval();
  CHECK(same_bits(b.copy_logits(), cold(model, joined(tokens_of(340, 3), {2}))));
  // Two holders and one free block: the second to write is the last holder, and writes in place.
  b.truncate(0);
  root.truncate(0);
  qi::Session c = a.fork();
  c.append({3});
  qinfer_session* last[] = {a.native(), c.native()};
  REQUIRE(qinfer_eval(last, 2, nullptr, &error) == QINFER_OK);
  CHECK(cache.stats().blocks_used == 12);
  CHECK(same_bits(c.copy_logits(), cold(model, joined(joined(tokens_of(340, 3), {1}), {3}))));
}

TEST_CASE("a prefix that waits for its turn does not take the room of who is at work", "[kv]") {
  const qinfer::test::ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  qi::KvCache cache = make_cache(model, 10, QINFER_CACHE_PREFIX);
  const auto prompt = tokens_of(192, 1);
  {
    qi::Session first(cache);
    after(first, prompt);
  }
  qi::Session working(cache), waiting(cache);
  after(working, tokens_of(128, 2));
  working.append({1});
  waiting.append(prompt);
  waiting.append(tokens_of(20, 3));
  qinfer_session* both[] = {working.native(), waiting.native()};
  qinfer_error error{};
  auto options = qi::options<qinfer_eval_options>();
  options.max_tokens = 1;
  REQUIRE(qinfer_eval(both, 2, &options, &error) == QINFER_OK);
  CHECK(working.pending() == 0);
  CHECK(waiting.pending() == 212);
  CHECK(cache.stats().blocks_used == 5);
}

TEST_CASE("threads that race for the last blocks get them or hear that there are none", "[kv][threads]") {
  const qinfer::test::ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  qi::KvCache cache = make_cache(model, 12, QINFER_CACHE_PREFIX);
  const auto prompt = tokens_of(96, 10);
  qi::Session root(cache);
  const auto expected = after(root, prompt);
  std::atomic<int> finished{0}, refused{0}, wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 40; ++i) {
        qi::Session session = (i + t) % 2 == 0 ? root.fork() : qi::Session(cache);
        if ((i + t) % 2 != 0) session.append(prompt);
        session.append(tokens_of(33 + 32 * (i % 4), t));
        qinfer_error error{};
        qinfer_session* handle = session.native();
        const qinfer_status status = qinfer_eval(&handle, 1, nullptr, &error);
        if (status == QINFER_OK) ++finished;
        if (status == QINFER_E_KV_FULL) ++refused;
        if (status != QINFER_OK && status != QINFER_E_KV_FULL) ++wrong;
        (void)cache.stats();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(finished > 0);
  CHECK(finished + refused == 160);
  CHECK(cache.stats().blocks_used == 3);
  CHECK(same_bits(root.copy_logits(), expected));
}
