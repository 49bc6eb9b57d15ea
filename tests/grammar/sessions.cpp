// Grammars as hooks of sessions: what is drawn fulfils the schema, whatever the temperature, and the hook survives
// forks, truncation, snapshots, cancellation and batches.
#include <qinfer/qinfer_grammar.h>

#include <nlohmann/json.hpp>

#include <string>

#include "grammar/support.h"

using namespace qinfer::test;

namespace {

constexpr const char* kSchema = R"({"type":"object","properties":{"hen":{"type":"integer","minimum":0,"maximum":99},
  "happy":{"type":"boolean"},"day":{"enum":["Monday","Tuesday"]}},"required":["hen","happy","day"],
  "additionalProperties":false})";

struct Stories {
  Model model;
  Cache cache;
  GrammarVocab vocab;
  Grammar grammar;

  Stories() {
    qinfer_model* m = nullptr;
    REQUIRE_OK(qinfer_model_load(nullptr, QINFER_TEST_MODELS "/tiny-stories", nullptr, &m, &err));
    model.reset(m);
    qinfer_kv_cache* c = nullptr;
    REQUIRE_OK(qinfer_kv_cache_create(m, nullptr, &c, &err));
    cache.reset(c);
    vocab = vocab_of(m);
    grammar = compile(vocab, QINFER_GRAMMAR_JSON_SCHEMA, kSchema);
  }
  /// A session that has evaluated nothing but a prompt, at a temperature, with the hook of the matcher.
  Session session(const Matcher& matcher, std::uint64_t seed) const {
    qinfer_session* s = nullptr;
    REQUIRE_OK(qinfer_session_create(cache.get(), nullptr, &s, &err));
    Session session(s);
    auto sampler = sized<qinfer_sampler_options>();
    sampler.temperature = 1.5f;
    sampler.seed = seed;
    REQUIRE_OK(qinfer_session_set_sampler(s, &sampler, &err));
    qinfer_token prompt[16];
    std::size_t n = 0;
    REQUIRE_OK(
        qinfer_tokenize(model.get(), "Once upon a time", SIZE_MAX, QINFER_TEXT_ADD_SPECIAL, prompt, 16, &n, &err));
    REQUIRE_OK(qinfer_session_append(s, prompt, n, &err));
    set_hook(session, matcher);
    return session;
  }
  static void set_hook(const Session& session, const Matcher& matcher) {
    auto hook = sized<qinfer_logits_hook>();
    REQUIRE_OK(qinfer_grammar_matcher_hook(matcher.get(), &hook, &err));
    REQUIRE_OK(qinfer_session_set_logits_hook(session.get(), &hook, &err));
  }
  static std::int32_t append(const char* text, std::size_t len, qinfer_token, void* user) {
    static_cast<std::string*>(user)->append(text, len);
    return 0;
  }
  static std::string generate(const Session& session, std::uint32_t max_tokens = 200) {
    std::string text;
    auto options = sized<qinfer_generate_options>();
    options.max_tokens = max_tokens;
    options.on_token = append;
    options.user = &text;
    REQUIRE_OK(qinfer_generate(session.get(), &options, nullptr, &err));
    return text;
  }
  void require_fulfilled(const std::string& text) const {
    INFO(text);
    const nlohmann::json document = nlohmann::json::parse(text);
    REQUIRE(document.size() == 3);
    REQUIRE(document.at("hen").get<int>() >= 0);
    REQUIRE(document.at("hen").get<int>() <= 99);
    REQUIRE(document.at("happy").is_boolean());
    REQUIRE((document.at("day") == "Monday" || document.at("day") == "Tuesday"));
  }
};

std::vector<qinfer_token> tokens_of(const Session& session) {
  std::vector<qinfer_token> tokens(qinfer_session_length(session.get()));
  std::size_t n = 0;
  REQUIRE_OK(qinfer_session_get_tokens(session.get(), tokens.data(), tokens.size(), &n, &err));
  return tokens;
}

/// Draws n tokens, one at a time.
void draw(const Session& session, int n) {
  for (int i = 0; i < n; ++i) {
    qinfer_session* s = session.get();
    qinfer_token token = 0;
    REQUIRE_OK(qinfer_eval(&s, 1, nullptr, &err));
    REQUIRE_OK(qinfer_session_sample(s, &token, &err));
  }
}

}  // namespace

TEST_CASE("grammar: what a session draws at a high temperature fulfils the schema", "[grammar]") {
  const Stories stories;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Session session = stories.session(matcher_of(stories.grammar), seed);
    stories.require_fulfilled(Stories::generate(session));
  }
}

TEST_CASE("grammar: the hook survives truncation, forks and snapshots", "[grammar]") {
  const Stories stories;
  const Session session = stories.session(matcher_of(stories.grammar), 7);
  const std::size_t n_prompt = qinfer_session_length(session.get());
  draw(session, 6);

  qinfer_session* f = nullptr;
  REQUIRE_OK(qinfer_session_fork(session.get(), &f, &err));
  const Session fork(f);
  REQUIRE_OK(qinfer_session_truncate(session.get(), n_prompt + 3, &err));

  const ModelDir folder;
  const std::string path = folder.path() + "/drawn.snapshot";
  REQUIRE_OK(qinfer_session_save(fork.get(), path.c_str(), &err));
  qinfer_session* l = nullptr;
  REQUIRE_OK(qinfer_session_load(stories.cache.get(), path.c_str(), &l, &err));
  const Session loaded(l);
  const std::vector<qinfer_token> all = tokens_of(loaded);
  const Matcher matcher = matcher_of(stories.grammar);
  REQUIRE_OK(qinfer_grammar_matcher_accept(matcher.get(), all.data() + n_prompt, all.size() - n_prompt, &err));
  Stories::set_hook(loaded, matcher);

  for (const Session* each : {&session, &fork, &loaded}) {
    Stories::generate(*each);
    std::vector<qinfer_token> tokens = tokens_of(*each);
    std::string text;
    for (std::size_t i = n_prompt; i < tokens.size(); ++i) {
      if ((qinfer_token_flags(stories.model.get(), tokens[i]) & QINFER_TOKEN_END) != 0) continue;
      std::size_t n = 0;
      const char* piece = qinfer_token_text(stories.model.get(), tokens[i], &n);
      text.append(piece, n);
    }
    stories.require_fulfilled(text);
  }
}

TEST_CASE("grammar: a batch has the tokens of sessions alone, and cancelling loses nothing", "[grammar]") {
  const Stories stories;
  std::vector<Session> alone, together;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    alone.push_back(stories.session(matcher_of(stories.grammar), seed));
    together.push_back(stories.session(matcher_of(stories.grammar), seed));
  }
  for (const Session& session : alone) draw(session, 8);
  for (int step = 0; step < 8; ++step) {
    std::vector<qinfer_session*> batch;
    for (const Session& session : together) batch.push_back(session.get());
    REQUIRE_OK(qinfer_eval(batch.data(), batch.size(), nullptr, &err));
    for (qinfer_session* session : batch) {
      qinfer_token token = 0;
      REQUIRE_OK(qinfer_session_sample(session, &token, &err));
    }
  }
  for (std::size_t i = 0; i < alone.size(); ++i) REQUIRE(tokens_of(alone[i]) == tokens_of(together[i]));

  qinfer_cancel* c = nullptr;
  REQUIRE_OK(qinfer_cancel_create(&c, &err));
  const Cancel cancel(c);
  qinfer_cancel_request(c);
  auto options = sized<qinfer_generate_options>();
  options.max_tokens = 100;
  options.cancel = c;
  const Session cut = stories.session(matcher_of(stories.grammar), 9);
  REQUIRE_FAILS(QINFER_E_CANCELLED, "", qinfer_generate(cut.get(), &options, nullptr, &err));
  stories.require_fulfilled(Stories::generate(cut));
}

TEST_CASE("grammar: a vocabulary that is not the model's ends the call and says why", "[grammar]") {
  const Stories stories;
  const SmallVocab small;
  const Grammar grammar = compile(small.vocab, QINFER_GRAMMAR_REGEX, "a+");
  const Matcher matcher = matcher_of(grammar);
  const Session session = stories.session(matcher, 1);
  qinfer_session* s = session.get();
  qinfer_token token = 0;
  REQUIRE_OK(qinfer_eval(&s, 1, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_CANCELLED, "", qinfer_session_sample(s, &token, &err));
  REQUIRE(flags_of(matcher) == QINFER_GRAMMAR_FAILED);
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "the model's logits are", qinfer_grammar_matcher_error(matcher.get(), &err));
}

TEST_CASE("a schema begins where the content of a reply that reasons begins", "[grammar]") {
  Stories stories;
  const std::uint64_t seed = GENERATE(1, 2, 3, 4);
  const bool reasons = GENERATE(true, false);
  auto chat = sized<qinfer_chat_options>();
  chat.template_text = "{{ messages[0].content }}<think>\n";
  auto options = sized<qinfer_reply_options>();
  options.chat = &chat;
  options.flags = reasons ? 0 : QINFER_REPLY_NO_REASONING;
  qinfer_reply* reply = nullptr;
  REQUIRE_OK(qinfer_reply_create(stories.model.get(), R"({"messages": [{"content": "Hi"}]})", SIZE_MAX, &options,
                                 &reply, &err));
  const std::unique_ptr<qinfer_reply, Freer<qinfer_reply_free>> owner(reply);
  const Session session = stories.session(matcher_of(stories.grammar), seed);
  auto generation = sized<qinfer_generate_options>();
  generation.max_tokens = 300;
  generation.reply = reply;
  generation.max_reasoning_tokens = 12;
  auto result = sized<qinfer_generate_result>();
  REQUIRE_OK(qinfer_generate(session.get(), &generation, &result, &err));
  REQUIRE_OK(qinfer_reply_finish(reply, &err));
  std::string content, reasoning;
  auto part = sized<qinfer_reply_part>();
  for (;;) {
    REQUIRE_OK(qinfer_reply_next(reply, &part, &err));
    if (part.kind == QINFER_PART_NONE) break;
    (part.kind == QINFER_PART_CONTENT ? content : reasoning).append(part.text, part.text_len);
  }
  CAPTURE(content, reasoning);
  stories.require_fulfilled(content);
  CHECK(reasoning.empty() != reasons);
  CHECK((result.reasoning_tokens > 12) == reasons);
}
