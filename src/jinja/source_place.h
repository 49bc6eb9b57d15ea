// Places in a template's source, as messages name them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace qinfer::jinja {

struct Place {
  std::size_t line = 1, column = 1;  ///< columns in characters
  std::string quote;                 ///< the line, or the part of it around the place
};

Place find_place(std::string_view source, std::size_t offset);

/// `chat template, line 3, column 5, in "{{ x.y }}": <what>`
std::string place_message(const Place& place, std::string_view what);

}  // namespace qinfer::jinja
