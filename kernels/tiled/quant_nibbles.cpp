// Inner loops over blocks of 32 values with four bits each.
#include "tiled/f32_sums.h"

namespace qinfer::kernels::QINFER_ISA {

const TileKernels& quant_nibble_kernels(Encoding encoding) {
  switch (encoding) {
    case Encoding::q4_1: return kLoopsOf<QuantSums<Encoding::q4_1>>;
    case Encoding::iq4_nl: return kLoopsOf<QuantSums<Encoding::iq4_nl>>;
    case Encoding::mxfp4: return kLoopsOf<QuantSums<Encoding::mxfp4>>;
    case Encoding::q4_0: return kLoopsOf<QuantSums<Encoding::q4_0>>;
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16:
    case Encoding::q8_0:
    case Encoding::q5_0:
    case Encoding::q5_1:
    case Encoding::q3_k:
    case Encoding::q4_k:
    case Encoding::q5_k:
    case Encoding::q6_k:
    case Encoding::iq4_xs: break;
  }
  __builtin_unreachable();  // asked for these alone
}

}  // namespace qinfer::kernels::QINFER_ISA
