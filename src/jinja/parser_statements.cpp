// See parser.h: statements.
#include <algorithm>

#include "jinja/parser.h"

namespace qinfer::jinja {

void Parser::fail_not_closed(std::size_t at, const char* end) {
  fail_at(at, format_text("Unexpected end of template; this block is not closed, which {{% {} %}} does", end));
}

std::size_t Parser::body(std::initializer_list<const char*> ends) {
  const Level level(*this, 2);
  const std::size_t begin = now().at;
  while (level && !failed()) {
    const Token& token = now();
    if (token.kind == TokenKind::end) {
      if (ends.size() == 0) return 0;
      fail_not_closed(begin, *(ends.end() - 1));
    } else if (token.kind == TokenKind::data) {
      emit(Op::constant, token.at, text_constant(token.text));
      emit(Op::output, token.at);
      advance();
    } else if (token.kind == TokenKind::variable_begin) {
      output();
    } else {
      advance();
      for (const char* const* end = ends.begin(); end != ends.end(); ++end)
        if (now().is_name(*end)) return static_cast<std::size_t>(end - ends.begin());
      statement();
      expect_kind(TokenKind::block_end);
    }
  }
  return 0;
}

void Parser::output() {
  const std::size_t at = now().at;
  advance();
  tuple(true, false);
  emit(Op::output, at);
  expect_kind(TokenKind::variable_end);
}

std::size_t Parser::block(std::initializer_list<const char*> ends) {
  accept_op(":");
  expect_kind(TokenKind::block_end);
  const std::size_t found = body(ends);
  advance();
  return found;
}

void Parser::statement() {
  if (now().kind != TokenKind::name) return fail("tag name expected");
  const std::string tag = now().text;
  if (tag == "set") return set_statement();
  if (tag == "if") return if_statement();
  if (tag == "for") return for_statement();
  if (tag == "macro") return macro_statement();
  if (tag == "call") return call_statement();
  if (tag == "filter") return filter_statement();
  if (tag == "with") return with_statement();
  if (tag == "block") return block_statement();
  if (tag == "generation") return generation_statement();
  if (tag == "autoescape") return autoescape_statement();
  if (tag == "print") return print_statement();
  if (tag == "break" || tag == "continue") return loop_control(tag == "break");
  if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") return refuse_statement(tag.c_str());
  fail(format_text(
      "Encountered unknown tag '{}'; tags are set, if, for, macro, call, filter, with, block, break, continue, "
      "generation, raw and print, and what ends them",
      tag));
}

void Parser::refuse_statement(const char* what) {
  fail(format_text("{{% {} %}} is refused: a chat template stands alone, and reads no other", what), Code::unsupported);
}

/// One target or several with commas. The code takes the value that is on the stack.
void Parser::target(bool with_fields) {
  const std::size_t at = now().at, begin = program_.code.size();
  std::int64_t n = 0;
  bool is_tuple = false;
  while (!failed()) {
    if (n > 0) expect_op(",");
    if (is_tuple_end(false) || now().is_name("in")) break;
    one_target(with_fields);
    ++n;
    if (!now().is_op(",")) break;
    is_tuple = true;
  }
  if (n == 0) return fail("a name to set was expected");
  if (!is_tuple) return;
  const Instructions targets = take(begin);
  emit(Op::unpack, at, n);
  append(targets);
}

void Parser::one_target(bool with_fields) {
  const Level level(*this);
  if (!level) return;
  const std::size_t at = now().at;
  if (accept_op("(")) {
    target(with_fields);
    return expect_op(")");
  }
  if (now().kind != TokenKind::name) return fail("can't assign to this; a name was expected");
  const std::string called = take_name("name");
  if (called == "loop" && in_for_target_)
    return fail_at(at, "Can't assign to special loop variable in for-loop target");
  for (const char* constant : {"true", "false", "none", "True", "False", "None"})
    if (called == constant) return fail_at(at, format_text("can't assign to '{}'", called));
  if (!with_fields || !accept_op(".")) {
    emit(Op::store, at, name(called));
    return;
  }
  const std::uint32_t space = name(called);
  program_.is_read[space] = true;
  emit(Op::load, at, space);
  emit(Op::set_field, at, name(take_name("name")));
}

void Parser::set_statement() {
  const std::size_t at = now().at;
  advance();
  const std::size_t begin = program_.code.size();
  target(true);
  const Instructions store = take(begin);
  if (accept_op("=")) {
    tuple(true, false);
    return append(store);
  }
  while (now().is_op("|") && !failed()) filter();
  const Instructions filters = take(begin);
  emit(Op::push_scope, at);
  emit(Op::begin_capture, at);
  block({"endset"});
  emit(Op::end_capture, at);
  append(filters);
  emit(Op::pop_scope, at);
  append(store);
}

void Parser::if_statement() {
  std::vector<std::size_t> ends;
  ++conditions_;
  for (;;) {
    const std::size_t at = now().at;
    advance();  // if, elif
    tuple(false, false);
    const std::size_t otherwise = emit(Op::jump_if_false, at);
    accept_op(":");
    expect_kind(TokenKind::block_end);
    const std::size_t found = body({"elif", "else", "endif"});
    if (failed()) break;
    if (found == 2) {
      patch(otherwise);
      advance();
      break;
    }
    ends.push_back(emit(Op::jump, at));
    patch(otherwise);
    if (found == 0) continue;
    advance();
    block({"endif"});
    break;
  }
  --conditions_;
  for (const std::size_t end : ends)
    if (!failed()) patch(end);
}

/// Lets break and continue of the loop's body, code from `begin`, go where they should.
void Parser::close_loop(std::size_t begin, std::size_t next, std::size_t exit) {
  for (std::size_t i = begin; i < exit; ++i) {
    Instruction& made = program_.code[i];
    if (made.op != Op::break_loop && made.op != Op::continue_loop) continue;
    const std::size_t target = made.op == Op::break_loop ? exit : next;
    made.op = Op::jump;
    patch_to(i, target);
  }
}

void Parser::for_statement() {
  const std::size_t at = now().at;
  advance();
  const std::size_t begin = program_.code.size();
  in_for_target_ = true;
  target(false);
  in_for_target_ = false;
  const Instructions store = take(begin);
  expect_name("in");
  tuple(false, false, true);
  const std::size_t start = program_.code.size();
  bool has_condition = false;
  if (accept_name("if")) {
    has_condition = true;
    expression();
  }
  const Instructions condition = take(std::min(start, program_.code.size()));
  const bool is_recursive = accept_name("recursive");
  // The body is read first: where it mentions `loop`, which tells of elements to come, the condition is asked for all
  // elements before the loop begins, and otherwise for each in its turn.
  const std::size_t loop_reads = loop_reads_;
  accept_op(":");
  expect_kind(TokenKind::block_end);
  ++loops_;
  const bool has_else = body({"endfor", "else"}) == 1;
  --loops_;
  advance();
  if (failed()) return;
  const Instructions inside = take(start);
  emit(Op::for_begin, at, 0, 0, is_recursive ? 1 : 0);
  const bool is_eager = has_condition && loop_reads_ != loop_reads;
  if (is_eager) {
    const std::size_t next = emit(Op::filter_next, at);
    append(store);
    append(condition);
    emit(Op::filter_keep, at);
    patch_to(emit(Op::jump, at), next);
    patch(next);
    emit(Op::filter_done, at);
  }
  const std::size_t next = emit(Op::for_next, at);
  append(store);
  if (has_condition && !is_eager) {
    append(condition);
    patch_to(emit(Op::jump_if_false, at), next);
  }
  emit(Op::for_accept, at);
  const std::size_t first = program_.code.size();
  append(inside);
  if (has_else) emit(Op::for_done, at);
  patch_to(emit(Op::jump, at), next);
  patch(next);
  const std::size_t exit = emit(Op::for_exit, at);
  close_loop(first, next, exit);
  if (has_else) block({"endfor"});
  if (failed()) return;
  patch(exit);
  emit(Op::for_end, at);
}

void Parser::loop_control(bool is_break) {
  if (loops_ == 0)
    return fail(format_text("'{}' outside loop; it belongs between {{% for %}} and {{% endfor %}}",
                            is_break ? "break" : "continue"));
  emit(is_break ? Op::break_loop : Op::continue_loop, now().at);
  advance();
}

void Parser::with_statement() {
  const std::size_t at = now().at;
  advance();
  std::vector<Instructions> stores;
  while (now().kind != TokenKind::block_end && !failed()) {
    if (!stores.empty()) expect_op(",");
    const std::size_t begin = program_.code.size();
    target(false);
    stores.push_back(take(begin));
    expect_op("=");
    expression();
  }
  emit(Op::push_scope, at);
  for (auto store = stores.rbegin(); store != stores.rend(); ++store) append(*store);
  block({"endwith"});
  emit(Op::pop_scope, at);
}

void Parser::signature(MacroCode& macro, Instructions& defaults) {
  const std::size_t begin = program_.code.size();
  expect_op("(");
  while (!now().is_op(")") && !failed()) {
    if (!macro.parameters.empty()) expect_op(",");
    const std::size_t at = now().at;
    const std::uint32_t called = name(take_name("name"));
    if (std::find(macro.parameters.begin(), macro.parameters.end(), called) != macro.parameters.end())
      fail_at(at, format_text("duplicate argument '{}' in function definition", program_.name(called)));
    const std::size_t skip = emit(Op::skip_if_set, at, 0, static_cast<std::uint16_t>(macro.parameters.size()));
    if (accept_op("=")) {
      expression();
      ++macro.n_defaults;
      emit(Op::store, at, called);
    } else if (macro.n_defaults > 0) {
      fail("non-default argument follows default argument");
    } else {
      emit(Op::set_missing, at, called, static_cast<std::uint16_t>(macro.parameters.size()));
    }
    if (!failed()) patch(skip);
    macro.parameters.push_back(called);
    if (macro.parameters.size() > 1000) fail("a macro has at most 1000 parameters");
  }
  expect_op(")");
  defaults = take(begin);
}

/// The rest of a macro or call block: its body, as code that a jump leads around.
void Parser::macro_body(Op op, std::size_t at, MacroCode macro, const Instructions& defaults, const char* end) {
  const std::size_t made = emit(op, at);
  const std::size_t around = emit(Op::jump, at);
  append(defaults);
  const std::size_t loops = std::exchange(loops_, 0);
  const std::size_t callers = caller_reads_, varargs = varargs_reads_, kwargs = kwargs_reads_;
  block({end});
  loops_ = loops;
  macro.has_caller = caller_reads_ != callers;
  macro.has_varargs = varargs_reads_ != varargs;
  macro.has_kwargs = kwargs_reads_ != kwargs;
  for (const std::uint32_t parameter : macro.parameters) {
    if (program_.name(parameter) == "caller") macro.has_caller = false;
    if (program_.name(parameter) == "varargs") macro.has_varargs = false;
    if (program_.name(parameter) == "kwargs") macro.has_kwargs = false;
  }
  emit(Op::end_macro, at);
  if (failed()) return;
  patch(around);
  program_.code[made].arg = static_cast<std::int32_t>(program_.macros.size());
  program_.macros.push_back(std::move(macro));
}

void Parser::macro_statement() {
  const std::size_t at = now().at;
  advance();
  MacroCode macro;
  const std::string called = take_name("name");
  macro.name = name(called);
  Instructions defaults;
  signature(macro, defaults);
  const std::uint32_t stored = macro.name;
  macro_body(Op::make_macro, at, std::move(macro), defaults, "endmacro");
  emit(Op::store, at, stored);
}

void Parser::call_statement() {
  const std::size_t at = now().at;
  advance();
  MacroCode macro;
  macro.name = name("caller");
  Instructions defaults;
  if (now().is_op("(")) signature(macro, defaults);
  const std::size_t begin = program_.code.size(), expression_at = now().at;
  expression();
  if (failed()) return;
  if (program_.code.size() == begin || program_.code.back().op != Op::call)
    return fail_at(expression_at, "expected call; {% call %} calls a macro");
  // The caller is the last of the named arguments, so the call comes after it; *list and **mapping would be between.
  Instructions called = take(begin);
  CallShape& made = program_.shapes[static_cast<std::size_t>(called.back().arg)];
  if (made.has_list || made.has_mapping)
    return fail_at(expression_at, "*list and **mapping are refused in {% call %}; write the arguments out",
                   Code::unsupported);
  made.names.push_back(macro.name);
  const Instruction last = called.back();
  called.pop_back();
  append(called);
  macro_body(Op::make_macro, at, std::move(macro), defaults, "endcall");
  program_.code.push_back(last);
  emit(Op::output, at);
}

void Parser::filter_statement() {
  const std::size_t at = now().at;
  const std::size_t begin = program_.code.size();
  filter();
  while (now().is_op("|") && !failed()) filter();
  const Instructions filters = take(begin);
  emit(Op::push_scope, at);
  emit(Op::begin_capture, at);
  block({"endfilter"});
  emit(Op::end_capture, at);
  append(filters);
  emit(Op::pop_scope, at);
  emit(Op::output, at);
}

void Parser::block_statement() {
  const std::size_t at = now().at;
  advance();
  take_name("name");
  const bool is_scoped = accept_name("scoped");
  if (now().is_name("required"))
    return fail("a required block is refused: no other template fills it", Code::unsupported);
  emit(Op::push_scope, at, 0, 0, is_scoped ? 0 : 1);
  const std::size_t loops = std::exchange(loops_, 0);
  block({"endblock"});
  loops_ = loops;
  if (now().kind == TokenKind::name) advance();
  emit(Op::pop_scope, at);
}

void Parser::generation_statement() {
  const std::size_t at = now().at;
  advance();
  program_.marks_generation = true;
  emit(Op::push_scope, at);
  emit(Op::begin_generation, at);
  const std::size_t loops = std::exchange(loops_, 0);
  block({"endgeneration"});
  loops_ = loops;
  emit(Op::end_generation, at);
  emit(Op::pop_scope, at);
}

void Parser::autoescape_statement() {
  const std::size_t at = now().at;
  advance();
  if (!accept_name("false") && !accept_name("False"))
    return fail("{% autoescape %} is refused: chat templates write text, not HTML", Code::unsupported);
  emit(Op::push_scope, at);
  block({"endautoescape"});
  emit(Op::pop_scope, at);
}

void Parser::print_statement() {
  const std::size_t at = now().at;
  advance();
  for (bool first = true; now().kind != TokenKind::block_end && !failed(); first = false) {
    if (!first) expect_op(",");
    expression();
    emit(Op::output, at);
  }
}

}  // namespace qinfer::jinja
