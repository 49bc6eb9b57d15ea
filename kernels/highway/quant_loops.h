// The inner loops of projections with quantised weights and sums in f32: weights are decoded to the f32 values that
// their encoding defines, bit for bit, and added up as in F32Sums, sequentially over k. So the results are those of the
// same matrix held as tiles of f32.
//
// One token is multiplied with weights as they are decoded. For more tokens the 32 columns of a sub-block are decoded
// into memory of 4 KiB, once for all panels that are multiplied together, which the loops over f32 weights then read.
//
// The functions that a compiler sees are run_one(), decode() and add_decoded(). All that they call is inlined into them
// ([[gnu::flatten]]): left to itself GCC makes calls of the pieces, which pass vectors through memory, at the speed of
// scalar code. A test looks for calls in the objects.
#pragma once

#include "highway/gemm_f32.h"
#include "highway/quant_stream.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

/// Byte `from` of each lane as byte `to`, the others 0.
template <int from, int to>
inline I32x16 move_byte(I32x16 x) {
  using ByteTag = hn::Repartition<std::uint8_t, IntTag>;
  alignas(16) static constexpr std::array<std::uint8_t, 16> kFrom = [] {
    std::array<std::uint8_t, 16> places{};
    for (std::size_t i = 0; i < 16; ++i) places[i] = static_cast<std::uint8_t>(i % 4 == to ? i - to + from : 0x80);
    return places;
  }();
  const auto places = hn::LoadDup128(ByteTag(), kFrom.data());
  return each<I32x16>([&](std::size_t p) {
    return hn::BitCast(IntTag(), hn::TableLookupBytesOr0(hn::BitCast(ByteTag(), x.part[p]), places));
  });
}

/// Eight integers of each of 16 rows as bytes: nibble 2b in byte b of `even`, nibble 2b + 1 in byte b of `odd`.
struct GroupBytes {
  I32x16 even, odd;

  /// Those of value v (0 .. 7) of a group, which is nibble 4 (v % 2) + v / 2. A shuffle of bytes instead of one or both
  /// of the shifts: it has a port of its own beside those of the arithmetic.
  template <int v, bool has_sign>
  I32x16 at() const {
    constexpr int kNibble = 4 * (v % 2) + v / 2, kByte = kNibble / 2;
    const I32x16& bytes = kNibble % 2 == 0 ? even : odd;
    if constexpr (!has_sign) return move_byte<kByte, 0>(bytes);
    const I32x16 highest = kByte == 3 ? bytes : move_byte<kByte, 3>(bytes);
    return each<I32x16>([&](std::size_t p) { return hn::ShiftRight<24>(highest.part[p]); });
  }
};

/// What integers of four bits and more stand for, before they are scaled.
template <Meaning meaning>
inline I32x16 meant(I32x16 bytes) {
  using ByteTag = hn::Repartition<std::int8_t, IntTag>;
  if constexpr (is_table(meaning)) {
    alignas(16) static constexpr std::array<std::int8_t, 16> kTable = [] {
      std::array<std::int8_t, 16> table{};
      for (std::size_t i = 0; i < 16; ++i) table[i] = static_cast<std::int8_t>(table_of(meaning)[i]);
      return table;
    }();
    const auto table = hn::LoadDup128(ByteTag(), kTable.data());
    return each<I32x16>([&](std::size_t p) {
      return hn::BitCast(IntTag(), hn::TableLookupBytes(table, hn::BitCast(ByteTag(), bytes.part[p])));
    });
  } else if constexpr (meaning == Meaning::whole) {
    return bytes;
  } else {
    const auto offset = hn::Set(ByteTag(), static_cast<std::int8_t>(offset_of(meaning)));
    return each<I32x16>(
        [&](std::size_t p) { return hn::BitCast(IntTag(), hn::Sub(hn::BitCast(ByteTag(), bytes.part[p]), offset)); });
  }
}

/// `nibbles`: the dwords of a group. `plane`: its plane, shifted right by plane_shift(); not looked at where there is
/// none.
template <TileIntegers integers, Meaning meaning>
inline GroupBytes group_bytes(I32x16 nibbles, I32x16 plane) {
  const I32x16 low = splat_bits(0x0f0f0f0f);
  I32x16 even = and_bits(nibbles, low), odd = and_bits(shift_right<4>(nibbles), low);
  if constexpr (integers != TileIntegers::nibbles) {
    const I32x16 high = splat_bits(plane_bytes(integers));
    even = or_bits(even, and_bits(shift_left<4>(plane), high));
    odd = or_bits(odd, and_bits(plane, high));
  }
  return {meant<meaning>(even), meant<meaning>(odd)};
}

/// c = or += the products of the 32 columns of a sub-block. One function for all encodings, as decode() says.
template <int tokens>
[[gnu::noinline, gnu::flatten]] void add_decoded(const float* x, const std::byte* weights, float* c, std::int64_t ldc,
                                                 bool first) {
  F32Sums<DType::f32>::add_columns<tokens>(x, kQuantSub, weights, nullptr, c, ldc, first);
}

template <Encoding encoding>
struct QuantSums : QuantTraits<encoding> {
  using Traits = QuantTraits<encoding>;
  using Traits::kLayout, Traits::kIntegers, Traits::kScales, Traits::kMeaning, Traits::kRuns;

  static constexpr int tiles_for(int) { return 1; }

  static inline F32x16 weight_of(const RunScales& scales, I32x16 integers) {
    if constexpr (has_minima(kScales)) return mul_sub(as_floats(integers), scales.scale, scales.minimum);
    return mul(as_floats(integers), scales.scale);
  }

  /// Calls emit(column of the group, half, its 16 weights) for the values v and up of a group.
  template <int v, typename Emit>
  static inline void emit_values(const GroupBytes& bytes, const RunScales& scales, int half, Emit emit) {
    emit(v, half, weight_of(scales, bytes.at<v, kMeaning != Meaning::whole>()));
    if constexpr (v < 7) emit_values<v + 1>(bytes, scales, half, emit);
  }

  /// Group g of a sub-block, whose integers begin at `integers`.
  template <int g, typename Emit>
  static inline void decode_group(const std::byte* integers, const RunScales (&scales)[2], Emit emit) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const I32x16 nibbles = load_dwords(integers + nibbles_at(kIntegers, g) + 64 * half);
      I32x16 plane = no_bits();
      if constexpr (kIntegers != TileIntegers::nibbles)
        plane = shift_right<plane_shift(kIntegers, g)>(load_dwords(integers + plane_at(kIntegers, g) + 64 * half));
      emit_values<0>(group_bytes<kIntegers, kMeaning>(nibbles, plane), scales[half], half, emit);
    }
  }

  /// Eight columns of a sub-block of bytes.
  template <typename Emit>
  static inline void decode_bytes(const std::byte* integers, const RunScales (&scales)[2], Emit emit) {
    for (int k = 0; k < 8; ++k)
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half)
        emit(k, half, weight_of(scales[half], load_i8(integers + k * kTileRows + 16 * half)));
  }

  /// Calls emit(column, half, weights) for the columns of a sub-block: of each half in ascending order.
  /// `block`, `sub`: where they begin.
  template <int g, typename Emit>
  static inline void decode_from(const std::byte* block, const std::byte* sub, RunScales (&scales)[2], Emit emit) {
    if constexpr (g == 0 || (kRuns == 2 && g == 2))
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) scales[half] = scales_at<kScales>(block, sub, g / 2, half);
    const auto shifted = [&](int k, int half, F32x16 weights) { emit(8 * g + k, half, weights); };
    const std::byte* integers = sub + kLayout.sub_scales;
    if constexpr (kIntegers == TileIntegers::bytes) {
      decode_bytes(integers + 8 * g * kTileRows, scales, shifted);
    } else {
      decode_group<g>(integers, scales, shifted);
    }
    if constexpr (g < 3) decode_from<g + 1>(block, sub, scales, emit);
  }

  [[gnu::flatten]] static void run_one(const float* x, std::int64_t cols, const TileLines& lines, float* c) {
    F32x16 sums[2] = {zeros(), zeros()};
    for_subs<encoding>(lines, cols, [&](const std::byte* block, const std::byte* sub) {
      RunScales scales[2];
      decode_from<0>(block, sub, scales,
                     [&](int k, int half, F32x16 weights) { sums[half] = mul_add(weights, splat(x[k]), sums[half]); });
      x += kQuantSub;
    });
    store(c, sums[0]);
    store(c + 16, sums[1]);
  }

  /// The 32 columns of a sub-block as f32. Not inline: one function for all numbers of tokens compiles in a tenth of
  /// the time.
  [[gnu::noinline, gnu::flatten]] static void decode(const std::byte* block, const std::byte* sub,
                                                     float (&out)[kQuantSub][kTileRows]) {
    RunScales scales[2];
    decode_from<0>(block, sub, scales, [&](int k, int half, F32x16 weights) { store(&out[k][16 * half], weights); });
  }

  /// `count` panels of `tokens`, which follow each other: each sub-block is decoded once for all.
  template <int tokens>
  static inline void run_decoded(const std::uint32_t* panels, std::int64_t count, std::int64_t cols,
                                 const TileLines& lines, float* c, std::int64_t ldc) {
    const float* x = reinterpret_cast<const float*>(panels);
    alignas(64) float weights[kQuantSub][kTileRows];
    bool first = true;
    for_subs<encoding>(lines, cols, [&](const std::byte* block, const std::byte* sub) {
      decode(block, sub, weights);
      for (std::int64_t p = 0; p < count; ++p)
        add_decoded<tokens>(x + p * tokens * cols, reinterpret_cast<const std::byte*>(weights), c + p * tokens * ldc,
                            ldc, first);
      x += kQuantSub * tokens;
      first = false;
    });
  }

  template <int tokens, int tiles>
  static void run(const std::uint32_t* panel, std::int64_t cols, const TileLines& lines, float* c, std::int64_t ldc) {
    static_assert(tiles == 1);
    if constexpr (tokens == 1) return run_one(reinterpret_cast<const float*>(panel), cols, lines, c);
    run_decoded<tokens>(panel, 1, cols, lines, c, ldc);
  }

  static void run_panels(const std::uint32_t* panels, std::int64_t count, std::int64_t, std::int64_t cols,
                         const TileLines& lines, float* c, std::int64_t ldc) {
    run_decoded<kPanelTokens>(panels, count, cols, lines, c, ldc);
  }
};

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
