// Weights into tiles of 32 rows, [N/32][K][32]: blocks of 16 rows by 16 dwords are transposed in registers, which keeps
// both sides in whole cache lines. Types that do not change are moved bit for bit, and so are the blocks of quantised
// matrices; or they are widened.
#include "base/block_formats.h"
#include "common/quant_tiles.h"
#include "tiled/largest.h"
#include "tiled/math.h"
#include "tiled/tiled.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

/// Values of one column as they are stored, in the low halves of dwords or as dwords.
template <DType type>
F32x16 widen_raw(I32x16 raw) {
  if constexpr (type == DType::f32) {
    return floats_of(raw);
  } else {
    return widen<type>(raw);
  }
}
template <DType type>
void store_raw(std::byte* at, Lanes lanes, I32x16 raw) {
  if constexpr (type == DType::f32) {
    store_dwords(at, lanes, raw);
  } else {
    store_halves(at, lanes, raw);
  }
}

/// The first `count` (1 to 32) 16-bit words of a row as dwords, zeros after them.
inline I32x16 load_words(const std::byte* at, std::int64_t count) {
  if (count >= 32) return load_dwords(at);
  alignas(64) std::byte padded[64] = {};
  __builtin_memcpy(padded, at, static_cast<std::size_t>(count) * 2);
  return load_dwords(padded);
}

/// Calls emit(k, raw) for the columns [k, k + count) of 16 rows, of which `rows` exist; the others are zero.
template <DType type, typename Emit>
inline void transpose_columns(const std::byte* at, std::int64_t row_bytes, std::int64_t rows, std::int64_t count,
                              Emit emit) {
  I32x16 block[16];
  for (std::int64_t r = 0; r < 16; ++r) {
    if (r >= rows) {
      block[r] = no_bits();
    } else if constexpr (type == DType::f32) {
      block[r] = load_dwords(first_lanes(count), at + r * row_bytes);
    } else {
      block[r] = load_words(at + r * row_bytes, count);
    }
  }
  transpose16(block);
  if constexpr (type == DType::f32) {
    for (std::int64_t k = 0; k < count; ++k) emit(k, block[k]);
  } else {
    for (std::int64_t k = 0; k < count; k += 2) {  // a dword holds columns k and k + 1
      emit(k, and_bits(block[k / 2], splat_bits(0xffff)));
      if (k + 1 < count) emit(k + 1, shift_right<16>(block[k / 2]));
    }
  }
}

/// Rows [first, last) of the source into their tiles.
template <DType from, DType to>
float pack_tiles(const Matrix& source, float scale, std::byte* destination, std::int64_t first, std::int64_t last) {
  constexpr auto kFromBytes = static_cast<std::int64_t>(dtype_bytes(from));
  constexpr auto kToBytes = static_cast<std::int64_t>(dtype_bytes(to));
  constexpr std::int64_t kStep = from == DType::f32 ? 16 : 32;
  const std::int64_t cols = source.cols;
  const F32x16 inverse = splat(1 / scale);
  const bool as_stored = from == to && (to != DType::f16 || scale == 1);  // every bit, also of a NaN
  Largest largest;
  for (std::int64_t row = first; row < last; row += 16) {
    std::byte* lanes = destination + (row / kTileRows * cols * kTileRows + row % kTileRows) * kToBytes;
    const std::byte* at = source.data + row * cols * kFromBytes;
    for (std::int64_t k = 0; k < cols; k += kStep) {
      const std::int64_t count = cols - k < kStep ? cols - k : kStep;
      transpose_columns<from>(at + k * kFromBytes, cols * kFromBytes, source.rows - row, count,
                              [&](std::int64_t i, I32x16 raw) {
                                std::byte* out = lanes + (k + i) * kTileRows * kToBytes;
                                const F32x16 value = widen_raw<from>(raw);
                                largest.add(value);
                                if (as_stored) {
                                  store_raw<to>(out, first_lanes(16), raw);
                                } else {
                                  store16<to>(out, first_lanes(16), mul(value, inverse));
                                }
                              });
    }
  }
  return largest.value();
}

/// One conversion of consecutive values.
template <DType from, DType to>
float pack_values(const std::byte* source, std::byte* destination, std::int64_t n) {
  Largest largest;
  for (std::int64_t i = 0; i < n; i += 16) {
    const Lanes lanes = first_lanes(n - i);
    std::byte* out = destination + i * static_cast<std::int64_t>(dtype_bytes(to));
    I32x16 raw;
    if constexpr (from == DType::f32) {
      raw = load_dwords(lanes, source + 4 * i);
    } else {
      raw = load_halves(lanes, source + 2 * i);
    }
    const F32x16 value = widen_raw<from>(raw);
    largest.add(value);
    if constexpr (from == to) {  // every bit, also of a NaN
      store_raw<to>(out, lanes, raw);
    } else {
      store16<to>(out, lanes, value);
    }
  }
  return largest.value();
}

/// Rows [first, last) of blocks as they are: into tiles, or one after the other.
float pack_blocks(const Matrix& source, WeightLayout layout, std::byte* destination, std::int64_t first,
                  std::int64_t last) {
  const Encoding encoding = source.format.encoding;
  const auto row_bytes = static_cast<std::int64_t>(encoded_bytes(encoding, static_cast<std::uint64_t>(source.cols)));
  if (layout == WeightLayout::row_major) {
    const std::byte* from = source.data + first * row_bytes;
    __builtin_memcpy(destination + first * row_bytes, from, static_cast<std::size_t>((last - first) * row_bytes));
    return quant_largest(encoding, from, (last - first) * source.cols);
  }
  const std::int64_t tile_bytes = bytes_of_quant_tile(encoding, source.cols);
  float largest = 0;
  for (std::int64_t row = first; row < last; row += kTileRows)
    largest = larger(largest, pack_quant_tile(encoding, source.data + row * row_bytes, smaller(last - row, kTileRows),
                                              source.cols, destination + row / kTileRows * tile_bytes));
  return largest;
}

/// Rows [first, last) of blocks as values: 256 columns of a tile's rows are widened at a time.
template <DType to>
float pack_widened(const Matrix& source, const WeightFormat& format, const PackInfo& info, std::byte* destination,
                   std::int64_t first, std::int64_t last) {
  constexpr std::int64_t kStep = blocks::kLongBlock;
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(to));
  const EncodingTraits& traits = encoding_traits(source.format.encoding);
  const std::int64_t row_blocks = source.cols / traits.block_values;
  float values[kTileRows * kStep];
  for (std::int64_t row = first; row < last; row += kTileRows) {
    const std::int64_t rows = smaller(last - row, kTileRows);
    for (std::int64_t k = 0; k < source.cols; k += kStep) {
      const std::int64_t cols = smaller(source.cols - k, kStep);
      const auto blocks_of = [&](std::int64_t r) {
        return source.data + ((row + r) * row_blocks + k / traits.block_values) * traits.block_bytes;
      };
      for (std::int64_t r = 0; r < rows; ++r) traits.to_f32(blocks_of(r), cols, values + r * cols);
      if (format.layout == WeightLayout::tile32) {
        const Matrix part{reinterpret_cast<const std::byte*>(values), {}, rows, cols};
        pack_tiles<DType::f32, to>(part, info.scale, destination + (row * source.cols + k * kTileRows) * kBytes, 0,
                                   kTileRows);
      } else {
        for (std::int64_t r = 0; r < rows; ++r)
          pack_values<DType::f32, to>(reinterpret_cast<const std::byte*>(values + r * cols),
                                      destination + ((row + r) * source.cols + k) * kBytes, cols);
      }
    }
  }
  const auto row_bytes = row_blocks * traits.block_bytes;
  return quant_largest(traits.encoding, source.data + first * row_bytes, (last - first) * source.cols);
}

}  // namespace

/// f16 ends at 65504: a matrix with larger values is packed again, divided by the smallest power of two that will do.
/// Below 2^-14 it loses bits: tiles of a matrix without larger values than 2^-6 are packed again, too, multiplied by a
/// power of two so that the largest is at least 1/2. Nearly always the values fit as they are.
PackEnd pack_end(const WeightFormat& format, float largest, PackInfo& info) {
  constexpr float kSmall = 0x1p-6f, kLeastScale = 0x1p-100f;  // whose inverse is finite
  float scale = 1;
  if (format.encoding == Encoding::f16) {
    while (largest / scale > 65504.0f) scale *= 2;  // division by a power of two is exact here
    if (format.layout == WeightLayout::tile32 && largest > 0 && largest < kSmall)
      while (largest / scale < 0.5f && scale > kLeastScale) scale /= 2;
  }
  const bool again = scale != info.scale;
  info = {scale, largest / scale};
  return again ? PackEnd::again : PackEnd::done;
}

float pack(const Matrix& source, const WeightFormat& format, const PackInfo& info, std::byte* destination,
           std::int64_t first, std::int64_t last) {
  if constexpr (kHasPairs)
    if (format.layout == WeightLayout::pairs32) return pack_pairs(source, destination, first, last);
  const bool tiles = format.layout == WeightLayout::tile32;
  if (!is_plain(format.encoding)) return pack_blocks(source, format.layout, destination, first, last);
  const std::int64_t begin = first * source.cols, count = (last - first) * source.cols;
  float largest = 0;
  if (!is_plain(source.format.encoding)) {
    with_dtype(element_type(format.encoding),
               [&]<DType to>() { largest = pack_widened<to>(source, format, info, destination, first, last); });
    return largest;
  }
  with_dtype(element_type(source.format.encoding), [&]<DType from>() {
    with_dtype(element_type(format.encoding), [&]<DType to>() {
      if (tiles) {
        largest = pack_tiles<from, to>(source, info.scale, destination, first,
                                       (last + kTileRows - 1) / kTileRows * kTileRows);
      } else {
        largest = pack_values<from, to>(source.data + begin * static_cast<std::int64_t>(dtype_bytes(from)),
                                        destination + begin * static_cast<std::int64_t>(dtype_bytes(to)), count);
      }
    });
  });
  return largest;
}

}  // namespace qinfer::kernels::QINFER_ISA
