// Weights into squares of 32 rows by 32 columns (WeightLayout::squares32): the two first operands that a step of the
// micro-kernel takes, a line for each row. A matrix is then read as one stream of whole lines, whatever its rows'
// length and alignment in the file. Squares of quantised weights: quant_tiles.cpp.
#include "amx/panels.h"
#include "base/block_formats.h"
#include "common/quant_tiles.h"
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

/// Where the square of a row's first columns is, and its line in that.
std::byte* line_of(std::byte* squares, std::int64_t row, std::int64_t cols) {
  return squares + row / 32 * padded_k(cols) * 64 + row % 32 * 64;
}

/// Zeros for rows [first, end).
void clear_rows(std::byte* destination, std::int64_t first, std::int64_t end, std::int64_t cols) {
  for (std::int64_t row = first; row < end; ++row)
    for (std::int64_t k = 0; k < cols; k += kStep)
      _mm512_storeu_si512(line_of(destination, row, cols) + k / kStep * kStepBytes, _mm512_setzero_si512());
}

template <DType type>
float pack_squares(const Matrix& source, std::byte* destination, std::int64_t first, std::int64_t last) {
  const std::int64_t cols = source.cols, row_bytes = cols * static_cast<std::int64_t>(dtype_bytes(type));
  avx512::Largest largest;
  for (std::int64_t row = first; row < last; ++row) {
    std::byte* out = line_of(destination, row, cols);
    for (std::int64_t k = 0; k < cols; k += kStep, out += kStepBytes)
      pack_line<type>(source.data + row * row_bytes + k * static_cast<std::int64_t>(dtype_bytes(type)), cols - k, out,
                      largest);
  }
  return largest.value();
}

/// Of blocks, whose columns are whole steps.
float pack_widened(const Matrix& source, std::byte* destination, std::int64_t first, std::int64_t last) {
  const EncodingTraits& traits = encoding_traits(source.format.encoding);
  const std::int64_t cols = source.cols, row_bytes = cols / traits.block_values * traits.block_bytes;
  float values[blocks::kLongBlock];
  avx512::Largest largest;
  for (std::int64_t row = first; row < last; ++row) {
    std::byte* out = line_of(destination, row, cols);
    for (std::int64_t k = 0; k < cols; k += traits.block_values) {
      traits.to_f32(source.data + row * row_bytes + k / traits.block_values * traits.block_bytes, traits.block_values,
                    values);
      for (std::int64_t i = 0; i < traits.block_values; i += kStep, out += kStepBytes)
        pack_line<DType::f32>(reinterpret_cast<const std::byte*>(values + i), kStep, out, largest);
    }
  }
  return quant_largest(traits.encoding, source.data + first * row_bytes, (last - first) * cols);
}

}  // namespace

float pack(const Matrix& source, const WeightFormat& format, const PackInfo& info, std::byte* destination,
           std::int64_t first, std::int64_t last) {
  if (format.layout != WeightLayout::squares32 || !is_plain(format.encoding))
    return avx512::pack(source, format, info, destination, first, last);
  clear_rows(destination, last, (last + 31) / 32 * 32, source.cols);
  if (!is_plain(source.format.encoding)) return pack_widened(source, destination, first, last);
  float largest = 0;
  avx512::with_dtype(element_type(source.format.encoding),
                     [&]<DType type>() { largest = pack_squares<type>(source, destination, first, last); });
  return largest;
}

}  // namespace qinfer::kernels::amx
