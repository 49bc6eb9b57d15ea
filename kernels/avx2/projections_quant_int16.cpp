// Projections, and the two halves of an expert's network, with quantised weights by products of 16-bit integers: all
// multiply the same panels, each matrix by the inner loops of its encoding.
#include "avx2/products.h"
#include "tiled/int16_values.h"
#include "tiled/moe.h"

namespace qinfer::kernels::avx2 {
namespace {

struct QuantInt16Mode {
  using Values = Int16Values;
  using Loops = QuantLoops<quant_int16_kernels>;
};

constexpr Projections kQuant = projections<QuantInt16Mode>();
constexpr SlotKernels kQuantSlots = slot_kernels<QuantInt16Mode>();

void mixed_tiles_of(const FfnArgs& args, std::uint32_t* panels, Slice slice, const Activations& act) {
  mixed_tiles<QuantInt16Mode>(args, panels, slice, act, multiply_tile<QuantInt16Mode>);
}

}  // namespace

const Projections& quant_int16_projections() { return kQuant; }

const TileKernels& quant_int16_kernels(Encoding encoding) {
  return quant_layout(encoding).integers == TileIntegers::nibbles ? quant_int16_nibble_kernels(encoding)
                                                                  : quant_int16_plane_kernels(encoding);
}

void int16_mixed_gate_and_up(const FfnArgs& args, std::int32_t phase, Slice slice) {
  mixed_gate_and_up_of<QuantInt16Mode>(args, phase, slice, kQuant, mixed_tiles_of);
}

// There are no other narrow products here than those of integers, which only quantised weights have.

void pack_narrow_slot(const Routes& routes, const ExpertSlot& slot, const Operand& operand, std::byte* memory,
                      std::int64_t begin, std::int64_t end) {
  pack_slot_as<Int16Values>(routes, slot, operand, memory, begin, end);
}

const SlotKernels& narrow_slot_kernels(Encoding, Products) { return kQuantSlots; }

void narrow_mixed_gate_and_up_tiles(const FfnArgs& args, std::uint32_t* panels, Slice slice, const Activations& act,
                                    Products) {
  mixed_tiles_of(args, panels, slice, act);
}

}  // namespace qinfer::kernels::avx2
