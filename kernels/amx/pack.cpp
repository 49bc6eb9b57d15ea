// Weights into squares of 32 rows by 32 columns (WeightLayout::squares32): the two first operands that a step of the
// micro-kernel takes, a line for each row. A matrix is then read as one stream of whole lines, whatever its rows'
// length and alignment in the file.
#include "amx/panels.h"
#include "tiled/largest.h"
#include "tiled/tiled.h"

namespace qinfer::kernels::amx {
namespace {

/// The columns from `k` on that one line takes, of which `count` exist, zeros after them. Values that are bf16 keep
/// every bit.
template <DType type>
void pack_line(const std::byte* row, std::int64_t count, std::byte* out, avx512::Largest& largest) {
  alignas(64) std::byte padded[32 * dtype_bytes(type)] = {};
  __builtin_memcpy(padded, row, static_cast<std::size_t>(smaller(count, kStep)) * dtype_bytes(type));
  const avx512::Lanes32 values = avx512::load32<type>(padded);
  largest.add(values.low), largest.add(values.high);
  if constexpr (type == DType::bf16) {
    __builtin_memcpy(out, padded, 64);
  } else {
    avx512::store16<DType::bf16>(out, first_lanes(16), values.low);
    avx512::store16<DType::bf16>(out + 32, first_lanes(16), values.high);
  }
}

template <DType type>
float pack_squares(const Matrix& source, std::byte* destination, std::int64_t first, std::int64_t last) {
  const std::int64_t cols = source.cols, row_bytes = cols * static_cast<std::int64_t>(dtype_bytes(type));
  const std::int64_t squares = padded_k(cols) * 64;  // bytes of 32 rows
  avx512::Largest largest;
  for (std::int64_t row = first; row < (last + 31) / 32 * 32; ++row) {
    std::byte* out = destination + row / 32 * squares + row % 32 * 64;
    for (std::int64_t k = 0; k < cols; k += kStep, out += 32 * 64) {
      if (row < source.rows) {
        pack_line<type>(source.data + row * row_bytes + k * static_cast<std::int64_t>(dtype_bytes(type)), cols - k, out,
                        largest);
      } else {
        _mm512_storeu_si512(out, _mm512_setzero_si512());
      }
    }
  }
  return largest.value();
}

}  // namespace

float pack(const Matrix& source, const WeightFormat& format, const PackInfo& info, std::byte* destination,
           std::int64_t first, std::int64_t last) {
  if (format.layout != WeightLayout::squares32) return avx512::pack(source, format, info, destination, first, last);
  float largest = 0;
  avx512::with_dtype(element_type(source.format.encoding),
                     [&]<DType type>() { largest = pack_squares<type>(source, destination, first, last); });
  return largest;
}

}  // namespace qinfer::kernels::amx
