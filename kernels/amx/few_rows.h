// Linear layers of few rows in AVX-512, over row-major bf16, as in the file. The
// set `amx_mixed` uses them for up to kFewRows rows, where a tile would be mostly empty lanes.
//
// Activations stay f32 here. Results therefore differ from those of tiles by the rounding of activations to bf16, so a
// token's depend on whether few rows or many pass through an operation with it: tokens of a batch, and for the LM head
// rows whose logits are kept. Among few rows they do not: every output is one sum in an order of its own.
#pragma once

#include "amx/amx.h"

namespace qinfer::kernels::amx {

// Workspaces, units and phases are those of tiles. The last phase of q/k/v is theirs, too, and so are phases of a
// mixture that do not multiply.

void linear_few_rows(const LinearArgs& args, std::int32_t phase, Slice slice);
void lm_head_few_rows(const LmHeadArgs& args, std::int32_t phase, Slice slice);
void qkv_few_rows(const QkvArgs& args, std::int32_t phase, Slice slice);
void ffn_few_rows(const FfnArgs& args, std::int32_t phase, Slice slice);
/// The phases that multiply; the others are those of tiles.
void moe_ffn_few_rows(const MoeArgs& args, std::int32_t phase, Slice slice);

}  // namespace qinfer::kernels::amx
