// See quant_squares.h.
//
// A nibble has 16 values, and those of a row share a scale: so what they become is a table of 16 bf16 numbers, made by
// one multiplication, and VPERMW looks up a whole line of 32. Two rows share a register of 32 entries. Integers of five
// bits take it whole, and so do nibbles whose scales are of 16 columns, the upper half of the table being that of the
// upper columns. Of longer integers the bits are put into the mantissa of a power of two; the multiply-add that scales
// them takes it off again, exactly.
#include "amx/quant_squares.h"

#include "amx/panels.h"
#include "tiled/quant_scales.h"

namespace qinfer::kernels::amx {
namespace {

using avx512::Meaning;

alignas(64) constexpr std::uint16_t kUpperColumns[32] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16};
/// Words that go to the high halves of dwords, for the lower and the upper 16 columns.
alignas(64) constexpr std::uint16_t kToDwords[2][32] = {
    {0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15},
    {0, 16, 0, 17, 0, 18, 0, 19, 0, 20, 0, 21, 0, 22, 0, 23, 0, 24, 0, 25, 0, 26, 0, 27, 0, 28, 0, 29, 0, 30, 0, 31}};

template <Encoding encoding>
class Decoder {
 public:
  static constexpr QuantLayout kLayout = quant_layout(encoding);

  static void four(const std::byte* block, const std::byte* sub, std::int64_t group, RowScales& scales,
                   std::byte* out) {
    if (group % 4 == 0) read_scales(block, sub, group / 4, scales);
    decode(sub + kLayout.sub_scales, group, scales, out);
  }

  static void half(const std::byte* block, const std::byte* sub, std::int64_t half, std::byte* out) {
    RowScales scales;
    read_scales(block, sub, half, scales);
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < 4; ++i) decode(sub + kLayout.sub_scales, 4 * half + i, scales, out + i * 4 * kLine);
  }

 private:
  static constexpr TileIntegers kIntegers = kLayout.integers;
  static constexpr TileScales kScales = kLayout.scales;
  static constexpr Meaning kMeaning = avx512::meaning_of(encoding);
  static constexpr std::int64_t kLine = 64;

  /// The power of two whose mantissa takes an integer, and what the integer's zero is in it.
  static constexpr float kBase = kIntegers == TileIntegers::bytes ? 0x1p15f : 0x1p6f;
  static constexpr float kZero = kBase + (kIntegers == TileIntegers::bytes ? 128.0f : avx512::offset_of(kMeaning));

  [[gnu::always_inline]] static void read_scales(const std::byte* block, const std::byte* sub, std::int64_t half,
                                                 RowScales& scales) {
    for (int run = 0; run < avx512::runs_of(kScales); ++run) {
      const avx512::RunScales of = avx512::scales_at<kScales>(block, sub, run, static_cast<int>(half));
      _mm512_store_ps(scales.scale[run], of.scale);
      if constexpr (kIntegers == TileIntegers::bytes || kIntegers == TileIntegers::six_bits) {
        _mm512_store_ps(scales.added[run], _mm512_mul_ps(of.scale, _mm512_set1_ps(-kZero)));
      } else if constexpr (avx512::has_minima(kScales)) {
        _mm512_store_ps(scales.added[run], _mm512_sub_ps(_mm512_setzero_ps(), of.minimum));
      }
    }
  }

  /// Numbers of a row, scaled.
  [[gnu::always_inline]] static __m512 scaled(__m512 numbers, const RowScales& scales, int run, std::int64_t row) {
    const __m512 scale = _mm512_set1_ps(scales.scale[run][row]);
    constexpr bool kAdds = kIntegers == TileIntegers::bytes || kIntegers == TileIntegers::six_bits;
    if constexpr (kAdds || avx512::has_minima(kScales))
      return _mm512_fmadd_ps(numbers, scale, _mm512_set1_ps(scales.added[run][row]));
    return _mm512_mul_ps(numbers, scale);
  }

  /// What 16 integers from `first` on stand for.
  template <int first>
  [[gnu::always_inline]] static __m512 numbers_from() {
    alignas(64) static constexpr std::array<float, 32> kNumbers = avx512::table_of(kMeaning);
    return _mm512_load_ps(kNumbers.data() + first);
  }

  [[gnu::always_inline]] static void store(std::byte* out, std::int64_t row, __m512i line) {
    _mm512_store_si512(out + row * kLine, line);
  }

  /// Words whose bits go `by` places down, or up if that is negative.
  template <int by>
  [[gnu::always_inline]] static __m512i moved(__m512i words) {
    constexpr auto kPlaces = static_cast<unsigned>(by < 0 ? -by : by);
    return by < 0 ? _mm512_slli_epi16(words, kPlaces) : _mm512_srli_epi16(words, kPlaces);
  }

  /// Nibbles of one scale: two rows have a table.
  template <int pair>
  [[gnu::always_inline]] static void nibble_rows(__m512i words, std::int64_t first, const RowScales& scales,
                                                 std::byte* out) {
    const __m512 numbers = numbers_from<0>();
    const __m512i fifteen = _mm512_set1_epi16(15), sixteen = _mm512_set1_epi16(16);
    const std::int64_t row = first + 2 * pair;
    const __m512i table = to_bf16_pairs(scaled(numbers, scales, 0, row), scaled(numbers, scales, 0, row + 1));
    const __m512i low = _mm512_and_si512(pair == 0 ? words : _mm512_srli_epi16(words, 8), fifteen);
    const __m512i high = _mm512_ternarylogic_epi32(moved<8 * pair + 4>(words), fifteen, sixteen, 0xea);
    store(out, 2 * pair, _mm512_permutexvar_epi16(low, table));
    store(out, 2 * pair + 1, _mm512_permutexvar_epi16(high, table));
  }

  /// A row of nibbles with two scales.
  template <int i>
  [[gnu::always_inline]] static void halved_row(__m512i words, std::int64_t row, const RowScales& scales,
                                                std::byte* out) {
    const __m512 numbers = numbers_from<0>();
    const __m512i table = to_bf16_pairs(scaled(numbers, scales, 0, row), scaled(numbers, scales, 1, row));
    const __m512i index =
        _mm512_ternarylogic_epi32(moved<4 * i>(words), _mm512_set1_epi16(15), _mm512_load_si512(kUpperColumns), 0xea);
    store(out, i, _mm512_permutexvar_epi16(index, table));
  }

  /// The words of row i of a group with the bits of its nibble at `at`, those of the plane above them; `mask` has the
  /// latter. What else the words have belongs to others.
  template <int i, int at>
  [[gnu::always_inline]] static __m512i joined(__m512i words, __m512i plane, int mask) {
    const __m512i low = moved<4 * i - at>(words), high = moved<4 * i - 4 - at>(plane);
    return _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi16(static_cast<short>(mask)), 0xd8);
  }

  /// A row of integers of five bits.
  template <int i>
  [[gnu::always_inline]] static void five_bit_row(__m512i words, __m512i plane, std::int64_t row,
                                                  const RowScales& scales, std::byte* out) {
    const __m512i table =
        to_bf16_pairs(scaled(numbers_from<0>(), scales, 0, row), scaled(numbers_from<16>(), scales, 0, row));
    store(out, i, _mm512_permutexvar_epi16(joined<i, 0>(words, plane, 0x10), table));
  }

  /// A row of integers of six bits with two scales: they are bits 17 to 22 of 64.0, that is bits 1 to 6 of its upper
  /// half.
  template <int i>
  [[gnu::always_inline]] static void six_bit_row(__m512i words, __m512i plane, std::int64_t row,
                                                 const RowScales& scales, std::byte* out) {
    const __m512i bits = joined<i, 1>(words, plane, 0x60);
    const __m512i upper = _mm512_ternarylogic_epi32(bits, _mm512_set1_epi16(0x7e), _mm512_set1_epi16(0x4280), 0xea);
    __m512 values[2];
#pragma GCC unroll 2
    for (int run = 0; run < 2; ++run) {
      const __m512i dwords = _mm512_maskz_permutexvar_epi16(0xaaaaaaaa, _mm512_load_si512(kToDwords[run]), upper);
      values[run] = scaled(_mm512_castsi512_ps(dwords), scales, run, row);
    }
    store(out, i, to_bf16_pairs(values[0], values[1]));
  }

  /// A pair of rows of bytes: each byte in turn becomes bits 8 to 15 of 2^15.
  template <int pair>
  [[gnu::always_inline]] static void byte_rows(const std::byte* at, std::int64_t first, const RowScales& scales,
                                               std::byte* out) {
    const __m512i bytes = _mm512_loadu_si512(at + pair * kLine);
    const __m512i mask = _mm512_set1_epi32(0xff00), base = _mm512_set1_epi32(0x47000000);
    const auto number = [&](__m512i moved) {
      return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(moved, mask, base, 0xea));
    };
    const __m512 numbers[2][2] = {{number(_mm512_slli_epi32(bytes, 8)), number(bytes)},
                                  {number(_mm512_srli_epi32(bytes, 8)), number(_mm512_srli_epi32(bytes, 16))}};
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r)
      store(out, 2 * pair + r,
            to_bf16_pairs(scaled(numbers[r][0], scales, 0, first + 2 * pair + r),
                          scaled(numbers[r][1], scales, 0, first + 2 * pair + r)));
  }

  /// A group of 4 rows.
  [[gnu::always_inline]] static void decode(const std::byte* integers, std::int64_t group, const RowScales& scales,
                                            std::byte* out) {
    const std::int64_t first = group % 4 * 4;
    if constexpr (kIntegers == TileIntegers::bytes) {
      byte_rows<0>(integers + group * 2 * kLine, first, scales, out);
      byte_rows<1>(integers + group * 2 * kLine, first, scales, out);
      return;
    }
    const __m512i words = _mm512_loadu_si512(integers + square_nibbles_at(kIntegers) + group * kLine);
    if constexpr (kIntegers == TileIntegers::nibbles) {
      if constexpr (avx512::runs_of(kScales) == 1) {
        nibble_rows<0>(words, first, scales, out), nibble_rows<1>(words, first, scales, out);
      } else {
        halved_row<0>(words, first, scales, out), halved_row<1>(words, first + 1, scales, out);
        halved_row<2>(words, first + 2, scales, out), halved_row<3>(words, first + 3, scales, out);
      }
      return;
    }
    const __m128i shift = _mm_cvtsi32_si128(square_plane_shift(kIntegers, group));
    const __m512i plane =
        _mm512_srl_epi16(_mm512_loadu_si512(integers + group / groups_of_plane(kIntegers) * kLine), shift);
    if constexpr (kIntegers == TileIntegers::five_bits) {
      five_bit_row<0>(words, plane, first, scales, out), five_bit_row<1>(words, plane, first + 1, scales, out);
      five_bit_row<2>(words, plane, first + 2, scales, out), five_bit_row<3>(words, plane, first + 3, scales, out);
    } else if constexpr (kIntegers == TileIntegers::six_bits) {
      six_bit_row<0>(words, plane, first, scales, out), six_bit_row<1>(words, plane, first + 1, scales, out);
      six_bit_row<2>(words, plane, first + 2, scales, out), six_bit_row<3>(words, plane, first + 3, scales, out);
    }
  }
};

template <Encoding encoding>
constexpr QuantSquares kSquares = {Decoder<encoding>::kLayout, Decoder<encoding>::four, Decoder<encoding>::half};

}  // namespace

const QuantSquares& quant_squares(Encoding encoding) {
  switch (encoding) {
    case Encoding::q8_0: return kSquares<Encoding::q8_0>;
    case Encoding::q4_1: return kSquares<Encoding::q4_1>;
    case Encoding::q5_0: return kSquares<Encoding::q5_0>;
    case Encoding::q5_1: return kSquares<Encoding::q5_1>;
    case Encoding::q3_k: return kSquares<Encoding::q3_k>;
    case Encoding::q4_k: return kSquares<Encoding::q4_k>;
    case Encoding::q5_k: return kSquares<Encoding::q5_k>;
    case Encoding::q6_k: return kSquares<Encoding::q6_k>;
    case Encoding::iq4_nl: return kSquares<Encoding::iq4_nl>;
    case Encoding::iq4_xs: return kSquares<Encoding::iq4_xs>;
    case Encoding::mxfp4: return kSquares<Encoding::mxfp4>;
    case Encoding::q4_0:
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16: break;
  }
  return kSquares<Encoding::q4_0>;
}

}  // namespace qinfer::kernels::amx
