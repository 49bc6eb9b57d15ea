// How well a document answers a query, as a number: the pair as a model wants it, and what an evaluation of it tells.
//
// Two kinds of models are known here. A decoder that was trained to answer "yes" or "no" gets both texts in a template,
// and the logits of the two tokens after it are compared; a GGUF file of one may have these rows of its LM head alone.
// A model with a classifier of one label gets both as its tokenizer joins them; a decoder with one gets them in its
// chat template, as sentence-transformers has it, if that writes a query and a document.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/cancel.h"
#include "engine/session.h"

namespace qinfer::engine {

/// The template of Qwen's rerankers and its tokens, for checkpoints whose files do not say how they score.
inline constexpr std::string_view kQwenReranker = "qwen3-reranker";

struct ScoreOptions {
  std::optional<std::string_view> template_name;  ///< kQwenReranker; none: the model's
  /// A template in place of the model's, in which {instruction}, {query} and {document} stand for texts.
  std::optional<std::string_view> template_text;
  std::optional<std::string_view> instruction;  ///< none: the model's default
  std::string_view yes, no;                     ///< tokens by their texts; empty: the model's
  bool truncate = false;                        ///< of a pair that is too long texts are cut
  bool raw = false;                             ///< the score itself, without the sigmoid
  std::uint32_t max_tokens = 0;                 ///< of a pair; 0: as many as the model and the session take
  CancelFlag cancel = {};
};

/// Makes the tokens of a pair those of the session, which keeps what it has of them. Returns how many tokens were cut
/// off: of the document, where a template has both texts, or else of the longer text first, then of both
/// (Tokenizer::encode_pair). QINFER_E_CONTEXT_FULL (detail: tokens of the pair) for a pair that is too long, or of
/// which what is not cut is.
Result<std::uint64_t> set_pair(Session& session, std::string_view query, std::string_view document,
                               const ScoreOptions& options);

/// The score of the session's tokens, which must be evaluated.
Result<float> score_of(const Session& session, const ScoreOptions& options);

}  // namespace qinfer::engine
