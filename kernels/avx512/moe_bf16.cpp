// The two halves of an expert's network with sums of bf16 pairs.
#include "avx512/modes.h"
#include "avx512/products.h"

namespace qinfer::kernels::avx512 {
namespace {

constexpr SlotKernels kBf16 = slot_kernels<Bf16Mode>();

}  // namespace

const SlotKernels& bf16_slot_kernels() { return kBf16; }

}  // namespace qinfer::kernels::avx512
