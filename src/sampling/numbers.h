// Small things that the files of this folder share.
#pragma once

#include <algorithm>
#include <limits>

namespace qinfer::sampling {

/// The nearest float that is finite, of a number that is not NaN.
inline float saturated(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(value, -kMost, kMost));
}

}  // namespace qinfer::sampling
