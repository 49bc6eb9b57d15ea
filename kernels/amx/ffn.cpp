// The feed-forward network: its two halves, and before each what additions make of the rows. See ffn.h.
#include "amx/ffn.h"

namespace qinfer::kernels::amx {

namespace {

/// Value k of row m of what the first half has written.
float inner_at(const FfnArgs& args, bool turned, std::int64_t m, std::int64_t k) {
  const Activations panels{inner_panels(args), ActivationLayout::bf16_panels, args.gate.rows};
  if (!turned) return operand_at(panels, m, k);
  const std::uint32_t* panel = inner_panels(args) + m / kPanelLanes * panel_dwords(args.gate.rows);
  const std::uint32_t pair = panel[k / kStep * kPairStepDwords + m % kPanelLanes * 16 + k % kStep / 2];
  return std::bit_cast<float>(k % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
}

void first_half(const FfnArgs& args, bool turned, Slice slice, const OwnSpace& own) {
  const Panels x = prepared({&args.gate, &args.up}, args.x, args.n, turned_operands(args), own);
  if (args.has_up()) {
    prefetch_first(gate_and_up_rows(args, slice.begin * kUnitRows), args.n);
    return gate_and_up(args, x, turned, slice, own);
  }
  prefetch_first(rows_of(args.gate, slice.begin * kUnitRows, args.gate.rows), args.n);
  gate_alone(args, x, turned, slice, own);
}

}  // namespace

std::int64_t ffn_units(const FfnArgs& args, std::int32_t phase) {
  if (phase == 0) return prepare_units({&args.gate, &args.up}, args.n);
  if (phase == 2) return inner_units({&args.down});
  return units_of(phase == 1 ? args.gate.rows : args.down.rows);
}

void ffn(const FfnArgs& args, std::int32_t phase, Slice slice) {
  const bool turned = takes_turned({&args.down});
  if (phase == 0) return prepare({&args.gate, &args.up}, args.x, args.n, slice, turned_operands(args));
  if (phase == 2)
    return write_inner_of({&args.down}, slice,
                          [&](std::int64_t m, std::int64_t k) { return inner_at(args, turned, m, k); });
  const TileRegion region;
  const OwnSpace own(args.workspace, slice.worker);
  if (phase == 1) return first_half(args, turned, slice, own);
  prefetch_first(rows_of(args.down, slice.begin * kUnitRows, args.down.rows), args.n);
  const std::uint32_t* inner = inner_panels(args);
  project_residual({turned ? nullptr : inner, args.n, args.gate.rows, turned ? inner : nullptr}, args.down,
                   args.accumulate, slice, own, args.out);
}

WorkspaceSize ffn_workspace(const Shape& shape) {
  return {panels_bytes(shape.batch, shape.ffn) + turned_bytes(shape.batch, shape.hidden),
          OwnSpace::bytes(shape.batch, 1, larger(shape.hidden, shape.ffn))};
}

}  // namespace qinfer::kernels::amx
