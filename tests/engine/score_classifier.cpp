// Scores of pairs of texts by the classifiers of encoders, with what transformers computes (fixtures/models), through
// tokenizers whose words are the ids of the fixtures.
#include <qinfer/qinfer.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kv/support.h"
#include "support/c_api.h"
#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/model_fixtures.h"
#include "support/targets.h"
#include "support/word_tokenizer.h"

namespace {

using namespace qinfer::test;
namespace fs = std::filesystem;
using nlohmann::json;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A fixture with the first label of its classifier alone, which is then a score.
struct Ranker : ModelDir {
  explicit Ranker(const std::string& name) : folder(std::string(QINFER_TEST_FIXTURES "/models/") + name) {
    config = json::parse(bytes_of(folder + "/config.json"));
    config["id2label"] = {{"0", "LABEL_0"}};
    config["label2id"] = {{"LABEL_0", 0}};
    write("config.json", config.dump());
    const auto directory = qinfer::platform::Directory::open(folder);
    REQUIRE(directory.ok());
    const auto opened = qinfer::formats::Checkpoint::open(directory.value(), {});
    REQUIRE(opened.ok());
    const qinfer::formats::Checkpoint& checkpoint = opened.value();
    std::vector<TinyTensor> tensors;
    for (const auto& tensor : checkpoint.tensors()) {
      TinyTensor copy{tensor.name, std::string(tensor.dtype), tensor.shape, std::string(tensor.bytes(), '\0')};
      REQUIRE(checkpoint.read(tensor, 0, std::as_writable_bytes(std::span(copy.data))).ok());
      if (copy.name.ends_with("classifier.weight") || copy.name.ends_with("classifier.bias") ||
          copy.name.find("classifier.out_proj") != std::string::npos) {
        copy.data.resize(copy.data.size() / copy.shape[0]);
        copy.shape[0] = 1;
      }
      tensors.push_back(std::move(copy));
    }
    write("model.safetensors", safetensors_file(tensors));
    const auto opened_expected = qinfer::platform::open_path(folder + "/expected.safetensors");
    REQUIRE(opened_expected.ok());
    const auto& file = opened_expected.value();
    std::string header(file.size, '\0');
    REQUIRE(qinfer::platform::read_at(file, 0, std::as_writable_bytes(std::span(header))).ok());
    const auto parsed = qinfer::formats::parse_safetensors_header(header, file.size, "expected").value();
    ids = models::read_tensor<std::int32_t>(file, parsed, "scores_ids");
    begin = static_cast<std::size_t>(models::read_tensor<std::int32_t>(file, parsed, "scores_begin").at(0));
    wanted = models::read_tensor<float>(file, parsed, "scores").at(0);
    if (begin == ids.size()) begin = ids.size() / 2;  // a model without types does not tell the texts apart
    write("tokenizer.json", word_tokenizer(config["vocab_size"]).dump());
  }
  std::string query() const { return words(ids.data(), begin); }
  std::string document() const { return words(ids.data() + begin, ids.size() - begin); }

  std::string folder;
  json config;
  std::vector<std::int32_t> ids;
  std::size_t begin = 0;
  double wanted = 0;
};

}  // namespace

TEST_CASE("the label of an encoder's classifier is the score of a pair", "[score]") {
  for (const char* name : {"bert-classifier-f32", "xlmr-classifier-f32"}) {
    const Ranker dir(name);
    for (const std::string& target : usable_targets(true)) {
      INFO(name << " on " << target);
      const qi::Model model = models::load_exact(dir.path(), target.c_str());
      CHECK(model.info().scoring == QINFER_SCORING_CLASSIFIER);
      qi::KvCache cache(model);
      qi::Session session(cache);
      CHECK(session.set_pair(dir.query(), dir.document()) == 0);
      CHECK(session.tokens() == dir.ids);
      session.eval();
      auto raw = qi::options<qinfer_score_options>();
      raw.flags = QINFER_SCORE_RAW;
      CHECK(std::fabs(session.score(raw) - dir.wanted) < 1e-4 * std::max(1.0, std::fabs(dir.wanted)));
      CHECK(std::fabs(session.score() - 1 / (1 + std::exp(-dir.wanted))) < 1e-4);
      // The same pair again, and another one between.
      const float before = session.score();
      session.set_pair("w5", "w6");
      session.eval();
      CHECK(session.score() != before);
      session.set_pair(dir.query(), dir.document());
      session.eval();
      CHECK(session.score() == before);
    }
  }
}

TEST_CASE("config.json says whether a classifier's score is a probability", "[score]") {
  Ranker dir("xlmr-classifier-f32");
  const auto score = [&] {
    const qi::Model model = models::load_exact(dir.path());
    qi::KvCache cache(model);
    qi::Session session(cache);
    session.set_pair(dir.query(), dir.document());
    session.eval();
    return static_cast<double>(session.score());
  };
  const double probability = score();
  CHECK(std::fabs(probability - 1 / (1 + std::exp(-dir.wanted))) < 1e-4);
  dir.config["sbert_ce_default_activation_function"] = "torch.nn.modules.linear.Identity";
  dir.write("config.json", dir.config.dump());
  CHECK(std::fabs(score() - dir.wanted) < 1e-4);
  dir.config["sentence_transformers"] = {{"activation_fn", "torch.nn.modules.activation.Sigmoid"}};
  dir.write("config.json", dir.config.dump());
  CHECK(score() == probability);
  dir.config["sentence_transformers"] = {{"activation_fn", "torch.nn.ReLU"}};
  dir.write("config.json", dir.config.dump());
  REQUIRE_LOAD_FAILS(QINFER_E_UNSUPPORTED, "\"activation_fn\" is \"torch.nn.ReLU\"", dir);
}

TEST_CASE("of a pair for a classifier the longer text is cut, then both", "[score]") {
  const Ranker dir("bert-classifier-f32");
  dir.write("tokenizer.json", word_tokenizer(dir.config["vocab_size"], 2, 3).dump());
  const qi::Model model = qi::Model::load(dir.path());
  qi::KvCache cache(model);
  qi::Session session(cache);
  session.set_pair("w10 w11", "w20 w21 w22");
  CHECK(session.tokens() == std::vector<qi::Token>{2, 10, 11, 3, 20, 21, 22, 3});
  auto options = qi::options<qinfer_score_options>();
  options.max_tokens = 7;
  REQUIRE_FAILS_AT(QINFER_E_CONTEXT_FULL, 8, "the pair has 8 tokens, at most 7",
                   qinfer_session_set_pair(session.native(), "w10 w11", 7, "w20 w21 w22", 11, &options, nullptr, &err));
  options.flags = QINFER_SCORE_TRUNCATE;
  CHECK(session.set_pair("w10 w11", "w20 w21 w22", options) == 1);
  CHECK(session.tokens() == std::vector<qi::Token>{2, 10, 11, 3, 20, 21, 3});
  CHECK(session.set_pair("w20 w21 w22", "w10 w11", options) == 1);
  CHECK(session.tokens() == std::vector<qi::Token>{2, 20, 21, 3, 10, 11, 3});
  options.max_tokens = 6;
  CHECK(session.set_pair("w10 w11", "w20 w21 w22", options) == 2);
  CHECK(session.tokens() == std::vector<qi::Token>{2, 10, 3, 20, 21, 3});
  options.max_tokens = 2;
  REQUIRE_FAILS_AT(QINFER_E_CONTEXT_FULL, 8, "all but its texts has more",
                   qinfer_session_set_pair(session.native(), "w10 w11", 7, "w20 w21 w22", 11, &options, nullptr, &err));
  const ModelDir three;
  fs::copy(dir.folder, three.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  three.write("tokenizer.json", bytes_of(dir.file("tokenizer.json")));
  const qi::Model labels = qi::Model::load(three.path());
  qi::KvCache other_cache(labels);
  qi::Session other(other_cache);
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "has 3 labels, a score needs one",
                qinfer_session_set_pair(other.native(), "w1", 2, "w2", 2, nullptr, nullptr, &err));
}
