// Random bytes of the operating system.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace qinfer::platform {

/// Fills `out` with bytes that nobody can guess.
Status fill_random(std::span<std::byte> out);

}  // namespace qinfer::platform
