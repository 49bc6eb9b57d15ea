// Inner loops over quantised weights of four bits, with products of bf16.
#include "avx512/quant_bf16_loops.h"

namespace qinfer::kernels::avx512 {

const TileKernels& quant_bf16_nibble_kernels(Encoding encoding) {
  switch (encoding) {
    case Encoding::q4_1: return kQuantBf16Table<Encoding::q4_1>;
    case Encoding::iq4_nl: return kQuantBf16Table<Encoding::iq4_nl>;
    case Encoding::mxfp4: return kQuantBf16Table<Encoding::mxfp4>;
    case Encoding::q3_k: return kQuantBf16Table<Encoding::q3_k>;
    case Encoding::iq4_xs: return kQuantBf16Table<Encoding::iq4_xs>;
    case Encoding::q4_k: return kQuantBf16Table<Encoding::q4_k>;
    case Encoding::q4_0: return kQuantBf16Table<Encoding::q4_0>;
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16:
    case Encoding::q8_0:
    case Encoding::q5_0:
    case Encoding::q5_1:
    case Encoding::q5_k:
    case Encoding::q6_k: break;
  }
  __builtin_unreachable();  // asked for these alone
}

}  // namespace qinfer::kernels::avx512
