// Changes to GGUF files: of key-values, tensors and counts while the file is still in parts, then of its bytes.
#include "mutate.h"

namespace qinfer::fuzz {
namespace {

using test::gguf_number;
using test::gguf_text;
using test::GgufFile;
using test::GgufKeys;

constexpr std::uint64_t kNumbers[] = {0,
                                      1,
                                      2,
                                      3,
                                      8,
                                      16,
                                      31,
                                      32,
                                      33,
                                      64,
                                      255,
                                      256,
                                      1024,
                                      65'535,
                                      65'536,
                                      1 << 20,
                                      (1u << 31) - 1,
                                      1u << 31,
                                      0xffffffffu,
                                      std::uint64_t{1} << 32,
                                      std::uint64_t{1} << 60,
                                      (std::uint64_t{1} << 61) + 1,
                                      std::uint64_t{1} << 63,
                                      ~std::uint64_t{0}};

/// Keys that a reader may look for, beside those that the file has; "A" is the architecture.
constexpr const char* kKnownKeys[] = {"general.alignment",
                                      "general.quantization_version",
                                      "split.no",
                                      "split.count",
                                      "split.tensors.count",
                                      "A.attention.key_length",
                                      "A.attention.value_length",
                                      "A.attention.sliding_window",
                                      "A.attn_logit_softcapping",
                                      "A.final_logit_softcapping",
                                      "A.rope.freq_base",
                                      "A.rope.freq_base_swa",
                                      "A.rope.dimension_count",
                                      "A.rope.scaling.factor",
                                      "A.rope.scaling.type",
                                      "A.rope.scaling.original_context_length",
                                      "A.rope.scaling.attn_factor",
                                      "A.rope.scaling.yarn_beta_fast",
                                      "A.expert_count",
                                      "A.expert_used_count",
                                      "A.expert_feed_forward_length",
                                      "A.attention.scale",
                                      "A.logit_scale",
                                      "A.attention.sliding_window_pattern",
                                      "A.expert_shared_feed_forward_length",
                                      "A.rope.scaling.finetuned",
                                      "A.rope.scaling.yarn_attn_factor",
                                      "A.unknown",
                                      "tokenizer.ggml.scores",
                                      "tokenizer.ggml.merges",
                                      "tokenizer.ggml.bos_token_id",
                                      "tokenizer.ggml.unknown_token_id",
                                      "tokenizer.ggml.eot_token_id",
                                      "tokenizer.ggml.add_bos_token",
                                      "tokenizer.ggml.add_eos_token",
                                      "tokenizer.ggml.add_space_prefix",
                                      "tokenizer.ggml.pre",
                                      "tokenizer.chat_templates",
                                      "tokenizer.chat_template.a",
                                      "tokenizer.huggingface.json"};
constexpr const char* kTexts[] = {
    "llama",  "qwen2",   "qwen3", "qwen2moe",       "qwen3moe", "phi3",   "olmo2",     "smollm3",  "granite",
    "gemma2", "gemma3",  "gpt2",  "none",           "default",  "gpt-2",  "llama-bpe", "tekken",   "gpt-4o",
    "yarn",   "linear",  "a b",   "\xff\xfe",       "",         "<0x41>", "exaone4",   "seed_oss", "ernie4_5",
    "gemma",  "\u2581a", "{}",    "{\"model\":{}}", "a",        "Phi-3"};
constexpr float kFloats[] = {0, 1, -1, 0.5f, 1e-30f, 1e30f, 1e-5f, 1e4f, __builtin_inff(), __builtin_nanf("")};

std::uint64_t number(Choices& choices) { return choices.one_of(4) ? choices.word() : choices.of(kNumbers); }
std::string some_text(Choices& choices) { return choices.one_of(3) ? choices.text(8) : choices.of(kTexts); }

std::string value_of(std::uint32_t type, Choices& choices) {
  switch (type) {
    case GgufKeys::u8:
    case GgufKeys::i8: return gguf_number(choices.byte());
    case GgufKeys::boolean: return std::string(1, static_cast<char>(choices.below(3)));
    case GgufKeys::u16:
    case GgufKeys::i16: return gguf_number(static_cast<std::uint16_t>(number(choices)));
    case GgufKeys::f32: return gguf_number(choices.of(kFloats));
    case GgufKeys::u64:
    case GgufKeys::i64: return gguf_number(number(choices));
    case GgufKeys::f64: return gguf_number(static_cast<double>(choices.of(kFloats)) * (choices.one_of(2) ? 1e-300 : 1));
    case GgufKeys::string: return gguf_text(some_text(choices));
    default: return gguf_number(static_cast<std::uint32_t>(number(choices)));
  }
}

void change_key(GgufFile& file, const std::string& architecture, Choices& choices) {
  const std::vector<std::string> names = file.keys.names();
  std::string key = choices.one_of(2) && !names.empty() ? names[choices.below(names.size())] : choices.of(kKnownKeys);
  if (key.starts_with("A.")) key.replace(0, 1, architecture);
  static constexpr std::uint32_t kTypes[] = {4, 4, 4, 6, 8, 8, 5, 7, 0, 1, 2, 3, 10, 11, 12, 13};
  const std::uint32_t type = choices.of(kTypes);
  switch (choices.below(4)) {
    case 0: file.keys.set_bytes(key, type, value_of(type, choices)); break;
    case 1: {
      std::string body;
      const std::size_t n = choices.below(12);
      for (std::size_t i = 0; i < n; ++i) body += value_of(type, choices);
      file.keys.set_array(key, type, choices.one_of(8) ? number(choices) : n, body);
      break;
    }
    case 2: file.keys.remove(key); break;
    default: file.more_keys += gguf_text(key) + gguf_number(type) + value_of(type, choices), ++file.n_more_keys;
  }
}

void change_tensor(GgufFile& file, Choices& choices) {
  if (file.tensors.empty()) return;
  const std::size_t i = choices.below(file.tensors.size());
  test::GgufTestTensor& tensor = file.tensors[i];
  switch (choices.below(8)) {
    case 0: tensor.name = some_text(choices); break;
    case 1: tensor.name = file.tensors[choices.below(file.tensors.size())].name; break;
    case 2: tensor.dims[choices.below(tensor.dims.size())] = number(choices); break;
    case 3: tensor.dims.resize(1 + choices.below(5), 1); break;
    case 4: {  // another encoding, with the data that it needs
      static constexpr std::uint32_t kTypes[] = {0, 1, 2, 3, 6, 7, 8, 11, 12, 13, 14, 20, 23, 30, 39};
      tensor.type = choices.of(kTypes);
      std::uint64_t values = 1;
      for (const std::uint64_t dim : tensor.dims) values *= dim;
      if (values <= 1 << 16) tensor.data = test::gguf_data(tensor.type, values);
      break;
    }
    case 5: tensor.offset = number(choices); break;
    case 6: file.tensors.erase(file.tensors.begin() + static_cast<std::ptrdiff_t>(i)); break;
    default:
      for (std::size_t n = 1 + choices.below(4); n > 0 && !tensor.data.empty(); --n)
        tensor.data[choices.below(tensor.data.size())] = static_cast<char>(choices.byte());
  }
}

void change_numbers(GgufFile& file, Choices& choices) {
  switch (choices.below(4)) {
    case 0: file.n_tensors = number(choices); break;
    case 1: file.n_keys = number(choices); break;
    case 2: file.version = choices.one_of(2) ? 2 : static_cast<std::uint32_t>(number(choices)); break;
    default: file.tensors.push_back({some_text(choices), {32}, 0, std::string(128, '\0')});
  }
}

/// Changes of the header's bytes, whatever they are.
void change_bytes(std::string& bytes, std::size_t header, Choices& choices) {
  const std::size_t at = choices.below(header);
  const std::size_t left = bytes.size() - at;
  switch (choices.below(5)) {
    case 0: bytes[at] = static_cast<char>(choices.byte()); break;
    case 1: bytes.replace(at, 4, gguf_number(static_cast<std::uint32_t>(number(choices)))); break;
    case 2: bytes.replace(at, 8, gguf_number(number(choices))); break;
    case 3: bytes.erase(at, 1 + choices.below(16)); break;
    default: choices.one_of(4) ? bytes.resize(bytes.size() - choices.below(left)) : bytes.resize(bytes.size() + 4096);
  }
}

}  // namespace

std::string mutate_gguf(GgufFile file, const std::string& architecture, Choices& choices) {
  if (choices.one_of(16)) return "GGUF" + gguf_number(std::uint32_t{3}) + choices.text(2048) + std::string(4096, '\0');
  for (std::size_t n = choices.below(4); n > 0; --n) {
    switch (choices.below(8)) {
      case 0: change_numbers(file, choices); break;
      case 1:
      case 2:
      case 3: change_tensor(file, choices); break;
      default: change_key(file, architecture, choices);
    }
  }
  std::string bytes = file.bytes();
  const std::size_t header = file.header().size();
  if (choices.one_of(3)) change_bytes(bytes, header, choices);
  return bytes;
}

}  // namespace qinfer::fuzz
