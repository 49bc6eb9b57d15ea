// The backends over Highway: `avx2` for CPUs with AVX2, FMA and F16C (Haswell, Zen and later), `neon` for aarch64.
// Everything but the vector layer and the inner loops of projections is what kernels/tiled has.
#pragma once

#include "kernel_set.h"

namespace qinfer::kernels {

namespace avx2 {
const KernelSet& kernel_set();
}
namespace neon {
const KernelSet& kernel_set();
}

}  // namespace qinfer::kernels
