// Binds the portable operations into a KernelSet.
#include <cmath>
#include <cstring>

#include "common/phases.h"
#include "reference.h"

namespace qinfer::kernels::reference {
namespace {

/// Routers are as the file has them. Quantised matrices are too, or f32, which holds all of them.
bool weight_format(WeightRole role, Encoding stored, const Encoding* wanted, bool exact, WeightFormat& out) {
  out = {wanted != nullptr && role != WeightRole::router ? *wanted : stored, WeightLayout::row_major};
  if (out.encoding != stored && out.encoding != Encoding::f32 && !(is_plain(stored) && is_plain(out.encoding)))
    return false;
  return !exact || holds_exactly(stored, out.encoding);
}

/// Only f16 can be too small: it ends at 65504. This set has no scaled matrices, so it refuses instead.
PackEnd pack_end(const WeightFormat& format, float largest, PackInfo& info) {
  info = {1, largest};
  return format.encoding == Encoding::f16 && largest > 65504.0f ? PackEnd::out_of_range : PackEnd::done;
}

DType default_kv_type(bool exact) { return exact ? DType::f32 : DType::f16; }

float pack(const Matrix& source, const WeightFormat& format, const PackInfo&, std::byte* destination,
           std::int64_t first, std::int64_t last) {
  // 512 values are whole blocks of every encoding, and so is a row.
  const auto bytes_of = [](Encoding encoding, std::int64_t n) {
    return static_cast<std::int64_t>(encoded_bytes(encoding, static_cast<std::uint64_t>(n)));
  };
  float largest = 0, chunk[512];
  for (std::int64_t i = first * source.cols; i < last * source.cols; i += 512) {
    const std::int64_t rest = last * source.cols - i;
    const std::int64_t count = rest < 512 ? rest : 512;
    const std::byte* from = source.data + bytes_of(source.format.encoding, i);
    std::byte* to = destination + bytes_of(format.encoding, i);
    encoding_traits(source.format.encoding).to_f32(from, count, chunk);
    for (std::int64_t j = 0; j < count; ++j) {
      const float magnitude = std::fabs(chunk[j]);
      if (std::isfinite(magnitude) && magnitude > largest) largest = magnitude;
    }
    // Equal types keep every bit, also of a NaN.
    if (source.format.encoding == format.encoding) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes_of(format.encoding, count)));
    } else {
      narrow(chunk, count, element_type(format.encoding), to);
    }
  }
  return largest;
}

std::uint32_t kv_head_dim_padded(std::uint32_t head_dim, DType) { return head_dim; }

constexpr KernelSet kSet = {
    .name = "reference",
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
    .linear = {fixed_phases<2>, linear_units, linear},
    .qkv = {qkv_phases, qkv_units, qkv},
    .attention = {attention_phases, attention_units, attention},
    .ffn = {fixed_phases<4>, ffn_units, ffn},
    .moe_ffn = {fixed_phases<kMoePhases>, moe_ffn_units, moe_ffn},
    .lm_head = {fixed_phases<2>, lm_head_units, lm_head},
};

}  // namespace

const KernelSet& kernel_set() { return kSet; }

}  // namespace qinfer::kernels::reference
