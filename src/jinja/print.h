// Values as text: Python's str() and repr(), and JSON as its json module writes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "jinja/run.h"

namespace qinfer::jinja {

/// str(value). A text's bytes keep their marks; all else has the value's.
void write_text(Run& run, TextBuilder& out, const Value& value, Marks more = 0);
void write_repr(Run& run, TextBuilder& out, const Value& value, int depth = 0);
Value to_text(Run& run, const Value& value);
/// repr() of a text or number for messages, cut where it is long.
std::string short_repr(const Value& value);

/// repr() of a float: the shortest digits that give it back.
std::string float_repr(double value);

struct JsonStyle {
  bool ascii = false, sort_keys = false, has_indent = false;
  Value indent;                     ///< a text, before each element once for each level
  Value item_separator, separator;  ///< texts
};
void write_json(Run& run, TextBuilder& out, const Value& value, const JsonStyle& style, int depth = 0);

}  // namespace qinfer::jinja
