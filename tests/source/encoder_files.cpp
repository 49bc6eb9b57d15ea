// Files of encoders as people find them: saved by a class around the layers, with that class's word before the names
// and its heads after them; by old versions, with other names of norms; and in f16. All give the bits of the plain
// file.
#include <qinfer/qinfer.hpp>

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>

#include "base/dtype.h"
#include "support/c_api.h"
#include "support/checkpoint_writer.h"

using namespace qinfer;
using namespace qinfer::test;

namespace {

const std::string kModels = QINFER_TEST_FIXTURES "/models/";

/// A fixture's config.json and tensors.
struct Files {
  nlohmann::json config;
  std::vector<TinyTensor> tensors;

  explicit Files(const std::string& name) {
    std::string text, file;
    for (const auto& [from, to] : {std::pair("/config.json", &text), std::pair("/model.safetensors", &file)})
      *to = read_file(kModels + name + from);
    config = nlohmann::json::parse(text);
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    const auto header = nlohmann::json::parse(file.substr(8, length));
    for (const auto& [tensor, entry] : header.items()) {
      if (tensor == "__metadata__") continue;
      const std::size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
      tensors.push_back({tensor, entry["dtype"], entry["shape"], file.substr(8 + length + begin, end - begin)});
    }
  }

  void rename(const std::function<std::string(const std::string&)>& renamed) {
    for (TinyTensor& tensor : tensors) tensor.name = renamed(tensor.name);
  }

  std::vector<float> embedding() const {
    const ModelDir dir;
    dir.write("config.json", config.dump());
    dir.write("model.safetensors", safetensors_file(tensors));
    auto options = qi::options<qinfer_runtime_options>();
    options.n_threads = 1;
    options.flags = QINFER_RUNTIME_EXACT;
    qi::Runtime runtime(options);
    const qi::Model model = qi::Model::load(runtime, dir.path());
    qi::KvCache cache(model);
    qi::Session session(cache);
    session.append(std::vector<qinfer_token>{1, 4, 2, 3, 90});
    session.eval();
    return session.embedding();
  }

 private:
  static std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    REQUIRE(!bytes.empty());
    return bytes;
  }
};

constexpr const char* kEncoders[] = {"bert-f32", "xlmr-odd-bf16", "mpnet-f32", "nomic-f32", "modernbert-biases-f32"};

}  // namespace

TEST_CASE("names of an encoder's tensors may begin with the word of a class around it", "[source][oddities]") {
  for (const char* name : kEncoders) {
    Files files(name);
    const std::vector<float> want = files.embedding();
    // A classifier's own layers stay outside.
    files.rename([](const std::string& tensor) { return tensor.starts_with("model.") ? tensor.substr(6) : tensor; });
    for (const std::string prefix : {"", "bert.", "roberta.", "model.", "mpnet.", "nomic_bert."}) {
      INFO(name << " " << prefix);
      Files prefixed = files;
      prefixed.rename([&](const std::string& tensor) {
        return tensor.starts_with("head.") || tensor.starts_with("classifier.") ? tensor : prefix + tensor;
      });
      CHECK(prefixed.embedding() == want);
    }
  }
}

TEST_CASE("heads for other tasks are passed over", "[source][oddities]") {
  const struct {
    const char *name, *architecture, *prefix;
  } kSaved[] = {{"bert-f32", "BertForMaskedLM", "bert."},
                {"bert-f32", "BertForPreTraining", "bert."},
                {"xlmr-odd-bf16", "XLMRobertaForMaskedLM", "roberta."},
                {"mpnet-f32", "MPNetForMaskedLM", "mpnet."},
                {"nomic-f32", "NomicBertForMaskedLM", "nomic_bert."},
                {"modernbert-f32", "ModernBertForMaskedLM", "model."}};
  for (const auto& saved : kSaved) {
    INFO(saved.architecture);
    Files files(saved.name);
    const std::vector<float> want = files.embedding();
    files.config["architectures"] = {saved.architecture};
    files.rename([&](const std::string& tensor) { return saved.prefix + tensor; });
    const std::string ones(16, '\1');
    for (const char* head : {"cls.predictions.decoder.weight", "cls.predictions.transform.LayerNorm.weight",
                             "cls.seq_relationship.weight", "lm_head.dense.weight", "decoder.bias"})
      files.tensors.push_back({head, "F32", {2, 2}, ones});
    files.tensors.push_back({std::string(saved.prefix) + "embeddings.position_ids", "I64", {1, 2}, ones});
    CHECK(files.embedding() == want);
  }
}

TEST_CASE("norms of old checkpoints have gamma and beta", "[source][oddities]") {
  for (const char* name : {"bert-f32", "xlmr-odd-bf16", "mpnet-f32"}) {
    INFO(name);
    Files files(name);
    const std::vector<float> want = files.embedding();
    files.rename([](std::string tensor) {
      const std::size_t at = tensor.find("LayerNorm.");
      if (at == std::string::npos) return tensor;
      return tensor.substr(0, at + 10) + (tensor.ends_with("weight") ? "gamma" : "beta");
    });
    CHECK(files.embedding() == want);
    // One that has another name is told by the name that it should have.
    for (TinyTensor& tensor : files.tensors)
      if (tensor.name.ends_with("1.output.LayerNorm.beta")) tensor.name += "s";
    REQUIRE_THROWS_WITH(files.embedding(), contains("encoder.layer.1.output.LayerNorm.beta\""));
  }
}

TEST_CASE("encoders in f16 and bf16 give the bits of their values in f32", "[source][oddities]") {
  for (const char* name : {"bert-f32", "mpnet-f32", "nomic-f32", "modernbert-biases-f32"})
    for (const DType type : {DType::f16, DType::bf16}) {
      INFO(name << " " << dtype_name(type));
      Files half(name), whole(name);
      for (std::size_t i = 0; i < half.tensors.size(); ++i) {
        std::vector<float> values(half.tensors[i].data.size() / sizeof(float));
        std::memcpy(values.data(), half.tensors[i].data.data(), half.tensors[i].data.size());
        half.tensors[i].data = encode_values(values, type);
        half.tensors[i].dtype = type == DType::f16 ? "F16" : "BF16";
        for (float& value : values)
          value = type == DType::f16 ? f16_to_f32(f32_to_f16(value)) : bf16_to_f32(f32_to_bf16(value));
        whole.tensors[i].data = encode_values(values, DType::f32);
      }
      half.config["torch_dtype"] = type == DType::f16 ? "float16" : "bfloat16";
      CHECK(half.embedding() == whole.embedding());
    }
}
