// The values that belong to the machine: scopes, loops and macros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "jinja/program.h"
#include "jinja/run.h"

namespace qinfer::jinja {

struct Variable {
  std::uint32_t name;
  Value value;
};
/// Variables that a loop's turn, a macro's call or a block sets; what is not there is looked for in `parent`.
struct Scope {
  Scope* parent;
  Variable* variables;
  std::uint32_t size, capacity;
};

/// Null if there is none. Looking through many variables takes steps.
const Value* find_variable(Run& run, const Scope* scope, std::uint32_t name);
void set_variable(Run& run, Scope& scope, std::uint32_t name, const Value& value);

/// How much is on each of the machine's stacks.
struct Heights {
  std::size_t values, loops, blocks, captures;
  Marks generated;
};

struct LoopState {
  List items;
  Marks marks;           ///< of what is iterated
  std::size_t position;  ///< of the next element
  std::int64_t index0;   ///< of the elements that passed
  std::int64_t depth0;
  Value current, previous;
  const List* changed;  ///< what changed() was last called with
  bool is_recursive, is_called, is_done;
  std::size_t begin;  ///< the instruction that begins it
  Scope* outer;
  Scope* scope;
  Heights heights;
};

struct Macro {
  const MacroCode* code;
  Value name;
  const Value* parameters;  ///< the parameters' names
  std::size_t begin;        ///< its first instruction
  Scope* scope;             ///< where it was made
};

/// loop.first and its like. False if a loop has no such attribute.
bool loop_attribute(Run& run, LoopState& loop, std::string_view name, Value& found);
/// Its methods cycle() and changed().
Value loop_cycle(Run& run, const LoopState& loop, std::span<const Value> values);
Value loop_changed(Run& run, LoopState& loop, std::span<const Value> values);

}  // namespace qinfer::jinja
