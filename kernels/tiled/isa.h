// The name of the instruction set that a file is compiled for, as a namespace: the files of kernels/tiled are compiled
// once for each, and what they share under a name must differ in it.
#pragma once

#if defined(__AVX512F__)
#define QINFER_ISA avx512
#elif defined(__AVX2__)
#define QINFER_ISA avx2
#elif defined(__aarch64__)
#define QINFER_ISA neon
#else
#error "kernels/tiled is compiled with the flags of AVX-512, of AVX2 or for aarch64"
#endif
