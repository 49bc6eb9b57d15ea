// ModelSource: what a path is taken for, what it gives, and that fingerprints are of what changes results, not of names
// and places. Malformed files of every kind have their tests in bad_*.cpp and hostile_*.cpp.
#include "source/model_source.h"

#include <functional>

#include "model/tensors.h"
#include "support/c_api.h"

using namespace qinfer;
using namespace qinfer::test;
using qinfer::source::ModelSource;

namespace {

std::unique_ptr<ModelSource> open_source(const std::string& path) {
  auto source = ModelSource::open(path, {});
  const Status status = source.take_status();
  INFO(path << ": " << status.message());
  REQUIRE(status.ok());
  return std::move(source.value());
}

source::Fingerprints fingerprints_of(const std::string& path) {
  auto fingerprints = open_source(path)->fingerprints({});
  REQUIRE(fingerprints.ok());
  return fingerprints.value();
}

/// Of a model whose files `change` alters.
source::Fingerprints after(const TinySpec& spec, const std::function<void(const ModelDir&)>& change) {
  const ModelDir dir(spec);
  change(dir);
  return fingerprints_of(dir.path());
}

void set_field(const ModelDir& dir, const char* key, const nlohmann::json& value) {
  auto config = nlohmann::json::parse(dir.read("config.json"));
  config[key] = value;
  dir.write("config.json", config.dump());
}

}  // namespace

TEST_CASE("a source finds every tensor that its spec needs, and says how it is stored", "[source]") {
  struct Case {
    const char* fixture;
    Encoding encoding;
    bool adds_one;
  };
  for (const Case& c : {Case{"llama-plain-bf16", Encoding::bf16, false}, Case{"qwen2-odd-f16", Encoding::f16, false},
                        Case{"olmo2-f32", Encoding::f32, false}, Case{"gemma3-f32", Encoding::f32, true},
                        Case{"gemma3-encoder-f32", Encoding::f32, true}}) {
    const auto source = open_source(std::string(QINFER_TEST_FIXTURES "/models/") + c.fixture);
    CHECK(source->has_tensors());
    CHECK(source->packed_for().empty());
    for (const model::TensorNeed& need : model::tensors_of(source->spec())) {
      INFO(c.fixture << ": " << model::describe(need.id));
      const auto info = source->find(need.id);
      REQUIRE(info.ok());
      CHECK(info.value().name == source->name(need.id));
      CHECK(info.value().encoding == c.encoding);
      std::uint64_t values = 1;
      for (const std::uint64_t length : info.value().shape) values *= length;
      CHECK(values == static_cast<std::uint64_t>(need.rows * need.cols));
      CHECK(info.value().bytes() == encoded_bytes(c.encoding, values));
      const bool is_norm = info.value().name.find("norm.weight") != std::string::npos;
      CHECK((info.value().transform == model::Transform::add_one) == (c.adds_one && is_norm));
    }
    const auto none = source->find({model::Role::q, 77});
    REQUIRE(!none.ok());
  }
}

TEST_CASE("a config.json alone can be planned for, not loaded", "[source]") {
  const ModelDir dir{TinySpec()};
  const auto source = open_source(dir.file("config.json"));
  CHECK(!source->has_tensors());
  CHECK(source->tokenizer() == nullptr);
  auto memory = sized<qinfer_memory>();
  REQUIRE_OK(qinfer_model_plan(dir.file("config.json").c_str(), nullptr, nullptr, nullptr, nullptr, &memory, &err));
  CHECK(memory.total > 0);
  qinfer_model* model = nullptr;
  REQUIRE_FAILS(QINFER_E_FORMAT, "a config.json alone",
                qinfer_model_load(nullptr, dir.file("config.json").c_str(), nullptr, &model, &err));
}

TEST_CASE("a fingerprint does not depend on names and places", "[source]") {
  TinySpec spec;
  spec.dtype = DType::f16;
  const source::Fingerprints one = fingerprints_of(ModelDir(spec).path());
  REQUIRE(one.model.starts_with("2:"));
  REQUIRE(one.model.size() == 18);
  REQUIRE(one.files.size() == 16);
  CHECK(fingerprints_of(ModelDir(spec).path()).model == one.model);
  TinySpec sharded = spec;
  sharded.shards = 3;
  const source::Fingerprints three = fingerprints_of(ModelDir(sharded).path());
  CHECK(three.model == one.model);
  CHECK(three.files != one.files);
  const auto same = [&](const char* what, const std::function<void(const ModelDir&)>& change) {
    INFO(what);
    CHECK(after(spec, change).model == one.model);
  };
  same("the name of the checkpoint", [](const ModelDir& dir) { set_field(dir, "_name_or_path", "another/name"); });
  same("the version that wrote it", [](const ModelDir& dir) { set_field(dir, "transformers_version", "4.1.0"); });
  same("a chat template", [](const ModelDir& dir) { dir.write("chat_template.jinja", "{{ messages }}"); });
  same("how tokenizer.json is set out", [](const ModelDir& dir) {
    dir.write("tokenizer.json", nlohmann::ordered_json::parse(dir.read("tokenizer.json")).dump(7));
  });
  same("a tensor that the model does not use", [&](const ModelDir& dir) {
    write_changed(dir, spec, [](std::vector<TinyTensor>& tensors) {
      tensors.push_back({"unused.weight", "F32", {1}, std::string(4, '\1')});
    });
  });
}

TEST_CASE("a fingerprint depends on what changes results", "[source]") {
  TinySpec spec;
  spec.dtype = DType::f16;
  const source::Fingerprints one = fingerprints_of(ModelDir(spec).path());
  const auto differs = [&](const char* what, const std::function<void(const ModelDir&)>& change) {
    INFO(what);
    const source::Fingerprints other = after(spec, change);
    CHECK(other.model != one.model);
    CHECK(other.files != one.files);
  };
  differs("the base of rope", [](const ModelDir& dir) {
    set_field(dir, "rope_parameters", {{"rope_type", "default"}, {"rope_theta", 12345.0}});
  });
  differs("eps", [](const ModelDir& dir) { set_field(dir, "rms_norm_eps", 0.125); });
  differs("the end token", [](const ModelDir& dir) { set_field(dir, "eos_token_id", 7); });
  differs("a merge", [](const ModelDir& dir) {
    auto tokenizer = nlohmann::ordered_json::parse(dir.read("tokenizer.json"));
    auto& merges = tokenizer["model"]["merges"];
    merges.erase(merges.size() - 1);
    dir.write("tokenizer.json", tokenizer.dump());
  });
  differs("a value", [&](const ModelDir& dir) {
    write_changed(dir, spec, [](std::vector<TinyTensor>& tensors) {
      find_tensor(tensors, "model.layers.1.mlp.up_proj.weight").data[3] ^= 1;
    });
  });
  TinySpec wide = spec;
  wide.dtype = DType::f32;  // the same values
  CHECK(fingerprints_of(ModelDir(wide).path()).model != one.model);
}

TEST_CASE("a packed model has its checkpoint's fingerprints", "[source][packed]") {
  const ModelDir dir{TinySpec()};
  const std::string packed = dir.file("model.qinfer");
  REQUIRE_OK(qinfer_model_pack(nullptr, dir.path().c_str(), nullptr, packed.c_str(), &err));
  const source::Fingerprints of_directory = fingerprints_of(dir.path()), of_packed = fingerprints_of(packed);
  CHECK(of_packed.model == of_directory.model);
  CHECK(of_packed.files == of_directory.files);
  CHECK(!open_source(packed)->packed_for().empty());
}

TEST_CASE("chat templates are found where models have them, and in packed files", "[source]") {
  const auto templates_of = [](const ModelDir& dir) {
    std::string text;
    for (const source::ChatTemplate& known : open_source(dir.path())->take_chat_templates().list)
      text += known.name + "=" + known.text + ";";
    return text;
  };
  const ModelDir dir{TinySpec()};
  CHECK(templates_of(dir).empty());
  dir.write("tokenizer_config.json", R"({"chat_template": "one", "bos_token": null})");
  CHECK(templates_of(dir) == "default=one;");
  dir.write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "tool_use", "template": "two"}, {"name": "default", "template": "three"}]})");
  CHECK(templates_of(dir) == "default=three;tool_use=two;");
  dir.write("chat_template.json", R"({"chat_template": "four"})");
  CHECK(templates_of(dir) == "default=four;");
  dir.write("chat_template.jinja", "five");
  CHECK(templates_of(dir) == "default=five;");
  const std::string packed = dir.file("model.qinfer");
  REQUIRE_OK(qinfer_model_pack(nullptr, dir.path().c_str(), nullptr, packed.c_str(), &err));
  auto kept = open_source(packed)->take_chat_templates().list;
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].text == "five");
  // In the directory's place the packed file counts for weights, the directory for templates.
  dir.write("chat_template.jinja", "six");
  auto options = sized<qinfer_load_options>();
  options.packed_path = packed.c_str();
  const Model beside = load_model(make_runtime(), dir.path(), &options);
  char text[8];
  std::size_t n = 0;
  REQUIRE_OK(qinfer_model_chat_template(beside.get(), nullptr, text, sizeof text, &n, &err));
  CHECK(std::string(text, n) == "six");
}

TEST_CASE("a damaged chat template is told when it is asked for", "[source]") {
  const ModelDir dir{TinySpec()};
  for (const char* bad :
       {R"({"chat_template": 5})", R"({"chat_template": [5]})", R"({"chat_template": [{"name": "x"}]})", "{", "",
        R"({"chat_template": [{"name": "a\u0000b", "template": ""}]})"}) {
    dir.write("tokenizer_config.json", bad);
    INFO(bad);
    const Model model = load_model(make_runtime(), dir.path());
    char text[8];
    std::size_t n = 0;
    REQUIRE_FAILS(QINFER_E_FORMAT, "tokenizer_config.json",
                  qinfer_model_chat_template(model.get(), nullptr, text, sizeof text, &n, &err));
  }
}
