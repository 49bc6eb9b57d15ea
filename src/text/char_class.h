// CharClass: a set of characters as regular expressions describe them, built part by part, then asked character by
// character: a table for ASCII; for the rest a set of kinds (general categories) and a list of ranges, or all but
// these.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "text/unicode.h"

namespace qinfer::text {

class CharClass {
 public:
  // Parts, in any order; finish() after the last.
  void add(char32_t first, char32_t last);
  void add(std::span<const CharRange> ranges);
  void add(KindSet kinds);
  /// All characters but those of the ranges, which are sorted and do not touch.
  void add_all_but(std::span<const CharRange> ranges);
  void finish();
  /// Adds every character that differs from one of the set in case only, by simple folding.
  void ignore_case();
  /// All other characters. Nothing is added afterwards.
  void negate();

  /// For codes below 128.
  bool has_ascii(unsigned byte) const { return ascii_[byte] != 0; }
  /// For all others.
  bool has_other(char32_t code) const {
    bool found = (kinds_ >> char_kind(code) & 1) != 0;
    if (!found && !ranges_.empty()) found = in_ranges(code);
    return found != negated_;
  }
  bool has(char32_t code) const { return code < 128 ? has_ascii(code) : has_other(code); }

  /// Whether there may be characters beyond ASCII.
  bool may_have_others() const { return negated_ || kinds_ != 0 || !ranges_.empty(); }
  /// Whether no character is in both, as far as can be seen at once.
  bool is_disjoint(const CharClass& other) const;
  bool operator==(const CharClass& other) const;

 private:
  bool in_ranges(char32_t code) const;
  std::array<std::uint8_t, 128> ascii_{};
  KindSet kinds_ = 0;              // of characters beyond ASCII
  std::vector<CharRange> ranges_;  // beyond ASCII, sorted, apart from each other
  bool negated_ = false;           // what is beyond ASCII is all but these
};

}  // namespace qinfer::text
