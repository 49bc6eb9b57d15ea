// Inner loops over blocks of 256 values that a tile holds in four bits each.
#include "tiled/f32_sums.h"

namespace qinfer::kernels::QINFER_ISA {

const TileKernels& quant_long_nibble_kernels(Encoding encoding) { return long_nibble_loops<QuantSums>(encoding); }

}  // namespace qinfer::kernels::QINFER_ISA
