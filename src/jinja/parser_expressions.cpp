// See parser.h: expressions. Operators bind as jinja2 lets them: `~` tighter than `+`, powers from left to right,
// filters and tests tighter than all of them.
#include <algorithm>
#include <iterator>

#include "jinja/builtins.h"
#include "jinja/limits.h"
#include "jinja/parser.h"
#include "jinja/source_place.h"

namespace qinfer::jinja {
namespace {

constexpr std::size_t kMaxNamed = 255;

enum : int { kOr = 1, kAnd, kNot, kCompare, kAdd, kConcat, kMultiply, kPower, kNone = 0 };

struct BinaryOperator {
  const char* text;
  int level;
  Binary binary;
};
constexpr BinaryOperator kBinary[] = {
    {"+", kAdd, Binary::add},         {"-", kAdd, Binary::subtract},           {"*", kMultiply, Binary::multiply},
    {"/", kMultiply, Binary::divide}, {"//", kMultiply, Binary::floor_divide}, {"%", kMultiply, Binary::modulo},
    {"**", kPower, Binary::power}};

struct CompareOperator {
  const char* text;
  Compare compare;
};
constexpr CompareOperator kComparisons[] = {{"==", Compare::equal},  {"!=", Compare::not_equal},
                                            {"<", Compare::less},    {"<=", Compare::less_equal},
                                            {">", Compare::greater}, {">=", Compare::greater_equal}};

const BinaryOperator* find_binary(const Token& token) {
  if (token.kind != TokenKind::op) return nullptr;
  const auto* found = std::find_if(std::begin(kBinary), std::end(kBinary),
                                   [&](const BinaryOperator& op) { return token.text == op.text; });
  return found == std::end(kBinary) ? nullptr : found;
}

const CompareOperator* find_comparison(const Token& token) {
  if (token.kind != TokenKind::op) return nullptr;
  const auto* found = std::find_if(std::begin(kComparisons), std::end(kComparisons),
                                   [&](const CompareOperator& op) { return token.text == op.text; });
  return found == std::end(kComparisons) ? nullptr : found;
}

int level_of(const Token& token, const Token& following) {
  if (token.kind == TokenKind::name) {
    if (token.text == "or") return kOr;
    if (token.text == "and") return kAnd;
    if (token.text == "in" || (token.text == "not" && following.is_name("in"))) return kCompare;
    return kNone;
  }
  if (token.is_op("~")) return kConcat;
  if (const BinaryOperator* op = find_binary(token); op != nullptr) return op->level;
  return find_comparison(token) != nullptr ? kCompare : kNone;
}

}  // namespace

void Parser::expression() {
  const Level level(*this);
  if (!level) return;
  const std::size_t begin = program_.code.size();
  operators(kOr);
  // Each `if` without `else` moves the code before it.
  for (int n = 0; now().is_name("if"); ++n) {
    const std::size_t at = now().at;
    if (n > kMaxNesting) return fail("there are too many conditions in a row; `else` and brackets part them");
    advance();
    const Instructions value = take(begin);
    operators(kOr);
    const std::size_t otherwise = emit(Op::jump_if_false, at);
    append(value);
    const std::size_t end = emit(Op::jump, at);
    patch(otherwise);
    if (accept_name("else")) {
      expression();
    } else {
      emit_missing_else(at);
    }
    patch(end);
  }
}

void Parser::emit_missing_else(std::size_t at) {
  Value missing;
  missing.marks = 0;
  const std::string hint =
      format_text("the inline if-expression on line {} evaluated to false and no else section was defined.",
                  find_place(program_.source, at).line);
  const Value text = program_.constants[static_cast<std::size_t>(text_constant(hint))];
  program_.missing.push_back({Missing::Reason::hint, text, ""});
  missing.missing = &program_.missing.back();
  emit(Op::constant, at, constant(missing));
}

/// An operand, and all operators after it that bind at least as tightly as `lowest`.
void Parser::operators(int lowest) {
  const Level level(*this);
  if (!level) return;
  if (lowest <= kNot && now().is_name("not")) {
    const std::size_t at = now().at;
    std::size_t n = 0;
    for (; accept_name("not"); ++n) {
    }
    operators(kCompare);
    for (; n > 0; --n) emit(Op::invert, at);
  } else {
    unary();
  }
  for (;;) {
    const int found = level_of(now(), next());
    if (found == kNone || found < lowest || failed()) return;
    one_operator(found);
  }
}

/// The operator here and its right operand.
void Parser::one_operator(int level) {
  if (level == kCompare) return comparisons();
  if (level == kConcat) return concatenation();
  const std::size_t at = now().at;
  if (level == kOr || level == kAnd) {
    advance();
    const std::size_t skip = emit(level == kOr ? Op::jump_if_true_keep : Op::jump_if_false_keep, at);
    operators(level + 1);
    return patch(skip);
  }
  const Binary binary = find_binary(now())->binary;
  advance();
  if (level == kPower)
    unary();
  else
    operators(level + 1);
  emit(Op::binary, at, 0, static_cast<std::uint16_t>(binary));
}

void Parser::comparisons() {
  std::vector<std::size_t> jumps;
  while (level_of(now(), next()) == kCompare && !failed()) {
    const std::size_t at = now().at;
    Compare compare = Compare::in;
    if (const CompareOperator* op = find_comparison(now()); op != nullptr)
      compare = op->compare;
    else if (accept_name("not"))
      compare = Compare::not_in;
    advance();
    operators(kAdd);
    const bool goes_on = level_of(now(), next()) == kCompare;
    const std::size_t made =
        emit(goes_on ? Op::compare_chain : Op::compare, at, 0, static_cast<std::uint16_t>(compare));
    if (goes_on) jumps.push_back(made);
  }
  for (const std::size_t jump : jumps) patch(jump);
}

void Parser::concatenation() {
  const std::size_t at = now().at;
  std::int64_t n = 1;
  while (accept_op("~")) {
    operators(kMultiply);
    ++n;
  }
  emit(Op::concat, at, n);
}

void Parser::unary() {
  const std::size_t first = at_;
  while (now().is_op("-") || now().is_op("+")) advance();
  const std::size_t end = at_;
  primary();
  postfix();
  for (std::size_t i = end; i > first && !failed(); --i)
    emit(tokens_[i - 1].text == "-" ? Op::negate : Op::plus, tokens_[i - 1].at);
  filters_and_tests();
}

void Parser::filters_and_tests() {
  while (!failed()) {
    if (now().is_op("|"))
      filter();
    else if (now().is_name("is"))
      test();
    else if (now().is_op("("))
      call();
    else
      return;
  }
}

void Parser::primary() {
  const Token& token = now();
  const std::size_t at = token.at;
  switch (token.kind) {
    case TokenKind::name: return name_or_constant();
    case TokenKind::string: return string();
    case TokenKind::integer: emit(Op::constant, at, constant(integer_value(token.integer))); return advance();
    case TokenKind::number: emit(Op::constant, at, constant(number_value(token.number))); return advance();
    case TokenKind::big_integer: {
      const std::int64_t made = text_constant(token.text);
      program_.constants[static_cast<std::size_t>(made)].kind = Kind::big_integer;
      emit(Op::constant, at, made);
      return advance();
    }
    default: break;
  }
  if (token.is_op("[")) return list_display();
  if (token.is_op("{")) return dict_display();
  if (!accept_op("(")) {
    const std::string text = token.kind == TokenKind::end ? "end of template" : token.text;
    return fail(format_text("unexpected '{}'; an expression was expected", text));
  }
  tuple(true, true);
  expect_op(")");
}

void Parser::name_or_constant() {
  const Token& token = now();
  advance();
  if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
    emit(Op::constant, token.at, constant(boolean_value((token.text[0] | 0x20) == 't')));
  } else if (token.text == "none" || token.text == "None") {
    emit(Op::constant, token.at, constant(none_value()));
  } else {
    if (token.text == "loop") ++loop_reads_;
    if (token.text == "caller") ++caller_reads_;
    if (token.text == "varargs") ++varargs_reads_;
    if (token.text == "kwargs") ++kwargs_reads_;
    const std::uint32_t index = name(token.text);
    program_.is_read[index] = true;
    emit(Op::load, token.at, index);
  }
}

/// Strings one after another are one.
void Parser::string() {
  const std::size_t at = now().at;
  std::string text;
  for (; now().kind == TokenKind::string; advance()) text += now().text;
  emit(Op::constant, at, text_constant(text));
}

void Parser::list_display() {
  const std::size_t at = now().at;
  advance();
  std::int64_t n = 0;
  while (!now().is_op("]") && !failed()) {
    if (n > 0) expect_op(",");
    if (now().is_op("]")) break;
    expression();
    ++n;
  }
  expect_op("]");
  emit(Op::make_list, at, n);
}

void Parser::dict_display() {
  const std::size_t at = now().at;
  advance();
  std::int64_t n = 0;
  while (!now().is_op("}") && !failed()) {
    if (n > 0) expect_op(",");
    if (now().is_op("}")) break;
    expression();
    expect_op(":");
    expression();
    ++n;
  }
  expect_op("}");
  emit(Op::make_dict, at, n);
}

bool Parser::is_tuple_end(bool ends_at_recursive) const {
  return now().kind == TokenKind::variable_end || now().kind == TokenKind::block_end || now().is_op(")") ||
         (ends_at_recursive && now().is_name("recursive"));
}

void Parser::tuple(bool with_condition, bool is_bracketed, bool ends_at_recursive) {
  const std::size_t at = now().at;
  std::int64_t n = 0;
  bool is_tuple = false;
  while (!failed()) {
    if (n > 0) expect_op(",");
    if (is_tuple_end(ends_at_recursive)) break;
    if (with_condition)
      expression();
    else
      operators(kOr);
    ++n;
    if (!now().is_op(",")) break;
    is_tuple = true;
  }
  if (n == 0 && !is_bracketed && !failed()) return fail("Expected an expression, but the tag ends here");
  if (is_tuple || n == 0) emit(Op::make_tuple, at, n);
}

void Parser::postfix() {
  while (!failed()) {
    if (now().is_op(".") || now().is_op("["))
      subscript();
    else if (now().is_op("("))
      call();
    else
      return;
  }
}

void Parser::subscript() {
  const std::size_t at = now().at;
  if (accept_op(".")) {
    if (now().kind == TokenKind::name) {
      emit(Op::attribute, at, name(now().text));
    } else if (now().kind == TokenKind::integer) {
      emit(Op::constant, at, constant(integer_value(now().integer)));
      emit(Op::item, at);
    } else {
      return fail("expected name or number after the point");
    }
    return advance();
  }
  advance();
  std::int64_t n = 0, n_slices = 0;
  while (!now().is_op("]") && !failed()) {
    if (n > 0) expect_op(",");
    if (subscript_part()) ++n_slices;
    ++n;
  }
  expect_op("]");
  if (failed() || (n == 1 && n_slices == 1)) return;
  if (n_slices > 0) return fail_at(at, "a slice cannot stand beside other subscripts");
  if (n != 1) emit(Op::make_tuple, at, n);
  emit(Op::item, at);
}

/// One subscript, or start:stop:step, whose parts are None where they are left out. Returns whether it is the latter.
bool Parser::subscript_part() {
  const std::size_t at = now().at;
  for (int part = 0;; ++part) {
    const bool is_left_out = now().is_op("]") || now().is_op(",") || now().is_op(":");
    if (is_left_out && (part > 0 || now().is_op(":")))
      emit(Op::constant, at, constant(none_value()));
    else
      expression();
    if (part == 0 && !now().is_op(":")) return false;
    if (part == 2) break;
    if (accept_op(":")) continue;
    if (part == 1) emit(Op::constant, at, constant(none_value()));
    break;
  }
  emit(Op::slice, at);
  return true;
}

void Parser::call() {
  const std::size_t at = now().at;
  const std::int64_t made = shape(arguments());
  emit(Op::call, at, made);
}

CallShape Parser::arguments() {
  CallShape made;
  const auto ensure = [this](bool good) {
    if (!good)
      fail(
          "invalid syntax for function call expression: positional arguments come first, then those with names, *list "
          "and **mapping");
  };
  expect_op("(");
  bool needs_comma = false;
  while (!now().is_op(")") && !failed()) {
    if (needs_comma) {
      expect_op(",");
      if (now().is_op(")")) break;
    }
    needs_comma = true;
    if (accept_op("*")) {
      ensure(!made.has_list && !made.has_mapping);
      expression();
      made.has_list = true;
    } else if (accept_op("**")) {
      ensure(!made.has_mapping);
      expression();
      made.has_mapping = true;
    } else if (now().kind == TokenKind::name && next().is_op("=")) {
      ensure(!made.has_list && !made.has_mapping);
      const std::uint32_t key = name(now().text);
      advance();
      advance();
      if (std::find(made.names.begin(), made.names.end(), key) != made.names.end())
        fail(format_text("keyword argument repeated: {}", program_.name(key)));
      if (made.names.size() >= kMaxNamed) fail(format_text("a call has at most {} named arguments", kMaxNamed));
      made.names.push_back(key);
      expression();
    } else {
      ensure(!made.has_list && !made.has_mapping && made.names.empty());
      expression();
      ++made.positional;
    }
  }
  expect_op(")");
  return made;
}

void Parser::filter() {
  advance();
  const std::size_t at = now().at;
  std::string called = take_name("name");
  while (accept_op(".")) called.append(1, '.').append(take_name("name"));
  CallShape made;
  if (now().is_op("(")) made = arguments();
  ++made.positional;
  const int index = find_filter(called);
  if (index >= 0) {
    emit(Op::filter, at, shape(std::move(made)), static_cast<std::uint16_t>(index));
  } else if (conditions_ == 0) {
    fail_at(at, format_text("No filter named '{}'.", called));
  } else {
    emit(Op::missing_name, at, name(called));
  }
}

void Parser::test() {
  const std::size_t at = now().at;
  advance();
  const bool is_negated = accept_name("not");
  std::string called = take_name("name");
  while (accept_op(".")) called.append(1, '.').append(take_name("name"));
  CallShape made;
  const TokenKind kind = now().kind;
  if (now().is_op("(")) {
    made = arguments();
  } else if ((kind == TokenKind::name || kind == TokenKind::string || kind == TokenKind::integer ||
              kind == TokenKind::big_integer || kind == TokenKind::number || now().is_op("[") || now().is_op("{")) &&
             !now().is_name("else") && !now().is_name("or") && !now().is_name("and")) {
    if (now().is_name("is")) return fail("You cannot chain multiple tests with is");
    primary();
    postfix();
    made.positional = 1;
  }
  ++made.positional;
  const int index = find_test(called);
  if (index >= 0) {
    emit(Op::test, at, shape(std::move(made)), static_cast<std::uint16_t>(index));
  } else if (conditions_ == 0) {
    return fail_at(at, format_text("No test named '{}'.", called));
  } else {
    emit(Op::missing_name, at, name(called), 0, 1);
  }
  if (is_negated) emit(Op::invert, at);
}

}  // namespace qinfer::jinja
