// Weights into pairs of columns (WeightLayout::pairs16): tiles of 16 rows, a step of 32 columns after the other, each a
// line for every pair. Blocks of 16 rows by 32 columns are turned in registers. A matrix is then read as streams of
// whole lines, whatever its rows' length and alignment in the file. Tiles of quantised weights: quant_tiles.cpp.
#include "amx/pairs.h"
#include "base/block_formats.h"
#include "common/quant_tiles.h"
#include "tiled/largest.h"
#include "tiled/tiled.h"

namespace qinfer::kernels::amx {
namespace {

/// The 32 columns of a row that begin at `at`, of which `count` exist, zeros after them. Values that are bf16 keep
/// every bit.
template <DType type>
void pack_line(const std::byte* at, std::int64_t count, std::byte* out, avx512::Largest& largest) {
  alignas(64) std::byte padded[32 * dtype_bytes(type)] = {};
  __builtin_memcpy(padded, at, static_cast<std::size_t>(smaller(count, kStep)) * dtype_bytes(type));
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
float pack_pairs(const Matrix& source, std::byte* destination, std::int64_t first, std::int64_t last) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  const std::int64_t cols = source.cols;
  avx512::Largest largest;
  for (std::int64_t row = first; row < last; row += kRegisterRows) {
    std::byte* out = tile_of_row(destination, row, cols);
    for (std::int64_t k = 0; k < cols; k += kStep, out += kPairStepBytes) {
      alignas(64) std::byte lines[kPairStepBytes] = {};
      for (std::int64_t r = 0; r < smaller(last - row, kRegisterRows); ++r)
        pack_line<type>(source.data + ((row + r) * cols + k) * kBytes, cols - k, lines + 64 * r, largest);
      turn_pairs(lines, out);
    }
  }
  return largest.value();
}

/// Of blocks, which are widened a long block of 16 rows at a time.
float pack_widened(const Matrix& source, std::byte* destination, std::int64_t first, std::int64_t last) {
  const EncodingTraits& traits = encoding_traits(source.format.encoding);
  const std::int64_t cols = source.cols, row_bytes = cols / traits.block_values * traits.block_bytes;
  constexpr std::int64_t kPart = blocks::kLongBlock;
  float values[kRegisterRows * kPart];
  for (std::int64_t row = first; row < last; row += kRegisterRows)
    for (std::int64_t k = 0; k < cols; k += kPart) {
      const std::int64_t rows = smaller(last - row, kRegisterRows), part = smaller(cols - k, kPart);
      for (std::int64_t r = 0; r < rows; ++r)
        traits.to_f32(source.data + (row + r) * row_bytes + k / traits.block_values * traits.block_bytes, part,
                      values + r * part);
      const Matrix matrix{reinterpret_cast<const std::byte*>(values), {}, rows, part};
      pack_pairs<DType::f32>(matrix, tile_of_row(destination, row, cols) + k / kStep * kPairStepBytes, 0, rows);
    }
  return quant_largest(traits.encoding, source.data + first * row_bytes, (last - first) * cols);
}

}  // namespace

float pack(const Matrix& source, const WeightFormat& format, const PackInfo& info, std::byte* destination,
           std::int64_t first, std::int64_t last) {
  if (format.layout != WeightLayout::pairs16) return avx512::pack(source, format, info, destination, first, last);
  if (!is_plain(source.format.encoding)) return pack_widened(source, destination, first, last);
  float largest = 0;
  avx512::with_dtype(element_type(source.format.encoding),
                     [&]<DType type>() { largest = pack_pairs<type>(source, destination, first, last); });
  return largest;
}

}  // namespace qinfer::kernels::amx
