// Binds the operations of tiled.h into a kernel set. A set with other products brings them in the place of those of
// F32Products.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "common/phases.h"
#include "tiled/tiled.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

/// Quantised matrices stay what they are, or become f32: a router always, others where the host asks for it.
inline bool quantised_format(WeightRole role, Encoding stored, const Encoding* wanted, WeightFormat& out) {
  const bool widened = role == WeightRole::router || (wanted != nullptr && *wanted == Encoding::f32);
  out = {widened ? Encoding::f32 : stored, WeightLayout::tile32};
  return widened || wanted == nullptr || *wanted == stored;
}

/// An embedding that is not also the LM head is looked up in the mapped file. Everything that is multiplied becomes
/// tiles: f16, or for exactness the file's own type, which routers have always. Nothing is quantised here.
inline bool weight_format(WeightRole role, Encoding stored, const Encoding* wanted, bool exact, WeightFormat& out) {
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
inline std::uint32_t kv_head_dim_padded(std::uint32_t head_dim, DType) { return (head_dim + 15) / 16 * 16; }

inline DType default_kv_type(bool exact) { return exact ? DType::f32 : DType::f16; }

/// Whether all of these matrices are.
inline bool are_quantised(std::initializer_list<const Matrix*> matrices) {
  return std::none_of(matrices.begin(), matrices.end(), [](const Matrix* w) { return is_plain(w->format.encoding); });
}

/// What differs from set to set.
struct F32Products {
  /// The projections that multiply a matrix.
  static const Projections& of(const Matrix& w) { return f32_projections(w.format.encoding); }
  static constexpr auto mixed_qkv = QINFER_ISA::mixed_qkv;
  static constexpr auto mixed_gate_and_up = QINFER_ISA::mixed_gate_and_up;
  static constexpr auto attention = QINFER_ISA::attention;
  static void moe(const MoeArgs& args, std::int32_t phase, Slice slice) {
    QINFER_ISA::moe(args, phase, slice, Products::f32);
  }
};

/// Quantised weights by products of their own, which `quant_of` and `mixed_network` have; all others are multiplied in
/// f32, and so are those that share activations with matrices of which some are quantised and some are not.
template <const Projections& (*quant_of)(), void (*mixed_network)(const FfnArgs&, std::int32_t, Slice)>
struct NarrowQuantProducts : F32Products {
  static const Projections& of(const Matrix& w) {
    return is_plain(w.format.encoding) ? F32Products::of(w) : quant_of();
  }
  static void mixed_qkv(const QkvArgs& args, std::int32_t phase, Slice slice) {
    if (are_quantised({&args.wq, &args.wk, &args.wv})) return quant_of().qkv.run(args, phase, slice);
    F32Products::mixed_qkv(args, phase, slice);
  }
  static void mixed_gate_and_up(const FfnArgs& args, std::int32_t phase, Slice slice) {
    if (are_quantised({&args.gate, &args.up})) return mixed_network(args, phase, slice);
    F32Products::mixed_gate_and_up(args, phase, slice);
  }
};

inline std::int32_t qkv_phases(const QkvArgs& args) { return args.norm_whole ? 3 : 2; }

template <typename Multiply>
std::int64_t qkv_units(const QkvArgs& args, std::int32_t phase) {
  return phase == 2 ? waiting_units(args, waiting_unit_rows(args.n)) : Multiply::of(args.wq).qkv.units(args, phase);
}

template <typename Multiply>
void qkv(const QkvArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 2) return finish_waiting(args, slice);
  const bool same = !args.writes_kv() || (args.wk.format == args.wq.format && args.wv.format == args.wq.format);
  if (same) return Multiply::of(args.wq).qkv.run(args, phase, slice);
  Multiply::mixed_qkv(args, phase, slice);
}

template <typename Multiply>
void ffn(const FfnArgs& args, std::int32_t phase, Slice slice) {
  if (phase >= 2) return Multiply::of(args.down).ffn.run(args, phase, slice);
  const bool same = !args.has_up() || args.gate.format == args.up.format;
  if (same) return Multiply::of(args.gate).ffn.run(args, phase, slice);
  Multiply::mixed_gate_and_up(args, phase, slice);
}

/// The projections choose their inner loop by the type of each matrix.
template <typename Multiply>
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
      .norm = {fixed_phases<1>, norm_units, norm},
      .linear = {fixed_phases<2>,
                 [](const LinearArgs& a, std::int32_t phase) { return Multiply::of(a.w).linear.units(a, phase); },
                 [](const LinearArgs& a, std::int32_t phase, Slice s) { Multiply::of(a.w).linear.run(a, phase, s); }},
      .qkv = {qkv_phases, qkv_units<Multiply>, qkv<Multiply>},
      .attention = {attention_phases, attention_units, Multiply::attention},
      .ffn = {fixed_phases<4>,
              [](const FfnArgs& a, std::int32_t phase) { return Multiply::of(a.gate).ffn.units(a, phase); },
              ffn<Multiply>},
      .moe_ffn = {fixed_phases<kMoePhases>, moe_units, Multiply::moe},
      .lm_head = {fixed_phases<2>,
                  [](const LmHeadArgs& a, std::int32_t phase) { return Multiply::of(a.w).lm_head.units(a, phase); },
                  [](const LmHeadArgs& a, std::int32_t phase, Slice s) { Multiply::of(a.w).lm_head.run(a, phase, s); }},
  };
}

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
