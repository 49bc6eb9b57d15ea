// Makes the tables of a tokenizer out of parts that the reader of a format has: merges, added tokens, the decoder. What
// formats have in common, so that a tokenizer is the same whatever file said it.
//
// Order matters: the vocabulary and the normaliser come first, then added tokens, then finish().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/status.h"
#include "text/decoder.h"
#include "text/tables.h"
#include "text/work.h"

namespace qinfer::text {

/// Arrays are as long as the largest id: without a bound one line of a file could ask for gigabytes.
inline constexpr std::uint32_t kMaxIds = 1U << 22;
/// Tokens or merges between two looks at the flag of a host that may cancel.
inline constexpr std::size_t kLookForCancel = 4096;

/// An added token as a file describes it.
struct AddedTokenRow {
  std::string_view content;
  std::int64_t id = 0;
  bool lstrip = false, rstrip = false, single_word = false;
  bool normalized = false;  ///< matched in the normalised text
  bool special = false;     ///< a control token
};

/// Adds the merge of `left` and `right` into `both`. Code::format, naming the merge, if one of them is not a token of
/// the model. `list` and `vocabulary_name` are what messages call the list of merges and the vocabulary.
struct MergeRow {
  std::string_view left, right, both;
};
Status add_merge(const MergeRow& merge, std::uint32_t rank, const Vocabulary& vocabulary, std::string_view list,
                 std::string_view vocabulary_name, MergeTable& table);

class TableBuilder {
 public:
  /// `source_bytes`: of what the tables are made from, which bounds what they may become. `notes` may be null.
  TableBuilder(std::size_t source_bytes, CancelFlag cancel, Notes* notes);

  TokenizerTables& tables() { return *tables_; }
  /// A content that the vocabulary has with another id keeps that id, as in Hugging Face's library.
  Status add(const AddedTokenRow& row, std::string_view where);
  void finish_added();
  /// Gives every token its bytes in a decoded text. `added_as_written`: those of added tokens are their contents,
  /// whatever the decoder would make of them.
  Status finish(const Decoder& decoder, bool added_as_written);
  std::unique_ptr<TokenizerTables> take() { return std::move(tables_); }

 private:
  Status add_normalized(const AddedTokenRow& row, const AddedToken& token, std::string_view where);

  CancelFlag cancel_;
  Notes* notes_;
  std::size_t most_bytes_, forms_ = 0;
  Work work_;
  std::unique_ptr<TokenizerTables> tables_;
  NormalizerScratch scratch_;
  std::vector<std::pair<TokenId, std::string>> decoded_as_;
};

}  // namespace qinfer::text
