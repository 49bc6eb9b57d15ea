// Random bytes of the operating system.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace qinfer::platform {

/// Fills `out` from the system's cryptographic generator.
Status fill_random(std::span<std::byte> out);

}  // namespace qinfer::platform
