// Linear layers, the LM head, and the projections to queries, keys and values. See projections.h.
#include "amx/projections.h"

#include "avx512/avx512.h"

namespace qinfer::kernels::amx {

// ---- linear ----

std::int64_t linear_units(const LinearArgs& args, std::int32_t phase) {
  return phase == 0 ? pack_units(args.n, args.w.cols) : units_of(args.w.rows);
}

void linear(const LinearArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 0) return pack_shared(args.x, args.n, args.w.cols, args.workspace.shared, slice);
  const TileRegion region;
  const OwnSpace own(args.workspace, slice.worker);
  prefetch_first(rows_of(args.w, slice.begin * kUnitRows, args.w.rows), args.n);
  const Panels x = panels_for(args.x, args.n, args.w.cols, args.workspace.shared, own);
  project_rows(x, args.w, args.bias, args.accumulate, slice, own, [&](std::int64_t m) { return args.out.row(m); });
}

WorkspaceSize linear_workspace(const Shape& shape) {
  const std::int64_t widest =
      larger(larger(std::int64_t{shape.hidden}, std::int64_t{shape.ffn}), std::int64_t{shape.n_heads} * shape.head_dim);
  return {panels_bytes(shape.batch, widest), OwnSpace::bytes(shape.batch, 1, widest)};
}

// ---- the LM head ----

std::int64_t lm_head_units(const LmHeadArgs& args, std::int32_t phase) {
  return phase == 0 ? pack_units(args.n, args.w.cols) : units_of(args.w.rows);
}

void lm_head(const LmHeadArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 0) return pack_shared(args.x, args.n, args.w.cols, args.workspace.shared, slice);
  {
    const TileRegion region;
    const OwnSpace own(args.workspace, slice.worker);
    prefetch_first(rows_of(args.w, slice.begin * kUnitRows, args.w.rows), args.n);
    const Panels x = panels_for(args.x, args.n, args.w.cols, args.workspace.shared, own);
    project_rows(x, args.w, nullptr, false, slice, own, [&](std::int64_t m) { return args.out[m]; });
  }
  if (args.softcap != 0) avx512::cap_logits(args, slice.begin * kUnitRows, slice.end * kUnitRows);
}

WorkspaceSize lm_head_workspace(const Shape& shape) {
  return {panels_bytes(shape.batch, shape.hidden), OwnSpace::bytes(shape.batch, 1, shape.hidden)};
}

// ---- queries, keys and values: a unit is a head ----

namespace {

/// Units of all tokens: projected, and finished 32 tokens of a head at a time.
void project_heads(const QkvArgs& args, const Panels& x, Slice slice, const HeadSpace& space) {
  const std::int64_t width = args.kv.head_dim, pairs = pairs_of_head(width), ld = head_ld(width);
  const auto rows = [&](std::int64_t i) {
    const Head head = head_of_unit(args, slice.begin + i / pairs);
    const std::int64_t first = head.index * width;
    return rows_of(*head.w, first + i % pairs * kUnitRows, first + width);
  };
  multiply(x, (slice.end - slice.begin) * pairs, pairs, space.own, rows, [&](const SumBlock& block) {
    const Head head = head_of_unit(args, slice.begin + block.pair / pairs);
    const std::int64_t row = block.first_panel * kPanelTokens;
    const float* bias = head.bias != nullptr ? head.bias + head.index * width : nullptr;
    store_block(block, x, block.pair % pairs * kUnitRows, width, bias, false,
                [&](std::int64_t m) { return space.values + (m - row) * ld; });
    if ((block.pair + 1) % pairs != 0) return;
    const std::int64_t tokens = smaller(x.n - row, block.panels * kPanelTokens);
    avx512::finish_heads(args, {head.kind, static_cast<std::uint32_t>(head.index), 1, row, tokens, space.values, ld});
  });
}

}  // namespace

std::int64_t qkv_units(const QkvArgs& args, std::int32_t phase) {
  if (phase == 0) return pack_units(args.n, args.wq.cols);
  return args.n_heads + (args.writes_kv() ? 2 * std::int64_t{args.kv.n_kv_heads} : 0);
}

void qkv(const QkvArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 0) return pack_shared(args.x, args.n, args.wq.cols, args.workspace.shared, slice);
  const TileRegion region;
  const std::int64_t width = args.kv.head_dim;
  const HeadSpace space(args.workspace, slice.worker, width);
  const Head first = head_of_unit(args, slice.begin);
  prefetch_first(rows_of(*first.w, first.index * width, (first.index + 1) * width), args.n);
  const Panels x = panels_for(args.x, args.n, args.wq.cols, args.workspace.shared, space.own);
  project_heads(args, x, slice, space);
}

WorkspaceSize qkv_workspace(const Shape& shape) {
  return {panels_bytes(shape.batch, shape.hidden), HeadSpace::bytes(shape.batch, shape.head_dim, shape.hidden)};
}

}  // namespace qinfer::kernels::amx
