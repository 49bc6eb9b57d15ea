// Writes a checkpoint of Qwen3-0.6B's shapes with random weights twice, as safetensors for qinfer and as GGUF for
// peers, from one seed: the same values, bf16 in the one and f16 in the other, which holds them exactly.
//
//   make_checkpoint DIR [--layers N] [--vocab N] [--tokenizer tokenizer.json]
//
// writes DIR/config.json, DIR/model.safetensors and DIR/model-f16.gguf. Speed does not depend on the values; they are
// normal with the usual deviation of 0.02, so that activations stay in range.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Shapes {
  std::uint64_t layers = 28, hidden = 1024, heads = 16, kv_heads = 8, head_dim = 128, ffn = 3072, vocab = 151936;
  std::uint64_t context = 40960;
};

enum class Format { safetensors, gguf };

struct Tensor {
  std::string hugging_face, gguf;
  std::vector<std::uint64_t> shape;  // outermost first
  bool norm = false;                 // f32 in GGUF, as its converters write
  std::uint64_t elements() const {
    std::uint64_t n = 1;
    for (const std::uint64_t d : shape) n *= d;
    return n;
  }
  std::uint64_t bytes(Format format) const { return elements() * (norm && format == Format::gguf ? 4 : 2); }
};

std::vector<Tensor> list_tensors(const Shapes& s) {
  std::vector<Tensor> tensors;
  const auto add = [&](std::string hf, std::string gguf, std::vector<std::uint64_t> shape) {
    const bool norm = shape.size() == 1;
    tensors.push_back({std::move(hf), std::move(gguf), std::move(shape), norm});
  };
  add("model.embed_tokens.weight", "token_embd.weight", {s.vocab, s.hidden});
  for (std::uint64_t i = 0; i < s.layers; ++i) {
    const std::string hf = "model.layers." + std::to_string(i) + ".", gguf = "blk." + std::to_string(i) + ".";
    add(hf + "input_layernorm.weight", gguf + "attn_norm.weight", {s.hidden});
    add(hf + "self_attn.q_proj.weight", gguf + "attn_q.weight", {s.heads * s.head_dim, s.hidden});
    add(hf + "self_attn.k_proj.weight", gguf + "attn_k.weight", {s.kv_heads * s.head_dim, s.hidden});
    add(hf + "self_attn.v_proj.weight", gguf + "attn_v.weight", {s.kv_heads * s.head_dim, s.hidden});
    add(hf + "self_attn.o_proj.weight", gguf + "attn_output.weight", {s.hidden, s.heads * s.head_dim});
    add(hf + "self_attn.q_norm.weight", gguf + "attn_q_norm.weight", {s.head_dim});
    add(hf + "self_attn.k_norm.weight", gguf + "attn_k_norm.weight", {s.head_dim});
    add(hf + "post_attention_layernorm.weight", gguf + "ffn_norm.weight", {s.hidden});
    add(hf + "mlp.gate_proj.weight", gguf + "ffn_gate.weight", {s.ffn, s.hidden});
    add(hf + "mlp.up_proj.weight", gguf + "ffn_up.weight", {s.ffn, s.hidden});
    add(hf + "mlp.down_proj.weight", gguf + "ffn_down.weight", {s.hidden, s.ffn});
  }
  add("model.norm.weight", "output_norm.weight", {s.hidden});
  return tensors;
}

/// Values as bf16, at least 2^-17 in magnitude (or zero), so that f16 holds them exactly.
class Values {
 public:
  Values(std::uint64_t tensor, bool norm) : state_(0x9e3779b97f4a7c15u * (tensor + 1)), norm_(norm) {}
  std::uint16_t next() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;  // xorshift64 (Marsaglia 2003)
    // The sum of four uniform numbers in [-1, 1] has a variance of 4/3.
    float sum = 0;
    for (int i = 0; i < 4; ++i)
      sum += static_cast<float>(static_cast<std::int16_t>(state_ >> (16 * i) & 0xffff)) / 32768.0f;
    const float value = norm_ ? 1.0f + 0.01f * sum : 0.01732f * sum;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const auto rounded = static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    return (rounded & 0x7fff) < 0x3700 ? 0 : rounded;
  }

 private:
  std::uint64_t state_;
  bool norm_;
};

float widen(std::uint16_t bf16) { return std::bit_cast<float>(std::uint32_t{bf16} << 16); }

/// Exact for the values above: re-bias the exponent, cut zero bits off.
std::uint16_t to_f16(std::uint16_t bf16) {
  if ((bf16 & 0x7fff) == 0) return bf16;
  const int exponent = (bf16 >> 7 & 0xff) - 127 + 15, fraction = (bf16 & 0x7f) << 3;
  const auto sign = static_cast<std::uint16_t>(bf16 & 0x8000);
  if (exponent > 0) return static_cast<std::uint16_t>(sign | exponent << 10 | fraction);
  return static_cast<std::uint16_t>(sign | (0x400 | fraction) >> (1 - exponent));
}

class File {
 public:
  explicit File(const std::string& path) : out_(path, std::ios::binary) {
    if (!out_) throw std::runtime_error("cannot write " + path);
  }
  template <typename T>
  void put(const T& value) {
    out_.write(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& value) { out_.write(value.data(), static_cast<std::streamsize>(value.size())); }
  /// A GGUF string: its length in 64 bits, then its bytes.
  void string(const std::string& value) {
    put(std::uint64_t{value.size()});
    text(value);
  }
  void bytes(const void* data, std::size_t size) {
    out_.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  }
  void pad_to(std::uint64_t unit) {
    while (static_cast<std::uint64_t>(out_.tellp()) % unit != 0) out_.put('\0');
  }
  void finish() {
    out_.flush();
    if (!out_) throw std::runtime_error("writing failed: is the disk full?");
  }

 private:
  std::ofstream out_;
};

void write_data(File& file, const Tensor& tensor, std::uint64_t index, Format format) {
  Values values(index, tensor.norm);
  std::vector<std::uint16_t> chunk;
  for (std::uint64_t done = 0; done < tensor.elements(); done += chunk.size()) {
    chunk.resize(std::min<std::uint64_t>(1 << 20, tensor.elements() - done));
    for (std::uint16_t& v : chunk) v = values.next();
    if (format == Format::gguf && tensor.norm) {
      for (const std::uint16_t v : chunk) file.put(widen(v));
      continue;
    }
    if (format == Format::gguf)
      for (std::uint16_t& v : chunk) v = to_f16(v);
    file.bytes(chunk.data(), chunk.size() * 2);
  }
}

void write_safetensors(const std::string& path, const std::vector<Tensor>& tensors) {
  std::string header = "{";
  std::uint64_t offset = 0;
  for (const Tensor& t : tensors) {
    const std::uint64_t begin = offset;
    offset += t.bytes(Format::safetensors);
    std::string shape;
    for (const std::uint64_t d : t.shape) shape.append(shape.empty() ? "" : ",").append(std::to_string(d));
    header.append(header.size() > 1 ? "," : "").append("\"").append(t.hugging_face);
    header.append(R"(":{"dtype":"BF16","shape":[)").append(shape).append(R"(],"data_offsets":[)");
    header.append(std::to_string(begin)).append(",").append(std::to_string(offset)).append("]}");
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  File file(path);
  file.string(header);
  for (std::size_t i = 0; i < tensors.size(); ++i) write_data(file, tensors[i], i, Format::safetensors);
  file.finish();
}

/// GGUF version 3: metadata with a placeholder vocabulary, without which llama.cpp does not load a model.
class GgufWriter {
 public:
  GgufWriter(const std::string& path, const Shapes& shapes, const std::vector<Tensor>& tensors)
      : file_(path), shapes_(shapes), tensors_(tensors) {}

  void write() {
    file_.text("GGUF");
    file_.put(std::uint32_t{3});
    file_.put(std::uint64_t{tensors_.size()});
    file_.put(std::uint64_t{18});
    metadata();
    vocabulary();
    std::uint64_t offset = 0;
    for (const Tensor& t : tensors_) {
      file_.string(t.gguf);
      file_.put(static_cast<std::uint32_t>(t.shape.size()));
      for (std::size_t i = t.shape.size(); i-- > 0;) file_.put(t.shape[i]);  // innermost first
      file_.put(std::uint32_t{t.norm ? 0u : 1u});                            // F32, F16
      file_.put(offset);
      offset += (t.bytes(Format::gguf) + 31) / 32 * 32;
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      file_.pad_to(32);
      write_data(file_, tensors_[i], i, Format::gguf);
    }
    file_.pad_to(32);
    file_.finish();
  }

 private:
  enum Type : std::uint32_t { u32 = 4, i32 = 5, f32 = 6, string = 8, array = 9 };
  void key(const std::string& name, Type type) {
    file_.string(name);
    file_.put(static_cast<std::uint32_t>(type));
  }
  void number(const std::string& name, std::uint64_t value) {
    key(name, u32);
    file_.put(static_cast<std::uint32_t>(value));
  }
  void real(const std::string& name, float value) {
    key(name, f32);
    file_.put(value);
  }
  void label(const std::string& name, const std::string& value) {
    key(name, string);
    file_.string(value);
  }
  void metadata() {
    label("general.architecture", "qwen3");
    label("general.name", "random");
    number("general.file_type", 1);
    number("qwen3.block_count", shapes_.layers);
    number("qwen3.context_length", shapes_.context);
    number("qwen3.embedding_length", shapes_.hidden);
    number("qwen3.feed_forward_length", shapes_.ffn);
    number("qwen3.attention.head_count", shapes_.heads);
    number("qwen3.attention.head_count_kv", shapes_.kv_heads);
    number("qwen3.attention.key_length", shapes_.head_dim);
    number("qwen3.attention.value_length", shapes_.head_dim);
    real("qwen3.attention.layer_norm_rms_epsilon", 1e-6f);
    real("qwen3.rope.freq_base", 1e6f);
    label("tokenizer.ggml.model", "gpt2");
    label("tokenizer.ggml.pre", "qwen2");
  }
  void vocabulary() {
    key("tokenizer.ggml.tokens", array);
    file_.put(static_cast<std::uint32_t>(string));
    file_.put(shapes_.vocab);
    for (std::uint64_t i = 0; i < shapes_.vocab; ++i) file_.string("<t" + std::to_string(i) + ">");
    key("tokenizer.ggml.token_type", array);
    file_.put(static_cast<std::uint32_t>(i32));
    file_.put(shapes_.vocab);
    for (std::uint64_t i = 0; i < shapes_.vocab; ++i) file_.put(std::int32_t{1});
    key("tokenizer.ggml.merges", array);
    file_.put(static_cast<std::uint32_t>(string));
    file_.put(std::uint64_t{1});
    file_.string("< t");
  }
  File file_;
  const Shapes& shapes_;
  const std::vector<Tensor>& tensors_;
};

void write_config(const std::string& path, const Shapes& s) {
  File file(path);
  file.text(
      "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", \"torch_dtype\": \"bfloat16\",\n"
      " \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000, \"tie_word_embeddings\": true,\n"
      " \"attention_bias\": false, \"hidden_size\": " +
      std::to_string(s.hidden) + ", \"intermediate_size\": " + std::to_string(s.ffn) + ",\n \"num_attention_heads\": " +
      std::to_string(s.heads) + ", \"num_key_value_heads\": " + std::to_string(s.kv_heads) +
      ", \"head_dim\": " + std::to_string(s.head_dim) + ", \"num_hidden_layers\": " + std::to_string(s.layers) +
      ",\n \"max_position_embeddings\": " + std::to_string(s.context) + ", \"vocab_size\": " + std::to_string(s.vocab) +
      "}\n");
  file.finish();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw std::runtime_error("usage: make_checkpoint DIR [--layers N] [--vocab N] [--tokenizer FILE]");
    const std::filesystem::path directory = argv[1];
    Shapes shapes;
    std::filesystem::create_directories(directory);
    for (int i = 2; i + 1 < argc; i += 2) {
      const std::string name = argv[i];
      if (name == "--layers") shapes.layers = std::strtoull(argv[i + 1], nullptr, 10);
      if (name == "--vocab") shapes.vocab = std::strtoull(argv[i + 1], nullptr, 10);
      if (name == "--tokenizer")
        std::filesystem::copy_file(argv[i + 1], directory / "tokenizer.json",
                                   std::filesystem::copy_options::overwrite_existing);
    }
    const std::vector<Tensor> tensors = list_tensors(shapes);
    write_config((directory / "config.json").string(), shapes);
    write_safetensors((directory / "model.safetensors").string(), tensors);
    GgufWriter((directory / "model-f16.gguf").string(), shapes, tensors).write();
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "make_checkpoint: %s\n", e.what());
    return 1;
  }
}
