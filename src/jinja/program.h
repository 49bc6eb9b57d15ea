// What a template is compiled to: instructions for a machine with a stack of values. Jumps are relative, so that the
// parser can move pieces of code; nothing in a program changes after it is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "jinja/value.h"

namespace qinfer::jinja {

/// Operands are on the stack, in the order in which they were written; results replace them. `arg` of jumps is relative
/// to the jump itself.
enum class Op : std::uint8_t {
  constant,   ///< pushes constant arg
  load,       ///< pushes the variable named arg
  store,      ///< sets the variable named arg
  set_field,  ///< value, namespace: sets the attribute named arg
  unpack,     ///< replaces a value by its arg elements, the first on top
  pop,
  attribute,  ///< of the name arg
  item,
  slice,   ///< object, start, stop, step
  binary,  ///< small: Binary
  negate,
  plus,
  invert,         ///< not
  compare,        ///< small: Compare
  compare_chain,  ///< false: the result, and jumps; otherwise the right operand stays
  concat,         ///< arg values, as ~ does
  make_list,      ///< of arg values
  make_tuple,
  make_dict,     ///< of arg pairs
  call,          ///< of shape arg
  filter,        ///< small: which, arg: shape
  test,          ///< the same
  missing_name,  ///< fails: there is no filter (flag 0) or test (flag 1) named arg
  jump,
  jump_if_false,
  jump_if_false_keep,  ///< false stays on the stack, anything else is dropped
  jump_if_true_keep,
  output,
  begin_capture,
  end_capture,  ///< pushes what was written since
  begin_generation,
  end_generation,
  push_scope,  ///< flag 1: inside the outermost one
  pop_scope,
  for_begin,    ///< takes what is iterated. flag: recursive
  filter_next,  ///< as for_next, before the loop
  filter_keep,  ///< keeps the element if the condition holds
  filter_done,
  for_next,    ///< the next element, or jumps
  for_accept,  ///< it passed the condition: counts, and sets `loop`
  for_done,    ///< the end of the body was reached
  for_exit,    ///< jumps over `else` if a turn of the loop reached its end
  for_end,
  break_loop,  ///< placeholders, until the loop is complete
  continue_loop,
  make_macro,   ///< arg: which. A jump over the macro's code follows
  make_caller,  ///< the same, and pushes it
  skip_if_set,  ///< jumps if parameter small has a value
  set_missing,  ///< parameter small of the macro is undefined
  end_macro,    ///< returns what was written
  end,
};

enum class Binary : std::uint16_t { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class Compare : std::uint16_t { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };

struct Instruction {
  Op op;
  std::uint8_t flag;
  std::uint16_t small;
  std::int32_t arg;
  std::uint32_t at;  ///< offset in the source, for messages
};
using Instructions = std::vector<Instruction>;

/// How arguments lie on the stack: positional ones, those with names, `*list`, `**mapping`.
struct CallShape {
  std::uint32_t positional = 0;
  std::vector<std::uint32_t> names;
  bool has_list = false, has_mapping = false;
  std::size_t size() const { return positional + names.size() + (has_list ? 1U : 0U) + (has_mapping ? 1U : 0U); }
};

struct MacroCode {
  std::uint32_t name = 0;
  std::vector<std::uint32_t> parameters;
  std::size_t n_defaults = 0;  // of the last parameters
  bool has_caller = false, has_varargs = false, has_kwargs = false;
};

struct Program {
  std::string source;
  Instructions code;
  std::vector<Value> constants;
  std::vector<Value> names;
  std::vector<CallShape> shapes;
  std::vector<MacroCode> macros;
  std::vector<bool> is_read;  ///< of each name: whether a variable of that name is read
  bool marks_generation = false;
  std::uint32_t caller_name = 0, kwargs_name = 0, varargs_name = 0;
  std::int64_t loop_name = -1;      ///< `loop`, if the template mentions it
  std::deque<std::string> strings;  // what constants and names point to
  std::deque<Text> texts;
  std::deque<Missing> missing;

  std::string_view name(std::uint32_t index) const { return names[index].text->view(); }
};

}  // namespace qinfer::jinja
