// Runs a Program. Calls of macros and recursive loops are frames of the machine, not of the thread's stack.
#pragma once

#include <string>
#include <vector>

#include "jinja/builtins.h"
#include "jinja/machine_values.h"
#include "jinja/program.h"
#include "jinja/run.h"

namespace qinfer::jinja {

class Machine {
 public:
  Machine(Run& run, const Program& program);
  /// A variable that the template finds.
  void define(std::string_view name, const Value& value);
  /// Runs to the end, or until the Run has failed; at() is then where.
  void execute();
  std::size_t at() const { return at_; }
  const TextBuilder& output() const { return captures_.front(); }

 private:
  struct Frame {
    std::size_t back;
    Scope* scope;
    Heights heights;
  };

  void step(const Instruction& instruction);
  void step_value(const Instruction& instruction);
  void step_block(const Instruction& instruction);
  void step_loop(const Instruction& instruction);
  void jump(const Instruction& instruction) { ip_ = ip_ + static_cast<std::size_t>(instruction.arg) - 1; }

  void push(const Value& value) { stack_.push_back(value); }
  Value pop() {
    const Value value = stack_.back();
    stack_.pop_back();
    return value;
  }
  Scope* new_scope(Scope* parent);
  Heights heights() const { return {stack_.size(), loops_.size(), blocks_.size(), captures_.size(), generated_}; }
  void restore(const Heights& heights);

  void load(std::uint32_t name);
  void write(const Value& value);
  void set_field(std::uint32_t name);
  void unpack(std::size_t n);
  void make_dict(std::size_t n);
  void set_missing(const Instruction& instruction);
  void make_macro(const Instruction& instruction);
  Value end_capture();

  bool take_arguments(const CallShape& shape);
  bool add_mapping(const Value& mapping);
  void call(const Instruction& instruction);
  void call_macro(const Macro& macro);
  bool bind_macro(const Macro& macro, Scope& scope);
  bool bind_specials(const Macro& macro, Scope& scope, std::size_t n_used);
  void call_loop(LoopState& loop);
  bool enter(Scope* scope, std::size_t target);
  void leave();

  void begin_loop(const Instruction& instruction);
  bool next_element(LoopState& loop);

  Run& run_;
  const Program& program_;
  Scope* context_;    // the variables that the caller gave
  Scope* outermost_;  // and those that the template sets outside all blocks
  Scope* scope_;
  std::size_t ip_ = 0, at_ = 0;
  Marks generated_ = 0;
  bool calls_loop_ = false;  // the next loop that begins is a call of itself
  std::int64_t loop_depth_ = 0;
  std::vector<Value> stack_;
  std::vector<LoopState*> loops_;
  std::vector<Scope*> blocks_;     // the scopes around those that blocks opened
  std::vector<ListBuilder> kept_;  // elements that passed the condition of a loop, for each that is being asked
  std::vector<TextBuilder> captures_;
  std::vector<Frame> frames_;
  std::vector<Value> positional_;
  std::vector<Named> named_;
};

}  // namespace qinfer::jinja
