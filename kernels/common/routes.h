// How the rows of a batch are distributed among experts: what every kernel set does alike in a mixture of experts, and
// the phases in which it is done.
//
// A set multiplies with the router, which leaves `logits`. Then each row chooses its experts (choose_experts()), and
// the choices of all rows become one list that is sorted by expert (list_rows()): a *slot* is an expert that at least
// one row chose, with its rows in ascending order. The shared network is one more slot, the last, with all rows. A set
// multiplies slot after slot: it gathers the rows of each while it packs them, and adds what comes out to the rows of
// the batch. Since slots are in ascending order, the sums of a row have one order whatever other rows chose.
//
// Both halves of the network are cut so that a slice of units has the same share of every slot: threads then have equal
// work, however many rows each expert has, and few experts (decoding) are read by all threads together. For the first
// half see inner_tiles(); in the second a unit is a range of outputs, for all slots.
#pragma once

#include <cstdint>

#include "common/range.h"
#include "kernel_set.h"

namespace qinfer::kernels {

/// A row of the batch in a slot.
struct RoutedRow {
  std::int32_t row = 0;
  float weight = 0;
  bool first = false;  ///< nothing of an earlier slot is added to this row of the batch
};

struct ExpertSlot {
  std::int32_t expert = 0;  ///< as many as there are experts: the shared network
  std::int32_t first = 0;   ///< of its rows, in the list of all slots
  std::int32_t count = 0;
  std::int32_t first_panel = 0;  ///< of its rows, where each slot has panels of kPanelRows rows of its own
};

/// Views into MoeBuffers::routes.
struct Routes {
  float* logits = nullptr;  ///< [n][ld], the shared router's output after those of the experts
  std::int64_t ld = 0;
  std::int32_t* chosen = nullptr;  ///< [n][top_k], ascending; -1: none
  float* weights = nullptr;        ///< [n][top_k]
  RoutedRow* rows = nullptr;       ///< [n * top_k, and n more with a shared network]
  ExpertSlot* slots = nullptr;
  std::int32_t* lost = nullptr;    ///< [n]: rows of the batch whose results are NaN
  std::int32_t* counts = nullptr;  ///< [2]: slots, lost rows
  std::int32_t* starts = nullptr;  ///< [experts + 1]: while the list is made

  explicit Routes(const MoeArgs& args);
  std::int64_t n_slots() const { return counts[0]; }
  std::int64_t n_lost() const { return counts[1]; }
};

/// Bytes of MoeBuffers::routes.
std::uint64_t routes_bytes(const Shape& shape);
/// Panels of kPanelRows rows that all slots have together, at most; those of the shared network not counted.
std::uint64_t most_routed_panels(const Shape& shape);
/// Bytes that a worker needs to choose the experts of a row.
std::uint64_t choice_bytes(std::uint32_t experts);

/// Rows whose experts one unit chooses; a batch of no more rows makes the list in the same phase.
inline constexpr std::int64_t kChoiceRows = 16;

/// The phases that follow the router. `choose`: units of kChoiceRows rows, `scratch` has choice_bytes(). `list`: one
/// unit, or none where choosing has done it.
std::int64_t choice_units(const MoeArgs& args);
std::int64_t list_units(const MoeArgs& args);
void choose_experts(const MoeArgs& args, Slice slice, std::byte* scratch);
void list_rows(const MoeArgs& args, Slice slice);

/// The top_k largest of n probabilities, as torch.topk chooses them on a CPU: by the algorithms of the C++ library with
/// a comparison that sees the values alone, so that which of several equal values are chosen follows from how these
/// algorithms exchange elements: those of GCC's library, as in torch's builds (tests/fixtures/topk_ties.json has what
/// torch chose); with another library other ones of equal values may be chosen. `chosen` gets their indices in
/// ascending order. `scratch`: choice_bytes(n).
void choose_largest(const float* values, std::int32_t n, std::int32_t top_k, std::byte* scratch, std::int32_t* chosen);

namespace {  // files with different instruction sets include this header

/// The layers of a slot's network.
struct SlotLayers {
  const Linear *gate, *up, *down;
};
inline SlotLayers network_layers(const MoeArgs& args, const ExpertSlot& slot) {
  if (slot.expert == static_cast<std::int32_t>(args.experts))
    return {&args.shared_gate, &args.shared_up, &args.shared_down};
  return {args.gate + slot.expert, args.up + slot.expert, args.down + slot.expert};
}

/// Tiles of `tile` outputs in the first half of a slot.
inline std::int64_t slot_tiles(const MoeArgs& args, const ExpertSlot& slot, std::int64_t tile) {
  return (network_layers(args, slot).gate->rows + tile - 1) / tile;
}
inline std::int64_t most_tiles(const MoeArgs& args, std::int64_t tile) {
  const std::int64_t width =
      args.has_shared() && args.shared_width() > args.expert_width() ? args.shared_width() : args.expert_width();
  return (width + tile - 1) / tile;
}

/// Units of the first half: as many as slots and tiles of the widest network, whatever the widths of the others.
inline std::int64_t inner_units(const MoeArgs& args, const Routes& routes, std::int64_t tile) {
  return routes.n_slots() * most_tiles(args, tile);
}

/// The tiles of slot i of s that a slice of u units has: every slot is cut into u parts of equal size up to rounding,
/// and the cuts of slot i are i/s of a tile earlier than those of the first, so that the units of few tiles have equal
/// work, too. Slices that cover all units cover every tile once.
inline Range<std::int64_t> inner_tiles(const MoeArgs& args, const Routes& routes, std::int64_t i, std::int64_t tile,
                                       Slice slice) {
  const std::int64_t s = routes.n_slots(), most = most_tiles(args, tile), units = s * most;
  const std::int64_t tiles = slot_tiles(args, routes.slots[i], tile);
  const auto cut = [&](std::int64_t unit) { return (unit * tiles + i * most) / units; };
  return {cut(slice.begin), cut(slice.end)};
}

}  // namespace
}  // namespace qinfer::kernels
