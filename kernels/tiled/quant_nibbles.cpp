// Inner loops over blocks of 32 values with four bits each.
#include "tiled/f32_sums.h"

namespace qinfer::kernels::QINFER_ISA {

const TileKernels& quant_nibble_kernels(Encoding encoding) {
  switch (encoding) {
    case Encoding::q4_1: return kQuantTable<Encoding::q4_1>;
    case Encoding::iq4_nl: return kQuantTable<Encoding::iq4_nl>;
    case Encoding::mxfp4: return kQuantTable<Encoding::mxfp4>;
    default: return kQuantTable<Encoding::q4_0>;
  }
}

}  // namespace qinfer::kernels::QINFER_ISA
