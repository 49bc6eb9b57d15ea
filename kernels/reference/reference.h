// The portable backend: plain C++ for any CPU and any shape, the oracle of every other backend's tests and the
// fall-back where none of them runs. Weights are used as they are in the file, row-major f32, f16 or bf16.
#pragma once

#include "base/math.h"
#include "common/elementwise.h"
#include "kernel_set.h"

namespace qinfer::kernels::reference {

const KernelSet& kernel_set();

// ---- dot.cpp: the inner product that every projection is made of ----

/// Room for one row of weights widened to f32.
std::size_t weight_row_bytes(std::int64_t cols);

/// Widens row `row` of w to f32. `scratch` has room for w.cols floats; returns scratch, or the row itself where it is
/// f32 already and aligned.
const float* widen_row(const Matrix& w, std::int64_t row, float* scratch);

/// out[m] = sum over k of x.row(m)[k] * w[k] for m in [0, n). The order of additions is fixed: lane j of 16 sums the
/// products with k = j mod 16 in ascending k, then the lanes are added pairwise (j with j+8, +4, +2, +1).
void dot_rows(const Activations& x, std::int64_t n, const float* w, std::int64_t cols, float* out,
              std::int64_t out_stride);

/// Fixed cut of outputs into units of 32.
inline constexpr std::int64_t kUnitOutputs = 32;

/// Elements of `source` in `dtype`, widened to f32 / narrowed from f32, at any alignment.
void widen(const std::byte* source, DType dtype, std::int64_t n, float* out);
void narrow(const float* source, std::int64_t n, DType dtype, std::byte* out);

/// The vector operations of common/elementwise.h, over one value; products are rounded before they are added.
struct ScalarOps {
  using V = float;
  static V mul(V a, V b) { return a * b; }
  static V mul_add(V a, V b, V c) { return a * b + c; }
  static V mul_sub(V a, V b, V c) { return a * b - c; }
  static V silu(V x) { return silu_f32(x); }
  static V gelu_tanh(V x) { return gelu_tanh_f32(x); }
  static V gelu_erf(V x) { return gelu_erf_f32(x); }
  static V tanh(V x) { return tanh_f32(x); }
};

// ---- the operations, one file each ----

std::int64_t embed_units(const EmbedArgs& args, std::int32_t phase);
void embed(const EmbedArgs& args, std::int32_t phase, Slice slice);

std::int64_t norm_units(const NormArgs& args, std::int32_t phase);
void norm(const NormArgs& args, std::int32_t phase, Slice slice);
/// One row; x and out may be the same.
void rms_norm_row(const float* x, const float* weight, std::int64_t width, float eps, float* out);

std::int64_t linear_units(const LinearArgs& args, std::int32_t phase);
void linear(const LinearArgs& args, std::int32_t phase, Slice slice);
WorkspaceSize linear_workspace(const Shape& shape);

std::int64_t ffn_units(const FfnArgs& args, std::int32_t phase);
void ffn(const FfnArgs& args, std::int32_t phase, Slice slice);
WorkspaceSize ffn_workspace(const Shape& shape);

inline constexpr std::int32_t kMoePhases = 5;
std::int64_t moe_ffn_units(const MoeArgs& args, std::int32_t phase);
void moe_ffn(const MoeArgs& args, std::int32_t phase, Slice slice);
MoeWorkspace moe_workspace(const Shape& shape);

std::int64_t lm_head_units(const LmHeadArgs& args, std::int32_t phase);
void lm_head(const LmHeadArgs& args, std::int32_t phase, Slice slice);
WorkspaceSize lm_head_workspace(const Shape& shape);

std::int32_t qkv_phases(const QkvArgs& args);
std::int64_t qkv_units(const QkvArgs& args, std::int32_t phase);
void qkv(const QkvArgs& args, std::int32_t phase, Slice slice);
WorkspaceSize qkv_workspace(const Shape& shape);

std::int32_t attention_phases(const AttentionArgs& args);
std::int64_t attention_units(const AttentionArgs& args, std::int32_t phase);
void attention(const AttentionArgs& args, std::int32_t phase, Slice slice);
WorkspaceSize attention_workspace(const Shape& shape);
std::uint64_t attention_split_bytes(const AttentionArgs& args);

}  // namespace qinfer::kernels::reference
