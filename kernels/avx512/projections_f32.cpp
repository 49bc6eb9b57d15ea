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

std::uint64_t shared_panels_bytes(std::uint64_t n, std::uint64_t width) {
  return packs_locally(static_cast<std::int64_t>(n)) ? 0 : Panels::bytes(n, width);
}

const Projections& f32_projections(DType weights) {
  switch (weights) {
    case DType::f16: return kF16;
    case DType::bf16: return kBf16;
    case DType::f32: break;
  }
  return kF32;
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
    if (part.begin < part.end) f32_projections(element_type(w.format.encoding)).qkv.run(args, phase, part);
    begin = ends[i];
  }
}

namespace {

/// The inner loop for one tile of this type.
PanelKernel one_tile_kernel(DType type, std::int64_t tokens) {
  static constexpr KernelTable<F32Sums<DType::f32>> kOfF32;
  static constexpr KernelTable<F32Sums<DType::f16>> kOfF16;
  static constexpr KernelTable<F32Sums<DType::bf16>> kOfBf16;
  switch (type) {
    case DType::f16: return kOfF16.at[tokens][1];
    case DType::bf16: return kOfBf16.at[tokens][1];
    case DType::f32: break;
  }
  return kOfF32.at[tokens][1];
}

/// Tile `tile` of a matrix as a group of its own; the one after it is fetched meanwhile.
TileGroup one_tile(const Matrix& w, std::int64_t tile) {
  const std::int64_t bytes = w.cols * kTileRows * static_cast<std::int64_t>(encoded_bytes(w.format.encoding, 1));
  TileGroup group;
  group.tiles[0] = w.data + tile * bytes;
  group.next[0] = w.data + (tile + 1) * bytes;
  return group;
}

}  // namespace

void mixed_gate_and_up(const FfnArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 0) return kF32.ffn.run(args, phase, slice);
  const std::int64_t hidden = args.gate.cols, width = args.gate.rows;
  const Activations act{args.workspace.shared, ActivationLayout::row_major, width};
  const Panels panels = panels_for<F32Mode<DType::f32>>(args.x, args.n, hidden, 0,
                                                        args.workspace.shared + ffn_panels_offset(args.n, width),
                                                        args.workspace.of(slice.worker));
  mixed_gate_and_up_tiles(args, panels.data, slice, act);
}

void mixed_gate_and_up_tiles(const FfnArgs& args, std::uint32_t* f32_panels, Slice slice, const Activations& act) {
  const std::int64_t hidden = args.gate.cols;
  const Panels panels(reinterpret_cast<std::byte*>(f32_panels), args.n, hidden);
  const auto store = args.activation == Activation::silu ? &store_activations<Activation::silu>
                                                         : &store_activations<Activation::gelu_tanh>;
  alignas(64) float sums[kPanelTokens * 2 * kTileRows];
  for (std::int64_t tile = slice.begin; tile < slice.end; ++tile)
    for (std::int64_t p = 0; p < panel_count(args.n); ++p) {
      const std::int64_t tokens = smaller(args.n - p * kPanelTokens, std::int64_t{kPanelTokens});
      const Matrix* of_pair[] = {&args.gate, &args.up};
      for (int i = 0; i < 2; ++i)
        one_tile_kernel(element_type(of_pair[i]->format.encoding), tokens)(
            panels.panel(p), hidden, one_tile(*of_pair[i], tile), sums + i * kTileRows, 2 * kTileRows);
      store(args, {p * kPanelTokens, tokens, 2 * (tile - slice.begin), 2, sums, 2 * kTileRows}, panels, slice.begin,
            act);
    }
}

WorkspaceSize linear_workspace(const Shape& shape) { return panels_workspace(shape, widest_linear(shape)); }

WorkspaceSize lm_head_workspace(const Shape& shape) { return panels_workspace(shape, shape.hidden); }

WorkspaceSize qkv_workspace(const Shape& shape) {
  WorkspaceSize size = panels_workspace(shape, shape.hidden);
  const auto rows = static_cast<std::uint64_t>(heads_per_unit(shape.head_dim)) * shape.head_dim;
  size.per_worker += kPanelTokens * rows * sizeof(float);
  size.shared = round_up(size.shared + waiting_bytes(shape, shape.batch), 64);
  return size;
}

WorkspaceSize ffn_workspace(const Shape& shape) {
  WorkspaceSize size = panels_workspace(shape, larger(shape.hidden, shape.ffn));
  size.shared += std::uint64_t{shape.batch} * shape.ffn * sizeof(float);
  size.shared = round_up(size.shared, 64);
  return size;
}

}  // namespace qinfer::kernels::avx512
