// The loop over the phases of an operation, as every worker of a team runs it (kernel_set.h, Operation).
#pragma once

#include <cstdint>

#include "engine/team.h"
#include "kernel_set.h"

namespace qinfer::engine {

/// Runs all phases; called by every worker of the current run. The last worker to finish the last phase calls
/// then(worker) before the others go on. The units of a phase are asked after the barrier of the phase before it; a
/// phase without units costs no barrier.
template <typename Args, typename Then>
void run_phases(ThreadTeam& team, const kernels::Operation<Args>& operation, const Args& args, std::int32_t worker,
                Then&& then) {
  const std::int32_t last = operation.phases(args) - 1;
  for (std::int32_t phase = 0; phase <= last; ++phase) {
    const std::int64_t units = operation.units(args, phase);
    if (units == 0 && phase != last) continue;  // nothing to wait for
    const auto work = [&](std::int32_t w) {
      team.for_units(w, units, [&](std::int64_t begin, std::int64_t end) {
        operation.run(args, phase, {begin, end, w});
      });
    };
    if (phase == last) {
      team.together(worker, work, then);
    } else {
      team.together(worker, work, [](std::int32_t) {});
    }
  }
}

}  // namespace qinfer::engine
