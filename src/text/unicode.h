// What Unicode 16 says of characters, as far as tokenizers ask: general category, Alphabetic, script, simple case
// folding. The tables are in unicode_tables.cpp, which make_unicode_tables.mjs writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace qinfer::text {

inline constexpr char32_t kLastCharacter = 0x10FFFF;

/// General_Category. The first letter of each name is its group: L, M, N, P, S, Z, C.
// clang-format off
enum class Category : std::uint8_t {
  Cn, Lu, Ll, Lt, Lm, Lo, Mn, Mc, Me, Nd, Nl, No, Pc, Pd, Ps, Pe, Pi, Pf, Po, Sm, Sc, Sk, So, Zs, Zl, Zp, Cc, Cf, Cs, Co
};
// clang-format on
inline constexpr unsigned kAlphabeticKind = 32;

/// Characters from first to last, both included.
struct CharRange {
  char32_t first, last;
};
struct Script {
  const char* name;            ///< "Old_Italic"
  std::uint32_t first, count;  ///< in kScriptRanges
};
struct CaseFold {
  char32_t from, to;
};
extern const std::uint16_t kKindIndex[8704];
extern const std::uint8_t kKindBlocks[][128];
extern const CharRange kScriptRanges[];
extern const Script kScripts[];
extern const std::size_t kScriptCount;
extern const CaseFold kCaseFolds[];  ///< sorted by `from`; characters that are not there fold to themselves
extern const std::size_t kCaseFoldCount;

/// The category of a character, plus kAlphabeticKind if it has the property Alphabetic: a number below 64. `code` is at
/// most kLastCharacter.
inline unsigned char_kind(char32_t code) { return kKindBlocks[kKindIndex[code >> 7]][code & 127]; }

/// A set of kinds: bit k stands for kind k.
using KindSet = std::uint64_t;
inline constexpr KindSet kind_bit(unsigned kind) { return KindSet{1} << kind; }
/// Both kinds of a category.
inline constexpr KindSet kinds_of(Category category) {
  const auto kind = static_cast<unsigned>(category);
  return kind_bit(kind) | kind_bit(kind + kAlphabeticKind);
}
inline constexpr KindSet kAlphabeticKinds = 0xFFFFFFFF00000000u;
inline constexpr KindSet kMarkKinds = kinds_of(Category::Mn) | kinds_of(Category::Mc) | kinds_of(Category::Me);
inline constexpr KindSet kNumberKinds = kinds_of(Category::Nd) | kinds_of(Category::Nl) | kinds_of(Category::No);
/// Alphabetic, marks, decimal digits, connectors: what \w means, but for single characters.
inline constexpr KindSet kWordKinds = kAlphabeticKinds | kMarkKinds | kinds_of(Category::Nd) | kinds_of(Category::Pc);

/// The kinds of a category or group of categories by its short name: "L", "Lu". nullopt if there is none.
std::optional<KindSet> find_category(std::string_view name);
/// The characters of a script by its long name: "Han". nullopt if there is none.
std::optional<std::span<const CharRange>> find_script(std::string_view name);

/// The character that simple case folding makes of `code`.
char32_t fold_case(char32_t code);

inline bool is_number(char32_t code) { return (kNumberKinds >> char_kind(code) & 1) != 0; }
/// \w of Rust's regular expressions, by which added tokens go that are marked single_word.
inline bool is_word_character(char32_t code) {
  return (kWordKinds >> char_kind(code) & 1) != 0 || code == 0x200C || code == 0x200D;
}

}  // namespace qinfer::text
