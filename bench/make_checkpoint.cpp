// Writes a checkpoint with random weights twice, as safetensors for qinfer and as GGUF for peers, from one seed: the
// same values, bf16 in the one and in the other f16, which holds them exactly, or bf16.
//
//   make_checkpoint DIR [--bf16] [--layers N] [--vocab N] [--tokenizer tokenizer.json]
//   make_checkpoint DIR --moe [--experts N] [--top-k N] [--layers N] ...
//
// writes DIR/config.json, DIR/model.safetensors and DIR/model-f16.gguf (with --bf16 DIR/model-bf16.gguf), of
// Qwen3-0.6B's shapes; with --moe DIR/model-bf16.gguf, of Qwen3-30B-A3B's (48 layers have 30.5 billion parameters, 61
// GB in each file). Values are normal with the usual deviation of 0.02, so that activations stay in range. Speed does
// not depend on them, except that routers choose experts: the embeddings of a mixture have a deviation of 1, so that
// its tokens stay different. With smaller ones all tokens of a long prompt are soon alike, being mostly what attention
// averaged over all of them, and use the same few experts.
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
#include <unordered_map>
#include <vector>

namespace {

struct Shapes {
  std::uint64_t layers = 28, hidden = 1024, heads = 16, kv_heads = 8, head_dim = 128, ffn = 3072, vocab = 151936;
  std::uint64_t context = 40960;
  std::uint64_t experts = 0, top_k = 0, expert_ffn = 0;  // 0: no mixture of experts
  bool bf16 = false;                                     ///< in the GGUF file, which mixtures always have
  bool moe() const { return experts != 0; }
  bool gguf_in_bf16() const { return bf16 || moe(); }
};

/// Qwen3-30B-A3B. `ffn` is the width of dense layers, of which it has none.
constexpr Shapes kMoeShapes = {48, 2048, 32, 4, 128, 6144, 151936, 40960, 128, 8, 768};

enum class Type : std::uint32_t { f32 = 0, f16 = 1, bf16 = 30 };  // as GGUF numbers them

struct Tensor {
  std::string hugging_face, gguf;
  std::vector<std::uint64_t> shape;  // outermost first
  Type gguf_type = Type::bf16;
  float mean = 0, scale = 0;  // of its values: Values says of what
  std::uint64_t elements() const {
    std::uint64_t n = 1;
    for (const std::uint64_t d : shape) n *= d;
    return n;
  }
  std::uint64_t bytes(Type type) const { return elements() * (type == Type::f32 ? 4 : 2); }
};

std::vector<Tensor> list_tensors(const Shapes& s) {
  std::vector<Tensor> tensors;
  const auto add = [&](std::string hf, std::string gguf, std::vector<std::uint64_t> shape) {
    const bool small = shape.size() == 1 || gguf.find("ffn_gate_inp") != gguf.npos;  // f32, as GGUF's converters write
    const Type type = small ? Type::f32 : s.gguf_in_bf16() ? Type::bf16 : Type::f16;
    const bool norm = shape.size() == 1, wide = s.moe() && gguf == "token_embd.weight";
    const float scale = norm ? 0.01f : wide ? 0.866f : 0.01732f;
    tensors.push_back({std::move(hf), std::move(gguf), std::move(shape), type, norm ? 1.0f : 0.0f, scale});
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
    if (!s.moe()) {
      add(hf + "mlp.gate_proj.weight", gguf + "ffn_gate.weight", {s.ffn, s.hidden});
      add(hf + "mlp.up_proj.weight", gguf + "ffn_up.weight", {s.ffn, s.hidden});
      add(hf + "mlp.down_proj.weight", gguf + "ffn_down.weight", {s.hidden, s.ffn});
      continue;
    }
    add(hf + "mlp.gate.weight", gguf + "ffn_gate_inp.weight", {s.experts, s.hidden});
    for (std::uint64_t e = 0; e < s.experts; ++e) {  // its three in the order of their names, as transformers saves
      const std::string expert = hf + "mlp.experts." + std::to_string(e) + ".";
      add(expert + "down_proj.weight", gguf + "ffn_down_exps.weight", {s.hidden, s.expert_ffn});
      add(expert + "gate_proj.weight", gguf + "ffn_gate_exps.weight", {s.expert_ffn, s.hidden});
      add(expert + "up_proj.weight", gguf + "ffn_up_exps.weight", {s.expert_ffn, s.hidden});
    }
  }
  add("model.norm.weight", "output_norm.weight", {s.hidden});
  if (s.moe()) add("lm_head.weight", "output.weight", {s.vocab, s.hidden});
  return tensors;
}

/// What is one tensor in GGUF: a matrix, or that matrix of all experts, one after the other.
struct Stack {
  std::vector<std::size_t> parts;  // indices of tensors
};

std::vector<Stack> stack_experts(const std::vector<Tensor>& tensors) {
  std::vector<Stack> stacks;
  std::unordered_map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto [at, is_new] = known.try_emplace(tensors[i].gguf, stacks.size());
    if (is_new) stacks.emplace_back();
    stacks[at->second].parts.push_back(i);
  }
  return stacks;
}

/// mean + scale * a sum with a variance of 4/3, as bf16, at least 2^-17 in magnitude (or zero), so that f16 holds them
/// exactly.
class Values {
 public:
  Values(std::uint64_t index, const Tensor& tensor)
      : state_(0x9e3779b97f4a7c15u * (index + 1)), mean_(tensor.mean), scale_(tensor.scale) {}
  std::uint16_t next() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;  // xorshift64 (Marsaglia 2003)
    // Four uniform numbers in [-1, 1], so it is nearly normal.
    int units = 0;
    for (int i = 0; i < 4; ++i) units += static_cast<std::int16_t>(state_ >> (16 * i) & 0xffff);
    const float sum = static_cast<float>(units) / 32768.0f;
    const float value = mean_ + scale_ * sum;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const auto rounded = static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    return (rounded & 0x7fff) < 0x3700 ? 0 : rounded;
  }

 private:
  std::uint64_t state_;
  float mean_, scale_;
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

void write_data(File& file, const Tensor& tensor, std::uint64_t index, Type type) {
  Values values(index, tensor);
  std::vector<std::uint16_t> chunk;
  std::vector<float> wide;
  for (std::uint64_t done = 0; done < tensor.elements(); done += chunk.size()) {
    chunk.resize(std::min<std::uint64_t>(1 << 20, tensor.elements() - done));
    for (std::uint16_t& v : chunk) v = values.next();
    if (type == Type::f32) {
      wide.resize(chunk.size());
      std::transform(chunk.begin(), chunk.end(), wide.begin(), widen);
      file.bytes(wide.data(), wide.size() * 4);
      continue;
    }
    if (type == Type::f16) std::transform(chunk.begin(), chunk.end(), chunk.begin(), to_f16);
    file.bytes(chunk.data(), chunk.size() * 2);
  }
}

void write_safetensors(const std::string& path, const std::vector<Tensor>& tensors) {
  std::string header = "{";
  std::uint64_t offset = 0;
  for (const Tensor& t : tensors) {
    const std::uint64_t begin = offset;
    offset += t.bytes(Type::bf16);
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
  for (std::size_t i = 0; i < tensors.size(); ++i) write_data(file, tensors[i], i, Type::bf16);
  file.finish();
}

/// GGUF version 3: metadata with a placeholder vocabulary, without which llama.cpp does not load a model.
class GgufWriter {
 public:
  GgufWriter(const std::string& path, const Shapes& shapes, const std::vector<Tensor>& tensors)
      : file_(path), shapes_(shapes), tensors_(tensors) {}

  void write() {
    const std::vector<Stack> stacks = stack_experts(tensors_);
    file_.text("GGUF");
    file_.put(std::uint32_t{3});
    file_.put(std::uint64_t{stacks.size()});
    file_.put(std::uint64_t{shapes_.moe() ? 21u : 18u});  // keys
    metadata();
    vocabulary();
    std::uint64_t offset = 0;
    for (const Stack& stack : stacks) {
      const Tensor& t = tensors_[stack.parts[0]];
      const bool stacked = stack.parts.size() > 1;
      file_.string(t.gguf);
      file_.put(static_cast<std::uint32_t>(t.shape.size() + stacked));
      for (std::size_t i = t.shape.size(); i-- > 0;) file_.put(t.shape[i]);  // innermost first
      if (stacked) file_.put(std::uint64_t{stack.parts.size()});
      file_.put(t.gguf_type);
      file_.put(offset);
      offset += (t.bytes(t.gguf_type) * stack.parts.size() + 31) / 32 * 32;
    }
    for (const Stack& stack : stacks) {
      file_.pad_to(32);
      for (const std::size_t i : stack.parts) write_data(file_, tensors_[i], i, tensors_[i].gguf_type);
    }
    file_.pad_to(32);
    file_.finish();
  }

 private:
  enum Kind : std::uint32_t { u32 = 4, i32 = 5, f32 = 6, string = 8, array = 9 };
  void key(const std::string& name, Kind kind) {
    file_.string(name);
    file_.put(static_cast<std::uint32_t>(kind));
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
    const std::string arch = shapes_.moe() ? "qwen3moe" : "qwen3";
    label("general.architecture", arch);
    label("general.name", "random");
    number("general.file_type", shapes_.gguf_in_bf16() ? 32 : 1);  // mostly bf16, mostly f16
    number(arch + ".block_count", shapes_.layers);
    number(arch + ".context_length", shapes_.context);
    number(arch + ".embedding_length", shapes_.hidden);
    number(arch + ".feed_forward_length", shapes_.ffn);
    number(arch + ".attention.head_count", shapes_.heads);
    number(arch + ".attention.head_count_kv", shapes_.kv_heads);
    number(arch + ".attention.key_length", shapes_.head_dim);
    number(arch + ".attention.value_length", shapes_.head_dim);
    real(arch + ".attention.layer_norm_rms_epsilon", 1e-6f);
    real(arch + ".rope.freq_base", 1e6f);
    if (shapes_.moe()) {
      number(arch + ".expert_count", shapes_.experts);
      number(arch + ".expert_used_count", shapes_.top_k);
      number(arch + ".expert_feed_forward_length", shapes_.expert_ffn);
    }
    label("tokenizer.ggml.model", "gpt2");
    label("tokenizer.ggml.pre", "qwen2");
  }
  void vocabulary() {
    key("tokenizer.ggml.tokens", array);
    file_.put(static_cast<std::uint32_t>(string));
    file_.put(shapes_.vocab);
    // The first three are what the merge below is made of.
    constexpr const char* kFirst[] = {"<", "t", "<t"};
    for (std::uint64_t i = 0; i < shapes_.vocab; ++i) file_.string(i < 3 ? kFirst[i] : "<t" + std::to_string(i) + ">");
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
  const std::string name = s.moe() ? "Qwen3Moe" : "Qwen3", type = s.moe() ? "qwen3_moe" : "qwen3";
  std::string text =
      "{\"architectures\": [\"" + name + "ForCausalLM\"], \"model_type\": \"" + type +
      "\", \"torch_dtype\": \"bfloat16\",\n"
      " \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000, \"tie_word_embeddings\": " +
      (s.moe() ? "false" : "true") + ",\n \"attention_bias\": false";
  const auto number = [&](const char* key, std::uint64_t value) {
    text.append(",\n \"").append(key).append("\": ").append(std::to_string(value));
  };
  number("hidden_size", s.hidden), number("intermediate_size", s.ffn);
  number("num_attention_heads", s.heads), number("num_key_value_heads", s.kv_heads), number("head_dim", s.head_dim);
  number("num_hidden_layers", s.layers);
  number("max_position_embeddings", s.context), number("vocab_size", s.vocab);
  if (s.moe()) {
    text += ",\n \"norm_topk_prob\": true, \"mlp_only_layers\": []";
    number("decoder_sparse_step", 1), number("num_experts", s.experts), number("num_experts_per_tok", s.top_k);
    number("moe_intermediate_size", s.expert_ffn);
  }
  File file(path);
  file.text(text + "}\n");
  file.finish();
}

struct Options {
  std::filesystem::path directory;
  std::string tokenizer;
  Shapes shapes;
};

Options parse(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty() || arguments[0].starts_with("-"))
    throw std::runtime_error(
        "usage: make_checkpoint DIR [--moe [--experts N] [--top-k N]] [--bf16] [--layers N] [--vocab N] "
        "[--tokenizer FILE]");
  Options options;
  options.directory = arguments[0];
  Shapes& shapes = options.shapes;
  if (std::find(arguments.begin(), arguments.end(), "--moe") != arguments.end()) shapes = kMoeShapes;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--moe") continue;
    if (name == "--bf16") {
      shapes.bf16 = true;
      continue;
    }
    if (i + 1 == arguments.size()) throw std::runtime_error(name + " needs a value");
    const std::string& value = arguments[++i];
    if (name == "--tokenizer") {
      options.tokenizer = value;
      continue;
    }
    std::uint64_t* number = name == "--layers"                    ? &shapes.layers
                            : name == "--vocab"                   ? &shapes.vocab
                            : name == "--experts" && shapes.moe() ? &shapes.experts
                            : name == "--top-k" && shapes.moe()   ? &shapes.top_k
                                                                  : nullptr;
    if (number == nullptr) throw std::runtime_error(name + " is no option here");
    *number = std::strtoull(value.c_str(), nullptr, 10);
    if (*number == 0) throw std::runtime_error(name + " must be a number from 1 on");
  }
  if (shapes.top_k > shapes.experts) throw std::runtime_error("--top-k must be at most --experts");
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    const std::filesystem::path& directory = options.directory;
    std::filesystem::create_directories(directory);
    if (!options.tokenizer.empty())
      std::filesystem::copy_file(options.tokenizer, directory / "tokenizer.json",
                                 std::filesystem::copy_options::overwrite_existing);
    const std::vector<Tensor> tensors = list_tensors(options.shapes);
    write_config((directory / "config.json").string(), options.shapes);
    write_safetensors((directory / "model.safetensors").string(), tensors);
    const char* gguf = options.shapes.gguf_in_bf16() ? "model-bf16.gguf" : "model-f16.gguf";
    GgufWriter((directory / gguf).string(), options.shapes, tensors).write();
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "make_checkpoint: %s\n", e.what());
    return 1;
  }
}
