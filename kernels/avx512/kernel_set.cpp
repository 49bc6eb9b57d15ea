// Binds the AVX-512 operations into the kernel sets `avx512` and `avx512_fp16`, which differ in how projections of f16
// weights are summed, and `avx512_bf16`, which differs from both in its weights and what it multiplies them with.
#include "avx512/avx512.h"
#include "common/phases.h"

namespace qinfer::kernels::avx512 {
namespace {

/// Quantised matrices stay what they are, or become f32: a router always, others where the host asks for it.
bool quantised_format(WeightRole role, Encoding stored, const Encoding* wanted, WeightFormat& out) {
  const bool widened = role == WeightRole::router || (wanted != nullptr && *wanted == Encoding::f32);
  out = {widened ? Encoding::f32 : stored, WeightLayout::tile32};
  return widened || wanted == nullptr || *wanted == stored;
}

/// A table of its own is looked up in the mapped file. Everything that is multiplied becomes tiles: f16, or for
/// exactness the file's own type, which routers have always. Nothing is quantised here.
bool weight_format(WeightRole role, Encoding stored, const Encoding* wanted, bool exact, WeightFormat& out) {
  if (role == WeightRole::embedding) {
    out = {stored, WeightLayout::row_major};
    return true;
  }
  if (!is_plain(stored)) return quantised_format(role, stored, wanted, out);
  out.layout = WeightLayout::tile32;
  exact = exact || role == WeightRole::router;
  if (role == WeightRole::router) wanted = nullptr;
  out.encoding = wanted != nullptr ? *wanted : exact ? stored : Encoding::f16;
  return is_plain(out.encoding) && (!exact || holds_exactly(stored, out.encoding));
}

/// Lines of V in whole registers.
std::uint32_t kv_head_dim_padded(std::uint32_t head_dim, DType) { return (head_dim + 15) / 16 * 16; }

DType default_kv_type(bool exact) { return exact ? DType::f32 : DType::f16; }

/// What is multiplied is bf16 in pairs, to which other plain weights are rounded, or stays quantised; routers stay as
/// they are.
bool bf16_weight_format(WeightRole role, Encoding stored, const Encoding* wanted, bool exact, WeightFormat& out) {
  if (role == WeightRole::embedding || role == WeightRole::router)
    return weight_format(role, stored, nullptr, exact, out);
  if (!is_plain(stored)) return quantised_format(role, stored, wanted, out) && !is_plain(out.encoding);
  out = {wanted != nullptr ? *wanted : Encoding::bf16, WeightLayout::pairs32};
  return out.encoding == Encoding::bf16 && (!exact || stored == Encoding::bf16);
}

const Projections& sums_for(const Matrix& w, Products products) {
  const Encoding encoding = w.format.encoding;
  if (products == Products::bf16) return is_plain(encoding) ? bf16_projections() : quant_bf16_projections();
  return products == Products::f16 && encoding == Encoding::f16 ? fp16_projections() : f32_projections(encoding);
}

std::int32_t qkv_phases(const QkvArgs& args) { return args.norm_whole ? 3 : 2; }

template <Products products>
std::int64_t qkv_units(const QkvArgs& args, std::int32_t phase) {
  return phase == 2 ? waiting_units(args, waiting_unit_rows(args.n))
                    : sums_for(args.wq, products).qkv.units(args, phase);
}

template <Products products>
void qkv(const QkvArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 2) return finish_waiting(args, slice);
  const bool same = !args.writes_kv() || (args.wk.format == args.wq.format && args.wv.format == args.wq.format);
  if (same) return sums_for(args.wq, products).qkv.run(args, phase, slice);
  products == Products::bf16 ? quant_bf16_projections().qkv.run(args, phase, slice) : mixed_qkv(args, phase, slice);
}

template <Products products>
void ffn(const FfnArgs& args, std::int32_t phase, Slice slice) {
  if (phase >= 2) return sums_for(args.down, products).ffn.run(args, phase, slice);
  const bool same = args.gate.format == args.up.format;
  if (same) return sums_for(args.gate, products).ffn.run(args, phase, slice);
  (products == Products::bf16 ? bf16_mixed_gate_and_up : mixed_gate_and_up)(args, phase, slice);
}

template <typename Args>
using Run = void (*)(const Args& args, std::int32_t phase, Slice slice);

constexpr Run<AttentionArgs> attention_of(Products products) {
  return products == Products::f32 ? attention : products == Products::f16 ? fp16_attention : bf16_attention;
}
constexpr Run<MoeArgs> moe_of(Products products) {
  return products == Products::f32 ? moe : products == Products::f16 ? fp16_moe : bf16_moe;
}

/// The projections choose their inner loop by the type of each matrix.
template <Products products>
constexpr KernelSet make_set(const char* name) {
  return {
      .name = name,
      .weight_format = weight_format,
      .pack = pack,
      .pack_end = pack_end,
      .kv_head_dim_padded = kv_head_dim_padded,
      .kv_order = [](DType) { return KvOrder::key_lanes; },
      .default_kv_type = default_kv_type,
      .linear_workspace = linear_workspace,
      .qkv_workspace = qkv_workspace,
      .attention_workspace = attention_workspace,
      .attention_split_bytes = attention_split_bytes,
      .ffn_workspace = ffn_workspace,
      .moe_workspace = moe_workspace,
      .lm_head_workspace = lm_head_workspace,
      .embed = {fixed_phases<1>, embed_units, embed},
      .rms_norm = {fixed_phases<1>, rms_norm_units, rms_norm},
      .linear = {
          fixed_phases<2>,
          [](const LinearArgs& a, std::int32_t phase) { return sums_for(a.w, products).linear.units(a, phase); },
          [](const LinearArgs& a, std::int32_t phase, Slice s) { sums_for(a.w, products).linear.run(a, phase, s); }},
      .qkv = {qkv_phases, qkv_units<products>, qkv<products>},
      .attention = {attention_phases, attention_units, attention_of(products)},
      .ffn = {fixed_phases<4>,
              [](const FfnArgs& a, std::int32_t phase) { return sums_for(a.gate, products).ffn.units(a, phase); },
              ffn<products>},
      .moe_ffn = {fixed_phases<kMoePhases>, moe_units, moe_of(products)},
      .lm_head = {
          fixed_phases<2>,
          [](const LmHeadArgs& a, std::int32_t phase) { return sums_for(a.w, products).lm_head.units(a, phase); },
          [](const LmHeadArgs& a, std::int32_t phase, Slice s) { sums_for(a.w, products).lm_head.run(a, phase, s); }},
  };
}

constexpr KernelSet kSet = make_set<Products::f32>("avx512");
constexpr KernelSet kFp16Set = make_set<Products::f16>("avx512_fp16");
constexpr KernelSet kBf16Set = [] {
  KernelSet set = make_set<Products::bf16>("avx512_bf16");
  set.weight_format = bf16_weight_format;
  set.kv_order = [](DType type) { return type == DType::bf16 ? KvOrder::key_pairs : KvOrder::key_lanes; };
  set.default_kv_type = [](bool) { return DType::bf16; };
  return set;
}();

}  // namespace

const KernelSet& kernel_set() { return kSet; }
const KernelSet& fp16_kernel_set() { return kFp16Set; }
const KernelSet& bf16_kernel_set() { return kBf16Set; }

}  // namespace qinfer::kernels::avx512
