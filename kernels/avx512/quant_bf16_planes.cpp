// Inner loops over quantised weights of five, six and eight bits, with products of bf16.
#include "avx512/quant_bf16_loops.h"

namespace qinfer::kernels::avx512 {

const TileKernels& quant_bf16_plane_kernels(Encoding encoding) { return plane_loops<QuantBf16Sums>(encoding); }

}  // namespace qinfer::kernels::avx512
