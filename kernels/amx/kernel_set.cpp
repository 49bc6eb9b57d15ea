// Binds the AMX operations into the kernel set `amx`.
#include "amx/amx.h"
#include "amx/moe.h"
#include "common/phases.h"
#include "tiled/tiled.h"

namespace qinfer::kernels::amx {
namespace {

/// Everything that is multiplied is bf16: rows as in the file, which are used where they are mapped (others are rounded
/// once), or pairs (pack_format()). An embedding that is not also the LM head is looked up in the mapped file.
bool plain_format(WeightRole role, Encoding stored, const Encoding* wanted, bool exact, WeightFormat& out) {
  out = {role == WeightRole::embedding ? stored
         : wanted != nullptr           ? *wanted
                                       : Encoding::bf16,
         WeightLayout::row_major};
  if (role == WeightRole::embedding) return true;
  return out.encoding == Encoding::bf16 && (!exact || stored == Encoding::bf16);
}

/// Quantised weights stay what they are, in tiles, which are decoded to bf16 for each multiplication (quant_pairs.h);
/// routers, and where the host asks for it others, become bf16.
bool weight_format(WeightRole role, Encoding stored, const Encoding* wanted, bool exact, WeightFormat& out) {
  if (is_plain(stored)) return plain_format(role, stored, wanted, exact, out);
  const bool rounded = role == WeightRole::router || (wanted != nullptr && *wanted == Encoding::bf16);
  if (role == WeightRole::embedding) {
    out = {stored, WeightLayout::row_major};
    return true;
  }
  out = {rounded ? Encoding::bf16 : stored, rounded ? WeightLayout::row_major : WeightLayout::tile32};
  return rounded ? !exact : wanted == nullptr || *wanted == stored;
}

/// Pairs are read as streams of lines, and few tokens are multiplied with them in AVX-512 (pairs.h). What is only
/// looked up stays rows.
void pack_format(WeightRole role, WeightFormat& format) {
  if (role != WeightRole::embedding && is_plain(format.encoding)) format.layout = WeightLayout::pairs16;
}

/// Whole steps of 32 in both orders.
std::uint32_t kv_head_dim_padded(std::uint32_t head_dim, DType) { return (head_dim + 31) / 32 * 32; }

DType default_kv_type(bool) { return DType::bf16; }

constexpr KernelSet kSet = {
    .name = "amx",
    .quantised_name = "-cut",
    .weight_format = weight_format,
    .pack_format = pack_format,
    .pack = pack,
    .pack_end = avx512::pack_end,
    .kv_head_dim_padded = kv_head_dim_padded,
    .kv_order = [](DType) { return KvOrder::key_rows; },
    .default_kv_type = default_kv_type,
    .layouts = {.residual = ActivationLayout::f32_panels,
                .operand = ActivationLayout::bf16_panels,
                .query = ActivationLayout::bf16_panels,
                .max_row_major = kMaxRowMajor},
    .linear_workspace = linear_workspace,
    .qkv_workspace = qkv_workspace,
    .attention_workspace = attention_workspace,
    .attention_split_bytes = attention_split_bytes,
    .ffn_workspace = ffn_workspace,
    .moe_workspace = moe_workspace,
    .lm_head_workspace = lm_head_workspace,
    .embed = {fixed_phases<1>, embed_units, embed},
    .norm = {fixed_phases<1>, norm_units, norm},
    .linear = {fixed_phases<2>, linear_units, linear},
    .qkv = {qkv_phases, qkv_units, qkv},
    .attention = {attention_phases, attention_units, attention},
    .ffn = {fixed_phases<4>, ffn_units, ffn},
    .moe_ffn = {fixed_phases<kMoePhases>, moe_ffn_units, moe_ffn},
    .lm_head = {fixed_phases<2>, lm_head_units, lm_head},
};

}  // namespace

const KernelSet& kernel_set() { return kSet; }

}  // namespace qinfer::kernels::amx
