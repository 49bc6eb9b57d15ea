// Inner loops over quantised weights of four bits, with sums of f16.
#include "avx512/quant_fp16_loops.h"

namespace qinfer::kernels::avx512 {

const TileKernels& quant_fp16_nibble_kernels(Encoding encoding) { return nibble_loops<QuantF16Sums>(encoding); }

}  // namespace qinfer::kernels::avx512
