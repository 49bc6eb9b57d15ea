// Samplers in sessions: mirostat's bound and the draws of XTC come back with truncation, forks and snapshots, DRY knows
// the texts of tokens, and the choices of OpenAI's requests are those of the C interface.
#include <cstdio>
#include <functional>
#include <qinfer/qinfer.hpp>
#include <string>
#include <vector>

#include "support/c_api.h"
#include "support/catch.h"

namespace {

qi::Model stories() {
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = 1;
  qi::Runtime runtime(options);
  return qi::Model::load(runtime, QINFER_TEST_MODELS "/tiny-stories");
}

qi::KvCache cache_of(const qi::Model& model) {
  auto options = qi::options<qinfer_kv_cache_options>();
  options.budget_blocks = 64;
  return qi::KvCache(model, options);
}

/// All that has state or chance.
qinfer_sampler_options everything(std::uint64_t seed) {
  auto sampler = qi::options<qinfer_sampler_options>();
  sampler.temperature = 1.3F;
  sampler.dry_multiplier = 0.5F;
  sampler.mirostat = 2;
  sampler.mirostat_tau = 3;
  sampler.mirostat_eta = 0.4F;
  sampler.seed = seed;
  return sampler;
}

std::vector<qi::Token> drawn(qi::Session& session, int n) {
  std::vector<qi::Token> tokens;
  for (int i = 0; i < n; ++i) {
    if (session.pending() != 0) session.eval();
    tokens.push_back(session.sample());
  }
  return tokens;
}

std::vector<qi::Token> part(const std::vector<qi::Token>& tokens, std::size_t begin, std::size_t end) {
  return {tokens.begin() + static_cast<std::ptrdiff_t>(begin), tokens.begin() + static_cast<std::ptrdiff_t>(end)};
}

qi::Session begun(qi::KvCache& cache, const qi::Model& model, const qinfer_sampler_options& sampler,
                  const std::string& text = "Once upon a time") {
  qi::Session session(cache);
  session.set_sampler(sampler);
  session.append(model.tokenize(text));
  return session;
}

/// Refuses the token at one place, once.
struct Refusing : qi::LogitsHook {
  int left;
  explicit Refusing(int n) : left(n) {}
  bool apply(float*, std::uint32_t) override { return true; }
  bool accept(qi::Token) override { return left-- != 0; }
};

}  // namespace

TEST_CASE("sampler sessions: mirostat's bound depends on what was drawn", "[sampler]") {
  // Otherwise the tests below would show nothing.
  const qi::Model model = stories();
  qi::KvCache cache = cache_of(model);
  qi::Session one = begun(cache, model, everything(3));
  const auto all = drawn(one, 60);
  int changed = 0;
  for (std::size_t i = 10; i < 60; i += 10) {
    qi::Session other = begun(cache, model, everything(3));
    other.append(part(all, 0, i));
    changed += drawn(other, static_cast<int>(60 - i)) != part(all, i, 60);
  }
  CHECK(changed > 0);
}

TEST_CASE("sampler sessions: truncation, forks and snapshots bring mirostat back", "[sampler]") {
  const qi::Model model = stories();
  qi::KvCache cache = cache_of(model);
  const std::string path = "sampler-snapshot.tmp";
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    qi::Session session = begun(cache, model, everything(seed));
    const std::size_t prompt = session.length();
    const auto all = drawn(session, 60);
    for (const std::size_t n : {59u, 30u, 1u, 0u}) {
      INFO("seed " << seed << ", " << n << " tokens kept");
      qi::Session fork = session.fork();
      fork.truncate(prompt + n);
      CHECK(drawn(fork, static_cast<int>(60 - n)) == part(all, n, 60));

      session.save(path);
      qi::Session loaded = qi::Session::load(cache, path);
      loaded.truncate(prompt + n);
      CHECK(drawn(loaded, static_cast<int>(60 - n)) == part(all, n, 60));

      // From a fork and a snapshot in the middle on.
      fork.truncate(prompt + n);
      fork.save(path);
      qi::Session again = fork.fork(), from_file = qi::Session::load(cache, path);
      CHECK(drawn(again, static_cast<int>(60 - n)) == part(all, n, 60));
      CHECK(drawn(from_file, static_cast<int>(60 - n)) == part(all, n, 60));
    }
    // Before the prompt's end as well, and setting the sampler again begins anew.
    session.truncate(1);
    session.set_tokens(model.tokenize("Once upon a time"));
    CHECK(drawn(session, 60) == all);
    session.truncate(prompt);
    session.set_sampler(everything(seed));
    CHECK(drawn(session, 60) == all);
  }
  std::remove(path.c_str());
}

TEST_CASE("sampler sessions: tokens of the host leave the bound as it is", "[sampler]") {
  const qi::Model model = stories();
  qi::KvCache cache = cache_of(model);
  qi::Session session = begun(cache, model, everything(4));
  drawn(session, 20);
  session.append(model.tokenize(" and then they saw"));
  const std::size_t before = session.length();
  const auto all = drawn(session, 20);
  qi::Session again = session.fork();
  again.truncate(before);
  CHECK(drawn(again, 20) == all);
  again.truncate(before - 2);  // within what the host has appended
  again.append(session.tokens()[before - 2]);
  again.append(session.tokens()[before - 1]);
  CHECK(drawn(again, 20) == all);
}

TEST_CASE("sampler sessions: a token that a hook refuses changes nothing", "[sampler]") {
  const qi::Model model = stories();
  qi::KvCache cache = cache_of(model);
  qi::Session plain = begun(cache, model, everything(6)), refusing = begun(cache, model, everything(6));
  refusing.set_logits_hook(std::make_unique<Refusing>(12));
  const auto all = drawn(plain, 40);
  CHECK(drawn(refusing, 12) == part(all, 0, 12));
  if (refusing.pending() != 0) refusing.eval();
  CHECK_THROWS_AS(refusing.sample(), qi::Error);
  CHECK(refusing.sample() == all[12]);
  CHECK(drawn(refusing, 27) == part(all, 13, 40));
}

TEST_CASE("sampler sessions: DRY ends a loop, and breakers keep it from doing so", "[sampler]") {
  const qi::Model model = stories();
  qi::KvCache cache = cache_of(model);
  const std::string loop = "The dog ran. The dog ran. The dog ran. The dog ran. The dog";
  const qi::Token ran = model.tokenize(loop + " ran").back();
  // The model would rather go on in another way, so the token that repeats is given 30.
  const auto looping = [&](float dry_multiplier) {
    auto sampler = qi::options<qinfer_sampler_options>();
    sampler.dry_multiplier = dry_multiplier;
    qi::Session session = begun(cache, model, sampler, loop);
    session.set_bias({{ran, 30.0F}});
    return session;
  };
  const std::vector<qi::Token> repeated{ran};
  qi::Session greedy = looping(0), dry = looping(100);
  REQUIRE(drawn(greedy, 1) == repeated);
  const auto other = drawn(dry, 1);
  CHECK(other != repeated);
  const auto with = [&](const std::vector<std::string>& breakers) {
    qi::Session session = looping(100);
    session.set_dry_breakers(breakers);
    return session;
  };
  // After a breaker at the end no repetition is left, whether it is one token or spans several.
  qi::Session one = with({" dog"}), spanning = with({"The dog"}), earlier = with({"ran"}), none = with({});
  CHECK(drawn(one, 1) == repeated);
  CHECK(drawn(spanning, 1) == repeated);
  CHECK(drawn(earlier, 1) == repeated);  // the token itself has it
  CHECK(drawn(none, 1) == other);
  // Forks and snapshots have them.
  const std::string path = "breakers-snapshot.tmp";
  spanning.truncate(spanning.length() - 1);
  spanning.save(path);
  qi::Session fork = spanning.fork(), loaded = qi::Session::load(cache, path);
  CHECK(drawn(fork, 1) == repeated);
  CHECK(drawn(loaded, 1) == repeated);
  std::remove(path.c_str());
}
