// Guessing ahead: with max_draft a session draws the same tokens, with the same texts and log probabilities, as
// without, whatever was guessed, and wherever a generation ends. Rows are made free here, so that all guesses are
// evaluated: on the small models of tests they would not pay.
#include <qinfer/qinfer.hpp>

#include <map>
#include <memory>
#include <random>

#include "support/c_api.h"
#include "support/catch.h"
#include "support/drafts.h"
#include "support/targets.h"

using namespace qinfer::test;

namespace {

const std::string kStories = QINFER_TEST_MODELS "/tiny-stories";

qi::Model load(const std::string& path = kStories, const char* target = nullptr, std::uint32_t batch = 0) {
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = 2;
  options.cpu_target = target;
  qi::Runtime runtime(options);
  auto load_options = qi::options<qinfer_load_options>();
  load_options.max_batch_tokens = batch;
  return qi::Model::load(runtime, path, load_options);
}

qi::KvCache cache_of(const qi::Model& model, std::uint32_t flags = 0, std::uint64_t blocks = 64) {
  auto options = qi::options<qinfer_kv_cache_options>();
  options.budget_blocks = blocks;
  options.flags = flags;
  return qi::KvCache(model, options);
}

qinfer_sampler_options sampler_of(int kind, std::uint64_t seed) {
  auto sampler = qi::options<qinfer_sampler_options>();
  sampler.temperature = kind == 0 ? 0.0F : kind == 1 ? 0.7F : 1.2F;
  sampler.top_k = kind == 2 ? 30 : 0;
  sampler.repeat_penalty = kind == 1 ? 1.1F : 0;
  sampler.penalty_tokens = kind == 1 ? 20 : 0;
  if (kind == 3) sampler.mirostat = 2, sampler.mirostat_tau = 3, sampler.dry_multiplier = 0.4F;
  if (kind == 4) sampler.xtc_probability = 0.5F, sampler.typical_p = 0.95F, sampler.dynatemp_range = 0.4F;
  sampler.seed = seed;
  return sampler;
}

std::unique_ptr<qi::Session> session_of(qi::KvCache& cache, const std::vector<qi::Token>& prompt,
                                        std::uint32_t max_draft, std::uint32_t max_tokens = 200) {
  auto options = qi::options<qinfer_session_options>();
  options.max_tokens = max_tokens;
  options.max_draft = max_draft;
  auto session = std::make_unique<qi::Session>(cache, options);
  session->append(prompt);
  return session;
}

struct Told {
  std::vector<qi::Token> tokens;
  std::string text;
  std::vector<double> logprobs;
  std::vector<qi::Token> top;
  std::int32_t finish = 0;
  bool operator==(const Told&) const = default;
};

/// Only some of the tokens, so that the text soon repeats itself.
void allow_few(const qi::Model& model, qi::Session& session, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::pair<qi::Token, float>> refused;
  for (std::uint32_t token = 0; token < model.info().n_vocab; ++token)
    if (token < 3 || random() % 50 != 0) refused.emplace_back(static_cast<qi::Token>(token), -INFINITY);
  session.set_bias(refused);
}

Told tell(const qi::Model& model, qi::Session& session, const qi::GenerateOptions& options) {
  Told told;
  qi::Generation generation(session, options);
  while (told.finish == 0) {
    make_rows_free(model);
    const qinfer_token_info info = generation.next();
    told.finish = info.finish;
    if (info.token >= 0) told.tokens.push_back(info.token), told.logprobs.push_back(info.logprob);
    told.text.append(info.text, info.text_len);
    told.top.insert(told.top.end(), info.top_tokens, info.top_tokens + info.n_top);
  }
  return told;
}

/// What a host can see of them.
void check_alike(const qi::Model& model, qi::Session& is, qi::Session& should) {
  const qinfer_session_info seen = is.info(), wanted = should.info();
  REQUIRE(seen.n_tokens == wanted.n_tokens);
  REQUIRE(seen.n_evaluated == wanted.n_evaluated);
  REQUIRE(seen.n_logits == wanted.n_logits);
  const std::size_t n_vocab = model.info().n_vocab;
  if (wanted.n_logits != 0) REQUIRE(std::equal(is.logits(), is.logits() + n_vocab, should.logits()));
  if (is.metrics().cached_tokens == should.metrics().cached_tokens)
    REQUIRE(is.metrics().decode_tokens == should.metrics().decode_tokens);
}

qi::GenerateOptions options_of(std::uint32_t tokens) {
  qi::GenerateOptions options;
  options.max_tokens = tokens;
  options.logprobs = true;
  options.n_top = 3;
  return options;
}

/// Words of a story, again and again.
std::vector<qi::Token> random_prompt(std::mt19937& random, const qi::Model& model) {
  static const char* const parts[] = {
      "Once upon a time",           " there was a little girl", " who liked", " to play", " Lily",
      " and Tom went to the park.", " They saw a big dog.",     "\n"};
  std::string text;
  for (std::uint32_t n = 1 + random() % 8; n > 0; --n) text += parts[random() % std::size(parts)];
  return model.tokenize(text);
}

}  // namespace

TEST_CASE("Drafts: 200 prompts with 5 samplers give what they give without", "[drafts]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model), with_prefixes = cache_of(model, QINFER_CACHE_PREFIX);
  std::mt19937 random(1);
  std::uint64_t drafted = 0, accepted = 0, accepted_fifth = 0;
  for (int i = 0; i < 200; ++i) {
    const std::vector<qi::Token> prompt = random_prompt(random, model);
    for (int kind = 0; kind < 5; ++kind) {
      INFO("prompt " << i << ", sampler " << kind);
      qi::GenerateOptions options = options_of(1 + random() % 60);
      if (i % 5 == 0) options.stop = {" the", "dog."};
      const auto plain = session_of(cache, prompt, 0);
      const auto guessing = session_of(i % 2 == 0 ? cache : with_prefixes, prompt, 1 + random() % 16);
      const std::uint64_t seed = random();
      plain->set_sampler(sampler_of(kind, seed)), guessing->set_sampler(sampler_of(kind, seed));
      if (i % 4 != 0) allow_few(model, *plain, i), allow_few(model, *guessing, i);
      const Told should = tell(model, *plain, options), is = tell(model, *guessing, options);
      REQUIRE(is == should);
      // Its tokens are those that were drawn, and it goes on as the other one does.
      REQUIRE(guessing->tokens() == plain->tokens());
      const qinfer_metrics metrics = guessing->metrics();
      drafted += sum(metrics.drafted);
      accepted += sum(metrics.accepted);
      accepted_fifth += metrics.accepted[4];
      if (metrics.cached_tokens == plain->metrics().cached_tokens)  // a last token of a prompt counts as decoded
        CHECK(metrics.decode_tokens == plain->metrics().decode_tokens);
      plain->append(model.tokenize(" So they"));
      guessing->append(model.tokenize(" So they"));
      REQUIRE(tell(model, *guessing, options_of(5)) == tell(model, *plain, options_of(5)));
    }
  }
  CHECK(drafted > 5000);
  CHECK(accepted > 1000);
  CHECK(accepted < drafted);
  CHECK(accepted_fifth > 100);  // guesses stay from step to step
}

TEST_CASE("Drafts: the same bits on every set, with windows and long texts", "[drafts]") {
  for (const std::string& target : usable_targets())
    for (const char* name : {"tiny-stories", "tiny-stories-moe"}) {
      INFO(target << ", " << name);
      const qi::Model model = load(QINFER_TEST_MODELS + std::string("/") + name, target.c_str());
      qi::KvCache cache = cache_of(model);
      const std::vector<qi::Token> prompt = model.tokenize("Once upon a time there was a dog. Once upon a time");
      const auto plain = session_of(cache, prompt, 0), guessing = session_of(cache, prompt, 16);
      allow_few(model, *plain, 1), allow_few(model, *guessing, 1);
      const Told should = tell(model, *plain, options_of(150));
      REQUIRE(tell(model, *guessing, options_of(150)) == should);
      CHECK(sum(guessing->metrics().accepted) > 20);
      CHECK(guessing->metrics().evals < plain->metrics().evals);
    }
  // Windows give back blocks that guesses do not see, but the tokens before them do.
  const qi::Model model = load(QINFER_TEST_FIXTURES "/models/mistral-window-bf16");
  qi::KvCache cache = cache_of(model);
  std::mt19937 random(2);
  for (int i = 0; i < 30; ++i) {
    std::vector<qi::Token> prompt;
    for (int n = 0; n < 40; ++n) prompt.push_back(static_cast<qi::Token>(3 + random() % 4));
    const std::uint32_t most = 120;
    const auto plain = session_of(cache, prompt, 0, most), guessing = session_of(cache, prompt, 16, most);
    plain->set_sampler(sampler_of(i % 5, 5)), guessing->set_sampler(sampler_of(i % 5, 5));
    auto options = options_of(70);
    REQUIRE(tell(model, *guessing, options) == tell(model, *plain, options));
  }
}

TEST_CASE("Drafts: a batch may have fewer rows than there are guesses", "[drafts]") {
  for (const std::uint32_t batch : {1U, 2U, 3U, 5U, 16U}) {
    INFO(batch << " rows");
    const qi::Model model = load(kStories, nullptr, batch);
    qi::KvCache cache = cache_of(model);
    const std::vector<qi::Token> prompt = model.tokenize("Tom saw a dog. Tom saw a dog. Tom");
    const auto plain = session_of(cache, prompt, 0), guessing = session_of(cache, prompt, 16);
    allow_few(model, *plain, 1), allow_few(model, *guessing, 1);
    REQUIRE(tell(model, *guessing, options_of(80)) == tell(model, *plain, options_of(80)));
    const qinfer_metrics metrics = guessing->metrics();
    for (std::uint32_t place = batch - 1; place < 16; ++place) CHECK(metrics.drafted[place] == 0);
    CHECK((sum(metrics.accepted) > 0) == (batch > 1));
  }
}

TEST_CASE("Drafts: forked, taken back, cut, saved and evaluated by the host in between", "[drafts]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, QINFER_CACHE_PREFIX, 200);
  std::mt19937 random(3);
  const std::string path = "drafts-snapshot.tmp";
  for (int i = 0; i < 60; ++i) {
    INFO("round " << i);
    const std::vector<qi::Token> prompt = random_prompt(random, model);
    const auto plain = session_of(cache, prompt, 0), guessing = session_of(cache, prompt, 16);
    plain->set_sampler(sampler_of(i / 5 % 5, 5)), guessing->set_sampler(sampler_of(i / 5 % 5, 5));
    allow_few(model, *plain, i), allow_few(model, *guessing, i);
    qi::GenerateOptions options = options_of(40);
    qi::Generation a(*plain, options), b(*guessing, options);
    bool over = false;
    for (std::uint32_t n = 1 + random() % 30; n > 0 && !over; --n) {
      make_rows_free(model);
      const qinfer_token_info should = a.next(), is = b.next();
      REQUIRE(is.token == should.token);
      over = should.finish != 0;
      check_alike(model, *guessing, *plain);
      if (n % 3 == 0 && plain->pending() != 0) plain->eval(), guessing->eval();  // as hosts with many sessions do
    }
    switch (i % 5) {
      case 0: {
        qi::Session first = plain->fork(), second = guessing->fork(), third = guessing->fork();
        REQUIRE(tell(model, second, options) == tell(model, first, options));
        qi::Session again = plain->fork();
        REQUIRE(tell(model, third, options) == tell(model, again, options));
        break;
      }
      case 1: {
        const std::uint32_t n = random() % (a.result().new_tokens + 1);
        a.take_back(n), b.take_back(n), over = false;
        break;
      }
      case 2: {
        const std::size_t n = 1 + random() % plain->length();
        plain->truncate(n), guessing->truncate(n);
        REQUIRE(tell(model, *guessing, options) == tell(model, *plain, options));
        over = true;
        break;
      }
      case 3: {
        guessing->save(path);
        CHECK(guessing->info().n_evaluated <= guessing->length());
        qi::Session loaded = qi::Session::load(cache, path);
        CHECK(loaded.tokens() == guessing->tokens());
        qi::Session first = plain->fork();
        REQUIRE(tell(model, loaded, options) == tell(model, first, options));
        break;
      }
      default: {  // tokens that the host draws
        if (guessing->pending() != 0) guessing->eval();
        if (plain->pending() != 0) plain->eval();
        qi::Session first = plain->fork(), second = guessing->fork();
        for (int n = 0; n < 5; ++n) {
          REQUIRE(second.sample() == first.sample());
          check_alike(model, second, first);
          first.eval(), second.eval();
        }
        CHECK(sum(second.metrics().accepted) <= sum(second.metrics().drafted));
      }
    }
    while (!over) {
      make_rows_free(model);
      const qinfer_token_info should = a.next(), is = b.next();
      REQUIRE(is.token == should.token);
      REQUIRE(is.logprob == should.logprob);
      over = should.finish != 0;
    }
    REQUIRE(guessing->tokens() == plain->tokens());
  }
  std::remove(path.c_str());
}

TEST_CASE("Drafts: a hook sees every token once, and may refuse", "[drafts]") {
  struct CountingHook : qi::LogitsHook {
    qi::Session* session;
    std::vector<qi::Token>& seen;
    std::size_t refused_at;
    CountingHook(qi::Session& of, std::vector<qi::Token>& tokens, std::size_t refused)
        : session(&of), seen(tokens), refused_at(refused) {}
    bool apply(float* logits, std::uint32_t) override {
      logits[seen.size() % 300] = -INFINITY;
      return true;
    }
    bool accept(qi::Token token) override {
      CHECK(session->tokens().back() == token);
      if (seen.size() == refused_at) return refused_at = SIZE_MAX, false;
      seen.push_back(token);
      return true;
    }
    bool rewind(std::size_t n) override {
      seen.resize(seen.size() - n);
      return true;
    }
  };
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model);
  const std::vector<qi::Token> prompt = model.tokenize("Tom saw a dog. Tom saw a dog. Tom saw a dog. Tom");
  for (const std::size_t refused : {SIZE_MAX, std::size_t{0}, std::size_t{7}}) {
    std::vector<qi::Token> seen[2];
    Told told[2];
    for (const std::uint32_t draft : {0U, 16U}) {
      const auto session = session_of(cache, prompt, draft);
      allow_few(model, *session, 2);
      session->set_logits_hook(std::make_unique<CountingHook>(*session, seen[draft / 16], refused));
      try {
        told[draft / 16] = tell(model, *session, options_of(50));
        CHECK(refused == SIZE_MAX);
      } catch (const qi::Error& error) {
        CHECK(error.status() == QINFER_E_CANCELLED);
        told[draft / 16] = tell(model, *session, options_of(20));
      }
      if (draft != 0) CHECK(sum(session->metrics().accepted) > 0);
    }
    CHECK(told[1] == told[0]);
    CHECK(seen[1] == seen[0]);
  }
}

TEST_CASE("Drafts: no guess fails for want of room", "[drafts]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model, 0, 2), other = cache_of(model);  // 64 tokens
  const std::vector<qi::Token> prompt = model.tokenize("Tom saw a dog. Tom saw a dog. Tom saw a dog. Tom");
  for (const std::uint32_t max_tokens : {64U, 65U, 100U}) {
    const auto session = session_of(cache, prompt, 16, max_tokens), plain = session_of(other, prompt, 0, max_tokens);
    qi::Generation generation(*session, options_of(0)), as(*plain, options_of(0));
    std::size_t n = prompt.size();
    try {
      for (bool over = false; !over; ++n) {
        make_rows_free(model);
        const qinfer_token_info is = generation.next(), should = as.next();
        REQUIRE(is.token == should.token);
        over = is.finish != 0;
        n -= is.token < 0 ? 1 : 0;
      }
      CHECK(max_tokens < 66);
    } catch (const qi::Error& error) {
      CHECK(error.status() == QINFER_E_KV_FULL);
      CHECK(n == 65);
    }
    CHECK(n == std::min(max_tokens, 65U));
  }
}

TEST_CASE("Drafts: what they take is planned, and what cannot be is refused", "[drafts]") {
  const qi::Model model = load();
  qi::KvCache cache = cache_of(model);
  const auto plain = session_of(cache, model.tokenize("A"), 0), guessing = session_of(cache, model.tokenize("A"), 5);
  CHECK(guessing->memory().other - plain->memory().other == std::uint64_t{5} * 4 * model.info().n_vocab);
  CHECK(guessing->info().max_draft == 5);
  CHECK(plain->info().max_draft == 0);
  auto options = qi::options<qinfer_session_options>();
  const auto must_fail = [&](const char* says) {
    try {
      const qi::Session session(cache, options);
      FAIL("no error: " << says);
    } catch (const qi::Error& error) {
      CHECK(error.status() == QINFER_E_INVALID_ARGUMENT);
      CHECK(std::string(error.what()).find(says) != std::string::npos);
    }
  };
  options.max_draft = 17;
  must_fail("max_draft is 17, expected at most 16");
  options.max_draft = 2, options.flags = QINFER_SESSION_EMBEDDINGS;
  must_fail("max_draft is 2, but the session is made for embeddings");
}
