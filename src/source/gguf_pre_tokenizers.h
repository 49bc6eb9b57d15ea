// What a GGUF file's tokenizer.ggml.pre stands for: how the tokenizer.json of the model that it names splits text, and
// what else of that file the conversion lost.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace qinfer::source {

struct GgufPreTokenizer {
  std::string_view name;
  std::span<const std::string_view> patterns;  ///< text is split at the matches of each in turn
  bool nfc = false;                            ///< text is normalised first
  bool ignore_merges = false;                  ///< a word that is in the vocabulary is that token
  bool add_bos = false;                        ///< where tokenizer.ggml.add_bos_token does not say
  bool add_separator = false;                  ///< the same of add_sep_token
};

/// Null if the name is not known.
const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name);
/// The first one that does this to a text; null if there is none.
const GgufPreTokenizer* find_gguf_pre_tokenizer(std::span<const std::string> patterns, bool nfc, bool ignore_merges);
/// All names, for messages.
std::string gguf_pre_tokenizer_names();

}  // namespace qinfer::source
