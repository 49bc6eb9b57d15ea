// Encoders of BERT's kind beyond their embeddings, which models_hugging_face.cpp compares with transformers': what
// their classifiers give for a pair of texts, the types of tokens, and buckets of distances.
#include <qinfer/qinfer.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "engine/eval.h"
#include "engine/session.h"
#include "model/distances.h"
#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/model_fixtures.h"
#include "support/targets.h"

using namespace qinfer;
using namespace qinfer::test::models;

namespace {

struct Scores {
  std::vector<std::int32_t> ids;
  std::size_t begin = 0;  ///< of the second text
  std::vector<float> wanted;
};

Scores read_scores(const std::string& folder) {
  auto directory = platform::Directory::open(folder);
  REQUIRE(directory.ok());
  auto file = directory.value().open_file("expected.safetensors");
  REQUIRE(file.ok());
  std::string prefix(file.value().size, '\0');
  REQUIRE(platform::read_at(file.value(), 0, std::as_writable_bytes(std::span(prefix))).ok());
  auto header = formats::parse_safetensors_header(prefix, file.value().size, "expected.safetensors");
  REQUIRE(header.ok());
  Scores scores;
  scores.ids = read_tensor<std::int32_t>(file.value(), header.value(), "scores_ids");
  scores.begin =
      static_cast<std::size_t>(read_tensor<std::int32_t>(file.value(), header.value(), "scores_begin").at(0));
  scores.wanted = read_tensor<float>(file.value(), header.value(), "scores");
  return scores;
}

struct Loaded {
  std::shared_ptr<engine::KvCache> cache;
  std::unique_ptr<engine::Session> session;
};

Loaded load(const std::string& path, const std::string& target, bool exact) {
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
  return {std::move(cache.value()), std::move(session.value())};
}

/// The pair of a fixture through its classifier.
std::vector<float> classified(engine::Session& session, const Scores& scores) {
  const std::span<const std::int32_t> ids(scores.ids);
  REQUIRE(session.append(ids.first(scores.begin)).ok());
  REQUIRE(session.append(ids.subspan(scores.begin), scores.begin < ids.size() ? 1 : 0).ok());
  REQUIRE(engine::eval(session, {}).ok());
  std::vector<float> out(session.model().spec().classifier.n_labels);
  REQUIRE(session.classify(out).ok());
  return out;
}

const std::string kModels = QINFER_TEST_FIXTURES "/models/";

}  // namespace

TEST_CASE("classifiers of encoders give transformers' numbers, from both formats", "[models]") {
  // 1e-4 of the largest number as for logits; where products are rounded to bf16, of several layers of 2^-8 each.
  // GGUF files of BERT have no pooler, and are refused (bad_gguf_models.cpp).
  const struct {
    std::string name, path;
  } kModelsOf[] = {{"bert-classifier-f32", kModels + "bert-classifier-f32"},
                   {"xlmr-classifier-f32", kModels + "xlmr-classifier-f32"},
                   {"xlmr-classifier-f32", QINFER_TEST_FIXTURES "/gguf/xlmr-classifier-f32.gguf"},
                   {"mpnet-classifier-f32", kModels + "mpnet-classifier-f32"},
                   {"modernbert-biases-f32", kModels + "modernbert-biases-f32"},
                   {"modernbert-classifier-f32", kModels + "modernbert-classifier-f32"}};
  for (const auto& [name, path] : kModelsOf)
    for (const bool exact : {true, false})
      for (const std::string& target : test::usable_targets(exact)) {
        INFO(path << " on " << target << (exact ? " exact" : ""));
        const Scores scores = read_scores(kModels + name);
        const Loaded loaded = load(path, target, exact);
        const std::vector<float> got = classified(*loaded.session, scores);
        REQUIRE(got.size() == scores.wanted.size());
        double largest = 0, difference = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
          largest = std::max(largest, std::fabs(double{scores.wanted[i]}));
          difference = std::max(difference, std::fabs(double{got[i]} - scores.wanted[i]));
        }
        // On tiles operands of attention are rounded to bf16, too.
        CHECK(difference <= (exact ? 1e-4 : test::uses_tiles(target) ? 0x1p-4 : 0x1p-5) * largest);
      }
}

TEST_CASE("types of tokens change what an encoder gives, and are checked", "[models]") {
  const Scores scores = read_scores(kModels + "bert-classifier-f32");
  const Loaded loaded = load(kModels + "bert-classifier-f32", "", true);
  engine::Session& session = *loaded.session;
  const std::vector<float> pair = classified(session, scores);
  std::vector<float> out(3);
  // As one text it is another input, and cut to the first text and completed it is the same pair again.
  REQUIRE(session.set_tokens(scores.ids).ok());
  REQUIRE(session.pending() == scores.ids.size());
  REQUIRE(engine::eval(session, {}).ok());
  REQUIRE(session.classify(out).ok());
  CHECK(std::fabs(out[0] - pair[0]) > 1e-3);
  REQUIRE(session.truncate(scores.begin).ok());
  REQUIRE(session.append(std::span(scores.ids).subspan(scores.begin), 1).ok());
  REQUIRE(engine::eval(session, {}).ok());
  auto fork = session.fork();
  REQUIRE(fork.ok());
  REQUIRE(fork.value()->classify(out).ok());
  CHECK(out == pair);

  Status refused = session.append(std::span(scores.ids).first(1), 0);
  CHECK(refused.code() == Code::invalid_argument);
  CHECK(std::string(refused.message()).find("type 0 after those of type 1, which begin at index 21") !=
        std::string::npos);
  refused = session.append(std::span(scores.ids).first(1), 2);
  CHECK(std::string(refused.message()).find("tokens of type 2: the model has 2 types") != std::string::npos);
  REQUIRE(session.truncate(0).ok());
  CHECK(session.append(std::span(scores.ids).first(1), 0).ok());
  CHECK(session.classify(out).code() == Code::state);

  const Loaded one_type = load(kModels + "xlmr-classifier-f32", "", true);
  refused = one_type.session->append(std::span(scores.ids).first(1), 1);
  CHECK(std::string(refused.message()).find("tokens of type 1: the model has 1 types") != std::string::npos);
  const Loaded plain = load(kModels + "bert-f32", "", true);
  CHECK(plain.session->classify(out).code() == Code::unsupported);
}

TEST_CASE("exported classifiers give the numbers of their checkpoints, bit for bit", "[models][gguf]") {
  for (const char* name :
       {"bert-classifier-f32", "xlmr-classifier-f32", "modernbert-classifier-f32", "modernbert-biases-f32"}) {
    INFO(name);
    const test::ModelDir place;
    const std::string out = place.file("model.gguf");
    qinfer_error err = {};
    const qinfer_status status =
        qinfer_model_export_gguf(nullptr, (kModels + name).c_str(), nullptr, out.c_str(), &err);
    INFO(err.message);
    REQUIRE(status == QINFER_OK);
    const Scores scores = read_scores(kModels + name);
    const Loaded directory = load(kModels + name, "reference", true), exported = load(out, "reference", true);
    CHECK(classified(*exported.session, scores) == classified(*directory.session, scores));
  }
}

TEST_CASE("distances share the buckets that T5 and MPNet give them", "[models]") {
  // What transformers' MPNetEncoder.relative_position_bucket() gives: the first distance of each bucket of a side.
  constexpr std::int32_t kFirst[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
  for (std::int32_t distance = 0; distance < 2000; ++distance) {
    const auto bucket = static_cast<std::uint32_t>(std::upper_bound(std::begin(kFirst), std::end(kFirst), distance) -
                                                   std::begin(kFirst) - 1);
    CHECK(model::distance_bucket(-distance) == bucket);
    if (distance != 0) CHECK(model::distance_bucket(distance) == 16 + bucket);
  }
  CHECK(model::distance_bucket(INT32_MIN) == 15);
  CHECK(model::distance_bucket(INT32_MAX) == 31);
}
