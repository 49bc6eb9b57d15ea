// Inner loops over quantised weights of four bits, by products of 16-bit integers.
#include "avx2/products.h"
#include "avx2/quant_int16_loops.h"

namespace qinfer::kernels::avx2 {

const TileKernels& quant_int16_nibble_kernels(Encoding encoding) { return nibble_loops<QuantInt16Sums>(encoding); }

}  // namespace qinfer::kernels::avx2
