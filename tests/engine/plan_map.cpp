// The memory plan's map: it adds up to the plan, buffers in use at once never share bytes, and what no buffer has is
// alignment; the published numbers of known geometries follow from their config.json alone.
#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/targets.h"

namespace {

using Json = nlohmann::json;

constexpr const char* kSteps[] = {"embed", "qkv", "attention", "output", "ffn", "head"};

std::size_t step(const Json& name) {
  const auto* at = std::find(std::begin(kSteps), std::end(kSteps), name.get<std::string>());
  REQUIRE(at != std::end(kSteps));
  return static_cast<std::size_t>(at - kSteps);
}

struct Buffer {
  std::string name;
  std::uint64_t begin, end;
  std::size_t first = 0, last = std::size(kSteps);
};

std::vector<Buffer> buffers_of(const Json& region) {
  std::vector<Buffer> buffers;
  for (const Json& json : region.at("buffers")) {
    Buffer buffer{json.at("name"), json.at("offset"), json.at("end")};
    REQUIRE(buffer.end - buffer.begin == json.at("bytes").get<std::uint64_t>());
    if (json.contains("lifetime")) {
      buffer.first = step(json["lifetime"][0]);
      buffer.last = step(json["lifetime"][1]);
      REQUIRE(buffer.first <= buffer.last);
    }
    REQUIRE_FALSE(json.at("shape").empty());
    buffers.push_back(buffer);
  }
  return buffers;
}

void check_region(const Json& region) {
  const std::string name = region.at("name");
  INFO(name);
  const auto bytes = region.at("bytes").get<std::uint64_t>();
  std::vector<Buffer> buffers = buffers_of(region);
  if (bytes == 0) return;
  const bool aligned = name == "scratch" || name == "session" || name == "weights_private";
  for (const Buffer& a : buffers) {
    INFO(a.name << " " << a.begin << " to " << a.end);
    if (aligned) CHECK(a.begin % 64 == 0);
    CHECK(a.end <= bytes);
    for (const Buffer& b : buffers) {
      if (&a == &b || a.begin >= b.end || b.begin >= a.end) continue;
      INFO("shares bytes with " << b.name);
      CHECK((a.last < b.first || b.last < a.first));
    }
  }
  // What no buffer has: before each, and after the last.
  std::sort(buffers.begin(), buffers.end(), [](const Buffer& a, const Buffer& b) { return a.begin < b.begin; });
  std::uint64_t covered = 0;
  for (const Buffer& buffer : buffers) {
    INFO("before " << buffer.name);
    const std::uint64_t gap = buffer.begin > covered ? buffer.begin - covered : 0;
    CHECK(gap < (buffer.name == "keys_values" ? 4096 : aligned ? 64 : 1));
    covered = std::max(covered, buffer.end);
  }
  // Tokens are rounded to a cache line too, KV bytes that are no whole block belong to none.
  const std::uint64_t after = bytes - covered;
  CHECK(after < 64);
}

void check_map(const std::string& path, const qinfer_runtime_options& runtime, const qinfer_load_options& load) {
  auto cache = qi::options<qinfer_kv_cache_options>();
  cache.flags = QINFER_CACHE_PREFIX;
  auto session = qi::options<qinfer_session_options>();
  session.flags = QINFER_SESSION_EMBEDDINGS;
  session.max_logits = 3;
  const qinfer_memory plan = qi::plan(path, &runtime, &load, &cache, &session);
  const Json map = Json::parse(qi::plan_map(path, &runtime, &load, &cache, &session));
  std::map<std::string, std::uint64_t> bytes, belongs;
  for (const Json& region : map.at("regions")) {
    check_region(region);
    bytes[region.at("name")] = region.at("bytes");
    belongs[region.at("belongs_to")] += region.at("bytes").get<std::uint64_t>();
  }
  CHECK(bytes["weights_mapped"] == plan.weights_mapped);
  CHECK(bytes["weights_private"] == plan.weights_private);
  CHECK(bytes["tables"] == plan.tables);
  CHECK(bytes["scratch"] == plan.scratch);
  CHECK(bytes["kv_cache"] == plan.kv_cache_bytes);
  CHECK(bytes["kv_lists"] == plan.kv_lists);
  CHECK(belongs["model"] + belongs["cache"] == plan.total);
  CHECK(belongs["session"] == plan.per_session);
}

std::string geometry(std::uint32_t layers, std::uint32_t kv_heads, std::uint32_t head_dim, std::uint32_t context) {
  return R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": )" +
         std::to_string(layers) + R"(, "num_attention_heads": )" + std::to_string(kv_heads) +
         R"(, "num_key_value_heads": )" + std::to_string(kv_heads) + R"(, "head_dim": )" + std::to_string(head_dim) +
         R"(, "vocab_size": 300, "max_position_embeddings": )" + std::to_string(context) +
         R"(, "rms_norm_eps": 1e-6, "tie_word_embeddings": true, "dtype": "bfloat16"})";
}

}  // namespace

TEST_CASE("the map adds up to the plan, and buffers in use at once share nothing", "[memory][plan]") {
  for (const char* name : {"qwen3-odd-bf16", "llama-bias-f16", "gemma2-f32", "gemma3-shared-f32", "gemma3-encoder-f32",
                           "phi3-window-bf16", "phi3-partial-f32", "qwen3moe-dense-f32", "qwen2moe-f32",
                           "mixtral-odd-bf16", "qwen3vlmoe-f32", "ministral3-f32"})
    for (const std::string& target : qinfer::test::usable_targets())
      for (const std::uint32_t batch : {1u, 12u, 512u}) {
        INFO(name << " on " << target << ", batches of " << batch);
        const std::string folder = QINFER_TEST_FIXTURES "/models/" + std::string(name);
        auto runtime = qi::options<qinfer_runtime_options>();
        runtime.cpu_target = target.c_str();
        runtime.n_threads = 3;
        auto load = qi::options<qinfer_load_options>();
        load.max_batch_tokens = batch;
        check_map(folder, runtime, load);
        check_map(folder + "/config.json", runtime, load);
        load.flags = QINFER_LOAD_NO_MMAP;
        check_map(folder, runtime, load);
        if (batch != 12) continue;
        const qinfer::test::ModelDir place;
        qi::Runtime packer(runtime);
        qi::pack(packer, folder, place.file("packed"));
        load.flags = 0;
        check_map(place.file("packed"), runtime, load);
      }
}

TEST_CASE("KV bytes of published geometries follow from config.json", "[memory][plan]") {
  struct Row {
    std::uint32_t layers, kv_heads, head_dim, positions;
    std::int32_t type;
    std::uint64_t sessions, bytes;
  };
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30, kMiB = 1 << 20;
  const Row rows[] = {
      {28, 8, 128, 1024, QINFER_KV_F32, 1, 234'881'024},     {28, 8, 128, 1024, QINFER_KV_F16, 1, 117'440'512},
      {36, 8, 128, 40960, QINFER_KV_BF16, 1, 6'039'797'760}, {36, 8, 128, 128, QINFER_KV_BF16, 1, 18'874'368},
      {28, 16, 128, 1024, QINFER_KV_F32, 1, 469'762'048},    {28, 8, 128, 1024, QINFER_KV_F32, 64, 14 * kGiB},
      {32, 8, 128, 8192, QINFER_KV_F32, 1, 2 * kGiB},        {32, 8, 128, 8192, QINFER_KV_F16, 1, kGiB},
      {80, 8, 128, 8192, QINFER_KV_F32, 1, 5 * kGiB},        {80, 8, 128, 8192, QINFER_KV_F16, 1, 5 * kGiB / 2},
      {126, 8, 128, 131072, QINFER_KV_F32, 1, 126 * kGiB},   {126, 8, 128, 131072, QINFER_KV_F16, 1, 63 * kGiB},
      {32, 8, 128, 4096, QINFER_KV_F16, 1, 512 * kMiB},
  };
  const qinfer::test::ModelDir directory;
  for (const Row& row : rows) {
    INFO(row.layers << " layers, " << row.positions << " positions, type " << row.type);
    directory.write("config.json", geometry(row.layers, row.kv_heads, row.head_dim, 131072));
    auto cache = qi::options<qinfer_kv_cache_options>();
    cache.kv_type = row.type;
    cache.budget_blocks = row.sessions * row.positions / 32;
    auto session = qi::options<qinfer_session_options>();
    session.max_tokens = row.positions;
    const qinfer_memory plan = qi::plan(directory.file("config.json"), nullptr, nullptr, &cache, &session);
    CHECK(plan.kv_cache_bytes == row.bytes);
    CHECK(plan.kv_per_session * row.sessions == row.bytes);
    CHECK(plan.kv_per_token * row.positions * row.sessions == row.bytes);
  }
  // Blocks of 256 tokens in f16: 28 layers of 8 heads, of 64 and of 128.
  for (const auto& [head_dim, block] : {std::pair{64u, 14 * kMiB}, std::pair{128u, 28 * kMiB}}) {
    directory.write("config.json", geometry(28, 8, head_dim, 32768));
    for (const auto& [tokens, blocks] : {std::pair{5u, 1u}, {8u, 1u}, {300u, 2u}, {1024u, 4u}, {32768u, 128u}}) {
      auto cache = qi::options<qinfer_kv_cache_options>();
      cache.kv_type = QINFER_KV_F16;
      cache.block_tokens = 256;
      auto session = qi::options<qinfer_session_options>();
      session.max_tokens = tokens;
      const qinfer_memory plan = qi::plan(directory.file("config.json"), nullptr, nullptr, &cache, &session);
      CHECK(plan.kv_per_block == block);
      CHECK(plan.kv_per_session == blocks * block);
    }
  }
}

TEST_CASE("weights and RoPE table of Qwen3-0.6B, buffer by buffer", "[memory][plan]") {
  const qinfer::test::ModelDir directory;
  directory.write("config.json",
                  R"({"architectures": ["Qwen3ForCausalLM"], "hidden_size": 1024, "intermediate_size": 3072,
    "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "tie_word_embeddings": true, "dtype": "bfloat16"})");
  auto runtime = qi::options<qinfer_runtime_options>();
  runtime.cpu_target = "reference";
  const Json map = Json::parse(qi::plan_map(directory.file("config.json"), &runtime));
  std::map<std::string, std::uint64_t> bytes;
  std::uint64_t layer_matrices = 0, layer_norms = 0, matrices = 0;
  for (const Json& region : map.at("regions"))
    for (const Json& buffer : region.at("buffers")) {
      const std::string name = buffer.at("name");
      const auto size = buffer.at("bytes").get<std::uint64_t>();
      bytes[name] = size;
      const bool is_matrix = buffer.at("shape").size() == 2 && buffer.at("dtype") == "bf16";
      if (is_matrix) matrices += size;
      if (name.starts_with("model.layers.7.")) (is_matrix ? layer_matrices : layer_norms) += size;
    }
  CHECK(bytes["model.embed_tokens.weight"] == 311'164'928);
  CHECK(bytes["model.layers.0.self_attn.q_proj.weight"] == 2048 * 1024 * 2);
  CHECK(bytes["model.layers.0.self_attn.k_proj.weight"] == 1024 * 1024 * 2);
  CHECK(bytes["model.layers.27.mlp.down_proj.weight"] == 1024 * 3072 * 2);
  CHECK(layer_matrices == 30 * 1024 * 1024);
  CHECK(layer_norms == 2 * 4608);  // kept in f32, twice the published 16-bit size
  CHECK(matrices == 1'192'099'840 - 2 * (28 * 2304 + 1024));
  CHECK(bytes["rope"] == 16 * 1024 * 1024);
  auto load = qi::options<qinfer_load_options>();
  load.flags = QINFER_LOAD_EMBED_ROWS;
  const qinfer_memory one = qi::plan(directory.file("config.json")),
                      two = qi::plan(directory.file("config.json"), nullptr, &load);
  if (!qinfer::test::is_portable(qi::cpu_info().target))
    CHECK(two.weights_mapped + two.weights_private == one.weights_mapped + one.weights_private + 311'164'928);
}

TEST_CASE("a feed-forward network of an expert's size of Mixtral-8x22B stays in the file where kernels take it so",
          "[memory][plan]") {
  const qinfer::test::ModelDir directory;
  directory.write("config.json",
                  R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 6144, "intermediate_size": 16384,
    "num_hidden_layers": 1, "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 32768,
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "dtype": "bfloat16"})");
  for (const std::string& target : qinfer::test::usable_targets()) {
    if (qinfer::test::repacks(target)) continue;
    INFO(target);
    auto runtime = qi::options<qinfer_runtime_options>();
    runtime.cpu_target = target.c_str();
    const Json map = Json::parse(qi::plan_map(directory.file("config.json"), &runtime));
    std::uint64_t mapped = 0;
    for (const Json& region : map.at("regions"))
      for (const Json& buffer : region.at("buffers"))
        if (region.at("name") == "weights_mapped" &&
            buffer.at("name").get<std::string>().find(".mlp.") != std::string::npos)
          mapped += buffer.at("bytes").get<std::uint64_t>();
    CHECK(mapped == 603'979'776);
  }
}

TEST_CASE("a map for bad arguments, and into too small a buffer", "[memory][plan]") {
  const std::string folder = QINFER_TEST_FIXTURES "/models/qwen3-odd-bf16";
  qinfer_error error{};
  char json[4];
  std::size_t n = 0;
  CHECK(qinfer_model_plan_map(nullptr, nullptr, nullptr, nullptr, nullptr, json, 4, &n, &error) ==
        QINFER_E_INVALID_ARGUMENT);
  CHECK(qinfer_model_plan_map(folder.c_str(), nullptr, nullptr, nullptr, nullptr, json, 4, nullptr, &error) ==
        QINFER_E_INVALID_ARGUMENT);
  CHECK(qinfer_model_plan_map(folder.c_str(), nullptr, nullptr, nullptr, nullptr, json, 4, &n, &error) ==
        QINFER_E_BUFFER_TOO_SMALL);
  CHECK(n > 1000);
  CHECK(qinfer_model_plan_map("nowhere", nullptr, nullptr, nullptr, nullptr, json, 4, &n, &error) ==
        QINFER_E_NOT_FOUND);
}
