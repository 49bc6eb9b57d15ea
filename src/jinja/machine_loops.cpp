// See machine.h: loops, and what a template may ask of `loop`.
#include <algorithm>

#include "jinja/compare.h"
#include "jinja/machine.h"

namespace qinfer::jinja {

void Machine::begin_loop(const Instruction& instruction) {
  const Value iterated = pop();
  LoopState state = {};
  state.items = *elements(run_, iterated);
  state.marks = marks_of(iterated);
  state.index0 = -1;
  state.is_recursive = instruction.flag == 1;
  state.is_called = std::exchange(calls_loop_, false);
  state.depth0 = std::exchange(loop_depth_, 0);
  state.begin = ip_ - 1;
  state.outer = scope_;
  state.scope = new_scope(scope_);
  loops_.push_back(nullptr);
  state.heights = heights();
  loops_.back() = run_.make(state);
}

/// Goes on to the next element, in an empty scope.
bool Machine::next_element(LoopState& loop) {
  restore(loop.heights);
  scope_ = loop.scope;
  loop.scope->size = 0;
  if (loop.position >= loop.items.size) return false;
  push(loop.items.items[loop.position++]);
  return true;
}

void Machine::step_loop(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::for_begin: return begin_loop(instruction);
    case Op::make_macro:
    case Op::make_caller: return make_macro(instruction);
    case Op::skip_if_set: {
      const Instruction& setter = program_.code[ip_ - 1 + static_cast<std::size_t>(instruction.arg) - 1];
      for (std::uint32_t i = 0; i < scope_->size; ++i)
        if (scope_->variables[i].name == static_cast<std::uint32_t>(setter.arg)) return jump(instruction);
      return;
    }
    case Op::set_missing: return set_missing(instruction);
    case Op::end_macro: return leave();
    default: break;
  }
  LoopState& loop = *loops_.back();
  switch (instruction.op) {
    case Op::filter_next:
      if (loop.position == 0) kept_.emplace_back(run_);
      if (!next_element(loop)) jump(instruction);
      return;
    case Op::filter_keep:
      if (is_true(pop())) kept_.back().add(loop.items.items[loop.position - 1]);
      return;
    case Op::filter_done:
      loop.items = *kept_.back().finish(0).list;
      loop.position = 0;
      kept_.pop_back();
      return;
    case Op::for_next:
      if (!next_element(loop)) jump(instruction);
      return;
    case Op::for_accept: {
      ++loop.index0;
      loop.previous = loop.current;
      loop.current = loop.items.items[loop.position - 1];
      if (program_.loop_name < 0) return;
      Value value;
      value.kind = Kind::loop;
      value.loop = &loop;
      set_variable(run_, *loop.scope, static_cast<std::uint32_t>(program_.loop_name), value);
      return;
    }
    case Op::for_done: loop.is_done = true; return;
    case Op::for_exit:
      restore(loop.heights);
      scope_ = loop.outer;
      if (loop.is_done) jump(instruction);
      return;
    case Op::for_end: {
      const bool is_called = loop.is_called;
      loops_.pop_back();
      if (is_called) leave();
      return;
    }
    default: return;
  }
}

bool loop_attribute(Run& run, LoopState& loop, std::string_view name, Value& found) {
  const auto n = static_cast<std::int64_t>(loop.items.size);
  const auto number = [&](std::int64_t value) {
    found = integer_value(value, loop.marks);
    return true;
  };
  if (name == "index") return number(loop.index0 + 1);
  if (name == "index0") return number(loop.index0);
  if (name == "length") return number(n);
  if (name == "revindex") return number(n - loop.index0);
  if (name == "revindex0") return number(n - loop.index0 - 1);
  if (name == "depth") return number(loop.depth0 + 1);
  if (name == "depth0") return number(loop.depth0);
  if (name == "first" || name == "last") {
    found = boolean_value(name == "first" ? loop.index0 == 0 : loop.position >= loop.items.size, loop.marks);
    return true;
  }
  if (name == "previtem") {
    found = loop.index0 == 0 ? run.undefined_hint("there is no previous item") : loop.previous;
    return true;
  }
  if (name == "nextitem") {
    found = loop.position >= loop.items.size ? run.undefined_hint("there is no next item")
                                             : loop.items.items[loop.position];
    return true;
  }
  Value self;
  self.kind = Kind::loop;
  self.loop = &loop;
  found = find_method(run, self, name);
  return !found.is_undefined();
}

Value loop_cycle(Run& run, const LoopState& loop, std::span<const Value> values) {
  if (values.empty()) return run.fail("no items for cycling given");
  return values[static_cast<std::size_t>(loop.index0) % values.size()];
}

Value loop_changed(Run& run, LoopState& loop, std::span<const Value> values) {
  const Value now = run.list(values, 0, Kind::tuple);
  const bool is_same = loop.changed != nullptr && is_equal(run, list_value(loop.changed, 0, Kind::tuple), now);
  loop.changed = now.list;
  return boolean_value(!is_same);
}

}  // namespace qinfer::jinja
