// Inner loops over values of five and six bits, whose high bits are in planes of their own, and of eight.
#include "tiled/f32_sums.h"

namespace qinfer::kernels::QINFER_ISA {

const TileKernels& quant_plane_kernels(Encoding encoding) {
  switch (encoding) {
    case Encoding::q5_0: return kQuantTable<Encoding::q5_0>;
    case Encoding::q5_1: return kQuantTable<Encoding::q5_1>;
    case Encoding::q5_k: return kQuantTable<Encoding::q5_k>;
    case Encoding::q6_k: return kQuantTable<Encoding::q6_k>;
    case Encoding::q8_0: return kQuantTable<Encoding::q8_0>;
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16:
    case Encoding::q4_0:
    case Encoding::q4_1:
    case Encoding::q3_k:
    case Encoding::q4_k:
    case Encoding::iq4_nl:
    case Encoding::iq4_xs:
    case Encoding::mxfp4: break;
  }
  __builtin_unreachable();  // asked for these alone
}

}  // namespace qinfer::kernels::QINFER_ISA
