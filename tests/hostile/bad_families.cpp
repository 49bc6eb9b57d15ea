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

TEST_CASE("Models of which the text is a part: its object, its kind, what the whole says", "[bad]") {
  const Json text = tiny_config(TinySpec{});
  const auto with = [&](const Json& inner, const Json& outer = Json::object()) {
    Json fields = text;
    fields.erase("architectures");
    for (const auto& [key, value] : inner.items()) {
      fields[key] = value;
      if (value.is_discarded()) fields.erase(key);
    }
    Json whole = {{"text_config", fields}};
    whole.update(outer);
    return whole;
  };
  const Json absent(Json::value_t::discarded);
  struct Row {
    const char *name, *model_type, *activation;
  };
  constexpr Row kRows[] = {{"Gemma3ForConditionalGeneration", "gemma3_text", "gelu_pytorch_tanh"},
                           {"Mistral3ForConditionalGeneration", "mistral", "silu"},
                           {"Qwen2VLForConditionalGeneration", "qwen2_vl_text", "silu"},
                           {"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text", "silu"},
                           {"Qwen3VLForConditionalGeneration", "qwen3_vl_text", "silu"},
                           {"Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe_text", "silu"}};
  for (const Row& row : kRows) {
    INFO(row.name);
    // Sizes beside text_config are not those of the text.
    const auto config = [&](Json inner, const Json& outer = Json::object()) {
      if (!inner.contains("hidden_act")) inner["hidden_act"] = row.activation;
      if (!inner.contains("rope_parameters")) inner["rope_parameters"] = absent;
      if (!inner.contains("model_type")) inner["model_type"] = row.model_type;
      Json all = with(inner, outer);
      all["hidden_size"] = 0;
      return Config(row.name, all);
    };
    config({}).planned();
    config({{"model_type", absent}}).planned();
    config({{"model_type", "llama"}})
        .refused(QINFER_E_UNSUPPORTED, "text_config: \"model_type\" is \"llama\", known for");
    config({{"model_type", 3}}).refused(QINFER_E_FORMAT, "text_config: \"model_type\"");
    config({{"hidden_size", absent}}).refused(QINFER_E_FORMAT, "text_config: the field \"hidden_size\" is missing");
    config({{"hidden_size", "16"}}).refused(QINFER_E_FORMAT, "text_config: \"hidden_size\"");
    config({{"intermediate_size", 0}}).refused(QINFER_E_FORMAT, "text_config: \"intermediate_size\" is 0");
    config({{"tie_word_embeddings", 1}}).refused(QINFER_E_FORMAT, "\"tie_word_embeddings\"");
    config({}, {{"tie_word_embeddings", "no"}}).refused(QINFER_E_FORMAT, "\"tie_word_embeddings\"");
    config({}, {{"eos_token_id", "x"}}).refused(QINFER_E_FORMAT, "config.json: \"eos_token_id\"");
    config({}, {{"quantization_config", {{"quant_method", "fp8"}}}})
        .refused(QINFER_E_UNSUPPORTED, "config.json: \"quantization_config\"");
    config({{"quantization_config", {{"quant_method", "fp8"}}}})
        .refused(QINFER_E_UNSUPPORTED, "text_config: \"quantization_config\"");
    for (const Json& wrong : {Json(3), Json("text"), Json::array()})
      config({}, {{"text_config", wrong}}).refused(QINFER_E_FORMAT, "\"text_config\" must be an object");
    const bool flat = std::string(row.name).starts_with("Qwen2");
    if (!flat) config({}, {{"text_config", nullptr}}).refused(QINFER_E_FORMAT, "\"text_config\" is missing");
  }
  // What the text's class has where released files of Gemma 3 say nothing.
  Config("Gemma3ForConditionalGeneration",
         {{"text_config",
           {{"hidden_size", 32}, {"intermediate_size", 64}, {"num_hidden_layers", 2}, {"sliding_window", 16}}}})
      .planned();
  // Three positions of a token are the same in text; elsewhere they are not known.
  const Json sections = {{"rope_type", "default"}, {"mrope_section", {1, 1, 2}}};
  Config("Qwen3VLForConditionalGeneration", with({{"rope_parameters", sections}})).planned();
  Config("Qwen2VLForConditionalGeneration", {{"rope_scaling", {{"type", "mrope"}, {"mrope_section", {1, 1, 2}}}}})
      .planned();
  Config("Qwen3ForCausalLM", {{"rope_parameters", sections}})
      .refused(QINFER_E_UNSUPPORTED, "\"mrope_section\" is not known");
  Config("LlamaForCausalLM", {{"rope_scaling", {{"type", "mrope"}}}})
      .refused(QINFER_E_UNSUPPORTED, "\"rope_type\" is \"mrope\"");
  Config("Qwen3VLMoeForConditionalGeneration", with({{"norm_topk_prob", false}}))
      .refused(QINFER_E_UNSUPPORTED, "\"norm_topk_prob\" is false");
  Config("Qwen2VLForConditionalGeneration", {{"use_sliding_window", true}, {"sliding_window", 16}})
      .refused(QINFER_E_UNSUPPORTED, "\"use_sliding_window\" is true");
}

TEST_CASE("Ministral 3: the scale of queries", "[bad]") {
  const char* name = "Ministral3ForCausalLM";
  const Json good = {{"rope_type", "yarn"},
                     {"factor", 4},
                     {"original_max_position_embeddings", 16},
                     {"max_position_embeddings", 64},
                     {"llama_4_scaling_beta", 0.1}};
  Config(name, {{"rope_parameters", good}}).planned();
  const auto with = [&](const char* field, const Json& value) {
    Json changed = good;
    changed[field] = value;
    if (value.is_discarded()) changed.erase(field);
    return Config(name, {{"rope_parameters", changed}});
  };
  const Json absent(Json::value_t::discarded);
  Config(name, Json::object()).refused(QINFER_E_FORMAT, "\"rope_parameters\" must be an object");
  with("llama_4_scaling_beta", absent).refused(QINFER_E_FORMAT, "\"llama_4_scaling_beta\" is missing");
  with("llama_4_scaling_beta", -0.1).refused(QINFER_E_FORMAT, "\"llama_4_scaling_beta\" is -0.1");
  with("llama_4_scaling_beta", "0.1").refused(QINFER_E_FORMAT, "\"llama_4_scaling_beta\"");
  with("original_max_position_embeddings", absent)
      .refused(QINFER_E_FORMAT, "\"original_max_position_embeddings\" is missing");
  with("original_max_position_embeddings", 0).refused(QINFER_E_FORMAT, "\"original_max_position_embeddings\" is 0");
  Config("LlamaForCausalLM", {{"rope_parameters", good}}).refused(QINFER_E_UNSUPPORTED, "is not known");
  Config("Mistral3ForConditionalGeneration", {{"text_config", {{"model_type", "ministral3"}}}})
      .refused(QINFER_E_FORMAT, "text_config: the field \"vocab_size\" is missing");
}

TEST_CASE("Hunyuan: alpha, and fields that transformers does not read", "[bad]") {
  const char* name = "HunYuanDenseV1ForCausalLM";
  const auto rope = [&](const Json& alpha) {
    return Config(name, {{"rope_scaling", {{"type", "dynamic"}, {"factor", 1}, {"alpha", alpha}}}});
  };
  rope(1000).planned();
  rope(nullptr).planned();
  for (const Json& alpha : {Json(0), Json(-1), Json("x")}) rope(alpha).refused(QINFER_E_FORMAT, "\"alpha\"");
  rope(1e300).refused(QINFER_E_FORMAT, "\"alpha\" is 1e+300");
  Config(name, {{"use_qk_norm", false}}).refused(QINFER_E_UNSUPPORTED, "\"use_qk_norm\" is false");
  Config(name, {{"use_cla", true}}).refused(QINFER_E_UNSUPPORTED, "\"use_cla\" is true");
  Config(name, {{"use_cla", "no"}}).refused(QINFER_E_FORMAT, "\"use_cla\"");
}

TEST_CASE("GGUF keys of Mistral 3, EmbeddingGemma and models that see images", "[bad][gguf]") {
  GgufLoads loads;
  GgufFile file = tiny_gguf({.architecture = "mistral3"});
  REQUIRE(loads.load(file.bytes()) != nullptr);
  file.keys.set("mistral3.attention.temperature_scale", 0.1f);
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"rope_parameters\" must be an object", loads, file.bytes());
  file.keys.set("mistral3.rope.scaling.type", "yarn");
  file.keys.set("mistral3.rope.scaling.factor", 4.0f);
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"original_max_position_embeddings\" is missing", loads, file.bytes());
  file.keys.set("mistral3.rope.scaling.original_context_length", 16u);
  file.keys.set("mistral3.rope.scaling.yarn_log_multiplier", 1.0f);
  REQUIRE(loads.load(file.bytes()) != nullptr);
  file.keys.set("mistral3.attention.temperature_scale", -1.0f);
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"mistral3.attention.temperature_scale\" is -1", loads, file.bytes());
  file = tiny_gguf({.architecture = "llama"});
  file.keys.set("llama.attention.temperature_scale", 0.1f);
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "\"llama.attention.temperature_scale\" is 0.1", loads, file.bytes());
  file = tiny_gguf({.architecture = "qwen3"});
  file.keys.set("qwen3.n_deepstack_layers", 3u);
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "\"qwen3.n_deepstack_layers\" is not known", loads, file.bytes());
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
