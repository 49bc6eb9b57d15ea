// The inner loops with sums in f32 of the instruction set that a file is compiled for: F32Sums<type> over plain
// weights, QuantSums<encoding> over quantised ones.
#pragma once

#include "tiled/isa.h"

#if defined(__AVX512F__)
#include "avx512/gemm_f32.h"
#include "avx512/quant_loops.h"
#else
#include "highway/gemm_f32.h"
#include "highway/quant_loops.h"
#endif
