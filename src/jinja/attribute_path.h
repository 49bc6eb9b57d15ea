// "address.city", "0.name": how filters name what they take from each element.
#pragma once

#include "jinja/run.h"

namespace qinfer::jinja {

/// The element at the path (a text with points, or an integer) of a value; where `otherwise` is given, that instead of
/// what is undefined on the way.
Value path_item(Run& run, const Value& value, const Value& path, const Value* otherwise = nullptr);

/// Texts without case, others as they are.
Value without_case(Run& run, const Value& value);

}  // namespace qinfer::jinja
