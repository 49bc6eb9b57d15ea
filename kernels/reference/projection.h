// What the projections of the portable backend share: outputs of a slice of units, and a worker's scratch for one row
// of weights and its products with all rows of the batch.
#pragma once

#include <algorithm>

#include "common/additions.h"
#include "common/units.h"
#include "reference.h"

namespace qinfer::kernels::reference {

inline std::int64_t output_units(std::int64_t outputs) { return units_of(outputs, kUnitOutputs); }

/// Calls body(j) for every output j of the units in the slice.
template <typename Body>
void for_each_output(Slice slice, std::int64_t outputs, Body body) {
  const std::int64_t end = std::min(slice.end * kUnitOutputs, outputs);
  for (std::int64_t j = slice.begin * kUnitOutputs; j < end; ++j) body(j);
}

/// The widened row of weights, then one partial result for each row of the batch.
struct WorkerScratch {
  float* weights;
  float* sums;
  float* more_sums;
};

inline WorkerScratch worker_scratch(const Workspace& workspace, std::int32_t worker, std::int64_t cols,
                                    std::int64_t n) {
  float* base = reinterpret_cast<float*>(workspace.of(worker));
  float* sums = base + weight_row_bytes(cols) / sizeof(float);
  return {base, sums, sums + n};
}

inline std::uint64_t scratch_bytes(std::int64_t cols, std::uint64_t n, std::uint64_t results) {
  return weight_row_bytes(cols) + round_up(results * n * sizeof(float), 64);
}

/// What makes outputs j of n rows, `stride` apart, out of their sums; the first is row `first_row` of the batch.
inline void finish_outputs(const Linear& w, std::int64_t j, std::int64_t n, float* sums, std::int64_t stride = 1,
                           std::int64_t first_row = 0) {
  for (std::int64_t m = 0; m < n; ++m, sums += stride) {
    if (w.bias != nullptr) *sums += w.bias[j];
    if (!w.additions.empty()) add_shares(w, first_row + m, j, 1, sums);
    *sums *= w.scale;
  }
}

/// Output j of all rows.
inline void project(const Activations& x, std::int64_t n, const Linear& w, std::int64_t j, float* weights,
                    float* outputs) {
  dot_rows(x, n, widen_row(w, j, weights), w.cols, outputs, 1);
  finish_outputs(w, j, n, outputs);
}

}  // namespace qinfer::kernels::reference
