// The two halves of an expert's network over a slot of rows (common/routes.h), for either way of adding up: gate and up
// into separate rows, and down with its results weighted and added to the rows of the batch.
#pragma once

#include "tiled/projections.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

/// Where the products of gate and up of a slot are, one row after the other.
inline Activations inner_rows(const MoeArgs& args, const ExpertSlot& slot) {
  float* rows = reinterpret_cast<float*>(args.buffers.inner) + slot.first * args.expert_width();
  return {rows, ActivationLayout::row_major, network_layers(args, slot).gate->rows};
}

/// A slot's network as a separate network. Panels hold its rows.
inline FfnArgs network_of(const SlotWork& work) {
  const SlotLayers w = network_layers(work.args, work.slot);
  FfnArgs args;
  args.n = work.slot.count;
  args.gate = *w.gate, args.up = *w.up;
  args.activation = work.args.activation;
  return args;
}

/// Tiles of a matrix of the next slot, which are fetched while this one's are multiplied. Its format may be another
/// one: nothing is asked of the loops that will multiply it.
struct NextTiles {
  const std::byte* data;
  std::int64_t bytes;  ///< of a tile
  explicit NextTiles(const Matrix& w)
      : data(w.data), bytes(static_cast<std::int64_t>(weight_bytes(w.format, kTileRows, w.cols))) {}
  const std::byte* at(std::int64_t tile) const { return data + tile * bytes; }
};

template <typename Mode>
void slot_inner(const SlotWork& work) {
  const FfnArgs args = network_of(work);
  const Panels panels = panels_of<Mode>(work.panels, args.n, args.gate.cols);
  const Activations act = inner_rows(work.args, work.slot);
  const std::int64_t tiles = 2 * (work.end - work.begin);
  auto* const store = store_activations_of(args);
  const SlotLayers next = network_layers(work.args, work.next != nullptr ? *work.next : work.slot);
  using Loops = typename Mode::Loops;
  alignas(64) float sums[kSumsFloats<Loops>];
  const Loops loops(args.gate);
  const NextTiles next_gate(*next.gate), next_up(*next.up);
  // Tiles after the last one are those of the next slot.
  multiply(
      loops, panels, args.n, tiles, 2, sums, sums_ld<Loops>(args.n),
      [&](std::int64_t t) {
        if (t < tiles) return tile_at(loops, t % 2 == 0 ? args.gate : args.up, work.begin + t / 2);
        return (t % 2 == 0 ? next_gate : next_up).at(work.next_begin + (t - tiles) / 2);
      },
      [&](const Block& block) { store(args, block, panels, work.begin, act); });
}

/// Adds a block's results to the rows of the batch.
inline void add_weighted(const SlotWork& work, const Block& block, const Panels& panels, const Linear& down) {
  const float weight_exponent = log2_of(down.pack.scale);
  const std::int64_t first = (work.begin + block.first_tile) * kTileRows;
  const std::int64_t count = smaller(block.tiles * kTileRows, down.rows - first);
  for (std::int64_t m = 0; m < block.tokens; ++m) {
    const RoutedRow& routed = work.routes.rows[work.slot.first + block.first_row + m];
    const float exponent = weight_exponent - panels.exponents[block.first_row + m];
    const F32x16 weight = splat(routed.weight), scale = splat(work.args.scale);
    const bool adds = work.args.accumulate || !routed.first;
    float* out = work.args.out.row(routed.row) + first;
    for (std::int64_t j = 0; j < count; j += 16) {
      const Lanes lanes = first_lanes(count - j);
      F32x16 value = finished<false>(down, block.sums + m * block.ld + j, exponent, 0, first + j, count - j);
      value = mul(mul(value, weight), scale);
      if (adds) value = add(load(lanes, out + j), value);
      store(out + j, lanes, value);
    }
  }
}

template <typename Mode>
void slot_outer(const SlotWork& work) {
  const Linear& down = *network_layers(work.args, work.slot).down;
  const Matrix& next = *network_layers(work.args, work.next != nullptr ? *work.next : work.slot).down;
  const Panels panels = panels_of<Mode>(work.panels, work.slot.count, down.cols);
  const std::int64_t tiles = work.end - work.begin;
  using Loops = typename Mode::Loops;
  alignas(64) float sums[kSumsFloats<Loops>];
  const Loops loops(down);
  const NextTiles next_down(next);
  multiply(
      loops, panels, work.slot.count, tiles, 1, sums, sums_ld<Loops>(work.slot.count),
      [&](std::int64_t t) {
        return t < tiles ? tile_at(loops, down, work.begin + t) : next_down.at(work.next_begin + t - tiles);
      },
      [&](const Block& block) { add_weighted(work, block, panels, down); });
}

/// Packs panels [begin, end) of a slot into `memory`.
template <typename Values>
inline void pack_slot_as(const Routes& routes, const ExpertSlot& slot, const Operand& operand, std::byte* memory,
                         std::int64_t begin, std::int64_t end) {
  const auto row = [&](std::int64_t m) {
    return operand.rows.row(operand.gathered ? routes.rows[slot.first + m].row : m);
  };
  const Panels panels = panels_with<Values>(memory, slot.count, operand.cols);
  pack_rows<Values>(row, slot.count, operand.limit, panels, begin, end);
}

template <typename Mode>
constexpr SlotKernels slot_kernels() {
  return {slot_inner<Mode>, slot_outer<Mode>};
}

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
