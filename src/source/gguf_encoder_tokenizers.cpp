// See gguf_encoder_tokenizers.h.
#include "source/gguf_encoder_tokenizers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/hash.h"
#include "text/fields.h"

namespace qinfer::source {
namespace {

using formats::GgufMetadata;
using text::malformed;
using text::TokenId;

constexpr std::string_view kUnigramScores = "tokenizer.ggml.scores", kCharsmap = "tokenizer.ggml.precompiled_charsmap";
constexpr std::string_view kInside = "##";

std::uint64_t hash_numbers(std::initializer_list<std::uint64_t> numbers) {
  return hash_bytes(std::as_bytes(std::span(numbers.begin(), numbers.size())));
}

bool is_in_brackets(std::string_view token) { return token.starts_with('[') && token.ends_with(']'); }

/// Nothing without the key.
Result<std::string_view> read_charsmap(const GgufMetadata& metadata) {
  const formats::GgufValue* value = metadata.find(kCharsmap);
  if (value == nullptr) return std::string_view();
  using formats::GgufType;
  if (!value->is_array || (value->type != GgufType::i8 && value->type != GgufType::u8))
    return malformed("{}: key \"{}\" is {}, expected an array of u8", metadata.file(), kCharsmap, value->describe());
  return value->bytes;
}

}  // namespace

void restore_word_pieces(GgufVocabulary& vocabulary, std::vector<std::string>& names) {
  names.resize(vocabulary.tokens.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string_view token = vocabulary.tokens[i];
    const bool is_word =
        vocabulary.types[i] == GgufTokenType::normal || vocabulary.types[i] == GgufTokenType::undefined;
    if (token.starts_with(text::kMetaspace)) {
      names[i] = token.substr(text::kMetaspace.size());
    } else {
      // Files of before 2026 have "[unused1]" as it is.
      if (is_word && !token.empty() && !is_in_brackets(token)) names[i] = kInside;
      names[i] += token;
    }
    vocabulary.tokens[i] = names[i];
  }
}

Status build_gguf_word_piece(const GgufMetadata& metadata, TokenId unknown, CancelFlag cancel,
                             text::TokenizerTables& tables, std::uint64_t& hash) {
  if (unknown < 0)
    return malformed("{}: the key \"tokenizer.ggml.unknown_token_id\" is missing, expected the id of \"[UNK]\"",
                     metadata.file());
  QINFER_ASSIGN(const auto lowercase, metadata.boolean("tokenizer.ggml.normalizer.lowercase"));
  QINFER_ASSIGN(const auto accents, metadata.boolean("tokenizer.ggml.normalizer.strip_accents"));
  text::BertLetters letters;
  letters.lowercase = lowercase.value_or(true);
  letters.strip_accents = accents.value_or(letters.lowercase);
  tables.normalizer = text::Normalizer::bert(letters);
  tables.pre_tokenizer = text::PreTokenizer::bert();
  tables.model = text::TokenizerTables::Model::word_piece;
  hash = hash_numbers({letters.lowercase ? 1U : 0U, letters.strip_accents ? 1U : 0U});
  return tables.word_piece.init({.unknown = unknown}, kInside, tables.vocabulary, cancel);
}

Status build_gguf_unigram(const GgufMetadata& metadata, const GgufVocabulary& vocabulary, TokenId unknown,
                          CancelFlag cancel, text::TokenizerTables& tables, std::uint64_t& hash) {
  QINFER_ASSIGN(const auto prefix, metadata.boolean("tokenizer.ggml.add_space_prefix"));
  QINFER_ASSIGN(const auto merge, metadata.boolean("tokenizer.ggml.remove_extra_whitespaces"));
  QINFER_ASSIGN(const std::string_view charsmap, read_charsmap(metadata));
  text::SpaceRules spaces{.add_prefix = prefix.value_or(true), .merge = merge.value_or(false)};
  std::optional<text::Charsmap> replacements;
  if (!charsmap.empty()) {
    QINFER_ASSIGN(replacements, text::Charsmap::parse(charsmap, metadata.file() + ": " + std::string(kCharsmap)));
  }
  tables.normalizer = text::Normalizer::sentence_piece(std::move(replacements), spaces);

  QINFER_ASSIGN(const auto scores, metadata.floats(kUnigramScores));
  if (!scores)
    return malformed("{}: the key \"{}\" is missing, expected the score of each token", metadata.file(),
                     kUnigramScores);
  if (scores->size() != vocabulary.tokens.size())
    return malformed("{}: key \"{}\" has {} values, expected {}, one for each of {}", metadata.file(), kUnigramScores,
                     scores->size(), vocabulary.tokens.size(), kGgufTokens);
  std::pmr::vector<double> of_tokens(scores->size(), std::numeric_limits<double>::quiet_NaN(), text::heap_memory());
  double lowest = std::numeric_limits<double>::infinity();
  bool has_bytes = false;
  for (std::size_t i = 0; i < scores->size(); ++i) {
    if (!std::isfinite((*scores)[i]))
      return malformed("{}: {}[{}] is {}, expected a finite number", metadata.file(), kUnigramScores, i, (*scores)[i]);
    const GgufTokenType type = vocabulary.types[i];
    has_bytes = has_bytes || type == GgufTokenType::byte;
    // User-defined tokens are cut out before; bytes are only for what has no token.
    if (type != GgufTokenType::normal && type != GgufTokenType::undefined) continue;
    of_tokens[i] = static_cast<double>((*scores)[i]);
    lowest = std::min(lowest, of_tokens[i]);
  }
  hash = hash_numbers({hash_bytes(std::as_bytes(std::span(*scores))), hash_text(charsmap), spaces.add_prefix ? 1U : 0U,
                       spaces.merge ? 1U : 0U});
  tables.model = text::TokenizerTables::Model::unigram;
  return tables.unigram.init({.unknown = unknown, .byte_fallback = has_bytes}, std::move(of_tokens), lowest,
                             tables.vocabulary, cancel);
}

}  // namespace qinfer::source
