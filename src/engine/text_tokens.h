// The tokens of a text that a vector or a score is made of: with what the tokenizer puts around it, within the model's
// length.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "engine/model.h"

namespace qinfer::engine {

struct TextOptions {
  std::string_view prompt;       ///< goes before the text, as one text with it
  bool truncate = false;         ///< a text that is too long is cut
  bool parse_special = false;    ///< of the tokenizer
  std::uint32_t max_tokens = 0;  ///< 0 = the model's
  CancelFlag cancel;
};

struct TextTokens {
  std::vector<text::TokenId> tokens;
  std::uint64_t n_cut = 0;
};

/// QINFER_E_CONTEXT_FULL (detail: the text's tokens) for a text that is too long and not to be cut.
Result<TextTokens> text_tokens(const Model& model, std::string_view text, const TextOptions& options);

}  // namespace qinfer::engine
