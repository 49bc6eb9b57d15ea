// What the libraries that define tokenizers say of characters, where that is not what Unicode 16 says (unicode.h).
//
// A model was trained on the tokens that its library made, and libraries stay with the Unicode version of their tables:
// Hugging Face's tokenizers 0.23 takes categories for BERT from Unicode 8, normalisation forms and the marks that
// StripAccents removes from Unicode 9, and lower case and grapheme clusters from Unicode 17. The tables are in
// library_tables.cpp, which make_library_tables.mjs writes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace qinfer::text {

struct LowerCase {
  char32_t from, to;
};
extern const std::uint16_t kLibraryIndex[8704];
extern const std::uint16_t kLibraryBlocks[][128];
extern const LowerCase kLowerCases[];  ///< sorted by `from`
extern const std::size_t kLowerCaseCount;

/// Grapheme_Cluster_Break of Unicode 17; `pictographic` is Extended_Pictographic, none of which has another class.
enum class Cluster : std::uint8_t {
  other,
  cr,
  lf,
  control,
  extend,
  zwj,
  regional_indicator,
  prepend,
  spacing_mark,
  l,
  v,
  t,
  lv,
  lvt,
  pictographic
};
/// Indic_Conjunct_Break of Unicode 17.
enum class Conjunct : std::uint8_t { none, consonant, linker, extend };

/// All that is known of a character, which is at most U+10FFFF.
class LibraryChar {
 public:
  explicit LibraryChar(char32_t code) : bits_(kLibraryBlocks[kLibraryIndex[code >> 7]][code & 127]) {}
  Cluster cluster() const { return static_cast<Cluster>(bits_ & 15); }
  Conjunct conjunct() const { return static_cast<Conjunct>(bits_ >> 4 & 3); }
  /// Nonspacing_Mark of Unicode 8: what BERT's normaliser removes as an accent.
  bool is_accent() const { return (bits_ >> 6 & 1) != 0; }
  /// Punctuation of Unicode 8, and of ASCII.
  bool is_punctuation() const { return (bits_ >> 7 & 1) != 0; }
  /// Control, Format or Private_Use of Unicode 8.
  bool is_control() const { return (bits_ >> 8 & 1) != 0; }
  /// Mark of Unicode 9.
  bool is_mark() const { return (bits_ >> 9 & 1) != 0; }
  /// Unassigned in Unicode 9: has no decomposition and combines with nothing.
  bool is_newer_than_9() const { return (bits_ >> 10 & 1) != 0; }

 private:
  std::uint16_t bits_;
};

/// The lower case of a character, but for U+0130, which has two.
inline char32_t lower_case(char32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 32 : code;
  const LowerCase* end = kLowerCases + kLowerCaseCount;
  const LowerCase* at =
      std::lower_bound(kLowerCases, end, code, [](const LowerCase& a, char32_t c) { return a.from < c; });
  return at != end && at->from == code ? at->to : code;
}

}  // namespace qinfer::text
