// Inner loops over quantised weights of four bits, by products of 16-bit integers.
#include "avx512/products.h"
#include "avx512/quant_int16_loops.h"

namespace qinfer::kernels::avx512 {

const TileKernels& quant_int16_nibble_kernels(Encoding encoding) { return nibble_loops<QuantInt16Sums>(encoding); }

}  // namespace qinfer::kernels::avx512
