// The escapes of string literals, as Python's unicode-escape codec reads them.
#pragma once

#include <string>
#include <string_view>

namespace qinfer::jinja {

/// Appends to `out` what stands between the quotes of a literal. Returns what is wrong with it, or null.
const char* read_string_literal(std::string_view literal, std::string& out);

}  // namespace qinfer::jinja
