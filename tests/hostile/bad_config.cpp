// config.json and generation_config.json that are missing, malformed or absurd, and paths that are not what they should
// be. Each is refused with a message that names the file and the field; sizes are checked before memory is taken.
#include <sys/resource.h>
#include <sys/stat.h>

#include "support/c_api.h"

using namespace qinfer::test;
using Json = nlohmann::json;

namespace {

/// What plan and load say about a directory whose config.json is `text`, and plan about that file alone.
void refuse_text(const ModelDir& dir, std::string_view text, qinfer_status status, const std::string& message) {
  INFO(text.substr(0, 1000));
  dir.write("config.json", text);
  REQUIRE_LOAD_FAILS(status, message, dir);
  REQUIRE_LOAD_FAILS(status, "config.json", dir);
  auto memory = sized<qinfer_memory>();
  const std::string lone = dir.file("config.json");
  REQUIRE_FAILS(status, message, qinfer_model_plan(lone.c_str(), nullptr, nullptr, nullptr, nullptr, &memory, &err));
}

/// Sets one field (null removes it) of a good config.json.
void refuse_field(const ModelDir& dir, const TinySpec& spec, const std::string& key, const char* value,
                  qinfer_status status, const std::string& message) {
  Json config = tiny_config(spec);
  if (value == nullptr) {
    config.erase(key);
  } else {
    config[key] = Json::parse(value);
  }
  refuse_text(dir, config.dump(), status, message);
}

std::string quoted(const std::string& key) { return "\"" + key + "\""; }

}  // namespace

TEST_CASE("config.json: each required field is missing, null, of another type, zero, negative or absurd", "[bad]") {
  const TinySpec spec;
  const ModelDir dir(spec);
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                          "max_position_embeddings"}) {
    refuse_field(dir, spec, key, nullptr, QINFER_E_FORMAT, "the field " + quoted(key) + " is missing");
    refuse_field(dir, spec, key, "null", QINFER_E_FORMAT, "the field " + quoted(key) + " is missing");
    for (const char* value : {"\"16\"", "true", "[16]", "{}", "16.5", "0", "-1", "-16", "9223372036854775807",
                              "18446744073709551615", "1e300", "-1e300", "4294967312"})
      refuse_field(dir, spec, key, value, QINFER_E_FORMAT, quoted(key) + " is ");
  }
  for (const char* key : {"num_key_value_heads", "head_dim"})
    for (const char* value : {"\"8\"", "0", "-8", "1e300", "2147483648", "4294967304"})
      refuse_field(dir, spec, key, value, QINFER_E_FORMAT, quoted(key) + " is ");
  refuse_field(dir, spec, "rms_norm_eps", nullptr, QINFER_E_FORMAT, "\"rms_norm_eps\" is missing");
  for (const char* value : {"-1e-6", "2", "1e300", "\"1e-6\""})
    refuse_field(dir, spec, "rms_norm_eps", value, QINFER_E_FORMAT, "\"rms_norm_eps\" is ");
}

TEST_CASE("config.json: architectures that are unknown, several or no list", "[bad]") {
  const TinySpec spec;
  const ModelDir dir(spec);
  const auto refuse = [&](const char* value, qinfer_status status, const std::string& message) {
    refuse_field(dir, spec, "architectures", value, status, message);
  };
  refuse(nullptr, QINFER_E_FORMAT, "\"architectures\" is missing");
  refuse("\"LlamaForCausalLM\"", QINFER_E_FORMAT, "\"architectures\"");
  refuse("[]", QINFER_E_FORMAT, "\"architectures\"");
  refuse("[3]", QINFER_E_FORMAT, "\"architectures\"");
  refuse(R"(["LlamaForCausalLM","LlamaForCausalLM"])", QINFER_E_FORMAT, "\"architectures\"");
  refuse(R"(["GPT2LMHeadModel"])", QINFER_E_UNSUPPORTED, "GPT2LMHeadModel");
  refuse(R"(["llamaforcausallm"])", QINFER_E_UNSUPPORTED, "llamaforcausallm");
}

TEST_CASE("config.json: numbers of experts that cannot be, and fields of mixtures of another type", "[bad]") {
  TinySpec spec;
  spec.architecture = "Qwen2MoeForCausalLM";
  spec.experts = 5, spec.shared_ffn = 20;
  const ModelDir dir(spec);
  load_model(make_runtime(), dir.path());
  const auto refuse = [&](const char* key, std::initializer_list<const char*> values, const std::string& message) {
    for (const char* value : values) refuse_field(dir, spec, key, value, QINFER_E_FORMAT, message);
  };
  refuse("num_experts_per_tok", {"0", "-1", "2.5", "\"2\"", "4097"}, "\"num_experts_per_tok\" is ");
  refuse("num_experts_per_tok", {"6", "4096"}, "there are only 5 experts");
  refuse("num_experts", {"-1", "4097", "1e300", "\"8\"", "[8]"}, "\"num_experts\" is ");
  refuse("moe_intermediate_size", {"0", "-1", "1048577", "true"}, "\"moe_intermediate_size\" is ");
  refuse("shared_expert_intermediate_size", {"0", "-1", "1048577"}, "\"shared_expert_intermediate_size\" is ");
  refuse("decoder_sparse_step", {"0", "-1", "4097", "\"1\""}, "\"decoder_sparse_step\" is ");
  refuse("mlp_only_layers", {"3", "\"0\"", "{}"}, "\"mlp_only_layers\" must be a list");
  refuse("mlp_only_layers", {"[-1]", "[2]", "[0.5]", "[\"0\"]"}, "\"mlp_only_layers\" holds ");
  refuse("norm_topk_prob", {"1", "\"true\""}, "\"norm_topk_prob\" is ");
  refuse("qkv_bias", {"1"}, "\"qkv_bias\" is ");
  refuse_field(dir, spec, "use_sliding_window", "true", QINFER_E_UNSUPPORTED, "only with \"layer_types\"");
  spec.architecture = "Qwen3MoeForCausalLM", spec.shared_ffn = 0;
  refuse("num_local_experts", {"4", "6"}, "expected the same");
  // Many layers of many experts: tensors without number.
  Json config = tiny_config(spec);
  config["num_hidden_layers"] = 17;
  config["num_experts"] = 4096;
  refuse_text(dir, config.dump(), QINFER_E_UNSUPPORTED, "69632 experts in all layers together, at most 65536");
}

TEST_CASE("config.json: heads that do not fit each other", "[bad]") {
  const TinySpec spec;
  const ModelDir dir(spec);
  refuse_field(dir, spec, "head_dim", "7", QINFER_E_UNSUPPORTED, "a head of 7 dimensions");
  refuse_field(dir, spec, "head_dim", "1026", QINFER_E_FORMAT, "\"head_dim\" is 1026");
  refuse_field(dir, spec, "num_key_value_heads", "3", QINFER_E_FORMAT, "\"num_key_value_heads\" (3)");
  Json config = tiny_config(spec);
  config.erase("head_dim");
  config["num_attention_heads"] = 3;
  refuse_text(dir, config.dump(), QINFER_E_FORMAT, "\"hidden_size\" (16)");
  // CVE-2024-12055 and the like: a zero that is divided by.
  config["num_attention_heads"] = 0;
  refuse_text(dir, config.dump(), QINFER_E_FORMAT, "\"num_attention_heads\" is 0");
}

TEST_CASE("config.json: what would change the result and is not implemented is refused by name", "[bad]") {
  const TinySpec spec;
  const ModelDir dir(spec);
  const auto refuse = [&](const std::string& key, const char* value) {
    refuse_field(dir, spec, key, value, QINFER_E_UNSUPPORTED, quoted(key));
  };
  refuse("quantization_config", R"({"quant_method":"gptq"})");
  refuse("hidden_act", "\"gelu\"");
  refuse("hidden_activation", "\"gelu_pytorch_tanh\"");
  refuse("partial_rotary_factor", "0.5");
  refuse("attn_logit_softcapping", "50.0");
  refuse("final_logit_softcapping", "30.0");
  for (const char* key : {"attention_multiplier", "residual_multiplier", "embedding_multiplier", "logits_scaling"})
    refuse(key, "0.5");
  refuse("num_experts", "8");
  refuse("num_local_experts", "8");
  refuse("use_sliding_window", "true");
  refuse_field(dir, spec, "hidden_act", "3", QINFER_E_FORMAT, "\"hidden_act\"");
  refuse_field(dir, spec, "attention_bias", "1", QINFER_E_FORMAT, "\"attention_bias\"");
  refuse_field(dir, spec, "tie_word_embeddings", "\"yes\"", QINFER_E_FORMAT, "\"tie_word_embeddings\"");
  TinySpec mistral = spec;
  mistral.architecture = "MistralForCausalLM";
  refuse_field(dir, mistral, "sliding_window", "-1", QINFER_E_FORMAT, "\"sliding_window\" is -1");
  refuse_field(dir, mistral, "layer_types", "[]", QINFER_E_FORMAT, "\"layer_types\" must list 2");
  refuse_field(dir, mistral, "layer_types", "3", QINFER_E_FORMAT, "\"layer_types\"");
  refuse_field(dir, mistral, "layer_types", R"(["full_attention",3])", QINFER_E_UNSUPPORTED, "\"layer_types\"");
  refuse_field(dir, mistral, "layer_types", R"(["full_attention","linear_attention"])", QINFER_E_UNSUPPORTED,
               "linear_attention");
  refuse_field(dir, mistral, "layer_types", R"(["full_attention","sliding_attention"])", QINFER_E_FORMAT,
               "\"sliding_window\" is not set");
}

TEST_CASE("config.json: what Olmo 2 does not have is refused by name", "[bad]") {
  TinySpec spec;
  spec.architecture = "Olmo2ForCausalLM";
  const ModelDir dir(spec);
  const auto refuse = [&](const std::string& key, const char* value, const std::string& message) {
    refuse_field(dir, spec, key, value, QINFER_E_UNSUPPORTED, quoted(key) + message);
  };
  refuse("mlp_bias", "true", " is true, which Olmo2ForCausalLM does not have");
  refuse("clip_qkv", "8.0", " is 8, only 0 is supported");
  refuse("use_sliding_window", "true", " is true, which Olmo2ForCausalLM does not have");
  refuse("partial_rotary_factor", "0.5", " is 0.5, only 1");
  refuse("hidden_act", "\"gelu\"", " is \"gelu\"");
  for (const char* type : {"sliding_attention", "chunked_attention"})
    refuse("layer_types", fmt::format(R"(["full_attention","{}"])", type).c_str(),
           fmt::format(" holds \"{}\", Olmo2ForCausalLM has full_attention only", type));
  refuse("layer_types", "[3]", " holds 3");
  refuse_field(dir, spec, "layer_types", "\"full_attention\"", QINFER_E_FORMAT, "\"layer_types\" must be a list");
  refuse_field(dir, spec, "attention_bias", "1", QINFER_E_FORMAT, "\"attention_bias\"");
  // What says the same as nothing loads.
  Json config = tiny_config(spec);
  config["clip_qkv"] = nullptr;
  config["layer_types"] = {"full_attention", "full_attention"};
  config["use_sliding_window"] = config["mlp_bias"] = config["attention_bias"] = false;
  dir.write("config.json", config.dump());
  load_model(make_runtime(), dir.path());
}

TEST_CASE("config.json: Gemma's own fields, encoders, and shared keys and values", "[bad]") {
  const TinySpec llama;
  const ModelDir dir(llama);
  const auto gemma = [&](const char* architecture, const std::string& key, const char* value, qinfer_status status,
                         const std::string& message) {
    Json config = tiny_config(llama);
    config["architectures"] = {architecture};
    config.erase("hidden_act");
    if (std::string(architecture) != "Gemma2ForCausalLM") config.erase("rope_parameters");
    if (std::string(architecture) == "Gemma3TextModel") config["use_bidirectional_attention"] = true;
    config[key] = Json::parse(value);
    refuse_text(dir, config.dump(), status, message);
  };
  const char *two = "Gemma2ForCausalLM", *three = "Gemma3ForCausalLM", *encoder = "Gemma3TextModel";
  for (const char* value : {"0", "-1", "1e300", "\"50\""}) {
    gemma(two, "attn_logit_softcapping", value, QINFER_E_FORMAT, "\"attn_logit_softcapping\" is ");
    gemma(two, "final_logit_softcapping", value, QINFER_E_FORMAT, "\"final_logit_softcapping\" is ");
    gemma(three, "query_pre_attn_scalar", value, QINFER_E_FORMAT, "\"query_pre_attn_scalar\" is ");
  }
  gemma(three, "attn_logit_softcapping", "50.0", QINFER_E_UNSUPPORTED, "\"attn_logit_softcapping\" is 50");
  gemma(two, "hidden_activation", "\"gelu\"", QINFER_E_UNSUPPORTED, "only \"gelu_pytorch_tanh\"");
  gemma(two, "num_key_value_heads", "null", QINFER_E_FORMAT, "\"num_key_value_heads\" is missing");
  gemma(two, "use_bidirectional_attention", "true", QINFER_E_UNSUPPORTED, "\"use_bidirectional_attention\" is true");
  gemma(encoder, "use_bidirectional_attention", "false", QINFER_E_UNSUPPORTED, "is not true");
  gemma(encoder, "num_kv_shared_layers", "1", QINFER_E_UNSUPPORTED, "\"num_kv_shared_layers\" is 1");
  for (const char* value : {"0", "-1", "4294967297"})
    gemma(three, "sliding_window_pattern", value, QINFER_E_FORMAT, "\"sliding_window_pattern\" is ");
  gemma(three, "rope_local_base_freq", "-1", QINFER_E_FORMAT, "\"rope_local_base_freq\" is -1");
  gemma(three, "rope_parameters", "3", QINFER_E_FORMAT, "\"rope_parameters\" must be an object");
  gemma(three, "rope_parameters", R"({"rope_type":"default"})", QINFER_E_FORMAT, "\"full_attention\"");
  gemma(three, "rope_parameters", R"({"full_attention":3})", QINFER_E_FORMAT, "full_attention must be an object");
  gemma(three, "rope_parameters", R"({"sliding_attention":{"rope_type":"ntk"}})", QINFER_E_UNSUPPORTED, "ntk");
  gemma(two, "rope_parameters", R"({"full_attention":{}})", QINFER_E_UNSUPPORTED, "for each kind of attention");
  // Before the shared layers there must be one of each kind.
  gemma(three, "num_kv_shared_layers", "2", QINFER_E_FORMAT, "\"num_kv_shared_layers\" is 2");
  gemma(two, "num_kv_shared_layers", "1", QINFER_E_FORMAT, "before layer 1 there is none of its kind");
  refuse_field(dir, llama, "num_kv_shared_layers", "-1", QINFER_E_FORMAT, "\"num_kv_shared_layers\" is -1");
  refuse_field(dir, llama, "is_causal", "false", QINFER_E_UNSUPPORTED, "\"is_causal\" is false");
}

TEST_CASE("config.json: SmolLM3's layers without rope, their windows, and what it leaves to its class", "[bad]") {
  TinySpec spec;
  spec.architecture = "SmolLM3ForCausalLM", spec.heads = 8, spec.kv_heads = 8;
  const ModelDir dir(spec);
  const auto refuse = [&](const std::string& key, const char* value, qinfer_status status, const std::string& message) {
    refuse_field(dir, spec, key, value, status, message);
  };
  for (const char* value : {"3", "{}", "\"1,0\"", "[]", "[1]"})
    refuse("no_rope_layers", value, QINFER_E_FORMAT, "\"no_rope_layers\" must list at least 2 layers");
  for (const char* value : {"[1,2]", "[-1,1]", "[true,1]", "[1,null]", "[1,\"0\"]", "[1,0.5]", "[1,0,2]", "[[1],0]"})
    refuse("no_rope_layers", value, QINFER_E_FORMAT, "\"no_rope_layers\" holds ");
  for (const char* value : {"0", "-1", "null", "\"4\"", "1.5", "1e300"})
    refuse("no_rope_layer_interval", value, QINFER_E_FORMAT, "\"no_rope_layer_interval\" is ");
  refuse("num_key_value_heads", "3", QINFER_E_FORMAT, "\"num_key_value_heads\" (3)");
  refuse("partial_rotary_factor", "0.5", QINFER_E_UNSUPPORTED, "\"partial_rotary_factor\"");
  refuse("layer_types", R"(["full_attention"])", QINFER_E_FORMAT, "\"layer_types\" must list 2");
  refuse("layer_types", R"(["full_attention","chunked_attention"])", QINFER_E_UNSUPPORTED, "chunked_attention");
  refuse("layer_types", R"(["full_attention","sliding_attention"])", QINFER_E_FORMAT, "\"sliding_window\" is not set");
  Json config = tiny_config(spec);
  config["sliding_window"] = 16;
  config["layer_types"] = {"full_attention", "sliding_attention"};
  refuse_text(dir, config.dump(), QINFER_E_FORMAT, "\"use_sliding_window\" is not true");
  config.erase("layer_types");
  config["use_sliding_window"] = true;
  config["sliding_window"] = 0;
  refuse_text(dir, config.dump(), QINFER_E_FORMAT, "\"sliding_window\" is 0");
  // A layer without rope cannot read the keys of one with it.
  config = tiny_config(spec);
  config["no_rope_layers"] = {1, 0};
  config["num_kv_shared_layers"] = 1;
  refuse_text(dir, config.dump(), QINFER_E_FORMAT, "before layer 1 there is none of its kind");

  const auto plan = [&](const Json& text) {
    dir.write("config.json", text.dump());
    auto memory = sized<qinfer_memory>();
    const std::string lone = dir.file("config.json");
    REQUIRE_OK(qinfer_model_plan(lone.c_str(), nullptr, nullptr, nullptr, nullptr, &memory, &err));
    return memory;
  };
  config = tiny_config(spec);
  const qinfer_memory stated = plan(config);
  config["num_key_value_heads"] = nullptr;  // as many as there are heads
  CHECK(plan(config).kv_per_block == stated.kv_per_block);
  config.erase("num_key_value_heads");  // 4
  CHECK(plan(config).kv_per_block == stated.kv_per_block / 2);
  config = tiny_config(spec);
  config.erase("tie_word_embeddings");
  const auto weights = [](const qinfer_memory& memory) { return memory.weights_private + memory.weights_mapped; };
  CHECK(weights(plan(config)) + std::uint64_t{4} * spec.vocab * spec.hidden <= weights(stated));
  config["no_rope_layers"] = {0, 1, 1};  // longer than the model is as good, and the interval then is not looked at
  config["no_rope_layer_interval"] = 0;
  CHECK(plan(config).kv_per_block == stated.kv_per_block);
}

TEST_CASE("config.json: Granite's multipliers are positive numbers, or not there", "[bad]") {
  TinySpec spec;
  spec.architecture = "GraniteForCausalLM";
  const ModelDir dir(spec);
  for (const char* key : {"attention_multiplier", "residual_multiplier", "embedding_multiplier", "logits_scaling"}) {
    for (const char* value : {"0", "-1", "null", "1e300", "-1e300", "1e-300", "\"2\"", "true", "[1]"})
      refuse_field(dir, spec, key, value, QINFER_E_FORMAT, quoted(key) + " is ");
    Json config = tiny_config(spec);
    config[key] = 12;
    dir.write("config.json", config.dump());
    auto memory = sized<qinfer_memory>();
    REQUIRE_OK(qinfer_model_plan(dir.path().c_str(), nullptr, nullptr, nullptr, nullptr, &memory, &err));
  }
  refuse_field(dir, spec, "use_sliding_window", "true", QINFER_E_UNSUPPORTED, "\"use_sliding_window\"");
  refuse_field(dir, spec, "num_local_experts", "8", QINFER_E_UNSUPPORTED, "\"num_local_experts\"");
  refuse_field(dir, spec, "partial_rotary_factor", "0.5", QINFER_E_UNSUPPORTED, "\"partial_rotary_factor\"");
}

TEST_CASE("config.json: rope types and their factors", "[bad]") {
  const TinySpec spec;
  const ModelDir dir(spec);
  const auto refuse = [&](const char* value, qinfer_status status, const std::string& message) {
    refuse_field(dir, spec, "rope_parameters", value, status, message);
  };
  refuse("[]", QINFER_E_FORMAT, "\"rope_parameters\" must be an object");
  refuse(R"({"rope_type":"longrope","factor":2})", QINFER_E_FORMAT, "\"short_factor\" must be a list of 4 numbers");
  refuse(R"({"rope_type":"dynamic"})", QINFER_E_FORMAT, "\"factor\" is missing");
  refuse(R"({"rope_type":"dynamic","factor":2,"alpha":1000})", QINFER_E_UNSUPPORTED, "\"alpha\" is not known");
  refuse(R"({"rope_type":"proportional","factor":2})", QINFER_E_UNSUPPORTED, "\"rope_type\" is \"proportional\"");
  refuse(R"({"rope_type":3})", QINFER_E_FORMAT, "\"rope_type\" is a number");
  refuse(R"({"rope_type":"linear","type":"yarn","factor":2})", QINFER_E_FORMAT, "\"yarn\"");
  refuse(R"({"full_attention":{},"sliding_attention":{}})", QINFER_E_UNSUPPORTED, "\"rope_parameters\"");
  for (const char* type : {"linear", "llama3", "yarn"})
    refuse(fmt::format(R"({{"rope_type":"{}"}})", type).c_str(), QINFER_E_FORMAT, "\"factor\" is missing");
  for (const char* factor : {"0", "-1", "\"2\""})
    refuse(fmt::format(R"({{"rope_type":"linear","factor":{}}})", factor).c_str(), QINFER_E_FORMAT, "\"factor\" is ");
  refuse(R"({"rope_type":"llama3","factor":8})", QINFER_E_FORMAT, "\"low_freq_factor\" is missing");
  refuse(R"({"rope_type":"llama3","factor":8,"low_freq_factor":1})", QINFER_E_FORMAT,
         "\"high_freq_factor\" is missing");
  refuse(R"({"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4})", QINFER_E_FORMAT,
         "\"high_freq_factor\" must be above");
  refuse(R"({"rope_type":"yarn","factor":4,"original_max_position_embeddings":0})", QINFER_E_FORMAT,
         "\"original_max_position_embeddings\" is 0");
  refuse(R"({"rope_type":"yarn","factor":4,"beta_fast":-1})", QINFER_E_FORMAT, "\"beta_fast\" is -1");
  refuse(R"({"rope_type":"yarn","factor":4,"attention_factor":0})", QINFER_E_FORMAT, "\"attention_factor\" is 0");
  for (const char* theta : {"0", "-10000", "\"10000\""})
    refuse(fmt::format(R"({{"rope_theta":{}}})", theta).c_str(), QINFER_E_FORMAT, "\"rope_theta\" is ");
  refuse_field(dir, spec, "rope_theta", "500000.0", QINFER_E_FORMAT, "\"rope_theta\" is 10000, but 500000 outside");
  refuse_field(dir, spec, "rope_scaling", R"({"rope_type":"linear","factor":2})", QINFER_E_FORMAT,
               "\"rope_scaling\" and \"rope_parameters\" contradict");
}

TEST_CASE("config.json: Phi3's windows, partial heads and rope types", "[bad]") {
  TinySpec spec;
  spec.architecture = "Phi3ForCausalLM";
  const ModelDir dir(spec);
  load_model(make_runtime(), dir.path());
  const auto refuse = [&](const std::string& key, const char* value, qinfer_status status, const std::string& message) {
    refuse_field(dir, spec, key, value, status, message);
  };
  const auto rope = [&](const char* value, qinfer_status status, const std::string& message) {
    refuse("rope_parameters", value, status, message);
  };
  for (const char* type : {"linear", "llama3", "dynamic"}) {
    const std::string named = "\"rope_type\" is \"" + std::string(type) + "\", known for this architecture are default";
    rope(fmt::format(R"({{"rope_type":"{}","short_factor":[1,1,1,1],"long_factor":[2,2,2,2]}})", type).c_str(),
         QINFER_E_UNSUPPORTED, named);
    Json config = tiny_config(spec);
    config.erase("rope_parameters");
    config["rope_scaling"] = {{"type", type}, {"factor", 2}};
    refuse_text(dir, config.dump(), QINFER_E_UNSUPPORTED, named);
  }
  rope(R"({"rope_type":"default","short_factor":[1,1,1,1]})", QINFER_E_UNSUPPORTED, "\"short_factor\" is not known");
  for (const char* type : {"longrope", "su", "yarn"}) {
    const auto with = [&](const char* lists) { return fmt::format(R"({{"rope_type":"{}",{}}})", type, lists); };
    for (const char* list :
         {"[1,1,1]", "[1,1,1,1,1]", "4", "[1,1,1,0]", "[1,1,-2,1]", "[1,1,\"x\",1]", "[1,1,null,1]"}) {
      rope(with(fmt::format(R"("short_factor":{},"long_factor":[2,2,2,2])", list).c_str()).c_str(), QINFER_E_FORMAT,
           "\"short_factor\" ");
      rope(with(fmt::format(R"("short_factor":[2,2,2,2],"long_factor":{})", list).c_str()).c_str(), QINFER_E_FORMAT,
           "\"long_factor\" ");
    }
    rope(with(R"("short_factor":[1,1,1,1])").c_str(), QINFER_E_FORMAT, "\"long_factor\" must be a list of 4 numbers");
    rope(with(R"("short_factor":[1,1,1,1],"long_factor":[2,2,2,2],"factor":9)").c_str(), QINFER_E_UNSUPPORTED,
         "\"factor\" is 9");
    rope(with(R"("short_factor":[1,1,1,1],"long_factor":[2,2,2,2],"attention_factor":0)").c_str(), QINFER_E_FORMAT,
         "\"attention_factor\" is 0");
    rope(with(R"("short_factor":[1,1,1,1],"long_factor":[2,2,2,2],"original_max_position_embeddings":0)").c_str(),
         QINFER_E_FORMAT, "\"original_max_position_embeddings\" is 0");
  }
  // Heads have 8 dimensions.
  for (const char* factor : {"0", "-0.5", "1.5", "1e300", "1.0000001"}) {
    refuse("partial_rotary_factor", factor, QINFER_E_FORMAT, "\"partial_rotary_factor\" is ");
    rope(fmt::format(R"({{"partial_rotary_factor":{}}})", factor).c_str(), QINFER_E_FORMAT,
         "\"partial_rotary_factor\" is ");
  }
  refuse("partial_rotary_factor", "\"0.5\"", QINFER_E_FORMAT, "\"partial_rotary_factor\"");
  rope(R"({"partial_rotary_factor":"0.5"})", QINFER_E_FORMAT, "\"partial_rotary_factor\"");
  refuse("partial_rotary_factor", "0.4", QINFER_E_UNSUPPORTED, "3 of the 8 dimensions");
  rope(R"({"partial_rotary_factor":0.1})", QINFER_E_UNSUPPORTED, "0 of the 8 dimensions");
  refuse("partial_rotary_factor", "0.999", QINFER_E_UNSUPPORTED, "7 of the 8 dimensions");
  Json config = tiny_config(spec);
  config["partial_rotary_factor"] = 0.5;
  config["rope_parameters"]["partial_rotary_factor"] = 0.75;
  refuse_text(dir, config.dump(), QINFER_E_FORMAT, "\"partial_rotary_factor\" is 0.5 and, in the object");
  for (const char* field : {"attention_bias", "mlp_bias", "lm_head_bias"})
    refuse(field, "true", QINFER_E_UNSUPPORTED, quoted(field) + " is true, which Phi3ForCausalLM does not have");
  refuse("lm_head_bias", "1", QINFER_E_FORMAT, "\"lm_head_bias\"");
  refuse("sliding_window", "-1", QINFER_E_FORMAT, "\"sliding_window\" is -1");
  refuse("use_sliding_window", "true", QINFER_E_UNSUPPORTED,
         "\"use_sliding_window\" is true, but \"sliding_window\" is 0");
  refuse("layer_types", R"(["full_attention","sliding_attention"])", QINFER_E_FORMAT, "\"sliding_window\" is not set");
  spec.window = 20;
  refuse("use_sliding_window", "false", QINFER_E_UNSUPPORTED,
         "\"use_sliding_window\" is false, but \"sliding_window\" is 20");
  refuse("layer_types", R"(["sliding_attention","full_attention"])", QINFER_E_UNSUPPORTED,
         "\"layer_types\" has full_attention in layer 1, but \"sliding_window\" is 20");
}

TEST_CASE("config.json and generation_config.json: token ids out of range", "[bad]") {
  const TinySpec spec;
  const ModelDir dir(spec);
  const char* bad[] = {"-2", "18446744073709551615", "1e300", "1.5", "\"2\"", "true", "[2,-3]", "[[2]]", "[2,null]",
                       "{}"};
  for (const char* key : {"bos_token_id", "eos_token_id"})
    for (const char* value : bad) refuse_field(dir, spec, key, value, QINFER_E_FORMAT, quoted(key) + " holds ");
  dir.write("config.json", tiny_config(spec).dump());
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    for (const char* value : bad) {
      INFO(key << " " << value);
      dir.write("generation_config.json", fmt::format("{{\"{}\":{}}}", key, value));
      REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "generation_config.json: " + quoted(key) + " holds ", dir);
    }
  }
}

TEST_CASE("config.json that is not one JSON object", "[bad]") {
  const ModelDir dir{TinySpec()};
  refuse_text(dir, "", QINFER_E_FORMAT, "unexpected end");
  refuse_text(dir, "   ", QINFER_E_FORMAT, "config.json");
  refuse_text(dir, "[]", QINFER_E_FORMAT, "expected a JSON object");
  refuse_text(dir, "null", QINFER_E_FORMAT, "expected a JSON object");
  refuse_text(dir, "\"text\"", QINFER_E_FORMAT, "expected a JSON object");
  refuse_text(dir, "{", QINFER_E_FORMAT, "unexpected end");
  refuse_text(dir, "{} {}", QINFER_E_FORMAT, "config.json");
  refuse_text(dir, "{\"hidden_size\":NaN}", QINFER_E_FORMAT, "config.json");
  refuse_text(dir, "{\"\xff\":1}", QINFER_E_FORMAT, "UTF-8");
  refuse_text(dir, "{\"hidden_size\":1,\"hidden_size\":2}", QINFER_E_FORMAT, "\"hidden_size\" appears twice");
  refuse_text(dir, "{\"a\":{\"b\":1,\"b\":2}}", QINFER_E_FORMAT, "\"b\" appears twice");
  refuse_text(dir, "{\"a\":" + std::string(100'000, '['), QINFER_E_FORMAT, "nested deeper than 64");
  refuse_text(dir, std::string("{}\0{}", 5), QINFER_E_FORMAT, "NUL");
  refuse_text(dir, std::string((1 << 20) + 1, ' '), QINFER_E_FORMAT, "at most 1048576");
  dir.write("config.json", tiny_config(TinySpec()).dump());
  for (const char* text : {"", "[]", "{", "{\"eos_token_id\":2,\"eos_token_id\":3}"}) {
    INFO(text);
    dir.write("generation_config.json", text);
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "generation_config.json", dir);
  }
}

TEST_CASE("Sizes that fit their fields but no machine: planned without overflow, and not allocated (CVE-2024-39720)",
          "[bad]") {
  const ModelDir dir;
  Json config = tiny_config(TinySpec());
  config["vocab_size"] = 1 << 24;
  config["hidden_size"] = 1 << 20;
  config["intermediate_size"] = 1 << 20;
  config["num_hidden_layers"] = 4096;
  config["num_attention_heads"] = 1024;
  config["num_key_value_heads"] = 1024;
  config["head_dim"] = 1024;
  config["max_position_embeddings"] = 1 << 24;
  dir.write("config.json", config.dump());
  auto load = sized<qinfer_load_options>();
  load.max_batch_tokens = 65536;
  auto runtime = sized<qinfer_runtime_options>();
  runtime.n_threads = 1024;
  auto cache = sized<qinfer_kv_cache_options>();
  auto session = sized<qinfer_session_options>();
  session.max_tokens = session.max_logits = 1 << 20;
  auto memory = sized<qinfer_memory>();
  const std::string lone = dir.file("config.json");
  REQUIRE_OK(qinfer_model_plan(lone.c_str(), &runtime, &load, &cache, &session, &memory, &err));
  // 7 matrices of 2^40 elements a layer, 2 bytes each.
  REQUIRE(memory.weights_mapped + memory.weights_private > (std::uint64_t{7} << 40) * 2 * 4096);
  REQUIRE(memory.total > memory.weights_mapped + memory.weights_private);
  REQUIRE(memory.total == memory.weights_mapped + memory.weights_private + memory.tables + memory.scratch +
                              memory.kv_cache_bytes + memory.kv_lists);
  REQUIRE(memory.per_session > (std::uint64_t{1} << 20) * (1 << 24) * 4);
  REQUIRE(memory.load_peak < UINT64_MAX / 2);
  // Of the RoPE table the rows that the session reaches count; for a session of the whole context they are too many.
  REQUIRE(memory.tables == std::uint64_t{1 << 20} * 1024 * 4);
  session.max_tokens = 0;
  REQUIRE_FAILS_AT(QINFER_E_NO_MEMORY, std::int64_t{1} << 36, "a max_tokens of up to 1048576 fits",
                   qinfer_model_plan(lone.c_str(), &runtime, &load, &cache, &session, &memory, &err));
  config["num_attention_heads"] = 1 << 20;
  config["num_key_value_heads"] = 1 << 20;
  refuse_text(dir, config.dump(), QINFER_E_FORMAT, "\"num_attention_heads\" (1048576)");
  // A budget is checked before anything is allocated.
  const TinySpec spec;
  const ModelDir tiny(spec);
  config = tiny_config(spec);
  config["max_position_embeddings"] = 1 << 24;
  tiny.write("config.json", config.dump());
  load = sized<qinfer_load_options>();
  load.memory_budget_bytes = 1 << 20;
  qinfer_model* refused = nullptr;
  REQUIRE_FAILS(QINFER_E_NO_MEMORY, "memory_budget_bytes is 1048576",
                qinfer_model_load(nullptr, tiny.path().c_str(), &load, &refused, &err));
  // Without a budget a model loads that names 16 million positions, and has sessions as long as memory allows.
  const Model model = load_model(make_runtime(), tiny.path());
  const Cache blocks = make_cache(model);
  auto used = sized<qinfer_memory>();
  REQUIRE_OK(qinfer_model_get_memory(model.get(), &used, &err));
  const std::uint64_t before = used.tables;
  session = sized<qinfer_session_options>();
  session.max_tokens = 1000;
  const Session first = make_session(blocks, &session);
  REQUIRE_OK(qinfer_model_get_memory(model.get(), &used, &err));
  CHECK(used.tables == before + 1000 * spec.head_dim * 4);
  session.max_tokens = 10;  // within what is there
  const Session second = make_session(blocks, &session);
  REQUIRE_OK(qinfer_model_get_memory(model.get(), &used, &err));
  CHECK(used.tables == before + 1000 * spec.head_dim * 4);
}

TEST_CASE("Paths that are not a model directory", "[bad]") {
  const ModelDir dir;
  qinfer_model* model = nullptr;
  auto memory = sized<qinfer_memory>();
  const auto refuse = [&](const std::string& path, qinfer_status status, const std::string& message) {
    INFO(path);
    REQUIRE_FAILS(status, message, qinfer_model_load(nullptr, path.c_str(), nullptr, &model, &err));
    REQUIRE_FAILS(status, message, qinfer_model_plan(path.c_str(), nullptr, nullptr, nullptr, nullptr, &memory, &err));
  };
  refuse(dir.file("absent"), QINFER_E_NOT_FOUND, "absent");
  refuse("", QINFER_E_NOT_FOUND, "No such file");
  refuse(dir.path(), QINFER_E_NOT_FOUND, "config.json");
  refuse(std::string(10'000, 'x'), QINFER_E_IO, "xxx");
  REQUIRE(mkfifo(dir.file("config.json").c_str(), 0600) == 0);
  refuse(dir.path(), QINFER_E_FORMAT, "config.json: not a regular file");  // and does not wait for a writer
  refuse(dir.file("config.json"), QINFER_E_UNSUPPORTED, "not a model directory");
  dir.remove("config.json");
  REQUIRE(mkdir(dir.file("config.json").c_str(), 0700) == 0);
  refuse(dir.path(), QINFER_E_FORMAT, "config.json: not a regular file");
  refuse("/dev/zero", QINFER_E_UNSUPPORTED, "/dev/zero");
  // A file where load wants a directory.
  dir.write("model.gguf", "GGUF");
  REQUIRE_FAILS(QINFER_E_FORMAT, "model.gguf: the header",
                qinfer_model_load(nullptr, dir.file("model.gguf").c_str(), nullptr, &model, &err));
}

TEST_CASE("A lone config.json can be planned, and gives the sizes that loading the directory has", "[bad]") {
  const TinySpec spec;
  const ModelDir dir(spec);
  auto whole = sized<qinfer_memory>(), lone = sized<qinfer_memory>();
  REQUIRE_OK(qinfer_model_plan(dir.path().c_str(), nullptr, nullptr, nullptr, nullptr, &whole, &err));
  REQUIRE_OK(qinfer_model_plan(dir.file("config.json").c_str(), nullptr, nullptr, nullptr, nullptr, &lone, &err));
  REQUIRE(lone.weights_private + lone.weights_mapped == whole.weights_private + whole.weights_mapped);
  REQUIRE(lone.scratch == whole.scratch);
  REQUIRE(lone.kv_per_block == whole.kv_per_block);
}
