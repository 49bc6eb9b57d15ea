// Span: a part of a text, by its bytes.
#pragma once

#include <cstddef>

namespace qinfer {

/// Bytes [begin, end).
struct Span {
  std::size_t begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

}  // namespace qinfer
