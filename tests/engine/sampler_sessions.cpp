// Samplers in sessions: mirostat's bound and the draws of XTC come back with truncation, forks and snapshots, DRY knows
// the texts of tokens, the choices of OpenAI's requests are those of the C interface, and kernel sets change no draw.
#include <cstdio>
#include <functional>
#include <qinfer/qinfer.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/c_api.h"
#include "support/catch.h"
#include "support/targets.h"

namespace {

qi::Model stories(const std::string& target = "", bool exact = false) {
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = 1;
  if (!target.empty()) options.cpu_target = target.c_str();
  if (exact) options.flags = QINFER_RUNTIME_EXACT;
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

/// Puts other logits in place of the model's: the same ones at each place of each text.
struct Given : qi::LogitsHook {
  std::uint64_t state = 7;
  bool apply(float* logits, std::uint32_t n) override {
    for (std::uint32_t i = 0; i < n; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      logits[i] = static_cast<float>(static_cast<std::int64_t>(state) >> 40) * 0x1p-20F;
    }
    return true;
  }
};

/// One for each step, and all of them.
std::vector<qinfer_sampler_options> samplers() {
  std::vector<qinfer_sampler_options> all(8, qi::options<qinfer_sampler_options>());
  for (std::size_t i = 0; i < all.size(); ++i) all[i].temperature = 0.9F, all[i].seed = i;
  all[0].top_k = 40, all[0].top_p = 0.9F, all[0].min_p = 0.01F, all[0].repeat_penalty = 1.1F;
  all[1].typical_p = 0.9F;
  all[2].top_n_sigma = 1.5F;
  all[3].dynatemp_range = 0.6F, all[3].dynatemp_exponent = 1.3F;
  all[4].xtc_probability = 0.5F, all[4].xtc_threshold = 0.02F;
  all[5].dry_multiplier = 0.7F;
  all[6].mirostat = 2;
  all[7] = everything(9);
  all[7].xtc_probability = 0.5F, all[7].typical_p = 0.9F;
  return all;
}

}  // namespace

TEST_CASE("sampler sessions: the same logits give the same tokens on every kernel set", "[sampler]") {
  std::vector<std::vector<qi::Token>> expected;
  for (const bool exact : {false, true}) {
    for (const std::string& target : qinfer::test::usable_targets(exact)) {
      const qi::Model model = stories(target, exact);
      qi::KvCache cache = cache_of(model);
      std::vector<std::vector<qi::Token>> texts;
      for (const qinfer_sampler_options& sampler : samplers()) {
        qi::Session session = begun(cache, model, sampler);
        session.set_logits_hook(std::make_unique<Given>());
        texts.push_back(drawn(session, 100));
      }
      if (expected.empty()) expected = texts;
      for (std::size_t i = 0; i < texts.size(); ++i) {
        INFO(target << (exact ? ", exact" : "") << ", sampler " << i);
        CHECK(texts[i] == expected[i]);
      }
    }
  }
  // Samplers that all drew the same would show nothing.
  CHECK(std::set<std::vector<qi::Token>>(expected.begin(), expected.end()).size() == expected.size());
}

TEST_CASE("sampler sessions: mirostat's bound depends on what was drawn", "[sampler]") {
  // Otherwise the tests below would show nothing.
  const qi::Model model = stories();
  qi::KvCache cache = cache_of(model);
  int changed = 0;
  for (const std::uint64_t seed : {3, 4, 5, 6}) {  // with one of them alone the same tokens may be drawn
    qi::Session one = begun(cache, model, everything(seed));
    const auto all = drawn(one, 60);
    for (std::size_t i = 10; i < 60; i += 10) {
      qi::Session other = begun(cache, model, everything(seed));
      other.append(part(all, 0, i));
      changed += drawn(other, static_cast<int>(60 - i)) != part(all, i, 60);
    }
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
