// What CPU this is and how much of it the process may use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platform/tiles.h"

namespace qinfer::platform {

// All of these ask CPUID and the system each time: nothing is cached, since affinity and quota can change.

/// Affinity mask and cgroup quota taken into account.
struct UsableCores {
  std::uint32_t physical = 1, logical = 1;
};
UsableCores usable_cores();

struct CpuInfo {
  UsableCores cores;
  std::uint32_t numa_nodes = 1;
  std::uint64_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;  ///< 0 = unknown
};
CpuInfo detect_cpu();

/// As the CPU names itself.
std::string cpu_name();

/// Names separated by spaces. Those of AMX are there only if has_tiles(). AVX512-BF16 and AVX512-FP16 are asked of
/// `tiles`, too: what tests emulate together.
std::string cpu_features(const TileSystem& tiles = tile_system());

}  // namespace qinfer::platform
