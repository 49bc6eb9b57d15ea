// The feed-forward network: gate and up in one call of the micro-kernel, their product straight into the panels of the
// down projection. There is no buffer for gate or up, and no pass of its own for the activation.
#include "amx/projections.h"
#include "avx512/vec.h"

namespace qinfer::kernels::amx {
namespace {

/// Rows [row, row + 16) of gate and of up.
RowPair gate_and_up_rows(const FfnArgs& args, std::int64_t row) {
  return {{tile_of(args.gate, row, args.gate.rows, kRegisterRows), tile_of(args.up, row, args.up.rows, kRegisterRows)}};
}

/// activation(gate) * up of one block into lines [feature / 2, feature / 2 + 8) of its panels, zeros where there is no
/// such feature (its sums are not zero for an infinite input).
template <Activation activation>
[[gnu::noinline]] void store_activations(const FfnArgs& args, const SumBlock& block, std::int64_t feature) {
  const std::int64_t dwords = panel_dwords(args.gate.rows);
  const auto bias_of = [&](const float* bias, std::int64_t i) {
    return _mm512_set1_ps(bias != nullptr ? bias[i] : 0.0f);
  };
  for (int panel = 0; panel < block.panels; ++panel) {
    const float *gate = block.tile(0, panel), *up = block.tile(1, panel);
    std::uint32_t* out = inner_panels(args) + (block.first_panel + panel) * dwords + feature / 2 * kPanelLanes;
    for (std::int64_t r = 0; r < kRegisterRows; r += 2) {
      __m512 product[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
      for (std::int64_t i = 0; i < 2 && feature + r + i < args.gate.rows; ++i) {
        __m512 g = _mm512_load_ps(gate + 16 * (r + i)), u = _mm512_load_ps(up + 16 * (r + i));
        if (args.gate_bias != nullptr) g = _mm512_add_ps(g, bias_of(args.gate_bias, feature + r + i));
        if (args.up_bias != nullptr) u = _mm512_add_ps(u, bias_of(args.up_bias, feature + r + i));
        product[i] = gated<avx512::VectorOps>(activation, g, u);
      }
      _mm512_store_si512(out + r / 2 * kPanelLanes, interleave(product[0], product[1]));
    }
  }
}

/// Zeros where 16 features and their tile would be, but the matrix has ended.
void clear_lines(const FfnArgs& args, std::int64_t feature) {
  const std::int64_t dwords = panel_dwords(args.gate.rows);
  for (std::int64_t p = 0; p < panel_count(args.n); ++p)
    for (std::int64_t i = 0; i < kRegisterRows / 2; ++i)
      _mm512_store_si512(inner_panels(args) + p * dwords + (feature / 2 + i) * kPanelLanes, _mm512_setzero_si512());
}

void gate_and_up(const FfnArgs& args, const Panels& x, Slice slice, const OwnSpace& own) {
  const auto store = args.activation == Activation::silu ? &store_activations<Activation::silu>
                                                         : &store_activations<Activation::gelu_tanh>;
  const std::int64_t first = slice.begin * kUnitRows, end = slice.end * kUnitRows, rows = args.gate.rows;
  const std::int64_t there = smaller(end, (rows + kRegisterRows - 1) / kRegisterRows * kRegisterRows);
  multiply(
      x, (there - first) / kRegisterRows, 1, own,
      [&](std::int64_t i) { return gate_and_up_rows(args, first + i * kRegisterRows); },
      [&](const SumBlock& block) { store(args, block, first + block.pair * kRegisterRows); });
  if (there < end) clear_lines(args, there);
}

}  // namespace

std::int64_t ffn_units(const FfnArgs& args, std::int32_t phase) {
  return units_of(phase == 0 ? args.gate.rows : args.down.rows);
}

void ffn(const FfnArgs& args, std::int32_t phase, Slice slice) {
  const TileRegion region;
  const OwnSpace own(args.workspace, slice.worker);
  if (phase == 0) {
    prefetch_first(gate_and_up_rows(args, slice.begin * kUnitRows), args.n);
    return gate_and_up(args, panels_of(args.x, args.n, args.gate.cols, own), slice, own);
  }
  prefetch_first(rows_of(args.down, slice.begin * kUnitRows, args.down.rows), args.n);
  project_residual({inner_panels(args), args.n, args.gate.rows}, args.down, args.down_bias, args.scale, args.accumulate,
                   slice, own, args.out);
}

WorkspaceSize ffn_workspace(const Shape& shape) {
  return {panels_bytes(shape.batch, shape.ffn), OwnSpace::bytes(shape.batch, 1, shape.hidden)};
}

}  // namespace qinfer::kernels::amx
