// Checkpoints whose files are well-formed but do not fit each other, config.json or the request: tensors that are
// missing or have another shape, indices that name the wrong shard, values that are not finite, data at odd offsets.
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "support/c_api.h"
#include "support/skip.h"
#include "support/targets.h"

using namespace qinfer::test;
using qinfer::DType;
using Json = nlohmann::json;

namespace {

constexpr std::string_view kIndex = "model.safetensors.index.json";

template <typename Change>
void change_index(const ModelDir& dir, Change change) {
  Json index = Json::parse(dir.read(kIndex));
  change(index);
  dir.write(kIndex, index.dump());
}

TinySpec sharded() {
  TinySpec spec;
  spec.shards = 3;
  return spec;
}

}  // namespace

TEST_CASE("Tensors that are missing or have a shape that config.json does not ask for", "[bad]") {
  const TinySpec spec;
  const ModelDir dir(spec);
  for (const TinyTensor& victim : tiny_tensors(spec)) {
    INFO(victim.name);
    write_changed(dir, spec, [&](auto& tensors) {
      std::erase_if(tensors, [&](const TinyTensor& tensor) { return tensor.name == victim.name; });
    });
    // Without an LM head there are embeddings: tests/source/oddities.cpp.
    if (victim.name != "lm_head.weight") REQUIRE_LOAD_FAILS(QINFER_E_NOT_FOUND, "\"" + victim.name + "\"", dir);
    write_changed(dir, spec, [&](auto& tensors) { find_tensor(tensors, victim.name).shape.push_back(1); });
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "\"" + victim.name + "\" has the shape", dir);
  }
  // Transposed: the same number of bytes.
  write_changed(dir, spec, [](auto& tensors) {
    find_tensor(tensors, "model.layers.0.mlp.down_proj.weight").shape = {24, 16};
  });
  REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "model.layers.0.mlp.down_proj.weight\" has the shape [24, 16]", dir);
  dir.write("model.safetensors", safetensors_file("{}", ""));
  REQUIRE_LOAD_FAILS(QINFER_E_NOT_FOUND, "model.embed_tokens.weight", dir);
}

TEST_CASE("A tensor that says that it has very many matrices takes no time for each", "[bad]") {
  const TinySpec spec;
  const ModelDir dir(spec);
  for (const std::vector<std::uint64_t>& shape :
       {std::vector<std::uint64_t>{std::uint64_t{1} << 58, 0, 1}, {std::uint64_t{1} << 58, 1, 0}, {65'537, 1, 1}}) {
    write_changed(dir, spec, [&](auto& tensors) {
      tensors.push_back({"spare", "F32", shape, std::string(shape[1] * shape[2] * 4 * 65'537, '\0')});
    });
    const Runtime runtime = make_runtime(1);
    const Model model = load_model(runtime, dir.path());  // its fingerprint samples all tensors
    REQUIRE_OK(qinfer_model_pack(runtime.get(), dir.path().c_str(), nullptr, dir.file("packed").c_str(), &err));
  }
}

TEST_CASE("Tensors that hold several of the model's are missing or have another shape", "[bad]") {
  TinySpec spec;
  spec.architecture = "Phi3ForCausalLM";
  const ModelDir dir(spec);
  load_model(make_runtime(), dir.path());
  const std::string attention = "model.layers.1.self_attn.qkv_proj.weight",
                    mlp = "model.layers.1.mlp.gate_up_proj.weight";
  for (const std::string& victim : {attention, mlp}) {
    INFO(victim);
    write_changed(dir, spec, [&](auto& tensors) {
      std::erase_if(tensors, [&](const TinyTensor& tensor) { return tensor.name == victim; });
    });
    REQUIRE_LOAD_FAILS(QINFER_E_NOT_FOUND, "\"" + victim + "\"", dir);
    write_changed(dir, spec, [&](auto& tensors) {  // a row less
      TinyTensor& tensor = find_tensor(tensors, victim);
      tensor.data.resize(tensor.data.size() / tensor.shape[0] * (tensor.shape[0] - 1));
      --tensor.shape[0];
    });
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "\"" + victim + "\" has the shape [" + (victim == mlp ? "47, 16]" : "31, 16]"),
                       dir);
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, victim == mlp ? "asks for [48, 16]" : "asks for [32, 16]", dir);
    write_changed(dir, spec, [&](auto& tensors) { find_tensor(tensors, victim).shape.push_back(1); });
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "\"" + victim + "\" has the shape", dir);
    write_changed(dir, spec, [&](auto& tensors) { find_tensor(tensors, victim).dtype = "I32"; });
    REQUIRE_LOAD_FAILS(QINFER_E_UNSUPPORTED, "\"" + victim + "\" is I32", dir);
  }
}

namespace {

TinySpec mixture(bool fused) {
  TinySpec spec;
  spec.architecture = "Qwen2MoeForCausalLM";
  spec.experts = 3, spec.shared_ffn = 20;
  spec.fused_experts = fused;
  return spec;
}

/// The logits of n texts of one token each.
std::vector<std::vector<float>> logits_of_tokens(const ModelDir& dir, std::int32_t n, std::uint32_t n_vocab) {
  const Runtime runtime = make_runtime();
  const Model model = load_model(runtime, dir.path());
  const Cache cache = make_cache(model);
  std::vector<std::vector<float>> rows;
  for (std::int32_t token = 0; token < n; ++token) {
    const Session session = make_session(cache);
    append(session, {token});
    eval(session);
    rows.push_back(last_logits(session, n_vocab));
  }
  return rows;
}

}  // namespace

TEST_CASE("Experts and routers that are missing or have another shape", "[bad]") {
  for (const bool fused : {false, true}) {
    const TinySpec spec = mixture(fused);
    const ModelDir dir(spec);
    load_model(make_runtime(), dir.path());
    const std::string layer = "model.layers.1.mlp.", one = layer + "experts.0.";
    for (const std::string& victim :
         {layer + "gate.weight", layer + "shared_expert_gate.weight", layer + "shared_expert.down_proj.weight",
          fused ? layer + "experts.gate_up_proj" : layer + "experts.1.gate_proj.weight",
          fused ? layer + "experts.down_proj" : layer + "experts.2.down_proj.weight"}) {
      INFO(victim);
      write_changed(dir, spec, [&](auto& tensors) {
        std::erase_if(tensors, [&](const TinyTensor& tensor) { return tensor.name == victim; });
      });
      // Where the experts' one tensor is not there, the message names the expert's own.
      const bool of_all = victim.ends_with("_proj");
      REQUIRE_LOAD_FAILS(
          QINFER_E_NOT_FOUND,
          "\"" + (!of_all ? victim : one + (victim.find("down") == victim.npos ? "gate" : "down") + "_proj.weight") +
              "\"",
          dir);
      write_changed(dir, spec, [&](auto& tensors) {  // a row less, or an expert less
        TinyTensor& tensor = find_tensor(tensors, victim);
        tensor.data.resize(tensor.data.size() / tensor.shape[0] * (tensor.shape[0] - 1));
        --tensor.shape[0];
      });
      REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "\"" + victim + "\" has the shape", dir);
      write_changed(dir, spec, [&](auto& tensors) {
        std::swap(find_tensor(tensors, victim).shape[0], find_tensor(tensors, victim).shape[1]);
      });
      REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "\"" + victim + "\" has the shape", dir);
      write_changed(dir, spec, [&](auto& tensors) { find_tensor(tensors, victim).dtype = "I32"; });
      REQUIRE_LOAD_FAILS(QINFER_E_UNSUPPORTED, "\"" + victim + "\" is I32", dir);
    }
  }
}

TEST_CASE("Experts give the same logits however they are stored", "[bad]") {
  for (const char* architecture : {"Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM", "MixtralForCausalLM"}) {
    INFO(architecture);
    for (const std::string& target : usable_targets()) {
      INFO("on " << target);
      TinySpec spec = mixture(false);
      spec.architecture = architecture;
      if (spec.architecture != "Qwen2MoeForCausalLM") spec.shared_ffn = 0;
      const auto logits = [&] { return logits_of(ModelDir(spec), nullptr, target.c_str()); };
      const auto want = logits();
      spec.shards = 3;
      REQUIRE(logits() == want);
      spec.fused_experts = true;
      REQUIRE(logits() == want);
      spec.shards = 1, spec.dtype = DType::bf16;
      REQUIRE(logits() == want);
    }
  }
}

TEST_CASE("Weights of one expert that are not finite reach only those who chose it", "[bad]") {
  TinySpec spec = mixture(false);
  spec.experts = 24, spec.layers = 1;
  const ModelDir good(spec), bad(spec);
  write_changed(bad, spec, [&](auto& tensors) {
    TinyTensor& tensor = find_tensor(tensors, "model.layers.0.mlp.experts.5.up_proj.weight");
    tensor.data.assign(tensor.data.size(), '\xff');
  });
  const auto sound = logits_of_tokens(good, 60, spec.vocab), poisoned = logits_of_tokens(bad, 60, spec.vocab);
  std::size_t reached = 0;
  for (std::size_t i = 0; i < sound.size(); ++i) {
    const bool is_nan = std::isnan(poisoned[i].front());
    reached += is_nan ? 1 : 0;
    INFO("token " << i);
    if (!is_nan) CHECK(poisoned[i] == sound[i]);
  }
  CHECK(reached > 0);
  CHECK(reached < sound.size());
}

TEST_CASE("Without weight files loading fails, and NO_WEIGHTS still works", "[bad]") {
  const ModelDir dir{TinySpec()};
  dir.remove("model.safetensors");
  REQUIRE_LOAD_FAILS(QINFER_E_NOT_FOUND, "model.safetensors", dir);
  auto options = sized<qinfer_load_options>();
  options.flags = QINFER_LOAD_NO_WEIGHTS;
  load_model(make_runtime(), dir.path(), &options);
  REQUIRE(mkdir(dir.file("model.safetensors").c_str(), 0700) == 0);
  REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "model.safetensors: not a regular file", dir);
}

TEST_CASE("Shards give the same logits as one file", "[bad]") {
  REQUIRE(logits_of(ModelDir(sharded())) == logits_of(ModelDir(TinySpec())));
}

TEST_CASE("weight_map path traversal: a shard is a plain file name (transformers #47176 #47996 #46913, b12x #171)",
          "[bad]") {
  const ModelDir dir(sharded());
  // What the names point to exists: only the name is wrong.
  REQUIRE(mkdir(dir.file("sub").c_str(), 0700) == 0);
  dir.write("sub/model-00001-of-00003.safetensors", dir.read("model-00001-of-00003.safetensors"));
  const std::string base = dir.path().substr(dir.path().rfind('/') + 1);
  const std::string names[] = {"../" + base + "/model-00001-of-00003.safetensors",
                               "sub/model-00001-of-00003.safetensors",
                               "./model-00001-of-00003.safetensors",
                               dir.file("model-00001-of-00003.safetensors"),
                               "/etc/passwd",
                               "",
                               ".",
                               "..",
                               std::string("model-00001-of-00003.safetensors\0.txt", 37)};
  for (const std::string& name : names) {
    INFO(name);
    change_index(dir, [&](Json& index) {
      for (auto& [tensor, file] : index["weight_map"].items())
        if (tensor == "model.embed_tokens.weight") file = name;
    });
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "is not a plain file name", dir);
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, kIndex.data(), dir);
  }
}

TEST_CASE("An index and its shards must name the same tensors", "[bad]") {
  const ModelDir dir(sharded());
  SECTION("a tensor that its shard lacks") {
    change_index(dir, [](Json& index) { index["weight_map"]["extra"] = "model-00001-of-00003.safetensors"; });
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "\"extra\" is not in model-00001-of-00003.safetensors", dir);
  }
  SECTION("a tensor that is in another shard") {
    change_index(dir, [](Json& index) {
      index["weight_map"]["model.embed_tokens.weight"] = "model-00002-of-00003.safetensors";
    });
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "\"model.embed_tokens.weight\" is not in model-00002-of-00003.safetensors",
                       dir);
  }
  SECTION("a tensor of a shard that the index lacks") {
    change_index(dir, [](Json& index) { index["weight_map"].erase("model.norm.weight"); });
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "\"model.norm.weight\"", dir);
  }
  SECTION("a tensor in two shards") {
    std::vector<TinyTensor> tensors = tiny_tensors(sharded());
    dir.write("model-00003-of-00003.safetensors", safetensors_file({tensors.front()}));
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "\"model.embed_tokens.weight\" is in another shard too", dir);
  }
  SECTION("a missing shard") {
    dir.remove("model-00002-of-00003.safetensors");
    REQUIRE_LOAD_FAILS(QINFER_E_NOT_FOUND, "model-00002-of-00003.safetensors", dir);
  }
  SECTION("a damaged shard is named") {
    dir.write("model-00002-of-00003.safetensors", "short");
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "model-00002-of-00003.safetensors", dir);
  }
}

TEST_CASE("Malformed index files", "[bad]") {
  const ModelDir dir(sharded());
  const auto refused = [&](std::string_view text, const std::string& message) {
    INFO(text);
    dir.write(kIndex, text);
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, std::string(kIndex), dir);
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, message, dir);
  };
  refused("", "unexpected end");
  refused("[]", "weight_map");
  refused("null", "weight_map");
  refused("{}", "weight_map");
  refused(R"({"weight_map":[]})", "weight_map");
  refused(R"({"weight_map":{}})", "weight_map");
  refused(R"({"weight_map":{"t":3}})", "\"t\"");
  refused(R"({"weight_map":{"t":["a"]}})", "\"t\"");
  refused(R"({"weight_map":{"t":"a","t":"b"}})", "\"t\" appears twice");
  refused(R"({"weight_map":{"t":"a"}} trailing)", "syntax error");
  refused(std::string(1 << 20, '['), "nested deeper");
  refused(std::string("{}\0", 3), "NUL");
}

TEST_CASE("QINFER_LOAD_VERIFY finds norm weights and biases that are not finite", "[bad]") {
  TinySpec spec;
  spec.architecture = "Qwen2ForCausalLM";
  const ModelDir dir(spec);
  auto verify = sized<qinfer_load_options>();
  verify.flags = QINFER_LOAD_VERIFY;
  const Runtime runtime = make_runtime();
  load_model(runtime, dir.path(), &verify);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const char* name :
         {"model.norm.weight", "model.layers.1.input_layernorm.weight", "model.layers.0.self_attn.k_proj.bias"}) {
      INFO(name);
      write_changed(dir, spec, [&](auto& tensors) {
        find_tensor(tensors, name).data.replace(4, 4, encode_values({bad}, DType::f32));
      });
      qinfer_model* model = nullptr;
      REQUIRE_FAILS(QINFER_E_FORMAT, std::string("element 1 of tensor \"") + name,
                    qinfer_model_load(runtime.get(), dir.path().c_str(), &verify, &model, &err));
      load_model(runtime, dir.path());
    }
  }
}

TEST_CASE("Logits that are not finite are QINFER_E_NUMERIC when sampling, not garbage", "[bad]") {
  const TinySpec spec;
  const ModelDir dir(spec);
  write_changed(dir, spec, [&](auto& tensors) {
    find_tensor(tensors, "model.norm.weight").data.replace(0, 4, encode_values({NAN}, DType::f32));
  });
  const Model model = load_model(make_runtime(), dir.path());
  const Cache cache = make_cache(model);
  const Session session = make_session(cache);
  append(session, some_tokens(3));
  eval(session);
  qinfer_token token = 0;
  REQUIRE_FAILS(QINFER_E_NUMERIC, "the logit of token 0 is nan", qinfer_session_sample(session.get(), &token, &err));
  REQUIRE(qinfer_session_length(session.get()) == 3);
  auto result = sized<qinfer_generate_result>();
  REQUIRE_FAILS(QINFER_E_NUMERIC, "logit", qinfer_generate(session.get(), nullptr, &result, &err));
  REQUIRE(result.new_tokens == 0);
}

TEST_CASE("Tensors at odd offsets give the same logits as aligned ones", "[bad]") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    TinySpec spec;
    spec.dtype = dtype;
    const ModelDir dir(spec);
    auto no_mmap = sized<qinfer_load_options>();
    no_mmap.flags = QINFER_LOAD_NO_MMAP;
    std::vector<std::vector<float>> seen;
    for (std::size_t pad = 0; pad < 8; ++pad) {
      dir.write("model.safetensors", safetensors_file(tiny_tensors(spec), pad));
      seen.push_back(logits_of(dir));
      if (pad % 4 == 1) seen.push_back(logits_of(dir, &no_mmap));
    }
    for (const auto& logits : seen) REQUIRE(logits == seen[0]);
  }
}

TEST_CASE("weight_format f16 refuses weights beyond 65504 where they cannot be scaled", "[bad]") {
  TinySpec spec;
  spec.dtype = DType::bf16;
  const ModelDir dir(spec);
  write_changed(dir, spec, [&](auto& tensors) {
    find_tensor(tensors, "model.layers.0.self_attn.q_proj.weight")
        .data.replace(2, 2, encode_values({1e5f}, DType::bf16));
  });
  auto options = sized<qinfer_load_options>();
  options.weight_format = "f16";
  const Runtime runtime = make_runtime(2, "reference");
  qinfer_model* model = nullptr;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "model.layers.0.self_attn.q_proj.weight",
                qinfer_model_load(runtime.get(), dir.path().c_str(), &options, &model, &err));
  options.weight_format = "bf16";
  load_model(runtime, dir.path(), &options);
  options.weight_format = "q4_0";
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "weight_format \"q4_0\"",
                qinfer_model_load(runtime.get(), dir.path().c_str(), &options, &model, &err));
}

TEST_CASE("QINFER_RUNTIME_EXACT refuses a weight_format that rounds", "[bad]") {
  const ModelDir dir{TinySpec()};
  auto runtime_options = sized<qinfer_runtime_options>();
  runtime_options.n_threads = 1;
  runtime_options.flags = QINFER_RUNTIME_EXACT;
  const std::string target = GENERATE(from_range(usable_targets(true)));
  runtime_options.cpu_target = target.c_str();
  qinfer_runtime* created = nullptr;
  REQUIRE_OK(qinfer_runtime_create(&runtime_options, &created, &err));
  const Runtime runtime(created);
  auto options = sized<qinfer_load_options>();
  options.weight_format = "f16";
  qinfer_model* model = nullptr;
  // The first tensor that is multiplied; a set that looks embeddings up in the file leaves them as they are.
  const char* first = is_portable(target) ? "model.embed_tokens.weight" : "model.layers.0.self_attn.q_proj.weight";
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, first,
                qinfer_model_load(runtime.get(), dir.path().c_str(), &options, &model, &err));
}

TEST_CASE("A tensor name that contains a NUL or a format string is only text", "[bad]") {
  const TinySpec spec;
  const ModelDir dir(spec);
  write_changed(dir, spec, [](auto& tensors) { tensors.push_back({"%s%n{}{0}", "I8", {1}, "1"}); });
  load_model(make_runtime(), dir.path());  // tensors that the model does not need are ignored
  write_changed(dir, spec, [](auto& tensors) { tensors.push_back({"%s%n{}{0}", "nonsense", {1}, "1"}); });
  REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "\"%s%n{}{0}\"", dir);
}

namespace {

/// A model whose values of layer 0 are 2^exponent times as large as they would be.
void write_scaled_values(const ModelDir& dir, const TinySpec& spec, int exponent) {
  write_changed(dir, spec, [&](auto& tensors) {
    std::string& data = find_tensor(tensors, "model.layers.0.self_attn.v_proj.weight").data;
    for (std::size_t i = 0; i < data.size(); i += 2) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, data.data() + i, 2);
      bits = qinfer::f32_to_bf16(std::ldexp(qinfer::bf16_to_f32(bits), exponent));
      std::memcpy(data.data() + i, &bits, 2);
    }
  });
}

/// The last logits of a model that has weights beyond the range of f16, or below it.
std::vector<float> logits_beyond_f16(const char* target, std::uint32_t flags, int exponent = 20) {
  TinySpec spec;
  spec.dtype = DType::bf16;
  const ModelDir dir(spec);
  write_scaled_values(dir, spec, exponent);
  auto options = sized<qinfer_runtime_options>();
  options.n_threads = 2;
  options.cpu_target = target;
  options.flags = flags;
  qinfer_runtime* runtime = nullptr;
  REQUIRE_OK(qinfer_runtime_create(&options, &runtime, &err));
  const Runtime owner(runtime);
  const Model model = load_model(owner, dir.path());
  auto cache_options = sized<qinfer_kv_cache_options>();
  cache_options.kv_type = QINFER_KV_F32;
  qinfer_kv_cache* cache = nullptr;
  REQUIRE_OK(qinfer_kv_cache_create(model.get(), &cache_options, &cache, &err));
  const Cache cache_owner(cache);
  const Session session = make_session(cache_owner);
  append(session, some_tokens(20, spec.vocab));
  eval(session);
  return last_logits(session, spec.vocab);
}

}  // namespace

TEST_CASE("weights beyond 65504 are packed with a power of two and give the same answers", "[bad]") {
  SKIP_UNLESS_CPU_HAS(usable_targets(true).front() == "avx512", "AVX-512");
  // The values are multiples of 1/256 times 2^20: f16 holds them exactly once they are scaled, and powers of two change
  // no bit of a sum.
  CHECK(logits_beyond_f16("avx512", 0) == logits_beyond_f16("avx512", QINFER_RUNTIME_EXACT));
}

TEST_CASE("matrices of tiny weights are packed with a power of two and give the same answers", "[bad]") {
  std::vector<std::string> targets = usable_targets();
  std::erase_if(targets, [](const std::string& name) { return name != "avx2" && name != "avx512"; });
  SKIP_UNLESS_CPU_HAS(!targets.empty(), "AVX2");
  for (const std::string& target : targets) {
    INFO(target);
    for (const int exponent : {-20, -90}) {
      INFO("2^" << exponent);
      CHECK(logits_beyond_f16(target.c_str(), 0, exponent) ==
            logits_beyond_f16(target.c_str(), QINFER_RUNTIME_EXACT, exponent));
    }
  }
}

TEST_CASE("values that the cache's type does not hold are named, with the types that do", "[bad]") {
  TinySpec spec;
  spec.dtype = DType::bf16;
  const ModelDir dir(spec);
  write_scaled_values(dir, spec, 20);
  const std::string target = GENERATE(from_range(usable_targets()));
  const Runtime runtime = make_runtime(2, target.c_str());
  const Model model = load_model(runtime, dir.path());
  for (const std::int32_t type : {QINFER_KV_F16, QINFER_KV_BF16, QINFER_KV_F32}) {
    auto options = sized<qinfer_kv_cache_options>();
    options.kv_type = type;
    qinfer_kv_cache* cache = nullptr;
    INFO(target << ", kv_type " << type);
    qinfer_error created = {};
    if (qinfer_kv_cache_create(model.get(), &options, &cache, &created) == QINFER_E_UNSUPPORTED) continue;
    REQUIRE(cache != nullptr);
    const Cache owner(cache);
    const Session session = make_session(owner);
    append(session, some_tokens(20, spec.vocab));
    eval(session);
    qinfer_token token = 0;
    if (type != QINFER_KV_F16) {
      REQUIRE_OK(qinfer_session_sample(session.get(), &token, &err));
      continue;
    }
    REQUIRE_FAILS(QINFER_E_NUMERIC, "values of layer 0 are beyond f16, the cache's type (kv_type)",
                  qinfer_session_sample(session.get(), &token, &err));
  }
}

TEST_CASE("weights beyond 65504 are close to themselves where sums are f16", "[bad]") {
  SKIP_UNLESS_CPU_HAS(usable_targets().front() == "avx512_fp16", "AVX512-FP16");
  const auto exact = logits_beyond_f16("avx512", QINFER_RUNTIME_EXACT), rounded = logits_beyond_f16("avx512_fp16", 0);
  float largest = 0;
  for (const float value : exact) largest = std::max(largest, std::fabs(value));
  REQUIRE(largest > 0);
  // Activations and runs are rounded to f16, 2^-11 and about 2^-9, through two layers.
  for (std::size_t i = 0; i < exact.size(); ++i)
    CHECK(std::fabs(rounded[i] - exact[i]) <= 4 * (0x1p-11f + 0x1p-9f) * largest);
}
