// See checkpoint_writer.h.
#include "support/checkpoint_writer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace qinfer::test {
namespace {

using Json = nlohmann::json;

std::uint64_t splitmix64(std::uint64_t& state) {
  std::uint64_t x = state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

std::string dtype_text(DType dtype) { return dtype == DType::f32 ? "F32" : dtype == DType::f16 ? "F16" : "BF16"; }

/// Multiples of 1/256 below 1/4, or for a norm weight of 1/128 around 1.
TinyTensor random_tensor(const TinySpec& spec, std::string name, std::vector<std::uint64_t> shape) {
  std::uint64_t state = spec.seed ^ hash(name);
  std::uint64_t n = 1;
  for (const std::uint64_t extent : shape) n *= extent;
  const bool is_norm = name.find("norm") != name.npos;
  std::vector<float> values(n);
  for (float& value : values) {
    const auto step = static_cast<float>(static_cast<std::int32_t>(splitmix64(state) % 127) - 63);
    value = is_norm ? 1.0f + static_cast<float>(static_cast<std::int32_t>(step) / 4) / 128.0f : step / 256.0f;
  }
  return {std::move(name), dtype_text(spec.dtype), std::move(shape), encode_values(values, spec.dtype)};
}

bool is_mixtral(const TinySpec& spec) { return spec.architecture.starts_with("Mixtral"); }

/// The tensors of a layer's mixture: of each expert, or of all together made of the same values.
void add_experts(const TinySpec& spec, const std::string& layer, std::vector<TinyTensor>& tensors) {
  const std::uint64_t hidden = spec.hidden, ffn = spec.ffn, shared = spec.shared_ffn;
  const bool old_names = is_mixtral(spec) && !spec.fused_experts;
  const std::string block = layer + (old_names ? "block_sparse_moe." : "mlp.");
  // Values follow from a name, which is the same however tensors are stored.
  const auto make = [&](const std::string& name, std::vector<std::uint64_t> shape) {
    return random_tensor(spec, layer + "moe." + name, std::move(shape));
  };
  const auto add = [&](const std::string& name, TinyTensor tensor) {
    tensor.name = name;
    tensors.push_back(std::move(tensor));
  };
  add(block + "gate.weight", make("gate", {spec.experts, hidden}));
  TinyTensor gate_up{block + "experts.gate_up_proj", dtype_text(spec.dtype), {spec.experts, 2 * ffn, hidden}, {}};
  TinyTensor downs{block + "experts.down_proj", dtype_text(spec.dtype), {spec.experts, hidden, ffn}, {}};
  for (std::uint32_t e = 0; e < spec.experts; ++e) {
    const std::string number = std::to_string(e), expert = block + "experts." + number + ".";
    TinyTensor gate = make("gate." + number, {ffn, hidden}), up = make("up." + number, {ffn, hidden});
    TinyTensor down = make("down." + number, {hidden, ffn});
    gate_up.data += gate.data + up.data;
    downs.data += down.data;
    if (spec.fused_experts) continue;
    add(expert + (old_names ? "w1.weight" : "gate_proj.weight"), std::move(gate));
    add(expert + (old_names ? "w3.weight" : "up_proj.weight"), std::move(up));
    add(expert + (old_names ? "w2.weight" : "down_proj.weight"), std::move(down));
  }
  if (spec.fused_experts) {
    tensors.push_back(std::move(gate_up));
    tensors.push_back(std::move(downs));
  }
  if (shared == 0) return;
  add(layer + "mlp.shared_expert_gate.weight", make("shared", {1, hidden}));
  add(layer + "mlp.shared_expert.gate_proj.weight", make("shared_gate", {shared, hidden}));
  add(layer + "mlp.shared_expert.up_proj.weight", make("shared_up", {shared, hidden}));
  add(layer + "mlp.shared_expert.down_proj.weight", make("shared_down", {hidden, shared}));
}

/// The byte's character in GPT-2's table: printable ones stand for themselves, the others follow from U+0100 on.
std::string byte_character(int byte) {
  static const std::vector<std::string> table = [] {
    std::vector<std::string> characters;
    int next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      const int code = printable ? b : next++;
      if (code < 0x80) {
        characters.emplace_back(1, static_cast<char>(code));
      } else {
        characters.push_back({static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))});
      }
    }
    return characters;
  }();
  return table[static_cast<std::size_t>(byte)];
}

}  // namespace

std::string encode_values(const std::vector<float>& values, DType dtype) {
  std::string bytes;
  for (const float value : values) {
    const std::uint32_t bits = dtype == DType::f32   ? std::bit_cast<std::uint32_t>(value)
                               : dtype == DType::f16 ? f32_to_f16(value)
                                                     : f32_to_bf16(value);
    for (std::size_t i = 0; i < dtype_bytes(dtype); ++i) bytes.push_back(static_cast<char>(bits >> (8 * i) & 0xff));
  }
  return bytes;
}

Json tiny_config(const TinySpec& spec) {
  Json config = {{"architectures", {spec.architecture}},
                 {"hidden_size", spec.hidden},
                 {"intermediate_size", spec.ffn},
                 {"num_hidden_layers", spec.layers},
                 {"num_attention_heads", spec.heads},
                 {"num_key_value_heads", spec.kv_heads},
                 {"head_dim", spec.head_dim},
                 {"vocab_size", spec.vocab},
                 {"max_position_embeddings", spec.context_tokens},
                 {"rms_norm_eps", 1e-5},
                 {"hidden_act", "silu"},
                 {"tie_word_embeddings", spec.tied},
                 {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}}};
  config["dtype"] = spec.dtype == DType::f32 ? "float32" : spec.dtype == DType::f16 ? "float16" : "bfloat16";
  if (spec.vocab > static_cast<std::uint32_t>(kTinyEnd)) {
    config["bos_token_id"] = kTinyBegin;
    config["eos_token_id"] = kTinyEnd;
  }
  if (spec.architecture.starts_with("Mistral")) config["sliding_window"] = nullptr;  // absent would mean 4096
  if (spec.experts != 0) {
    config["num_experts_per_tok"] = spec.top_k;
    if (is_mixtral(spec)) {
      config["num_local_experts"] = spec.experts;
    } else {
      config["num_experts"] = spec.experts;
      config["moe_intermediate_size"] = spec.ffn;
      config["norm_topk_prob"] = true;
    }
    if (spec.shared_ffn != 0) config["shared_expert_intermediate_size"] = spec.shared_ffn;
  }
  if (spec.rotary_factor != 1) config["rope_parameters"]["partial_rotary_factor"] = spec.rotary_factor;
  if (spec.architecture == "Ministral3ForCausalLM") {
    config["rope_parameters"]["llama_4_scaling_beta"] = 0.2;
    config["rope_parameters"]["original_max_position_embeddings"] = 50;
  }
  if (spec.window != 0) {
    config["sliding_window"] = spec.window;
    if (spec.architecture.starts_with("Qwen")) {
      config["use_sliding_window"] = true;
      config["max_window_layers"] = spec.full_layers;
    }
  }
  return config;
}

std::vector<TinyTensor> tiny_tensors(const TinySpec& spec) {
  std::vector<TinyTensor> tensors;
  const auto add = [&](std::string name, std::vector<std::uint64_t> shape) {
    tensors.push_back(random_tensor(spec, std::move(name), std::move(shape)));
  };
  const bool fused = spec.architecture.starts_with("Phi3");
  const auto fuse_last = [&](std::size_t n, std::string name) {
    if (!fused) return;
    TinyTensor whole{std::move(name), dtype_text(spec.dtype), {0, spec.hidden}, {}};
    const auto first = tensors.end() - static_cast<std::ptrdiff_t>(n);
    for (auto part = first; part != tensors.end(); ++part) {
      whole.shape[0] += part->shape[0];
      whole.data += part->data;
    }
    tensors.erase(first, tensors.end());
    tensors.push_back(std::move(whole));
  };
  const std::uint64_t hidden = spec.hidden, ffn = spec.ffn;
  const std::uint64_t q = std::uint64_t{spec.heads} * spec.head_dim, kv = std::uint64_t{spec.kv_heads} * spec.head_dim;
  add("model.embed_tokens.weight", {spec.vocab, hidden});
  for (std::uint32_t layer = 0; layer < spec.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
    const bool norms_after = spec.architecture.starts_with("Olmo2");
    if (!norms_after) add(prefix + "input_layernorm.weight", {hidden});
    add(attention + "q_proj.weight", {q, hidden});
    add(attention + "k_proj.weight", {kv, hidden});
    add(attention + "v_proj.weight", {kv, hidden});
    fuse_last(3, attention + "qkv_proj.weight");
    add(attention + "o_proj.weight", {hidden, q});
    if (spec.architecture.starts_with("Qwen2")) {
      add(attention + "q_proj.bias", {q});
      add(attention + "k_proj.bias", {kv});
      add(attention + "v_proj.bias", {kv});
    }
    if (spec.architecture.starts_with("HunYuan")) {
      add(attention + "query_layernorm.weight", {spec.head_dim});
      add(attention + "key_layernorm.weight", {spec.head_dim});
    }
    if (spec.architecture.starts_with("Qwen3")) {
      add(attention + "q_norm.weight", {spec.head_dim});
      add(attention + "k_norm.weight", {spec.head_dim});
    }
    if (norms_after) {
      add(attention + "q_norm.weight", {q});
      add(attention + "k_norm.weight", {kv});
      add(prefix + "post_feedforward_layernorm.weight", {hidden});
    }
    add(prefix + "post_attention_layernorm.weight", {hidden});
    if (spec.experts != 0) {
      add_experts(spec, prefix, tensors);
      continue;
    }
    add(mlp + "gate_proj.weight", {ffn, hidden});
    add(mlp + "up_proj.weight", {ffn, hidden});
    fuse_last(2, mlp + "gate_up_proj.weight");
    add(mlp + "down_proj.weight", {hidden, ffn});
  }
  add("model.norm.weight", {hidden});
  if (!spec.tied) add("lm_head.weight", {spec.vocab, hidden});
  return tensors;
}

TinyTensor& find_tensor(std::vector<TinyTensor>& tensors, std::string_view name) {
  for (TinyTensor& tensor : tensors)
    if (tensor.name == name) return tensor;
  throw std::runtime_error("no tensor " + std::string(name));
}

std::string tiny_tokenizer() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[byte_character(byte)] = byte;
  Json merges = Json::array();
  const std::string space = byte_character(' ');
  const std::string pairs[][2] = {{"t", "h"}, {"th", "e"}, {"i", "n"}, {"in", "g"}, {space, "t"}, {space, "the"}};
  int next = 256;
  for (const auto& [left, right] : pairs) {
    merges.push_back({left, right});
    vocab[left + right] = next++;
  }
  Json added = Json::array();
  for (const auto& [id, content] : {std::pair(kTinyBegin, "<s>"), std::pair(kTinyEnd, "</s>")}) {
    added.push_back({{"id", id},
                     {"content", content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const Json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const Json begin = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  const Json text_a = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
             text_b = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  Json post = {{"type", "TemplateProcessing"}, {"single", {begin, text_a}}, {"pair", {begin, text_a, text_b}}};
  post["special_tokens"]["<s>"] = {{"id", "<s>"}, {"ids", {kTinyBegin}}, {"tokens", {"<s>"}}};
  Json file = {{"version", "1.0"},      {"truncation", nullptr},  {"padding", nullptr},     {"added_tokens", added},
               {"normalizer", nullptr}, {"pre_tokenizer", level}, {"post_processor", post}, {"decoder", level}};
  file["model"] = {{"type", "BPE"},          {"dropout", nullptr},     {"unk_token", nullptr}, {"fuse_unk", false},
                   {"byte_fallback", false}, {"ignore_merges", false}, {"vocab", vocab},       {"merges", merges}};
  return file.dump();
}

std::string safetensors_file(std::string_view header, std::string_view data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>(std::uint64_t{header.size()} >> (8 * i) & 0xff));
  return file.append(header).append(data);
}

std::string safetensors_file(const std::vector<TinyTensor>& tensors, std::size_t pad_header) {
  Json header = Json::object();
  std::string data;
  for (const TinyTensor& tensor : tensors) {
    const std::size_t begin = data.size();
    data += tensor.data;
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  return safetensors_file(header.dump() + std::string(pad_header, ' '), data);
}

ModelDir::ModelDir() {
  const char* base = std::getenv("TMPDIR");
  path_ = std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/qinfer-test-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot create " + path_);
}

ModelDir::ModelDir(const TinySpec& spec) : ModelDir() {
  write("config.json", tiny_config(spec).dump(2));
  write_tensors(tiny_tensors(spec), spec.shards);
  if (spec.vocab >= 300) write("tokenizer.json", tiny_tokenizer());
}

ModelDir::~ModelDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void ModelDir::write(std::string_view name, std::string_view bytes) const {
  remove(name);  // ext4 writes a file out to the disk that was cut to nothing and closed again
  std::ofstream out(file(name), std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + file(name));
}

void ModelDir::remove(std::string_view name) const { std::filesystem::remove(file(name)); }

std::string ModelDir::read(std::string_view name) const {
  std::ifstream in(file(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void ModelDir::write_tensors(const std::vector<TinyTensor>& tensors, std::uint32_t shards) const {
  if (shards <= 1) return write("model.safetensors", safetensors_file(tensors));
  Json index = {{"metadata", Json::object()}, {"weight_map", Json::object()}};
  std::vector<std::vector<TinyTensor>> parts(shards);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t shard = i * shards / tensors.size();
    parts[shard].push_back(tensors[i]);
    index["weight_map"][tensors[i].name] = fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
  }
  for (std::size_t i = 0; i < shards; ++i)
    write(fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards), safetensors_file(parts[i]));
  write("model.safetensors.index.json", index.dump(2));
}

}  // namespace qinfer::test
