// Binds the operations into the kernel set `avx2_int16`.
#include "tiled/make_set.h"

#include "avx2/avx2.h"
#include "avx2/products.h"

namespace qinfer::kernels::avx2 {
namespace {

struct Int16Products : NarrowQuantProducts<quant_int16_projections, int16_mixed_gate_and_up> {
  static void moe(const MoeArgs& args, std::int32_t phase, Slice slice) {
    avx2::moe(args, phase, slice, Products::int16);
  }
};

constexpr KernelSet kSet = make_set<Int16Products>("avx2_int16");

}  // namespace

const KernelSet& int16_kernel_set() { return kSet; }

}  // namespace qinfer::kernels::avx2
