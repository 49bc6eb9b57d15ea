// Attention with all sums in f32, over caches of every type.
#include "tiled/attention.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

using Attention = SegmentedAttention<Policy<F32Arithmetic>>;

}  // namespace

std::int32_t attention_phases(const AttentionArgs& args) { return Attention::phases(args); }

std::int64_t attention_units(const AttentionArgs& args, std::int32_t phase) { return Attention::units(args, phase); }

void attention(const AttentionArgs& args, std::int32_t phase, Slice slice) { Attention::run(args, phase, slice); }

WorkspaceSize attention_workspace(const Shape& shape) { return Attention::workspace(shape); }

std::uint64_t attention_split_bytes(const AttentionArgs& args) { return Attention::split_bytes(args); }

}  // namespace qinfer::kernels::QINFER_ISA
