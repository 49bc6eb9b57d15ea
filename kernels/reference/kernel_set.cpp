// Binds the portable operations into a KernelSet.
#include "reference.h"

namespace qinfer::kernels::reference {
namespace {

WeightFormat weight_format(WeightRole, DType file_dtype) { return {file_dtype, WeightLayout::row_major}; }

std::uint64_t weight_bytes(const WeightFormat& format, std::int64_t rows, std::int64_t cols) {
  return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(cols) * dtype_bytes(format.dtype);
}

void pack(const Matrix& source, const WeightFormat& format, std::byte* destination, std::int64_t first,
          std::int64_t last) {
  const auto in_bytes = static_cast<std::int64_t>(dtype_bytes(source.format.dtype));
  const auto out_bytes = static_cast<std::int64_t>(dtype_bytes(format.dtype));
  float chunk[512];
  for (std::int64_t i = first * source.cols; i < last * source.cols; i += 512) {
    const std::int64_t rest = last * source.cols - i;
    const std::int64_t count = rest < 512 ? rest : 512;
    widen(source.data + i * in_bytes, source.format.dtype, count, chunk);
    narrow(chunk, count, format.dtype, destination + i * out_bytes);
  }
}

std::uint32_t kv_head_dim_padded(std::uint32_t head_dim, DType) { return head_dim; }

constexpr KernelSet kSet = {
    .name = "reference",
    .weight_format = weight_format,
    .weight_bytes = weight_bytes,
    .pack = pack,
    .kv_head_dim_padded = kv_head_dim_padded,
    .linear_workspace = linear_workspace,
    .qkv_workspace = qkv_workspace,
    .attention_workspace = attention_workspace,
    .attention_split_bytes = attention_split_bytes,
    .ffn_workspace = ffn_workspace,
    .lm_head_workspace = lm_head_workspace,
    .embed = {1, embed_units, embed},
    .rms_norm = {1, rms_norm_units, rms_norm},
    .linear = {1, linear_units, linear},
    .qkv = {1, qkv_units, qkv},
    .attention = {2, attention_units, attention},
    .ffn = {2, ffn_units, ffn},
    .lm_head = {1, lm_head_units, lm_head},
};

}  // namespace

const KernelSet& kernel_set() { return kSet; }

}  // namespace qinfer::kernels::reference
