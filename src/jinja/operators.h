// What the operators of expressions do, and how values are asked for attributes and elements.
#pragma once

#include <span>
#include <string_view>

#include "jinja/program.h"
#include "jinja/run.h"

namespace qinfer::jinja {

Value binary(Run& run, Binary op, const Value& a, const Value& b);
Value negate(Run& run, const Value& value);
Value plus(Run& run, const Value& value);
bool compare(Run& run, Compare op, const Value& a, const Value& b);
/// `a ~ b ~ c`
Value concat(Run& run, std::span<const Value> values);
Value add_texts(Run& run, const Text& a, const Text& b);

/// value.name
Value attribute(Run& run, const Value& value, const Value& name);
/// The same of a mapping, without what it has under the name as a key.
Value dict_attribute(Run& run, const Value& value, const Value& name);
/// value[key]
Value item(Run& run, const Value& value, const Value& key);
/// value[start:stop:step]; each part may be None.
Value slice(Run& run, const Value& value, const Value& start, const Value& stop, const Value& step);

/// The text `value % arguments`.
Value format_percent(Run& run, const Text& format, const Value& arguments);
/// The escaped text for HTML.
Value escape_html(Run& run, const Value& value);

}  // namespace qinfer::jinja
