// Projections with quantised weights and sums in f32. What is compiled here is the same for all
// encodings: inner loops are chosen for each matrix.
#include "tiled/moe.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

constexpr Projections kQuant = projections<QuantMode>();
constexpr SlotKernels kQuantSlots = slot_kernels<QuantMode>();

}  // namespace

const Projections& quant_projections() { return kQuant; }
const SlotKernels& quant_slot_kernels() { return kQuantSlots; }

const TileKernels& quant_kernels(Encoding encoding) {
  const QuantLayout layout = quant_layout(encoding);
  if (layout.integers != TileIntegers::nibbles) return quant_plane_kernels(encoding);
  return layout.subs == 1 ? quant_nibble_kernels(encoding) : quant_long_nibble_kernels(encoding);
}

}  // namespace qinfer::kernels::QINFER_ISA
