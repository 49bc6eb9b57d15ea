// The operations with f16 sums, with products of 16-bit integers and with those of bf16, which the kernel sets of
// avx512.h have in the place of those of tiled/tiled.h.
#pragma once

#include "tiled/tile_loops.h"
#include "tiled/tiled.h"

namespace qinfer::kernels::avx512 {

// attention_fp16.cpp, attention_bf16.cpp; they differ from attention() in run alone.
void fp16_attention(const AttentionArgs& args, std::int32_t phase, Slice slice);
void bf16_attention(const AttentionArgs& args, std::int32_t phase, Slice slice);

// projections_fp16.cpp, projections_bf16.cpp, projections_quant_int16.cpp, projections_quant_bf16.cpp.
const Projections& fp16_projections();
const Projections& bf16_projections();
/// With products of integers, for tiles of any quantised encoding.
const Projections& quant_int16_projections();
/// The same on tiles of AMX, and what they need where q/k/v are projected.
const Projections& int16_tile_projections();
WorkspaceSize int16_tiles_qkv_workspace(const Shape& shape);
/// With products of bf16, for tiles of any quantised encoding, and plain pairs together with them.
const Projections& quant_bf16_projections();
/// mixed_gate_and_up() with such products; q/k/v that differ are what quant_int16_projections() and
/// quant_bf16_projections() take.
void int16_mixed_gate_and_up(const FfnArgs& args, std::int32_t phase, Slice slice);
void int16_tiles_mixed_gate_and_up(const FfnArgs& args, std::int32_t phase, Slice slice);
void bf16_mixed_gate_and_up(const FfnArgs& args, std::int32_t phase, Slice slice);
void int16_mixed_gate_and_up_tiles(const FfnArgs& args, std::uint32_t* panels, Slice slice, const Activations& act);
void int16_tiles_mixed_gate_and_up_tiles(const FfnArgs& args, std::uint32_t* panels, Slice slice,
                                         const Activations& act);
void bf16_mixed_gate_and_up_tiles(const FfnArgs& args, std::uint32_t* panels, Slice slice, const Activations& act);

/// The inner loops of quantised weights over panels of pairs of integers.
const TileKernels& quant_int16_kernels(Encoding encoding);
// quant_int16_nibbles.cpp, quant_int16_planes.cpp.
const TileKernels& quant_int16_nibble_kernels(Encoding encoding);
const TileKernels& quant_int16_plane_kernels(Encoding encoding);

/// The inner loops of quantised weights over panels of bf16 pairs, and those of plain bf16 in pairs, `cols` being
/// pairs.
const TileKernels& quant_bf16_kernels(Encoding encoding);
// quant_bf16_nibbles.cpp, quant_bf16_planes.cpp.
const TileKernels& quant_bf16_nibble_kernels(Encoding encoding);
const TileKernels& quant_bf16_plane_kernels(Encoding encoding);

// moe_fp16.cpp, moe_bf16.cpp, projections_quant_int16.cpp, projections_quant_bf16.cpp.
const SlotKernels& fp16_slot_kernels();
const SlotKernels& bf16_slot_kernels();
const SlotKernels& quant_int16_slot_kernels();
const SlotKernels& int16_tile_slot_kernels();
const SlotKernels& quant_bf16_slot_kernels();

}  // namespace qinfer::kernels::avx512
