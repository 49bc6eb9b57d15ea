// A regular expression as a program for the matcher in regex.cpp: instructions in one array, which name each other by
// number. Counted repetitions are written out, so a program has no counters.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "text/char_class.h"
#include "text/regex_syntax.h"

namespace qinfer::text {

struct RegexInstruction {
  enum class Op : std::uint8_t {
    accept,     ///< the match is complete
    character,  ///< the bytes of one character: `a` has them, the first in its lowest byte; `count` of them
    set,        ///< one character of the set `a`
    run,        ///< `min` to `max` characters of the set `a`, as many as there are (greedy, possessive) or few (lazy)
    jump,       ///< goes on at `a`
    split,      ///< goes on at `a` and, if that fails, at `b`
    branches,   ///< goes on at the first of the branches of dispatch table `a` that can begin with the next byte, ...
    mark,       ///< notes the place in register `a`
    advanced,   ///< goes on at the next instruction if the place is not that of register `a`, else at `b`
    look,       ///< tries what follows up to its `looked`, then goes back; afterwards at `a`
    atomic,     ///< the same without going back: what follows up to its `looked` is not tried in another way
    looked,     ///< the end of the innermost look or atomic
    step_back,  ///< `a` characters back
    assertion,  ///< nothing, if the assertion holds
  };
  Op op = Op::accept;
  RegexNode::Greed greed = RegexNode::Greed::greedy;
  RegexNode::Assertion assertion = RegexNode::Assertion::line_start;
  bool is_negative = false;
  std::uint8_t count = 0;
  std::uint32_t a = 0, b = 0;
  std::uint32_t min = 0, max = 0;
};

/// A branch that ends the match and in which nothing is tried in another way: runs of characters, one after the other.
/// Nearly all words of tokenizers' patterns are matched by such.
struct RegexStraight {
  struct Run {
    std::uint32_t set, min, max;
  };
  std::array<Run, 4> runs{};
  std::uint32_t n = 0;  ///< 0: the branch is not of this kind
};

/// For each first byte of what is left of the text the branches that can match there, as bits; and for its end.
struct RegexDispatch {
  std::array<std::uint64_t, 257> branches{};
  std::vector<std::uint32_t> targets;
  std::vector<RegexStraight> straight;  ///< of each branch, if the program begins with this choice
};
inline constexpr std::size_t kRegexTextEnd = 256;

struct RegexProgram {
  std::vector<RegexInstruction> code;
  std::vector<CharClass> sets;
  std::vector<RegexDispatch> dispatch;
  std::uint32_t registers = 0;
  std::uint32_t word_set = 0;             ///< of \b, if it is asked for
  std::array<std::uint8_t, 257> first{};  ///< whether a match can begin with this byte, or at the end of the text
};

/// Code::unsupported for a program that would be too long, or for a look-behind of a length that is not fixed.
Result<RegexProgram> compile_regex(RegexTree tree);

}  // namespace qinfer::text
