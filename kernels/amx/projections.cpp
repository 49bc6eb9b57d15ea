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
  const OwnSpace own(args.workspace, slice.worker, kGroupPairs);
  prefetch_first(rows_of(args.w, slice.begin * kUnitRows, args.w.rows), args.n);
  const Panels x = panels_for(args.x, args.n, args.w.cols, args.workspace.shared, own);
  project_rows(x, args.w, args.bias, args.accumulate, slice, own.sums, [&](std::int64_t m) { return args.out.row(m); });
}

WorkspaceSize linear_workspace(const Shape& shape) {
  const std::int64_t widest =
      larger(larger(std::int64_t{shape.hidden}, std::int64_t{shape.ffn}), std::int64_t{shape.n_heads} * shape.head_dim);
  return {panels_bytes(shape.batch, widest), OwnSpace::bytes(kGroupPairs, widest)};
}

// ---- the LM head ----

namespace {

/// The outputs of a slice become softcap * tanh(output / softcap).
[[gnu::noinline]] void cap_logits(const LmHeadArgs& args, Slice slice) {
  const __m512 inverse = _mm512_set1_ps(1.0f / args.softcap), cap = _mm512_set1_ps(args.softcap);
  const std::int64_t end = smaller(slice.end * kUnitRows, args.w.rows);
  for (std::int64_t m = 0; m < args.n; ++m)
    for (std::int64_t j = slice.begin * kUnitRows; j < end; j += 16) {
      const __mmask16 lanes = first_lanes(end - j);
      const __m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, args.out[m] + j), inverse);
      _mm512_mask_storeu_ps(args.out[m] + j, lanes, _mm512_mul_ps(cap, avx512::tanh_ps(x)));
    }
}

}  // namespace

std::int64_t lm_head_units(const LmHeadArgs& args, std::int32_t phase) {
  return phase == 0 ? pack_units(args.n, args.w.cols) : units_of(args.w.rows);
}

void lm_head(const LmHeadArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 0) return pack_shared(args.x, args.n, args.w.cols, args.workspace.shared, slice);
  {
    const TileRegion region;
    const OwnSpace own(args.workspace, slice.worker, kGroupPairs);
    prefetch_first(rows_of(args.w, slice.begin * kUnitRows, args.w.rows), args.n);
    const Panels x = panels_for(args.x, args.n, args.w.cols, args.workspace.shared, own);
    project_rows(x, args.w, nullptr, false, slice, own.sums, [&](std::int64_t m) { return args.out[m]; });
  }
  if (args.softcap != 0) cap_logits(args, slice);
}

WorkspaceSize lm_head_workspace(const Shape& shape) {
  return {panels_bytes(shape.batch, shape.hidden), OwnSpace::bytes(kGroupPairs, shape.hidden)};
}

// ---- queries, keys and values: a unit is a head ----

namespace {

using avx512::HeadBlock;

std::int64_t pairs_of_head(std::int64_t head_dim) { return units_of(head_dim); }

/// A worker's own workspace: the values of one head for 32 tokens, then that of any projection.
std::uint64_t head_floats(std::int64_t head_dim) {
  return static_cast<std::uint64_t>(2 * kPanelTokens * ((head_dim + 15) / 16 * 16));
}

struct Head {
  HeadBlock::Kind kind;
  const Matrix* w;
  const float* bias;
  std::int64_t index;  ///< among those of its kind
};

Head head_of_unit(const QkvArgs& args, std::int64_t unit) {
  const std::int64_t queries = args.n_heads, keys = args.kv.n_kv_heads;
  if (unit < queries) return {HeadBlock::query, &args.wq, args.bq, unit};
  if (unit < queries + keys) return {HeadBlock::key, &args.wk, args.bk, unit - queries};
  return {HeadBlock::value, &args.wv, args.bv, unit - queries - keys};
}

/// One head of all tokens: projected, then finished 32 tokens at a time.
void project_head(const QkvArgs& args, const Panels& x, const Head& head, float* values, float* sums) {
  const std::int64_t width = args.kv.head_dim, first = head.index * width, pairs = pairs_of_head(width);
  const std::int64_t ld = (width + 15) / 16 * 16;
  multiply(
      x, pairs, pairs, sums, [&](std::int64_t i) { return rows_of(*head.w, first + i * kUnitRows, first + width); },
      [&](const SumBlock& block) {
        const std::int64_t row = block.first_panel * kPanelTokens;
        store_block(block, x, block.pair * kUnitRows, width, head.bias != nullptr ? head.bias + first : nullptr, false,
                    [&](std::int64_t m) { return values + (m - row) * ld; });
        if (block.pair + 1 < pairs) return;
        const std::int64_t tokens = smaller(x.n - row, block.panels * kPanelTokens);
        avx512::finish_heads(args, {head.kind, static_cast<std::uint32_t>(head.index), 1, row, tokens, values, ld});
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
  float* values = reinterpret_cast<float*>(args.workspace.of(slice.worker));
  Workspace rest = args.workspace;
  rest.per_worker += head_floats(width) * sizeof(float);
  const OwnSpace own(rest, slice.worker, pairs_of_head(width));
  const Head first = head_of_unit(args, slice.begin);
  prefetch_first(rows_of(*first.w, first.index * width, (first.index + 1) * width), args.n);
  const Panels x = panels_for(args.x, args.n, args.wq.cols, args.workspace.shared, own);
  for (std::int64_t unit = slice.begin; unit < slice.end; ++unit)
    project_head(args, x, head_of_unit(args, unit), values, own.sums);
}

WorkspaceSize qkv_workspace(const Shape& shape) {
  return {panels_bytes(shape.batch, shape.hidden),
          head_floats(shape.head_dim) * sizeof(float) + OwnSpace::bytes(pairs_of_head(shape.head_dim), shape.hidden)};
}

}  // namespace qinfer::kernels::amx
