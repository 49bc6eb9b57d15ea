// Binds the AVX-512 operations into the kernel sets `avx512`, `avx512_int16` and `avx512_fp16`, which differ in how
// projections of f16 and quantised weights are summed, and `avx512_bf16`, which differs from them in its weights and
// what it multiplies them with; and `amx_int16`, which is `avx512_fp16` with tiles of AMX where quantised weights meet
// many rows.
#include "tiled/make_set.h"

#include "avx512/avx512.h"
#include "avx512/products.h"

namespace qinfer::kernels::avx512 {
namespace {

struct Int16Products : NarrowQuantProducts<quant_int16_projections, int16_mixed_gate_and_up> {
  static void moe(const MoeArgs& args, std::int32_t phase, Slice slice) {
    avx512::moe(args, phase, slice, Products::int16);
  }
};

/// For f16 weights, too.
template <typename Quantised, Products best>
struct F16Products : Quantised {
  static const Projections& of(const Matrix& w) {
    return w.format.encoding == Encoding::f16 ? fp16_projections() : Quantised::of(w);
  }
  static constexpr auto attention = fp16_attention;
  static void moe(const MoeArgs& args, std::int32_t phase, Slice slice) { avx512::moe(args, phase, slice, best); }
};

using TileProducts = NarrowQuantProducts<int16_tile_projections, int16_tiles_mixed_gate_and_up>;

struct Bf16Products {
  static const Projections& of(const Matrix& w) {
    return is_plain(w.format.encoding) ? bf16_projections() : quant_bf16_projections();
  }
  static void mixed_qkv(const QkvArgs& args, std::int32_t phase, Slice slice) {
    quant_bf16_projections().qkv.run(args, phase, slice);
  }
  static constexpr auto mixed_gate_and_up = bf16_mixed_gate_and_up;
  static constexpr auto attention = bf16_attention;
  static void moe(const MoeArgs& args, std::int32_t phase, Slice slice) {
    avx512::moe(args, phase, slice, Products::bf16);
  }
};

/// What is multiplied is bf16 in pairs, to which other plain weights are rounded, or stays quantised; routers stay as
/// they are.
bool bf16_weight_format(WeightRole role, Encoding stored, const Encoding* wanted, bool exact, WeightFormat& out) {
  if (role == WeightRole::embedding || role == WeightRole::router)
    return weight_format(role, stored, nullptr, exact, out);
  if (!is_plain(stored)) return quantised_format(role, stored, wanted, out) && !is_plain(out.encoding);
  out = {wanted != nullptr ? *wanted : Encoding::bf16, WeightLayout::pairs32};
  return out.encoding == Encoding::bf16 && (!exact || stored == Encoding::bf16);
}

constexpr KernelSet kSet = make_set<F32Products>("avx512");
constexpr KernelSet kInt16Set = make_set<Int16Products>("avx512_int16");
constexpr KernelSet kFp16Set = make_set<F16Products<Int16Products, Products::f16>>("avx512_fp16");
constexpr KernelSet kTilesSet = [] {
  KernelSet set = make_set<F16Products<TileProducts, Products::int16_tiles>>("amx_int16");
  set.qkv_workspace = int16_tiles_qkv_workspace;
  return set;
}();
constexpr KernelSet kBf16Set = [] {
  KernelSet set = make_set<Bf16Products>("avx512_bf16");
  set.weight_format = bf16_weight_format;
  set.kv_order = [](DType type) { return type == DType::bf16 ? KvOrder::key_pairs : KvOrder::key_lanes; };
  set.default_kv_type = [](bool) { return DType::bf16; };
  return set;
}();

}  // namespace

const KernelSet& kernel_set() { return kSet; }
const KernelSet& int16_kernel_set() { return kInt16Set; }
const KernelSet& fp16_kernel_set() { return kFp16Set; }
const KernelSet& int16_tiles_kernel_set() { return kTilesSet; }
const KernelSet& bf16_kernel_set() { return kBf16Set; }

}  // namespace qinfer::kernels::avx512
