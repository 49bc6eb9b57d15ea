// TokenizerTables: everything that loading a tokenizer.json produces.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/unigram.h"
#include "text/vocabulary.h"
#include "text/word_level.h"
#include "text/word_piece.h"

namespace qinfer::text {

struct TokenizerTables {
  std::unique_ptr<HostMemory> memory;  // of the tables, if not the C++ heap
  Vocabulary vocabulary;
  AddedTokens added_raw;         // matched in the text as given
  AddedTokens added_normalized;  // matched in the normalised text
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  enum class Model : std::uint8_t { bpe, word_level, word_piece, unigram } model = Model::bpe;
  Bpe bpe;  // of the four the one that `model` says is in use; they refer to vocabulary
  WordLevel word_level;
  WordPiece word_piece;
  Unigram unigram;
  Templates templates;           // what the post-processor puts around texts
  std::uint32_t max_length = 0;  // tokens of a text at which the file says to cut; 0 = not said
  DecoderRules decoder_rules;
  std::uint64_t fingerprint = 0;  // of the file that all this was made from
};

}  // namespace qinfer::text
