// How slots of a mixture of experts are packed for products of f16 and of bf16, and which loops multiply them.
#include "avx512/products.h"
#include "avx512/values.h"
#include "tiled/moe.h"

namespace qinfer::kernels::avx512 {

void pack_narrow_slot(const Routes& routes, const ExpertSlot& slot, const Operand& operand, std::byte* memory,
                      std::int64_t begin, std::int64_t end) {
  const auto pack = operand.products == Products::f16 ? pack_slot_as<F16Values>
                    : operand.sums                    ? pack_slot_as<Bf16SummedValues>
                                                      : pack_slot_as<Bf16Values>;
  pack(routes, slot, operand, memory, begin, end);
}

const SlotKernels& narrow_slot_kernels(Encoding encoding, Products products) {
  if (products == Products::f16) return fp16_slot_kernels();
  return is_plain(encoding) ? bf16_slot_kernels() : quant_bf16_slot_kernels();
}

}  // namespace qinfer::kernels::avx512
