// The values that a template computes with: those of Python that jinja2 shows to templates. A Value is small and copied
// freely; what it points to is in the memory of the rendering (or of the program, for literals) and never changes,
// except namespaces, iterators, loops, cyclers and joiners.
//
// Every byte of a text carries marks: whether it comes from the conversation (kContent) and whether it was written
// inside {% generation %} (kGenerated). Other values carry the marks of what they were computed from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace qinfer::jinja {

using Marks = std::uint8_t;
inline constexpr Marks kContent = 1, kGenerated = 2;

enum class Kind : std::uint8_t {
  undefined,
  none,
  boolean,
  integer,
  big_integer,  ///< beyond 64 bits: it can be printed, but not computed with
  number,       ///< a double
  text,
  list,
  tuple,
  dict,
  view,      ///< what keys(), values() and items() give
  iterator,  ///< what gives its elements once: a generator, reversed()
  range,
  space,  ///< namespace()
  loop,
  macro,
  function,  ///< of Function
  method,
  cycler,
  joiner,
};

/// The functions that templates find without being given them.
enum class Function : std::uint8_t {
  range,
  dict,
  lipsum,
  cycler,
  joiner,
  space,
  raise_exception,
  strftime_now,
  from_keys,
  none
};

struct TextBuffer;
struct Text;
struct List;
struct Dict;
struct View;
struct Iterator;
struct Range;
struct LoopState;
struct Macro;
struct Method;
struct Cycler;
struct Joiner;
struct Missing;

struct Value {
  Kind kind = Kind::undefined;
  Marks marks = 0;  ///< of a value that is no text
  union {
    const Missing* missing = nullptr;  ///< may be null: undefined for no reason that is known
    bool boolean;
    std::int64_t integer;
    double number;
    const Text* text;  ///< of big_integer too: its digits
    const List* list;  ///< of tuple too
    Dict* dict;        ///< of space too
    const View* view;
    Iterator* iterator;
    const Range* range;
    LoopState* loop;
    const Macro* macro;
    Function function;
    const Method* method;
    Cycler* cycler;
    Joiner* joiner;
  };

  bool is(Kind other) const { return kind == other; }
  bool is_text() const { return kind == Kind::text; }
  bool is_undefined() const { return kind == Kind::undefined; }
  bool is_none() const { return kind == Kind::none; }
  /// bool is an int in Python.
  bool is_integral() const { return kind == Kind::integer || kind == Kind::boolean; }
  bool is_numeric() const { return is_integral() || kind == Kind::number; }
  std::int64_t as_integer() const { return kind == Kind::boolean ? static_cast<std::int64_t>(boolean) : integer; }
  double as_number() const { return kind == Kind::number ? number : static_cast<double>(as_integer()); }
};

/// Bytes that are valid UTF-8.
struct Text {
  const char* data = "";
  std::size_t size = 0;
  const Marks* each = nullptr;  ///< of each byte; null where all bytes have the marks `any`
  Marks any = 0;                ///< all marks that any byte may have
  bool markup = false;          ///< made by the filter safe or escape: what is added to it is escaped for HTML
  TextBuffer* buffer = nullptr;

  std::string_view view() const { return {data, size}; }
  Marks marks_at(std::size_t i) const { return each != nullptr ? each[i] : any; }
};

/// Where a text has room to grow: the text that ends at `used` can be continued without a copy.
struct TextBuffer {
  char* data;
  Marks* marks;
  std::size_t used, capacity;
};

struct List {
  const Value* items = nullptr;
  std::size_t size = 0;
  bool is_group = false;  ///< what groupby gives: its two elements are its attributes grouper and list
  const Value* begin() const { return items; }
  const Value* end() const { return items + size; }
};

struct Entry {
  Value key, value;
  std::uint64_t hash;
};
/// Entries in the order in which their keys were first set.
struct Dict {
  Entry* entries = nullptr;
  std::size_t size = 0, capacity = 0;
  std::uint32_t* slots = nullptr;  ///< entry + 1 by hash, 0 for none; null for few entries
  std::size_t n_slots = 0;
  const Entry* begin() const { return entries; }
  const Entry* end() const { return entries + size; }
};

struct View {
  const char* type;  ///< "dict_keys"
  List items;
};
struct Iterator {
  const char* type;      ///< "generator"
  const char* function;  ///< whose generator it is
  List items;
  std::size_t position;
};
struct Range {
  std::int64_t start, stop, step, size;
  /// Number i, which is within 64 bits where the range has it; its multiple of the step may not be.
  std::int64_t at(std::int64_t i) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(start) +
                                     static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(step));
  }
};
struct Cycler {
  List items;
  std::size_t position;
};
struct Joiner {
  Value separator;
  bool used;
};
struct Method {
  Value self;
  std::uint16_t index;  ///< in the table of methods
  const char* name;
};

/// Why a value is undefined.
struct Missing {
  enum class Reason : std::uint8_t { variable, attribute, element, hint, unsafe };
  Reason reason;
  Value name;          ///< the name or key that was asked for; with hint the whole message
  const char* object;  ///< "dict object", what was asked; with unsafe the type's name
};

inline Value none_value() {
  Value value;
  value.kind = Kind::none;
  return value;
}
inline Value boolean_value(bool boolean, Marks marks = 0) {
  Value value;
  value.kind = Kind::boolean;
  value.marks = marks;
  value.boolean = boolean;
  return value;
}
inline Value integer_value(std::int64_t integer, Marks marks = 0) {
  Value value;
  value.kind = Kind::integer;
  value.marks = marks;
  value.integer = integer;
  return value;
}
inline Value number_value(double number, Marks marks = 0) {
  Value value;
  value.kind = Kind::number;
  value.marks = marks;
  value.number = number;
  return value;
}
inline Value text_value(const Text* text) {
  Value value;
  value.kind = Kind::text;
  value.text = text;
  return value;
}
inline Value list_value(const List* list, Marks marks, Kind kind = Kind::list) {
  Value value;
  value.kind = kind;
  value.marks = marks;
  value.list = list;
  return value;
}
inline Value dict_value(Dict* dict, Marks marks, Kind kind = Kind::dict) {
  Value value;
  value.kind = kind;
  value.marks = marks;
  value.dict = dict;
  return value;
}
inline Value function_value(Function function) {
  Value value;
  value.kind = Kind::function;
  value.function = function;
  return value;
}

/// The marks of a value itself; of a list those of the list, not of its elements.
inline Marks marks_of(const Value& value) { return value.is_text() ? value.text->any : value.marks; }

/// Python's truth of a value.
bool is_true(const Value& value);
/// type(value).__name__
const char* type_name(const Value& value);
/// What jinja2 calls the value where it lacks an attribute: "dict object".
const char* object_name(const Value& value);
/// The message of using an undefined value.
std::string undefined_message(const Value& value);

}  // namespace qinfer::jinja
