// The "pre_tokenizer" of tokenizer.json: cuts normalised text into the words that the model makes tokens of one by one.
// BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation, Split, UnicodeScripts,
// Whitespace, WhitespaceSplit
// and sequences of these.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/fields.h"
#include "text/regex.h"

namespace qinfer::text {

/// How GPT-2 splits text; ByteLevel implies it with use_regex.
inline constexpr std::string_view kGpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/// A part of PreTokenizerScratch::text. Never empty.
struct Piece {
  std::size_t begin, end;
  bool at_start;  // begins where the text given to the tokenizer begins
};

struct PreTokenizerScratch {
  std::string text;  // set by the caller; stages may rewrite it
  std::vector<Piece> pieces;

  std::string other_text;
  std::vector<Piece> other_pieces;
  std::vector<Stretch> spans;
  RegexScratch regex;

  void expect_words(std::size_t n) {
    pieces.reserve(n);
    other_pieces.reserve(n);
    spans.reserve(n);
  }
};

/// What becomes of the matches of a pattern at which text is split.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Single characters at which text is split.
enum class CharacterSet { numbers, punctuation, white_space, delimiter };

class PreTokenizer {
 public:
  static Result<PreTokenizer> parse(const Json* value, std::string_view where);
  /// Splits at each pattern in turn, matches and what is between them alike being pieces, then spells bytes.
  static Result<PreTokenizer> byte_level(std::span<const std::string_view> patterns, std::string_view where);

  /// At white space, which goes, and at punctuation: BertPreTokenizer.
  static PreTokenizer bert();

  /// Splits scratch.text into scratch.pieces, in the spelling of the vocabulary. Code::unsupported if the text grows
  /// beyond max_bytes.
  Status apply(bool at_start, std::size_t max_bytes, Work& work, PreTokenizerScratch& scratch) const;

 private:
  struct Step {
    enum class Kind { split, characters, words, scripts, fixed_length, metaspace, prefix_space, byte_level } kind;
    std::optional<Regex> pattern = std::nullopt;  // split
    CharacterSet characters = CharacterSet::numbers;
    char32_t delimiter = 0;
    std::uint64_t length = 0;  // fixed_length, in characters
    SplitBehavior behavior = SplitBehavior::isolated;
    bool invert = false;
    std::string replacement = {};  // metaspace
    enum class Prepend { first, always, never } prepend = Prepend::always;
  };
  Status add(const Json& value, std::string_view where);
  Status add_known(std::string_view kind, const Json& value, std::string_view where);
  void add_bert();
  Status add_sequence(const Json& value, std::string_view where);
  Status add_byte_level(const Json& value, std::string_view where);
  Status add_split(const Json& value, std::string_view where);
  Status add_metaspace(const Json& value, std::string_view where);

  static Status apply_step(const Step& step, std::size_t max_bytes, Work& work, PreTokenizerScratch& s);
  static Status split(const Step& step, Work& work, PreTokenizerScratch& s);
  std::vector<Step> steps_;
  int depth_ = 0;  // of sequences, while they are read
};

}  // namespace qinfer::text
