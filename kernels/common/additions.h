// Additions to linear layers (kernel_set.h, Linear), as every set computes them. A phase of its own, or the one that
// packs activations, writes what `down` makes of the rows (write_inner()); where an output is finished, what `up` makes
// of that is added (add_shares()). All sums are f32 and in ascending order, so that an addition gives the same on every
// set, but for what the set has rounded its operands to.
#pragma once

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "kernel_set.h"

namespace qinfer::kernels {
namespace {  // files with different instruction sets include this header

/// Feature k of row m of an operand.
inline float operand_at(const Activations& x, std::int64_t m, std::int64_t k) {
  if (x.is_row_major()) return x.row(m)[k];
  constexpr auto kRows = static_cast<std::int64_t>(kPanelRows), kFeatures = static_cast<std::int64_t>(kPanelFeatures);
  const std::int64_t panel_pairs = (x.ld + kFeatures - 1) / kFeatures * kFeatures / 2 * kRows;
  const std::uint32_t pair = x.pairs()[m / kRows * panel_pairs + k / 2 * kRows + m % kRows];
  return std::bit_cast<float>(k % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
}

/// Calls f(layer, addition, first unit) for the additions of some layers that multiply the same activations. A unit is
/// a row of an addition.
template <typename F>
inline std::int64_t for_additions(std::initializer_list<const Linear*> layers, F f) {
  std::int64_t units = 0;
  for (const Linear* w : layers)
    for (const Addition& addition : w->additions) {
      f(*w, addition, units);
      units += addition.n_rows;
    }
  return units;
}

inline std::int64_t inner_units(std::initializer_list<const Linear*> layers) {
  return for_additions(layers, [](const Linear&, const Addition&, std::int64_t) {});
}

/// Addition::inner of a slice of units. value(m, k): feature k of row m of the batch.
template <typename ValueAt>
[[gnu::noinline]] inline void write_inner_of(std::initializer_list<const Linear*> layers, Slice slice, ValueAt value) {
  for_additions(layers, [&](const Linear& w, const Addition& addition, std::int64_t first) {
    const std::int64_t begin = std::max(slice.begin - first, std::int64_t{0});
    const std::int64_t end = std::min(slice.end - first, addition.n_rows);
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t r = 0; r < addition.rank; ++r) {
        float sum = 0;
        for (std::int64_t k = 0; k < w.cols; ++k)
          sum += value(addition.first_row + i, k) * addition.down[r * w.cols + k];
        addition.inner[i * addition.rank + r] = sum;
      }
  });
}

inline void write_inner(std::initializer_list<const Linear*> layers, const Activations& x, Slice slice) {
  write_inner_of(layers, slice, [&](std::int64_t m, std::int64_t k) { return operand_at(x, m, k); });
}

/// Adds to outputs [first, first + count) of row m, at most 16 of them, what each addition of the layer gives.
[[gnu::noinline]] inline void add_shares(const Linear& w, std::int64_t m, std::int64_t first, std::int64_t count,
                                         float* outputs) {
  for (const Addition& addition : w.additions) {
    const std::int64_t row = m - addition.first_row;
    if (row < 0 || row >= addition.n_rows) continue;
    float shares[16] = {};
    for (std::int64_t r = 0; r < addition.rank; ++r) {
      const float inner = addition.inner[row * addition.rank + r];
      const float* up = addition.up + r * w.rows + first;
      for (std::int64_t j = 0; j < count; ++j) shares[j] += inner * up[j];
    }
    for (std::int64_t j = 0; j < count; ++j) outputs[j] += shares[j];
  }
}

}  // namespace
}  // namespace qinfer::kernels
