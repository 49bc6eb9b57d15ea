// The range by which positions, lanes, tiles and rows are cut.
#pragma once

namespace qinfer::kernels {

/// [begin, end); empty where begin >= end.
template <typename T>
struct Range {
  T begin = 0, end = 0;
};

}  // namespace qinfer::kernels
