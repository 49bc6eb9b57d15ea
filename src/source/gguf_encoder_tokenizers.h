// The tokenizers of encoders in GGUF files: WordPiece (tokenizer.ggml.model "bert") and Unigram ("t5", which XLM-R's
// files have too).
//
// Of a text the former makes the tokens that the model's tokenizer.json makes, the latter those that SentencePiece
// does: a file says SentencePiece's options and not how a tokenizer.json splits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/status.h"
#include "formats/gguf.h"
#include "source/gguf_vocabulary.h"
#include "text/tables.h"

namespace qinfer::source {

/// Gives tokens the names that they have in the model's own files. GGUF writes those that begin a word with U+2581
/// before them, and those inside a word without "##". `names` stores them.
void restore_word_pieces(GgufVocabulary& vocabulary, std::vector<std::string>& names);

/// Both set up model, normaliser and pre-tokenizer of `tables`, whose vocabulary is there; `hash` becomes one of what
/// they read. `unknown`: the token for what has none.
Status build_gguf_word_piece(const formats::GgufMetadata& metadata, text::TokenId unknown, CancelFlag cancel,
                             text::TokenizerTables& tables, std::uint64_t& hash);
Status build_gguf_unigram(const formats::GgufMetadata& metadata, const GgufVocabulary& vocabulary,
                          text::TokenId unknown, CancelFlag cancel, text::TokenizerTables& tables, std::uint64_t& hash);

}  // namespace qinfer::source
