// Linear layers, the LM head, and the projections to queries, keys and values. See projections.h.
#include "amx/projections.h"

#include "tiled/tiled.h"

namespace qinfer::kernels::amx {

// ---- linear ----

std::int64_t linear_units(const LinearArgs& args, std::int32_t phase) {
  return phase == 0 ? prepare_units({&args.w}, args.n) : units_of(args.w.rows);
}

void linear(const LinearArgs& args, std::int32_t phase, Slice slice) {
  auto* turned = reinterpret_cast<std::uint32_t*>(args.workspace.shared);
  if (phase == 0) return prepare({&args.w}, args.x, args.n, slice, turned);
  const TileRegion region;
  const OwnSpace own(args.workspace, slice.worker);
  prefetch_first(rows_of(args.w, slice.begin * kUnitRows, args.w.rows), args.n);
  project_residual(prepared({&args.w}, args.x, args.n, turned, own), args.w, args.accumulate, slice, own, args.out);
}

WorkspaceSize linear_workspace(const Shape& shape) {
  const auto cols = static_cast<std::int64_t>(widest_linear(shape));
  return {turned_bytes(shape.batch, cols), OwnSpace::bytes(shape.batch, 1, cols)};
}

// ---- the LM head ----

std::int64_t lm_head_units(const LmHeadArgs& args, std::int32_t phase) {
  return phase == 0 ? prepare_units({&args.w}, args.n) : units_of(args.w.rows);
}

void lm_head(const LmHeadArgs& args, std::int32_t phase, Slice slice) {
  auto* turned = reinterpret_cast<std::uint32_t*>(args.workspace.shared);
  if (phase == 0) return prepare({&args.w}, args.x, args.n, slice, turned);
  {
    const TileRegion region;
    const OwnSpace own(args.workspace, slice.worker);
    prefetch_first(rows_of(args.w, slice.begin * kUnitRows, args.w.rows), args.n);
    project(prepared({&args.w}, args.x, args.n, turned, own), args.w, slice, own,
            [&](const SumBlock& block, std::int64_t feature) {
              store_rows(block, args.n, feature, args.w, false, [&](std::int64_t m) { return args.out[m]; });
            });
  }
  if (args.softcap != 0) avx512::cap_logits(args, slice.begin * kUnitRows, slice.end * kUnitRows);
}

WorkspaceSize lm_head_workspace(const Shape& shape) {
  return {turned_bytes(shape.batch, shape.hidden), OwnSpace::bytes(shape.batch, 1, shape.hidden)};
}

// ---- queries, keys and values: a unit is a head ----

namespace {

float* shared_rope(const QkvArgs& args, std::int64_t panel) {
  return reinterpret_cast<float*>(args.workspace.shared) + panel * rope_floats(args.kv.head_dim);
}

/// The outputs of one pair of row tiles of a head, from line `feature` on.
void copy_values(const SumBlock& sums_of, std::int64_t feature, const Head& head, std::int64_t width,
                 const HeadSpace& space) {
  const SumBlock block = turned_or_not(sums_of, false);
  for (int panel = 0; panel < block.panels; ++panel)
    for (int tile = 0; tile < block.row_tiles; ++tile)
      for (std::int64_t r = 0; r < kRegisterRows; ++r) {
        const std::int64_t i = feature + tile * kRegisterRows + r;
        // Lines of an infinite input are not zero after the last feature.
        const __m512 value =
            i < width ? finished_line(*head.of.w, (block.first_panel + panel) * kPanelLanes, head.index * width + i,
                                      _mm512_load_ps(block.tile(tile, panel) + r * kPanelLanes))
                      : _mm512_setzero_ps();
        _mm512_store_ps(space.values + panel * space.head_floats + i * kPanelLanes, value);
      }
}

/// Whether the heads of a batch are finished as rows, and not in panels: few rows, none of which waits.
bool has_head_rows(const QkvArgs& args) { return args.q.is_row_major() && !args.norm_whole; }

/// copy_values() of such heads: row t of n at values + t * padded_k(width).
void copy_rows(const SumBlock& sums_of, std::int64_t n, std::int64_t feature, const Head& head, std::int64_t width,
               const HeadSpace& space) {
  const SumBlock block = turned_or_not(sums_of, true);
  for (int tile = 0; tile < block.row_tiles; ++tile)
    for (std::int64_t t = 0; t < n; ++t) {
      const std::int64_t i = feature + tile * kRegisterRows;
      const __m512 sums = _mm512_load_ps(block.tile(tile, 0) + t * kRegisterRows);
      _mm512_store_ps(space.values + t * padded_k(width) + i,
                      finished_row(*head.of.w, t, head.index * width + i, width - i, sums));
    }
}

/// Units of all tokens: projected, and finished 32 tokens of a head at a time.
void project_heads(const QkvArgs& args, const Panels& x, Slice slice, const HeadSpace& space) {
  const std::int64_t width = args.kv.head_dim, pairs = pairs_of_head(width);
  const bool shared = shared_rope_panels(args.n) > 0;
  const auto rows = [&](std::int64_t i) {
    const Head head = head_at(args, slice.begin + i / pairs);
    const std::int64_t first = head.index * width;
    return rows_of(*head.of.w, first + i % pairs * kUnitRows, first + width);
  };
  multiply(x, (slice.end - slice.begin) * pairs, pairs, space.own, rows, [&](const SumBlock& block) {
    const Head head = head_at(args, slice.begin + block.pair / pairs);
    if (has_head_rows(args)) {
      copy_rows(block, args.n, block.pair % pairs * kUnitRows, head, width, space);
      if ((block.pair + 1) % pairs == 0)
        avx512::finish_heads(
            args, {head.of.kind, static_cast<std::uint32_t>(head.index), 1, 0, args.n, space.values, padded_k(width)});
      return;
    }
    copy_values(block, block.pair % pairs * kUnitRows, head, width, space);
    if ((block.pair + 1) % pairs != 0) return;
    for (int j = 0; j < block.panels; ++j) {
      const std::int64_t panel = block.first_panel + j;
      finish_panel_head(args, head.of.kind, head.index, panel, space.values + j * space.head_floats,
                        shared ? shared_rope(args, panel) : space.rope + j * space.rope_panel);
    }
  });
}

/// Queries or keys that waited for the norm over all heads, a panel at a time.
void finish_waiting(const QkvArgs& args, Slice slice) {
  const HeadSpace space(args.workspace, slice.worker, args.kv.head_dim);
  const bool shared = shared_rope_panels(args.n) > 0;
  for_waiting_units(args, kPanelLanes, slice, [&](HeadKind kind, std::int64_t first, std::int64_t) {
    const std::int64_t panel = first / kPanelLanes;
    if (!shared) transpose_rope(args, panel, space.rope);
    finish_waiting_heads(args, kind, panel, space.values, shared ? shared_rope(args, panel) : space.rope);
  });
}

std::int64_t rope_units(const QkvArgs& args) { return args.rope != nullptr ? shared_rope_panels(args.n) : 0; }

/// Where turned operands are in the shared workspace: after the rope tables and what waits for the norm over all heads.
std::uint32_t* turned_operands(const QkvArgs& args) {
  const std::int64_t waiting = args.norm_whole ? panel_count(args.n) * kPanelLanes * waiting_width(args) : 0;
  return reinterpret_cast<std::uint32_t*>(shared_rope(args, shared_rope_panels(args.n)) + waiting);
}

/// Shared rope tables, what additions make of the rows, and turned operands.
void prepare_qkv(const QkvArgs& args, Slice slice) {
  const std::int64_t units = rope_units(args);
  for (std::int64_t panel = slice.begin; panel < smaller(slice.end, units); ++panel)
    transpose_rope(args, panel, shared_rope(args, panel));
  if (slice.end > units)
    prepare({&args.wq, &args.wk, &args.wv}, args.x, args.n,
            {larger(slice.begin - units, std::int64_t{0}), slice.end - units, slice.worker}, turned_operands(args));
}

}  // namespace

std::int64_t qkv_units(const QkvArgs& args, std::int32_t phase) {
  if (phase == 0) return rope_units(args) + prepare_units({&args.wq, &args.wk, &args.wv}, args.n);
  return phase == 1 ? head_count(args) : waiting_units(args, kPanelLanes);
}

std::int32_t qkv_phases(const QkvArgs& args) { return args.norm_whole ? 3 : 2; }

void qkv(const QkvArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 2) return finish_waiting(args, slice);
  if (phase == 0) return prepare_qkv(args, slice);
  const TileRegion region;
  const std::int64_t width = args.kv.head_dim;
  const HeadSpace space(args.workspace, slice.worker, width);
  const Head first = head_at(args, slice.begin);
  prefetch_first(rows_of(*first.of.w, first.index * width, (first.index + 1) * width), args.n);
  if (shared_rope_panels(args.n) == 0 && !has_head_rows(args))
    for (std::int64_t panel = 0; panel < panel_count(args.n); ++panel)
      transpose_rope(args, panel, space.rope + panel * space.rope_panel);
  // Lines that no tile of sums has stay zero.
  for (std::int64_t i = 0; i < 2 * space.head_floats && !has_head_rows(args); i += kPanelLanes)
    _mm512_store_ps(space.values + i, _mm512_setzero_ps());
  project_heads(args, prepared({&args.wq, &args.wk, &args.wv}, args.x, args.n, turned_operands(args), space.own), slice,
                space);
}

WorkspaceSize qkv_workspace(const Shape& shape) {
  const std::int64_t rope = shared_rope_panels(shape.batch) * rope_floats(shape.head_dim);
  return {static_cast<std::uint64_t>(rope) * sizeof(float) +
              waiting_bytes(shape, static_cast<std::uint64_t>(panel_count(shape.batch)) * kPanelRows) +
              turned_bytes(shape.batch, shape.hidden),
          HeadSpace::bytes(shape.batch, shape.head_dim, shape.hidden)};
}

}  // namespace qinfer::kernels::amx
