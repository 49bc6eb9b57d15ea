// Evaluations that keep no logits, and what a session says of itself.
#include "kv/support.h"
#include "support/c_api.h"

using namespace qinfer::test;

namespace {

TinySpec endless() {
  TinySpec spec;
  spec.seed = 3;
  return spec;
}

qinfer_status eval_with(const Session& session, const qinfer_eval_options& options, qinfer_error* err) {
  qinfer_session* one = session.get();
  return qinfer_eval(&one, 1, &options, err);
}

qinfer_eval_options without_logits() {
  auto options = sized<qinfer_eval_options>();
  options.flags = QINFER_EVAL_NO_LOGITS;
  return options;
}

qinfer_session_info info_of(const Session& session) {
  auto info = sized<qinfer_session_info>();
  REQUIRE_OK(qinfer_session_get_info(session.get(), &info, &err));
  return info;
}

qinfer_metrics metrics_of(const Session& session) {
  auto metrics = sized<qinfer_metrics>();
  REQUIRE_OK(qinfer_session_get_metrics(session.get(), &metrics, &err));
  return metrics;
}

}  // namespace

TEST_CASE("Chunks without logits change no bits of those that come after", "[api][eval]") {
  const ModelDir dir{endless()};
  const Runtime runtime = make_runtime(2);
  const Model model = load_model(runtime, dir.path());
  const Cache cache = make_cache(model);
  const Session whole = make_session(cache);
  append(whole, tokens_of(70, 5));
  eval(whole);
  for (const std::uint32_t flags : {0, 1}) {
    auto cache_options = sized<qinfer_kv_cache_options>();
    cache_options.flags = flags != 0 ? std::uint32_t{QINFER_CACHE_PREFIX} : 0u;
    const Cache own = make_cache(model, &cache_options);
    for (int again = 0; again < 2; ++again) {  // the second time from the prefix cache
      const Session chunked = make_session(own);
      const std::vector<qinfer_token> tokens = tokens_of(70, 5);
      append(chunked, {tokens.begin(), tokens.begin() + 65});
      auto options = without_logits();
      options.max_tokens = 16;
      while (qinfer_session_pending(chunked.get()) != 0) {
        REQUIRE_OK(eval_with(chunked, options, &err));
        REQUIRE(info_of(chunked).n_logits == 0);
        REQUIRE(qinfer_session_logits(chunked.get(), 0) == nullptr);
      }
      REQUIRE(metrics_of(chunked).cached_tokens == (flags != 0 && again != 0 ? 64 : 0));
      append(chunked, {tokens.begin() + 65, tokens.end()});
      eval(chunked);
      REQUIRE(same_bits(last_logits(chunked, 300), last_logits(whole, 300)));
    }
  }
}

TEST_CASE("After QINFER_EVAL_NO_LOGITS sampling names the flag, and truncating brings the logits back", "[api][eval]") {
  const ModelDir dir{endless()};
  const Runtime runtime = make_runtime(1);
  const Model model = load_model(runtime, dir.path());
  const Cache cache = make_cache(model);
  const Session session = make_session(cache), whole = make_session(cache);
  append(session, tokens_of(20, 5));
  append(whole, tokens_of(20, 5));
  eval(whole);
  eval(session);
  REQUIRE(qinfer_session_logits(session.get(), 0) != nullptr);
  append(session, {7});
  REQUIRE_OK(eval_with(session, without_logits(), &err));
  REQUIRE(qinfer_session_pending(session.get()) == 0);
  REQUIRE(qinfer_session_logits(session.get(), 0) == nullptr);  // those of before are gone, too
  const char* flag = "QINFER_EVAL_NO_LOGITS";
  qinfer_token token = 0;
  float row[300];
  std::size_t n = 0;
  REQUIRE_FAILS(QINFER_E_STATE, flag, qinfer_session_sample(session.get(), &token, &err));
  REQUIRE_FAILS(QINFER_E_STATE, flag, qinfer_generate(session.get(), nullptr, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_STATE, flag, qinfer_session_copy_logits(session.get(), 0, row, 300, &n, &err));
  REQUIRE(qinfer_session_length(session.get()) == 21);
  REQUIRE_OK(qinfer_session_truncate(session.get(), 21, &err));
  REQUIRE(qinfer_session_pending(session.get()) == 1);
  REQUIRE_FAILS(QINFER_E_STATE, "1 tokens are pending", qinfer_session_sample(session.get(), &token, &err));
  eval(session);
  append(whole, {7});
  eval(whole);
  REQUIRE(same_bits(last_logits(session, 300), last_logits(whole, 300)));
  REQUIRE_OK(qinfer_session_sample(session.get(), &token, &err));
}

TEST_CASE("QINFER_EVAL_NO_LOGITS needs no room for logits, and leaves embeddings as they are", "[api][eval]") {
  const ModelDir dir{endless()};
  const Runtime runtime = make_runtime(1);
  const Model model = load_model(runtime, dir.path());
  const Cache cache = make_cache(model);
  auto options = sized<qinfer_session_options>();
  options.flags = QINFER_SESSION_EMBEDDINGS;
  const Session with = make_session(cache, &options), without = make_session(cache, &options);
  auto width = sized<qinfer_model_info>();
  REQUIRE_OK(qinfer_model_get_info(model.get(), &width, &err));
  std::vector<float> embeddings[2];
  for (int i = 0; i < 2; ++i) {
    const Session& session = i == 0 ? with : without;
    append(session, tokens_of(20, 5));
    REQUIRE_OK(eval_with(session, i == 0 ? sized<qinfer_eval_options>() : without_logits(), &err));
    embeddings[i].resize(width.n_embd);
    std::size_t n = 0;
    REQUIRE_OK(qinfer_session_embedding(session.get(), QINFER_POOL_MEAN, embeddings[i].data(), width.n_embd, &n, &err));
  }
  REQUIRE(same_bits(embeddings[0], embeddings[1]));
}

TEST_CASE("A session tells what it was created with and where it is, also after a load", "[api][info]") {
  const ModelDir dir{endless()};
  const Runtime runtime = make_runtime(1);
  const Model model = load_model(runtime, dir.path());
  const Cache cache = make_cache(model);
  auto options = sized<qinfer_session_options>();
  options.max_tokens = 77;
  options.max_logits = 5;
  const Session session = make_session(cache, &options);
  qinfer_session_info info = info_of(session);
  REQUIRE(info.flags == 0);
  REQUIRE(info.max_tokens == 77);
  REQUIRE(info.max_logits == 5);
  REQUIRE(info.n_tokens + info.n_evaluated + info.n_logits + info.n_bias + info.has_logits_hook == 0);
  append(session, tokens_of(20, 5));
  auto eval_options = sized<qinfer_eval_options>();
  eval_options.keep_logits = 3;
  REQUIRE_OK(eval_with(session, eval_options, &err));
  append(session, {1, 2});
  const qinfer_token tokens[] = {1, 2, 3, 1};
  const float values[] = {1, 1, 1, 1};
  REQUIRE_OK(qinfer_session_set_bias(session.get(), tokens, values, 4, &err));
  auto hook = sized<qinfer_logits_hook>();
  hook.apply = [](const qinfer_session*, float*, std::uint32_t, void*) -> std::int32_t { return 0; };
  REQUIRE_OK(qinfer_session_set_logits_hook(session.get(), &hook, &err));
  info = info_of(session);
  REQUIRE(info.n_tokens == 22);
  REQUIRE(info.n_evaluated == 20);
  REQUIRE(info.n_logits == 3);
  REQUIRE(info.n_bias == 4);
  REQUIRE(info.has_logits_hook == 1);

  const std::string path = dir.file("session");
  REQUIRE_OK(qinfer_session_save(session.get(), path.c_str(), &err));
  qinfer_session* created = nullptr;
  REQUIRE_OK(qinfer_session_load(cache.get(), path.c_str(), &created, &err));
  const Session loaded(created);
  info = info_of(loaded);
  REQUIRE(info.max_tokens == 77);
  REQUIRE(info.max_logits == 5);
  REQUIRE(info.n_tokens == 22);
  REQUIRE(info.n_evaluated == 20);
  REQUIRE(info.n_logits == 0);
  REQUIRE(info.n_bias == 4);
  REQUIRE(info.has_logits_hook == 0);

  auto embeddings = sized<qinfer_session_options>();
  embeddings.flags = QINFER_SESSION_EMBEDDINGS;
  const Session with = make_session(cache, &embeddings);
  info = info_of(with);
  REQUIRE(info.flags == QINFER_SESSION_EMBEDDINGS);
  REQUIRE(info.max_logits == 1);
  REQUIRE(info.max_tokens == 128);
}
