// The two halves of an expert's network with f16 sums.
#include "avx512/modes.h"
#include "avx512/products.h"

namespace qinfer::kernels::avx512 {
namespace {

constexpr SlotKernels kFp16 = slot_kernels<F16Mode>();

}  // namespace

const SlotKernels& fp16_slot_kernels() { return kFp16; }

}  // namespace qinfer::kernels::avx512
