// Parts of a text by their bytes, with which a caller says where they came from.
#pragma once

#include <cstddef>

namespace qinfer::text {

/// Bytes [begin, end).
struct TextPart {
  std::size_t begin = 0, end = 0;
};

}  // namespace qinfer::text
