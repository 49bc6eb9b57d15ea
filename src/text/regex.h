// Regular expressions over valid UTF-8, run by PCRE2 (with its JIT where there is one).
//
// A Regex is immutable and shared by threads; what a search writes to is in a RegexScratch, one per caller. Work is
// bounded: a pattern that backtracks beyond a budget proportional to the text ends in an error.
//
// Classes such as \p{L} are those of PCRE2's Unicode version (10.42: Unicode 14); Hugging Face's tokenizers has Unicode
// 16, so characters added between the two can be split differently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"

// PCRE2's own header stays out of this one: it needs a macro set before it.
struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;

namespace qinfer::text {

/// A stretch of a text that matches a pattern, or lies between matches.
struct Span {
  std::size_t begin, end;
  bool is_match;
};

struct Pcre2Free {
  void operator()(pcre2_real_code_8* p) const;
  void operator()(pcre2_real_match_data_8* p) const;
  void operator()(pcre2_real_match_context_8* p) const;
};

class RegexScratch {
 public:
  /// `text_size`: what the whole call searches; sets the budget for backtracking.
  Status prepare(std::size_t text_size);

 private:
  friend class Regex;
  std::unique_ptr<pcre2_real_match_data_8, Pcre2Free> match_data_;
  std::unique_ptr<pcre2_real_match_context_8, Pcre2Free> context_;
  std::uint64_t budget_ = 0;
};

class Regex {
 public:
  /// `pattern` in the dialect of Oniguruma. Code::unsupported, with the pattern in the message, if it cannot be used.
  static Result<Regex> compile(std::string_view pattern, std::string_view where);
  /// Matches `text` itself.
  static Result<Regex> literal(std::string_view text, std::string_view where);

  /// Replaces `spans` by the matches of all of `text` and what lies between them, in order and without gaps. Matches
  /// may be empty; an empty one is not reported where the previous match ended.
  Status find_all(std::string_view text, RegexScratch& scratch, std::vector<Span>& spans) const;

 private:
  static Result<Regex> build(std::string_view pattern, std::uint32_t options, std::string_view original,
                             std::string_view where);
  Status match(std::string_view text, std::size_t from, RegexScratch& scratch, Span& found) const;
  std::unique_ptr<pcre2_real_code_8, Pcre2Free> code_;
};

}  // namespace qinfer::text
