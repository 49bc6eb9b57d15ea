// Projections with sums of f16 for quantised weights: all multiply the same panels, each matrix by the inner loops of
// its encoding.
#include "avx512/modes.h"
#include "avx512/products.h"

namespace qinfer::kernels::avx512 {
namespace {

constexpr Projections kQuant = projections<QuantFp16Mode>();
constexpr SlotKernels kQuantSlots = slot_kernels<QuantFp16Mode>();

}  // namespace

const Projections& quant_fp16_projections() { return kQuant; }
const SlotKernels& quant_fp16_slot_kernels() { return kQuantSlots; }

const TileKernels& quant_fp16_kernels(Encoding encoding) {
  return quant_layout(encoding).integers == TileIntegers::nibbles ? quant_fp16_nibble_kernels(encoding)
                                                                  : quant_fp16_plane_kernels(encoding);
}

void fp16_mixed_gate_and_up(const FfnArgs& args, std::int32_t phase, Slice slice) {
  mixed_gate_and_up_of<QuantFp16Mode>(args, phase, slice, kQuant, fp16_mixed_gate_and_up_tiles);
}

void fp16_mixed_gate_and_up_tiles(const FfnArgs& args, std::uint32_t* panels, Slice slice, const Activations& act) {
  mixed_tiles<QuantFp16Mode>(args, panels, slice, act, multiply_tile<QuantFp16Mode>);
}

}  // namespace qinfer::kernels::avx512
