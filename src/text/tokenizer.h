// Tokenizer: text to token ids and back to bytes, as the tokenizer.json of a model says.
//
// This is the folder's front door. A Tokenizer is loaded once, is immutable afterwards and can be
// shared by any number of threads. It covers byte-pair encoding models (byte-level and SentencePiece style), WordPiece
// and Unigram; whatever else a file asks for is refused by name, never ignored. Its behaviour is that of Hugging Face's
// `tokenizers` 0.23.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/notes.h"
#include "base/span.h"
#include "base/status.h"
#include "platform/memory.h"

namespace qinfer::text {

using TokenId = std::int32_t;
/// Which part of its input a token belongs to, for models that are told (BERT's token types).
using TypeId = std::uint8_t;

struct TokenizerLimits {
  /// Ids of the model must be below this (config.json's vocab_size, the rows of the embedding); 0 = no limit.
  /// Added tokens beyond are passed over, and their names are text.
  std::uint32_t vocab_size = 0;
  Notes* notes = nullptr;  ///< takes what was passed over; may be null
};

struct EncodeOptions {
  bool add_special = false;    ///< add what the post-processor puts around a text, such as the begin token
  bool parse_special = false;  ///< "<|im_end|>" in the text becomes one token; otherwise it is ordinary text
  /// Parts of the text that somebody else wrote, ascending and apart from each other: no byte of them takes part in a
  /// control token (white space that a token takes with it apart), with plain_content in no added token.
  std::span<const Span> content = {};
  bool plain_content = false;
  std::uint64_t max_work = 0;  ///< steps that the call may take; 0 = Work::default_limit() of the text
  CancelFlag cancel = {};
};

/// How many tokens a pair of texts may have, and what was cut off for that.
struct PairLimit {
  std::size_t most = SIZE_MAX;                ///< with the tokens around the texts
  std::size_t first_cut = 0, second_cut = 0;  ///< last tokens of each text; set by the call
};

struct TokenizerTables;  // tables.h

class Tokenizer {
 public:
  using EncodeOptions = text::EncodeOptions;

  /// `name` (a file name) begins every message. Malformed files are Code::format, kinds of normaliser, model and so on
  /// that are not implemented Code::unsupported.
  static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view text, std::string_view name,
                                                      const TokenizerLimits& limits, CancelFlag cancel = {});
  /// Of tables that a TableBuilder has made.
  static std::unique_ptr<Tokenizer> from_tables(std::unique_ptr<TokenizerTables> tables);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Appends the ids of `text` to `out`. Text that is not UTF-8 is Code::invalid_argument with the offset of the first
  /// bad byte as detail; a text that takes more steps than it may is Code::unsupported with the offset of what could
  /// not be read any more. After an error `out` is as it was before.
  Status encode(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const;
  /// The same, with the type of each token appended to `types`.
  Status encode(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out,
                std::vector<TypeId>& types) const;
  /// Appends two texts as one input, as the post-processor joins them ("[CLS] first [SEP] second [SEP]" with
  /// add_special), and the type of each token. Code::unsupported if the file does not say how; `options.content` must
  /// be empty. Errors are those of encode(), and say of which text they are. Of a pair that has more tokens than
  /// `limit` allows the longer text loses its last ones until it is as long as the other, then both do ("longest_first"
  /// of transformers); Code::context_full (detail: tokens of the whole pair) if the tokens around them alone are more.
  Status encode_pair(std::string_view first, std::string_view second, const EncodeOptions& options,
                     std::vector<TokenId>& out, std::vector<TypeId>& types, PairLimit* limit = nullptr) const;

  /// The bytes a token stands for in a decoded text, perhaps only part of a character: byte-level tokens are mapped
  /// back to bytes, SentencePiece's U+2581 is a space, "<0xAB>" is that byte, an added token is its content. Empty for
  /// ids that the file does not define.
  std::string_view token_bytes(TokenId id) const;

  /// Added tokens marked "special", and those declared with mark_control: decoding leaves them out, and encoding finds
  /// them in a text only with parse_special.
  bool is_control(TokenId id) const;
  /// A byte-fallback token, or a byte-level token that is not valid UTF-8 by itself.
  bool is_byte(TokenId id) const;
  /// Declares a token (the model's bos and eos) a control token. Only while loading, before the object is shared.
  void mark_control(TokenId id);
  /// The same of a token that is ordinary text so far: from now on it is found in a text as a whole, and
  /// merges by score do not lead to it. Only while loading.
  Status make_added(TokenId id);

  /// The number of tokens at which tokenizer.json says that texts are cut, which encode() does not do; 0 if it says
  /// nothing.
  std::uint32_t max_length() const;
  /// One more than the largest id that the file defines.
  std::uint32_t size() const;
  /// A hash of all that the file says, but for spaces between its values: what the tables are made from.
  std::uint64_t fingerprint() const;
  /// The largest token_bytes(id).size().
  std::uint32_t max_token_bytes() const;
  /// Bytes of all tables, the same for the same file. Regular expressions (kilobytes, on the C++ heap) are not counted.
  std::uint64_t memory_bytes() const;
  /// Moves the tables, just that many bytes, from the C++ heap to a host's allocator. Only while loading; after
  /// QINFER_E_NO_MEMORY the tokenizer can only be freed.
  Status move_to(const platform::Allocator& allocator);
  /// The content of a token as written in the file; empty for ids that it does not define.
  std::string_view content(TokenId id) const;
  /// The id of a token by its content as written in the file.
  std::optional<TokenId> find(std::string_view content) const;

  /// For the Detokenizer.
  const TokenizerTables& tables() const { return *tables_; }

 private:
  Status encode_text(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const;
  explicit Tokenizer(std::unique_ptr<TokenizerTables> tables);
  std::unique_ptr<TokenizerTables> tables_;
};

}  // namespace qinfer::text
