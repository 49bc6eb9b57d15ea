// TokenizerTables: everything that loading a tokenizer.json produces.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"

namespace qinfer::text {

struct TokenizerTables {
  std::unique_ptr<HostMemory> memory;  // of the tables, if not the C++ heap
  Vocabulary vocabulary;
  AddedTokens added_raw;         // matched in the text as given
  AddedTokens added_normalized;  // matched in the normalised text
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe bpe;                              // refers to vocabulary
  std::vector<TokenId> prefix, suffix;  // what the post-processor puts around a text
  DecoderRules decoder_rules;
  std::uint64_t fingerprint = 0;  // of the file that all this was made from
};

}  // namespace qinfer::text
