// Tiny models in temporary directories, for tests that need one: config.json, safetensors with deterministic random
// weights, and a byte-level tokenizer.json. Every part can be changed before it is written, or overwritten afterwards
// with any bytes, so that a test can spoil exactly one thing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include "base/dtype.h"

#include <nlohmann/json.hpp>

namespace qinfer::test {

struct TinySpec {
  std::string architecture = "LlamaForCausalLM";  ///< or Qwen3, Qwen2, Mistral, Phi3, Olmo2...
  std::uint32_t hidden = 16, head_dim = 8, heads = 2, kv_heads = 1, ffn = 24;
  std::uint32_t vocab = 300;  ///< a tokenizer needs 300 or more
  std::uint32_t layers = 2;
  std::uint32_t context_tokens = 128;
  std::uint32_t window = 0;                 ///< sliding window of every layer (Mistral, Qwen); 0 = none
  std::uint32_t full_layers = 0;            ///< the first layers, which have no window all the same (Qwen)
  std::uint32_t experts = 0;                ///< of each layer (Qwen3Moe, Qwen2Moe, Mixtral); `ffn` is the width of each
  std::uint32_t top_k = 2, shared_ffn = 0;  ///< shared_ffn: Qwen2Moe
  bool fused_experts = false;               ///< one tensor for gate and up of all experts of a layer, and one for down
  double rotary_factor = 1;                 ///< share of each head that is turned (Phi3)
  DType dtype = DType::f32;
  bool tied = false;
  std::uint32_t shards = 1;  ///< more: an index file and model-0000i-of-0000n.safetensors
  std::uint64_t seed = 1;
};

struct TinyTensor {
  std::string name;
  std::string dtype;  ///< "F32"; any text for a bad one
  std::vector<std::uint64_t> shape;
  std::string data;  ///< little-endian bytes
};

/// Values of a tensor as bytes of `dtype`.
std::string encode_values(const std::vector<float>& values, DType dtype);

/// config.json of transformers version 5.
nlohmann::json tiny_config(const TinySpec& spec);

/// All tensors that the architecture has. Each value is a multiple of 1/256 that F32, F16 and BF16 hold exactly, and
/// depends on the seed and the tensor's name alone: models that differ in dtype or shards only give the same logits,
/// and so does Phi3, whose fused tensors are made of those that Llama has, and a mixture whose experts are fused.
std::vector<TinyTensor> tiny_tensors(const TinySpec& spec);
TinyTensor& find_tensor(std::vector<TinyTensor>& tensors, std::string_view name);

/// Ids 0 to 255 are the bytes, from 256 on come merges ("th", "the", "in", "ing", " t", " the") and, last, the special
/// tokens "<s>" (kTinyBegin) and "</s>" (kTinyEnd).
std::string tiny_tokenizer();
inline constexpr std::int32_t kTinyBegin = 262, kTinyEnd = 263;

/// A safetensors file with the tensors in the given order. `pad_header` spaces follow the JSON: without any, the data
/// begins wherever the JSON happens to end.
std::string safetensors_file(const std::vector<TinyTensor>& tensors, std::size_t pad_header = 0);
/// The same from the text of the header: length, text, data.
std::string safetensors_file(std::string_view header, std::string_view data);

/// A directory of its own, removed with everything in it by the destructor.
class ModelDir {
 public:
  /// Without files.
  ModelDir();
  /// With a complete model.
  explicit ModelDir(const TinySpec& spec);
  ~ModelDir();
  ModelDir(const ModelDir&) = delete;
  ModelDir& operator=(const ModelDir&) = delete;

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  /// Creates or replaces a file.
  void write(std::string_view name, std::string_view bytes) const;
  void remove(std::string_view name) const;
  std::string read(std::string_view name) const;
  /// Spreads the tensors over `shards` files, with an index for more than one.
  void write_tensors(const std::vector<TinyTensor>& tensors, std::uint32_t shards = 1) const;

 private:
  std::string path_;
};

}  // namespace qinfer::test
