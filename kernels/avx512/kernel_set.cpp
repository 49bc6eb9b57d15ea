// Binds the AVX-512 operations into the kernel sets `avx512` and `avx512_fp16`, which differ in how projections of f16
// weights are summed.
#include "avx512/avx512.h"
#include "common/phases.h"

namespace qinfer::kernels::avx512 {
namespace {

/// A table of its own is looked up in the mapped file. Everything that is multiplied becomes tiles: f16, or for
/// exactness the file's own type, which routers have always.
bool weight_format(WeightRole role, Encoding stored, const Encoding* wanted, bool exact, WeightFormat& out) {
  if (role == WeightRole::embedding) {
    out = {stored, WeightLayout::row_major};
    return true;
  }
  out.layout = WeightLayout::tile32;
  exact = exact || role == WeightRole::router;
  if (role == WeightRole::router) wanted = nullptr;
  out.encoding = wanted != nullptr ? *wanted : exact ? stored : Encoding::f16;
  return !exact || holds_exactly(stored, out.encoding);
}

/// Lines of V in whole registers.
std::uint32_t kv_head_dim_padded(std::uint32_t head_dim, DType) { return (head_dim + 15) / 16 * 16; }

DType default_kv_type(bool exact) { return exact ? DType::f32 : DType::f16; }

const Projections& sums_for(const Matrix& w, bool fp16) {
  const DType type = element_type(w.format.encoding);
  return fp16 && type == DType::f16 ? fp16_projections() : f32_projections(type);
}

std::int32_t qkv_phases(const QkvArgs& args) { return args.norm_whole ? 3 : 2; }

template <bool fp16>
std::int64_t qkv_units(const QkvArgs& args, std::int32_t phase) {
  return phase == 2 ? waiting_units(args, waiting_unit_rows(args.n)) : sums_for(args.wq, fp16).qkv.units(args, phase);
}

template <bool fp16>
void qkv(const QkvArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 2) return finish_waiting(args, slice);
  const bool same = !args.writes_kv() || (args.wk.format == args.wq.format && args.wv.format == args.wq.format);
  same ? sums_for(args.wq, fp16).qkv.run(args, phase, slice) : mixed_qkv(args, phase, slice);
}

template <bool fp16>
void ffn(const FfnArgs& args, std::int32_t phase, Slice slice) {
  if (phase >= 2) return sums_for(args.down, fp16).ffn.run(args, phase, slice);
  const bool same = args.gate.format == args.up.format;
  same ? sums_for(args.gate, fp16).ffn.run(args, phase, slice) : mixed_gate_and_up(args, phase, slice);
}

/// The projections choose their inner loop by the type of each matrix.
template <bool fp16>
constexpr KernelSet make_set(const char* name) {
  return {
      .name = name,
      .weight_format = weight_format,
      .pack = pack,
      .pack_end = pack_end,
      .kv_head_dim_padded = kv_head_dim_padded,
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
      .linear = {fixed_phases<2>,
                 [](const LinearArgs& a, std::int32_t phase) { return sums_for(a.w, fp16).linear.units(a, phase); },
                 [](const LinearArgs& a, std::int32_t phase, Slice s) { sums_for(a.w, fp16).linear.run(a, phase, s); }},
      .qkv = {qkv_phases, qkv_units<fp16>, qkv<fp16>},
      .attention = {attention_phases, attention_units, fp16 ? fp16_attention : attention},
      .ffn = {fixed_phases<4>,
              [](const FfnArgs& a, std::int32_t phase) { return sums_for(a.gate, fp16).ffn.units(a, phase); },
              ffn<fp16>},
      .moe_ffn = {fixed_phases<kMoePhases>, moe_units, fp16 ? fp16_moe : moe},
      .lm_head = {
          fixed_phases<2>,
          [](const LmHeadArgs& a, std::int32_t phase) { return sums_for(a.w, fp16).lm_head.units(a, phase); },
          [](const LmHeadArgs& a, std::int32_t phase, Slice s) { sums_for(a.w, fp16).lm_head.run(a, phase, s); }},
  };
}

constexpr KernelSet kSet = make_set<false>("avx512");
constexpr KernelSet kFp16Set = make_set<true>("avx512_fp16");

}  // namespace

const KernelSet& kernel_set() { return kSet; }
const KernelSet& fp16_kernel_set() { return kFp16Set; }

}  // namespace qinfer::kernels::avx512
