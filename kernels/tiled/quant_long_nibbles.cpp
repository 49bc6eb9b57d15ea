// Inner loops over blocks of 256 values that a tile holds in four bits each.
#include "tiled/f32_sums.h"

namespace qinfer::kernels::QINFER_ISA {

const TileKernels& quant_long_nibble_kernels(Encoding encoding) {
  switch (encoding) {
    case Encoding::q3_k: return kLoopsOf<QuantSums<Encoding::q3_k>>;
    case Encoding::iq4_xs: return kLoopsOf<QuantSums<Encoding::iq4_xs>>;
    case Encoding::q4_k: return kLoopsOf<QuantSums<Encoding::q4_k>>;
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16:
    case Encoding::q8_0:
    case Encoding::q4_0:
    case Encoding::q4_1:
    case Encoding::q5_0:
    case Encoding::q5_1:
    case Encoding::q5_k:
    case Encoding::q6_k:
    case Encoding::iq4_nl:
    case Encoding::mxfp4: break;
  }
  __builtin_unreachable();  // asked for these alone
}

}  // namespace qinfer::kernels::QINFER_ISA
