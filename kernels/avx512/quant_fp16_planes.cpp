// Inner loops over quantised weights of five, six and eight bits, with sums of f16.
#include "avx512/quant_fp16_loops.h"

namespace qinfer::kernels::avx512 {

const TileKernels& quant_fp16_plane_kernels(Encoding encoding) { return plane_loops<QuantF16Sums>(encoding); }

}  // namespace qinfer::kernels::avx512
