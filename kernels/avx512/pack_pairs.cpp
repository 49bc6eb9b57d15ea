// Weights into tiles of 32 rows by pairs of columns, [N/32][K/2][32][2] in bf16: blocks of 16 rows by 16 pairs are
// transposed in registers as dwords. Values that are bf16 already keep every bit.
#include "avx512/values.h"
#include "tiled/largest.h"
#include "tiled/tiled.h"

namespace qinfer::kernels::avx512 {
namespace {

/// Values [k, k + 32) of a row, of which `count` exist, as 16 pairs.
template <DType type>
__m512i load_pairs(const std::byte* at, std::int64_t count, Largest& largest) {
  if constexpr (type == DType::bf16) {
    const auto lanes = count >= 32 ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
    const __m512i pairs = _mm512_maskz_loadu_epi16(lanes, at);
    const Lanes32 wide = widen_pairs(pairs);
    largest.add(wide.low), largest.add(wide.high);
    return pairs;
  } else {
    alignas(64) std::byte padded[32 * dtype_bytes(type)] = {};
    __builtin_memcpy(padded, at, static_cast<std::size_t>(count < 32 ? count : 32) * dtype_bytes(type));
    const Lanes32 wide = load32<type>(padded);
    largest.add(wide.low), largest.add(wide.high);
    return bf16_pairs(wide.low, wide.high);
  }
}

template <DType from>
float pack_from(const Matrix& source, std::byte* destination, std::int64_t first, std::int64_t last) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(from));
  const std::int64_t cols = source.cols, pairs = (cols + 1) / 2, row_bytes = cols * kBytes;
  Largest largest;
  for (std::int64_t row = first; row < last; row += 16) {
    std::byte* lanes = destination + (row / kTileRows * pairs * kTileRows + row % kTileRows) * 4;
    for (std::int64_t k = 0; k < cols; k += 32) {
      __m512i block[16];
      for (std::int64_t r = 0; r < 16; ++r)
        block[r] = row + r < source.rows
                       ? load_pairs<from>(source.data + (row + r) * row_bytes + k * kBytes, cols - k, largest)
                       : _mm512_setzero_si512();
      transpose16(block);
      const std::int64_t count = smaller<std::int64_t>(pairs - k / 2, 16);
      for (std::int64_t i = 0; i < count; ++i) _mm512_storeu_si512(lanes + (k / 2 + i) * kTileRows * 4, block[i]);
    }
  }
  return largest.value();
}

}  // namespace

float pack_pairs(const Matrix& source, std::byte* destination, std::int64_t first, std::int64_t last) {
  float largest = 0;
  with_dtype(element_type(source.format.encoding), [&]<DType from>() {
    largest = pack_from<from>(source, destination, first, (last + kTileRows - 1) / kTileRows * kTileRows);
  });
  return largest;
}

}  // namespace qinfer::kernels::avx512
