// Trained models tell their stories: ours in examples/models, and stories260k, which others trained.
#include <qinfer/qinfer.hpp>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#ifdef QINFER_HAVE_AMX
#include "support/amx_runtime.h"
#endif
#include <nlohmann/json.hpp>
#include "support/catch.h"
#include "support/skip.h"
#include "support/targets.h"
#include "support/test_data.h"

namespace {

using Json = nlohmann::json;

Json read_json(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

qi::Model load_on(const std::string& path, const std::string& target) {
  auto options = qi::options<qinfer_runtime_options>();
  options.cpu_target = target.c_str();
  options.n_threads = 1;
  qi::Runtime runtime(options);
  return qi::Model::load(runtime, path);
}

qi::Model load_exact(const std::string& path, std::uint32_t threads) {
  auto options = qi::options<qinfer_runtime_options>();
  options.flags = QINFER_RUNTIME_EXACT;
  options.n_threads = threads;
  qi::Runtime runtime(options);
  return qi::Model::load(runtime, path);
}

struct Story {
  std::vector<std::int32_t> ids;  ///< new tokens
  std::string text;
  std::int32_t finish;
};

Story tell(const qi::Model& model, const std::vector<std::int32_t>& prompt, std::uint32_t max_tokens) {
  qi::KvCache cache(model);
  qi::Session session(cache);
  session.append(prompt);
  Story story;
  qi::GenerateOptions request;
  request.max_tokens = max_tokens;
  request.on_token = [&story](std::string_view text, qinfer_token) {
    story.text += text;
    return true;
  };
  story.finish = session.generate(request).finish;
  const auto tokens = session.tokens();
  story.ids.assign(tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end());
  return story;
}

const std::string kTinyStories = QINFER_TEST_MODELS "/tiny-stories";
const std::string kTinyStoriesMoe = QINFER_TEST_MODELS "/tiny-stories-moe";
constexpr char kStories260k[] = "stories260k";  ///< of the test data

std::string stories260k() { return qinfer::test::find_test_data(kStories260k).string(); }

}  // namespace

TEST_CASE("tiny-stories and its mixture of experts tell the stories that transformers computes", "[stories]") {
  const std::string folder = GENERATE(kTinyStories, kTinyStoriesMoe);
  INFO(folder);
  const Json expected = read_json(folder + "/expected.json");
  for (const std::uint32_t threads : {1u, 2u}) {
    const qi::Model model = load_exact(folder, threads);
    const auto prompt = model.tokenize(expected["prompt"].get<std::string>());
    CHECK(prompt == expected["prompt_ids"].get<std::vector<std::int32_t>>());
    const Story story = tell(model, prompt, 0);
    CHECK(story.ids == expected["greedy_ids"].get<std::vector<std::int32_t>>());
    CHECK(story.finish == QINFER_FINISH_END);
    CHECK(story.text == expected["text"].get<std::string>());
  }
}

namespace {

struct LogLoss {
  double total = 0;
  std::size_t tokens = 0;
  double perplexity() const { return std::exp(total / static_cast<double>(tokens)); }
};

/// Adds the loss of all tokens of a text after the first.
void add_loss(const qi::Model& model, qi::KvCache& cache, const std::vector<std::int32_t>& ids, LogLoss& loss) {
  const std::size_t n_vocab = model.info().n_vocab;
  auto options = qi::options<qinfer_session_options>();
  options.max_logits = static_cast<std::uint32_t>(ids.size());
  qi::Session session(cache, options);
  session.append(ids);
  auto eval_options = qi::options<qinfer_eval_options>();
  eval_options.keep_logits = options.max_logits;
  session.eval(eval_options);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    const float* row = session.logits(ids.size() - 1 - i);
    double max = row[0], sum = 0;
    for (std::size_t v = 0; v < n_vocab; ++v) max = std::max<double>(max, row[v]);
    for (std::size_t v = 0; v < n_vocab; ++v) sum += std::exp(row[v] - max);
    loss.total += std::log(sum) + max - row[ids[i + 1]];
    ++loss.tokens;
  }
}

/// Each held-out story alone as <|endoftext|> story <|endoftext|>.
LogLoss heldout_loss(const qi::Model& model, std::size_t& stories) {
  std::ifstream file(kTinyStories + "/heldout.txt");
  LogLoss loss;
  qi::KvCache cache(model);
  stories = 0;
  for (std::string line; std::getline(file, line); ++stories) {
    for (std::size_t at = 0; (at = line.find("\\n", at)) != line.npos;) line.replace(at, 2, "\n");
    add_loss(model, cache, model.tokenize("<|endoftext|>" + line + "<|endoftext|>", QINFER_TEXT_PARSE_SPECIAL), loss);
  }
  return loss;
}

/// What rounding weights and sums to f16, or both to bf16, may cost, relative to f32: half a percent would be noticed,
/// these are far less.
double allowed_loss(const std::string& target) { return qinfer::test::sums_f16_in_f16(target) ? 2e-3 : 1e-3; }

}  // namespace

TEST_CASE("perplexity of our models on held-out stories equals that of transformers", "[stories]") {
  // The mean of 26,000 terms whose f32 errors are under 1e-4 each: 1e-4 relative is generous for agreement and 100
  // times under a real difference.
  const std::string folder = GENERATE(kTinyStories, kTinyStoriesMoe);
  INFO(folder);
  const Json expected = read_json(folder + "/expected.json")["heldout"];
  std::size_t stories = 0;
  const LogLoss exact = heldout_loss(load_exact(folder, 1), stories);
  CHECK(stories == expected["stories"].get<std::size_t>());
  CHECK(exact.tokens == expected["tokens"].get<std::size_t>());
  CHECK(exact.perplexity() == Approx(expected["perplexity"].get<double>()).epsilon(1e-4));
  for (const std::string& target : qinfer::test::usable_targets()) {
    if (qinfer::test::is_portable(target)) continue;
    const double perplexity = heldout_loss(load_on(folder, target), stories).perplexity();
    INFO(target << ": " << perplexity << ", exact " << exact.perplexity());
    CHECK(std::fabs(perplexity / exact.perplexity() - 1) < allowed_loss(target));
  }
}

TEST_CASE("perplexity of stories260k hardly changes with f16 weights and f16 sums", "[stories][data]") {
  SKIP_UNLESS_TEST_DATA(kStories260k);
  SKIP_UNLESS_CPU_HAS(qinfer::test::usable_targets().size() > 1, "kernel set but the reference");
  const auto ids = read_json(stories260k() + "/greedy_expected.json")["greedy_ids"].get<std::vector<std::int32_t>>();
  const auto loss_of = [&](const qi::Model& model) {
    LogLoss loss;
    qi::KvCache cache(model);
    add_loss(model, cache, ids, loss);
    return loss.perplexity();
  };
  const double exact = loss_of(load_exact(stories260k(), 2));
  for (const std::string& target : qinfer::test::usable_targets()) {
    if (qinfer::test::is_portable(target)) continue;
    const double perplexity = loss_of(load_on(stories260k(), target));
    INFO(target << ": " << perplexity << ", exact " << exact);
    CHECK(std::fabs(perplexity / exact - 1) < allowed_loss(target));
  }
}

#ifdef QINFER_HAVE_AMX
TEST_CASE("perplexity of stories260k on emulated AMX tiles is within half a percent", "[stories][amx][data]") {
  SKIP_UNLESS_TEST_DATA(kStories260k);
  SKIP_UNLESS_CPU_HAS(qinfer::test::can_emulate_amx(), "AVX-512");
  const auto ids = read_json(stories260k() + "/greedy_expected.json")["greedy_ids"].get<std::vector<std::int32_t>>();
  const auto loss_of = [&](const qi::Model& model) {
    LogLoss loss;
    qi::KvCache cache(model);
    add_loss(model, cache, ids, loss);
    return loss.perplexity();
  };
  qinfer::test::EmulatedRuntime runtime;
  const double exact = loss_of(load_exact(stories260k(), 2)),
               emulated = loss_of(qi::Model::load(runtime, stories260k()));
  INFO(emulated << ", exact " << exact);
  CHECK(std::fabs(emulated / exact - 1) < 5e-3);
}
#endif

TEST_CASE("stories260k tells the published story", "[stories][data]") {
  SKIP_UNLESS_TEST_DATA(kStories260k);
  const Json expected = read_json(stories260k() + "/greedy_expected.json");
  const auto ids = expected["greedy_ids"].get<std::vector<std::int32_t>>();
  const qi::Model model = load_exact(stories260k(), 2);
  const Story story = tell(model, {model.info().bos_token}, static_cast<std::uint32_t>(ids.size()) - 1);
  CHECK(story.ids == std::vector<std::int32_t>(ids.begin() + 1, ids.end()));
  CHECK(story.text == expected["text"].get<std::string>());
}

TEST_CASE("stop texts end the output before them, wherever tokens are cut", "[stories]") {
  const qi::Model model = load_exact(kTinyStories, 1);
  const auto prompt = model.tokenize("Once upon a time");
  const std::string full = tell(model, prompt, 0).text;
  for (const std::string stop : {"named", " named L", "a little girl named", ".", "She was a very kind", "\n\n"}) {
    REQUIRE(full.find(stop) != full.npos);
    qi::KvCache cache(model);
    qi::Session session(cache);
    session.append(prompt);
    qi::GenerateOptions request;
    request.stop = {"never in any story", stop};
    std::string text;
    request.on_token = [&text](std::string_view piece, qinfer_token) {
      text += piece;
      return true;
    };
    CHECK(session.generate(request).finish == QINFER_FINISH_STOP);
    CHECK(text == full.substr(0, full.find(stop)));
  }
  // A text that only begins like a stop text comes out whole.
  qi::KvCache cache(model);
  qi::Session session(cache);
  session.append(prompt);
  qi::GenerateOptions request;
  request.stop = {"named Lilyyyy", "kind girl!", "Once more once"};
  CHECK(session.generate_text(request) == full);
}

TEST_CASE("text that is held back until the end comes without a token", "[stories]") {
  const qi::Model model = load_exact(kTinyStories, 2);
  const auto prompt = model.tokenize("Once upon a time");
  const Story story = tell(model, prompt, 3);  // ", there was"
  qi::KvCache cache(model);
  qi::Session session(cache);
  session.append(prompt);
  qi::GenerateOptions request;
  request.max_tokens = 3;
  request.stop = {" was never so"};
  std::vector<std::int32_t> tokens;
  std::string text;
  request.on_token = [&](std::string_view piece, qinfer_token token) {
    tokens.push_back(token);
    text += piece;
    return true;
  };
  REQUIRE(session.generate(request).finish == QINFER_FINISH_LENGTH);
  std::vector<std::int32_t> expected = story.ids;
  expected.push_back(-1);
  REQUIRE(tokens == expected);
  REQUIRE(text == story.text);
}

TEST_CASE("sampling with a seed is repeatable and survives truncation", "[stories]") {
  const qi::Model model = load_exact(kTinyStories, 2);
  qi::KvCache cache(model);
  qi::Session session(cache);
  auto options = qi::options<qinfer_sampler_options>();
  options.temperature = 1.0f;
  options.top_k = 40;
  options.seed = 42;
  session.set_sampler(options);
  const auto prompt = model.tokenize("Once upon a time");
  session.append(prompt);
  qi::GenerateOptions request;
  request.max_tokens = 60;
  session.generate(request);
  const auto first = session.tokens();
  session.truncate(30);
  request.max_tokens = static_cast<std::uint32_t>(first.size()) - 30;
  session.generate(request);
  CHECK(session.tokens() == first);
  session.truncate(0);
  session.append(prompt);
  options.seed = 43;
  session.set_sampler(options);
  request.max_tokens = 60;
  session.generate(request);
  CHECK(session.tokens() != first);
}
