// The "post_processor" of tokenizer.json, as far as it matters here: the tokens that TemplateProcessing, BertProcessing
// or RobertaProcessing puts around a text or a pair of texts, and the type id of each token (BERT's segments).
// ByteLevel only trims offsets, which this library does not have.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/fields.h"
#include "text/vocabulary.h"

namespace qinfer::text {

/// One of the texts, or a token.
enum class PieceKind : std::uint8_t { token, first_text, second_text };
struct TemplatePiece {
  PieceKind kind = PieceKind::token;
  TypeId type = 0;  // of the token, or of all tokens of the text
  TokenId id = -1;  // of a token
};
using Template = std::vector<TemplatePiece>;

/// What becomes of one text, which a template has exactly once, and of two.
struct Templates {
  Template single{{PieceKind::first_text, 0, -1}};
  /// Empty if the file says nothing that has both texts exactly once.
  Template pair{{PieceKind::first_text, 0, -1}, {PieceKind::second_text, 1, -1}};
};

/// The tokens of a template before and after its first text.
std::vector<TokenId> tokens_before(const Template& pieces);
std::vector<TokenId> tokens_after(const Template& pieces);

Result<Templates> parse_post_processor(const Json* value, std::string_view where, const Vocabulary& vocabulary);

}  // namespace qinfer::text
