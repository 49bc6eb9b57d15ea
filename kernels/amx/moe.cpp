// A mixture of experts on tiles, whose weights are read as they are stored (common/routes.h says what the phases are).
//
// A tile multiplies 16 rows whether they are wanted or not. So up to 16 rows of a batch, one panel, pass through every
// slot together: nothing is gathered, and what comes of rows that did not choose the expert is not looked at. Of more
// rows each slot gets panels of its own. Lines of panels have a pair of features of 16 rows, and to pick lanes out of
// them would take as long as to multiply them. So the phase that chooses experts also turns the panels into rows of
// bf16, out of which the next one makes panels, turned ones where the weights take them.
//
// In the second half a worker has some outputs of all slots. It adds up their shares in rows of its own (RowSums), in
// ascending order of the slots, and brings the sums to the residual stream at the end.
#include "amx/moe.h"

#include <algorithm>

#include "amx/ffn.h"

namespace qinfer::kernels::amx {
namespace {

// ---- the router ----

/// Panels of a unit: with few experts there would be few units of many rows.
constexpr std::int64_t kRouterPanels = 8;

/// The outputs of some rows of the batch, from `first_row` on.
void router_outputs(const MoeArgs& args, const Panels& x, std::int64_t first_row, Slice slice, const OwnSpace& own) {
  const Routes routes(args);
  for_routers(args, slice, [&](const Linear& w, Slice units, std::int64_t column) {
    const auto row = [&](std::int64_t m) { return routes.logits + (first_row + m) * routes.ld + column; };
    prefetch_first(rows_of(w, units.begin * kUnitRows, w.rows), x.n);
    project(x, w, units, own,
            [&](const SumBlock& block, std::int64_t feature) { store_rows(block, x.n, feature, w, false, row); });
  });
}

void run_router(const MoeArgs& args, Slice slice) {
  const TileRegion region;
  const OwnSpace own(args.workspace, slice.worker);
  const std::int64_t units = all_router_units(args), cols = args.router.cols;
  const bool turned = takes_turned({&args.router}) && (!args.has_shared() || takes_turned({&args.shared_router}));
  const Panels all = panels_of(args.x, args.n, cols, turned, own);
  for (std::int64_t unit = slice.begin, next = 0; unit < slice.end; unit = next) {
    const std::int64_t part = unit / units, panel = part * kRouterPanels, row = panel * kPanelLanes;
    next = smaller(slice.end, (part + 1) * units);
    router_outputs(args, all.part(panel, smaller(args.n - row, kRouterPanels * kPanelLanes)), row,
                   {unit - part * units, next - part * units, slice.worker}, own);
  }
}

// ---- rows of slots as panels ----

bool gathers(const MoeArgs& args) { return args.n > kPanelLanes; }

/// MoeBuffers::gathered: the rows of the batch as rows of pairs, then the panels of all slots but the shared one.
struct Gathered {
  std::uint32_t *rows, *panels;
  std::int64_t width;  ///< dwords of a row

  explicit Gathered(const MoeArgs& args)
      : rows(reinterpret_cast<std::uint32_t*>(args.buffers.gathered)),
        panels(rows + panel_count(args.n) * panel_dwords(args.router.cols)),
        width(padded_k(args.router.cols) / 2) {}
  std::uint32_t* panel(std::int64_t p) const { return panels + p * width * kPanelLanes; }
};

/// A panel of the batch as rows.
void unpack_panel(const MoeArgs& args, std::int64_t panel) {
  const Gathered gathered(args);
  const std::uint32_t* lines = args.x.pairs() + panel * panel_dwords(args.router.cols);
  for (std::int64_t k = 0; k < gathered.width; k += 16, lines += 16 * kPanelLanes) {
    __m512i block[16];
    for (std::int64_t i = 0; i < 16; ++i) block[i] = _mm512_load_si512(lines + i * kPanelLanes);
    avx512::transpose16(block);
    for (std::int64_t m = 0; m < 16; ++m)
      _mm512_store_si512(gathered.rows + (panel * kPanelLanes + m) * gathered.width + k, block[m]);
  }
}

void choose(const MoeArgs& args, Slice slice) {
  static_assert(kChoiceRows == kPanelLanes);
  choose_experts(args, slice, args.workspace.of(slice.worker));
  for (std::int64_t panel = slice.begin; panel < slice.end && gathers(args); ++panel) unpack_panel(args, panel);
}

/// Panels of all slots but the shared one, which has the batch's own.
std::int64_t gathered_panels(const MoeArgs& args) {
  const Routes routes(args);
  if (!gathers(args) || routes.n_slots() == 0) return 0;
  const ExpertSlot& last = routes.slots[routes.n_slots() - 1];
  return last.first_panel + (args.has_shared() ? 0 : panel_count(last.count));
}

/// Whether the rows of a slot are turned, in panels of its own or in those of the batch; and those of all slots.
bool turns_slot(const MoeArgs& args, const ExpertSlot& slot) {
  const SlotLayers w = network_layers(args, slot);
  return takes_turned({w.gate, w.up});
}
bool turns_all(const MoeArgs& args, const Routes& routes) {
  for (std::int64_t i = 0; i < routes.n_slots(); ++i)
    if (!turns_slot(args, routes.slots[i])) return false;
  return true;
}

/// Packs the rows of a slot from `first` on, zeros in lanes without a row.
void gather_panel(const MoeArgs& args, const Gathered& gathered, const Routes& routes, const ExpertSlot& slot,
                  std::int64_t first) {
  const std::int64_t count = smaller(slot.count - first, kPanelLanes);
  const RoutedRow* routed = routes.rows + slot.first + first;
  std::uint32_t* out = gathered.panel(slot.first_panel + first / kPanelLanes);
  if (turns_slot(args, slot)) {  // a row of pairs is a row of each step
    for (std::int64_t k = 0; k < gathered.width; k += 16)
      for (std::int64_t m = 0; m < kPanelLanes; ++m, out += 16)
        _mm512_store_si512(out, m < count ? _mm512_load_si512(gathered.rows + routed[m].row * gathered.width + k)
                                          : _mm512_setzero_si512());
    return;
  }
  for (std::int64_t k = 0; k < gathered.width; k += 16, out += 16 * kPanelLanes) {
    __m512i block[16];
    for (std::int64_t m = 0; m < 16; ++m)
      block[m] =
          m < count ? _mm512_load_si512(gathered.rows + routed[m].row * gathered.width + k) : _mm512_setzero_si512();
    avx512::transpose16(block);
    for (std::int64_t i = 0; i < 16; ++i) _mm512_store_si512(out + i * kPanelLanes, block[i]);
  }
}

void gather(const MoeArgs& args, Slice slice) {
  const Routes routes(args);
  const Gathered gathered(args);
  const auto begins_after = [](std::int64_t panel, const ExpertSlot& slot) { return panel < slot.first_panel; };
  for (std::int64_t panel = slice.begin; panel < slice.end; ++panel) {
    const ExpertSlot& slot =
        *(std::upper_bound(routes.slots, routes.slots + routes.n_slots(), panel, begins_after) - 1);
    gather_panel(args, gathered, routes, slot, (panel - slot.first_panel) * kPanelLanes);
  }
}

// ---- the first half ----

void run_inner(const MoeArgs& args, Slice slice) {
  const TileRegion region;
  const Routes routes(args);
  const OwnSpace own(args.workspace, slice.worker);
  const std::int64_t cols = args.router.cols;
  Panels batch;
  const bool turned = (!gathers(args) || args.has_shared()) && turns_all(args, routes);
  for_inner_slots(
      args, routes, slice,
      [&](const ExpertSlot& slot, Range<std::int64_t> tiles, const ExpertSlot* next, Range<std::int64_t> next_tiles) {
        FfnArgs ffn = network_of(args, slot);
        if (!gathers(args)) ffn.n = args.n;
        if (batch.n == 0) {
          prefetch_first(gate_and_up_rows(ffn, tiles.begin * kUnitRows), ffn.n);
          batch = panels_of(args.x, args.n, cols, turned, own);
        }
        // The shared network has no panels of its own. Others that have all rows have them in the batch's order.
        const bool is_shared = args.has_shared() && &slot == routes.slots + routes.n_slots() - 1;
        const std::uint32_t* panels = Gathered(args).panel(slot.first_panel);
        Panels x{panels, ffn.n, cols};
        if (gathers(args) && !is_shared && turns_slot(args, slot)) {
          x = {nullptr, ffn.n, cols, panels};
        } else if (ffn.n == args.n) {
          x = batch;
        }
        const RowPair later =
            next == nullptr ? RowPair() : gate_and_up_rows(network_of(args, *next), next_tiles.begin * kUnitRows);
        gate_and_up(ffn, x, turns_inner(ffn), {tiles.begin, tiles.end, slice.worker}, own, later);
      });
}

// ---- the second half ----

/// The rows of a slot that a block has, as they are in the slot's list.
Range<std::int64_t> rows_in(const Routes& routes, const ExpertSlot& slot, const OuterBlock& block) {
  const RoutedRow *first = routes.rows + slot.first, *end = first + slot.count;
  const auto before = [](const RoutedRow& routed, std::int64_t row) { return routed.row < row; };
  return {std::lower_bound(first, end, block.first_row, before) - first,
          std::lower_bound(first, end, block.end_row, before) - first};
}

/// 16 outputs of a layer, which are those from `output` on of what a worker sums up.
struct DownOutputs {
  const Linear& w;
  std::int64_t first, output;
  __m512 finished(__m512 sums) const { return finished_row(w, 0, first, w.rows - first, sums); }
};

/// Adds outputs of one panel of tokens, [16 tokens][16 features]: those of rows [rows.begin, rows.end) of a list.
/// `lane(i)`: which token row i is.
template <typename LaneOf>
void add_tile(const float* tile, const RoutedRow* list, const Range<std::int64_t>& rows, const DownOutputs& outputs,
              const RowSums& sums, LaneOf lane) {
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    const RoutedRow& routed = list[i];
    float* sum = sums.at(routed.row, outputs.output);
    const __m512 value =
        _mm512_mul_ps(outputs.finished(_mm512_load_ps(tile + 16 * lane(i))), _mm512_set1_ps(routed.weight));
    _mm512_store_ps(sum, routed.first ? value : _mm512_add_ps(_mm512_load_ps(sum), value));
  }
}

/// A slot's share in a block; `later`: rows of weights that follow.
void add_slot(const MoeArgs& args, const Routes& routes, const ExpertSlot& slot, const OuterBlock& block,
              const RowPair& later, const OwnSpace& own, const RowSums& sums) {
  const Range<std::int64_t> rows = rows_in(routes, slot, block);
  if (rows.begin == rows.end) return;
  const FfnArgs ffn = network_of(args, slot);
  const RoutedRow* list = routes.rows + slot.first;
  const std::int64_t cols = ffn.gate.rows, skipped = gathers(args) ? rows.begin / kPanelLanes : 0;
  const std::uint32_t* inner = inner_panels(ffn) + skipped * panel_dwords(cols);
  const bool turned = turns_inner(ffn);
  const Panels x{turned ? nullptr : inner, gathers(args) ? rows.end - skipped * kPanelLanes : args.n, cols,
                 turned ? inner : nullptr};
  const auto weights = [&](std::int64_t i) {
    const RowPair pair = rows_of(ffn.down, (block.first_unit + i) * kUnitRows, ffn.down.rows);
    return i + 1 < block.units() ? pair : followed_by(pair, later);
  };
  multiply(x, block.units(), 1, own, weights, [&](const SumBlock& sums_of) {
    const SumBlock product = turned_or_not(sums_of, true);
    for (int panel = 0; panel < product.panels; ++panel) {
      const std::int64_t first = (skipped + product.first_panel + panel) * kPanelLanes;
      const Range<std::int64_t> own_rows{larger(rows.begin, first), smaller(rows.end, first + kPanelLanes)};
      for (int tile = 0; tile < product.row_tiles; ++tile) {
        const float* values = product.tile(tile, panel);
        const std::int64_t output = product.pair * kUnitRows + tile * kRegisterRows;
        const DownOutputs outputs{ffn.down, block.first_unit * kUnitRows + output, output};
        if (gathers(args)) {
          add_tile(values, list, own_rows, outputs, sums, [first](std::int64_t i) { return i - first; });
        } else {
          add_tile(values, list, rows, outputs, sums, [list](std::int64_t i) { return list[i].row; });
        }
      }
    }
  });
}

void run_outer(const MoeArgs& args, Slice slice) {
  const TileRegion region;
  const Routes routes(args);
  const OwnSpace own(args.workspace, slice.worker);
  RowSums sums(args, slice.worker);
  const auto first_rows = [&](const ExpertSlot& slot, std::int64_t unit) {
    const Matrix& down = *network_layers(args, slot).down;
    return rows_of(down, unit * kUnitRows, down.rows);
  };
  if (routes.n_slots() > 0 && slice.begin < slice.end)
    prefetch_first(first_rows(routes.slots[0], slice.begin), gathers(args) ? routes.slots[0].count : args.n);
  sums.for_blocks(args, routes, slice, [&](const OuterBlock& block) {
    for (std::int64_t i = 0; i < routes.n_slots(); ++i) {
      const RowPair later = i + 1 < routes.n_slots() ? first_rows(routes.slots[i + 1], block.first_unit) : RowPair();
      add_slot(args, routes, routes.slots[i], block, later, own, sums);
    }
  });
}

}  // namespace

std::int64_t moe_ffn_units(const MoeArgs& args, std::int32_t phase) {
  switch (phase) {
    case kRouter: return all_router_units(args) * kernels::units_of(panel_count(args.n), kRouterPanels);
    case kChoose: return choice_units(args);
    case kList: return list_units(args);
    case kGather: return gathered_panels(args);
    case kInner: return inner_units(args, Routes(args), kUnitRows);
    default: return units_of(args.down[0].rows);
  }
}

void moe_ffn(const MoeArgs& args, std::int32_t phase, Slice slice) {
  switch (phase) {
    case kRouter: return run_router(args, slice);
    case kChoose: return choose(args, slice);
    case kList: return list_rows(args, slice);
    case kGather: return gather(args, slice);
    case kInner: return run_inner(args, slice);
    default: return run_outer(args, slice);
  }
}

MoeWorkspace moe_workspace(const Shape& shape) {
  const std::int64_t batch = shape.batch, hidden = shape.hidden;
  const std::int64_t widest = larger(hidden, larger<std::int64_t>(shape.expert_width, shape.shared_width));
  const std::uint64_t panels = most_routed_panels(shape);
  const auto slot_bytes = [panels](std::uint32_t cols) {
    return panels * static_cast<std::uint64_t>(panel_dwords(cols)) * 4;
  };
  MoeWorkspace size;
  size.routes = routes_bytes(shape);
  if (batch > kPanelLanes) size.gathered = panels_bytes(batch, hidden) + slot_bytes(shape.hidden);
  size.inner = slot_bytes(shape.expert_width);
  if (shape.shared_width != 0) size.inner += panels_bytes(batch, shape.shared_width);
  size.per_worker =
      larger(OwnSpace::bytes(shape.batch, 1, widest) + RowSums::bytes(batch), choice_bytes(shape.experts));
  return size;
}

}  // namespace qinfer::kernels::amx
