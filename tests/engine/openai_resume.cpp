// A choice that goes on in another session: the same answer, wherever it was when it was left.
#include <nlohmann/json.hpp>

#include <regex>

#include "engine/openai_support.h"
#include "support/checkpoint_writer.h"

using namespace qinfer::test;
using Json = nlohmann::json;

namespace {

/// The first `n` steps of a choice; returns how many there were.
std::size_t steps(const OpenAiAnswer& answer, const DrawnChoice& generation, std::size_t n, std::int32_t& ended) {
  std::size_t done = 0;
  for (; done < n && ended == 0; ++done) step(answer, 0, generation, ended);
  return done;
}

std::vector<qi::Token> prompt_of(const OpenAiRequest& request) {
  std::vector<qi::Token> tokens(1024);
  std::size_t n = 0;
  REQUIRE_OK(qinfer_openai_request_tokens(request.get(), 0, tokens.data(), tokens.size(), &n, &err));
  tokens.resize(n);
  return tokens;
}

DrawnChoice resumed(const OpenAiRequest& request, qi::Session& session) {
  qinfer_generation* out = nullptr;
  REQUIRE_OK(qinfer_openai_generation_resume(request.get(), 0, session.native(), nullptr, &out, &err));
  return DrawnChoice(out);
}

/// Keeps what it is shown, and refuses tokens once it has seen `most`. Copies keep it in the same place.
class Seen final : public qi::LogitsHook {
 public:
  explicit Seen(std::vector<qi::Token>& out, std::size_t most = SIZE_MAX) : out_(out), most_(most) {}
  bool apply(float*, std::uint32_t) override { return true; }
  bool accept(qi::Token token) override {
    if (out_.size() == most_) return false;
    out_.push_back(token);
    return true;
  }
  std::unique_ptr<qi::LogitsHook> clone() const override { return std::make_unique<Seen>(out_, most_); }

 private:
  std::vector<qi::Token>& out_;
  std::size_t most_;
};

/// Bytes of an answer without how much of the prompt was cached: from a snapshot all of it is.
std::string but_for_cached(const std::string& bytes) {
  return std::regex_replace(bytes, std::regex("\"cached_tokens\":[0-9]+"), "\"cached_tokens\":0");
}

struct Left {
  std::string bytes;
  std::size_t n_drawn = 0;
};

/// All bytes of an answer that is left after n_before steps, and gone on with from a snapshot (or where it is NULL from
/// tokens alone) by another cache of the model.
Left answered_in_two(const qi::Model& model, std::int32_t kind, const Json& json, std::size_t n_before,
                     const char* snapshot) {
  Left left;
  std::vector<qi::Token> tokens;
  std::int32_t ended = 0;
  const OpenAiRequest request = request_of(model, kind, json);
  {
    qi::KvCache cache(model);
    qi::Session session(cache);
    const OpenAiAnswer answer = answer_to(request);
    const DrawnChoice generation = choice_of(request, 0, session);
    REQUIRE_OK(qinfer_openai_answer_begin(answer.get(), 0, generation.get(), &ended, &err));
    left.n_drawn = steps(answer, generation, n_before, ended);
    left.bytes = but_for_cached(take(answer));
    tokens = session.tokens();
    if (snapshot != nullptr) session.save(snapshot);
  }
  qi::KvCache cache(model);
  qi::Session session = snapshot != nullptr ? qi::Session::load(cache, snapshot) : qi::Session(cache);
  if (snapshot == nullptr) session.append(tokens);
  const OpenAiAnswer answer = answer_to(request);
  const DrawnChoice generation = resumed(request, session);
  ended = 0;
  REQUIRE_OK(qinfer_openai_answer_begin(answer.get(), 0, generation.get(), &ended, &err));
  const std::uint64_t evaluated = session.metrics().evals;
  CHECK(steps(answer, generation, left.n_drawn, ended) == left.n_drawn);
  CHECK(session.metrics().evals == evaluated);
  CHECK(but_for_cached(take(answer)) == left.bytes);
  while (ended == 0) step(answer, 0, generation, ended);
  left.bytes += but_for_cached(take(answer));
  return left;
}

}  // namespace

TEST_CASE("OpenAI: an answer that goes on elsewhere has the bytes of one that stays", "[openai]") {
  const qi::Model model = qi::Model::load(kChatModel);
  const ModelDir directory;  // for its folder
  const std::string snapshot = directory.file("snapshot");
  const bool streams = GENERATE(true, false);
  const double temperature = GENERATE(0.0, 1.3);
  const Json json = {{"messages", user("Tell me of the sea.")},
                     {"max_completion_tokens", 60},
                     {"seed", 11},
                     {"temperature", temperature},
                     {"stream", streams},
                     {"stop", {"zzzz"}}};
  const std::string whole = but_for_cached(answered(model, QINFER_OPENAI_CHAT, json));
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{33}, std::size_t{1000}}) {
    CHECK(answered_in_two(model, QINFER_OPENAI_CHAT, json, n, snapshot.c_str()).bytes == whole);
    CHECK(answered_in_two(model, QINFER_OPENAI_CHAT, json, n, nullptr).bytes == whole);
  }
}

TEST_CASE("OpenAI: reasoning whose end was forced goes on elsewhere", "[openai]") {
  const qi::Model model = qi::Model::load(kChatModel);
  const Json json = {{"messages", user("Is the sea blue?")},
                     {"max_completion_tokens", 40},
                     {"seed", 3},
                     {"temperature", 1.0},
                     {"max_reasoning_tokens", 4},
                     {"stream", true}};
  const std::string whole = answered(model, QINFER_OPENAI_CHAT, json);
  for (std::size_t n = 0; n < 12; ++n)
    CHECK(answered_in_two(model, QINFER_OPENAI_CHAT, json, n, nullptr).bytes == whole);
}

TEST_CASE("OpenAI: what was drawn elsewhere is shown to the hook of the session", "[openai]") {
  const qi::Model model = qi::Model::load(kStoriesModel);
  const Json json = {{"prompt", "Once upon a time"}, {"max_tokens", 12}};
  const OpenAiRequest request = request_of(model, QINFER_OPENAI_COMPLETION, json);
  qi::KvCache cache(model);
  qi::Session first(cache), second(cache);
  std::int32_t ended = 0;
  const OpenAiAnswer answer = answer_to(request), again = answer_to(request);
  const DrawnChoice begun = choice_of(request, 0, first);
  steps(answer, begun, 5, ended);
  std::vector<qi::Token> seen;
  second.set_logits_hook(std::make_unique<Seen>(seen));
  second.append(first.tokens());
  const DrawnChoice gone_on = resumed(request, second);
  REQUIRE_OK(qinfer_openai_answer_begin(again.get(), 0, gone_on.get(), &ended, &err));
  steps(again, gone_on, 7, ended);
  const std::vector<qi::Token> tokens = second.tokens();
  CHECK(seen == std::vector<qi::Token>(tokens.end() - 7, tokens.end()));
}

TEST_CASE("OpenAI: the hook of a fork is not shown what its original was shown", "[openai]") {
  const qi::Model model = qi::Model::load(kStoriesModel);
  const OpenAiRequest request =
      request_of(model, QINFER_OPENAI_COMPLETION, {{"prompt", "Once upon a time"}, {"max_tokens", 12}});
  qi::KvCache cache(model);
  qi::Session first(cache);
  std::vector<qi::Token> seen;
  first.set_logits_hook(std::make_unique<Seen>(seen));
  std::int32_t ended = 0;
  const OpenAiAnswer answer = answer_to(request), again = answer_to(request);
  const DrawnChoice begun = choice_of(request, 0, first);
  steps(answer, begun, 5, ended);
  CHECK(seen.size() == 5);
  qi::Session second = first.fork();
  const DrawnChoice gone_on = resumed(request, second);
  REQUIRE_OK(qinfer_openai_answer_begin(again.get(), 0, gone_on.get(), &ended, &err));
  steps(again, gone_on, 7, ended);
  const std::vector<qi::Token> tokens = second.tokens();
  CHECK(seen == std::vector<qi::Token>(tokens.end() - 7, tokens.end()));
}

TEST_CASE("OpenAI: a hook that refuses what was drawn elsewhere, and tokens that are taken back too early",
          "[openai][bad]") {
  const qi::Model model = qi::Model::load(kStoriesModel);
  const OpenAiRequest request =
      request_of(model, QINFER_OPENAI_COMPLETION, {{"prompt", "Once upon a time"}, {"max_tokens", 12}});
  const std::size_t n_prompt = prompt_of(request).size();
  qi::KvCache cache(model);
  qi::Session first(cache), second(cache);
  std::int32_t ended = 0;
  const OpenAiAnswer answer = answer_to(request), again = answer_to(request);
  const DrawnChoice begun = choice_of(request, 0, first);
  steps(answer, begun, 5, ended);
  std::vector<qi::Token> seen;
  second.set_logits_hook(std::make_unique<Seen>(seen, 3));
  second.append(first.tokens());
  const DrawnChoice gone_on = resumed(request, second);
  REQUIRE_OK(qinfer_openai_answer_begin(again.get(), 0, gone_on.get(), &ended, &err));
  steps(again, gone_on, 3, ended);
  for (const std::size_t n : {std::size_t{0}, std::size_t{2}})
    REQUIRE_FAILS(QINFER_E_STATE, "2 tokens that were drawn before are still to be given",
                  qinfer_generation_take_back(gone_on.get(), n, nullptr, &err));
  CHECK(second.tokens() == first.tokens());
  auto info = qi::options<qinfer_token_info>();
  const std::string refused = "refused token " + std::to_string(n_prompt + 3) + " of those drawn before";
  REQUIRE_FAILS(QINFER_E_CANCELLED, refused.c_str(), qinfer_generation_next(gone_on.get(), &info, &err));
  CHECK(second.tokens() == first.tokens());
}

TEST_CASE("OpenAI: no more of a prompt is cached than it has", "[openai]") {
  const qi::Model model = qi::Model::load(kChatModel);
  const OpenAiRequest request = request_of(
      model, QINFER_OPENAI_CHAT,
      {{"messages", user("Tell me of the sea.")}, {"max_completion_tokens", 120}, {"logit_bias", {{"1273", -100}}}});
  auto options = qi::options<qinfer_kv_cache_options>();
  options.flags = QINFER_CACHE_PREFIX;
  options.budget_blocks = 32;
  qi::KvCache cache(model, options);
  std::vector<qi::Token> tokens;
  std::int32_t ended = 0;
  {
    qi::Session first(cache);
    const OpenAiAnswer answer = answer_to(request);
    const DrawnChoice begun = choice_of(request, 0, first);
    REQUIRE_OK(qinfer_openai_answer_begin(answer.get(), 0, begun.get(), &ended, &err));
    REQUIRE(steps(answer, begun, 100, ended) == 100);
    tokens = first.tokens();
  }
  qi::Session second(cache);
  second.append(tokens);
  const OpenAiAnswer answer = answer_to(request);
  const DrawnChoice gone_on = resumed(request, second);
  REQUIRE_OK(qinfer_openai_answer_begin(answer.get(), 0, gone_on.get(), &ended, &err));
  while (ended == 0) step(answer, 0, gone_on, ended);
  CHECK(second.metrics().cached_tokens > prompt_of(request).size());
  const Json usage = Json::parse(take(answer)).at("usage");
  CHECK(usage.at("prompt_tokens") == prompt_of(request).size());
  CHECK(usage.at("prompt_tokens_details").at("cached_tokens") == prompt_of(request).size());
}

TEST_CASE("OpenAI: a session that the choice cannot go on with is refused", "[openai][bad]") {
  const qi::Model model = qi::Model::load(kStoriesModel);
  qi::KvCache cache(model);
  qi::Session session(cache);
  qinfer_generation* out = nullptr;
  const auto refuses = [&](const OpenAiRequest& request, qinfer_status status, const char* text) {
    REQUIRE_FAILS(status, text,
                  qinfer_openai_generation_resume(request.get(), 0, session.native(), nullptr, &out, &err));
  };
  const OpenAiRequest request =
      request_of(model, QINFER_OPENAI_COMPLETION, {{"prompt", "Once upon a time"}, {"max_tokens", 2}});
  refuses(request, QINFER_E_INVALID_ARGUMENT, "the session's 0 tokens do not begin with the prompt's");
  session.append(prompt_of(request));
  session.append(std::vector<qi::Token>{5, 6, 7});
  refuses(request, QINFER_E_INVALID_ARGUMENT, "the session has 3 tokens after the prompt, and 2 are asked for");
  session.set_tokens({5, 6, 7, 8, 9, 10, 11, 12});
  refuses(request, QINFER_E_INVALID_ARGUMENT, "do not begin with the prompt's");
  const OpenAiRequest logprobs =
      request_of(model, QINFER_OPENAI_COMPLETION, {{"prompt", "Once upon a time"}, {"logprobs", 1}});
  refuses(logprobs, QINFER_E_UNSUPPORTED, "log probabilities");
  const OpenAiRequest mirostat =
      request_of(model, QINFER_OPENAI_COMPLETION, {{"prompt", "Once upon a time"}, {"mirostat", 2}});
  refuses(mirostat, QINFER_E_UNSUPPORTED, "mirostat");
  CHECK(out == nullptr);
}
