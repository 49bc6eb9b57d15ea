// Same bits: the logits of a token depend on the model and the tokens before it, and on nothing else. Not on the
// number of threads, the other sessions of a batch, the cut of the prompt, the size of blocks, or the floating-point
// settings of the host.
#include <qinfer/qinfer.hpp>

#include <cfenv>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/targets.h"

namespace {

/// A context of several segments of 512, windowed and full layers, grouped heads: everything that could break it.
qinfer::test::TinySpec long_spec() {
  qinfer::test::TinySpec spec;
  spec.architecture = "Qwen3ForCausalLM";
  spec.context_tokens = 2048;
  spec.heads = 6;
  spec.kv_heads = 2;
  spec.head_dim = 10;
  spec.dtype = qinfer::DType::bf16;
  return spec;
}

std::vector<std::int32_t> random_tokens(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<std::int32_t> tokens(n);
  for (auto& token : tokens) token = static_cast<std::int32_t>(engine() % 300);
  return tokens;
}

struct Setup {
  std::uint32_t n_threads = 1, batch = 512, block_tokens = 32;
  std::int32_t kv_type = QINFER_KV_F16;
  std::string target;  ///< empty = the best
};

qi::Model load(const std::string& path, const Setup& setup) {
  auto runtime_options = qi::options<qinfer_runtime_options>();
  runtime_options.n_threads = setup.n_threads;
  if (!setup.target.empty()) runtime_options.cpu_target = setup.target.c_str();
  qi::Runtime runtime(runtime_options);
  auto options = qi::options<qinfer_load_options>();
  options.max_batch_tokens = setup.batch;
  return qi::Model::load(runtime, path, options);
}

qi::KvCache make_cache(const qi::Model& model, const Setup& setup, std::uint64_t sessions = 1) {
  auto options = qi::options<qinfer_kv_cache_options>();
  options.block_tokens = setup.block_tokens;
  options.kv_type = setup.kv_type;
  options.budget_blocks = sessions * 2048 / setup.block_tokens;
  return qi::KvCache(model, options);
}

/// The last 40 rows of logits after feeding all tokens in chunks; tokens before `prompt` in chunks of 300.
std::vector<float> last_logits(const qi::Model& model, const Setup& setup, const std::vector<std::int32_t>& tokens,
                               std::size_t chunk, std::size_t prompt = 0) {
  constexpr std::uint32_t kRows = 40;
  qi::KvCache cache = make_cache(model, setup);
  auto options = qi::options<qinfer_session_options>();
  options.max_logits = kRows;
  qi::Session session(cache, options);
  std::vector<float> out;
  for (std::size_t i = 0; i < tokens.size();) {
    const std::size_t tail = tokens.size() - kRows;
    const std::size_t begin = std::min(prompt, tail);
    const std::size_t n = i < begin  ? std::min<std::size_t>(300, begin - i)
                          : i < tail ? std::min(chunk, tail - i)
                                     : std::min<std::size_t>(chunk, tokens.size() - i);
    session.append(tokens.data() + i, n);
    auto eval_options = qi::options<qinfer_eval_options>();
    eval_options.keep_logits = static_cast<std::uint32_t>(std::min<std::size_t>(n, kRows));
    session.eval(eval_options);
    i += n;
    if (i <= tail) continue;
    for (std::size_t back = std::min<std::size_t>(n, kRows); back-- > 0;)
      out.insert(out.end(), session.logits(back), session.logits(back) + 300);
  }
  return out;
}

/// Every target with the type of cache it uses by default, the reference with f32 too.
std::vector<std::pair<std::string, std::int32_t>> targets_and_types() {
  std::vector<std::pair<std::string, std::int32_t>> all = {{"reference", QINFER_KV_F32}};
  for (const std::string& target : qinfer::test::usable_targets()) all.emplace_back(target, QINFER_KV_F16);
  return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("threads, chunks, batch size and block size do not change a bit", "[invariance]") {
  for (const char* architecture : {"Qwen3ForCausalLM", "MistralForCausalLM", "Olmo2ForCausalLM", "Qwen2MoeForCausalLM",
                                   "HunYuanDenseV1ForCausalLM", "Ministral3ForCausalLM"}) {
    auto spec = long_spec();
    spec.architecture = architecture;
    if (spec.architecture == "Qwen2MoeForCausalLM") spec.experts = 7, spec.top_k = 3, spec.shared_ffn = 40;
    if (spec.architecture == "MistralForCausalLM") spec.window = 600;
    const qinfer::test::ModelDir directory(spec);
    const auto tokens = random_tokens(1100, 1);
    for (const auto& [target, kv_type] : targets_and_types()) {
      Setup base;
      base.kv_type = kv_type;
      base.target = target;
      INFO(architecture << " on " << target << ", KV type " << kv_type);
      const qi::Model model = load(directory.path(), base);
      const auto expected = last_logits(model, base, tokens, tokens.size());
      REQUIRE(expected.size() == 40u * 300u);
      for (const std::size_t chunk : {1u, 7u, 32u, 100u, 513u}) {
        INFO("chunks of " << chunk);
        CHECK(same_bits(last_logits(model, base, tokens, chunk), expected));
      }
      for (const std::uint32_t block : {64u, 128u, 256u}) {
        Setup setup = base;
        setup.block_tokens = block;
        INFO("blocks of " << block);
        CHECK(same_bits(last_logits(model, setup, tokens, 300), expected));
      }
      for (const std::uint32_t threads : {2u, 3u, 5u}) {
        Setup setup = base;
        setup.n_threads = threads;
        setup.batch = 61;
        const qi::Model other = load(directory.path(), setup);
        INFO(threads << " threads, batches of 61");
        CHECK(same_bits(last_logits(other, setup, tokens, tokens.size()), expected));
        // One row at a time over more than 512 keys, and over more than 1,024: attention is split by segments here.
        CHECK(same_bits(last_logits(other, setup, tokens, 1, 960), expected));
      }
    }
  }
}

TEST_CASE("three threads over a prompt and split decoding equal one thread", "[invariance][threads]") {
  // Small enough for the thread sanitizer; more than 512 keys, so that decoding splits attention by segments.
  const qinfer::test::ModelDir directory(long_spec());
  const auto tokens = random_tokens(530, 9);
  for (const std::string& target : qinfer::test::usable_targets()) {
    INFO(target);
    std::vector<std::vector<float>> results;
    for (const std::uint32_t threads : {1u, 3u}) {
      Setup setup;
      setup.n_threads = threads;
      setup.target = target;
      const qi::Model model = load(directory.path(), setup);
      qi::KvCache cache = make_cache(model, setup);
      qi::Session session(cache);
      session.append(tokens);
      session.eval();
      for (int i = 0; i < 3; ++i) {
        session.append(40 + i);
        session.eval();
      }
      results.push_back(session.copy_logits());
    }
    CHECK(same_bits(results[0], results[1]));
  }
}

TEST_CASE("who computes the last units of wide layers does not change a bit", "[invariance][threads]") {
  // Sixteen units or more in every operation, so that some of them are anybody's (engine/team.h).
  qinfer::test::TinySpec spec = long_spec();
  spec.hidden = 544;
  spec.ffn = 1056;
  spec.heads = 36;
  spec.kv_heads = 18;
  spec.vocab = 1056;
  const qinfer::test::ModelDir directory(spec);
  for (const std::string& target : qinfer::test::usable_targets()) {
    INFO(target);
    std::vector<std::vector<float>> results;
    for (const std::uint32_t threads : {1u, 2u, 3u}) {
      Setup setup;
      setup.n_threads = threads;
      setup.target = target;
      const qi::Model model = load(directory.path(), setup);
      qi::KvCache cache = make_cache(model, setup);
      qi::Session session(cache);
      std::vector<float>& logits = results.emplace_back();
      for (const std::size_t n : {40, 12, 3, 1, 1}) {
        session.append(random_tokens(n, static_cast<unsigned>(n)));
        session.eval();
        const std::vector<float> last = session.copy_logits();
        logits.insert(logits.end(), last.begin(), last.end());
      }
    }
    CHECK(same_bits(results[0], results[1]));
    CHECK(same_bits(results[0], results[2]));
  }
}

TEST_CASE("other sessions in the batch do not change a bit", "[invariance]") {
  const qinfer::test::ModelDir directory(long_spec());
  for (const std::string& target : qinfer::test::usable_targets()) {
    INFO(target);
    Setup setup;
    setup.n_threads = 2;
    setup.batch = 50;
    setup.target = target;
    const qi::Model model = load(directory.path(), setup);
    const std::vector<std::size_t> lengths = {1, 33, 700, 64, 5, 130};
    std::vector<std::vector<float>> alone;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      qi::KvCache cache = make_cache(model, setup);
      qi::Session session(cache);
      session.append(random_tokens(lengths[i], static_cast<unsigned>(i)));
      session.eval();
      alone.push_back(session.copy_logits());
      session.append(17);
      session.eval();
      alone.push_back(session.copy_logits());
    }
    qi::KvCache cache = make_cache(model, setup, lengths.size());
    std::vector<qi::Session> sessions;
    std::vector<qi::Session*> pointers;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      sessions.emplace_back(cache);
      sessions.back().append(random_tokens(lengths[i], static_cast<unsigned>(i)));
    }
    for (auto& session : sessions) pointers.push_back(&session);
    qi::eval(pointers);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      INFO("session " << i);
      CHECK(same_bits(sessions[i].copy_logits(), alone[2 * i]));
      sessions[i].append(17);
    }
    qi::eval(pointers);
    for (std::size_t i = 0; i < lengths.size(); ++i) CHECK(same_bits(sessions[i].copy_logits(), alone[2 * i + 1]));
  }
}

TEST_CASE("64 sessions that choose other experts do not change a bit of each other", "[invariance]") {
  qinfer::test::TinySpec spec = long_spec();
  spec.architecture = "Qwen3MoeForCausalLM";
  spec.experts = 40, spec.top_k = 3;
  const qinfer::test::ModelDir directory(spec);
  for (const std::string& target : qinfer::test::usable_targets()) {
    INFO(target);
    Setup setup;
    setup.n_threads = 2;
    setup.target = target;
    const qi::Model model = load(directory.path(), setup);
    constexpr std::size_t kSessions = 64;
    std::vector<std::vector<float>> alone;
    for (std::size_t i = 0; i < kSessions; ++i) {
      qi::KvCache cache = make_cache(model, setup);
      qi::Session session(cache);
      session.append(random_tokens(1 + i % 9, static_cast<unsigned>(i)));
      session.eval();
      session.append(static_cast<qinfer_token>(i));
      session.eval();
      alone.push_back(session.copy_logits());
    }
    for (const std::size_t together : {2u, 3u, 8u, 9u, 17u, 64u}) {
      qi::KvCache cache = make_cache(model, setup, together);
      std::vector<qi::Session> sessions;
      std::vector<qi::Session*> pointers;
      for (std::size_t i = 0; i < together; ++i) {
        sessions.emplace_back(cache);
        sessions.back().append(random_tokens(1 + i % 9, static_cast<unsigned>(i)));
      }
      for (auto& session : sessions) pointers.push_back(&session);
      qi::eval(pointers);
      for (std::size_t i = 0; i < together; ++i) sessions[i].append(static_cast<qinfer_token>(i));
      qi::eval(pointers);
      for (std::size_t i = 0; i < together; ++i) {
        INFO("session " << i << " of " << together);
        CHECK(same_bits(sessions[i].copy_logits(), alone[i]));
      }
    }
  }
}

TEST_CASE("NaN in one session's rows stays there", "[invariance]") {
  // A damaged row of the embedding table: sequences with token 7 get NaN, and no others, in rows or in panels.
  const bool mixture = GENERATE(false, true);
  qinfer::test::TinySpec spec = long_spec();
  if (mixture) spec.architecture = "Qwen3MoeForCausalLM", spec.experts = 6;
  const qinfer::test::ModelDir directory(spec);
  std::vector<qinfer::test::TinyTensor> tensors = qinfer::test::tiny_tensors(spec);
  std::string& table = qinfer::test::find_tensor(tensors, "model.embed_tokens.weight").data;
  const std::size_t row = std::size_t{spec.hidden} * 2;
  table.replace(7 * row, row, qinfer::test::encode_values(std::vector<float>(spec.hidden, NAN), spec.dtype));
  directory.write_tensors(tensors);
  for (const std::string& target : qinfer::test::usable_targets()) {
    Setup setup;
    setup.target = target;
    const qi::Model model = load(directory.path(), setup);
    for (const std::size_t n : {2, 8, 9, 12, 16, 17, 40}) {
      INFO(target << ", a batch of " << n);
      const auto logits_with = [&](std::int32_t token) {
        qi::KvCache cache = make_cache(model, setup, n);
        std::vector<qi::Session> sessions;
        std::vector<qi::Session*> pointers;
        for (std::size_t i = 0; i < n; ++i) {
          sessions.emplace_back(cache);
          sessions.back().append(i == n / 2 ? token : static_cast<std::int32_t>(i + 20));
        }
        for (auto& session : sessions) pointers.push_back(&session);
        qi::eval(pointers);
        std::vector<std::vector<float>> logits;
        for (auto& session : sessions) logits.push_back(session.copy_logits());
        return logits;
      };
      const auto damaged = logits_with(7), healthy = logits_with(8);
      for (std::size_t i = 0; i < n; ++i) {
        if (i != n / 2) {
          CHECK(same_bits(damaged[i], healthy[i]));
          continue;
        }
        std::size_t nans = 0;
        for (const float value : damaged[i]) nans += static_cast<std::size_t>(std::isnan(value));
        CHECK(nans == damaged[i].size());
      }
    }
  }
}

TEST_CASE("max_tokens serves short sessions first and loses nothing", "[invariance]") {
  const qinfer::test::ModelDir directory(long_spec());
  Setup setup;
  const qi::Model model = load(directory.path(), setup);
  qi::KvCache cache = make_cache(model, setup, 2);
  qi::Session prompt(cache), decoding(cache), reference(cache);
  prompt.append(random_tokens(100, 3));
  reference.append(random_tokens(100, 3));
  decoding.append(random_tokens(1, 4));
  auto options = qi::options<qinfer_eval_options>();
  options.max_tokens = 31;
  int calls = 0;
  while (prompt.pending() != 0) {
    const std::size_t before = prompt.pending();
    qi::eval({&prompt, &decoding}, options);
    CHECK(decoding.pending() == 0);
    CHECK(before - prompt.pending() == (++calls < 4 ? 30u : 10u));
    decoding.append(5);
  }
  CHECK(calls == 4);
  reference.eval();
  CHECK(same_bits(prompt.copy_logits(), reference.copy_logits()));
}

TEST_CASE("truncating and evaluating again gives the same bits", "[invariance]") {
  const qinfer::test::ModelDir directory(long_spec());
  Setup setup;
  const qi::Model model = load(directory.path(), setup);
  qi::KvCache cache = make_cache(model, setup);
  qi::Session session(cache);
  const auto tokens = random_tokens(600, 5);
  session.append(tokens);
  session.eval();
  const auto expected = session.copy_logits();
  for (const std::size_t keep : {599u, 512u, 64u, 1u, 0u}) {
    session.truncate(keep);
    CHECK(session.length() == keep);
    CHECK(session.pending() == (keep == 0 ? 0u : 1u));
    CHECK(session.logits() == nullptr);
    CHECK(cache.stats().blocks_used == (keep == 0 ? 0u : (keep - 1 + 31) / 32));
    session.append(tokens.data() + keep, tokens.size() - keep);
    session.eval();
    CHECK(same_bits(session.copy_logits(), expected));
  }
  session.append(1);
  session.truncate(600);  // drops only what is pending: the logits stay
  CHECK(session.pending() == 0);
  CHECK(same_bits(session.copy_logits(), expected));
}

TEST_CASE("the host's floating-point settings change neither bits nor control flow", "[invariance]") {
  const qinfer::test::ModelDir directory(long_spec());
  Setup setup;
  setup.n_threads = 2;
  const qi::Model model = load(directory.path(), setup);
  const auto tokens = random_tokens(200, 6);
  const auto expected = last_logits(model, setup, tokens, 50);
  const auto sample = [&] {
    qi::KvCache cache = make_cache(model, setup);
    qi::Session session(cache);
    auto options = qi::options<qinfer_sampler_options>();
    options.temperature = 0.8f;
    options.top_p = 0.9f;
    options.seed = 1;
    session.set_sampler(options);
    session.append(tokens);
    session.generate({20, {}, {}, nullptr});
    return session.tokens();
  };
  const auto expected_tokens = sample();

  std::fesetround(FE_UPWARD);
  const qi::Model other = load(directory.path(), setup);  // the RoPE table too must not depend on it
  const auto upward = last_logits(other, setup, tokens, 50);
  CHECK(std::fegetround() == FE_UPWARD);
  const auto upward_tokens = sample();
  std::fesetround(FE_TONEAREST);
  CHECK(same_bits(upward, expected));
  CHECK(upward_tokens == expected_tokens);

#if defined(__x86_64__)
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(0x9FC0);  // flush to zero, denormals are zero
  const auto flushed = last_logits(model, setup, tokens, 50);
  CHECK((_mm_getcsr() & 0x8040) == 0x8040);
  _mm_setcsr(0x0000);  // all exceptions unmasked: the first inexact result would trap
  const qinfer_session_options session_options = qi::options<qinfer_session_options>();
  qinfer_error error;
  qinfer_session* session = nullptr;
  qi::KvCache cache = make_cache(model, setup);
  auto memory = qi::options<qinfer_memory>();
  const qinfer_status planned =
      qinfer_model_plan(directory.path().c_str(), nullptr, nullptr, nullptr, nullptr, &memory, &error);
  const qinfer_status created = qinfer_session_create(cache.native(), &session_options, &session, &error);
  const qinfer_status appended = qinfer_session_append(session, tokens.data(), tokens.size(), &error);
  const qinfer_status evaluated = qinfer_eval(&session, 1, nullptr, &error);
  qinfer_token token = -1;
  const qinfer_status sampled = qinfer_session_sample(session, &token, &error);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(saved);
  CHECK(after == 0);
  CHECK(planned == QINFER_OK);
  CHECK((created == QINFER_OK && appended == QINFER_OK && evaluated == QINFER_OK && sampled == QINFER_OK));
  CHECK(same_bits({qinfer_session_logits(session, 0), qinfer_session_logits(session, 0) + 300},
                  {expected.end() - 300, expected.end()}));
  qinfer_session_free(session);
  CHECK(same_bits(flushed, expected));
#endif
}

TEST_CASE("metrics count tokens and calls", "[invariance]") {
  const qinfer::test::ModelDir directory(long_spec());
  Setup setup;
  auto runtime_options = qi::options<qinfer_runtime_options>();
  runtime_options.n_threads = 2;
  qi::Runtime runtime(runtime_options);
  const qi::Model model = qi::Model::load(runtime, directory.path());
  qi::KvCache cache = make_cache(model, setup, 2);
  qi::Session a(cache), b(cache);
  a.append(random_tokens(40, 7));
  b.append(random_tokens(1, 8));
  qi::eval({&a, &b});
  (void)a.sample();
  const qinfer_metrics ma = a.metrics(), mb = b.metrics(), total = runtime.metrics();
  CHECK(ma.prefill_tokens == 40);
  CHECK(ma.decode_tokens == 0);
  CHECK(mb.decode_tokens == 1);
  CHECK(ma.evals == 1);
  CHECK(total.prefill_tokens == 40);
  CHECK(total.decode_tokens == 1);
  CHECK(total.evals == 1);
  CHECK(ma.prefill_ns > 0);
  CHECK(ma.sample_ns > 0);
  CHECK(a.memory().kv_private == 2 * cache.stats().bytes_reserved / cache.stats().blocks_total);
}
