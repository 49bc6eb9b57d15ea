// See machine.h: calls.
#include <algorithm>

#include "jinja/compare.h"
#include "jinja/machine.h"
#include "jinja/print.h"

namespace qinfer::jinja {
namespace {

std::string quoted(const Value& name) { return short_repr(name); }

}  // namespace

/// Moves the arguments from the stack to positional_ and named_.
bool Machine::take_arguments(const CallShape& shape) {
  positional_.clear();
  named_.clear();
  // A filter's value is its first positional argument, which stays below those that were written.
  const std::size_t base = stack_.size() - shape.size();
  std::size_t at = base;
  for (std::uint32_t i = 0; i < shape.positional; ++i) positional_.push_back(stack_[at++]);
  for (const std::uint32_t name : shape.names) named_.push_back({program_.names[name], stack_[at++]});
  if (shape.has_list) {
    const List items = *elements(run_, stack_[at++]);
    if (run_.charge(items.size) && run_.can_take(items.size * sizeof(Value)))
      positional_.insert(positional_.end(), items.begin(), items.end());
  }
  if (shape.has_mapping) add_mapping(stack_[at]);
  stack_.resize(base);
  return !run_.failed();
}

bool Machine::add_mapping(const Value& mapping) {
  if (!mapping.is(Kind::dict)) {
    run_.fail(format_text("argument after ** must be a mapping, not {}", type_name(mapping)));
    return false;
  }
  for (const Entry& entry : *mapping.dict) {
    if (!entry.key.is_text()) {
      run_.fail("keywords must be strings");
      return false;
    }
    const bool is_twice = std::any_of(named_.begin(), named_.end(), [&](const Named& named) {
      return named.name.text->view() == entry.key.text->view();
    });
    if (is_twice) run_.fail(format_text("got multiple values for keyword argument {}", quoted(entry.key)));
    if (!run_.charge(named_.size() + 1)) return false;
    named_.push_back({entry.key, entry.value});
  }
  return true;
}

void Machine::call(const Instruction& instruction) {
  if (!take_arguments(program_.shapes[static_cast<std::size_t>(instruction.arg)])) return;
  const Value callee = pop();
  const Arguments arguments = {{}, positional_, named_};
  switch (callee.kind) {
    case Kind::macro: return call_macro(*callee.macro);
    case Kind::loop: return call_loop(*callee.loop);
    case Kind::function: return push(call_function(run_, callee.function, arguments));
    case Kind::method: return push(call_method(run_, *callee.method, arguments));
    case Kind::joiner: {
      Joiner& joiner = *callee.joiner;
      if (std::exchange(joiner.used, true)) return push(joiner.separator);
      return push(run_.text_in_place({}, 0));
    }
    case Kind::undefined: run_.fail_undefined(callee); return;
    default: run_.fail(format_text("'{}' object is not callable", type_name(callee)));
  }
}

/// Begins a call whose output becomes a value.
bool Machine::enter(Scope* scope, std::size_t target) {
  if (frames_.size() >= kMaxCalls) {
    run_.fail(
        format_text("macros and recursive loops call each other deeper than {} levels, which is the most; a template's "
                    "calls end sooner",
                    kMaxCalls),
        Code::buffer_too_small);
    return false;
  }
  frames_.push_back({ip_, scope_, heights()});
  captures_.emplace_back(run_);
  // Inside {% generation %} what a macro returns is marked where it is written.
  generated_ = 0;
  scope_ = scope;
  ip_ = target;
  return true;
}

void Machine::leave() {
  const Frame frame = frames_.back();
  frames_.pop_back();
  while (captures_.size() > frame.heights.captures + 1) captures_.pop_back();
  const Value text = captures_.back().finish();
  restore(frame.heights);
  scope_ = frame.scope;
  ip_ = frame.back;
  push(text);
}

void Machine::call_macro(const Macro& macro) {
  Scope* scope = new_scope(macro.scope);
  if (bind_macro(macro, *scope)) enter(scope, macro.begin);
}

/// Sets the parameters that are given: first by position, then by name.
bool Machine::bind_macro(const Macro& macro, Scope& scope) {
  const std::vector<std::uint32_t>& parameters = macro.code->parameters;
  const std::size_t n = std::min(positional_.size(), parameters.size());
  for (std::size_t i = 0; i < n; ++i) set_variable(run_, scope, parameters[i], positional_[i]);
  for (std::size_t i = n; i < parameters.size() && !named_.empty(); ++i) {
    const auto found = std::find_if(named_.begin(), named_.end(), [&](const Named& named) {
      return named.name.text->view() == program_.name(parameters[i]);
    });
    if (!run_.charge(named_.size() + 1)) return false;
    if (found == named_.end()) continue;
    set_variable(run_, scope, parameters[i], found->value);
    named_.erase(found);
  }
  return bind_specials(macro, scope, n);
}

/// Sets caller, kwargs and varargs, where the macro mentions them; refuses arguments that are left otherwise.
bool Machine::bind_specials(const Macro& macro, Scope& scope, std::size_t n_used) {
  const auto caller = std::find_if(named_.begin(), named_.end(),
                                   [](const Named& named) { return named.name.text->view() == "caller"; });
  if (macro.code->has_caller) {
    set_variable(run_, scope, program_.caller_name,
                 caller != named_.end() ? caller->value : run_.undefined_hint("No caller defined"));
    if (caller != named_.end()) named_.erase(caller);
  }
  if (macro.code->has_kwargs) {
    Dict* kwargs = run_.make(Dict{});
    for (const Named& named : named_) set(run_, *kwargs, named.name, named.value);
    set_variable(run_, scope, program_.kwargs_name, dict_value(kwargs, 0));
  } else if (!named_.empty()) {
    if (caller != named_.end() && !macro.code->has_caller) {
      run_.fail(
          format_text("macro {} was invoked with two values for the special caller argument. This is most likely a "
                      "bug.",
                      quoted(macro.name)));
      return false;
    }
    run_.fail(format_text("macro {} takes no keyword argument {}", quoted(macro.name), quoted(named_.front().name)));
    return false;
  }
  if (macro.code->has_varargs) {
    set_variable(run_, scope, program_.varargs_name,
                 run_.list(std::span<const Value>(positional_).subspan(n_used), 0, Kind::tuple));
  } else if (positional_.size() > n_used) {
    run_.fail(
        format_text("macro {} takes not more than {} argument(s)", quoted(macro.name), macro.code->parameters.size()));
    return false;
  }
  return !run_.failed();
}

void Machine::set_missing(const Instruction& instruction) {
  const Value& name = program_.names[static_cast<std::size_t>(instruction.arg)];
  set_variable(run_, *scope_, static_cast<std::uint32_t>(instruction.arg),
               run_.undefined_hint(format_text("parameter {} was not provided", quoted(name))));
}

void Machine::make_macro(const Instruction& instruction) {
  const MacroCode& code = program_.macros[static_cast<std::size_t>(instruction.arg)];
  Value value;
  value.kind = Kind::macro;
  ListBuilder parameters(run_);
  for (const std::uint32_t name : code.parameters) parameters.add(program_.names[name]);
  value.macro = run_.make(Macro{&code, program_.names[code.name], parameters.finish(0).list->items, ip_ + 1, scope_});
  push(value);
}

void Machine::call_loop(LoopState& loop) {
  if (!loop.is_recursive) {
    run_.fail("The loop must have the 'recursive' marker to be called recursively.");
    return;
  }
  if (positional_.size() != 1 || !named_.empty()) {
    run_.fail("a recursive loop is called with one argument, what it goes over");
    return;
  }
  const Value items = positional_[0];
  if (!enter(loop.outer, loop.begin)) return;
  push(items);
  calls_loop_ = true;
  loop_depth_ = loop.depth0 + 1;
}

}  // namespace qinfer::jinja
