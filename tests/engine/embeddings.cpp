// Embeddings through the C API: encoders, which see a text whole and keep nothing, and decoders that are asked for
// theirs. What transformers computes is checked in models_hugging_face.cpp.
#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kv/support.h"
#include "support/c_api.h"
#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/targets.h"

using qinfer::test::same_bits;
using qinfer::test::tokens_of;

namespace {

const std::string kEncoder = QINFER_TEST_FIXTURES "/models/gemma3-encoder-f32";

std::vector<std::int32_t> ids(std::size_t n, unsigned seed) {
  std::vector<std::int32_t> tokens = tokens_of(n, seed);
  for (auto& token : tokens) token %= 113;  // the fixture's vocabulary
  return tokens;
}

qi::Model load(const std::string& path, const char* target = nullptr, std::uint32_t batch = 0,
               std::uint32_t threads = 2) {
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = threads;
  options.cpu_target = target;
  qi::Runtime runtime(options);
  auto load_options = qi::options<qinfer_load_options>();
  load_options.max_batch_tokens = batch;
  return qi::Model::load(runtime, path, load_options);
}

double length(const std::vector<float>& v) {
  double squares = 0;
  for (const float x : v) squares += static_cast<double>(x) * x;
  return std::sqrt(squares);
}

}  // namespace

namespace {

constexpr unsigned kTexts = 40;

/// All texts, by one call with the sessions in some order, pooled in each way.
std::vector<std::vector<float>> embed_all(const qi::Model& model, bool backwards) {
  qi::KvCache cache(model);
  CHECK(cache.stats().bytes_reserved == 0);
  // Many short ones need more places for keys than a batch has, long ones more rows.
  std::vector<qi::Session> sessions;
  std::vector<qi::Session*> handles;
  for (unsigned i = 0; i < kTexts; ++i) {
    sessions.emplace_back(cache);
    sessions.back().append(ids(1 + i * 7 % 60, i));
  }
  for (auto& session : sessions) handles.push_back(&session);
  if (backwards) std::reverse(handles.begin(), handles.end());
  qi::eval(handles);
  std::vector<std::vector<float>> all;
  for (auto& session : sessions)
    for (const std::int32_t pooling : {QINFER_POOL_FIRST, QINFER_POOL_MEAN, QINFER_POOL_LAST})
      all.push_back(session.embedding(pooling));
  return all;
}

/// The same text by text.
std::vector<std::vector<float>> embed_alone(const qi::Model& model) {
  qi::KvCache cache(model);
  std::vector<std::vector<float>> all;
  for (unsigned i = 0; i < kTexts; ++i) {
    qi::Session session(cache);
    session.append(ids(1 + i * 7 % 60, i));
    session.eval();
    for (const std::int32_t pooling : {QINFER_POOL_FIRST, QINFER_POOL_MEAN, QINFER_POOL_LAST})
      all.push_back(session.embedding(pooling));
    CHECK(std::fabs(length(all.back()) - 1) < 1e-6);
  }
  return all;
}

}  // namespace

TEST_CASE("an encoder gives the same embedding alone and in any batch, for any threads", "[embeddings]") {
  for (const char* name : {"gemma3-encoder-f32", "bert-f32", "bert-odd-bf16", "xlmr-odd-bf16", "nomic-f32",
                           "modernbert-f32", "modernbert-v4-bf16", "mpnet-f32", "mpnet-odd-bf16"})
    for (const std::string& target : qinfer::test::usable_targets()) {
      INFO(name << " on " << target);
      const std::string folder = QINFER_TEST_FIXTURES "/models/" + std::string(name);
      const std::vector<std::vector<float>> want = embed_alone(load(folder, target.c_str(), 0, 1));
      for (const std::uint32_t threads : {1u, 2u, 3u})
        for (const std::uint32_t batch : {64u, 0u})
          for (const bool backwards : {false, true}) {
            INFO(threads << " threads, batches of " << batch << (backwards ? ", backwards" : ""));
            const qi::Model model = load(folder, target.c_str(), batch, threads);
            CHECK((model.info().flags & QINFER_MODEL_ENCODER) != 0);
            const std::vector<std::vector<float>> found = embed_all(model, backwards);
            REQUIRE(found.size() == want.size());
            for (std::size_t i = 0; i < want.size(); ++i)
              if (!same_bits(found[i], want[i])) FAIL_CHECK("vector " << i);
          }
    }
}

TEST_CASE("an encoder evaluates a session whole, again when it grows, and keeps nothing", "[embeddings]") {
  const qi::Model model = load(kEncoder, nullptr, 32);
  qi::KvCache cache(model);
  qi::Session session(cache), fresh(cache);
  session.append(ids(20, 1));
  session.eval();
  const auto before = session.embedding();
  CHECK(session.pending() == 0);
  qi::Session fork = session.fork();
  CHECK(same_bits(fork.embedding(), before));
  session.append(ids(5, 2));
  CHECK(session.pending() == 25);
  session.eval();
  CHECK(same_bits(fork.embedding(), before));
  auto both = ids(20, 1);
  for (const std::int32_t id : ids(5, 2)) both.push_back(id);
  fresh.append(both);
  fresh.eval();
  CHECK(same_bits(session.embedding(), fresh.embedding()));
  session.truncate(20);
  CHECK(session.pending() == 20);
  session.eval();
  CHECK(same_bits(session.embedding(), before));

  qinfer_session* handle = session.native();
  session.append(ids(13, 3));
  REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 0, "33 tokens, an encoder takes at most 32",
                   qinfer_eval(&handle, 1, nullptr, &err));
  CHECK(session.pending() == 33);
  session.truncate(32);
  auto options = qi::options<qinfer_eval_options>();
  options.max_tokens = 31;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "max_tokens is 31", qinfer_eval(&handle, 1, &options, &err));
  session.eval();
  float values[48];
  std::size_t n = 0;
  REQUIRE_FAILS(QINFER_E_BUFFER_TOO_SMALL, "48 elements are needed",
                qinfer_session_embedding(handle, 0, values, 47, &n, &err));
  CHECK(n == 48);
  REQUIRE_OK(qinfer_session_embedding(handle, 0, values, 48, &n, &err));
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "pooling is 4", qinfer_session_embedding(handle, 4, values, 48, &n, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "session is NULL",
                qinfer_session_embedding(nullptr, 0, values, 48, &n, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out_n is NULL",
                qinfer_session_embedding(handle, 0, values, 48, nullptr, &err));
  // It has no logits, and so nothing to sample, generate or save.
  qinfer_token token = 0;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "encoder", qinfer_session_sample(handle, &token, &err));
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "encoder", qinfer_generate(handle, nullptr, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "encoder", qinfer_session_save(handle, "session.kv", &err));
  qinfer_session* loaded = nullptr;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "encoder", qinfer_session_load(cache.native(), "session.kv", &loaded, &err));
  CHECK(qinfer_session_logits(handle, 0) == nullptr);
  session.truncate(0);
  REQUIRE_FAILS(QINFER_E_STATE, "empty", qinfer_session_embedding(handle, 0, values, 48, &n, &err));
}

TEST_CASE("a decoder's embedding does not depend on chunks, and needs to be asked for", "[embeddings]") {
  qinfer::test::TinySpec spec;
  spec.context_tokens = 512;
  const qinfer::test::ModelDir directory(spec);
  const qi::Model model = load(directory.path());
  auto cache_options = qi::options<qinfer_kv_cache_options>();
  cache_options.flags = QINFER_CACHE_PREFIX;
  cache_options.budget_blocks = 64;
  qi::KvCache cache(model, cache_options);
  auto options = qi::options<qinfer_session_options>();
  options.flags = QINFER_SESSION_EMBEDDINGS;
  const auto prompt = tokens_of(150, 3);
  qi::Session whole(cache, options), parts(cache, options), plain(cache);
  whole.append(prompt);
  whole.eval();
  for (std::size_t i = 0; i < prompt.size(); i += 11) {
    parts.append(prompt.data() + i, std::min<std::size_t>(11, prompt.size() - i));
    parts.eval();
  }
  // A known prefix is evaluated all the same, for its hidden states are not in the cache.
  CHECK(parts.metrics().cached_tokens == 0);
  for (const std::int32_t pooling : {QINFER_POOL_LAST, QINFER_POOL_MEAN, QINFER_POOL_FIRST})
    CHECK(same_bits(whole.embedding(pooling), parts.embedding(pooling)));
  CHECK(same_bits(whole.copy_logits(), parts.copy_logits()));
  plain.append(prompt);
  plain.eval();
  CHECK(same_bits(whole.copy_logits(), plain.copy_logits()));
  float values[16];
  std::size_t n = 0;
  REQUIRE_FAILS(QINFER_E_STATE, "QINFER_SESSION_EMBEDDINGS",
                qinfer_session_embedding(plain.native(), 0, values, 16, &n, &err));
  // A sum cannot be cut back.
  const auto before = whole.embedding(QINFER_POOL_MEAN);
  whole.append({1});
  REQUIRE_FAILS(QINFER_E_STATE, "1 tokens are pending",
                qinfer_session_embedding(whole.native(), 0, values, 16, &n, &err));
  whole.eval();
  CHECK_FALSE(same_bits(whole.embedding(QINFER_POOL_MEAN), before));
  whole.truncate(150);
  CHECK(whole.pending() == 150);
  whole.eval();
  CHECK(same_bits(whole.embedding(QINFER_POOL_MEAN), before));
  qi::Session fork = whole.fork();
  fork.append({2});
  fork.eval();
  CHECK(same_bits(whole.embedding(QINFER_POOL_MEAN), before));
  // What the plan says of such a session is what it takes.
  const qinfer_memory planned = qi::plan(directory.path(), nullptr, nullptr, &cache_options, &options);
  CHECK(planned.per_session == whole.memory().other);
}
