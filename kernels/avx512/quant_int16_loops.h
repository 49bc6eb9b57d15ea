// The inner loops of projections with quantised weights by products of 16-bit integers: the integers of weights, which
// are exact, with activations that were rounded to 16 bits (tiled/int16_values.h, which defines the results). VPDPWSSD
// of AVX512-VNNI multiplies 32 of them and adds them up.
#pragma once

#include "avx512/quant_int16_tiles.h"
#include "avx512/quant_pair_sums.h"
#include "tiled/int16_values.h"

namespace qinfer::kernels::avx512 {
namespace {

struct Int16Integers {
  /// What every integer of up to five bits stands for.
  template <TileIntegers integers, Meaning meaning>
  static constexpr std::array<std::int16_t, 32> table() {
    std::array<std::int16_t, 32> out{};
    for (std::size_t i = 0; i < 32; ++i)
      out[i] = static_cast<std::int16_t>(table_of(meaning)[integers == TileIntegers::nibbles ? i % 16 : i]);
    return out;
  }

  template <TileIntegers integers, Meaning meaning>
  static inline __m512i of_field(__m512i field) {
    if constexpr (integers == TileIntegers::six_bits) {
      const __m512i q = _mm512_and_si512(field, _mm512_set1_epi16(63));
      return _mm512_sub_epi16(q, _mm512_set1_epi16(static_cast<std::int16_t>(offset_of(meaning))));
    } else {
      alignas(64) static constexpr std::array<std::int16_t, 32> kTable = table<integers, meaning>();
      return _mm512_permutexvar_epi16(field, _mm512_load_si512(kTable.data()));
    }
  }

  /// Signed bytes of a column and of the next one, 16 rows each.
  static inline __m512i of_bytes(const std::byte* at) {
    const __m512i second = _mm512_slli_epi32(load_i8(at + kTileRows), 16);
    return _mm512_mask_blend_epi16(0xaaaaaaaa, load_i8(at), second);
  }
};

struct Int16PairProducts {
  using Integers = Int16Integers;
  using Sum = __m512i;
  static constexpr std::int64_t kExtras = Int16Values::kExtras;
  /// One token is bound by memory, which gives several tiles side by side faster than one (Granite Rapids, two threads:
  /// 26 GB/s from four, 25 from two, 16 from eight, which do not fit into the registers).
  static constexpr int tiles_for(int tokens) { return tokens == 1 ? 4 : tokens <= 6 ? 2 : 1; }
  static inline Sum zero() { return _mm512_setzero_si512(); }
  static inline Sum add(Sum sum, __m512i pairs, __m512i activations) {
    return _mm512_dpwssd_epi32(sum, pairs, activations);
  }

  template <int tokens>
  struct Extras {
    const std::uint32_t* at;
    __m512 value(Sum sum, int m) const {
      return _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(std::bit_cast<float>(at[2 * tokens + m])));
    }
    float sum(int m) const { return std::bit_cast<float>(at[3 * tokens + m]); }
  };
};

/// And for panels in tiles those of AMX.
template <Encoding encoding>
struct QuantInt16Sums : QuantPairSums<encoding, Int16PairProducts> {
#ifdef QINFER_HAVE_AMX
  static void run_panels(const std::uint32_t* panels, std::int64_t count, std::int64_t tokens, std::int64_t cols,
                         const TileLines& lines, float* c, std::int64_t ldc) {
    QuantInt16Tiles<encoding>::run(panels, count, tokens, cols, lines, c, ldc);
  }
#endif
};

}  // namespace
}  // namespace qinfer::kernels::avx512
