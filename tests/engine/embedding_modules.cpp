// What comes after a model's hidden states, as the files of sentence-transformers say: pooling, dense layers, prompts
// and lengths. What sentence-transformers itself computes is in fixtures/embedding_modules
// (make_embedding_fixtures.py).
#include <qinfer/qinfer.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kv/support.h"
#include "support/c_api.h"
#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/model_fixtures.h"
#include "support/targets.h"

namespace {

namespace fs = std::filesystem;
using qinfer::test::contains;
using qinfer::test::ModelDir;
using qinfer::test::same_bits;

const std::string kFixtures = QINFER_TEST_FIXTURES;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void copy_into(const std::string& from, const ModelDir& dir) {
  fs::copy(from, dir.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
}

/// The model of a case and its modules in one directory.
struct Case {
  explicit Case(const std::string& name) {
    const std::string folder = kFixtures + "/embedding_modules/" + name;
    std::string model = read(folder + "/model.txt");
    model.pop_back();
    copy_into(kFixtures + "/models/" + model, dir);
    copy_into(folder, dir);
    const auto file = qinfer::platform::open_path(folder + "/expected.safetensors").value();
    std::string header(file.size, '\0');
    REQUIRE(qinfer::platform::read_at(file, 0, std::as_writable_bytes(std::span(header))).ok());
    const auto parsed = qinfer::formats::parse_safetensors_header(header, file.size, "expected").value();
    using qinfer::test::models::read_tensor;
    ids = read_tensor<std::int32_t>(file, parsed, "ids");
    unscaled = read_tensor<float>(file, parsed, "unscaled");
    embeddings = read_tensor<float>(file, parsed, "embeddings");
  }
  std::size_t dims() const { return embeddings.size() / 2; }

  ModelDir dir;
  std::vector<std::int32_t> ids;
  std::vector<float> unscaled, embeddings;  ///< [2][dims]: of all ids and of the first seven
};

const std::vector<std::string> kCases = {"gemma-dense", "gemma-released", "gemma-tanh", "qwen-last",
                                         "qwen-mean",   "qwen-dense",     "first-old"};

/// Embeddings of all ids and of the first seven.
std::vector<std::vector<float>> embed(const qi::Model& model, const std::vector<std::int32_t>& ids, bool unscaled) {
  qi::KvCache cache(model);
  auto options = qi::options<qinfer_session_options>();
  options.flags = QINFER_SESSION_EMBEDDINGS;
  auto kind = qi::options<qinfer_embedding_options>();
  kind.flags = unscaled ? QINFER_EMBEDDING_UNSCALED : 0;
  std::vector<std::vector<float>> out;
  for (const std::size_t n : {ids.size(), std::size_t{7}}) {
    qi::Session session(cache, options);
    session.append(ids.data(), n);
    session.eval();
    out.push_back(session.embedding(kind));
  }
  return out;
}

/// The largest difference, as a share of the largest value.
double deviation(const std::vector<std::vector<float>>& got, const std::vector<float>& wanted) {
  const std::size_t dims = wanted.size() / 2;
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    REQUIRE(got[i / dims].size() == dims);
    difference = std::max(difference, std::fabs(static_cast<double>(got[i / dims][i % dims]) - wanted[i]));
    largest = std::max(largest, std::fabs(static_cast<double>(wanted[i])));
  }
  return difference / largest;
}

double cosine(const std::vector<float>& a, const float* b) {
  double product = 0;
  for (std::size_t i = 0; i < a.size(); ++i) product += static_cast<double>(a[i]) * b[i];
  return product;
}

qi::Model load(const std::string& path, const std::string& target, std::uint32_t threads) {
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = threads;
  options.cpu_target = target.c_str();
  qi::Runtime runtime(options);
  return qi::Model::load(runtime, path);
}

/// A tiny decoder with a tokenizer and a way of pooling.
struct Tiny : ModelDir {
  explicit Tiny(const std::string& lengths = "{}") : ModelDir(qinfer::test::TinySpec{.context_tokens = 64}) {
    fs::create_directories(file("1_Pooling"));
    fs::create_directories(file("2_Dense"));
    write("modules.json", R"([{"path": "", "type": "a.Transformer"}, {"path": "1_Pooling", "type": "b.Pooling"}])");
    write("1_Pooling/config.json", R"({"word_embedding_dimension": 16, "pooling_mode_mean_tokens": true})");
    write("sentence_bert_config.json", lengths);
  }
};

}  // namespace

TEST_CASE("modules give what sentence-transformers gives", "[embeddings]") {
  for (const std::string& name : kCases) {
    const Case given(name);
    INFO(name);
    for (const std::string& target : qinfer::test::usable_targets(true)) {
      INFO(target);
      const qi::Model model = qinfer::test::models::load_exact(given.dir.path(), target.c_str());
      CHECK(model.info().embedding_dims == given.dims());
      CHECK(deviation(embed(model, given.ids, true), given.unscaled) < 1e-4);
      CHECK(deviation(embed(model, given.ids, false), given.embeddings) < 1e-4);
    }
    // The sets that round keep the direction; 1e-3 is what bf16's 2^-9 leaves of a value through a few layers.
    for (const std::string& target : qinfer::test::usable_targets()) {
      INFO(target);
      const auto got = embed(load(given.dir.path(), target, 2), given.ids, false);
      CHECK(cosine(got[0], given.embeddings.data()) > 0.999);
      CHECK(cosine(got[1], given.embeddings.data() + given.dims()) > 0.999);
      const auto again = embed(load(given.dir.path(), target, 1), given.ids, false);
      CHECK(same_bits(got[0], again[0]));
    }
  }
}

TEST_CASE("dense layers are planned, packed and exported with the model", "[embeddings]") {
  const Case given("qwen-dense");
  const qi::Model model = qi::Model::load(given.dir.path());
  const qinfer_memory planned = qi::plan(given.dir.path());
  CHECK(planned.scratch == model.memory().scratch);
  CHECK(planned.weights_mapped + planned.weights_private ==
        model.memory().weights_mapped + model.memory().weights_private);
  const auto wanted = embed(model, given.ids, true);
  qi::Runtime runtime;
  const ModelDir out;
  REQUIRE_OK(qinfer_model_pack(runtime.native(), given.dir.path().c_str(), nullptr, out.file("packed").c_str(), &err));
  const qi::Model packed = qi::Model::load(out.file("packed"));
  CHECK(packed.info().embedding_dims == given.dims());
  CHECK(same_bits(embed(packed, given.ids, true)[0], wanted[0]));
  REQUIRE_OK(qinfer_model_export_gguf(runtime.native(), given.dir.path().c_str(), nullptr,
                                      out.file("model.gguf").c_str(), &err));
  const qi::Model gguf = qi::Model::load(out.file("model.gguf"));
  CHECK(gguf.info().pooling == QINFER_POOL_MEAN);
  CHECK(same_bits(embed(gguf, given.ids, true)[0], wanted[0]));
  // A packed file of another state of a module is refused.
  given.dir.write("1_Pooling/config.json", R"({"pooling_mode": "lasttoken"})");
  auto options = qi::options<qinfer_load_options>();
  const std::string path = out.file("packed");
  options.packed_path = path.c_str();
  qinfer_model* loaded = nullptr;
  REQUIRE_FAILS(QINFER_E_FORMAT, "packed from another state",
                qinfer_model_load(nullptr, given.dir.path().c_str(), &options, &loaded, &err));
}

TEST_CASE("EmbeddingGemma's dense layers in a GGUF file give the bits of its directory", "[embeddings][gguf]") {
  // Made by llama.cpp's converter with --sentence-transformers-dense-modules.
  const Case given("gemma-released");
  const std::string path = kFixtures + "/embedding_gguf/gemma3-dense-f32.gguf";
  for (const std::string& target : qinfer::test::usable_targets(true)) {
    INFO(target);
    const qi::Model gguf = qinfer::test::models::load_exact(path, target.c_str());
    CHECK(gguf.info().embedding_dims == given.dims());
    CHECK(gguf.info().pooling == QINFER_POOL_MEAN);
    const qi::Model directory = qinfer::test::models::load_exact(given.dir.path(), target.c_str());
    for (const bool unscaled : {true, false}) {
      const auto got = embed(gguf, given.ids, unscaled);
      CHECK(deviation(got, unscaled ? given.unscaled : given.embeddings) < 1e-4);
      const auto wanted = embed(directory, given.ids, unscaled);
      CHECK(same_bits(got[0], wanted[0]));
      CHECK(same_bits(got[1], wanted[1]));
    }
  }
  // Otherwise weights in f32 and in bf16 are multiplied in two ways; 1e-3 as above.
  for (const std::string& target : qinfer::test::usable_targets()) {
    INFO(target);
    CHECK(cosine(embed(load(path, target, 2), given.ids, false)[0], given.embeddings.data()) > 0.999);
  }
}

TEST_CASE("the first values of an embedding are scaled to length 1", "[embeddings]") {
  const Case given("gemma-dense");
  const qi::Model model = qi::Model::load(given.dir.path());
  qi::KvCache cache(model);
  qi::Session session(cache);
  session.append(given.ids);
  session.eval();
  auto options = qi::options<qinfer_embedding_options>();
  options.dims = 8;
  const std::vector<float> all = session.embedding(), some = session.embedding(options);
  REQUIRE(some.size() == 8);
  double squares = 0;
  for (std::size_t i = 0; i < 8; ++i) squares += static_cast<double>(all[i]) * all[i];
  for (std::size_t i = 0; i < 8; ++i) CHECK(std::fabs(some[i] - all[i] / std::sqrt(squares)) < 1e-6);
  options.dims = 41;
  float values[64];
  std::size_t n = 0;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "dims is 41, the model's embeddings have 40",
                qinfer_session_embedding_with(session.native(), &options, values, 64, &n, &err));
  options.dims = 0;
  REQUIRE_FAILS(QINFER_E_BUFFER_TOO_SMALL, "40 elements",
                qinfer_session_embedding_with(session.native(), &options, values, 39, &n, &err));
  options.flags = 2;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "flags",
                qinfer_session_embedding_with(session.native(), &options, values, 64, &n, &err));
}

TEST_CASE("modules that are damaged or not known are refused by name", "[embeddings]") {
  const std::string modules = R"([{"path": "", "type": "Transformer"}, {"path": "1_Pooling", "type": "Pooling"}, )";
  const auto dense = [&](const std::string& config) {
    return std::vector<std::pair<std::string, std::string>>{
        {"modules.json", modules + R"({"path": "2_Dense", "type": "Dense"}])"}, {"2_Dense/config.json", config}};
  };
  const struct {
    qinfer_status status;
    const char* says;
    std::vector<std::pair<std::string, std::string>> files;
  } kBad[] = {
      {QINFER_E_FORMAT, "modules.json: expected a list of 1 to 16", {{"modules.json", "{}"}}},
      {QINFER_E_FORMAT, "modules.json: expected a list of objects", {{"modules.json", R"([{"path": 1}])"}}},
      {QINFER_E_UNSUPPORTED, "module 2 is \"LSTM\"", {{"modules.json", modules + R"({"path": "", "type": "LSTM"}])"}}},
      {QINFER_E_UNSUPPORTED,
       "module 0 is \"Pooling\"",
       {{"modules.json", R"([{"path": "1_Pooling", "type": "Pooling"}])"}}},
      {QINFER_E_UNSUPPORTED,
       "module 2 is \"Pooling\"",
       {{"modules.json", modules + R"({"path": "1_Pooling", "type": "Pooling"}])"}}},
      {QINFER_E_FORMAT,
       "module 1, Pooling, has no folder",
       {{"modules.json", R"([{"path": "", "type": "Transformer"}, {"path": "", "type": "Pooling"}])"}}},
      {QINFER_E_FORMAT,
       "not a plain file name",
       {{"modules.json", R"([{"path": "", "type": "Transformer"}, {"path": "../1_Pooling", "type": "Pooling"}])"}}},
      {QINFER_E_NOT_FOUND,
       "3_Pooling/config.json: it is not there",
       {{"modules.json", R"([{"path": "", "type": "Transformer"}, {"path": "3_Pooling", "type": "Pooling"}])"}}},
      {QINFER_E_UNSUPPORTED, "the pooling is \"max\"", {{"1_Pooling/config.json", R"({"pooling_mode": "max"})"}}},
      {QINFER_E_UNSUPPORTED,
       "both cls and mean",
       {{"1_Pooling/config.json", R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})"}}},
      {QINFER_E_FORMAT,
       "\"embedding_dimension\" is 17",
       {{"1_Pooling/config.json", R"({"pooling_mode": "cls", "embedding_dimension": 17})"}}},
      {QINFER_E_UNSUPPORTED,
       "\"do_lower_case\" is true",
       {{"sentence_bert_config.json", R"({"max_seq_length": 3, "do_lower_case": true})"}}},
      {QINFER_E_FORMAT, "\"max_seq_length\" is -1", {{"sentence_bert_config.json", R"({"max_seq_length": -1})"}}},
      {QINFER_E_FORMAT,
       "\"default_prompt_name\" is \"q\"",
       {{"config_sentence_transformers.json", R"({"prompts": {"query": ""}, "default_prompt_name": "q"})"}}},
      {QINFER_E_FORMAT,
       "the prompt \"query\" is a number",
       {{"config_sentence_transformers.json", R"({"prompts": {"query": 1.5}})"}}},
      {QINFER_E_FORMAT, "\"in_features\" is missing", dense("{}")},
      {QINFER_E_FORMAT, "\"in_features\" is 8, the module before it gives 16",
       dense(R"({"in_features": 8, "out_features": 4})")},
      {QINFER_E_UNSUPPORTED, "\"activation_function\" is \"torch.nn.ReLU\"",
       dense(R"({"in_features": 16, "out_features": 4, "activation_function": "torch.nn.ReLU"})")},
      {QINFER_E_UNSUPPORTED, "\"use_residual\" is true",
       dense(R"({"in_features": 16, "out_features": 4, "use_residual": true})")},
      {QINFER_E_NOT_FOUND, "2_Dense", dense(R"({"in_features": 16, "out_features": 4})")},
  };
  for (const auto& bad : kBad) {
    INFO(bad.says);
    const Tiny dir;
    for (const auto& [name, text] : bad.files) dir.write(name, text);
    REQUIRE_LOAD_FAILS(bad.status, bad.says, dir);
  }
  const Tiny pickled;
  for (const auto& [name, text] : dense(R"({"in_features": 16, "out_features": 4})")) pickled.write(name, text);
  pickled.write("2_Dense/pytorch_model.bin", "");
  REQUIRE_LOAD_FAILS(QINFER_E_UNSUPPORTED, "but pytorch_model.bin", pickled);
  using qinfer::test::TinyTensor;
  pickled.write("2_Dense/model.safetensors",
                qinfer::test::safetensors_file({TinyTensor{"linear.weight", "F32", {4, 15}, std::string(240, '\0')}}));
  REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "\"2_Dense/linear.weight\" has the shape [4, 15]", pickled);
}

TEST_CASE("a text is cut only where that is asked for, and prompts go before it", "[embeddings]") {
  const Tiny dir(R"({"max_seq_length": 12, "do_lower_case": false})");
  dir.write("config_sentence_transformers.json",
            R"({"prompts": {"query": "find: ", "document": "", "none": null}, "default_prompt_name": "query"})");
  const qi::Model model = qi::Model::load(dir.path());
  CHECK(model.info().embedding_tokens == 12);
  CHECK(model.info().pooling == QINFER_POOL_MEAN);
  CHECK(model.prompt_names() == std::vector<std::string>{"document", "query"});
  CHECK(model.default_prompt() == "query");
  CHECK(model.prompt("query") == "find: ");
  const std::string text = "0123456789abcdefghijklmnop";
  const auto whole = model.tokenize(text, QINFER_TEXT_ADD_SPECIAL);
  REQUIRE(whole.size() > 12);
  auto options = qi::options<qinfer_embedding_text_options>();
  std::size_t n = 0;
  std::uint64_t n_cut = 7;
  qinfer_token tokens[64];
  REQUIRE_FAILS_AT(
      QINFER_E_CONTEXT_FULL, static_cast<std::int64_t>(whole.size()),
      "has " + std::to_string(whole.size()) + " tokens, at most 12",
      qinfer_embedding_tokenize(model.native(), text.data(), text.size(), &options, tokens, 64, &n, &n_cut, &err));
  CHECK(n_cut == 0);
  options.flags = QINFER_EMBED_TRUNCATE;
  const auto cut = model.embedding_tokens(text, options, &n_cut);
  REQUIRE(cut.size() == 12);
  CHECK(n_cut == whole.size() - 12);
  const auto around = model.tokenize("", QINFER_TEXT_ADD_SPECIAL);
  // What the tokenizer puts before and after a text is still there.
  CHECK(cut.front() == whole.front());
  if (!around.empty() && around.back() == whole.back()) CHECK(cut.back() == whole.back());
  options.prompt_name = "query";
  CHECK(model.embedding_tokens("x", options) == model.tokenize("find: x", QINFER_TEXT_ADD_SPECIAL));
  CHECK(model.embedding_tokens("x") == model.tokenize("x", QINFER_TEXT_ADD_SPECIAL));
  options.prompt = "to: ";
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "both prompt_name and prompt",
                qinfer_embedding_tokenize(model.native(), "x", 1, &options, tokens, 64, &n, nullptr, &err));
  options.prompt_name = nullptr;
  CHECK(model.embedding_tokens("x", options) == model.tokenize("to: x", QINFER_TEXT_ADD_SPECIAL));
  options.prompt = nullptr;
  options.prompt_name = "passage";
  REQUIRE_FAILS(QINFER_E_NOT_FOUND, "no prompt \"passage\", but: document, query",
                qinfer_embedding_tokenize(model.native(), "x", 1, &options, tokens, 64, &n, nullptr, &err));
  dir.write("1_Pooling/config.json", R"({"pooling_mode": "mean", "include_prompt": false})");
  const qi::Model without = qi::Model::load(dir.path());
  options.prompt_name = "query";
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "include_prompt",
                qinfer_embedding_tokenize(without.native(), "x", 1, &options, tokens, 64, &n, nullptr, &err));
  CHECK(without.embedding_tokens("x") == model.embedding_tokens("x"));
}
