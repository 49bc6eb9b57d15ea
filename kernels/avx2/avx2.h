// The kernel set `avx2_int16`, for CPUs with AVX2, FMA and F16C (Haswell, Zen and later): quantised weights are
// multiplied by products of 16-bit integers. Everything else is what `avx2` has (kernels/highway).
#pragma once

#include "kernel_set.h"

namespace qinfer::kernels::avx2 {

const KernelSet& int16_kernel_set();

}  // namespace qinfer::kernels::avx2
