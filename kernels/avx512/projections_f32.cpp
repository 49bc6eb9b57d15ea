// Projections with sums in f32, for tiles of every type: the kernels of `avx512`, and those of `avx512_fp16` for
// weights that are not f16. Also the workspaces, which both ways of adding share.
#include "avx512/projections.h"

namespace qinfer::kernels::avx512 {
namespace {

constexpr Projections kF32 = projections<F32Mode<DType::f32>>();
constexpr Projections kF16 = projections<F32Mode<DType::f16>>();
constexpr Projections kBf16 = projections<F32Mode<DType::bf16>>();

/// Panels of the whole batch for all, or of a few rows for each worker.
WorkspaceSize panels_workspace(const Shape& shape, std::uint64_t width) {
  const auto local = smaller<std::uint64_t>(shape.batch, kLocalRows);
  return {packs_locally(shape.batch) ? 0 : Panels::bytes(shape.batch, width), Panels::bytes(local, width)};
}

}  // namespace

const Projections& f32_projections(DType weights) {
  switch (weights) {
    case DType::f16: return kF16;
    case DType::bf16: return kBf16;
    case DType::f32: break;
  }
  return kF32;
}

WorkspaceSize linear_workspace(const Shape& shape) {
  const std::uint64_t heads = std::uint64_t{shape.n_heads} * shape.head_dim;
  return panels_workspace(shape, larger(larger<std::uint64_t>(shape.hidden, shape.ffn), heads));
}

WorkspaceSize lm_head_workspace(const Shape& shape) { return panels_workspace(shape, shape.hidden); }

WorkspaceSize qkv_workspace(const Shape& shape) {
  WorkspaceSize size = panels_workspace(shape, shape.hidden);
  const auto rows = static_cast<std::uint64_t>(heads_per_unit(shape.head_dim)) * shape.head_dim;
  size.per_worker += kPanelTokens * rows * sizeof(float);
  return size;
}

WorkspaceSize ffn_workspace(const Shape& shape) {
  WorkspaceSize size = panels_workspace(shape, larger(shape.hidden, shape.ffn));
  size.shared += std::uint64_t{shape.batch} * shape.ffn * sizeof(float);
  size.shared = round_up(size.shared, 64);
  return size;
}

}  // namespace qinfer::kernels::avx512
