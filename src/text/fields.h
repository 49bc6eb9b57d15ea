// Helpers to read the parts of tokenizer.json: error wording, the kind of a component, its patterns.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "formats/json.h"

namespace qinfer::text {

using formats::FieldReader;
using formats::Json;

/// Of what is put before or after each word, which costs that many steps.
inline constexpr std::size_t kMaxAffixBytes = 256;

/// Gives back what a string or vector has reserved beyond its size. (The library's shrink_to_fit may do nothing, and
/// refers to std::terminate.)
template <typename T>
void trim(T& container) {
  T(container.begin(), container.end(), container.get_allocator()).swap(container);
}

/// Text from a file for use in a message: in quotation marks, cut to some 60 bytes, control characters escaped.
std::string in_quotes(std::string_view text);

template <typename... Args>
Status malformed(fmt::format_string<Args...> format, Args&&... args) {
  return error_at(Code::format, -1, format, std::forward<Args>(args)...);
}

/// Checks that `value` is an object and returns its "type".
Result<std::string> component_kind(const Json& value, std::string_view where);

/// Refuses fields that are not in `known`: an option this library has never heard of changes what the file means.
Status check_fields(const Json& object, std::string_view where, std::initializer_list<std::string_view> known);

/// Returns the Status of a component kind that is not implemented.
Status unsupported_kind(std::string_view where, std::string_view kind, std::string_view known);

/// The elements of the array `key` of `object`.
Result<const Json*> required_array(const Json& object, std::string_view key, std::string_view where);
Result<std::string> required_string(const Json& object, std::string_view key, std::string_view where);
Result<bool> required_boolean(const Json& object, std::string_view key, std::string_view where);
/// A string of exactly one character.
Result<char32_t> required_character(const Json& object, std::string_view key, std::string_view where);

}  // namespace qinfer::text
