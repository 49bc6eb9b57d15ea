// The tables of what templates may name: filters, tests, methods and functions. What is not in them does not exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "jinja/run.h"
#include "jinja/value.h"

namespace qinfer::jinja {

struct Named {
  Value name;  ///< a text
  Value value;
};
/// Arguments of a filter, test, method or function; the first positional one of a filter or test is its value.
struct Arguments {
  std::string_view called;
  std::span<const Value> positional;
  std::span<const Named> named;
};

/// Which filter or test has this name; -1 if none has.
int find_filter(std::string_view name);
int find_test(std::string_view name);
Value call_filter(Run& run, int index, const Arguments& arguments);
Value call_test(Run& run, int index, const Arguments& arguments);
/// The method `name` of a value as something to be called; Kind::undefined with `missing` null if it has none.
Value find_method(Run& run, const Value& self, std::string_view name);
Value call_method(Run& run, const Method& method, const Arguments& arguments);
/// The function that every template finds under this name; Function::none if there is none.
Function find_function(std::string_view name);
const char* function_name(Function function);
Value call_function(Run& run, Function function, const Arguments& arguments);

/// Puts arguments in the order of `names`; those not given are null. False with an error where one is unknown, given
/// twice, or missing among the first `n_required`.
bool bind_arguments(Run& run, const Arguments& arguments, std::span<const char* const> names, std::size_t n_required,
                    const Value** bound);

/// One row of a table.
using Builtin = Value (*)(Run& run, const Arguments& arguments);
struct BuiltinRow {
  const char* name;
  Builtin call;
};
/// The parts of the table of filters, each in a file of its own.
std::span<const BuiltinRow> text_filters();
std::span<const BuiltinRow> list_filters();
std::span<const BuiltinRow> other_filters();

using TextMethod = Value (*)(Run& run, const Value& self, const Arguments& arguments);
struct MethodRow {
  const char* name;
  TextMethod call;
};
std::span<const MethodRow> text_methods();
/// str.format and str.format_map.
Value format_method(Run& run, const Value& self, const Arguments& arguments);
Value format_map_method(Run& run, const Value& self, const Arguments& arguments);

}  // namespace qinfer::jinja
