// Projections with f16 sums.
#include "avx512/modes.h"
#include "avx512/products.h"

namespace qinfer::kernels::avx512 {
namespace {

constexpr Projections kFp16 = projections<F16Mode>();

}  // namespace

const Projections& fp16_projections() { return kFp16; }

}  // namespace qinfer::kernels::avx512
