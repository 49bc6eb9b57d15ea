// Inner loops over blocks of 32 values with four bits each.
#include "tiled/f32_sums.h"

namespace qinfer::kernels::QINFER_ISA {

const TileKernels& quant_nibble_kernels(Encoding encoding) { return short_nibble_loops<QuantSums>(encoding); }

}  // namespace qinfer::kernels::QINFER_ISA
