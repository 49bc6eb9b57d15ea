// Regular expressions over valid UTF-8, as tokenizer.json writes them (regex_syntax.h has the dialect).
//
// A matcher of our own, by backtracking over a compiled program, for what no library at hand offers together: every
// step of it is paid for from the call's Work, so that the steps for a text are bounded for any pattern; characters are
// those of Unicode 16, as in Hugging Face's library; and its stack is on the heap. A Regex is immutable and shared by
// threads; what a search writes to is in a RegexScratch, one per caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/span.h"
#include "base/status.h"
#include "text/regex_program.h"
#include "text/work.h"

namespace qinfer::text {

/// A stretch of a text that matches a pattern, or is between two matches.
struct Stretch : Span {
  bool is_match = false;
};

/// Working space of a search.
struct RegexScratch {
  /// What to do if the way that is being tried fails; the last one is tried first.
  struct Choice {
    enum class Kind : std::uint8_t { resume, shorter_run, longer_run, branches, enclosed, registers };
    Kind kind;
    std::uint32_t at;      ///< the instruction to go on with, or a register
    std::size_t place;     ///< in the text
    std::uint64_t number;  ///< run: how far it may go; branches: those left; enclosed: that around it; register: value
  };
  std::vector<Choice> choices;
  std::vector<std::size_t> registers;
};

class Regex {
 public:
  /// Code::unsupported, with the pattern in the message, if it cannot be used.
  static Result<Regex> compile(std::string_view pattern, std::string_view where);
  /// Matches `text` itself.
  static Result<Regex> literal(std::string_view text, std::string_view where);

  /// Replaces `spans` by all matches in `text` and the stretches between them, in order and without gaps. Matches may
  /// be empty; an empty one is not reported where the previous match ended. Work::stopped() when there are no more
  /// steps, or when more ways to match would have to be remembered than 64 and four for each byte.
  Status find_all(std::string_view text, Work& work, RegexScratch& scratch, std::vector<Stretch>& spans) const;

 private:
  Status find_literal(std::string_view text, Work& work, std::vector<Stretch>& spans) const;
  std::string literal_;  // if this is one
  RegexProgram program_;
};

}  // namespace qinfer::text
