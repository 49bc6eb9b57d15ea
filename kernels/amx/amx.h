// The backend for CPUs with AMX: `amx` multiplies bf16 weights as the checkpoint has them (with many tokens out of
// tiles that a worker stages, gemm_staged.h) or in pairs of columns (pairs.h), and quantised ones decoded to such
// pairs meanwhile (quant_pairs.h), with activations rounded to bf16, and sums in f32. With more than 8 tokens
// activations stay in panels from the embedding to the last norm (panels.h). Keys are in the cache as rows and values
// with their positions as lanes (KvOrder::key_rows), the form in which both are the first operand of a tile
// multiplication.
#pragma once

#include "kernel_set.h"

namespace qinfer::kernels::amx {

const KernelSet& kernel_set();

// ---- pack.cpp ----
float pack(const Matrix& source, const WeightFormat& format, const PackInfo& info, std::byte* destination,
           std::int64_t first, std::int64_t last);

// ---- elementwise.cpp ----
std::int64_t embed_units(const EmbedArgs& args, std::int32_t phase);
void embed(const EmbedArgs& args, std::int32_t phase, Slice slice);
std::int64_t norm_units(const NormArgs& args, std::int32_t phase);
void norm(const NormArgs& args, std::int32_t phase, Slice slice);

// ---- projections.cpp ----
std::int64_t linear_units(const LinearArgs& args, std::int32_t phase);
void linear(const LinearArgs& args, std::int32_t phase, Slice slice);
WorkspaceSize linear_workspace(const Shape& shape);

std::int64_t lm_head_units(const LmHeadArgs& args, std::int32_t phase);
void lm_head(const LmHeadArgs& args, std::int32_t phase, Slice slice);
WorkspaceSize lm_head_workspace(const Shape& shape);

std::int32_t qkv_phases(const QkvArgs& args);
std::int64_t qkv_units(const QkvArgs& args, std::int32_t phase);
void qkv(const QkvArgs& args, std::int32_t phase, Slice slice);
WorkspaceSize qkv_workspace(const Shape& shape);

// ---- ffn.cpp ----
std::int64_t ffn_units(const FfnArgs& args, std::int32_t phase);
void ffn(const FfnArgs& args, std::int32_t phase, Slice slice);
WorkspaceSize ffn_workspace(const Shape& shape);

// ---- moe.cpp ----
std::int64_t moe_ffn_units(const MoeArgs& args, std::int32_t phase);
void moe_ffn(const MoeArgs& args, std::int32_t phase, Slice slice);
MoeWorkspace moe_workspace(const Shape& shape);

// ---- attention.cpp ----
std::int32_t attention_phases(const AttentionArgs& args);
std::int64_t attention_units(const AttentionArgs& args, std::int32_t phase);
void attention(const AttentionArgs& args, std::int32_t phase, Slice slice);
WorkspaceSize attention_workspace(const Shape& shape);
std::uint64_t attention_split_bytes(const AttentionArgs& args);

}  // namespace qinfer::kernels::amx
