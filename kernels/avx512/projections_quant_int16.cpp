// Projections with quantised weights by products of 16-bit integers: all multiply the same panels, each matrix by the
// inner loops of its encoding; and the same with panels of many rows on tiles of AMX.
#include "avx512/modes.h"
#include "avx512/products.h"

namespace qinfer::kernels::avx512 {
namespace {

constexpr Projections kQuant = projections<QuantInt16Mode>();
constexpr SlotKernels kQuantSlots = slot_kernels<QuantInt16Mode>();
constexpr Projections kTiles = projections<QuantInt16TileMode>();
constexpr SlotKernels kTileSlots = slot_kernels<QuantInt16TileMode>();

}  // namespace

const Projections& quant_int16_projections() { return kQuant; }
const SlotKernels& quant_int16_slot_kernels() { return kQuantSlots; }
const Projections& int16_tile_projections() { return kTiles; }
const SlotKernels& int16_tile_slot_kernels() { return kTileSlots; }

const TileKernels& quant_int16_kernels(Encoding encoding) {
  return quant_layout(encoding).integers == TileIntegers::nibbles ? quant_int16_nibble_kernels(encoding)
                                                                  : quant_int16_plane_kernels(encoding);
}

void int16_mixed_gate_and_up(const FfnArgs& args, std::int32_t phase, Slice slice) {
  mixed_gate_and_up_of<QuantInt16Mode>(args, phase, slice, kQuant, int16_mixed_gate_and_up_tiles);
}

void int16_mixed_gate_and_up_tiles(const FfnArgs& args, std::uint32_t* panels, Slice slice, const Activations& act) {
  mixed_tiles<QuantInt16Mode>(args, panels, slice, act, multiply_tile<QuantInt16Mode>);
}

void int16_tiles_mixed_gate_and_up(const FfnArgs& args, std::int32_t phase, Slice slice) {
  mixed_gate_and_up_of<QuantInt16TileMode>(args, phase, slice, kTiles, int16_tiles_mixed_gate_and_up_tiles);
}

void int16_tiles_mixed_gate_and_up_tiles(const FfnArgs& args, std::uint32_t* panels, Slice slice,
                                         const Activations& act) {
  mixed_tiles<QuantInt16TileMode>(args, panels, slice, act, multiply_tile<QuantInt16TileMode>);
}

WorkspaceSize int16_tiles_qkv_workspace(const Shape& shape) { return qkv_workspace_of(shape, kTilePanels); }

}  // namespace qinfer::kernels::avx512
