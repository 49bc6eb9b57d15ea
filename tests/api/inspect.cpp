// qinfer_model_inspect: the same numbers as a loaded model's, from headers alone.
#include <qinfer/qinfer.hpp>

#include <filesystem>

#include "support/c_api.h"

using namespace qinfer::test;

namespace {

void check_against_loaded(const std::string& path) {
  INFO(path);
  const qi::ModelDetails details = qi::inspect(path);
  const qi::Model model = qi::Model::load(path);
  const qinfer_model_info info = model.info();
  REQUIRE(std::string(details.architecture) == info.architecture);
  REQUIRE(std::string(details.name) == info.name);
  REQUIRE(details.n_params == info.n_params);
  REQUIRE(details.n_active_params == info.n_active_params);
  REQUIRE((details.n_active_params < details.n_params) == (details.n_active_experts < details.n_experts));
  REQUIRE(details.n_experts == info.n_experts);
  REQUIRE(details.n_active_experts == info.n_active_experts);
  REQUIRE(details.n_expert_layers == info.n_expert_layers);
  REQUIRE(details.expert_ffn == info.expert_ffn);
  REQUIRE(details.file_bytes == info.file_bytes);
  REQUIRE((details.flags & ~std::uint32_t{QINFER_MODEL_PACKED}) == info.flags);
  REQUIRE(details.n_vocab == info.n_vocab);
  REQUIRE(details.n_layers == info.n_layers);
  REQUIRE(details.n_embd == info.n_embd);
  REQUIRE(details.n_heads == info.n_heads);
  REQUIRE(details.n_kv_heads == info.n_kv_heads);
  REQUIRE(details.head_dim == info.head_dim);
  REQUIRE(details.context_tokens == info.context_tokens);
  REQUIRE(details.max_token_bytes == info.max_token_bytes);
  REQUIRE(details.bos_token == info.bos_token);
  const bool all_mixtures = details.n_expert_layers == details.n_layers;
  // Of Granite 4 the network is the shared one, and intermediate_size means nothing.
  const char* width = std::string(details.architecture) == "GraniteMoeHybridForCausalLM"
                          ? "config.shared_intermediate_size"
                          : "config.intermediate_size";
  if (model.meta("config.text_config.intermediate_size")) width = "config.text_config.intermediate_size";
  if (model.meta("config.n_inner")) width = "config.n_inner";
  REQUIRE((all_mixtures ? "0" : model.meta(width)) == std::to_string(details.n_ffn));
}

}  // namespace

TEST_CASE("Inspecting tells what the loaded model tells, for every fixture", "[api][inspect]") {
  std::size_t n = 0, with_windows = 0;
  for (const auto& entry : std::filesystem::directory_iterator(QINFER_TEST_FIXTURES "/models")) {
    if (!entry.is_directory() || !std::filesystem::exists(entry.path() / "config.json")) continue;
    check_against_loaded(entry.path().string());
    ++n;
    const qi::ModelDetails details = qi::inspect(entry.path().string());
    REQUIRE((details.n_window_layers != 0) == (details.window_tokens != 0));
    REQUIRE(details.n_window_layers <= details.n_layers);
    with_windows += details.n_window_layers != 0 ? 1 : 0;
  }
  REQUIRE(n > 5);
  REQUIRE(with_windows > 0);
}

TEST_CASE("Inspecting a directory, a packed model and a lone config.json", "[api][inspect]") {
  for (const bool tied : {false, true}) {
    TinySpec spec;
    spec.tied = tied;
    const ModelDir dir{spec};
    check_against_loaded(dir.path());
    const qi::ModelDetails details = qi::inspect(dir.path());
    REQUIRE(((details.flags & QINFER_MODEL_TIED_EMBEDDINGS) != 0) == tied);
    REQUIRE((details.flags & QINFER_MODEL_TOKENIZER) != 0);
    REQUIRE((details.flags & (QINFER_MODEL_ENCODER | QINFER_MODEL_PACKED)) == 0);
    const std::string types = details.weight_types;
    REQUIRE(!types.empty());

    qi::Runtime runtime;
    const std::string packed = dir.file("model.packed");
    qi::pack(runtime, dir.path(), packed);
    const qi::ModelDetails of_packed = qi::inspect(packed);
    REQUIRE((of_packed.flags & QINFER_MODEL_PACKED) != 0);
    REQUIRE(std::string(of_packed.weight_types) == types);
    check_against_loaded(packed);
    auto options = qi::options<qinfer_load_options>();
    options.packed_path = packed.c_str();
    REQUIRE((qi::inspect(dir.path(), options).flags & QINFER_MODEL_PACKED) != 0);

    const qi::ModelDetails lone = qi::inspect(dir.file("config.json"));
    REQUIRE(lone.n_params == details.n_params);
    REQUIRE(lone.file_bytes == 0);
    REQUIRE(lone.max_token_bytes == 0);
    REQUIRE((lone.flags & QINFER_MODEL_TOKENIZER) == 0);

    dir.remove("model.safetensors");
    auto unread = sized<qinfer_model_details>();
    char texts[512];
    std::size_t n = 0;
    REQUIRE_FAILS(QINFER_E_NOT_FOUND, "model.safetensors",
                  qinfer_model_inspect(dir.path().c_str(), nullptr, &unread, texts, sizeof texts, &n, &err));
    options = qi::options<qinfer_load_options>();
    options.flags = QINFER_LOAD_NO_WEIGHTS;
    REQUIRE(qi::inspect(dir.path(), options).n_layers == details.n_layers);
  }
}

TEST_CASE("The texts of details are whole, of any length, in the caller's memory", "[api][inspect]") {
  TinySpec spec;
  const ModelDir dir{spec};
  auto config = tiny_config(spec);
  std::string name = "a";
  for (int i = 0; i < 2000; ++i) name += "\xc3\xa9";
  config["_name_or_path"] = name;
  dir.write("config.json", config.dump());
  qi::ModelDetails details = qi::inspect(dir.path());
  REQUIRE(details.name == name);
  const qi::ModelDetails copy = details;
  details = {};
  REQUIRE(copy.name == name);
  REQUIRE(copy.architecture == spec.architecture);

  auto raw = sized<qinfer_model_details>();
  const char* path = dir.path().c_str();
  std::size_t n = 0;
  REQUIRE_FAILS(QINFER_E_BUFFER_TOO_SMALL, "elements", qinfer_model_inspect(path, nullptr, &raw, nullptr, 0, &n, &err));
  REQUIRE(n == copy.texts->size());
  std::vector<char> texts(n, '!');
  REQUIRE_FAILS(QINFER_E_BUFFER_TOO_SMALL, "elements",
                qinfer_model_inspect(path, nullptr, &raw, texts.data(), n - 1, &n, &err));
  REQUIRE(texts == std::vector<char>(n, '!'));
  REQUIRE(raw.name == nullptr);
  REQUIRE_OK(qinfer_model_inspect(path, nullptr, &raw, texts.data(), n, &n, &err));
  REQUIRE(texts == *copy.texts);
  REQUIRE((raw.architecture == texts.data() && raw.name > raw.architecture && raw.weight_types > raw.name));
  REQUIRE(std::string(raw.weight_types) == copy.weight_types);
}

TEST_CASE("Inspecting refuses wrong arguments", "[api][inspect]") {
  const ModelDir dir{TinySpec()};
  const char* path = dir.path().c_str();
  auto details = sized<qinfer_model_details>();
  char texts[512];
  std::size_t n = 0;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "path is NULL",
                qinfer_model_inspect(nullptr, nullptr, &details, texts, sizeof texts, &n, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out is NULL",
                qinfer_model_inspect(path, nullptr, nullptr, texts, sizeof texts, &n, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out_n is NULL",
                qinfer_model_inspect(path, nullptr, &details, texts, sizeof texts, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_NOT_FOUND, "/nowhere",
                qinfer_model_inspect("/nowhere", nullptr, &details, texts, sizeof texts, &n, &err));
}
