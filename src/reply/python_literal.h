// Literals of Python, as templates and models write values that are no text: True, None, ['a', 'b'], {'k': 1.5}.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace qinfer::reply {

/// The value as JSON; nothing for what is no literal of None, a bool, a number as JSON has it, a text, a list, a tuple
/// or a dict with texts as keys, or nests deeper than JSON may (formats/json.h).
std::optional<std::string> json_of_python(std::string_view literal);

}  // namespace qinfer::reply
