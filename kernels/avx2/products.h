// The operations with products of 16-bit integers, which `avx2_int16` has for quantised weights in the place of those
// of tiled/tiled.h.
#pragma once

#include "tiled/tile_loops.h"
#include "tiled/tiled.h"

namespace qinfer::kernels::avx2 {

// projections_quant_int16.cpp: for tiles of any quantised encoding.
const Projections& quant_int16_projections();
void int16_mixed_gate_and_up(const FfnArgs& args, std::int32_t phase, Slice slice);

/// The inner loops of quantised weights over panels of pairs of integers.
const TileKernels& quant_int16_kernels(Encoding encoding);
// quant_int16_nibbles.cpp, quant_int16_planes.cpp.
const TileKernels& quant_int16_nibble_kernels(Encoding encoding);
const TileKernels& quant_int16_plane_kernels(Encoding encoding);

}  // namespace qinfer::kernels::avx2
