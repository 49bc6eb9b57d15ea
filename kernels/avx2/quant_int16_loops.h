// The inner loops of projections with quantised weights by products of 16-bit integers: the integers of weights, which
// are exact, with activations that were rounded to 16 bits (tiled/int16_values.h, which defines the results). One
// instruction multiplies 16 of them and adds each two products, where one of f32 multiplies 8 values that must be
// converted before.
//
// Integers are decoded to pairs of neighbours in k, lanes being rows, so that both are multiplied with one dword of
// activations. But for those of q8_0, which are signed, they are decoded as numbers from zero on. What an encoding
// takes off all of them (8 from those of q4_0) is taken off the sum, where one token is multiplied while weights are
// decoded, as that many times the sum of the activations, and from the pairs, where more tokens are multiplied with a
// sub-block of 32 columns that was decoded into memory. Integers being exact, both are the same.
#pragma once

#include "highway/quant_stream.h"
#include "tiled/gemm.h"
#include "tiled/int16_values.h"

namespace qinfer::kernels::avx2 {
namespace {

using Ints = hn::Vec<IntTag>;
using ShortTag = hn::Repartition<std::int16_t, IntTag>;
using ByteTag = hn::Repartition<std::uint8_t, IntTag>;

/// Adds products of pairs to `sum`, in its register. Left to itself GCC 12 writes sums of integers into other registers
/// than those that they were in, runs out of them, and keeps some sums of a loop in memory: at two thirds of the speed.
/// Where a loop is unrolled completely it makes all products first, keeps them in memory, and adds them up as a tree.
inline void add_pairs(Ints& sum, Ints a, Ints b) {
  asm("vpaddd %1, %0, %0" : "+x"(sum.raw) : "x"(multiply_pairs(a, b).raw));
}

/// By what decoded integers are larger than those that the encoding stands for; 0 where they are the same.
constexpr int offset_of_integers(Meaning meaning) {
  return meaning == Meaning::iq4 ? 127 : meaning == Meaning::fp4 ? 12 : static_cast<int>(offset_of(meaning));
}

/// The registers of the rows of a tile.
inline constexpr std::size_t kStrips = static_cast<std::size_t>(kTileRows) / kPartLanes;
/// Pairs of a sub-block.
inline constexpr int kSubPairs = static_cast<int>(kQuantSub) / 2;

/// A sub-block of a tile as pairs, and what its runs have in common.
template <int runs>
struct DecodedSub {
  alignas(64) std::int32_t pairs[kSubPairs][kTileRows];
  alignas(64) float scales[runs][kTileRows];
  alignas(64) float minima[kTileRows];
};

/// What a sub-block is multiplied with: the activations of the `ld` tokens of a panel, and their totals.
template <int ld>
struct Int16Columns {
  const std::uint32_t* x;       ///< [16 pairs][ld]
  const std::uint32_t* extras;  ///< [4][ld]
  float* totals;                ///< [ld][ldc], 32 of each
  std::int64_t ldc;

  std::int32_t sum(int half, int m) const { return static_cast<std::int32_t>(extras[half * ld + m]); }
  std::int32_t sum(int m) const { return sum(0, m) + sum(1, m); }
  float scale(int m) const { return std::bit_cast<float>(extras[2 * ld + m]); }
  float scaled_sum(int m) const { return std::bit_cast<float>(extras[3 * ld + m]); }
  void next() { x += kSubPairs * ld, extras += Int16Values::kExtras * ld; }
};

/// Adds products to the totals of tokens [first, first + tokens) of the `ld` tokens of a panel, for the rows of
/// `strips` registers, from row `row` of the tile on.
template <int ld, int first, int tokens, int strips, int runs, bool minima>
inline void add_strips(Int16Columns<ld> columns, const DecodedSub<runs>& sub, int row) {
  static_assert(!minima || runs == 1, "minima are of whole sub-blocks");
  constexpr int kPairs = kSubPairs / runs, kLanes = static_cast<int>(kPartLanes);
#pragma GCC unroll 2
  for (int run = 0; run < runs; ++run) {
    Ints sums[tokens][strips];
#pragma GCC unroll 6
    for (int m = 0; m < tokens; ++m)
#pragma GCC unroll 4
      for (int s = 0; s < strips; ++s) sums[m][s] = hn::Zero(IntTag());
    const std::uint32_t* x = columns.x + run * kPairs * ld + first;
    const std::int32_t* w = &sub.pairs[run * kPairs][row];
#pragma GCC unroll 1
    for (int j = 0; j < kPairs; ++j, x += ld, w += kTileRows) {
      Ints pairs[strips];
#pragma GCC unroll 4
      for (int s = 0; s < strips; ++s) pairs[s] = hn::Load(IntTag(), w + s * kLanes);
#pragma GCC unroll 6
      for (int m = 0; m < tokens; ++m) {
        const Ints value = hn::Set(IntTag(), static_cast<std::int32_t>(x[m]));
#pragma GCC unroll 4
        for (int s = 0; s < strips; ++s) add_pairs(sums[m][s], pairs[s], value);
      }
    }
#pragma GCC unroll 6
    for (int m = 0; m < tokens; ++m) {
      const auto scale = hn::Set(FloatTag(), columns.scale(first + m));
      const auto all = hn::Set(FloatTag(), columns.scaled_sum(first + m));
#pragma GCC unroll 4
      for (int s = 0; s < strips; ++s) {
        const int at = row + s * kLanes;
        const auto t = hn::Mul(hn::ConvertTo(FloatTag(), sums[m][s]), scale);
        float* at_total = columns.totals + (first + m) * columns.ldc + at;
        auto total = hn::MulAdd(t, hn::Load(FloatTag(), &sub.scales[run][at]), hn::LoadU(FloatTag(), at_total));
        if constexpr (minima) total = hn::NegMulAdd(hn::Load(FloatTag(), &sub.minima[at]), all, total);
        hn::StoreU(total, FloatTag(), at_total);
      }
    }
  }
}

/// At most kSumTokens tokens.
template <int ld, int first, int tokens, int runs, bool minima>
inline void add_tokens(Int16Columns<ld> columns, const DecodedSub<runs>& sub) {
  constexpr int kWide = static_cast<int>(kStrips), kNarrow = static_cast<int>(kParts);
  if constexpr (2 * tokens <= kSumTokens) return add_strips<ld, first, tokens, kWide, runs, minima>(columns, sub, 0);
  add_strips<ld, first, tokens, kNarrow, runs, minima>(columns, sub, 0);
  add_strips<ld, first, tokens, kNarrow, runs, minima>(columns, sub, kTileRows / 2);
}

/// One function for all encodings with so many runs, and minima or not. What it takes is passed in registers: as a
/// struct it would be read from memory in larger pieces than it was just written in, which took longer than to decode a
/// sub-block.
template <int ld, int runs, bool minima>
[[gnu::noinline, gnu::flatten]] void add_decoded(const std::uint32_t* x, const std::uint32_t* extras, float* totals,
                                                 std::int64_t ldc, const DecodedSub<runs>& sub) {
  const Int16Columns<ld> columns{x, extras, totals, ldc};
  constexpr int kFirst = ld <= kSumTokens ? ld : (ld + 1) / 2;
  add_tokens<ld, 0, kFirst, runs, minima>(columns, sub);
  if constexpr (kFirst < ld) add_tokens<ld, kFirst, ld - kFirst, runs, minima>(columns, sub);
}

template <Encoding encoding>
struct QuantInt16Sums : QuantTraits<encoding> {
  using Traits = QuantTraits<encoding>;
  using Traits::kLayout, Traits::kIntegers, Traits::kScales, Traits::kMeaning, Traits::kRuns, Traits::kPlane;
  static constexpr int kOffset = offset_of_integers(kMeaning);
  static constexpr int kGroups = 4;  ///< of eight columns, in a sub-block

  static constexpr int tiles_for(int) { return 1; }

  /// Eight integers of each row of a strip, in halves of dwords: value 2p in the lower one, 2p + 1 in the upper one.
  struct Group {
    Ints even, odd;  ///< bytes; of nibbles that are no places in a table even alone, the dwords as they are

    template <int p>
    Ints pair() const {
      using WordsTag = hn::Repartition<std::uint16_t, IntTag>;
      if constexpr (kIntegers == TileIntegers::nibbles && !is_table(kMeaning)) {
        const auto shifted = hn::ShiftRight<4 * p>(hn::BitCast(WordsTag(), even));
        return p == 3 ? hn::BitCast(IntTag(), shifted)
                      : hn::And(hn::BitCast(IntTag(), shifted), hn::Set(IntTag(), 0x000f000f));
      }
      const Ints bytes = p % 2 == 0 ? even : odd;
      if constexpr (p < 2) return hn::And(bytes, hn::Set(IntTag(), 0x00ff00ff));
      return hn::BitCast(IntTag(), hn::ShiftRight<8>(hn::BitCast(WordsTag(), bytes)));
    }
  };

  static inline Ints in_table(Ints bytes) {
    alignas(16) static constexpr std::array<std::uint8_t, 16> kTable = [] {
      std::array<std::uint8_t, 16> table{};
      for (std::size_t i = 0; i < 16; ++i)
        table[i] = static_cast<std::uint8_t>(static_cast<int>(table_of(kMeaning)[i]) + kOffset);
      return table;
    }();
    const auto table = hn::LoadDup128(ByteTag(), kTable.data());
    return hn::BitCast(IntTag(), hn::TableLookupBytes(table, hn::BitCast(ByteTag(), bytes)));
  }

  static inline Ints dwords_at(const std::byte* at) {
    return hn::LoadU(IntTag(), reinterpret_cast<const std::int32_t*>(at));
  }

  template <int g>
  static inline Group group_at(const std::byte* integers, std::size_t strip) {
    const std::int64_t place = static_cast<std::int64_t>(strip * kPartLanes) * 4;
    const Ints nibbles = dwords_at(integers + nibbles_at(kIntegers, g) + place);
    if constexpr (kIntegers == TileIntegers::nibbles && !is_table(kMeaning)) return {nibbles, nibbles};
    const Ints low = hn::Set(IntTag(), 0x0f0f0f0f);
    const Ints even = hn::And(nibbles, low), odd = hn::And(hn::ShiftRight<4>(nibbles), low);
    if constexpr (is_table(kMeaning)) return {in_table(even), in_table(odd)};
    if constexpr (kPlane) {
      const Ints plane =
          hn::ShiftRight<plane_shift(kIntegers, g)>(dwords_at(integers + plane_at(kIntegers, g) + place));
      const Ints high = hn::Set(IntTag(), plane_bytes(kIntegers));
      return {hn::Or(even, hn::And(hn::ShiftLeft<4>(plane), high)), hn::Or(odd, hn::And(plane, high))};
    }
    return {even, odd};
  }

  /// Calls use(pair of the group, strip, integers) for group g of a sub-block, whose integers begin at `integers`.
  template <int g, typename Use>
  static inline void each_pair(const std::byte* integers, Use use) {
    if constexpr (kIntegers == TileIntegers::bytes) {
      using RowsTag = hn::FixedTag<std::int8_t, 16>;
      const auto* at = reinterpret_cast<const std::int8_t*>(integers) + 8 * g * kTileRows;
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p, at += 2 * kTileRows)
#pragma GCC unroll 2
        for (std::size_t half = 0; half < 2; ++half) {
          const auto first = hn::LoadU(RowsTag(), at + 16 * half);
          const auto second = hn::LoadU(RowsTag(), at + kTileRows + 16 * half);
          const auto low = hn::PromoteTo(ShortTag(), hn::InterleaveLower(RowsTag(), first, second));
          const auto high = hn::PromoteTo(ShortTag(), hn::InterleaveUpper(RowsTag(), first, second));
          use(p, 2 * half, hn::BitCast(IntTag(), low));
          use(p, 2 * half + 1, hn::BitCast(IntTag(), high));
        }
    } else {
#pragma GCC unroll 4
      for (std::size_t s = 0; s < kStrips; ++s) {
        const Group group = group_at<g>(integers, s);
        use(0, s, group.template pair<0>());
        use(1, s, group.template pair<1>());
        use(2, s, group.template pair<2>());
        use(3, s, group.template pair<3>());
      }
    }
  }

  // ---- one token ----

  /// Group g and those after it.
  template <int g>
  static inline void add_groups(const std::byte* block, const std::byte* sub, Int16Columns<1> columns,
                                Ints (&sums)[kStrips], hn::Vec<FloatTag> (&totals)[kStrips]) {
    constexpr int kRunGroups = kGroups / kRuns;
    if constexpr (g % kRunGroups == 0)
#pragma GCC unroll 4
      for (std::size_t s = 0; s < kStrips; ++s) sums[s] = hn::Zero(IntTag());
    Ints values[4];
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) values[p] = hn::Set(IntTag(), static_cast<std::int32_t>(columns.x[4 * g + p]));
    each_pair<g>(sub + kLayout.sub_scales,
                 [&](int p, std::size_t s, Ints pairs) { add_pairs(sums[s], pairs, values[p]); });
    if constexpr (g % kRunGroups == kRunGroups - 1) add_run<g / kRunGroups>(block, sub, columns, sums, totals);
    if constexpr (g + 1 < kGroups) add_groups<g + 1>(block, sub, columns, sums, totals);
  }

  template <int run>
  static inline void add_run(const std::byte* block, const std::byte* sub, Int16Columns<1> columns,
                             const Ints (&sums)[kStrips], hn::Vec<FloatTag> (&totals)[kStrips]) {
    const Ints offset = hn::Set(IntTag(), kOffset * (kRuns == 1 ? columns.sum(0) : columns.sum(run, 0)));
    const auto activations = hn::Set(FloatTag(), columns.scaled_sum(0)), scale = hn::Set(FloatTag(), columns.scale(0));
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const RunScales of_half = scales_at<kScales>(block, sub, run, half);
#pragma GCC unroll 4
      for (std::size_t p = 0; p < kParts; ++p) {
        const std::size_t s = static_cast<std::size_t>(half) * kParts + p;
        const Ints sum = kOffset == 0 ? sums[s] : hn::Sub(sums[s], offset);
        totals[s] = hn::MulAdd(hn::Mul(hn::ConvertTo(FloatTag(), sum), scale), of_half.scale.part[p], totals[s]);
        if constexpr (has_minima(kScales)) totals[s] = hn::NegMulAdd(of_half.minimum.part[p], activations, totals[s]);
      }
    }
  }

  [[gnu::flatten]] static void run_one(const std::uint32_t* x, std::int64_t cols, const TileLines& lines, float* c) {
    Int16Columns<1> columns{x, x + cols, nullptr, 0};  // totals are in registers
    hn::Vec<FloatTag> totals[kStrips];
    for (std::size_t s = 0; s < kStrips; ++s) totals[s] = hn::Zero(FloatTag());
    for_subs<encoding>(lines, cols * Int16Values::kPerDword, [&](const std::byte* block, const std::byte* sub) {
      Ints sums[kStrips];
      add_groups<0>(block, sub, columns, sums, totals);
      columns.next();
    });
    for (std::size_t s = 0; s < kStrips; ++s) hn::StoreU(totals[s], FloatTag(), c + s * kPartLanes);
  }

  // ---- more tokens ----

  template <int g>
  static inline void decode_groups(const std::byte* integers, DecodedSub<kRuns>& out) {
    each_pair<g>(integers, [&](int p, std::size_t s, Ints pairs) {
      if constexpr (kOffset != 0)
        pairs = hn::BitCast(
            IntTag(), hn::Sub(hn::BitCast(ShortTag(), pairs), hn::Set(ShortTag(), static_cast<std::int16_t>(kOffset))));
      hn::Store(pairs, IntTag(), &out.pairs[4 * g + p][s * kPartLanes]);
    });
    if constexpr (g + 1 < kGroups) decode_groups<g + 1>(integers, out);
  }

  [[gnu::noinline, gnu::flatten]] static void decode(const std::byte* block, const std::byte* sub,
                                                     DecodedSub<kRuns>& out) {
    decode_groups<0>(sub + kLayout.sub_scales, out);
    for (int run = 0; run < kRuns; ++run)
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const RunScales scales = scales_at<kScales>(block, sub, run, half);
        store(&out.scales[run][16 * half], scales.scale);
        if constexpr (has_minima(kScales)) store(&out.minima[16 * half], scales.minimum);
      }
  }

  /// `count` panels of `tokens`, which follow each other: each sub-block is decoded once for all.
  template <int tokens>
  static inline void run_decoded(const std::uint32_t* panels, std::int64_t count, std::int64_t cols,
                                 const TileLines& lines, float* c, std::int64_t ldc) {
    for (std::int64_t m = 0; m < count * tokens; ++m)
      for (int i = 0; i < kTileRows; i += 16) store(c + m * ldc + i, zeros());
    DecodedSub<kRuns> decoded;
    const std::int64_t stride = Int16Values::stride(cols) * tokens;
    const std::uint32_t *x = panels, *extras = panels + cols * tokens;
    for_subs<encoding>(lines, cols * Int16Values::kPerDword, [&](const std::byte* block, const std::byte* sub) {
      decode(block, sub, decoded);
      for (std::int64_t p = 0; p < count; ++p)
        add_decoded<tokens, kRuns, has_minima(kScales)>(x + p * stride, extras + p * stride, c + p * tokens * ldc, ldc,
                                                        decoded);
      x += kSubPairs * tokens, extras += Int16Values::kExtras * tokens;
    });
  }

  template <int tokens, int tiles>
  static void run(const std::uint32_t* panel, std::int64_t cols, const TileLines& lines, float* c, std::int64_t ldc) {
    static_assert(tiles == 1);
    if constexpr (tokens == 1) return run_one(panel, cols, lines, c);
    run_decoded<tokens>(panel, 1, cols, lines, c, ldc);
  }

  static void run_panels(const std::uint32_t* panels, std::int64_t count, std::int64_t, std::int64_t cols,
                         const TileLines& lines, float* c, std::int64_t ldc) {
    run_decoded<kPanelTokens>(panels, count, cols, lines, c, ldc);
  }
};

}  // namespace
}  // namespace qinfer::kernels::avx2
