// Projections with sums of bf16 pairs.
#include "avx512/modes.h"
#include "avx512/products.h"

namespace qinfer::kernels::avx512 {
namespace {

constexpr Projections kBf16 = projections<Bf16Mode>();

}  // namespace

const Projections& bf16_projections() { return kBf16; }

}  // namespace qinfer::kernels::avx512
