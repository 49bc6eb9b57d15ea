// See format.h: the one file with fmt's code in it.
#define FMT_HEADER_ONLY
#include "base/format.h"

#include <fmt/format.h>

#include <iterator>

namespace qinfer {

void append_formatted(std::string& out, fmt::string_view format, fmt::format_args args) {
  fmt::vformat_to(std::back_inserter(out), format, args);
}

}  // namespace qinfer
