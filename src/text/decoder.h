// The "decoder" of tokenizer.json: how tokens become text again.
//
// Hugging Face's library runs a chain of decoders over the strings of a whole sequence. Here the part of the chain that
// looks at one token alone is run once per token, when the file is loaded (decode_token), and the rest becomes rules
// that the Detokenizer follows token by token. Chains that do not split that way are refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/fields.h"
#include "text/normalizer.h"

namespace qinfer::text {

/// What the Detokenizer needs to know.
struct DecoderRules {
  enum class Bytes : std::uint8_t {
    none,        // every token is whole characters
    byte_level,  // tokens are bytes
    fallback,    // some tokens are one byte, the others whole characters
  };
  Bytes bytes = Bytes::none;
  bool separate_by_space = false;   // no decoder at all: tokens are joined by spaces
  bool first_as_written = false;    // WordPiece: nothing is before the first token, not even a space
  bool clean_up = false;            // WordPiece: see clean_up()
  char32_t dropped_from_first = 0;  // Metaspace: the first token's replacement characters vanish; 0 = not so
  char32_t strip_character = 0;
  std::uint32_t strip_count = 0;  // that many strip_character at most are removed from the start of a text
  std::string end_of_word;        // BPEDecoder: at a token's end a space, unless it is the last token; empty = not so
};

/// Takes spaces before punctuation, and some English contractions, out of a token's text, in place; returns the size.
std::size_t clean_up(char* text, std::size_t size);

class Decoder {
 public:
  static Result<Decoder> parse(const Json* value, std::string_view where);
  const DecoderRules& rules() const { return rules_; }

  struct Token {
    std::string bytes;
    bool is_byte = false;  // one byte by fallback, or not UTF-8 by itself
  };
  /// What the token contributes to a text, where it is not the first.
  Status decode_token(std::string_view content, Work& work, NormalizerScratch& scratch, Token& out) const;

 private:
  struct Step {  // replaces if there is a replacement, otherwise strips, or does what WordPiece's does
    std::vector<Replacement> replacement;
    char32_t character = 0;
    std::uint32_t start = 0, stop = 0;
    bool word_piece = false;
  };
  Status add(const Json& value, std::string_view where);
  Status add_strip(const Json& value, std::string_view where);
  Status add_word_piece(const Json& value, std::string_view where);
  Status add_metaspace(const Json& value, std::string_view where);
  Status add_bpe(const Json& value, std::string_view where);
  Status set_bytes(DecoderRules::Bytes bytes, std::string_view where);
  Status check_position(std::string_view kind, std::string_view where) const;

  DecoderRules rules_;
  std::vector<Step> steps_;
  std::string prefix_;  // of WordPiece
  bool fused_ = false;  // the rest of the chain sees one string
  int depth_ = 0;       // of sequences, while they are read
};

}  // namespace qinfer::text
