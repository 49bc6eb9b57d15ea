// The shapes of a real model: Qwen3-0.6B with random weights, 1.2 GB of bf16, mapped and run. What small models cannot
// show: offsets beyond 32 bits, a vocabulary of 151,936, a context of 40,960.
#include <qinfer/qinfer.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/skip.h"

namespace {

struct Shape {
  std::string name;
  std::vector<std::uint64_t> shape;
};

std::vector<Shape> qwen3_tensors() {
  std::vector<Shape> tensors = {{"model.embed_tokens.weight", {151936, 1024}}, {"model.norm.weight", {1024}}};
  for (int layer = 0; layer < 28; ++layer) {
    const std::string p = "model.layers." + std::to_string(layer) + ".";
    tensors.insert(tensors.end(), {{p + "input_layernorm.weight", {1024}},
                                   {p + "post_attention_layernorm.weight", {1024}},
                                   {p + "self_attn.q_norm.weight", {128}},
                                   {p + "self_attn.k_norm.weight", {128}},
                                   {p + "self_attn.q_proj.weight", {2048, 1024}},
                                   {p + "self_attn.k_proj.weight", {1024, 1024}},
                                   {p + "self_attn.v_proj.weight", {1024, 1024}},
                                   {p + "self_attn.o_proj.weight", {1024, 2048}},
                                   {p + "mlp.gate_proj.weight", {3072, 1024}},
                                   {p + "mlp.up_proj.weight", {3072, 1024}},
                                   {p + "mlp.down_proj.weight", {1024, 3072}}});
  }
  return tensors;
}

/// A bf16 pattern of an odd length, so that repeating it does not align with rows.
std::string weight_pattern() {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal(0, 0.03f);
  std::string bytes(2 * 524'287, '\0');
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    const std::uint16_t bits = qinfer::f32_to_bf16(normal(engine));
    std::memcpy(bytes.data() + i, &bits, 2);
  }
  return bytes;
}

void write_checkpoint(const qinfer::test::ModelDir& directory) {
  std::string header = "{";
  std::uint64_t offset = 0;
  for (const Shape& tensor : qwen3_tensors()) {
    std::uint64_t bytes = 2;
    std::string shape;
    for (const std::uint64_t extent : tensor.shape) {
      bytes *= extent;
      shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    }
    header += (offset == 0 ? "\"" : ",\"") + tensor.name + "\":{\"dtype\":\"BF16\",\"shape\":[" + shape +
              "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(offset + bytes) + "]}";
    offset += bytes;
  }
  header += "}";
  std::ofstream file(directory.file("model.safetensors"), std::ios::binary);
  std::string length(8, '\0');
  const std::uint64_t n = header.size();
  std::memcpy(length.data(), &n, 8);
  file << length << header;
  const std::string pattern = weight_pattern();
  for (std::uint64_t written = 0; written < offset;) {
    const std::uint64_t part = std::min<std::uint64_t>(pattern.size(), offset - written);
    file.write(pattern.data(), static_cast<std::streamsize>(part));
    written += part;
  }
  REQUIRE(file.good());
}

}  // namespace

TEST_CASE("Qwen3-0.6B shapes load and run", "[full-size]") {
  qinfer::test::ModelDir directory;
  SKIP_UNLESS(std::filesystem::space(directory.path()).available >= (std::uint64_t{3} << 30), machine,
              "under 3 GiB free in " + directory.path());
  directory.write("config.json",
                  R"({"architectures": ["Qwen3ForCausalLM"], "hidden_size": 1024, "intermediate_size": 3072,
    "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000, "tie_word_embeddings": true})");
  write_checkpoint(directory);
  const qi::Model model = qi::Model::load(directory.path());
  CHECK(model.info().n_params == 596'049'920);
  // 65,536 parameters are norms. Matrices are mapped as they are, or packed as f16.
  CHECK(model.memory().weights_mapped + model.memory().weights_private == 2 * (596'049'920 - 65'536) + 4 * 65'536);
  auto options = qi::options<qinfer_kv_cache_options>();
  options.budget_blocks = 4;
  qi::KvCache cache(model, options);
  CHECK(cache.stats().bytes_reserved / 4 == 2u * 28 * 8 * 32 * 128 * 2);
  qi::Session together(cache), apart(cache);
  const std::vector<qi::Token> tokens = {151935, 0, 77777};
  together.append(tokens);
  together.eval();
  const std::vector<float> logits = together.copy_logits();
  REQUIRE(logits.size() == 151936);
  double squares = 0;
  for (const float logit : logits) {
    REQUIRE(std::isfinite(logit));
    squares += logit * logit;
  }
  CHECK(squares > 0);
  for (const qi::Token token : tokens) {
    apart.append(token);
    apart.eval();
  }
  CHECK(std::memcmp(apart.logits(), logits.data(), logits.size() * sizeof(float)) == 0);
}
