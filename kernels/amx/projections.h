// What the projections of this backend share: where the panels of an operation are, and a linear layer out of them.
//
// With more than kLocalRows rows a first phase packs the activations into panels that all threads read; with fewer,
// every worker packs them for itself, which is cheaper than a barrier.
#pragma once

#include "amx/amx.h"
#include "amx/gemm.h"

namespace qinfer::kernels::amx {
namespace {

inline constexpr std::int64_t kLocalRows = 8;
/// Outputs of one unit of a linear layer.
inline constexpr std::int64_t kUnitRows = 2 * kTileRows;

inline bool packs_locally(std::int64_t n) { return n <= kLocalRows; }

/// Units of the phase that packs shared panels.
inline std::int64_t pack_units(std::int64_t n, std::int64_t cols) {
  return packs_locally(n) ? 0 : panel_count(n) * pack_parts(cols);
}

inline std::int64_t units_of(std::int64_t rows) { return (rows + kUnitRows - 1) / kUnitRows; }

/// A worker's own workspace: sums of a group, then panels of up to kLocalRows rows.
struct OwnSpace {
  float* sums;
  std::uint32_t* panels;

  OwnSpace(const Workspace& workspace, std::int32_t worker, std::int64_t pairs)
      : sums(reinterpret_cast<float*>(workspace.of(worker))),
        panels(reinterpret_cast<std::uint32_t*>(workspace.of(worker) + sums_bytes(pairs))) {}
  static std::uint64_t bytes(std::int64_t pairs, std::int64_t cols) {
    return sums_bytes(pairs) + panels_bytes(kLocalRows, cols);
  }
};

/// The panels of an operation: shared ones, which a phase before has filled, or the worker's own, filled here.
inline Panels panels_for(const Rows& x, std::int64_t n, std::int64_t cols, const std::byte* shared,
                         const OwnSpace& own) {
  if (!packs_locally(n)) return {reinterpret_cast<const std::uint32_t*>(shared), n, cols};
  pack_rows(x, n, cols, own.panels, 0, pack_parts(cols));
  return {own.panels, n, cols};
}

inline void pack_shared(const Rows& x, std::int64_t n, std::int64_t cols, std::byte* shared, Slice slice) {
  pack_rows(x, n, cols, reinterpret_cast<std::uint32_t*>(shared), slice.begin, slice.end);
}

/// The outputs of a slice of units.
template <typename RowAt>
inline void project_rows(const Panels& x, const Matrix& w, const float* bias, bool accumulate, Slice slice, float* sums,
                         RowAt row) {
  multiply(
      x, slice.end - slice.begin, group_pairs(x.count(), w.cols), sums,
      [&](std::int64_t i) { return rows_of(w, (slice.begin + i) * kUnitRows, w.rows); },
      [&](const SumBlock& block) {
        store_block(block, x, (slice.begin + block.pair) * kUnitRows, w.rows, bias, accumulate, row);
      });
}

}  // namespace
}  // namespace qinfer::kernels::amx
