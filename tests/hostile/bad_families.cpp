// What single families of models refuse, by the name of the field or key: models of the family that are not like those
// whose fixtures were compared, and files that versions of other software read in two ways.
#include "support/c_api.h"
#include "support/gguf_loads.h"

using namespace qinfer::test;
using Json = nlohmann::json;

namespace {

/// A config.json of an architecture, with changes.
class Config {
 public:
  Config(const char* architecture, const Json& changes) {
    TinySpec spec;
    json_ = tiny_config(spec);
    json_["architectures"] = {architecture};
    json_.erase("rope_parameters");
    json_.update(changes);
  }

  void refused(qinfer_status status, const std::string& message) const {
    qinfer_error err;
    CHECK(plan(err) == status);
    CHECK_THAT(err.message, contains(message));
    CHECK(std::string(err.message).starts_with("config.json"));
  }
  void planned() const {
    qinfer_error err;
    CHECK(plan(err) == QINFER_OK);
  }

 private:
  qinfer_status plan(qinfer_error& err) const {
    const ModelDir dir;
    UNSCOPED_INFO(json_.dump());
    dir.write("config.json", json_.dump());
    const std::string lone = dir.file("config.json");
    auto memory = sized<qinfer_memory>();
    const qinfer_status status = qinfer_model_plan(lone.c_str(), nullptr, nullptr, nullptr, nullptr, &memory, &err);
    if (status != QINFER_OK) UNSCOPED_INFO(err.message);
    return status;
  }
  Json json_;
};

const Json kTwoFull = {"full_attention", "full_attention"};

std::string pattern_of(const char* architecture, std::size_t count, std::uint32_t type, const std::string& body) {
  GgufFile file = tiny_gguf({.architecture = architecture});
  file.keys.set(std::string(architecture) + ".attention.sliding_window", 16u);
  file.keys.set_bytes(std::string(architecture) + ".attention.sliding_window_pattern", GgufKeys::array,
                      gguf_number(type) + gguf_number(std::uint64_t{count}) + body);
  return file.bytes();
}

}  // namespace

TEST_CASE("OLMo 3: a base of rotary embeddings that versions of transformers read in two ways", "[bad]") {
  const char* name = "Olmo3ForCausalLM";
  Config(name, {{"rope_theta", 1e4}}).refused(QINFER_E_UNSUPPORTED, "\"rope_theta\" is 10000, of which versions");
  Config(name, {{"rope_theta", 5e5}}).planned();
  Config(name, Json::object()).planned();
  const Json stated = {{"rope_type", "default"}, {"rope_theta", 1e4}};
  Config(name, {{"rope_theta", 1e4}, {"rope_parameters", {{"full_attention", stated}, {"sliding_attention", stated}}}})
      .planned();
  Config(name, {{"rope_parameters", {{"rope_type", "default"}}}})
      .refused(QINFER_E_FORMAT, "\"rope_parameters\" must have \"full_attention\"");
  Config(name, {{"sliding_window", nullptr}})
      .refused(QINFER_E_FORMAT, "\"sliding_window\" is not set, layer 0 has one");
  Config(name, {{"sliding_window", nullptr}, {"layer_types", kTwoFull}}).planned();
}

TEST_CASE("EXAONE 4: windows and patterns of them", "[bad]") {
  const char* name = "Exaone4ForCausalLM";
  Config(name, {{"sliding_window", nullptr}}).planned();
  Config(name, {{"sliding_window", nullptr}, {"layer_types", {"sliding_attention", "full_attention"}}})
      .refused(QINFER_E_UNSUPPORTED, "has full_attention only");
  for (const Json& pattern : {Json("LLLG"), Json(0), Json(-1), Json(1.5)})
    Config(name, {{"sliding_window", 16}, {"sliding_window_pattern", pattern}})
        .refused(QINFER_E_FORMAT, "\"sliding_window_pattern\" is ");
  Config(name, {{"sliding_window", 16}, {"sliding_window_pattern", "LLLG"}, {"layer_types", kTwoFull}}).planned();
  Config(name, {{"attention_bias", true}}).refused(QINFER_E_UNSUPPORTED, "\"attention_bias\" is true");
}

TEST_CASE("Granite 4: layers that are recurrent, and experts", "[bad]") {
  const char* name = "GraniteMoeHybridForCausalLM";
  const Json dense = {{"num_local_experts", 0}, {"layer_types", {"attention", "full_attention"}}};
  Config(name, dense).planned();
  const auto with = [&](const char* field, const Json& value) {
    Json changed = dense;
    changed[field] = value;
    if (value.is_discarded()) changed.erase(field);
    return Config(name, changed);
  };
  const Json absent(Json::value_t::discarded);
  with("num_local_experts", absent).refused(QINFER_E_UNSUPPORTED, "\"num_local_experts\" is 8");
  with("num_local_experts", 64).refused(QINFER_E_UNSUPPORTED, "\"num_local_experts\" is 64");
  with("num_local_experts", -1).refused(QINFER_E_FORMAT, "\"num_local_experts\" is -1");
  with("layer_types", absent).refused(QINFER_E_FORMAT, "\"layer_types\" must list 2 layers");
  with("layer_types", {"attention"}).refused(QINFER_E_FORMAT, "\"layer_types\" must list 2 layers");
  with("layer_types", {"attention", "mamba"}).refused(QINFER_E_UNSUPPORTED, "\"layer_types\" holds \"mamba\"");
  with("layer_types", {"attention", 3}).refused(QINFER_E_UNSUPPORTED, "\"layer_types\" holds 3");
  with("shared_intermediate_size", 0).refused(QINFER_E_FORMAT, "\"shared_intermediate_size\" is 0");
  with("position_embedding_type", "alibi").refused(QINFER_E_UNSUPPORTED, "\"position_embedding_type\" is \"alibi\"");
  with("position_embedding_type", "nope").planned();
  with("mlp_bias", true).refused(QINFER_E_UNSUPPORTED, "\"mlp_bias\" is true");
}

TEST_CASE("Seed-OSS, ERNIE 4.5, Gemma: fields of another type, and activations", "[bad]") {
  Config("SeedOssForCausalLM", {{"attention_out_bias", 1}}).refused(QINFER_E_FORMAT, "\"attention_out_bias\"");
  Config("Ernie4_5ForCausalLM", {{"use_bias", "no"}}).refused(QINFER_E_FORMAT, "\"use_bias\"");
  Config("GemmaForCausalLM", {{"hidden_act", "gelu"}}).planned();
  Config("GemmaForCausalLM", {{"hidden_act", "gelu_pytorch_tanh"}}).planned();
  Config("LlamaForCausalLM", {{"hidden_act", ""}}).refused(QINFER_E_UNSUPPORTED, "\"hidden_act\" is \"\"");
  Config("GemmaForCausalLM", {{"hidden_act", "silu"}}).refused(QINFER_E_UNSUPPORTED, "\"hidden_act\" is \"silu\"");
  Config("GemmaForCausalLM", {{"hidden_act", "gelu"}, {"hidden_activation", "gelu"}})
      .refused(QINFER_E_UNSUPPORTED, "\"hidden_activation\" is \"gelu\"");
}

TEST_CASE("GGUF lists of the layers with a window that are no such lists", "[bad][gguf]") {
  GgufLoads loads;
  for (const char* architecture : {"olmo2", "exaone4"}) {
    const std::string key = std::string("\"") + architecture + ".attention.sliding_window_pattern\"";
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, key, loads, pattern_of(architecture, 2, GgufKeys::boolean, "\1\1"));
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, key, loads, pattern_of(architecture, 0, GgufKeys::boolean, ""));
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, key, loads, pattern_of(architecture, 1, GgufKeys::u32, gguf_number(1u)));
    for (const std::uint32_t every : {0u, UINT32_MAX}) {
      GgufFile file = tiny_gguf({.architecture = architecture});
      file.keys.set(std::string(architecture) + ".attention.sliding_window", 16u);
      file.keys.set(std::string(architecture) + ".attention.sliding_window_pattern", every);
      REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, key, loads, file.bytes());
    }
  }
  GgufFile file = tiny_gguf({.architecture = "exaone4"});
  file.keys.set("exaone4.rope.freq_base_swa", 123.0f);
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "\"exaone4.rope.freq_base_swa\" is 123", loads, file.bytes());
  file = tiny_gguf({.architecture = "granite"});
  file.keys.set("granite.logit_scale", 1.0f);
  file.keys.set("granite.expert_count", 4u);
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "\"granite.expert_count\" is 4", loads, file.bytes());
}
