// Inner loops over values of five and six bits, whose high bits are in planes of their own, and of eight.
#include "tiled/f32_sums.h"

namespace qinfer::kernels::QINFER_ISA {

const TileKernels& quant_plane_kernels(Encoding encoding) {
  switch (encoding) {
    case Encoding::q5_0: return kQuantTable<Encoding::q5_0>;
    case Encoding::q5_1: return kQuantTable<Encoding::q5_1>;
    case Encoding::q5_k: return kQuantTable<Encoding::q5_k>;
    case Encoding::q6_k: return kQuantTable<Encoding::q6_k>;
    default: return kQuantTable<Encoding::q8_0>;
  }
}

}  // namespace qinfer::kernels::QINFER_ISA
