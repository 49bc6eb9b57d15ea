// The feed-forward network: the two phases of it. See ffn.h.
#include "amx/ffn.h"

namespace qinfer::kernels::amx {

std::int64_t ffn_units(const FfnArgs& args, std::int32_t phase) {
  return units_of(phase == 0 ? args.gate.rows : args.down.rows);
}

void ffn(const FfnArgs& args, std::int32_t phase, Slice slice) {
  const TileRegion region;
  const OwnSpace own(args.workspace, slice.worker);
  if (phase == 0) {
    prefetch_first(gate_and_up_rows(args, slice.begin * kUnitRows), args.n);
    return gate_and_up(args, panels_of(args.x, args.n, args.gate.cols, own), slice, own);
  }
  prefetch_first(rows_of(args.down, slice.begin * kUnitRows, args.down.rows), args.n);
  project_residual({inner_panels(args), args.n, args.gate.rows}, args.down, args.accumulate, slice, own, args.out);
}

WorkspaceSize ffn_workspace(const Shape& shape) {
  return {panels_bytes(shape.batch, shape.ffn), OwnSpace::bytes(shape.batch, 1, shape.hidden)};
}

}  // namespace qinfer::kernels::amx
