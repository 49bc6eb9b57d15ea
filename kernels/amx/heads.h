// What follows the projection of a head in panel layout, 16 tokens as lanes: RMSNorm and rotary embedding down the
// features, and the store of queries as operands, of keys and values in the tiles of the cache.
#pragma once

#include "amx/panels.h"
#include "common/heads.h"

namespace qinfer::kernels::amx {

namespace {

/// With more than two panels their rope tables are shared, and a separate phase transposes them.
inline std::int64_t shared_rope_panels(std::int64_t n) { return panel_count(n) > 2 ? panel_count(n) : 0; }

}  // namespace

/// Floats of the rope table of one panel.
std::int64_t rope_floats(std::int64_t head_dim);
/// The rope table's rows of a panel's tokens as lines: [head_dim / 2][cos, sin][16]. Nothing where there is no table.
void transpose_rope(const QkvArgs& args, std::int64_t panel, float* out);

/// Finishes head `index` of a kind for the tokens of a panel, or keeps it as it is where the norm is of all heads
/// together, for finish_waiting_heads(). `values`: [feature][16], changed; as many lines as whole steps, zeros after
/// the head's width. `rope`: of the panel, if heads are turned.
void finish_panel_head(const QkvArgs& args, HeadKind kind, std::int64_t index, std::int64_t panel, float* values,
                       const float* rope);

/// Finishes all heads of a kind, queries or keys, that finish_panel_head() kept for a panel. `values`: room for one
/// head.
void finish_waiting_heads(const QkvArgs& args, HeadKind kind, std::int64_t panel, float* values, const float* rope);

}  // namespace qinfer::kernels::amx
