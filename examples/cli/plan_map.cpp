// plan_map.cpp: `qinfer plan --map`: every buffer of a plan, and the tables of two early designs, which held 16-bit and
// f32 activations in buffers that share nothing.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "plan.h"
#include "support.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;

std::string shape_text(const Json& shape) {
  std::string text;
  for (const Json& size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size.get<std::uint64_t>());
  return text;
}

/// A model's sizes in elements.
struct Sizes {
  std::uint64_t dim, q, kv, ffn, vocab, layers, kv_heads, head_dim;

  explicit Sizes(const std::string& map) {
    const Json model = Json::parse(map).at("model");
    const auto size = [&](const char* name) { return model.at(name).get<std::uint64_t>(); };
    dim = size("n_embd");
    head_dim = size("head_dim");
    kv_heads = size("n_kv_heads");
    q = size("n_heads") * head_dim;
    kv = kv_heads * head_dim;
    ffn = size("n_ffn");
    vocab = size("n_vocab");
    layers = size("n_layers");
  }
};

using Buffers = std::vector<std::pair<const char*, std::uint64_t>>;

std::uint64_t print_buffers(const Buffers& buffers) {
  std::uint64_t sum = 0;
  for (const auto& [name, bytes] : buffers) {
    print_row(name, amount(bytes));
    sum += bytes;
  }
  return sum;
}

}  // namespace

void print_map(const std::string& text) {
  const Json map = Json::parse(text);
  std::uint64_t model = 0, session = 0;
  for (const Json& region : map.at("regions")) {
    const auto bytes = region.at("bytes").get<std::uint64_t>();
    (region.at("belongs_to") == "session" ? session : model) += bytes;
    print(format("%s (%s): %s B\n", region.at("name").get<std::string>().c_str(),
                 region.at("belongs_to").get<std::string>().c_str(), with_commas(bytes).c_str()));
    for (const Json& buffer : region.at("buffers")) {
      std::string lifetime;
      if (buffer.contains("lifetime"))
        lifetime = buffer["lifetime"][0].get<std::string>() + ".." + buffer["lifetime"][1].get<std::string>();
      print(format("  %16llu %16llu %16llu  %-44s %-5s %-18s %s\n",
                   static_cast<unsigned long long>(buffer.at("offset").get<std::uint64_t>()),
                   static_cast<unsigned long long>(buffer.at("end").get<std::uint64_t>()),
                   static_cast<unsigned long long>(buffer.at("bytes").get<std::uint64_t>()),
                   buffer.at("name").get<std::string>().c_str(), buffer.at("dtype").get<std::string>().c_str(),
                   lifetime.c_str(), shape_text(buffer.at("shape")).c_str()));
    }
  }
  print_row("model and cache", amount(model));
  print_row("each session", amount(session));
}

void print_named16(const std::string& text, std::uint32_t positions) {
  const Sizes s(text);
  const std::uint64_t wide = std::max(s.q, s.dim);  // q_dim exceeds dim in Qwen3-0.6B, 4B and 30B-A3B
  const Buffers decode = {{"h0", s.dim * 2},           {"h1", s.dim * 2},        {"residual", s.dim * 2},
                          {"attn_out", wide * 2},      {"post_norm", s.dim * 2}, {"qkv", (s.q + 2 * s.kv) * 2},
                          {"ffn_gate", 2 * s.ffn * 2}, {"ffn_up", s.ffn * 2},    {"ffn_act", s.ffn * 2},
                          {"logits", s.vocab * 2}};
  const std::uint64_t sum = print_buffers(decode), ids = std::uint64_t{4} * positions;
  print_row("sum, decode", amount(sum));
  print_row("token_ids", amount(ids));
  print_row("sum with token_ids", amount(sum + ids));
  // A prompt's gate and up share the place of the activation, and its logits are those of its last token.
  const std::uint64_t each = sum - s.vocab * 2 - s.ffn * 2;
  for (const std::uint64_t n : {std::uint64_t{512}, std::uint64_t{positions}})
    print_row(format("prefill of %llu", static_cast<unsigned long long>(n)), amount(each * n));
}

void print_named32(const std::string& text, std::uint32_t positions) {
  const Sizes s(text);
  const std::uint64_t n = positions, f = 4;
  const std::uint64_t sum = print_buffers({{"text_input", n * 16},
                                           {"token_ids", n * 4},
                                           {"embedded_input", n * s.dim * f},
                                           {"layer_input", n * s.dim * f},
                                           {"residual", n * s.dim * f},
                                           {"kv_cache", 2 * s.layers * s.kv * n * f},
                                           {"rope_cache", n * s.head_dim * f},
                                           {"q_scratch", n * s.q * f},
                                           {"k_scratch", n * s.kv * f},
                                           {"v_scratch", n * s.kv * f},
                                           {"attn_q_gate_packed", n * 2 * s.q * f},
                                           {"attn_gate", n * s.q * f},
                                           {"attn_scratch", n * s.q * f},
                                           {"mlp_scratch", n * (3 * s.ffn + s.dim) * f},
                                           {"layer_output", n * s.dim * f},
                                           {"logits", n * s.vocab * f}});
  print_row("sum", amount(sum));
}

}  // namespace cli
