// Reads the JSON of tokenizer.json. The big parts, model.vocab (an object of token to id, or Unigram's array of tokens
// with their scores) and model.merges, go straight into flat tables; only the small rest becomes a tree of JSON values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/fields.h"
#include "text/vocabulary.h"

namespace qinfer::text {

/// model.merges as text: merge i joins the two strings that are side by side in blob and meet at middle[i].
struct RawMerges {
  std::string blob;
  std::vector<std::uint32_t> middle, end;

  std::size_t size() const { return end.size(); }
  std::string_view left(std::size_t i) const { return between(i == 0 ? 0 : end[i - 1], middle[i]); }
  std::string_view right(std::size_t i) const { return between(middle[i], end[i]); }
  std::string_view both(std::size_t i) const { return between(i == 0 ? 0 : end[i - 1], end[i]); }

 private:
  std::string_view between(std::uint32_t from, std::uint32_t to) const { return {blob.data() + from, to - from}; }
};

struct TokenizerFile {
  formats::JsonDocument fields;  // everything else
  Vocabulary vocabulary;
  std::vector<double> scores;  // by id, if model.vocab is an array
  RawMerges merges;
  bool has_vocab = false, has_scores = false, has_merges = false;
};

/// Ids from `id_limit` on are refused.
Result<TokenizerFile> read_tokenizer_file(std::string_view text, std::string_view name, std::uint32_t id_limit,
                                          CancelFlag cancel);

}  // namespace qinfer::text
