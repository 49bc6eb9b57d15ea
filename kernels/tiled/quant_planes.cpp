// Inner loops over values of five and six bits, whose high bits are in planes of their own, and of eight.
#include "tiled/f32_sums.h"

namespace qinfer::kernels::QINFER_ISA {

const TileKernels& quant_plane_kernels(Encoding encoding) { return plane_loops<QuantSums>(encoding); }

}  // namespace qinfer::kernels::QINFER_ISA
