// Inner loops over blocks of 256 values that a tile holds in four bits each.
#include "tiled/f32_sums.h"

namespace qinfer::kernels::QINFER_ISA {

const TileKernels& quant_long_nibble_kernels(Encoding encoding) {
  switch (encoding) {
    case Encoding::q3_k: return kQuantTable<Encoding::q3_k>;
    case Encoding::iq4_xs: return kQuantTable<Encoding::iq4_xs>;
    default: return kQuantTable<Encoding::q4_k>;
  }
}

}  // namespace qinfer::kernels::QINFER_ISA
