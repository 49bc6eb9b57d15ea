// The size of a weight tile, which layouts, inner loops and quantised tiles share.
#pragma once

#include <cstdint>

namespace qinfer::kernels {

/// Rows of a weight tile, whose outputs are the lanes of two registers.
inline constexpr std::int64_t kTileRows = 32;

}  // namespace qinfer::kernels
