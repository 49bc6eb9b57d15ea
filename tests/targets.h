// The kernel sets that this CPU can run, as values of cpu_target.
#pragma once

#include <string>
#include <vector>

#include "kernel_set.h"
#include "platform/cpu.h"

namespace qinfer::test {

/// The CPU's features; those of AMX only where the system lets this process use tiles.
inline std::string usable_features() {
  const bool permitted = platform::has_tiles(platform::tile_system()) && platform::tile_system().request_permission();
  platform::TileSystem system = platform::tile_system();
  if (!permitted) system.enabled_state = [] { return std::uint64_t{0}; };
  return platform::detect_cpu(system).features;
}

/// `exact`: only those that QINFER_RUNTIME_EXACT allows.
inline std::vector<std::string> usable_targets(bool exact = false) {
  const std::string features = usable_features();
  std::vector<std::string> names;
  for (const kernels::KernelSetInfo& info : kernels::kernel_sets())
    if (kernels::find_kernel_set(info.name, features, exact) != nullptr) names.emplace_back(info.name);
  return names;
}

/// Only those where a token's results do not depend on how many are evaluated with it.
inline std::vector<std::string> invariant_targets() {
  const std::string features = usable_features();
  std::vector<std::string> names;
  for (const kernels::KernelSetInfo& info : kernels::kernel_sets())
    if (info.invariant && kernels::find_kernel_set(info.name, features) != nullptr) names.emplace_back(info.name);
  return names;
}

}  // namespace qinfer::test
