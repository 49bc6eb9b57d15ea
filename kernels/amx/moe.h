// What a mixture of experts on tiles consists of: its phases, where each slot has its values between the two halves,
// and the sums over slots.
#pragma once

#include <limits>

#include "amx/projections.h"
#include "common/routes.h"

namespace qinfer::kernels::amx {
namespace {

enum MoePhase : std::int32_t { kRouter, kChoose, kList, kGather, kInner, kOuter, kMoePhases };

/// Units of the router's outputs, and of those with the shared router's, for the same rows.
inline std::int64_t router_units(const MoeArgs& args) { return units_of(args.router.rows); }
inline std::int64_t all_router_units(const MoeArgs& args) { return router_units(args) + (args.has_shared() ? 1 : 0); }

/// Calls f(layer, units, column of its first output among the logits) for the routers of a slice.
template <typename F>
inline void for_routers(const MoeArgs& args, Slice slice, F f) {
  const std::int64_t units = router_units(args);
  const Slice own{slice.begin, smaller(slice.end, units), slice.worker};
  if (own.begin < own.end) f(args.router, own, std::int64_t{0});
  if (slice.begin < slice.end && slice.end > units) f(args.shared_router, Slice{0, 1, slice.worker}, args.router.rows);
}

/// A slot's network as a separate network. Between its halves each slot has its own panels.
inline FfnArgs network_of(const MoeArgs& args, const ExpertSlot& slot) {
  const SlotLayers w = network_layers(args, slot);
  FfnArgs ffn;
  ffn.n = slot.count;
  ffn.gate = *w.gate, ffn.up = *w.up, ffn.down = *w.down;
  ffn.activation = args.activation;
  // The shared network, the only one of another width, is the last.
  ffn.workspace.shared = args.buffers.inner + slot.first_panel * panel_dwords(args.expert_width()) * 4;
  return ffn;
}

/// Whether the panels between the halves of a slot's network are turned.
inline bool turns_inner(const FfnArgs& ffn) { return takes_turned({&ffn.down}); }

/// Calls f(slot, tiles, next slot or null, its tiles) for the slots of which a slice of the first half has tiles.
template <typename F>
inline void for_inner_slots(const MoeArgs& args, const Routes& routes, Slice slice, F f) {
  const std::int64_t n = routes.n_slots();
  Range<std::int64_t> tiles, next_tiles;
  const auto find = [&](std::int64_t i, Range<std::int64_t>& range) {
    for (; i < n; ++i) {
      range = inner_tiles(args, routes, i, kUnitRows, slice);
      if (range.begin < range.end) break;
    }
    return i;
  };
  for (std::int64_t i = find(0, tiles), next = 0; i < n; i = next, tiles = next_tiles) {
    next = find(i + 1, next_tiles);
    f(routes.slots[i], tiles, next < n ? routes.slots + next : nullptr, next_tiles);
  }
}

// ---- the second half: sums over slots ----

/// Rows and units of outputs that a worker sums up at once. Units: as many as reuse a slot's panels well; more where
/// rows are few. Rows: at most this many, so many that staging the weights again for the
/// next ones costs little in comparison.
inline constexpr std::int64_t kRowsAtOnce = 4096, kUnitsAtOnce = 8, kLeastSumRows = 64;

/// Some rows of the batch, and units of outputs.
struct OuterBlock {
  std::int64_t first_row, end_row, first_unit, end_unit;
  std::int64_t units() const { return end_unit - first_unit; }
};

/// A worker's sums of a block, row-major: slots have their rows in any lanes of their panels.
class RowSums {
 public:
  RowSums(const MoeArgs& args, std::int32_t worker)
      : data_(reinterpret_cast<float*>(args.workspace.of(worker) + OwnSpace::bytes(rows_of(args), 1, widest(args)))) {}

  static std::uint64_t bytes(std::int64_t n) {
    return static_cast<std::uint64_t>(larger(smaller(n, kRowsAtOnce), kLeastSumRows) * kUnitsAtOnce * kUnitRows) * 4;
  }

  /// Calls f(block) for blocks that cover a slice of units, with sums that are not a number for rows without experts,
  /// and after it brings the sums to the outputs.
  template <typename F>
  void for_blocks(const MoeArgs& args, const Routes& routes, Slice slice, F f) {
    const std::int64_t units = larger(kUnitsAtOnce, kLeastSumRows * kUnitsAtOnce / args.n);
    for (std::int64_t unit = slice.begin; unit < slice.end; unit += units)
      for (std::int64_t row = 0; row < args.n; row += kRowsAtOnce) {
        block_ = {row, smaller(row + kRowsAtOnce, args.n), unit, smaller(unit + units, slice.end)};
        set_lost_to_nan(routes);
        f(block_);
        args.out.is_row_major() ? store_rows(args) : store_panels(args);
      }
  }

  /// Those of a row of the batch, from output `first` of the block on.
  float* at(std::int64_t row, std::int64_t first) const {
    return data_ + (row - block_.first_row) * block_.units() * kUnitRows + first;
  }

 private:
  static std::int64_t widest(const MoeArgs& args) {
    return larger(args.router.cols, larger(args.expert_width(), args.has_shared() ? args.shared_width() : 0));
  }
  static std::uint32_t rows_of(const MoeArgs& args) { return static_cast<std::uint32_t>(args.n); }
  static __m512 scaled(const MoeArgs& args, const float* sums) {
    return _mm512_mul_ps(_mm512_load_ps(sums), _mm512_set1_ps(args.scale));
  }
  /// Outputs of the block that there are.
  std::int64_t outputs(const MoeArgs& args) const {
    return smaller(block_.end_unit * kUnitRows, args.down[0].rows) - block_.first_unit * kUnitRows;
  }

  void set_lost_to_nan(const Routes& routes) const {
    const __m512 nan = _mm512_set1_ps(std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t i = 0; i < routes.n_lost(); ++i) {
      const std::int64_t row = routes.lost[i];
      if (row < block_.first_row || row >= block_.end_row) continue;
      for (std::int64_t j = 0; j < block_.units() * kUnitRows; j += 16) _mm512_store_ps(at(row, j), nan);
    }
  }

  void store_rows(const MoeArgs& args) const {
    const std::int64_t count = outputs(args);
    for (std::int64_t row = block_.first_row; row < block_.end_row; ++row)
      for (std::int64_t j = 0; j < count; j += 16) {
        const __mmask16 lanes = first_lanes(count - j);
        float* out = args.out.row(row) + block_.first_unit * kUnitRows + j;
        __m512 value = scaled(args, at(row, j));
        if (args.accumulate) value = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, out), value);
        _mm512_mask_storeu_ps(out, lanes, value);
      }
  }

  void store_panels(const MoeArgs& args) const {
    const std::int64_t count = outputs(args);
    for (std::int64_t row = block_.first_row; row < block_.end_row; row += kPanelLanes)
      for (std::int64_t j = 0; j < count; j += 16) {
        __m512 rows[16], lines[16];
        for (std::int64_t m = 0; m < 16; ++m)
          rows[m] = row + m < block_.end_row ? scaled(args, at(row + m, j)) : _mm512_setzero_ps();
        transpose(rows, lines);
        for (std::int64_t i = 0; i < 16 && j + i < count; ++i) {
          float* line = f32_line(args.out, row / kPanelLanes, block_.first_unit * kUnitRows + j + i);
          _mm512_store_ps(line, args.accumulate ? _mm512_add_ps(_mm512_load_ps(line), lines[i]) : lines[i]);
        }
      }
  }

  float* data_;
  OuterBlock block_{};
};

}  // namespace
}  // namespace qinfer::kernels::amx
