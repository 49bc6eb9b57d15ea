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

/// Where activation(gate) * up of 16 features of a panel goes: lines of pairs, or if turned, half a row of a step for
/// each of its 16 tokens.
struct InnerTile {
  std::byte* at;
  bool turned;

  InnerTile(const FfnArgs& args, std::int64_t panel, std::int64_t feature, bool turned_)
      : at(reinterpret_cast<std::byte*>(inner_panels(args) + panel * panel_dwords(args.gate.rows)) +
           (turned_ ? feature / kStep * kPairStepBytes + feature % kStep * 2 : feature / 2 * 64)),
        turned(turned_) {}
  /// Row i of 16 features if turned, otherwise lines 2 i and 2 i + 1 of 16 tokens.
  void store_row(std::int64_t i, __m512 row) const {
    _mm256_store_si256(reinterpret_cast<__m256i*>(at + 64 * i), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(row)));
  }
  void store_lines(std::int64_t i, __m512 even, __m512 odd) const {
    _mm512_store_si512(at + 64 * i, interleave(even, odd));
  }
  void clear() const {
    for (std::int64_t i = 0; i < 16; ++i) turned ? store_row(i, _mm512_setzero_ps()) : clear_line(i);
  }

 private:
  void clear_line(std::int64_t i) const {
    if (i < kRegisterRows / 2) _mm512_store_si512(at + 64 * i, _mm512_setzero_si512());
  }
};

/// 16 features from `feature` on of a panel, the first of whose rows is `first`, into their tile, zeros where there is
/// no such feature (its sums are not zero for an infinite input). Rows after the last token are as those of
/// pack_rows(). line(i): of all tokens, row(t): of token t, one of which can be had, since the sums are either.
template <typename Line, typename Row>
inline void store_inner(const FfnArgs& args, const InnerTile& tile, std::int64_t first, std::int64_t feature,
                        bool sums_are_rows, Line line, Row row) {
  const __mmask16 lanes = first_lanes(args.gate.rows - feature);
  if (tile.turned) {
    const std::int64_t tokens = smaller(args.n - first, kPanelLanes);
    for (std::int64_t t = 0; t < tokens; ++t) tile.store_row(t, _mm512_maskz_mov_ps(lanes, row(t)));
    for (std::int64_t t = tokens; t < kPanelLanes && args.n > kVectorTokens; ++t)
      tile.store_row(t, _mm512_setzero_ps());
    return;
  }
  if (sums_are_rows) {
    alignas(64) float values[kTileFloats];
    for (std::int64_t t = 0; t < kPanelLanes; ++t)
      _mm512_store_ps(values + 16 * t, first + t < args.n ? _mm512_maskz_mov_ps(lanes, row(t)) : _mm512_setzero_ps());
    turn_sums(values);
    for (std::int64_t r = 0; r < kRegisterRows; r += 2)
      tile.store_lines(r / 2, _mm512_load_ps(values + 16 * r), _mm512_load_ps(values + 16 * r + 16));
    return;
  }
  for (std::int64_t r = 0; r < kRegisterRows; r += 2) {
    __m512 values[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    for (std::int64_t i = 0; i < 2 && feature + r + i < args.gate.rows; ++i) values[i] = line(r + i);
    tile.store_lines(r / 2, values[0], values[1]);
  }
}

/// A block whose sums are turned if they are to be; those that are turned already stay so.
inline SumBlock turned_for(const SumBlock& block, bool turned) { return turned ? turned_or_not(block, true) : block; }

/// activation(gate) * up of one block.
template <Activation activation>
[[gnu::noinline]] void store_activations(const FfnArgs& args, const SumBlock& sums_of, std::int64_t feature,
                                         bool turned) {
  const SumBlock block = turned_for(sums_of, turned);
  const std::int64_t count = args.gate.rows - feature;
  for (int panel = 0; panel < block.panels; ++panel) {
    const float *gate = block.tile(0, panel), *up = block.tile(1, panel);
    const std::int64_t first = (block.first_panel + panel) * kPanelLanes;
    store_inner(
        args, InnerTile(args, block.first_panel + panel, feature, turned), first, feature, block.turned,
        [&](std::int64_t i) {
          return gated<avx512::VectorOps>(activation,
                                          finished_line(args.gate, first, feature + i, _mm512_load_ps(gate + 16 * i)),
                                          finished_line(args.up, first, feature + i, _mm512_load_ps(up + 16 * i)));
        },
        [&](std::int64_t t) {
          return gated<avx512::VectorOps>(
              activation, finished_row(args.gate, first + t, feature, count, _mm512_load_ps(gate + 16 * t)),
              finished_row(args.up, first + t, feature, count, _mm512_load_ps(up + 16 * t)));
        });
  }
}

/// activation(gate) of the 32 features of a unit, where there is no up.
template <Activation activation>
[[gnu::noinline]] void store_activated(const FfnArgs& args, const SumBlock& sums_of, std::int64_t feature,
                                       bool turned) {
  const SumBlock block = turned_for(sums_of, turned);
  for (int panel = 0; panel < block.panels; ++panel)
    for (int tile = 0; tile < 2; ++tile) {
      const std::int64_t first = (block.first_panel + panel) * kPanelLanes, begin = feature + tile * kRegisterRows;
      const InnerTile inner(args, block.first_panel + panel, begin, turned);
      if (tile >= block.row_tiles) {
        inner.clear();
        continue;
      }
      const float* sums = block.tile(tile, panel);
      store_inner(
          args, inner, first, begin, block.turned,
          [&](std::int64_t i) {
            return activated<avx512::VectorOps>(
                activation, finished_line(args.gate, first, begin + i, _mm512_load_ps(sums + 16 * i)));
          },
          [&](std::int64_t t) {
            return activated<avx512::VectorOps>(
                activation,
                finished_row(args.gate, first + t, begin, args.gate.rows - begin, _mm512_load_ps(sums + 16 * t)));
          });
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

/// Units of the first half; `next`: rows of another matrix that the worker reads after them, if any. `turned`: the down
/// projection takes their outputs so.
inline void gate_and_up(const FfnArgs& args, const Panels& x, bool turned, Slice slice, const OwnSpace& own,
                        const RowPair& next = {}) {
  void (*store)(const FfnArgs&, const SumBlock&, std::int64_t, bool) = nullptr;
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
      [&](const SumBlock& block) { store(args, block, first + block.pair * kRegisterRows, turned); });
  // The tile of the last features where the matrix has ended.
  for (std::int64_t p = 0; there < end && p < panel_count(args.n); ++p) InnerTile(args, p, there, turned).clear();
}

/// The same where there is no up.
inline void gate_alone(const FfnArgs& args, const Panels& x, bool turned, Slice slice, const OwnSpace& own) {
  with_activation(args, [&]<Activation activation>() {
    project(x, args.gate, slice, own, [&](const SumBlock& block, std::int64_t feature) {
      store_activated<activation>(args, block, feature, turned);
    });
  });
}

}  // namespace
}  // namespace qinfer::kernels::amx
