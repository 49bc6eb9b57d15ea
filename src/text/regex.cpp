// See regex.h. The matcher goes through the program; where there are several ways it notes the others as choices on a
// stack of its own, and goes back to the last of them when it cannot go on. Sets of characters that are repeated, which
// is most of what tokenizers' patterns do, are one instruction each, and so are choices by the next byte.
#include "text/regex.h"

#include <algorithm>
#include <cstring>

#include "text/fields.h"
#include "text/utf8.h"

namespace qinfer::text {
namespace {

constexpr std::size_t kMaxPatternBytes = 16384;

using Op = RegexInstruction::Op;
using Greed = RegexNode::Greed;
using Assertion = RegexNode::Assertion;
using Choice = RegexScratch::Choice;

/// Matching of one program against one text, at one place after the other.
class Matcher {
 public:
  Matcher(const RegexProgram& program, std::string_view text, Work& work, RegexScratch& scratch)
      : program_(program),
        text_(text),
        work_(work),
        choices_(scratch.choices),
        registers_(scratch.registers),
        most_choices_(64 + 4 * text.size()) {
    if (registers_.size() < program.registers) registers_.resize(program.registers);  // each is set before it is read
    choices_.reserve(16);                                                             // most patterns need a few
  }
  ~Matcher() { work_.give_back(left_ > 0 ? static_cast<std::uint64_t>(left_) : 0); }
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  enum class Outcome : std::uint8_t { match, none, stopped };

  /// The first match at or after `from`.
  Outcome search(std::size_t from, Stretch& found) {
    for (std::size_t begin = from;; begin += char_size(begin)) {
      while (begin < text_.size() && program_.first[byte_at(begin)] == 0) {
        if (!pay(1)) return Outcome::stopped;
        begin += char_size(begin);
      }
      if (begin == text_.size() && program_.first[kRegexTextEnd] == 0) return Outcome::none;
      const Outcome outcome = match_at(begin);
      if (outcome == Outcome::match) found = {{begin, place_}, true};
      if (outcome != Outcome::none || begin >= text_.size()) return outcome;
    }
  }

 private:
  static constexpr std::uint64_t kNone = UINT64_MAX;
  std::uint8_t byte_at(std::size_t i) const { return static_cast<std::uint8_t>(text_[i]); }
  std::size_t char_size(std::size_t i) const { return i < text_.size() ? utf8_length(byte_at(i)) : 1; }

  bool pay(std::size_t steps) {
    left_ -= static_cast<std::int64_t>(steps);
    while (left_ < 0) {
      const std::uint64_t more = work_.take();
      if (more == 0) return false;
      left_ += static_cast<std::int64_t>(more);
    }
    return true;
  }

  bool push(Choice::Kind kind, std::uint32_t at, std::size_t place, std::uint64_t number) {
    if (choices_.size() >= most_choices_) {
      work_.refuse_ways();
      return false;
    }
    choices_.push_back({kind, at, place, number});
    return true;
  }

  /// Whether the character at the place is in the set; if so the place moves past it.
  bool step(const CharClass& set) {
    if (place_ == text_.size()) return false;
    const std::uint8_t byte = byte_at(place_);
    if (byte < 128) {
      if (!set.has_ascii(byte)) return false;
      ++place_;
      return true;
    }
    const Char c = char_at(text_, place_);
    if (!set.has_other(c.code)) return false;
    place_ += c.size;
    return true;
  }

  Outcome match_at(std::size_t begin) {
    const RegexInstruction& first = program_.code.front();
    if (first.op != Op::branches) return match_from(0, begin);
    const RegexDispatch& choice = program_.dispatch[first.a];
    std::uint64_t left = choice.branches[begin < text_.size() ? byte_at(begin) : kRegexTextEnd];
    for (; left != 0; left &= left - 1) {
      const auto branch = static_cast<std::size_t>(__builtin_ctzll(left));
      const RegexStraight& straight = choice.straight[branch];
      const Outcome outcome =
          straight.n != 0 ? match_straight(straight, begin) : match_from(choice.targets[branch], begin);
      if (outcome != Outcome::none) return outcome;
    }
    return pay(1) ? Outcome::none : Outcome::stopped;
  }

  Outcome match_straight(const RegexStraight& straight, std::size_t begin) {
    place_ = begin;
    bool good = true;
    for (std::uint32_t k = 0; k < straight.n && good; ++k) {
      const RegexStraight::Run& run = straight.runs[k];
      good = skip_set(program_.sets[run.set], run.max, place_) >= run.min;
    }
    if (!pay(1 + place_ - begin)) return Outcome::stopped;
    return good ? Outcome::match : Outcome::none;
  }

  /// The match that begins at `begin`, by the instructions from `at` on.
  Outcome match_from(std::uint32_t at, std::size_t begin) {
    choices_.clear();
    enclosed_ = kNone;
    place_ = begin;
    at_ = at;
    for (;;) {
      if (!pay(1)) return Outcome::stopped;
      const RegexInstruction& i = program_.code[at_];
      if (i.op == Op::accept) return Outcome::match;
      Result result = run(i);
      while (result == Result::failed) {
        if (choices_.empty()) return Outcome::none;
        if (!pay(1)) return Outcome::stopped;
        result = go_back();
      }
      if (result == Result::stopped) return Outcome::stopped;
    }
  }

  enum class Result : std::uint8_t { going_on, failed, stopped };
  static Result going_on_if(bool good) { return good ? Result::going_on : Result::failed; }

  /// Executes one instruction; at_ is then the next one.
  Result run(const RegexInstruction& i) {
    ++at_;
    switch (i.op) {
      case Op::character: return going_on_if(skip_character(i));
      case Op::set: return going_on_if(step(program_.sets[i.a]));
      case Op::run: return run_sets();
      case Op::jump: at_ = i.a; return Result::going_on;
      case Op::split: at_ = i.a; return push(Choice::Kind::resume, i.b, place_, 0) ? Result::going_on : Result::stopped;
      case Op::branches:
        return take_branch(i.a,
                           program_.dispatch[i.a].branches[place_ < text_.size() ? byte_at(place_) : kRegexTextEnd]);
      case Op::mark:
        if (!push(Choice::Kind::registers, i.a, 0, registers_[i.a])) return Result::stopped;
        registers_[i.a] = place_;
        return Result::going_on;
      case Op::advanced:
        if (registers_[i.a] == place_) at_ = i.b;
        return Result::going_on;
      case Op::look:
      case Op::atomic:
        if (!push(Choice::Kind::enclosed, at_ - 1, place_, enclosed_)) return Result::stopped;
        enclosed_ = choices_.size() - 1;
        return Result::going_on;
      case Op::looked: return leave_enclosed();
      case Op::step_back: return step_back(i.a);
      case Op::assertion: return going_on_if(holds(i));
      case Op::accept: break;
    }
    return Result::failed;
  }

  bool skip_character(const RegexInstruction& i) {
    if (text_.size() - place_ < i.count) return false;
    for (unsigned k = 0; k < i.count; ++k)
      if (byte_at(place_ + k) != (i.a >> (8 * k) & 0xFF)) return false;
    place_ += i.count;
    return true;
  }

  /// Up to `most` characters of a set, from `place` on; how many there were.
  std::uint32_t skip_set(const CharClass& set, std::uint32_t most, std::size_t& place) const {
    const char* const text = text_.data();
    const std::size_t size = text_.size();
    std::size_t at = place;
    std::uint32_t n = 0;
    for (; n < most && at < size; ++n) {
      const auto byte = static_cast<std::uint8_t>(text[at]);
      if (byte < 128) {
        if (!set.has_ascii(byte)) break;
        ++at;
        continue;
      }
      const Char c = char_at(text_, at);
      if (!set.has_other(c.code)) break;
      at += c.size;
    }
    place = at;
    return n;
  }

  /// Runs that follow each other are gone through at once: most branches of tokenizers' patterns are two or three.
  Result run_sets() {
    for (;;) {
      if (const Result result = run_set(program_.code[at_ - 1]); result != Result::going_on) return result;
      if (program_.code[at_].op != Op::run) return Result::going_on;
      if (!pay(1)) return Result::stopped;
      ++at_;
    }
  }

  Result run_set(const RegexInstruction& i) {
    const CharClass& set = program_.sets[i.a];
    const std::size_t begin = place_;
    std::uint32_t n = i.min == 0 ? 0 : skip_set(set, i.min, place_);
    if (n < i.min) return pay(n) ? Result::failed : Result::stopped;
    if (i.greed == Greed::lazy) {
      if (n < i.max && !push(Choice::Kind::longer_run, at_ - 1, place_, n)) return Result::stopped;
      return pay(n) ? Result::going_on : Result::stopped;
    }
    const std::size_t least = place_;
    skip_set(set, i.max - n, place_);
    if (!pay(place_ - begin)) return Result::stopped;
    if (i.greed == Greed::greedy && place_ != least && !push(Choice::Kind::shorter_run, at_, place_, least))
      return Result::stopped;
    return Result::going_on;
  }

  Result take_branch(std::uint32_t table, std::uint64_t left) {
    if (left == 0) return Result::failed;
    const auto first = static_cast<unsigned>(__builtin_ctzll(left));
    left &= left - 1;
    if (left != 0 && !push(Choice::Kind::branches, table, place_, left)) return Result::stopped;
    at_ = program_.dispatch[table].targets[first];
    return Result::going_on;
  }

  /// What is enclosed has matched: its choices are dropped, and of a look the place is that before it.
  Result leave_enclosed() {
    const Choice enclosing = choices_[enclosed_];
    choices_.resize(enclosed_);
    enclosed_ = enclosing.number;
    const RegexInstruction& i = program_.code[enclosing.at];
    if (i.op == Op::look) place_ = enclosing.place;
    at_ = i.a;
    return going_on_if(!i.is_negative);
  }

  Result step_back(std::uint32_t n) {
    if (!pay(std::min<std::size_t>(n, place_))) return Result::stopped;
    for (; n > 0 && place_ > 0; --n) place_ -= char_before(text_, place_).size;
    return going_on_if(n == 0);
  }

  /// Goes back to the last choice.
  Result go_back() {
    Choice& choice = choices_.back();
    switch (choice.kind) {
      case Choice::Kind::resume:
        at_ = choice.at;
        place_ = choice.place;
        choices_.pop_back();
        return Result::going_on;
      case Choice::Kind::shorter_run:
        choice.place -= char_before(text_, choice.place).size;
        at_ = choice.at;
        place_ = choice.place;
        if (place_ == choice.number) choices_.pop_back();
        return Result::going_on;
      case Choice::Kind::longer_run: return go_longer(choice);
      case Choice::Kind::branches: {
        const Choice last = choice;
        choices_.pop_back();
        place_ = last.place;
        return take_branch(last.at, last.number);
      }
      case Choice::Kind::enclosed: {
        const Choice last = choice;
        choices_.pop_back();
        enclosed_ = last.number;
        const RegexInstruction& i = program_.code[last.at];
        place_ = last.place;
        at_ = i.a;
        return going_on_if(i.is_negative);  // what was not to match did not
      }
      case Choice::Kind::registers:
        registers_[choice.at] = choice.number;
        choices_.pop_back();
        return Result::failed;
    }
    return Result::failed;
  }

  Result go_longer(Choice& choice) {
    const RegexInstruction& i = program_.code[choice.at];
    place_ = choice.place;
    if (!step(program_.sets[i.a])) {
      choices_.pop_back();
      return Result::failed;
    }
    at_ = choice.at + 1;
    choice.place = place_;
    if (++choice.number == i.max) choices_.pop_back();
    return Result::going_on;
  }

  bool is_line_break(std::size_t i) const { return text_[i] == '\n'; }

  bool holds(const RegexInstruction& i) const {
    const bool at_start = place_ == 0, at_end = place_ == text_.size();
    switch (i.assertion) {
      case Assertion::line_start: return at_start || (!at_end && is_line_break(place_ - 1));
      case Assertion::line_end: return at_end || is_line_break(place_);
      case Assertion::text_start: return at_start;
      case Assertion::text_end: return at_end;
      case Assertion::text_end_or_newline: return at_end || (place_ + 1 == text_.size() && is_line_break(place_));
      case Assertion::boundary:
      case Assertion::no_boundary: break;
    }
    const CharClass& word = program_.sets[i.a];
    const bool before = !at_start && word.has(char_before(text_, place_).code);
    const bool after = !at_end && word.has(char_at(text_, place_).code);
    return (before != after) == (i.assertion == Assertion::boundary);
  }

  const RegexProgram& program_;
  std::string_view text_;
  Work& work_;
  std::vector<Choice>& choices_;
  std::vector<std::size_t>& registers_;
  std::size_t most_choices_;
  std::int64_t left_ = 0;           // steps that are paid for
  std::size_t place_ = 0;           // in the text
  std::uint32_t at_ = 0;            // in the program
  std::uint64_t enclosed_ = kNone;  // the choice of the innermost look or atomic group
};

}  // namespace

Result<Regex> Regex::compile(std::string_view pattern, std::string_view where) {
  const auto named = [&](Status status) {
    return std::move(status).with_prefix(format_text("{}: the regular expression {}", where, in_quotes(pattern)));
  };
  if (pattern.size() > kMaxPatternBytes)
    return named(error(Code::unsupported, "{} bytes, at most {} are supported", pattern.size(), kMaxPatternBytes));
  auto tree = parse_regex(pattern);
  if (!tree.ok()) return named(tree.take_status());
  auto program = compile_regex(std::move(tree.value()));
  if (!program.ok()) return named(program.take_status());
  Regex regex;
  regex.program_ = std::move(program.value());
  return regex;
}

Result<Regex> Regex::literal(std::string_view text, std::string_view where) {
  if (text.empty()) return compile(text, where);  // matches everywhere
  Regex regex;
  regex.literal_ = text;
  return regex;
}

Status Regex::find_literal(std::string_view text, Work& work, std::vector<Stretch>& spans) const {
  if (!work.spend(text.size())) return work.stopped(0);
  std::size_t covered = 0;
  while (covered < text.size()) {
    // Linear in the text for any literal, unlike std::string_view::find.
    const void* at = memmem(text.data() + covered, text.size() - covered, literal_.data(), literal_.size());
    if (at == nullptr) break;
    const auto begin = static_cast<std::size_t>(static_cast<const char*>(at) - text.data());
    if (covered != begin) spans.push_back({{covered, begin}, false});
    covered = begin + literal_.size();
    spans.push_back({{begin, covered}, true});
  }
  if (covered != text.size()) spans.push_back({{covered, text.size()}, false});
  return Status();
}

Status Regex::find_all(std::string_view text, Work& work, RegexScratch& scratch, std::vector<Stretch>& spans) const {
  spans.clear();
  if (!literal_.empty()) return find_literal(text, work, spans);
  Matcher matcher(program_, text, work, scratch);
  std::size_t covered = 0, from = 0;
  bool any = false;  // whether `covered` is the end of a match
  while (from <= text.size()) {
    Stretch found{};
    const Matcher::Outcome outcome = matcher.search(from, found);
    if (outcome == Matcher::Outcome::stopped) return work.stopped(from);
    if (outcome == Matcher::Outcome::none) break;
    if (found.begin == found.end && any && found.end == covered) {
      from = found.end + (found.end < text.size() ? char_at(text, found.end).size : 1);
      continue;
    }
    if (covered != found.begin) spans.push_back({{covered, found.begin}, false});
    spans.push_back(found);
    covered = from = found.end;
    any = true;
  }
  if (covered != text.size()) spans.push_back({{covered, text.size()}, false});
  return Status();
}

}  // namespace qinfer::text
