// The tokenizers of encoders as key-values of a GGUF file: the inverse of gguf_encoder_tokenizers.h.
#pragma once

#include <string>
#include <vector>

#include "formats/gguf_writer.h"
#include "source/gguf_vocabulary.h"
#include "source/tokenizer_parts.h"
#include "text/tables.h"
#include "text/tokenizer_file.h"

namespace qinfer::source {

/// What keys say of a tokenizer, and where they do not say all of it.
struct ExportedOptions {
  std::string refusal;  ///< why they cannot say it; empty: they can
  std::string note;     ///< of what is different in rare texts; empty: nothing is
};

/// A token as llama.cpp writes it, with U+2581 before one that begins a word, and without "##" inside of one. Empty for
/// one that would be read as another.
std::string word_piece_in_gguf(std::string_view content, GgufTokenType type);
/// `root`: of tokenizer.json.
ExportedOptions find_word_piece_options(const Json& root, const text::Templates& templates);
void add_word_piece_options(const Json& root, formats::GgufWriter& out);

ExportedOptions find_unigram_options(const Json& root, const text::TokenizerTables& tables);
void add_unigram_options(const text::TokenizerFile& file, formats::GgufWriter& out);

}  // namespace qinfer::source
