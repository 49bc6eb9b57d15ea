// GGUF files in tests: key-values and tensors, each of which can be changed before the file is written, and numbers of
// the header that say something else than what the file has. tiny_gguf() is a complete model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/gguf_keys.h"

namespace qinfer::test {

struct GgufTestTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  ///< the first is the contiguous one
  std::uint32_t type = 0;           ///< the format's number
  std::string data;
  std::optional<std::uint64_t> offset = {};  ///< other than where the data is
};

struct GgufFile {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  ///< of the data; the key is for the test to set
  std::optional<std::uint64_t> n_tensors = {}, n_keys = {};
  GgufKeys keys;
  std::string more_keys;  ///< as stored, after those of `keys`
  std::uint64_t n_more_keys = 0;
  std::vector<GgufTestTensor> tensors;

  GgufTestTensor& tensor(std::string_view name) {
    return *std::find_if(tensors.begin(), tensors.end(), [&](const GgufTestTensor& t) { return t.name == name; });
  }

  /// Up to the data.
  std::string header() const {
    std::string out = magic + gguf_number(version) + gguf_number(n_tensors.value_or(tensors.size())) +
                      gguf_number(n_keys.value_or(keys.size() + n_more_keys)) + keys.bytes() + more_keys;
    std::uint64_t at = 0;
    for (const GgufTestTensor& tensor : tensors) {
      out += gguf_text(tensor.name) + gguf_number(static_cast<std::uint32_t>(tensor.dims.size()));
      for (const std::uint64_t dim : tensor.dims) out += gguf_number(dim);
      out += gguf_number(tensor.type) + gguf_number(tensor.offset.value_or(at));
      at += padded(tensor.data.size());
    }
    out.resize(padded(out.size()), '\0');
    return out;
  }
  std::string bytes() const {
    std::string out = header();
    for (const GgufTestTensor& tensor : tensors) {
      out += tensor.data;
      out.resize(padded(out.size()), '\0');
    }
    return out;
  }

 private:
  std::uint64_t padded(std::uint64_t n) const { return (n + alignment - 1) / alignment * alignment; }
};

/// What the format says of the quantised types that are read.
struct GgufBlockType {
  std::uint32_t number;
  const char* name;
  std::uint64_t values, bytes;
  std::vector<std::size_t> scales;  ///< where a block has its f16 scales
};
const std::vector<GgufBlockType>& gguf_block_types();
const GgufBlockType* find_gguf_block_type(std::uint32_t number);

/// Data of n values of F32 (0), F16 (1), BF16 (30) or a quantised type, all small.
std::string gguf_data(std::uint32_t type, std::uint64_t n);

struct TinyGguf {
  std::string architecture = "llama";
  std::uint32_t hidden = 32, heads = 2, kv_heads = 1, ffn = 32, layers = 1, vocab = 9, context = 64;
  std::uint32_t experts = 0;  ///< of each layer, two of which are used
  std::uint32_t type = 0;     ///< of matrices
  bool tokenizer = true;
};

/// A byte-level tokenizer of nine tokens.
void set_tiny_tokenizer(GgufKeys& keys);

/// A model of few and small tensors; its embedding is the LM head, too.
GgufFile tiny_gguf(const TinyGguf& spec = {});

/// `file` in parts of tensors, under the names that split files have.
std::map<std::string, std::string> split_gguf(const GgufFile& file, std::uint16_t parts);

}  // namespace qinfer::test
