// Attention over a bf16 cache with products of bf16; other caches are left to the f32 kernels.
#include "avx512/attention_bf16.h"
#include "avx512/products.h"

namespace qinfer::kernels::avx512 {

void bf16_attention(const AttentionArgs& args, std::int32_t phase, Slice slice) {
  if (args.kv.type != DType::bf16) return attention(args, phase, slice);
  SegmentedAttention<Policy<Bf16Arithmetic>>::run(args, phase, slice);
}

}  // namespace qinfer::kernels::avx512
