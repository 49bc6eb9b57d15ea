// Attention over an f16 cache with weights times values summed in f16; other caches are left to the f32 kernels.
#include "avx512/attention_fp16.h"
#include "avx512/products.h"

namespace qinfer::kernels::avx512 {

void fp16_attention(const AttentionArgs& args, std::int32_t phase, Slice slice) {
  if (args.kv.type != DType::f16) return attention(args, phase, slice);
  SegmentedAttention<Policy<F16Arithmetic>>::run(args, phase, slice);
}

}  // namespace qinfer::kernels::avx512
