// Text from a format string in the language of the fmt library, checked while compiling. Only fmt's declarations are
// here: its code is compiled once, in format.cpp. Compiled into every file that has a message, it took most of the time
// of building the library.
#pragma once

// A library must not abort or print: fmt's own consistency checks are compiled out in every build.
#ifndef FMT_ASSERT
#define FMT_ASSERT(condition, message) static_cast<void>(0)
#endif
#include <fmt/core.h>

#include <string>
#include <string_view>

namespace qinfer {

/// What append_text() calls: the arguments without their types.
void append_formatted(std::string& out, fmt::string_view format, fmt::format_args args);

template <typename... Args>
void append_text(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  append_formatted(out, format, fmt::make_format_args(args...));
}

template <typename... Args>
std::string format_text(fmt::format_string<Args...> format, Args&&... args) {
  std::string out;
  append_formatted(out, format, fmt::make_format_args(args...));
  return out;
}

/// The items, numbers or texts, with a separator between them.
template <typename Range>
std::string join_texts(const Range& items, std::string_view separator) {
  std::string out;
  const char* between = "{1}";  // nothing comes before the first
  for (const auto& item : items) {
    append_formatted(out, between, fmt::make_format_args(separator, item));
    between = "{0}{1}";
  }
  return out;
}

}  // namespace qinfer
