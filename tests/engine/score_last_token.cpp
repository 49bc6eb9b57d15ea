// Decoders with a classifier over their last token, with what transformers computes (fixtures/classifier_models):
// Qwen3ForSequenceClassification and its kind.
#include <qinfer/qinfer.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "engine/eval.h"
#include "engine/session.h"
#include "support/c_api.h"
#include "support/catch.h"
#include "support/model_fixtures.h"
#include "support/targets.h"
#include "support/word_tokenizer.h"

namespace {

using namespace qinfer;
using namespace qinfer::test;
namespace fs = std::filesystem;
using nlohmann::json;

const std::string kFolder = QINFER_TEST_FIXTURES "/classifier_models/";

struct Expected {
  std::vector<std::int32_t> ids;
  std::vector<float> scores, scores_of_17, spread;
};

Expected expected_of(const std::string& name) {
  const auto file = platform::open_path(kFolder + name + "/expected.safetensors");
  REQUIRE(file.ok());
  std::string header(file.value().size, '\0');
  REQUIRE(platform::read_at(file.value(), 0, std::as_writable_bytes(std::span(header))).ok());
  const auto parsed = formats::parse_safetensors_header(header, file.value().size, "expected");
  REQUIRE(parsed.ok());
  return {models::read_tensor<std::int32_t>(file.value(), parsed.value(), "scores_ids"),
          models::read_tensor<float>(file.value(), parsed.value(), "scores"),
          models::read_tensor<float>(file.value(), parsed.value(), "scores_short"),
          models::read_tensor<float>(file.value(), parsed.value(), "scores_spread")};
}

std::unique_ptr<engine::Session> load(const std::string& path, const std::string& target, bool exact) {
  engine::RuntimeOptions options;
  options.n_threads = 2;
  options.cpu_target = target;
  options.exact = exact;
  auto runtime = engine::Runtime::create(options);
  REQUIRE(runtime.ok());
  auto model = engine::Model::load(runtime.value(), path, {}, {});
  INFO((model.ok() ? std::string() : std::string(model.take_status().message())));
  REQUIRE(model.ok());
  auto cache = engine::KvCache::create(model.value(), {});
  REQUIRE(cache.ok());
  auto session = engine::Session::create(cache.value(), engine::SessionOptions());
  REQUIRE(session.ok());
  return std::move(session.value());
}

/// Evaluated in pieces of `step` tokens.
std::vector<float> classified(engine::Session& session, std::span<const std::int32_t> ids, std::size_t step) {
  REQUIRE(session.truncate(0).ok());
  for (std::size_t at = 0; at < ids.size(); at += step) {
    REQUIRE(session.append(ids.subspan(at, std::min(step, ids.size() - at))).ok());
    REQUIRE(engine::eval(session, {}).ok());
  }
  std::vector<float> out(session.model().spec().classifier.n_labels);
  REQUIRE(session.classify(out).ok());
  return out;
}

/// `bound`: of a difference.
void check_close(const std::vector<float>& got, const std::vector<float>& wanted, double bound) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::fabs(double{got[i]} - wanted[i]) <= bound);
}

double largest_of(const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(double{value}));
  return largest;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A copy of a fixture with a tokenizer whose words are its ids.
struct Ranker : ModelDir {
  explicit Ranker(const std::string& name) : config(json::parse(text_of(kFolder + name + "/config.json"))) {
    fs::copy(kFolder + name, path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    write("tokenizer.json", word_tokenizer(config["vocab_size"]).dump());
  }
  void change(const std::string& key, const json& value) {
    config[key] = value;
    write("config.json", config.dump());
  }
  json config;
};

/// The tokens of a pair, and that a score is made of them.
std::vector<qi::Token> tokens_of(const qi::Model& model, const qinfer_score_options& options) {
  qi::KvCache cache(model);
  qi::Session session(cache);
  CHECK(session.set_pair("w1 w2", "w3", options) == 0);
  session.eval();
  CHECK(std::isfinite(session.score(options)));
  return session.tokens();
}

}  // namespace

TEST_CASE("a classifier over a decoder's last token gives transformers' numbers", "[score]") {
  // 1e-4 of the largest number as for logits. Where products are rounded to bf16 a state is off by several layers of
  // 2^-8 each, as much where a score happens to be small, so that 2^-5 is of their spread.
  for (const char* name : {"qwen3-f32", "qwen2-bf16", "llama-f32", "gemma2-f32", "gemma3-f32"}) {
    const Expected expected = expected_of(name);
    for (const bool exact : {true, false})
      for (const std::string& target : usable_targets(exact)) {
        INFO(name << " on " << target << (exact ? " exact" : ""));
        const auto session = load(kFolder + name, target, exact);
        const std::span<const std::int32_t> ids(expected.ids);
        const std::vector<float> whole = classified(*session, ids, ids.size());
        const double rounds = 0x1p-5 * expected.spread.at(0);
        check_close(whole, expected.scores, exact ? 1e-4 * largest_of(expected.scores) : rounds);
        check_close(classified(*session, ids.first(17), 17), expected.scores_of_17,
                    exact ? 1e-4 * largest_of(expected.scores_of_17) : rounds);
        for (const std::size_t step : {1, 7, 32}) CHECK(classified(*session, ids, step) == whole);
        CHECK(classified(*session, ids, ids.size()) == whole);
        auto fork = session->fork();
        REQUIRE(fork.ok());
        std::vector<float> out(whole.size());
        REQUIRE(fork.value()->classify(out).ok());
        CHECK(out == whole);
      }
  }
}

TEST_CASE("the one label of a decoder's classifier is the score of a pair", "[score]") {
  const Ranker dir("qwen3-f32");
  const Expected expected = expected_of("qwen3-f32");
  const double wanted = expected.scores.at(0);
  const qi::Model model = models::load_exact(dir.path());
  CHECK(model.info().scoring == QINFER_SCORING_CLASSIFIER);
  qi::KvCache cache(model);
  qi::Session session(cache);
  CHECK(session.set_pair(words(expected.ids.data(), 20), words(expected.ids.data() + 20, 30)) == 0);
  CHECK(session.tokens() == expected.ids);
  session.eval();
  auto raw = qi::options<qinfer_score_options>();
  raw.flags = QINFER_SCORE_RAW;
  CHECK(std::fabs(session.score(raw) - wanted) < 1e-4 * std::fabs(wanted));
  CHECK(std::fabs(session.score() - 1 / (1 + std::exp(-wanted))) < 1e-4);
  CHECK(qinfer_session_logits(session.native(), 0) == nullptr);
}

TEST_CASE("a decoder's classifier reads a pair in a template", "[score]") {
  const Ranker dir("qwen3-f32");
  auto options = qi::options<qinfer_score_options>();
  {
    const qi::Model model = models::load_exact(dir.path());
    CHECK(tokens_of(model, options) == std::vector<qi::Token>{1, 2, 3});
    options.template_text = "w10 {query} w11 {document} w12";
    CHECK(tokens_of(model, options) == std::vector<qi::Token>{10, 1, 2, 11, 3, 12});
  }
  options.template_text = nullptr;
  // A template that writes conversations alone is none for pairs; one that writes both roles is.
  const std::string one_role = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}";
  dir.write("chat_template.jinja", one_role);
  CHECK(tokens_of(models::load_exact(dir.path()), options) == std::vector<qi::Token>{1, 2, 3});
  dir.write("chat_template.jinja", "{{ raise_exception('no such role') }}");
  CHECK(tokens_of(models::load_exact(dir.path()), options) == std::vector<qi::Token>{1, 2, 3});
  dir.write("chat_template.jinja",
            "{% for m in messages %}{% if m.role == 'system' %}w20 {{ m.content }} {% elif m.role == 'query' %}w21 "
            "{{ m.content }} {% else %}w22 {{ m.content }} w23{% endif %}{% endfor %}");
  const qi::Model model = models::load_exact(dir.path());
  CHECK(tokens_of(model, options) == std::vector<qi::Token>{21, 1, 2, 22, 3, 23});
  options.instruction = "w9";
  CHECK(tokens_of(model, options) == std::vector<qi::Token>{20, 9, 21, 1, 2, 22, 3, 23});
}

TEST_CASE("files of a decoder's classifier say what is wrong with them", "[score]") {
  Ranker dir("qwen3-f32");
  dir.change("id2label", {{"0", "a"}, {"1", "b"}});
  REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "score.weight", dir);
  dir.change("id2label", "none");
  REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "\"id2label\" must be an object", dir);
  dir.change("id2label", {{"0", "a"}});
  dir.change("architectures", {"Qwen4ForSequenceClassification"});
  REQUIRE_LOAD_FAILS(QINFER_E_UNSUPPORTED, "\"architectures\" names Qwen4ForSequenceClassification", dir);
  dir.change("architectures", {"Qwen3ForSequenceClassification"});
  dir.change("sentence_transformers", {{"activation_fn", "torch.nn.ReLU"}});
  REQUIRE_LOAD_FAILS(QINFER_E_UNSUPPORTED, "\"activation_fn\" is \"torch.nn.ReLU\"", dir);

  const Ranker three("qwen2-bf16");
  const qi::Model labels = qi::Model::load(three.path());
  qi::KvCache cache(labels);
  qi::Session session(cache);
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "has 3 labels, a score needs one",
                qinfer_session_set_pair(session.native(), "w1", 2, "w2", 2, nullptr, nullptr, &err));
}

TEST_CASE("a decoder's classifier is packed, and not written as GGUF", "[score]") {
  const Ranker dir("gemma2-f32");
  const ModelDir out;
  qi::Runtime runtime;
  REQUIRE_OK(qinfer_model_pack(runtime.native(), dir.path().c_str(), nullptr, out.file("packed").c_str(), &err));
  const auto score = [](const std::string& path) {
    const qi::Model model = qi::Model::load(path);
    qi::KvCache cache(model);
    qi::Session session(cache);
    session.set_pair("w1 w2", "w3");
    session.eval();
    return session.score();
  };
  CHECK(score(out.file("packed")) == score(dir.path()));
  REQUIRE_FAILS(
      QINFER_E_UNSUPPORTED, "no classifier of a decoder's last token",
      qinfer_model_export_gguf(runtime.native(), dir.path().c_str(), nullptr, out.file("gguf").c_str(), &err));
}
