// Whether this process may use the tile registers of AMX: the CPU must have them in the form that the kernels use, the
// system must save them, and it must permit this process to use them, which it is asked for once they are wanted.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace qinfer::platform {

struct CpuidResult {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

/// Where the answers come from; tests give their own.
struct TileSystem {
  CpuidResult (*cpuid)(unsigned leaf, unsigned subleaf) = nullptr;
  std::uint64_t (*enabled_state)() = nullptr;  ///< XCR0: the register files that the system saves
  /// For the whole process, for good; asking again is harmless. A refusal is tile_refusal().
  Status (*request_permission)() = nullptr;
};

/// QINFER_E_UNSUPPORTED with the reason why the system may have refused: `code` is the errno of arch_prctl.
Status tile_refusal(int code);

/// This CPU and system.
const TileSystem& tile_system();

/// CPUID leaf 7 (AMX-TILE, AMX-BF16), XCR0 bits 17 and 18, leaf 1D (palette 1: eight tiles of 16 rows of 64 bytes) and
/// leaf 1E (multiplications of 16 by 64 bytes): Intel SDM, volume 1, 18.2. Some virtual machines show the first two
/// without the others.
bool has_tiles(const TileSystem& system);

}  // namespace qinfer::platform
