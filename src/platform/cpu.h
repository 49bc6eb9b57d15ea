// What CPU this is and how much of it the process may use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platform/tiles.h"

namespace qinfer::platform {

struct CpuInfo {
  std::uint32_t physical_cores = 1;  ///< usable: affinity mask and cgroup quota taken into account
  std::uint32_t logical_cores = 1;   ///< likewise
  std::uint32_t numa_nodes = 1;
  std::uint64_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;  ///< 0 = unknown
  std::string model_name;
  std::string features;  ///< names separated by spaces
};

/// Asks CPUID and the system each time: nothing is cached, since affinity and quota can change. The features of AMX are
/// there only if has_tiles(). AVX512-BF16 and AVX512-FP16 are asked of `tiles`, too: what tests emulate together.
CpuInfo detect_cpu(const TileSystem& tiles = tile_system());

}  // namespace qinfer::platform
