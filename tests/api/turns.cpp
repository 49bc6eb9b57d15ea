// The turns of a chat: qinfer_session_set_tokens keeps what two conversations have in common, evaluates the rest, and
// gives the bits of a session that computes everything.
#include <qinfer/qinfer.hpp>

#include <cmath>
#include <limits>

#include "kv/support.h"
#include "support/c_api.h"

using namespace qinfer::test;

namespace {

qinfer_metrics metrics_of(const Session& session) {
  auto metrics = sized<qinfer_metrics>();
  REQUIRE_OK(qinfer_session_get_metrics(session.get(), &metrics, &err));
  return metrics;
}

std::uint64_t evaluated(const Session& session) {
  const qinfer_metrics metrics = metrics_of(session);
  return metrics.prefill_tokens + metrics.decode_tokens;
}

std::size_t set_tokens(const Session& session, const std::vector<qinfer_token>& tokens) {
  std::size_t n_kept = 0;
  REQUIRE_OK(qinfer_session_set_tokens(session.get(), tokens.data(), tokens.size(), &n_kept, &err));
  return n_kept;
}

std::vector<float> logits_of(const Session& session, const Model& model) {
  auto info = sized<qinfer_model_info>();
  REQUIRE_OK(qinfer_model_get_info(model.get(), &info, &err));
  return last_logits(session, info.n_vocab);
}

std::vector<qinfer_token> held(const Session& session) {
  std::vector<qinfer_token> tokens(qinfer_session_length(session.get()));
  std::size_t n = 0;
  REQUIRE_OK(qinfer_session_get_tokens(session.get(), tokens.data(), tokens.size(), &n, &err));
  return tokens;
}

}  // namespace

TEST_CASE("A turn evaluates what is new, with the bits of a session that begins", "[api][chat]") {
  for (const std::uint32_t window : {0u, 40u}) {
    for (const std::uint32_t flags : {0u, std::uint32_t{QINFER_CACHE_PREFIX}}) {
      TinySpec spec;
      spec.architecture = window != 0 ? "MistralForCausalLM" : spec.architecture;
      spec.window = window;
      spec.context_tokens = 256;
      const ModelDir dir{spec};
      const Runtime runtime = make_runtime(2);
      const Model model = load_model(runtime, dir.path());
      auto cache_options = sized<qinfer_kv_cache_options>();
      cache_options.flags = flags;
      cache_options.budget_blocks = 64;
      const Cache cache = make_cache(model, &cache_options), other = make_cache(model);
      const Session chat = make_session(cache);
      CAPTURE(window, flags);

      // How many tokens of the last conversation are kept, and how many follow them: longer by some, the same, cut and
      // changed, changed early, shorter, all new.
      std::vector<qinfer_token> tokens;
      struct Turn {
        std::size_t keep, more;
      };
      int seed = 1;
      for (const Turn turn : {Turn{0, 50}, {50, 20}, {70, 1}, {71, 0}, {60, 30}, {90, 90}, {3, 100}, {40, 0}, {0, 7}}) {
        CAPTURE(turn.keep, turn.more);
        tokens.resize(turn.keep);
        for (const qinfer_token token : tokens_of(turn.more, seed)) tokens.push_back(token);
        const std::size_t had = qinfer_session_length(chat.get());
        const std::uint64_t before = evaluated(chat);
        const std::size_t n_kept = set_tokens(chat, tokens);
        CHECK(held(chat) == tokens);
        CHECK(n_kept >= turn.keep);  // what is new may begin as the old did
        if (qinfer_session_pending(chat.get()) != 0) eval(chat);
        const std::uint64_t cached = metrics_of(chat).cached_tokens;
        // One more where only the beginning is left, for its logits; all where a window has moved beyond it.
        const std::uint64_t expected = tokens.size() - n_kept + (turn.more == 0 && n_kept < had ? 1 : 0);
        if (window == 0 && flags == 0) CHECK(evaluated(chat) - before == expected);
        if (window == 0) CHECK(evaluated(chat) - before <= expected + cached);

        const Session cold = make_session(other);
        append(cold, tokens);
        eval(cold);
        CHECK(logits_of(chat, model) == logits_of(cold, model));
        ++seed;
      }
    }
  }
}

TEST_CASE("Generated tokens and pending ones are kept too", "[api][chat]") {
  const ModelDir dir{TinySpec()};
  const Runtime runtime = make_runtime(1);
  const Model model = load_model(runtime, dir.path());
  const Cache cache = make_cache(model);
  const Session session = make_session(cache);
  CHECK(set_tokens(session, tokens_of(10, 1)) == 0);
  CHECK(set_tokens(session, tokens_of(10, 1)) == 10);  // all of them pending
  CHECK(qinfer_session_pending(session.get()) == 10);
  eval(session);
  qinfer_token token = 0;
  REQUIRE_OK(qinfer_session_sample(session.get(), &token, &err));
  std::vector<qinfer_token> next = held(session);
  next.push_back(5);
  CHECK(set_tokens(session, next) == 11);
  CHECK(qinfer_session_pending(session.get()) == 2);
  eval(session);
  CHECK(metrics_of(session).prefill_tokens + metrics_of(session).decode_tokens == 12);
  CHECK(set_tokens(session, {}) == 0);
  CHECK(qinfer_session_length(session.get()) == 0);
}

TEST_CASE("Tokens that a session cannot take change nothing", "[api][chat]") {
  const ModelDir dir{TinySpec()};
  const Runtime runtime = make_runtime(1);
  const Model model = load_model(runtime, dir.path());
  const Cache cache = make_cache(model);
  auto options = sized<qinfer_session_options>();
  options.max_tokens = 20;
  const Session session = make_session(cache, &options);
  const std::vector<qinfer_token> before = tokens_of(15, 1);
  append(session, before);
  eval(session);
  const std::vector<float> logits = logits_of(session, model);
  std::size_t n = 9;
  const std::vector<qinfer_token> long_one = tokens_of(21, 1);
  REQUIRE_FAILS(QINFER_E_CONTEXT_FULL, "at most 20",
                qinfer_session_set_tokens(session.get(), long_one.data(), 21, &n, &err));
  CHECK(n == 0);
  const qinfer_token bad[] = {before[0], 300};
  REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 1, "token 300 at index 1",
                   qinfer_session_set_tokens(session.get(), bad, 2, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "tokens is NULL",
                qinfer_session_set_tokens(session.get(), nullptr, 1, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "session is NULL",
                qinfer_session_set_tokens(nullptr, before.data(), 1, nullptr, &err));
  CHECK(held(session) == before);
  CHECK(logits_of(session, model) == logits);
}
