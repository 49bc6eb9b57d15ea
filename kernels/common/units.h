// How operations are cut into units, and the widths that workspaces depend on: plain arithmetic over the arguments.
#pragma once

#include "kernel_set.h"

namespace qinfer::kernels {
namespace {  // files with different instruction sets include this header

/// Units of `per_unit` that cover n: outputs in tiles, rows in panels, heads in units.
constexpr std::int64_t units_of(std::int64_t n, std::int64_t per_unit) { return (n + per_unit - 1) / per_unit; }

/// The columns of the widest matrix that a linear layer of this shape multiplies with.
constexpr std::uint64_t widest_linear(const Shape& shape) {
  const std::uint64_t heads = std::uint64_t{shape.n_heads} * shape.head_dim;
  const std::uint64_t widest = shape.hidden < shape.ffn ? shape.ffn : shape.hidden;
  const std::uint64_t inner = widest < heads ? heads : widest;
  return inner < shape.dense ? shape.dense : inner;
}

}  // namespace
}  // namespace qinfer::kernels
