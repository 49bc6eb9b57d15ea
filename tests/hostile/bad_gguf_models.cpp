// GGUF files whose container is sound and whose content is not: keys of the architecture that are missing, absurd or
// contradict each other, tensors that are missing, unknown or of another shape or encoding, scales that are not finite,
// requests that a file cannot meet. Each is refused with the right status and a message that names what is at fault,
// and planning says what loading says.
#include <cmath>
#include <limits>

#ifdef QINFER_HAVE_AMX
#include "support/amx_runtime.h"
#endif
#include "support/gguf_loads.h"
#include "support/skip.h"
#include "support/targets.h"

using namespace qinfer::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

/// Sets one key to a value.
template <typename T>
std::string with(const std::string& key, T value, const TinyGguf& spec = {}) {
  GgufFile file = tiny_gguf(spec);
  file.keys.set(key, value);
  return file.bytes();
}

std::string without(const std::string& key, const TinyGguf& spec = {}) {
  GgufFile file = tiny_gguf(spec);
  file.keys.remove(key);
  return file.bytes();
}

std::string with_both_lengths(std::uint32_t length) {
  GgufFile file = tiny_gguf();
  file.keys.set("llama.attention.key_length", length);
  file.keys.set("llama.attention.value_length", length);
  return file.bytes();
}

TinyGguf tiny(const char* architecture, std::uint32_t experts = 0) {
  TinyGguf spec;
  spec.architecture = architecture;
  spec.experts = experts;
  return spec;
}

/// Rows of 256 values, so that every encoding fits.
GgufFile quantised(std::uint32_t type) {
  TinyGguf spec;
  spec.hidden = spec.ffn = 256;
  spec.type = type;
  return tiny_gguf(spec);
}

void add_tensor(GgufFile& file, const std::string& name, std::vector<std::uint64_t> dims, std::uint32_t type = 0) {
  std::uint64_t values = 1;
  for (const std::uint64_t dim : dims) values *= dim;
  file.tensors.push_back({name, std::move(dims), type, gguf_data(type, values)});
}

}  // namespace

TEST_CASE("Tiny GGUF files of every kind load as planned", "[bad][gguf]") {
  GgufLoads loads;
  for (const bool maps : {false, true}) {
    loads.files.maps = maps;
    for (const GgufBlockType& type : gguf_block_types()) {
      INFO(type.name);
      CHECK(loads.load(quantised(type.number).bytes()) != nullptr);
      CHECK(loads.plan());
    }
    for (const std::uint32_t type : {0u, 1u, 30u}) {
      TinyGguf spec = tiny("llama", 4);
      spec.type = type;
      CHECK(loads.load(tiny_gguf(spec).bytes()) != nullptr);
      CHECK(loads.plan());
    }
  }
}

TEST_CASE("Keys of the architecture that are missing", "[bad][gguf]") {
  GgufLoads loads;
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"general.architecture\" is missing", loads, without("general.architecture"));
  for (const char* key : {"block_count", "context_length", "embedding_length", "feed_forward_length",
                          "attention.head_count", "attention.layer_norm_rms_epsilon"})
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, fmt::format("\"llama.{}\" is missing", key), loads,
                       without(fmt::format("llama.{}", key)));
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"llama.expert_used_count\" is missing", loads,
                     without("llama.expert_used_count", tiny("llama", 4)));
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"qwen3moe.expert_count\" is missing", loads,
                     tiny_gguf(tiny("qwen3moe")).bytes());
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"gemma3.rope.freq_base\" is missing", loads,
                     without("gemma3.rope.freq_base", tiny("gemma3")));
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"granite.logit_scale\" is missing", loads, tiny_gguf(tiny("granite")).bytes());
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"llama.attention.key_length\" is missing", loads,
                     with("llama.attention.head_count", 3U));
}

TEST_CASE("Keys of the architecture of another type or an absurd value", "[bad][gguf]") {
  GgufLoads loads;
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "\"general.architecture\" is \"mamba\", known are llama", loads,
                     with("general.architecture", "mamba"));
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"general.architecture\" is u32, expected a string", loads,
                     with("general.architecture", 1U));
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "\"general.quantization_version\" is 3", loads,
                     with("general.quantization_version", 3U));
  for (const char* name : {"block_count", "context_length", "embedding_length", "feed_forward_length",
                           "attention.head_count", "attention.head_count_kv"}) {
    const std::string key = fmt::format("llama.{}", name), quoted = "\"" + key + "\"";
    INFO(key);
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, quoted + " is string", loads, with(key, "2"));
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, quoted + " is f32", loads, with(key, 2.0f));
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, quoted + " is boolean", loads, with(key, true));
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, name, loads, with(key, 0U));
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, name, loads, with(key, UINT32_MAX));
    GgufFile file = tiny_gguf();
    for (const std::uint64_t value : {std::uint64_t{1} << 63, ~std::uint64_t{0}, (std::uint64_t{1} << 32) + 1}) {
      file.keys.set_bytes(key, GgufKeys::u64, gguf_number(value));
      REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, name, loads, file.bytes());
    }
    file.keys.set_bytes(key, GgufKeys::i64, gguf_number(std::int64_t{-1}));
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, name, loads, file.bytes());
  }
  for (const float value : {kNan, kInfinity, -1e-5f, 2.0f})
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"llama.attention.layer_norm_rms_epsilon\" is", loads,
                       with("llama.attention.layer_norm_rms_epsilon", value));
  for (const float value : {kNan, kInfinity, -1.0f, 0.0f, 1e20f})
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"llama.rope.freq_base\" is", loads, with("llama.rope.freq_base", value));
  for (const float value : {kNan, -kInfinity, 1e9f})
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"llama.rope.scaling.factor\" is", loads,
                       with("llama.rope.scaling.factor", value));
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "rope", loads, with("llama.rope.scaling.factor", 1e-30f));
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "\"llama.rope.scaling.type\" is \"su\"", loads,
                     with("llama.rope.scaling.type", "su"));
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "\"llama.rope.dimension_count\" is 8, of 16", loads,
                     with("llama.rope.dimension_count", 8U));
}

TEST_CASE("Keys that contradict each other or are not known", "[bad][gguf]") {
  GgufLoads loads;
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "the key \"llama.ssm.conv_kernel\" is not known", loads,
                     with("llama.ssm.conv_kernel", 4U));
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "\"llama.attention.causal\" is false", loads,
                     with("llama.attention.causal", false));
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "\"qwen3.expert_count\" is 4", loads,
                     with("qwen3.expert_count", 4U, tiny("qwen3")));
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "num_key_value_heads", loads, with("llama.attention.head_count_kv", 4U));
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "values of 8 dimensions and keys of 16", loads,
                     with("llama.attention.value_length", 8U));
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"blk.0.attn_q.weight\" has the shape", loads, with_both_lengths(64));
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"llama.feed_forward_length\" has 2 values, expected 1", loads,
                     with("llama.feed_forward_length", std::vector<std::int32_t>{32, 16}));
  GgufFile two_layers = tiny_gguf();
  two_layers.keys.set("llama.block_count", 2U);
  two_layers.keys.set("llama.feed_forward_length", std::vector<std::int32_t>{32, 16});
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "\"llama.feed_forward_length\" has 32 and 16", loads, two_layers.bytes());
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"llama.attention.head_count\" has 2 values, expected 1", loads,
                     with("llama.attention.head_count", std::vector<std::int32_t>{2, 2}));
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"llama.attention.head_count\"", loads,
                     with("llama.attention.head_count", std::vector<std::int32_t>{}));
  REQUIRE_GGUF_FAILS(QINFER_E_NOT_FOUND, "blk.1.", loads, with("llama.block_count", 2U));
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "expert", loads, with("llama.expert_used_count", 5U, tiny("llama", 4)));
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"blk.0.ffn_gate_exps.weight\" has the shape", loads,
                     with("llama.expert_count", 3U, tiny("llama", 4)));
  CHECK(loads.load(with("llama.attention.head_count", std::vector<std::int32_t>{2})) != nullptr);
}

TEST_CASE("Tensors of a GGUF file that are missing, unknown or of another shape", "[bad][gguf]") {
  GgufLoads loads;
  for (const std::uint32_t experts : {0u, 4u}) {
    const GgufFile good = tiny_gguf(tiny("llama", experts));
    for (std::size_t i = 0; i < good.tensors.size(); ++i) {
      const std::string name = good.tensors[i].name;
      INFO(name);
      GgufFile file = good;
      file.tensors.erase(file.tensors.begin() + static_cast<std::ptrdiff_t>(i));
      REQUIRE_GGUF_FAILS(QINFER_E_NOT_FOUND, "\"" + name + "\"", loads, file.bytes());
      file = good;
      file.tensors[i].name = "blk.0.unknown";
      REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "the tensor \"blk.0.unknown\" is not known", loads, file.bytes());
      file = good;  // a row more, a dimension more
      file.tensors[i].dims.back() += 1;
      file.tensors[i].data.append(4096, '\0');
      std::uint64_t values = 1;
      for (const std::uint64_t dim : file.tensors[i].dims) values *= dim;
      file.tensors[i].data.resize(values * 4);
      const bool embedding = name == "token_embd.weight";  // which says how many tokens there are
      if (!embedding) REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "has the shape", loads, file.bytes());
      if (!embedding) REQUIRE_THAT(std::string(loads.error.message), contains(name));
      if (embedding) REQUIRE(loads.load(file.bytes()) != nullptr);
      file = good;
      file.tensors[i].dims.push_back(1);
      if (good.tensors[i].dims.size() < 3)
        REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"" + name + "\" has the shape", loads, file.bytes());
    }
  }
  GgufFile file = tiny_gguf();
  file.tensor("blk.0.attn_k.weight").dims = {16, 32};  // transposed
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"blk.0.attn_k.weight\" has the shape [32, 16]", loads, file.bytes());
  file = tiny_gguf();
  add_tensor(file, "blk.1.attn_norm.weight", {32});
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "\"blk.1.attn_norm.weight\" is not known", loads, file.bytes());
  file = tiny_gguf();
  file.tensors.clear();
  REQUIRE_GGUF_FAILS(QINFER_E_NOT_FOUND, "\"token_embd.weight\"", loads, file.bytes());
  file.keys.remove("tokenizer.ggml.tokens");
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "a vocabulary of 0 tokens", loads, file.bytes());
}

TEST_CASE("Frequencies of a GGUF file's rotary embeddings", "[bad][gguf]") {
  GgufLoads loads;
  const auto file = [](std::vector<std::uint64_t> dims, std::uint32_t type, const std::vector<float>& values) {
    GgufFile out = tiny_gguf();
    std::string data;
    for (const float value : values) data += gguf_number(value);
    if (values.empty()) data = gguf_data(type, dims[0] * (dims.size() > 1 ? dims[1] : 1));
    out.tensors.push_back({"rope_freqs.weight", dims, type, data});
    return out;
  };
  const std::vector<float> good = {1, 1, 2, 2, 4, 4, 8, 8};
  REQUIRE(loads.load(file({8}, 0, good).bytes()) != nullptr);
  for (const float bad : {kNan, kInfinity, 0.0f, -1.0f}) {
    std::vector<float> values = good;
    values[7] = bad;
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"rope_freqs.weight\" holds", loads, file({8}, 0, values).bytes());
  }
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"rope_freqs.weight\" is f16", loads, file({8}, 1, {}).bytes());
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"rope_freqs.weight\" is q8_0", loads, file({32}, 8, {}).bytes());
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"rope_freqs.weight\" is f32 [1, 8]", loads, file({8, 1}, 0, good).bytes());
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"rope_freqs.weight\" is f32 [1024]", loads,
                     file({1024}, 0, std::vector<float>(1024, 1.0f)).bytes());
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "divisors", loads, file({7}, 0, {1, 1, 1, 1, 1, 1, 1}).bytes());
  GgufFile both = file({8}, 0, good);
  both.keys.set("llama.rope.scaling.factor", 2.0f);
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "\"rope_freqs.weight\" scale rotary embeddings", loads, both.bytes());
}

TEST_CASE("A GGUF file's two sets of divisors of rotary frequencies", "[bad][gguf]") {
  GgufLoads loads;
  constexpr const char *kLong = "rope_factors_long.weight", *kShort = "rope_factors_short.weight";
  const auto add = [](GgufFile& out, const char* name, const std::vector<float>& values, std::uint64_t n = 8) {
    std::string data;
    for (const float value : values) data += gguf_number(value);
    out.tensors.push_back({name, {n}, 0, data});
  };
  const std::vector<float> good = {1, 1, 2, 2, 4, 4, 8, 8};
  const auto file = [&](const char* type) {
    GgufFile out = tiny_gguf();
    if (type != nullptr) out.keys.set("llama.rope.scaling.type", type);
    out.keys.set("llama.rope.scaling.original_context_length", 16u);
    return out;
  };
  const auto both = [&](const char* type) {
    GgufFile out = file(type);
    add(out, kLong, good);
    add(out, kShort, good);
    return out;
  };
  REQUIRE(loads.load(both("longrope").bytes()) != nullptr);
  REQUIRE(loads.load(both(nullptr).bytes()) != nullptr);  // Phi's files name no type
  for (const char* type : {"linear", "yarn"})
    REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "scale rotary embeddings", loads, both(type).bytes());
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "one is missing", loads, file("longrope").bytes());
  for (const char* name : {kLong, kShort}) {
    GgufFile one = file(nullptr);
    add(one, name, good);
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "one is missing", loads, one.bytes());
    const std::string quoted = "\"" + std::string(name) + "\"";
    for (const float bad : {kNan, kInfinity, 0.0f, -1.0f}) {
      std::vector<float> values = good;
      values[3] = bad;
      GgufFile wrong = file(nullptr);
      add(wrong, name, values);
      REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, quoted + " holds", loads, wrong.bytes());
    }
    GgufFile half = both(nullptr);
    half.tensor(name).type = 1;
    half.tensor(name).data = gguf_data(1, 8);
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, quoted + " is f16", loads, half.bytes());
    GgufFile fewer = both(nullptr);
    fewer.tensor(name).dims = {4};
    fewer.tensor(name).data.resize(16);
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, name == std::string(kLong) ? "\"long_factor\"" : "\"short_factor\"", loads,
                       fewer.bytes());
  }
  GgufFile three = both(nullptr);
  add(three, "rope_freqs.weight", good);
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "\"rope_factors_long.weight\" and rope_freqs.weight", loads, three.bytes());
  GgufFile no_length = both("longrope");
  no_length.keys.remove("llama.rope.scaling.original_context_length");
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"llama.rope.scaling.original_context_length\" is missing", loads,
                     no_length.bytes());
}

TEST_CASE("Scales that are not finite are refused with tensor, row and block", "[bad][gguf]") {
  for (const std::string& target : usable_targets()) {
    if (uses_tiles(target)) continue;
    GgufLoads loads(target.c_str());
    loads.set_flags(QINFER_LOAD_VERIFY);  // for sets that use matrices as the file has them
    for (const GgufBlockType& type : gguf_block_types()) {
      const GgufFile good = quantised(type.number);
      const std::size_t per_row = 256 / type.values, row = 77, block = per_row - 1;
      for (const char* name : {"blk.0.attn_v.weight", "blk.0.ffn_down.weight"}) {
        INFO(name << " as " << type.name << " on " << target);
        const std::size_t at = (row * per_row + block) * type.bytes;
        const std::string expected =
            fmt::format("block {} of row {} of tensor \"{}\" ({}) has a scale", block, row, name, type.name);
        for (const std::size_t place : type.scales)
          for (const std::uint16_t bits : {0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x7c01}) {
            GgufFile file = good;
            file.tensor(name).data.replace(at + place, 2, gguf_number(bits));
            REQUIRE_GGUF_LOAD_FAILS(QINFER_E_FORMAT, expected, loads, file.bytes());
          }
        if (!type.scales.empty()) continue;
        GgufFile file = good;
        file.tensor(name).data[at] = '\xff';
        REQUIRE_GGUF_LOAD_FAILS(QINFER_E_FORMAT, expected, loads, file.bytes());
        file.tensor(name).data[at] = '\xfe';  // 2^127 is the largest
        REQUIRE(loads.load(file.bytes()) != nullptr);
      }
    }
  }
}

TEST_CASE("The reference set finds scales of mapped matrices with QINFER_LOAD_VERIFY", "[bad][gguf]") {
  GgufLoads loads("reference");
  loads.files.maps = true;
  GgufFile file = quantised(2);
  file.tensor("token_embd.weight").data.replace(18 * 3, 2, gguf_number(std::uint16_t{0x7c00}));
  REQUIRE(loads.load(file.bytes()) != nullptr);
  loads.set_flags(QINFER_LOAD_VERIFY);
  REQUIRE_GGUF_LOAD_FAILS(QINFER_E_FORMAT, "block 3 of row 0 of tensor \"token_embd.weight\" (q4_0)", loads,
                          file.bytes());
  loads.set_flags(QINFER_LOAD_NO_MMAP);
  REQUIRE_GGUF_LOAD_FAILS(QINFER_E_FORMAT, "block 3 of row 0 of tensor \"token_embd.weight\" (q4_0)", loads,
                          file.bytes());
}

TEST_CASE("Values of norms that are not finite are found with QINFER_LOAD_VERIFY", "[bad][gguf]") {
  GgufLoads loads;
  for (const float value : {kNan, kInfinity}) {
    GgufFile file = tiny_gguf();
    file.tensor("blk.0.ffn_norm.weight").data.replace(4 * 31, 4, gguf_number(value));
    loads.set_flags(0);
    REQUIRE(loads.load(file.bytes()) != nullptr);
    loads.set_flags(QINFER_LOAD_VERIFY);
    REQUIRE_GGUF_LOAD_FAILS(QINFER_E_FORMAT, "element 31 of tensor \"blk.0.ffn_norm.weight\" is", loads, file.bytes());
  }
}

TEST_CASE("Quantised norms and biases are refused", "[bad][gguf]") {
  GgufLoads loads;
  for (const GgufBlockType& type : gguf_block_types()) {
    if (type.values > 32) continue;
    GgufFile file = tiny_gguf();
    GgufTestTensor& norm = file.tensor("blk.0.attn_norm.weight");
    norm.type = type.number;
    norm.data = gguf_data(type.number, 32);
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT,
                       fmt::format("\"blk.0.attn_norm.weight\" is {}, expected f32, f16 or bf16", type.name), loads,
                       file.bytes());
    const ModelDir dir;
    dir.write("model.gguf", file.bytes());
    qinfer_error err;
    CHECK(qinfer_model_export_gguf(nullptr, dir.file("model.gguf").c_str(), nullptr, dir.file("x.gguf").c_str(),
                                   &err) == QINFER_E_FORMAT);
    CHECK_THAT(std::string(err.message), contains("\"blk.0.attn_norm.weight\" is "));
    file = tiny_gguf(tiny("qwen2"));
    add_tensor(file, "blk.0.attn_q.bias", {32}, type.number);
    add_tensor(file, "blk.0.attn_k.bias", {16});
    add_tensor(file, "blk.0.attn_v.bias", {16});
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, fmt::format("\"blk.0.attn_q.bias\" is {}", type.name), loads, file.bytes());
  }
}

TEST_CASE("Quantised matrices are not converted to 16 bits", "[bad][gguf]") {
  for (const std::string& target : usable_targets()) {
    if (uses_tiles(target)) continue;
    INFO(target);
    GgufLoads loads(target.c_str());
    for (const char* format : {"f16", "bf16"}) {
      loads.set_weight_format(format);
      REQUIRE(loads.load(quantised(12).bytes()) == nullptr);
      REQUIRE(loads.error.code == QINFER_E_INVALID_ARGUMENT);
      REQUIRE_THAT(std::string(loads.error.message),
                   contains(fmt::format("cannot hold tensor \"token_embd.weight\" (q4_k) as {}", format)));
    }
    loads.set_weight_format("f32");
    // A set that multiplies bf16 holds no f32.
    const bool holds_f32 = !rounds_to_bf16(target);
    REQUIRE((loads.load(quantised(12).bytes()) != nullptr) == holds_f32);
  }
}

#ifdef QINFER_HAVE_AMX
TEST_CASE("amx refuses quantised matrices in other forms", "[bad][gguf][amx]") {
  SKIP_UNLESS_CPU_HAS(can_emulate_amx(), "AVX-512");
  const ModelDir dir;
  dir.write("model.gguf", quantised(8).bytes());
  const std::string tensor = "cannot hold tensor \"token_embd.weight\" (q8_0)";
  const auto load = [&](const char* target, const char* format, qinfer_error& err) {
    EmulatedRuntime runtime(1, target);
    auto options = sized<qinfer_load_options>();
    options.weight_format = format;
    qinfer_model* model = nullptr;
    const auto status = qinfer_model_load(runtime.native(), dir.file("model.gguf").c_str(), &options, &model, &err);
    qinfer_model_free(model);
    return status;
  };
  for (const char* format : {"f16", "f32"})
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, tensor + " as " + format, load("amx", format, err));
  for (const char* format : {static_cast<const char*>(nullptr), "bf16"}) REQUIRE_OK(load("amx", format, err));
}
#endif

TEST_CASE("Split GGUF files with parts that are missing, others', or in disorder", "[bad][gguf]") {
  const GgufFile whole = tiny_gguf();
  const auto good = split_gguf(whole, 3);
  const ModelDir dir;
  const std::string first = "m-00001-of-00003.gguf", second = "m-00002-of-00003.gguf", third = "m-00003-of-00003.gguf";
  const auto fails = [&](qinfer_status status, const std::string& text, const auto& parts, const std::string& opened) {
    MemoryFiles files;
    files.files = {parts.begin(), parts.end()};
    auto options = sized<qinfer_load_options>();
    options.files = files.callbacks();
    qinfer_model* model = nullptr;
    INFO(opened);
    if (status == QINFER_OK) {
      REQUIRE_OK(qinfer_model_load(nullptr, opened.c_str(), &options, &model, &err));
      qinfer_model_free(model);
    } else {
      REQUIRE_FAILS(status, text, qinfer_model_load(nullptr, opened.c_str(), &options, &model, &err));
      auto memory = sized<qinfer_memory>();
      REQUIRE_FAILS(status, text,
                    qinfer_model_plan(opened.c_str(), nullptr, &options, nullptr, nullptr, &memory, &err));
    }
    REQUIRE(files.all_closed());
  };
  const auto changed = [&](const std::string& name, const std::string& bytes) {
    auto parts = good;
    parts[name] = bytes;
    return parts;
  };
  /// Part i with a key set.
  const auto with_key = [&](std::size_t i, const char* key, std::uint32_t value) {
    GgufFile part;
    if (i == 0) part.keys = whole.keys;
    part.keys.set("split.no", static_cast<std::uint32_t>(i));
    part.keys.set("split.count", 3U);
    part.keys.set("split.tensors.count", static_cast<std::uint32_t>(whole.tensors.size()));
    part.keys.set(key, value);
    const std::size_t n = whole.tensors.size();
    part.tensors.assign(whole.tensors.begin() + static_cast<std::ptrdiff_t>(n * i / 3),
                        whole.tensors.begin() + static_cast<std::ptrdiff_t>(n * (i + 1) / 3));
    return part.bytes();
  };
  fails(QINFER_OK, "", good, first);
  for (const std::string& name : {second, third}) {
    auto parts = good;
    parts.erase(name);
    fails(QINFER_E_NOT_FOUND, name, parts, first);
    fails(QINFER_E_INVALID_ARGUMENT, "open the first part", good, name);
  }
  fails(QINFER_E_FORMAT, "m-00002-of-00003.gguf: its keys say that it is part 3 of 3, expected part 2 of 3",
        changed(second, good.at(third)), first);
  fails(QINFER_E_FORMAT, "expected part 2 of 3", changed(second, good.at(first)), first);
  fails(QINFER_E_FORMAT, "expected part 2 of 3", changed(second, whole.bytes()), first);
  fails(QINFER_E_FORMAT, "expected part 3 of 3", changed(third, with_key(2, "split.count", 4)), first);
  fails(QINFER_E_FORMAT, "\"split.no\" is 3, of 3 parts", changed(third, with_key(2, "split.no", 3)), first);
  fails(QINFER_E_FORMAT, "does not begin with \"GGUF\"", changed(third, std::string(64, 'x')), first);
  fails(QINFER_E_FORMAT, "\"split.tensors.count\" is 5, the parts have 11",
        changed(first, with_key(0, "split.tensors.count", 5)), first);
  fails(QINFER_E_FORMAT, "whose name should end with \"-00001-of-00002.gguf\"",
        changed(first, with_key(0, "split.count", 2)), first);
  fails(QINFER_E_FORMAT, "\"split.count\" is 100000", changed(first, with_key(0, "split.count", 100'000)), first);
  auto renamed = good;
  renamed["model.gguf"] = good.at(first);
  fails(QINFER_E_FORMAT, "whose name should end with \"-00001-of-00003.gguf\"", renamed, "model.gguf");
  // A tensor in two parts.
  GgufFile twice = whole;
  twice.tensors.back() = twice.tensors.front();
  fails(QINFER_E_FORMAT, "\"token_embd.weight\" is there twice", split_gguf(twice, 3), first);
  // One file that says that it is many.
  std::map<std::string, std::string> alone = {{"m-00001-of-65535.gguf", with_key(0, "split.count", 65'535)}};
  fails(QINFER_E_NOT_FOUND, "m-00002-of-65535.gguf", alone, "m-00001-of-65535.gguf");
}
