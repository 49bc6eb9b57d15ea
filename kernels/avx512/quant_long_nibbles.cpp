// Inner loops over blocks of 256 values that a tile holds in four bits each.
#include "avx512/quant_loops.h"

namespace qinfer::kernels::avx512 {

const TileKernels& quant_long_nibble_kernels(Encoding encoding) {
  switch (encoding) {
    case Encoding::q3_k: return kQuantTable<Encoding::q3_k>;
    case Encoding::iq4_xs: return kQuantTable<Encoding::iq4_xs>;
    default: return kQuantTable<Encoding::q4_k>;
  }
}

}  // namespace qinfer::kernels::avx512
