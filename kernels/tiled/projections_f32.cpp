// Projections with sums in f32, for tiles of every plain type: the kernels of `avx512`, and those of `avx512_fp16` for
// weights of f32 and bf16; and for matrices of mixed encodings. Also the workspaces, which all ways of adding share.
#include "tiled/projections.h"

namespace qinfer::kernels::QINFER_ISA {
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

std::uint64_t shared_panels_bytes(std::uint64_t n, std::uint64_t width) {
  return packs_locally(static_cast<std::int64_t>(n)) ? 0 : Panels::bytes(n, width);
}

const Projections& f32_projections(Encoding weights) {
  if (!is_plain(weights)) return quant_projections();
  return weights == Encoding::f16 ? kF16 : weights == Encoding::bf16 ? kBf16 : kF32;
}

void mixed_qkv(const QkvArgs& args, std::int32_t phase, Slice slice) {
  // Panels of f32 are the same for weights of every type.
  if (phase == 0) return kF32.qkv.run(args, phase, slice);
  const std::int64_t per_unit = heads_per_unit(args.kv.head_dim);
  const std::int64_t q_units = units_of(args.n_heads, per_unit), kv_units = units_of(args.kv.n_kv_heads, per_unit);
  const std::int64_t ends[] = {q_units, q_units + kv_units, q_units + 2 * kv_units};
  std::int64_t begin = 0;
  for (int i = 0; i < 3; ++i) {
    const Matrix& w = i == 0 ? args.wq : i == 1 ? args.wk : args.wv;
    const Slice part{larger(slice.begin, begin), smaller(slice.end, ends[i]), slice.worker};
    if (part.begin < part.end) f32_projections(w.format.encoding).qkv.run(args, phase, part);
    begin = ends[i];
  }
}

namespace {

void multiply_tile(const Matrix& w, std::int64_t tile, const std::uint32_t* panel, std::int64_t tokens, bool in_tiles,
                   float* sums, std::int64_t ld) {
  switch (w.format.encoding) {
    case Encoding::f32: return multiply_tile<F32Mode<DType::f32>>(w, tile, panel, tokens, in_tiles, sums, ld);
    case Encoding::f16: return multiply_tile<F32Mode<DType::f16>>(w, tile, panel, tokens, in_tiles, sums, ld);
    case Encoding::bf16: return multiply_tile<F32Mode<DType::bf16>>(w, tile, panel, tokens, in_tiles, sums, ld);
    case Encoding::q8_0:
    case Encoding::q4_0:
    case Encoding::q4_1:
    case Encoding::q5_0:
    case Encoding::q5_1:
    case Encoding::q3_k:
    case Encoding::q4_k:
    case Encoding::q5_k:
    case Encoding::q6_k:
    case Encoding::iq4_nl:
    case Encoding::iq4_xs:
    case Encoding::mxfp4: break;
  }
  multiply_tile<QuantMode>(w, tile, panel, tokens, in_tiles, sums, ld);
}

}  // namespace

void mixed_gate_and_up(const FfnArgs& args, std::int32_t phase, Slice slice) {
  mixed_gate_and_up_of<F32Mode<DType::f32>>(args, phase, slice, kF32, mixed_gate_and_up_tiles);
}

void mixed_gate_and_up_tiles(const FfnArgs& args, std::uint32_t* f32_panels, Slice slice, const Activations& act) {
  mixed_tiles<F32Mode<DType::f32>>(args, f32_panels, slice, act,
                                   [](const auto&... of_tile) { multiply_tile(of_tile...); });
}

WorkspaceSize linear_workspace(const Shape& shape) { return panels_workspace(shape, widest_linear(shape)); }

WorkspaceSize lm_head_workspace(const Shape& shape) { return panels_workspace(shape, shape.hidden); }

WorkspaceSize qkv_workspace(const Shape& shape) { return qkv_workspace_of(shape, kMostPanels); }

WorkspaceSize qkv_workspace_of(const Shape& shape, std::uint64_t panels) {
  WorkspaceSize size = panels_workspace(shape, shape.hidden);
  const auto rows = static_cast<std::uint64_t>(heads_per_unit(shape.head_dim)) * shape.head_dim;
  size.per_worker += kPanelTokens * panels * rows * sizeof(float);
  size.shared = round_up(size.shared + waiting_bytes(shape, shape.batch), 64);
  return size;
}

WorkspaceSize ffn_workspace(const Shape& shape) {
  WorkspaceSize size = panels_workspace(shape, larger(shape.hidden, shape.ffn));
  size.shared += std::uint64_t{shape.batch} * shape.ffn * sizeof(float);
  size.shared = round_up(size.shared, 64);
  return size;
}

}  // namespace qinfer::kernels::QINFER_ISA
