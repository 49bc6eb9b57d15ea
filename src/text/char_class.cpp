// See char_class.h.
#include "text/char_class.h"

#include <algorithm>

namespace qinfer::text {

void CharClass::add(char32_t first, char32_t last) {
  for (char32_t code = first; code <= last && code < 128; ++code) ascii_[code] = 1;
  if (last < 128) return;
  ranges_.push_back({std::max<char32_t>(first, 128), last});
}

void CharClass::add(std::span<const CharRange> ranges) {
  for (const CharRange& range : ranges) {
    for (char32_t code = range.first; code <= range.last && code < 128; ++code) ascii_[code] = 1;
    if (range.last >= 128) ranges_.push_back({std::max<char32_t>(range.first, 128), range.last});
  }
}

void CharClass::add(KindSet kinds) {
  for (char32_t code = 0; code < 128; ++code)
    if ((kinds >> char_kind(code) & 1) != 0) ascii_[code] = 1;
  kinds_ |= kinds;
}

void CharClass::add_all_but(std::span<const CharRange> ranges) {
  char32_t next = 0;
  std::vector<CharRange> others;
  for (const CharRange& range : ranges) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCharacter) others.push_back({next, kLastCharacter});
  add(others);
}

/// Of a set of kinds only what differs between its characters' cases matters; sets of all letters need nothing.
void CharClass::ignore_case() {
  std::vector<char32_t> folded;  // of the characters that have a case, as folding leaves them
  for (std::size_t i = 0; i < kCaseFoldCount; ++i)
    if (has(kCaseFolds[i].from) || has(kCaseFolds[i].to)) folded.push_back(kCaseFolds[i].to);
  std::sort(folded.begin(), folded.end());
  std::vector<CharRange> more;
  for (std::size_t i = 0; i < kCaseFoldCount; ++i) {
    const auto [from, to] = kCaseFolds[i];
    if (!std::binary_search(folded.begin(), folded.end(), to)) continue;
    for (const char32_t code : {from, to})
      if (!has(code)) more.push_back({code, code});
  }
  add(more);
  finish();
}

void CharClass::negate() {
  for (std::uint8_t& byte : ascii_) byte = byte == 0 ? 1 : 0;
  negated_ = !negated_;
}

bool CharClass::in_ranges(char32_t code) const {
  const auto at = std::upper_bound(ranges_.begin(), ranges_.end(), code,
                                   [](char32_t c, const CharRange& range) { return c < range.first; });
  return at != ranges_.begin() && code <= at[-1].last;
}

void CharClass::finish() {
  std::sort(ranges_.begin(), ranges_.end(), [](const CharRange& a, const CharRange& b) { return a.first < b.first; });
  std::size_t kept = 0;
  for (const CharRange& range : ranges_) {
    if (kept != 0 && range.first <= ranges_[kept - 1].last + 1) {
      ranges_[kept - 1].last = std::max(ranges_[kept - 1].last, range.last);
    } else {
      ranges_[kept++] = range;
    }
  }
  ranges_.resize(kept);
}

bool CharClass::is_disjoint(const CharClass& other) const {
  for (std::size_t i = 0; i < ascii_.size(); ++i)
    if (ascii_[i] != 0 && other.ascii_[i] != 0) return false;
  if (!may_have_others() || !other.may_have_others()) return true;
  if (negated_ && other.negated_) return false;
  if (!ranges_.empty() || !other.ranges_.empty()) return false;
  if (!negated_ && !other.negated_) return (kinds_ & other.kinds_) == 0;
  // One has all but some kinds: the other may have none but these.
  const KindSet all_but = negated_ ? kinds_ : other.kinds_, some = negated_ ? other.kinds_ : kinds_;
  return (some & ~all_but) == 0;
}

bool CharClass::operator==(const CharClass& other) const {
  const auto same = [](const CharRange& a, const CharRange& b) { return a.first == b.first && a.last == b.last; };
  return ascii_ == other.ascii_ && kinds_ == other.kinds_ && negated_ == other.negated_ &&
         std::equal(ranges_.begin(), ranges_.end(), other.ranges_.begin(), other.ranges_.end(), same);
}

}  // namespace qinfer::text
