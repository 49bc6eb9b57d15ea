// The backends for CPUs with AVX-512: `avx512` (F, BW, DQ, VL: Skylake-X, Zen 4 and later) sums in f32, `avx512_int16`
// (VNNI: Cascade Lake, Zen 4 and later) multiplies quantised weights as 16-bit integers, `avx512_fp16` (Sapphire Rapids
// and later) does so too, and sums runs of 64 products of f16 weights in f16, `avx512_bf16`
// (Cooper Lake, Sapphire Rapids, Zen 4 and later) sums products of bf16 in f32, with weights as pairs,
// [N/32][K/2][32][2]. Everything but the projections and attention is what kernels/tiled has.
#pragma once

#include "kernel_set.h"

namespace qinfer::kernels::avx512 {

const KernelSet& kernel_set();
const KernelSet& int16_kernel_set();
const KernelSet& fp16_kernel_set();
const KernelSet& bf16_kernel_set();
/// The same bits as `avx512_fp16`, with many rows of quantised weights on tiles of AMX.
const KernelSet& int16_tiles_kernel_set();

}  // namespace qinfer::kernels::avx512
