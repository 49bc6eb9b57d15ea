// A mixture of experts: phases of the operation, and which inner loops each expert's matrices need.
//
// The router is a separate linear layer, always with f32 sums and the file's own values: an error there picks other
// experts. With more than kLocalRouted rows of experts, a phase before each half packs the rows of all slots into
// panels that all threads read, gathered or one after the other; with fewer each worker packs what it multiplies.
#include "tiled/moe.h"

#include <limits>

namespace qinfer::kernels::QINFER_ISA {
namespace {

enum Phase : std::int32_t { kPackRouter, kRouter, kChoose, kList, kGather, kInner, kPackInner, kOuter };
static_assert(kOuter + 1 == kMoePhases);

/// Rows of experts in a batch that workers pack for themselves.
constexpr std::int64_t kLocalRouted = 16;

constexpr SlotKernels kF32 = slot_kernels<F32Mode<DType::f32>>();
constexpr SlotKernels kF16 = slot_kernels<F32Mode<DType::f16>>();
constexpr SlotKernels kBf16 = slot_kernels<F32Mode<DType::bf16>>();

bool is_local(const MoeArgs& args) { return args.n * args.top_k <= kLocalRouted; }

Encoding encoding_of(const Matrix& w) { return w.format.encoding; }

bool is_quantised(const Matrix& w) { return !is_plain(encoding_of(w)); }

/// What a matrix is multiplied as by a set that has products of this kind: those of f16 are for f16 weights, and with
/// them come those of integers, for quantised ones, as f16 does with tiles.
Products products_for(const Matrix& w, Products best) {
  if (best == Products::bf16 || best == Products::f32) return best;
  if (is_quantised(w)) return best == Products::f16 ? Products::int16 : best;
  const bool has_f16 = best == Products::f16 || best == Products::int16_tiles;
  return has_f16 && encoding_of(w) == Encoding::f16 ? Products::f16 : Products::f32;
}

/// Both of them: bf16, or what suits them where they are of one format, or both quantised.
Products products_for(const Matrix& gate, const Matrix& up, Products best) {
  const bool alike = gate.format == up.format || (is_quantised(gate) && is_quantised(up));
  return alike || best == Products::bf16 ? products_for(gate, best) : Products::f32;
}

const SlotKernels& kernels_for(Encoding encoding, Products products) {
  if constexpr (kNarrowProducts)
    if (products != Products::f32) return narrow_slot_kernels(encoding, products);
  if (!is_plain(encoding)) return quant_slot_kernels();
  return encoding == Encoding::f16 ? kF16 : encoding == Encoding::bf16 ? kBf16 : kF32;
}

// ---- the router ----

LinearArgs router_args(const MoeArgs& args, const Linear& w, std::int64_t column) {
  const Routes routes(args);
  LinearArgs linear;
  linear.n = args.n;
  linear.x = args.x;
  linear.w = w;
  linear.out = {routes.logits + column, ActivationLayout::row_major, routes.ld};
  linear.workspace = args.workspace;
  linear.workspace.shared = args.buffers.gathered;
  return linear;
}

/// Panels of f32 are the same for weights of every type, so both routers use the same ones.
void run_router(const MoeArgs& args, std::int32_t phase, Slice slice) {
  const std::int64_t tiles = tiles_of(args.router.rows);
  const Slice own{slice.begin, smaller(slice.end, tiles), slice.worker};
  if (phase == kPackRouter || own.begin < own.end)
    f32_projections(encoding_of(args.router))
        .linear.run(router_args(args, args.router, 0), phase, phase == kPackRouter ? slice : own);
  if (phase == kRouter && slice.end > tiles)
    f32_projections(encoding_of(args.shared_router))
        .linear.run(router_args(args, args.shared_router, args.router.rows), phase, {0, 1, slice.worker});
}

// ---- rows of slots as panels ----

Operand inner_operand(const MoeArgs& args, const ExpertSlot& slot, Products best) {
  const SlotLayers w = network_layers(args, slot);
  const Products products = products_for(*w.gate, *w.up, best);
  const float limit = products == Products::f16 ? activation_limit(*w.gate, *w.up) : 0;
  const bool sums = is_quantised(*w.gate) || is_quantised(*w.up);
  return {args.x, true, products, sums, limit, w.gate->cols};
}

Operand outer_operand(const MoeArgs& args, const ExpertSlot& slot, Products best) {
  const Matrix& down = *network_layers(args, slot).down;
  const Products products = products_for(down, best);
  const float limit = products == Products::f16 ? activation_limit(down) : 0;
  return {inner_rows(args, slot), false, products, is_quantised(down), limit, down.cols};
}

/// Packs panels [begin, end) of a slot into `memory`.
void pack_slot(const Routes& routes, const ExpertSlot& slot, const Operand& operand, std::byte* memory,
               std::int64_t begin, std::int64_t end) {
  if constexpr (kNarrowProducts)
    if (operand.products != Products::f32) return pack_narrow_slot(routes, slot, operand, memory, begin, end);
  pack_slot_as<F32Values>(routes, slot, operand, memory, begin, end);
}

/// The shared panels of a slot, each row with its exponent. Only the last slot may be wider than the others.
std::byte* shared_panels(const MoeArgs& args, const ExpertSlot& slot, std::int64_t expert_cols) {
  return args.buffers.gathered +
         slot.first * (Panels::row_room(expert_cols) + 1) * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t all_panels(const MoeArgs& args) {
  if (is_local(args)) return 0;
  const Routes routes(args);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < routes.n_slots(); ++i) count += panel_count(routes.slots[i].count);
  return count;
}

/// Panels [slice.begin, slice.end) of all slots.
template <typename OperandOf>
void pack_slots(const MoeArgs& args, std::int64_t expert_cols, Slice slice, OperandOf operand_of) {
  const Routes routes(args);
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < routes.n_slots() && first < slice.end; ++i) {
    const ExpertSlot& slot = routes.slots[i];
    const std::int64_t count = panel_count(slot.count);
    const std::int64_t begin = larger(slice.begin - first, std::int64_t{0}), end = smaller(slice.end - first, count);
    if (begin < end) pack_slot(routes, slot, operand_of(slot), shared_panels(args, slot, expert_cols), begin, end);
    first += count;
  }
}

// ---- the two halves ----

/// Calls f(work) for every slot of which a slice has tiles, tiles_of_slot(i) of slot i. `panels(slot)`: its panels.
template <typename TilesOfSlot, typename PanelsOf, typename F>
void for_slots(const MoeArgs& args, const Routes& routes, TilesOfSlot tiles_of_slot, PanelsOf panels, F f) {
  const std::int64_t n = routes.n_slots();
  const auto next_with_tiles = [&](std::int64_t i) {
    while (i < n && tiles_of_slot(i).begin >= tiles_of_slot(i).end) ++i;
    return i;
  };
  for (std::int64_t i = next_with_tiles(0), next = 0; i < n; i = next) {
    next = next_with_tiles(i + 1);
    const Range<std::int64_t> tiles = tiles_of_slot(i);
    const ExpertSlot& slot = routes.slots[i];
    f(SlotWork{args, routes, slot, panels(slot), tiles.begin, tiles.end, next < n ? routes.slots + next : nullptr,
               next < n ? tiles_of_slot(next).begin : tiles.end});
  }
}

/// A worker's own panels, which last as long as a slot has the same single row as the one before.
class LocalPanels {
 public:
  LocalPanels(const Routes& routes, std::byte* memory) : routes_(routes), memory_(memory) {}

  std::byte* of(const ExpertSlot& slot, const Operand& operand) {
    const std::int32_t row = operand.gathered && slot.count == 1 ? routes_.rows[slot.first].row : -1;
    if (row < 0 || row != row_ || operand.products != products_ || operand.sums != sums_ || operand.limit != limit_)
      pack_slot(routes_, slot, operand, memory_, 0, panel_count(slot.count));
    row_ = row, products_ = operand.products, sums_ = operand.sums, limit_ = operand.limit;
    return memory_;
  }

 private:
  const Routes& routes_;
  std::byte* memory_;
  std::int32_t row_ = -1;
  Products products_ = Products::f32;
  bool sums_ = false;
  float limit_ = 0;
};

void run_inner(const MoeArgs& args, Slice slice, Products best) {
  const Routes routes(args);
  LocalPanels local(routes, args.workspace.of(slice.worker));
  const auto panels = [&](const ExpertSlot& slot) {
    return is_local(args) ? local.of(slot, inner_operand(args, slot, best))
                          : shared_panels(args, slot, args.router.cols);
  };
  const auto tiles = [&](std::int64_t i) { return inner_tiles(args, routes, i, kTileRows, slice); };
  for_slots(args, routes, tiles, panels, [&](const SlotWork& work) {
    const SlotLayers w = network_layers(args, work.slot);
    const Products products = inner_operand(args, work.slot, best).products;
    if (w.gate->format == w.up->format) return kernels_for(encoding_of(*w.gate), products).inner(work);
    auto* const values = reinterpret_cast<std::uint32_t*>(work.panels);
    const Slice own{work.begin, work.end, slice.worker};
    const Activations act = inner_rows(args, work.slot);
    if constexpr (kNarrowProducts)
      if (products != Products::f32)
        return narrow_mixed_gate_and_up_tiles(network_of(work), values, own, act, products);
    mixed_gate_and_up_tiles(network_of(work), values, own, act);
  });
}

void run_outer(const MoeArgs& args, Slice slice, Products best) {
  const Routes routes(args);
  const std::int64_t first = slice.begin * kTileRows, count = smaller(slice.end * kTileRows, args.down[0].rows) - first;
  const F32x16 nan = splat(std::numeric_limits<float>::quiet_NaN());
  for (std::int64_t i = 0; i < routes.n_lost(); ++i)
    for (std::int64_t j = 0; j < count; j += 16)
      store(args.out.row(routes.lost[i]) + first + j, first_lanes(count - j), nan);
  LocalPanels local(routes, args.workspace.of(slice.worker));
  const auto panels = [&](const ExpertSlot& slot) {
    return is_local(args) ? local.of(slot, outer_operand(args, slot, best))
                          : shared_panels(args, slot, args.expert_width());
  };
  const auto tiles = [&](std::int64_t) { return Range<std::int64_t>{slice.begin, slice.end}; };
  for_slots(args, routes, tiles, panels, [&](const SlotWork& work) {
    const Operand operand = outer_operand(args, work.slot, best);
    kernels_for(encoding_of(*network_layers(args, work.slot).down), operand.products).outer(work);
  });
}

}  // namespace

void moe(const MoeArgs& args, std::int32_t phase, Slice slice, Products best) {
  switch (phase) {
    case kPackRouter:
    case kRouter: return run_router(args, phase, slice);
    case kChoose: return choose_experts(args, slice, args.workspace.of(slice.worker));
    case kList: return list_rows(args, slice);
    case kGather:
      return pack_slots(args, args.router.cols, slice,
                        [&](const ExpertSlot& slot) { return inner_operand(args, slot, best); });
    case kInner: return run_inner(args, slice, best);
    case kPackInner:
      return pack_slots(args, args.expert_width(), slice,
                        [&](const ExpertSlot& slot) { return outer_operand(args, slot, best); });
    default: return run_outer(args, slice, best);
  }
}

std::int64_t moe_units(const MoeArgs& args, std::int32_t phase) {
  switch (phase) {
    case kPackRouter: return pack_units(args.n);
    case kRouter: return tiles_of(args.router.rows) + (args.has_shared() ? 1 : 0);
    case kChoose: return choice_units(args);
    case kList: return list_units(args);
    case kGather:
    case kPackInner: return all_panels(args);
    case kInner: return inner_units(args, Routes(args), kTileRows);
    default: return tiles_of(args.down[0].rows);
  }
}

MoeWorkspace moe_workspace(const Shape& shape) {
  const std::uint64_t shared_rows = shape.shared_width != 0 ? shape.batch : 0, rows = shape.routed_rows();
  const std::uint64_t of_first = (rows + shared_rows) * Panels::row_dwords(shape.hidden);
  const std::uint64_t of_second =
      rows * Panels::row_dwords(shape.expert_width) + shared_rows * Panels::row_dwords(shape.shared_width);
  const std::uint64_t inner = rows * shape.expert_width + shared_rows * shape.shared_width;
  const std::uint64_t widest = larger(shape.hidden, larger(shape.expert_width, shape.shared_width));
  const auto local = smaller<std::uint64_t>(shape.batch, kLocalRouted);
  MoeWorkspace size;
  size.routes = routes_bytes(shape);
  size.gathered = round_up(larger(of_first, of_second) * sizeof(float), 64) + 64;
  size.inner = round_up(inner * sizeof(float), 64);
  size.per_worker = larger(Panels::bytes(local, widest), choice_bytes(shape.experts));
  return size;
}

}  // namespace qinfer::kernels::QINFER_ISA
