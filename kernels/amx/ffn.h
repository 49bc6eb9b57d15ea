// The first half of a feed-forward network on tiles, which may be an expert's (moe.cpp): gate and up in one call of the
// micro-kernel, their product straight into the panels of the down projection. There is no buffer for gate or up, and
// no separate pass for the activation.
#pragma once

#include "amx/projections.h"
#include "tiled/math.h"

namespace qinfer::kernels::amx {
namespace {

/// Rows [row, row + 16) of gate and of up.
inline RowPair gate_and_up_rows(const FfnArgs& args, std::int64_t row) {
  return {{tile_of(args.gate, row, args.gate.rows, kRegisterRows), tile_of(args.up, row, args.up.rows, kRegisterRows)}};
}

/// activation(gate) * up of one block into lines [feature / 2, feature / 2 + 8) of its panels, zeros where there is no
/// such feature (its sums are not zero for an infinite input).
template <Activation activation>
[[gnu::noinline]] void store_activations(const FfnArgs& args, const SumBlock& block, std::int64_t feature) {
  const std::int64_t dwords = panel_dwords(args.gate.rows);
  for (int panel = 0; panel < block.panels; ++panel) {
    const float *gate = block.tile(0, panel), *up = block.tile(1, panel);
    const std::int64_t row = (block.first_panel + panel) * kPanelLanes;
    std::uint32_t* out = inner_panels(args) + (block.first_panel + panel) * dwords + feature / 2 * kPanelLanes;
    for (std::int64_t r = 0; r < kRegisterRows; r += 2) {
      __m512 product[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
      for (std::int64_t i = 0; i < 2 && feature + r + i < args.gate.rows; ++i) {
        const std::int64_t line = r + i;
        product[i] = gated<avx512::VectorOps>(
            activation, finished_line(args.gate, row, feature + line, _mm512_load_ps(gate + 16 * line)),
            finished_line(args.up, row, feature + line, _mm512_load_ps(up + 16 * line)));
      }
      _mm512_store_si512(out + r / 2 * kPanelLanes, interleave(product[0], product[1]));
    }
  }
}

/// activation(gate) of the 32 features of a unit, where there is no up; zeros where there is no such feature.
template <Activation activation>
[[gnu::noinline]] void store_activated(const FfnArgs& args, const SumBlock& block, std::int64_t feature) {
  const std::int64_t dwords = panel_dwords(args.gate.rows);
  for (int panel = 0; panel < block.panels; ++panel) {
    const std::int64_t row = (block.first_panel + panel) * kPanelLanes;
    std::uint32_t* out = inner_panels(args) + (block.first_panel + panel) * dwords + feature / 2 * kPanelLanes;
    for (std::int64_t r = 0; r < kUnitRows; r += 2) {
      __m512 values[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
      for (std::int64_t i = 0; i < 2 && feature + r + i < args.gate.rows; ++i) {
        const std::int64_t line = r + i;
        const float* sums = block.tile(static_cast<int>(line / kRegisterRows), panel) + line % kRegisterRows * 16;
        values[i] = activated<avx512::VectorOps>(activation,
                                                 finished_line(args.gate, row, feature + line, _mm512_load_ps(sums)));
      }
      _mm512_store_si512(out + r / 2 * kPanelLanes, interleave(values[0], values[1]));
    }
  }
}

/// Calls f<activation>() for the one of a network.
template <typename F>
inline void with_activation(const FfnArgs& args, F f) {
  switch (args.activation) {
    case Activation::silu: break;
    case Activation::gelu_tanh: return f.template operator()<Activation::gelu_tanh>();
    case Activation::gelu_erf: return f.template operator()<Activation::gelu_erf>();
  }
  f.template operator()<Activation::silu>();
}

/// Zeros where 16 features and their tile would be, but the matrix has ended.
inline void clear_lines(const FfnArgs& args, std::int64_t feature) {
  const std::int64_t dwords = panel_dwords(args.gate.rows);
  for (std::int64_t p = 0; p < panel_count(args.n); ++p)
    for (std::int64_t i = 0; i < kRegisterRows / 2; ++i)
      _mm512_store_si512(inner_panels(args) + p * dwords + (feature / 2 + i) * kPanelLanes, _mm512_setzero_si512());
}

/// Units of the first half; `next`: rows of another matrix that the worker reads after them, if any.
inline void gate_and_up(const FfnArgs& args, const Panels& x, Slice slice, const OwnSpace& own,
                        const RowPair& next = {}) {
  void (*store)(const FfnArgs&, const SumBlock&, std::int64_t) = nullptr;
  with_activation(args, [&]<Activation activation>() { store = &store_activations<activation>; });
  const std::int64_t first = slice.begin * kUnitRows, end = slice.end * kUnitRows, rows = args.gate.rows;
  const std::int64_t there = smaller(end, (rows + kRegisterRows - 1) / kRegisterRows * kRegisterRows);
  const std::int64_t n_pairs = (there - first) / kRegisterRows;
  multiply(
      x, n_pairs, 1, own,
      [&](std::int64_t i) {
        const RowPair pair = gate_and_up_rows(args, first + i * kRegisterRows);
        return i + 1 < n_pairs ? pair : followed_by(pair, next);
      },
      [&](const SumBlock& block) { store(args, block, first + block.pair * kRegisterRows); });
  if (there < end) clear_lines(args, there);
}

/// The same where there is no up.
inline void gate_alone(const FfnArgs& args, const Panels& x, Slice slice, const OwnSpace& own) {
  with_activation(args, [&]<Activation activation>() {
    project(x, args.gate, slice, own,
            [&](const SumBlock& block, std::int64_t feature) { store_activated<activation>(args, block, feature); });
  });
}

}  // namespace
}  // namespace qinfer::kernels::amx
