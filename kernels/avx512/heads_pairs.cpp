// Keys and values as pairs of bf16 (KvOrder::key_pairs), which products of bf16 take.
#include "avx512/values.h"
#include "tiled/tiled.h"

namespace qinfer::kernels::avx512 {
/// The heads of a run become neighbouring dwords of the lines of a tile [width / 2][32][2].
void write_key_pairs(const float* values, std::int64_t ld, std::int64_t count, std::int64_t lane, std::int64_t width,
                     std::byte* tile) {
  const std::int64_t pairs = (width + 1) / 2;
  for (std::int64_t first = 0; first < count; first += 16)
    for (std::int64_t i = 0; i < pairs; i += 16) {
      const std::int64_t rows = count - first < 16 ? count - first : 16, lines = pairs - i < 16 ? pairs - i : 16;
      I32x16 block[16];
      for (std::int64_t r = 0; r < 16; ++r)
        block[r] = r < rows ? Bf16Values::load(values + (first + r) * ld, i, width, 0) : no_bits();
      if (rows == 1) {  // decoding: nothing to transpose
        alignas(64) std::uint32_t row[16];
        store_dwords(row, block[0]);
        for (std::int64_t j = 0; j < lines; ++j)
          __builtin_memcpy(tile + ((i + j) * kTileTokens + lane + first) * 4, row + j, 4);
        continue;
      }
      transpose16(block);
      for (std::int64_t j = 0; j < lines; ++j)
        store_dwords(tile + ((i + j) * kTileTokens + lane + first) * 4, first_lanes(rows), block[j]);
    }
}

/// They become halves of the dwords of a tile [16][padded][2], the low ones for even positions.
void write_value_pairs(const float* values, std::int64_t ld, std::int64_t count, std::int64_t lane, std::int64_t width,
                       std::int64_t padded, std::byte* tile) {
  for (std::int64_t r = 0; r < count; ++r) {
    const bool odd = (lane + r) % 2 != 0;
    for (std::int64_t i = 0; i < padded; i += 16) {
      const Lanes lanes = i < width ? first_lanes(width - i) : Lanes{0};
      const I32x16 high = rounded_to_bf16(load(lanes, values + r * ld + i));
      _mm512_mask_storeu_epi16(tile + ((lane + r) / 2 * padded + i) * 4, odd ? 0xaaaaaaaa : 0x55555555,
                               odd ? high : shift_right<16>(high));
    }
  }
}

}  // namespace qinfer::kernels::avx512
