// See common/quant_tiles.h: packing tiles, and reading rows out of them. Portable code: eight values at a time are the
// bytes of one 64-bit number.
#include "common/quant_tiles.h"

#include <algorithm>
#include <cstring>

#include "common/quant_blocks.h"

namespace qinfer::kernels {
namespace {

using blocks::Parts;

std::uint64_t load_u64(const std::uint8_t* at) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, 8);
  return bits;
}

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

constexpr std::uint64_t kEvenNibbles = 0x000f000f000f000f;

/// Eight nibbles, one in each byte, in the order of a group's dword: the even ones in the low half, the odd ones in the
/// high half. The products put the nibble of word i at bit 48 + 4i; nothing else reaches those bits.
std::uint32_t join(std::uint64_t nibbles) {
  constexpr std::uint64_t kGather = 0x0001001001001000;
  const std::uint64_t low = (nibbles & kEvenNibbles) * kGather >> 48;
  const std::uint64_t high = (nibbles >> 8 & kEvenNibbles) * kGather >> 48;
  return static_cast<std::uint32_t>(low | high << 16);
}

std::uint64_t spread(std::uint64_t half) {
  half = (half | half << 24) & 0x000000ff000000ff;
  return (half | half << 12) & kEvenNibbles;
}
/// The inverse of join().
std::uint64_t split(std::uint32_t dword) { return spread(dword & 0xffff) | spread(dword >> 16) << 8; }

constexpr std::uint64_t in_every_byte(unsigned bits) { return bits * std::uint64_t{0x0101010101010101}; }

/// Bits of a value above its nibble.
constexpr unsigned plane_mask(TileIntegers integers) {
  return integers == TileIntegers::five_bits ? 1 : integers == TileIntegers::six_bits ? 3 : 0;
}

/// The 32 integers of one row in a sub-block: `lane` is where those of the row begin.
template <TileIntegers integers>
void put_integers(const std::uint8_t* q, std::byte* tile, std::int64_t row) {
  if constexpr (integers == TileIntegers::bytes) {
    for (std::int64_t k = 0; k < kQuantSub; ++k) tile[k * kTileRows + row] = static_cast<std::byte>(q[k] ^ 0x80);
    return;
  }
  std::byte* lane = tile + 4 * row;
  std::uint32_t plane = 0;
  for (int g = 0; g < 4; ++g) {
    const std::uint64_t values = load_u64(q + 8 * g);
    store(lane + nibbles_at(integers, g), join(values & in_every_byte(15)));
    if constexpr (plane_mask(integers) == 0) continue;
    plane |= join(values >> 4 & in_every_byte(plane_mask(integers))) << plane_shift(integers, g);
    const bool complete = g == 3 || plane_at(integers, g + 1) != plane_at(integers, g);
    if (!complete) continue;
    store(lane + plane_at(integers, g), plane);
    plane = 0;
  }
}

template <TileIntegers integers>
void get_integers(const std::byte* tile, std::int64_t row, std::uint8_t* q) {
  if constexpr (integers == TileIntegers::bytes) {
    for (std::int64_t k = 0; k < kQuantSub; ++k) q[k] = static_cast<std::uint8_t>(tile[k * kTileRows + row]) ^ 0x80;
    return;
  }
  const std::byte* lane = tile + 4 * row;
  for (int g = 0; g < 4; ++g) {
    std::uint64_t values = split(load<std::uint32_t>(lane + nibbles_at(integers, g)));
    if constexpr (plane_mask(integers) != 0) {
      const auto plane = load<std::uint32_t>(lane + plane_at(integers, g));
      values |= (split(plane >> plane_shift(integers, g)) & in_every_byte(plane_mask(integers))) << 4;
    }
    std::memcpy(q + 8 * g, &values, 8);
  }
}

constexpr bool is_long(TileScales scales) { return scales >= TileScales::long_minima; }

/// One row of a block, its scales and its integers.
template <TileIntegers integers, TileScales scales>
void put_row(const Parts& parts, std::byte* block, std::int64_t row) {
  constexpr QuantLayout layout = quant_layout(integers, scales);
  if constexpr (is_long(scales)) store(block + 2 * row, parts.d);
  if constexpr (scales == TileScales::long_minima) store(block + 2 * (kTileRows + row), parts.m);
  for (std::int64_t j = 0; j < layout.subs; ++j) {
    std::byte* sub = block + layout.header + j * layout.sub;
    if constexpr (scales == TileScales::d || scales == TileScales::d_and_m) store(sub + 2 * row, parts.d);
    if constexpr (scales == TileScales::d_and_m) store(sub + 2 * (kTileRows + row), parts.m);
    if constexpr (scales == TileScales::e8m0) store(sub + row, parts.e8m0);
    if constexpr (scales == TileScales::long_minima || scales == TileScales::long_32) store(sub + row, parts.scales[j]);
    if constexpr (scales == TileScales::long_minima) store(sub + kTileRows + row, parts.minima[j]);
    if constexpr (scales == TileScales::long_16) {
      store(sub + row, parts.scales[2 * j]);
      store(sub + kTileRows + row, parts.scales[2 * j + 1]);
    }
    put_integers<integers>(parts.q + j * kQuantSub, sub + layout.sub_scales, row);
  }
}

template <TileIntegers integers, TileScales scales>
void get_row(const std::byte* block, std::int64_t row, Parts& parts) {
  constexpr QuantLayout layout = quant_layout(integers, scales);
  if constexpr (is_long(scales)) parts.d = load<std::uint16_t>(block + 2 * row);
  if constexpr (scales == TileScales::long_minima) parts.m = load<std::uint16_t>(block + 2 * (kTileRows + row));
  for (std::int64_t j = 0; j < layout.subs; ++j) {
    const std::byte* sub = block + layout.header + j * layout.sub;
    if constexpr (scales == TileScales::d || scales == TileScales::d_and_m)
      parts.d = load<std::uint16_t>(sub + 2 * row);
    if constexpr (scales == TileScales::d_and_m) parts.m = load<std::uint16_t>(sub + 2 * (kTileRows + row));
    if constexpr (scales == TileScales::e8m0) parts.e8m0 = load<std::uint8_t>(sub + row);
    if constexpr (scales == TileScales::long_minima || scales == TileScales::long_32)
      parts.scales[j] = load<std::int8_t>(sub + row);
    if constexpr (scales == TileScales::long_minima) parts.minima[j] = load<std::uint8_t>(sub + kTileRows + row);
    if constexpr (scales == TileScales::long_16) {
      parts.scales[2 * j] = load<std::int8_t>(sub + row);
      parts.scales[2 * j + 1] = load<std::int8_t>(sub + kTileRows + row);
    }
    get_integers<integers>(sub + layout.sub_scales, row, parts.q + j * kQuantSub);
  }
}

/// A row of a block into its place and out of it.
struct Rows {
  void (*put)(const Parts& parts, std::byte* block, std::int64_t row);
  void (*get)(const std::byte* block, std::int64_t row, Parts& parts);
};

template <TileIntegers integers, TileScales scales>
constexpr Rows rows_of() {
  return {put_row<integers, scales>, get_row<integers, scales>};
}

Rows rows_of(Encoding encoding) {
  const QuantLayout layout = quant_layout(encoding);
  using enum TileScales;
  switch (layout.integers) {
    case TileIntegers::bytes: return rows_of<TileIntegers::bytes, d>();
    case TileIntegers::six_bits: return rows_of<TileIntegers::six_bits, long_16>();
    case TileIntegers::five_bits:
      return layout.scales == d         ? rows_of<TileIntegers::five_bits, d>()
             : layout.scales == d_and_m ? rows_of<TileIntegers::five_bits, d_and_m>()
                                        : rows_of<TileIntegers::five_bits, long_minima>();
    case TileIntegers::nibbles: break;
  }
  switch (layout.scales) {
    case d: break;
    case d_and_m: return rows_of<TileIntegers::nibbles, d_and_m>();
    case e8m0: return rows_of<TileIntegers::nibbles, e8m0>();
    case long_minima: return rows_of<TileIntegers::nibbles, long_minima>();
    case long_32: return rows_of<TileIntegers::nibbles, long_32>();
    case long_16: return rows_of<TileIntegers::nibbles, long_16>();
  }
  return rows_of<TileIntegers::nibbles, d>();
}

}  // namespace

std::int64_t bytes_of_quant_tile(Encoding encoding, std::int64_t cols) {
  const QuantLayout layout = quant_layout(encoding);
  return cols / layout.block_cols * layout.block;
}

float pack_quant_tile(Encoding encoding, const std::byte* source, std::int64_t rows, std::int64_t cols,
                      std::byte* tile) {
  const QuantLayout layout = quant_layout(encoding);
  const Rows access = rows_of(encoding);
  const ReadBlock read = block_reader(encoding);
  const std::int64_t block_bytes = encoding_traits(encoding).block_bytes, count = cols / layout.block_cols;
  float largest = 0;
  Parts parts;
  for (std::int64_t b = 0; b < count; ++b, tile += layout.block) {
    if (rows < kTileRows) std::memset(tile, 0, static_cast<std::size_t>(layout.block));
    for (std::int64_t row = 0; row < rows; ++row) {
      read(source + (row * count + b) * block_bytes, parts);
      largest = std::max(largest, block_largest(encoding, parts));
      access.put(parts, tile, row);
    }
  }
  return largest;
}

void unpack_quant_row(Encoding encoding, const std::byte* tile, std::int64_t row, std::int64_t cols,
                      std::byte* blocks) {
  const QuantLayout layout = quant_layout(encoding);
  const Rows access = rows_of(encoding);
  const WriteBlock write = block_writer(encoding);
  const std::int64_t block_bytes = encoding_traits(encoding).block_bytes, count = cols / layout.block_cols;
  Parts parts;
  for (std::int64_t b = 0; b < count; ++b) {
    access.get(tile + b * layout.block, row, parts);
    write(parts, blocks + b * block_bytes);
  }
}

void widen_quant_row(Encoding encoding, const std::byte* tile, std::int64_t row, std::int64_t cols, float* out) {
  const QuantLayout layout = quant_layout(encoding);
  const Rows access = rows_of(encoding);
  const WriteBlock write = block_writer(encoding);
  const auto widen = encoding_traits(encoding).to_f32;
  Parts parts;
  std::byte block[blocks::kLongBlock];
  for (std::int64_t k = 0; k < cols; k += layout.block_cols, tile += layout.block) {
    access.get(tile, row, parts);
    write(parts, block);
    widen(block, layout.block_cols, out + k);
  }
}

float quant_largest(Encoding encoding, const std::byte* source, std::int64_t n) {
  const EncodingTraits& traits = encoding_traits(encoding);
  const ReadBlock read = block_reader(encoding);
  float largest = 0;
  Parts parts;
  for (std::int64_t i = 0; i < n; i += traits.block_values, source += traits.block_bytes) {
    read(source, parts);
    largest = std::max(largest, block_largest(encoding, parts));
  }
  return largest;
}

}  // namespace qinfer::kernels
