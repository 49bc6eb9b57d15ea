// Binds the operations into the kernel set `avx2_int16`.
#include "tiled/make_set.h"

#include "avx2/avx2.h"
#include "avx2/products.h"

namespace qinfer::kernels::avx2 {
namespace {

/// For quantised weights; all others are multiplied in f32, and so are those that share activations with matrices of
/// which some are quantised and some are not.
struct Int16Products : F32Products {
  static const Projections& of(const Matrix& w) {
    return is_plain(w.format.encoding) ? F32Products::of(w) : quant_int16_projections();
  }
  static void mixed_qkv(const QkvArgs& args, std::int32_t phase, Slice slice) {
    if (are_quantised({&args.wq, &args.wk, &args.wv})) return quant_int16_projections().qkv.run(args, phase, slice);
    F32Products::mixed_qkv(args, phase, slice);
  }
  static void mixed_gate_and_up(const FfnArgs& args, std::int32_t phase, Slice slice) {
    if (are_quantised({&args.gate, &args.up})) return int16_mixed_gate_and_up(args, phase, slice);
    F32Products::mixed_gate_and_up(args, phase, slice);
  }
  static void moe(const MoeArgs& args, std::int32_t phase, Slice slice) {
    avx2::moe(args, phase, slice, Products::int16);
  }
};

constexpr KernelSet kSet = make_set<Int16Products>("avx2_int16");

}  // namespace

const KernelSet& int16_kernel_set() { return kSet; }

}  // namespace qinfer::kernels::avx2
