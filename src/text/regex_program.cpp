// See regex_program.h.
#include "text/regex_program.h"

#include <algorithm>
#include <bitset>
#include <map>
#include <optional>
#include <string>

#include "text/utf8.h"

namespace qinfer::text {
namespace {

constexpr std::size_t kMaxInstructions = 20000;
/// Each takes two kilobytes; further choices, and those of more branches, are tried one by one.
constexpr std::size_t kMaxDispatches = 16, kMaxBranches = 64;

using Node = RegexNode;
using Kind = RegexNode::Kind;
using Op = RegexInstruction::Op;
using Greed = RegexNode::Greed;

std::string utf8_of(char32_t code) {
  std::string bytes;
  append_char(bytes, code);
  return bytes;
}

/// With what bytes something can begin, the last element standing for "nothing at all", if it can be empty.
using FirstBytes = std::bitset<257>;

class Compiler {
 public:
  explicit Compiler(RegexTree tree) : tree_(std::move(tree)) { out_.sets = std::move(tree_.sets); }

  Result<RegexProgram> run() {
    // Children come before their parents, so that no recursion is needed.
    begins_.reserve(tree_.nodes.size());
    lengths_.reserve(tree_.nodes.size());
    for (const Node& n : tree_.nodes) {
      begins_.push_back(find_first_bytes(n));
      lengths_.push_back(find_length(n));
    }
    QINFER_TRY(emit(tree_.root));
    add(Op::accept);
    for (std::size_t i = 0; i < out_.code.size(); ++i) make_possessive(i);
    if (out_.code[0].op == Op::branches) {
      RegexDispatch& choice = out_.dispatch[out_.code[0].a];
      for (const std::uint32_t target : choice.targets) choice.straight.push_back(find_straight(target));
    }
    const FirstBytes first = begins_branch(tree_.root);
    for (std::size_t byte = 0; byte < first.size(); ++byte) out_.first[byte] = first[byte] ? 1 : 0;
    return std::move(out_);
  }

 private:
  const Node& node(std::uint32_t i) const { return tree_.nodes[i]; }
  std::uint32_t here() const { return static_cast<std::uint32_t>(out_.code.size()); }

  std::uint32_t add(Op op, std::uint32_t a = 0, std::uint32_t b = 0) {
    RegexInstruction instruction;
    instruction.op = op;
    instruction.a = a;
    instruction.b = b;
    out_.code.push_back(instruction);
    return here() - 1;
  }

  Status emit(std::uint32_t index) {
    if (here() > kMaxInstructions) return error(Code::unsupported, "its repetitions make it too long");
    const Node& n = node(index);
    switch (n.kind) {
      case Kind::empty: return Status();
      case Kind::character: emit_character(n.value); return Status();
      case Kind::set: add(Op::set, n.value); return Status();
      case Kind::sequence:
        for (std::uint32_t i = n.child; i != Node::kNone; i = node(i).next) QINFER_TRY(emit(i));
        return Status();
      case Kind::choice: return emit_choice(n);
      case Kind::repeat: return emit_repeat(n);
      case Kind::look: return emit_look(n);
      case Kind::atomic: return emit_enclosed(Op::atomic, n);
      case Kind::assertion: emit_assertion(n); return Status();
    }
    return Status();
  }

  void emit_character(char32_t code) {
    const std::string bytes = utf8_of(code);
    const std::uint32_t at = add(Op::character);
    out_.code[at].count = static_cast<std::uint8_t>(bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i)
      out_.code[at].a |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(bytes[i])) << (8 * i);
  }

  void emit_assertion(const Node& n) {
    const std::uint32_t at = add(Op::assertion);
    out_.code[at].assertion = n.assertion;
    if (n.assertion != Node::Assertion::boundary && n.assertion != Node::Assertion::no_boundary) return;
    if (out_.word_set == 0) {
      out_.sets.push_back(regex_word_set());
      out_.word_set = static_cast<std::uint32_t>(out_.sets.size());
    }
    out_.code[at].a = out_.word_set - 1;
  }

  Status emit_choice(const Node& n) {
    std::vector<std::uint32_t> branches, jumps;
    for (std::uint32_t i = n.child; i != Node::kNone; i = node(i).next) branches.push_back(i);
    if (out_.dispatch.size() < kMaxDispatches && branches.size() <= kMaxBranches) {
      const auto table = static_cast<std::uint32_t>(out_.dispatch.size());
      out_.dispatch.emplace_back();
      add(Op::branches, table);
      for (std::size_t i = 0; i < branches.size(); ++i) {
        const FirstBytes first = begins_branch(branches[i]);
        for (std::size_t byte = 0; byte < first.size(); ++byte)
          if (first[byte]) out_.dispatch[table].branches[byte] |= std::uint64_t{1} << i;
        out_.dispatch[table].targets.push_back(here());
        QINFER_TRY(emit(branches[i]));
        if (i + 1 < branches.size()) jumps.push_back(add(Op::jump));
      }
    } else {
      for (std::size_t i = 0; i + 1 < branches.size(); ++i) {
        const std::uint32_t split = add(Op::split, here() + 1);
        QINFER_TRY(emit(branches[i]));
        jumps.push_back(add(Op::jump));
        out_.code[split].b = here();
      }
      QINFER_TRY(emit(branches.back()));
    }
    for (const std::uint32_t jump : jumps) out_.code[jump].a = here();
    return Status();
  }

  /// One for each character, however often it is repeated.
  std::uint32_t set_of(char32_t character) {
    const auto [known, is_new] = character_sets_.emplace(character, static_cast<std::uint32_t>(out_.sets.size()));
    if (is_new) {
      out_.sets.emplace_back().add(character, character);
      out_.sets.back().finish();
    }
    return known->second;
  }

  Status emit_repeat(const Node& n) {
    const Node& child = node(n.child);
    if (child.kind == Kind::set || child.kind == Kind::character) {
      std::uint32_t set = child.value;
      if (child.kind == Kind::character) set = set_of(child.value);
      const std::uint32_t at = add(Op::run, set);
      out_.code[at].greed = n.greed;
      out_.code[at].min = n.min;
      out_.code[at].max = n.max;
      return Status();
    }
    if (n.greed == Greed::possessive) {  // an atomic group around the greedy one
      const std::uint32_t atomic = add(Op::atomic);
      Node greedy = n;
      greedy.greed = Greed::greedy;
      QINFER_TRY(emit_repeat(greedy));
      add(Op::looked);
      out_.code[atomic].a = here();
      return Status();
    }
    const bool is_lazy = n.greed == Greed::lazy;
    if (n.max == Node::kUnlimited && n.min > 0) return emit_loop(n.child, n.min, is_lazy);
    for (std::uint32_t i = 0; i < n.min; ++i) {
      const std::uint32_t before = here();
      QINFER_TRY(emit(n.child));
      if (here() == before) break;  // nothing, however often
    }
    if (n.max == Node::kUnlimited) return emit_star(n.child, is_lazy);
    std::vector<std::uint32_t> splits;
    for (std::uint32_t i = n.min; i < n.max; ++i) {
      splits.push_back(add(Op::split));
      QINFER_TRY(emit(n.child));
    }
    for (const std::uint32_t split : splits) set_split(split, split + 1, here(), is_lazy);
    return Status();
  }

  void set_split(std::uint32_t at, std::uint32_t into, std::uint32_t past, bool is_lazy) {
    out_.code[at].a = is_lazy ? past : into;
    out_.code[at].b = is_lazy ? into : past;
  }

  /// So many times and more: the last of them is the body of the loop, so that loops inside loops are not written out
  /// again and again.
  Status emit_loop(std::uint32_t child, std::uint32_t min, bool is_lazy) {
    for (std::uint32_t i = 0; i + 1 < min; ++i) {
      const std::uint32_t before = here();
      QINFER_TRY(emit(child));
      if (here() == before) break;
    }
    const bool may_be_empty = begins_[child][kRegexTextEnd];
    const std::uint32_t place = out_.registers, body = here();
    if (may_be_empty) {
      ++out_.registers;
      add(Op::mark, place);
    }
    QINFER_TRY(emit(child));
    const std::uint32_t advanced = may_be_empty ? add(Op::advanced, place) : 0;
    const std::uint32_t split = add(Op::split);
    set_split(split, body, here(), is_lazy);
    if (may_be_empty) out_.code[advanced].b = here();
    return Status();
  }

  /// A round that matches nothing ends the loop, which would not end otherwise.
  Status emit_star(std::uint32_t child, bool is_lazy) {
    const bool may_be_empty = begins_[child][kRegexTextEnd];
    const std::uint32_t split = add(Op::split);
    std::uint32_t advanced = 0;
    const std::uint32_t place = out_.registers;
    if (may_be_empty) {
      ++out_.registers;
      add(Op::mark, place);
    }
    QINFER_TRY(emit(child));
    if (may_be_empty) advanced = add(Op::advanced, place);
    add(Op::jump, split);
    if (may_be_empty) out_.code[advanced].b = here();
    set_split(split, split + 1, here(), is_lazy);
    return Status();
  }

  Status emit_enclosed(Op op, const Node& n) {
    const std::uint32_t at = add(op);
    QINFER_TRY(emit(n.child));
    add(Op::looked);
    out_.code[at].a = here();
    out_.code[at].is_negative = n.is_negative;
    return Status();
  }

  /// Look-behind: each branch goes back by its own fixed length and must end where the look began.
  Status emit_look(const Node& n) {
    if (!n.is_behind) return emit_enclosed(Op::look, n);
    std::vector<std::uint32_t> branches, jumps;
    const Node& inner = node(n.child);
    if (inner.kind == Kind::choice) {
      for (std::uint32_t i = inner.child; i != Node::kNone; i = node(i).next) branches.push_back(i);
    } else {
      branches.push_back(n.child);
    }
    const std::uint32_t look = add(Op::look);
    for (std::size_t i = 0; i < branches.size(); ++i) {
      const std::optional<std::uint32_t> length = fixed_length(branches[i]);
      if (!length) return error(Code::unsupported, "it looks behind by a length that is not fixed");
      const bool is_last = i + 1 == branches.size();
      const std::uint32_t split = is_last ? 0 : add(Op::split, here() + 1);
      add(Op::step_back, *length);
      QINFER_TRY(emit(branches[i]));
      if (is_last) break;
      jumps.push_back(add(Op::jump));
      out_.code[split].b = here();
    }
    for (const std::uint32_t jump : jumps) out_.code[jump].a = here();
    add(Op::looked);
    out_.code[look].a = here();
    out_.code[look].is_negative = n.is_negative;
    return Status();
  }

  std::optional<std::uint32_t> fixed_length(std::uint32_t index) const { return lengths_[index]; }

  /// In characters, if all that it can match have the same.
  std::optional<std::uint32_t> find_length(const Node& n) const {
    std::uint64_t total = 0;
    switch (n.kind) {
      case Kind::empty:
      case Kind::look:
      case Kind::assertion: return 0;
      case Kind::character:
      case Kind::set: return 1;
      case Kind::atomic: return lengths_[n.child];
      case Kind::sequence:
        for (std::uint32_t i = n.child; i != Node::kNone; i = node(i).next) {
          if (!lengths_[i]) return std::nullopt;
          total += *lengths_[i];
        }
        break;
      case Kind::choice:
        for (std::uint32_t i = n.child; i != Node::kNone; i = node(i).next)
          if (!lengths_[i] || *lengths_[i] != *lengths_[n.child]) return std::nullopt;
        return lengths_[n.child];
      case Kind::repeat:
        if (!lengths_[n.child] || n.min != n.max) return std::nullopt;
        total = std::uint64_t{n.min} * *lengths_[n.child];
        break;
    }
    constexpr std::uint64_t kMost = 100'000;
    return total <= kMost ? std::optional<std::uint32_t>(static_cast<std::uint32_t>(total)) : std::nullopt;
  }

  FirstBytes find_first_bytes(const Node& n) const {
    FirstBytes first;
    switch (n.kind) {
      case Kind::empty:
      case Kind::look:
      case Kind::assertion: first.set(); break;  // whatever follows, or nothing
      case Kind::character: first.set(static_cast<std::uint8_t>(utf8_of(n.value)[0])); break;
      case Kind::set:
        for (unsigned byte = 0; byte < 128; ++byte) first.set(byte, out_.sets[n.value].has_ascii(byte));
        for (unsigned byte = 0xC2; byte < 0xF5; ++byte) first.set(byte, out_.sets[n.value].may_have_others());
        break;
      case Kind::atomic: return begins_[n.child];
      case Kind::sequence:
        first.set(kRegexTextEnd);
        for (std::uint32_t i = n.child; i != Node::kNone && first[kRegexTextEnd]; i = node(i).next) {
          first |= begins_[i];
          first.set(kRegexTextEnd, begins_[i][kRegexTextEnd]);
        }
        break;
      case Kind::choice:
        for (std::uint32_t i = n.child; i != Node::kNone; i = node(i).next) first |= begins_[i];
        break;
      case Kind::repeat:
        if (n.max != 0) first = begins_[n.child];
        if (n.min == 0) first.set(kRegexTextEnd);
        break;
    }
    return first;
  }

  /// The same for a whole branch: what can be empty can be followed by anything.
  FirstBytes begins_branch(std::uint32_t index) const {
    FirstBytes first = begins_[index];
    if (first[kRegexTextEnd]) first.set();
    return first;
  }

  /// The instruction after this one, past jumps.
  std::size_t after(std::size_t at) const {
    ++at;
    while (out_.code[at].op == Op::jump) at = out_.code[at].a;
    return at;
  }

  /// Whether a match is certain from here on: everything that follows may be nothing.
  bool cannot_fail(std::size_t at) const {
    while (out_.code[at].op == Op::run && out_.code[at].min == 0) at = after(at);
    return out_.code[at].op == Op::accept;
  }

  RegexStraight find_straight(std::size_t at) const {
    RegexStraight straight;
    while (out_.code[at].op == Op::jump) at = out_.code[at].a;
    for (; out_.code[at].op != Op::accept; at = after(at)) {
      const RegexInstruction& i = out_.code[at];
      const bool is_set = i.op == Op::set, is_run = i.op == Op::run && i.greed == Greed::possessive;
      if ((!is_set && !is_run) || straight.n == straight.runs.size()) return {};
      straight.runs[straight.n++] = {i.a, is_set ? 1 : i.min, is_set ? 1 : i.max};
    }
    return straight;
  }

  /// A greedy run need not be tried shorter where what comes next cannot begin with one of its characters, or cannot
  /// fail.
  void make_possessive(std::size_t at) {
    RegexInstruction& run = out_.code[at];
    if (run.op != Op::run || run.greed != Greed::greedy) return;
    const std::size_t next = after(at);
    const RegexInstruction& follower = out_.code[next];
    bool always = cannot_fail(next);
    switch (follower.op) {
      case Op::looked: always = true; break;
      case Op::set: always |= out_.sets[run.a].is_disjoint(out_.sets[follower.a]); break;
      case Op::run: always |= follower.min > 0 && out_.sets[run.a].is_disjoint(out_.sets[follower.a]); break;
      case Op::character: {
        const unsigned byte = follower.a & 0xFF;
        always |= byte < 128 && !out_.sets[run.a].has_ascii(byte);
        break;
      }
      default: break;
    }
    if (always) run.greed = Greed::possessive;
  }

  RegexTree tree_;
  std::vector<FirstBytes> begins_;                     // of each node
  std::vector<std::optional<std::uint32_t>> lengths_;  // of each node
  std::map<char32_t, std::uint32_t> character_sets_;
  RegexProgram out_;
};

}  // namespace

Result<RegexProgram> compile_regex(RegexTree tree) { return Compiler(std::move(tree)).run(); }

}  // namespace qinfer::text
