// How slots of a mixture of experts are packed for products of f16, of integers and of bf16, and which loops multiply
// them.
#include "avx512/int16_tile_values.h"
#include "avx512/products.h"
#include "avx512/values.h"
#include "tiled/moe.h"

namespace qinfer::kernels::avx512 {

void pack_narrow_slot(const Routes& routes, const ExpertSlot& slot, const Operand& operand, std::byte* memory,
                      std::int64_t begin, std::int64_t end) {
  const auto pack = operand.products == Products::int16         ? pack_slot_as<Int16Values>
                    : operand.products == Products::int16_tiles ? pack_slot_as<Int16TileValues>
                    : operand.products == Products::f16         ? pack_slot_as<F16Values>
                    : operand.sums                              ? pack_slot_as<Bf16SummedValues>
                                                                : pack_slot_as<Bf16Values>;
  pack(routes, slot, operand, memory, begin, end);
}

const SlotKernels& narrow_slot_kernels(Encoding encoding, Products products) {
  if (products == Products::int16) return quant_int16_slot_kernels();
  if (products == Products::int16_tiles) return int16_tile_slot_kernels();
  if (products == Products::f16) return fp16_slot_kernels();
  return is_plain(encoding) ? bf16_slot_kernels() : quant_bf16_slot_kernels();
}

void narrow_mixed_gate_and_up_tiles(const FfnArgs& args, std::uint32_t* panels, Slice slice, const Activations& act,
                                    Products products) {
  const auto tiles = products == Products::int16         ? int16_mixed_gate_and_up_tiles
                     : products == Products::int16_tiles ? int16_tiles_mixed_gate_and_up_tiles
                                                         : bf16_mixed_gate_and_up_tiles;
  tiles(args, panels, slice, act);
}

}  // namespace qinfer::kernels::avx512
