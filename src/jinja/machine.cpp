// See machine.h: the instructions.
#include "jinja/machine.h"

#include <algorithm>

#include "jinja/compare.h"
#include "jinja/operators.h"
#include "jinja/print.h"

namespace qinfer::jinja {

Machine::Machine(Run& run, const Program& program)
    : run_(run), program_(program), context_(new_scope(nullptr)), outermost_(new_scope(context_)), scope_(outermost_) {
  captures_.emplace_back(run);
}

void Machine::define(std::string_view name, const Value& value) {
  run_.charge_bytes(16 * program_.names.size());
  for (std::uint32_t i = 0; i < program_.names.size(); ++i)
    if (program_.name(i) == name) set_variable(run_, *context_, i, value);
}

Scope* Machine::new_scope(Scope* parent) { return run_.make(Scope{parent, nullptr, 0, 0}); }

void Machine::restore(const Heights& heights) {
  stack_.resize(heights.values);
  loops_.resize(heights.loops);
  blocks_.resize(heights.blocks);
  while (captures_.size() > heights.captures) captures_.pop_back();
  generated_ = heights.generated;
}

void Machine::execute() {
  for (ip_ = 0; !run_.failed() && run_.charge(1);) {
    const Instruction& instruction = program_.code[ip_++];
    at_ = instruction.at;
    if (instruction.op == Op::end) return;
    step(instruction);
  }
}

void Machine::step(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::constant: return push(program_.constants[static_cast<std::size_t>(instruction.arg)]);
    case Op::load: return load(static_cast<std::uint32_t>(instruction.arg));
    case Op::store: return set_variable(run_, *scope_, static_cast<std::uint32_t>(instruction.arg), pop());
    case Op::attribute:
      stack_.back() = attribute(run_, stack_.back(), program_.names[static_cast<std::size_t>(instruction.arg)]);
      return;
    case Op::jump: return jump(instruction);
    case Op::jump_if_false:
      if (!is_true(pop())) jump(instruction);
      return;
    case Op::jump_if_false_keep:
    case Op::jump_if_true_keep:
      if (is_true(stack_.back()) == (instruction.op == Op::jump_if_true_keep)) return jump(instruction);
      stack_.pop_back();
      return;
    case Op::output: return write(pop());
    default: break;
  }
  if (instruction.op < Op::output) return step_value(instruction);
  if (instruction.op < Op::for_begin) return step_block(instruction);
  step_loop(instruction);
}

void Machine::step_value(const Instruction& instruction) {
  const auto arg = static_cast<std::size_t>(instruction.arg);
  switch (instruction.op) {
    case Op::set_field: return set_field(static_cast<std::uint32_t>(arg));
    case Op::unpack: return unpack(arg);
    case Op::pop: return stack_.pop_back();
    case Op::item: {
      const Value key = pop();
      stack_.back() = item(run_, stack_.back(), key);
      return;
    }
    case Op::slice: {
      const Value step = pop(), stop = pop(), start = pop();
      stack_.back() = slice(run_, stack_.back(), start, stop, step);
      return;
    }
    case Op::binary: {
      const Value b = pop();
      stack_.back() = binary(run_, static_cast<Binary>(instruction.small), stack_.back(), b);
      return;
    }
    case Op::negate: stack_.back() = negate(run_, stack_.back()); return;
    case Op::plus: stack_.back() = plus(run_, stack_.back()); return;
    case Op::invert: stack_.back() = boolean_value(!is_true(stack_.back()), marks_of(stack_.back())); return;
    case Op::compare:
    case Op::compare_chain: {
      const Value b = pop(), a = pop();
      const bool result = compare(run_, static_cast<Compare>(instruction.small), a, b);
      if (instruction.op == Op::compare_chain && result) return push(b);
      push(boolean_value(result, static_cast<Marks>(marks_of(a) | marks_of(b))));
      if (instruction.op == Op::compare_chain) jump(instruction);
      return;
    }
    case Op::concat:
    case Op::make_list:
    case Op::make_tuple: {
      const std::span<const Value> values(stack_.data() + stack_.size() - arg, arg);
      const Value made = instruction.op == Op::concat
                             ? concat(run_, values)
                             : run_.list(values, 0, instruction.op == Op::make_list ? Kind::list : Kind::tuple);
      stack_.resize(stack_.size() - arg);
      return push(made);
    }
    case Op::make_dict: return make_dict(arg);
    case Op::call: return call(instruction);
    case Op::filter:
    case Op::test: {
      if (!take_arguments(program_.shapes[arg])) return;
      const Arguments arguments = {{}, positional_, named_};
      return push(instruction.op == Op::filter ? call_filter(run_, instruction.small, arguments)
                                               : call_test(run_, instruction.small, arguments));
    }
    case Op::missing_name:
      run_.fail(format_text("No {} named {} found.", instruction.flag == 0 ? "filter" : "test",
                            short_repr(program_.names[arg])));
      return;
    default: return;
  }
}

void Machine::step_block(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::begin_capture: captures_.emplace_back(run_); return;
    case Op::end_capture: return push(end_capture());
    case Op::begin_generation:
      push(integer_value(generated_));
      generated_ = kGenerated;
      return;
    case Op::end_generation: generated_ = static_cast<Marks>(pop().integer); return;
    case Op::push_scope: {
      blocks_.push_back(scope_);
      scope_ = new_scope(instruction.flag == 1 ? outermost_ : scope_);
      return;
    }
    case Op::pop_scope:
      scope_ = blocks_.back();
      blocks_.pop_back();
      return;
    default: return;
  }
}

void Machine::load(std::uint32_t name) {
  if (const Value* found = find_variable(run_, scope_, name); found != nullptr) return push(*found);
  const std::string_view text = program_.name(name);
  Function function = find_function(text);
  if (function == Function::strftime_now && run_.now() == nullptr) function = Function::none;
  push(function == Function::none ? run_.undefined(Missing::Reason::variable, program_.names[name])
                                  : function_value(function));
}

void Machine::write(const Value& value) {
  TextBuilder& out = captures_.back();
  write_text(run_, out, value, generated_);
  if (captures_.size() == 1 && out.size() > run_.limits().output)
    run_.fail(
        format_text("it writes more than {} bytes, the most for this conversation; a template writes each message "
                    "about once",
                    run_.limits().output),
        Code::buffer_too_small);
}

void Machine::set_field(std::uint32_t name) {
  const Value space = pop(), value = pop();
  if (!space.is(Kind::space)) {
    run_.fail("cannot assign attribute on non-namespace object");
  } else if (program_.name(name).starts_with('_')) {
    run_.fail(
        format_text("Chat templates cannot store underscore-prefixed attributes on a namespace, but got {}. Please "
                    "rename the attribute.",
                    short_repr(program_.names[name])));
  } else {
    set(run_, *space.dict, program_.names[name], value);
  }
}

void Machine::unpack(std::size_t n) {
  const Value value = pop();
  if (!value.is_text() && !value.is_undefined() && !value.is(Kind::list) && !value.is(Kind::tuple) &&
      !value.is(Kind::dict) && !value.is(Kind::view) && !value.is(Kind::iterator) && !value.is(Kind::range)) {
    run_.fail(format_text("cannot unpack non-iterable {} object", type_name(value)));
    return;
  }
  const List items = *elements(run_, value);
  if (items.size < n) {
    run_.fail(format_text("not enough values to unpack (expected {}, got {})", n, items.size));
    return;
  }
  if (items.size > n) {
    run_.fail(format_text("too many values to unpack (expected {})", n));
    return;
  }
  for (std::size_t i = n; i > 0; --i) push(items.items[i - 1]);
}

void Machine::make_dict(std::size_t n) {
  Dict* dict = run_.make(Dict{});
  for (std::size_t i = stack_.size() - 2 * n; i < stack_.size() && !run_.failed(); i += 2)
    set(run_, *dict, stack_[i], stack_[i + 1]);
  stack_.resize(stack_.size() - 2 * n);
  push(dict_value(dict, 0));
}

Value Machine::end_capture() {
  const Value text = captures_.back().finish();
  captures_.pop_back();
  return text;
}

const Value* find_variable(Run& run, const Scope* scope, std::uint32_t name) {
  for (; scope != nullptr && run.charge(scope->size / 8); scope = scope->parent)
    for (std::uint32_t i = 0; i < scope->size; ++i)
      if (scope->variables[i].name == name) return &scope->variables[i].value;
  return nullptr;
}

void set_variable(Run& run, Scope& scope, std::uint32_t name, const Value& value) {
  if (!run.charge(scope.size / 8)) return;
  for (std::uint32_t i = 0; i < scope.size; ++i) {
    if (scope.variables[i].name != name) continue;
    scope.variables[i].value = value;
    return;
  }
  if (scope.size == scope.capacity) {
    const std::uint32_t capacity = scope.capacity * 2 + 4;
    auto* variables = run.array<Variable>(capacity);
    if (variables == nullptr) return;
    std::uninitialized_copy(scope.variables, scope.variables + scope.size, variables);
    scope.variables = variables;
    scope.capacity = capacity;
  }
  scope.variables[scope.size++] = {name, value};
}

}  // namespace qinfer::jinja
