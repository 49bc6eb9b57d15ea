// A mixture of experts: the router, the choices (common/routes.h), then the two halves of the network. Each row of
// weights of an expert is widened once and multiplied with the rows that chose the expert, where they are: nothing is
// gathered.
#include <limits>

#include "common/routes.h"
#include "projection.h"

namespace qinfer::kernels::reference {
namespace {

enum Phase : std::int32_t { kRouter, kChoose, kList, kInner, kOuter };
static_assert(kOuter + 1 == kMoePhases);

std::int64_t router_units(const MoeArgs& args) { return output_units(args.router.rows); }

/// A row of the batch as a separate view.
Activations one_row(const Activations& x, std::int64_t row) { return {x.row(row), ActivationLayout::row_major, x.ld}; }

/// Outputs of the router, and with the last unit that of the shared one.
void router_outputs(const MoeArgs& args, Slice slice) {
  const Routes routes(args);
  const WorkerScratch scratch = worker_scratch(args.workspace, slice.worker, args.router.cols, args.n);
  const auto output = [&](const Linear& w, std::int64_t j, std::int64_t column) {
    project(args.x, args.n, w, j, scratch.weights, scratch.sums);
    for (std::int64_t m = 0; m < args.n; ++m) routes.logits[m * routes.ld + column] = scratch.sums[m];
  };
  for_each_output(slice, args.router.rows, [&](std::int64_t j) { output(args.router, j, j); });
  if (args.has_shared() && slice.begin < slice.end && slice.end == router_units(args))
    output(args.shared_router, 0, args.router.rows);
}

/// Where the values between the halves are, for the rows of a slot.
float* inner_rows(const MoeArgs& args, const ExpertSlot& slot) {
  return reinterpret_cast<float*>(args.buffers.inner) + slot.first * args.expert_width();
}

void inner_outputs(const MoeArgs& args, Slice slice) {
  const Routes routes(args);
  for (std::int64_t i = 0; i < routes.n_slots(); ++i) {
    const ExpertSlot& slot = routes.slots[i];
    const SlotLayers w = network_layers(args, slot);
    const Range<std::int64_t> tiles = inner_tiles(args, routes, i, kUnitOutputs, slice);
    const std::int64_t width = w.gate->rows, end = std::min(tiles.end * kUnitOutputs, width);
    const WorkerScratch scratch = worker_scratch(args.workspace, slice.worker, w.gate->cols, slot.count);
    const auto outputs = [&](const Linear& layer, std::int64_t j, float* values) {
      const float* weights = widen_row(layer, j, scratch.weights);
      for (std::int32_t r = 0; r < slot.count; ++r)
        dot_rows(one_row(args.x, routes.rows[slot.first + r].row), 1, weights, layer.cols, values + r, 1);
      finish_outputs(layer, j, slot.count, values);
    };
    for (std::int64_t j = tiles.begin * kUnitOutputs; j < end; ++j) {
      outputs(*w.gate, j, scratch.sums);
      outputs(*w.up, j, scratch.more_sums);
      for (std::int32_t r = 0; r < slot.count; ++r)
        inner_rows(args, slot)[r * width + j] =
            gated<ScalarOps>(args.activation, scratch.sums[r], scratch.more_sums[r]);
    }
  }
}

/// All experts' shares in some outputs.
void outer_outputs(const MoeArgs& args, Slice slice) {
  const Routes routes(args);
  const std::int64_t first = slice.begin * kUnitOutputs, end = std::min(slice.end * kUnitOutputs, args.down[0].rows);
  for (std::int64_t i = 0; i < routes.n_lost(); ++i)
    std::fill(args.out.row(routes.lost[i]) + first, args.out.row(routes.lost[i]) + end,
              std::numeric_limits<float>::quiet_NaN());
  for (std::int64_t i = 0; i < routes.n_slots(); ++i) {
    const ExpertSlot& slot = routes.slots[i];
    const Linear& down = *network_layers(args, slot).down;
    const WorkerScratch scratch = worker_scratch(args.workspace, slice.worker, down.cols, slot.count);
    const Activations inner{inner_rows(args, slot), ActivationLayout::row_major, down.cols};
    for (std::int64_t j = first; j < end; ++j) {
      project(inner, slot.count, down, j, scratch.weights, scratch.sums);
      for (std::int32_t r = 0; r < slot.count; ++r) {
        const RoutedRow& routed = routes.rows[slot.first + r];
        float& out = args.out.row(routed.row)[j];
        const float value = scratch.sums[r] * routed.weight * args.scale;
        out = routed.first && !args.accumulate ? value : out + value;
      }
    }
  }
}

}  // namespace

std::int64_t moe_ffn_units(const MoeArgs& args, std::int32_t phase) {
  switch (phase) {
    case kRouter: return router_units(args);
    case kChoose: return choice_units(args);
    case kList: return list_units(args);
    case kInner: return inner_units(args, Routes(args), kUnitOutputs);
    default: return output_units(args.down[0].rows);
  }
}

void moe_ffn(const MoeArgs& args, std::int32_t phase, Slice slice) {
  switch (phase) {
    case kRouter: return router_outputs(args, slice);
    case kChoose: return choose_experts(args, slice, args.workspace.of(slice.worker));
    case kList: return list_rows(args, slice);
    case kInner: return inner_outputs(args, slice);
    default: return outer_outputs(args, slice);
  }
}

MoeWorkspace moe_workspace(const Shape& shape) {
  const std::uint64_t inner =
      shape.routed_rows() * shape.expert_width + std::uint64_t{shape.batch} * shape.shared_width;
  const std::uint64_t widest = std::max({shape.hidden, shape.expert_width, shape.shared_width});
  const std::uint64_t products = scratch_bytes(static_cast<std::int64_t>(widest), shape.batch, 2);
  return {routes_bytes(shape), 0, round_up(inner * sizeof(float), 64), std::max(products, choice_bytes(shape.experts))};
}

}  // namespace qinfer::kernels::reference
