// The lists of a GGUF file's tokenizer (tokens, their types, scores, merges), checked, as tables of text::.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/status.h"
#include "formats/gguf.h"
#include "text/bpe.h"
#include "text/table_builder.h"

namespace qinfer::source {

inline constexpr std::string_view kGgufTokens = "tokenizer.ggml.tokens";

/// What tokenizer.ggml.token_type says of a token.
enum class GgufTokenType : std::uint8_t { undefined, normal, unknown, control, user_defined, unused, byte };

struct GgufVocabulary {
  std::vector<std::string_view> tokens;
  std::vector<GgufTokenType> types;
  std::size_t bytes = 0;  ///< of all tokens, and what stores them
};

/// Checks everything but duplicates, which add_gguf_tokens() finds. Without tokenizer.ggml.token_type, which the format
/// lets be absent, all tokens are normal but bytes (where there may be such), the unknown one, and those with a name
/// that ends turns. `usual_unknown`: the id of the unknown one where the file does not say; -1 if there is none.
Result<GgufVocabulary> read_gguf_vocabulary(const formats::GgufMetadata& metadata, const text::TokenizerLimits& limits,
                                            bool may_have_bytes, text::TokenId usual_unknown);

/// Normal tokens, bytes and user-defined ones become tokens of the model; user-defined ones, control tokens and the
/// unknown one are added tokens too. Unused and empty ones are not defined. `strip_after`: added tokens take the white
/// space after them, as in Phi-3. Of tokens with the same text the first is what the text becomes; the others are
/// decoded to it. `notes` may be null.
Status add_gguf_tokens(const GgufVocabulary& vocabulary, bool strip_after, CancelFlag cancel,
                       text::TableBuilder& builder, Notes* notes);

/// tokenizer.ggml.merges. `hash` becomes one of the merges too.
Status read_gguf_merges(const formats::GgufMetadata& metadata, const text::Vocabulary& vocabulary, CancelFlag cancel,
                        text::MergeTable& table, std::uint64_t& hash);

/// tokenizer.ggml.scores as ranks of the tokens that merges may make; equal scores have equal ranks.
Result<std::pmr::vector<std::uint32_t>> read_gguf_ranks(const formats::GgufMetadata& metadata,
                                                        const GgufVocabulary& vocabulary, std::uint64_t& hash);

}  // namespace qinfer::source
