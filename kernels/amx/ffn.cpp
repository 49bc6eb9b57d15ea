// The feed-forward network: its two halves, and before each what additions make of the rows. See ffn.h.
#include "amx/ffn.h"

namespace qinfer::kernels::amx {

std::int64_t ffn_units(const FfnArgs& args, std::int32_t phase) {
  if (phase == 0) return inner_units({&args.gate, &args.up});
  if (phase == 2) return inner_units({&args.down});
  return units_of(phase == 1 ? args.gate.rows : args.down.rows);
}

void ffn(const FfnArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 0) return write_rounded_inner({&args.gate, &args.up}, args.x, slice);
  if (phase == 2)
    return write_inner({&args.down}, {inner_panels(args), ActivationLayout::bf16_panels, args.gate.rows}, slice);
  const TileRegion region;
  const OwnSpace own(args.workspace, slice.worker);
  if (phase == 1 && !args.has_up()) {
    prefetch_first(rows_of(args.gate, slice.begin * kUnitRows, args.gate.rows), args.n);
    return gate_alone(args, panels_of(args.x, args.n, args.gate.cols, own), slice, own);
  }
  if (phase == 1) {
    prefetch_first(gate_and_up_rows(args, slice.begin * kUnitRows), args.n);
    return gate_and_up(args, panels_of(args.x, args.n, args.gate.cols, own), slice, own);
  }
  prefetch_first(rows_of(args.down, slice.begin * kUnitRows, args.down.rows), args.n);
  project_residual({inner_panels(args), args.n, args.gate.rows}, args.down, args.accumulate, slice, own, args.out);
}

WorkspaceSize ffn_workspace(const Shape& shape) {
  return {panels_bytes(shape.batch, shape.ffn), OwnSpace::bytes(shape.batch, 1, larger(shape.hidden, shape.ffn))};
}

}  // namespace qinfer::kernels::amx
