// Projections: linear, the feed-forward network and the LM head. A unit is 32 outputs for all rows; each row of
// weights is widened once and multiplied with every row of activations.
#include "projection.h"

namespace qinfer::kernels::reference {
namespace {

void linear_outputs(const LinearArgs& args, Slice slice) {
  const WorkerScratch scratch = worker_scratch(args.workspace, slice.worker, args.w.cols, args.n);
  for_each_output(slice, args.w.rows, [&](std::int64_t j) {
    project(args.x, args.n, args.w, j, scratch.weights, scratch.sums);
    for (std::int64_t m = 0; m < args.n; ++m) {
      float& out = args.out.row(m)[j];
      out = args.accumulate ? out + scratch.sums[m] : scratch.sums[m];
    }
  });
}

}  // namespace

std::int64_t linear_units(const LinearArgs& args, std::int32_t phase) {
  return phase == 0 ? inner_units({&args.w}) : output_units(args.w.rows);
}

void linear(const LinearArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 0) return write_inner({&args.w}, args.x, slice);
  linear_outputs(args, slice);
}

WorkspaceSize linear_workspace(const Shape& shape) {
  return {0, scratch_bytes(static_cast<std::int64_t>(widest_linear(shape)), shape.batch, 1)};
}

std::int64_t ffn_units(const FfnArgs& args, std::int32_t phase) {
  if (phase == 0) return inner_units({&args.gate, &args.up});
  if (phase == 2) return inner_units({&args.down});
  return output_units(phase == 1 ? args.gate.rows : args.down.rows);
}

void ffn(const FfnArgs& args, std::int32_t phase, Slice slice) {
  const Activations act{args.workspace.shared, ActivationLayout::row_major, args.gate.rows};
  if (phase == 0) return write_inner({&args.gate, &args.up}, args.x, slice);
  if (phase == 2) return write_inner({&args.down}, act, slice);
  if (phase == 3) {
    linear_outputs({args.n, act, args.down, args.accumulate, args.out, args.workspace}, slice);
    return;
  }
  const WorkerScratch scratch = worker_scratch(args.workspace, slice.worker, args.gate.cols, args.n);
  for_each_output(slice, args.gate.rows, [&](std::int64_t j) {
    project(args.x, args.n, args.gate, j, scratch.weights, scratch.sums);
    if (args.has_up()) project(args.x, args.n, args.up, j, scratch.weights, scratch.more_sums);
    for (std::int64_t m = 0; m < args.n; ++m)
      act.row(m)[j] = args.has_up() ? gated<ScalarOps>(args.activation, scratch.sums[m], scratch.more_sums[m])
                                    : activated<ScalarOps>(args.activation, scratch.sums[m]);
  });
}

WorkspaceSize ffn_workspace(const Shape& shape) {
  const std::uint64_t shared = round_up(std::uint64_t{shape.batch} * shape.ffn * sizeof(float), 64);
  return {shared, scratch_bytes(std::max(shape.hidden, shape.ffn), shape.batch, 2)};
}

std::int64_t lm_head_units(const LmHeadArgs& args, std::int32_t phase) {
  return phase == 0 ? inner_units({&args.w}) : output_units(args.w.rows);
}

void lm_head(const LmHeadArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 0) return write_inner({&args.w}, args.x, slice);
  const WorkerScratch scratch = worker_scratch(args.workspace, slice.worker, args.w.cols, args.n);
  for_each_output(slice, args.w.rows, [&](std::int64_t j) {
    project(args.x, args.n, args.w, j, scratch.weights, scratch.sums);
    for (std::int64_t m = 0; m < args.n; ++m) {
      const float logit = scratch.sums[m];
      args.out[m][j] = args.softcap == 0 ? logit : args.softcap * tanh_f32(logit / args.softcap);
    }
  });
}

WorkspaceSize lm_head_workspace(const Shape& shape) { return {0, scratch_bytes(shape.hidden, shape.batch, 1)}; }

}  // namespace qinfer::kernels::reference
