// The kernel sets that this CPU can run, as values of cpu_target.
#pragma once

#include <string>
#include <vector>

#include "kernel_set.h"
#include "platform/cpu.h"

namespace qinfer::test {

/// `exact`: only those that QINFER_RUNTIME_EXACT allows.
inline std::vector<std::string> usable_targets(bool exact = false) {
  const std::string features = platform::detect_cpu().features;
  std::vector<std::string> names;
  for (const kernels::KernelSetInfo& info : kernels::kernel_sets())
    if (kernels::find_kernel_set(info.name, features, exact) != nullptr) names.emplace_back(info.name);
  return names;
}

}  // namespace qinfer::test
