// Models in GGUF files, as llama.cpp's converter makes them (fixtures/make_gguf_fixtures.py), against what transformers
// gives for the checkpoint that was converted; a quantised one against its float64 oracle. The tolerance is that of
// models_hugging_face.cpp.
#include <cstring>
#include <filesystem>

#include <nlohmann/json.hpp>

#include <fstream>

#include "support/model_fixtures.h"
#include "support/skip.h"
#include "support/targets.h"
#include "support/test_data.h"

namespace {

namespace fs = std::filesystem;
using namespace qinfer::test::models;

std::vector<std::string> gguf_fixtures() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(QINFER_TEST_FIXTURES "/gguf"))
    if (fs::exists(std::string(QINFER_TEST_FIXTURES "/models/") + entry.path().stem().string()))
      names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// How far the embeddings of the fixture's first length are from transformers'; their length is 1.
double embedding_deviation(const qi::Model& model, const Expected& expected) {
  qi::KvCache cache(model);
  qi::Session session(cache);
  session.append(expected.ids);
  session.eval();
  double difference = 0;
  const float* want = expected.embeddings.data();
  for (const std::int32_t pooling : {QINFER_POOL_LAST, QINFER_POOL_MEAN, QINFER_POOL_FIRST})
    for (const float value : session.embedding(pooling))
      difference = std::max(difference, std::fabs(static_cast<double>(value) - *want++));
  return difference;
}

TEST_CASE("Logits of GGUF files are those of the checkpoints that were converted", "[models][gguf]") {
  const std::vector<std::string> names = gguf_fixtures();
  REQUIRE(names.size() >= 16);
  for (const std::string& name : names) {
    const Expected expected = read_expected(std::string(QINFER_TEST_FIXTURES "/models/") + name);
    for (const std::string& target : qinfer::test::usable_targets(true)) {
      INFO(name << " on " << target);
      const qi::Model model = load_exact(QINFER_TEST_FIXTURES "/gguf/" + name + ".gguf", target.c_str());
      if (expected.rows.empty()) {
        CHECK(embedding_deviation(model, expected) <= 1e-4);
        continue;
      }
      CHECK(model.info().n_vocab == expected.n_vocab);
      for (const std::size_t chunk : {0, 1, 7})
        CHECK(deviation(evaluate(model, expected.ids, chunk), expected, expected.f64) <= 1e-4);
    }
  }
}

TEST_CASE("Logits of quantised models are those of the values of their blocks", "[models][gguf]") {
  for (const std::string name : {"mixed", "moe"}) {
    const std::string folder = QINFER_TEST_FIXTURES "/quant/" + name;
    const Expected expected = read_expected(folder);
    for (const std::string& target : qinfer::test::usable_targets(true)) {
      for (const char* format : {"", "f32"}) {
        INFO(name << " on " << target << " as " << format);
        const qi::Model model = load_exact(folder + "/model.gguf", target.c_str(), format);
        for (const std::size_t chunk : {0, 1, 7})
          CHECK(deviation(evaluate(model, expected.ids, chunk), expected, expected.f64) <= 1e-4);
      }
    }
  }
}

/// Sets that round activations, but those with tiles, which round so much that models choose other experts.
std::vector<std::string> rounding_targets() {
  std::vector<std::string> names = qinfer::test::usable_targets();
  std::erase_if(names, [](const std::string& name) {
    return qinfer::test::row_of(name).exact || qinfer::test::uses_tiles(name);
  });
  return names;
}

// Twice what was seen: 2.7e-3 with activations and sums of f16, 1.0e-2 with activations of bf16.
TEST_CASE("Quantised models on sets that round stay near the values of their blocks", "[models][gguf]") {
  SKIP_UNLESS_CPU_HAS(!rounding_targets().empty(), "AVX512-BF16 or AVX512-FP16");
  for (const std::string name : {"mixed", "moe"}) {
    const std::string folder = QINFER_TEST_FIXTURES "/quant/" + name;
    const Expected expected = read_expected(folder);
    for (const std::string& target : rounding_targets()) {
      auto options = qi::options<qinfer_runtime_options>();
      options.cpu_target = target.c_str();
      qi::Runtime runtime(options);
      const qi::Model model = qi::Model::load(runtime, folder + "/model.gguf");
      const std::vector<float> whole = evaluate(model, expected.ids, 0);
      const double far = deviation(whole, expected, expected.f64);
      INFO(name << " on " << target << ": " << far);
      CHECK(far <= (qinfer::test::rounds_to_bf16(target) ? 2e-2 : 5.4e-3));
      CHECK(far > 1e-6);  // otherwise another set ran
      for (const std::size_t chunk : {1, 7}) CHECK(evaluate(model, expected.ids, chunk) == whole);
    }
  }
}

TEST_CASE("stories260k in 4 bits tells the story of the float64 oracle", "[models][gguf][data]") {
  SKIP_UNLESS_TEST_DATA("quant/stories260k-q4_0.gguf");
  const fs::path file = qinfer::test::find_test_data("quant/stories260k-q4_0.gguf");
  std::ifstream text(fs::path(file).replace_extension(".json"));
  const nlohmann::json expected = nlohmann::json::parse(text);
  const auto ids = expected.at("ids").get<std::vector<std::int32_t>>();
  for (const std::string& target : qinfer::test::usable_targets(true)) {
    INFO(target);
    const qi::Model model = load_exact(file.string(), target.c_str());
    CHECK(std::string(model.info().weight_format) == "mixed");
    qi::KvCache cache(model);
    qi::Session session(cache);
    session.append(ids.data(), 1);
    for (std::size_t i = 1; i < ids.size(); ++i) {
      session.eval();
      const float* logits = session.logits();
      const auto best = static_cast<std::int32_t>(std::max_element(logits, logits + model.info().n_vocab) - logits);
      REQUIRE(best == ids[i]);
      session.append(&best, 1);
    }
  }
}

}  // namespace
