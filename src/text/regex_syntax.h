// The syntax of regular expressions in tokenizer.json: Oniguruma's, in which Hugging Face's tokenizers reads them. A
// pattern becomes a tree of nodes. What Oniguruma has beyond the constructs below, or where its meaning is not known
// here, is refused by name, so that a pattern that loads means the same as there.
//
//   literals  escapes \n \t \r \f \a \e \v \xHH (below 80) \x{H...} \uHHHH and of punctuation   .   [...] [^...]
//   without nesting   \s \S \w \W \d \D   \p{L} \p{Lu} \p{Han} \P{...} \p{^...}   ^ $ \A \z \Z \b \B   (...) as (?:...)
//   (?:...) (?i:...) (?-i:...) (?i) (?-i) (?=...) (?!...) (?<=...) (?<!...) (?>...)   | * + ? {n} {n,} {n,m} {,m},
//   with ? lazy, * + ? with + possessive
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/char_class.h"

namespace qinfer::text {

/// One node of a pattern's tree. Children are linked by `next`.
struct RegexNode {
  enum class Kind : std::uint8_t { empty, character, set, sequence, choice, repeat, look, atomic, assertion };
  enum class Greed : std::uint8_t { greedy, lazy, possessive };
  enum class Assertion : std::uint8_t {
    line_start,
    line_end,
    text_start,
    text_end,
    text_end_or_newline,
    boundary,
    no_boundary
  };
  static constexpr std::uint32_t kNone = UINT32_MAX, kUnlimited = UINT32_MAX;

  Kind kind = Kind::empty;
  Greed greed = Greed::greedy;
  Assertion assertion = Assertion::line_start;
  bool is_behind = false, is_negative = false;  ///< of a look
  std::uint32_t value = 0;                      ///< the character, or the number of the set
  std::uint32_t min = 0, max = 0;               ///< of a repeat
  std::uint32_t child = kNone, next = kNone;
};

struct RegexTree {
  std::vector<RegexNode> nodes;
  std::vector<CharClass> sets;
  std::uint32_t root = 0;
};

/// Code::unsupported, naming the construct and its place, for what is not supported. `pattern` is valid UTF-8.
Result<RegexTree> parse_regex(std::string_view pattern);

/// What \w means outside of brackets.
CharClass regex_word_set();

}  // namespace qinfer::text
