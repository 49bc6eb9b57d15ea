// See gguf_writer.h.
#include "support/gguf_writer.h"

#include <fmt/format.h>

namespace qinfer::test {

const std::vector<GgufBlockType>& gguf_block_types() {
  static const std::vector<GgufBlockType> types = {
      {2, "q4_0", 32, 18, {0}},       {3, "q4_1", 32, 20, {0, 2}},    {6, "q5_0", 32, 22, {0}},
      {7, "q5_1", 32, 24, {0, 2}},    {8, "q8_0", 32, 34, {0}},       {11, "q3_k", 256, 110, {108}},
      {12, "q4_k", 256, 144, {0, 2}}, {13, "q5_k", 256, 176, {0, 2}}, {14, "q6_k", 256, 210, {208}},
      {20, "iq4_nl", 32, 18, {0}},    {23, "iq4_xs", 256, 136, {0}},  {39, "mxfp4", 32, 17, {}}};
  return types;
}

const GgufBlockType* find_gguf_block_type(std::uint32_t number) {
  for (const GgufBlockType& type : gguf_block_types())
    if (type.number == number) return &type;
  return nullptr;
}

std::string gguf_data(std::uint32_t type, std::uint64_t n) {
  std::string out;
  const GgufBlockType* blocks = find_gguf_block_type(type);
  if (blocks == nullptr) {
    for (std::uint64_t i = 0; i < n; ++i) {
      const float value = static_cast<float>((i * 37 + 11) % 64) / 256.0f - 0.125f;
      if (type == 0) out += gguf_number(value);
      if (type == 30) out += gguf_number(value).substr(2);
      if (type == 1) out += gguf_number(static_cast<std::uint16_t>(0x2000 + i * 37 % 512));
    }
    return out;
  }
  out.resize(n / blocks->values * blocks->bytes);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<char>(i * 29 + i / 7);
  for (std::size_t at = 0; at < out.size(); at += blocks->bytes) {
    for (const std::size_t scale : blocks->scales)
      out.replace(at + scale, 2, gguf_number(std::uint16_t{0x1400}));  // 2^-10
    if (blocks->scales.empty()) out[at] = 120;
  }
  return out;
}

void set_tiny_tokenizer(GgufKeys& keys) {
  keys.set("tokenizer.ggml.model", "gpt2");
  keys.set("tokenizer.ggml.pre", "qwen2");
  keys.set("tokenizer.ggml.tokens",
           std::vector<std::string>{"a", "b", "\u0120", "ab", "\u0120a", "<|im_end|>", "<x>", "t", "h"});
  keys.set("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 1, 1, 1, 3, 4, 1, 1});
  keys.set("tokenizer.ggml.merges", std::vector<std::string>{"a b", "\u0120 a"});
  keys.set("tokenizer.ggml.eos_token_id", 5U);
  keys.set("tokenizer.chat_template", "{{ messages }}");
}

GgufFile tiny_gguf(const TinyGguf& spec) {
  GgufFile out;
  const auto set = [&](const char* name, auto value) { out.keys.set(spec.architecture + "." + name, value); };
  out.keys.set("general.architecture", spec.architecture);
  out.keys.set("general.name", "tiny");
  set("block_count", spec.layers);
  set("context_length", spec.context);
  set("embedding_length", spec.hidden);
  set("feed_forward_length", spec.ffn);
  set("attention.head_count", spec.heads);
  set("attention.head_count_kv", spec.kv_heads);
  set("attention.layer_norm_rms_epsilon", 1e-5f);
  set("rope.freq_base", 1e4f);
  if (spec.experts != 0) set("expert_count", spec.experts);
  if (spec.experts != 0) set("expert_used_count", 2U);
  if (spec.tokenizer) set_tiny_tokenizer(out.keys);
  const auto add = [&](const std::string& name, std::vector<std::uint64_t> dims, std::uint32_t type) {
    std::uint64_t values = 1;
    for (const std::uint64_t dim : dims) values *= dim;
    out.tensors.push_back({name, dims, type, gguf_data(type, values)});
  };
  const std::uint64_t h = spec.hidden, kv = h / spec.heads * spec.kv_heads, e = spec.experts;
  add("token_embd.weight", {h, spec.vocab}, spec.type);
  add("output_norm.weight", {h}, 0);
  for (std::uint32_t i = 0; i < spec.layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    add(layer + "attn_norm.weight", {h}, 0);
    add(layer + "ffn_norm.weight", {h}, 0);
    add(layer + "attn_q.weight", {h, h}, spec.type);
    add(layer + "attn_k.weight", {h, kv}, spec.type);
    add(layer + "attn_v.weight", {h, kv}, spec.type);
    add(layer + "attn_output.weight", {h, h}, spec.type);
    if (e != 0) add(layer + "ffn_gate_inp.weight", {h, e}, 0);
    const std::string suffix = e != 0 ? "_exps.weight" : ".weight";
    const auto matrix = [&](std::uint64_t k, std::uint64_t n) {
      return e != 0 ? std::vector<std::uint64_t>{k, n, e} : std::vector<std::uint64_t>{k, n};
    };
    add(layer + "ffn_gate" + suffix, matrix(h, spec.ffn), spec.type);
    add(layer + "ffn_up" + suffix, matrix(h, spec.ffn), spec.type);
    add(layer + "ffn_down" + suffix, matrix(spec.ffn, h), spec.type);
  }
  return out;
}

std::map<std::string, std::string> split_gguf(const GgufFile& file, std::uint16_t parts) {
  std::map<std::string, std::string> out;
  for (std::uint16_t i = 0; i < parts; ++i) {
    GgufFile part;
    if (i == 0) part.keys = file.keys;
    part.keys.set_bytes("split.no", GgufKeys::u16, gguf_number(i));
    part.keys.set_bytes("split.count", GgufKeys::u16, gguf_number(parts));
    part.keys.set("split.tensors.count", static_cast<std::uint32_t>(file.tensors.size()));
    const std::size_t n = file.tensors.size();
    part.tensors.assign(file.tensors.begin() + static_cast<std::ptrdiff_t>(n * i / parts),
                        file.tensors.begin() + static_cast<std::ptrdiff_t>(n * (i + 1u) / parts));
    out[fmt::format("m-{:05}-of-{:05}.gguf", i + 1, parts)] = part.bytes();
  }
  return out;
}

}  // namespace qinfer::test
