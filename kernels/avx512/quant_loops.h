// The inner loops of projections with quantised weights and sums in f32: weights are decoded in registers, where each
// is the f32 value that its encoding defines, bit for bit, and added up as in F32Sums, sequentially over k. So the
// results are those of the same matrix held as tiles of f32.
//
// A weight is one multiplication or, with a minimum, one fused multiply-add of an integer as f32: the product of scale
// and integer has at most 22 bits and is exact, so that fusing rounds no differently. Integers of up to five bits are
// looked up, with their offset taken off; those of six become f32 in place: with the exponent's bits above them they
// are 2^23 + q (at bit 0) or 2^7 + q (at bit 16).
//
// One token is bound by the two multiplications and the lookup of a weight (Zen 4: 4.9 to 6.6 cycles for 32 weights,
// 4 being the least for the multiplications). Streaming from memory one thread reaches nearly what it does out of the
// L2, for any distance of prefetching between 2 and 32 KiB, if it fetches few lines at a time.
#pragma once

#include "avx512/quant_fields.h"
#include "tiled/gemm.h"

namespace qinfer::kernels::avx512 {
namespace {

/// The integer at bit 0 (place 0) or bit 16 (place 1) of every dword as f32, less the offset, or what the table says.
template <TileIntegers integers, Meaning meaning, int place>
inline __m512 integer_as_f32(__m512i field) {
  if constexpr (integers == TileIntegers::six_bits) {
    constexpr int kMask = 63 << (place == 0 ? 0 : 16);
    constexpr int kExponent = place == 0 ? 0x4b000000 : 0x43000000;
    constexpr float kBase = (place == 0 ? 0x1p23f : 0x1p7f) + offset_of(meaning);
    const __m512i bits =  // (field & mask) | exponent
        _mm512_ternarylogic_epi32(field, _mm512_set1_epi32(kMask), _mm512_set1_epi32(kExponent), 0xea);
    return _mm512_sub_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(kBase));
  } else {
    alignas(64) static constexpr std::array<float, 32> kTable = table_of(meaning);
    const __m512i index = place == 0 ? field : _mm512_srli_epi32(field, 16);
    const __m512 first = _mm512_load_ps(kTable.data());
    if constexpr (integers == TileIntegers::nibbles) return _mm512_permutexvar_ps(index, first);
    return _mm512_permutex2var_ps(first, index, _mm512_load_ps(kTable.data() + 16));
  }
}

template <TileScales scales>
inline __m512 weight_of(const RunScales& run, __m512 integer) {
  if constexpr (has_minima(scales)) return _mm512_fmsub_ps(integer, run.scale, run.minimum);
  return _mm512_mul_ps(integer, run.scale);
}

template <Encoding encoding>
struct QuantSums : QuantTraits<encoding> {
  using Traits = QuantTraits<encoding>;
  using Traits::kLayout, Traits::kIntegers, Traits::kScales, Traits::kMeaning;

  /// Tiles at a time. Two where tokens are few, in turns, so that additions need not wait for each other.
  static constexpr int tiles_for(int tokens) { return tokens <= kTurns ? 2 : 1; }
  static constexpr int kTurns = 2;
  static constexpr std::int64_t tile_bytes(std::int64_t cols) { return cols / kLayout.block_cols * kLayout.block; }

  /// Of 16 rows each: [tile][half of its rows].
  template <int tokens, int tiles>
  struct State {
    __m512 sums[tiles][2][tokens] = {};
    RunScales run[tiles][2];
    const std::byte* ahead[tiles];  ///< what to fetch next

    /// Eight columns' share of a sub-block's lines: the L1 can wait for few lines at a time.
    void fetch() {
      constexpr std::int64_t kBytes = (kLayout.sub / 4 + 63) / 64 * 64;
#pragma GCC unroll 2
      for (int t = 0; t < tiles; ++t, ahead[t - 1] += kLayout.sub / 4)
#pragma GCC unroll 5
        for (std::int64_t line = 0; line < kBytes; line += 64) prefetch_line(ahead[t] + line);
    }
  };

  template <int tokens>
  static inline void add(const float* x, __m512 weight, __m512 (&sums)[tokens]) {
#pragma GCC unroll 12
    for (int m = 0; m < tokens; ++m) sums[m] = _mm512_fmadd_ps(weight, _mm512_set1_ps(x[m]), sums[m]);
  }

  template <int tokens, int tiles>
  static inline void add_bytes(const std::byte* const (&at)[tiles], const float* x, State<tokens, tiles>& state) {
#pragma GCC unroll 8
    for (std::int64_t k = 0; k < kQuantSub; ++k) {
      if (k % 8 == 0) state.fetch();
#pragma GCC unroll 2
      for (int t = 0; t < tiles; ++t)
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half) {
          const __m512 integer = _mm512_cvtepi32_ps(load_i8(at[t] + k * kTileRows + 16 * half));
          add<tokens>(x + k * tokens, weight_of<kScales>(state.run[t][half], integer), state.sums[t][half]);
        }
    }
  }

  /// Values 2p and 2p + 1 of a group.
  template <int tokens>
  static inline void add_pair(__m512i field, const RunScales& run, const float* x, __m512 (&sums)[tokens]) {
    add<tokens>(x, weight_of<kScales>(run, integer_as_f32<kIntegers, kMeaning, 0>(field)), sums);
    add<tokens>(x + tokens, weight_of<kScales>(run, integer_as_f32<kIntegers, kMeaning, 1>(field)), sums);
  }

  /// One group of eight values. `at`: its nibbles.
  template <int tokens, int tiles>
  static inline void add_group(const std::byte* const (&at)[tiles], const __m512i (&plane)[tiles][2], const float* x,
                               State<tokens, tiles>& state) {
    state.fetch();
    if constexpr (tokens <= kTurns) {
      Fields fields[tiles][2];
#pragma GCC unroll 2
      for (int t = 0; t < tiles; ++t)
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half)
          fields[t][half] = fields_of<kIntegers>(dwords_at(at[t] + 64 * half), plane[t][half]);
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p)
#pragma GCC unroll 2
        for (int t = 0; t < tiles; ++t)
#pragma GCC unroll 2
          for (int half = 0; half < 2; ++half)
            add_pair<tokens>(fields[t][half].at(p), state.run[t][half], x + 2 * p * tokens, state.sums[t][half]);
    } else {
      static_assert(tiles == 1);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const Fields fields = fields_of<kIntegers>(dwords_at(at[0] + 64 * half), plane[0][half]);
#pragma GCC unroll 4
        for (int p = 0; p < 4; ++p)
          add_pair<tokens>(fields.at(p), state.run[0][half], x + 2 * p * tokens, state.sums[0][half]);
        asm("" : "+r"(x));  // otherwise the compiler keeps the broadcasts of one half for the other, on the stack
      }
    }
  }

  /// Groups that share scales: a plane, where there is one, and the nibbles after it.
  template <int tokens, int tiles>
  static inline void add_groups(const std::byte* (&at)[tiles], const float* x, State<tokens, tiles>& state) {
    constexpr bool kPlane = kIntegers != TileIntegers::nibbles;
    constexpr int kGroups = 4 / runs_of(kScales), kStep = plane_shift(kIntegers, 1);
    __m512i plane[tiles][2] = {};
    if constexpr (kPlane)
      for (int t = 0; t < tiles; ++t, at[t - 1] += 128)
        plane[t][0] = dwords_at(at[t]), plane[t][1] = dwords_at(at[t] + 64);
    for (int g = 0; g < kGroups; ++g, x += 8 * tokens) {
      add_group<tokens, tiles>(at, plane, x, state);
      for (int t = 0; t < tiles; ++t) {
        at[t] += 128;
        if constexpr (kPlane)
          plane[t][0] = _mm512_srli_epi32(plane[t][0], kStep), plane[t][1] = _mm512_srli_epi32(plane[t][1], kStep);
      }
    }
  }

  /// One sub-block of the tiles, `at` bytes after their beginnings, in the block that is `block` bytes after them.
  template <int tokens, int tiles>
  static inline void add_sub(const TileLines& lines, std::int64_t block, std::int64_t at, const float* x,
                             State<tokens, tiles>& state) {
    constexpr int kRuns = runs_of(kScales);
    const std::byte* integers[tiles];
    for (int t = 0; t < tiles; ++t) integers[t] = lines.tiles[t] + at + kLayout.sub_scales;
    for (int i = 0; i < kRuns; ++i, x += kQuantSub / kRuns * tokens) {
#pragma GCC unroll 2
      for (int t = 0; t < tiles; ++t)
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half)
          state.run[t][half] = scales_at<kScales>(lines.tiles[t] + block, lines.tiles[t] + at, i, half);
      if constexpr (kIntegers == TileIntegers::bytes) {
        add_bytes<tokens, tiles>(integers, x, state);
      } else {
        add_groups<tokens, tiles>(integers, x, state);
      }
    }
  }

  /// Bytes to prefetch ahead, of all tiles together.
  static constexpr std::int64_t kAheadBytes = 8192;

  template <int tokens, int tiles>
  static void run(const std::uint32_t* panel, std::int64_t cols, const TileLines& lines, float* c, std::int64_t ldc) {
    const float* x = reinterpret_cast<const float*>(panel);
    const std::int64_t bytes = tile_bytes(cols);
    State<tokens, tiles> state;
    for (std::int64_t begin = 0; begin < bytes; begin += kLayout.block)
      for (std::int64_t at = begin + kLayout.header; at < begin + kLayout.block;
           at += kLayout.sub, x += kQuantSub * tokens) {
        const std::int64_t ahead = at + kAheadBytes / tiles, beyond = ahead - bytes;
        for (int t = 0; t < tiles; ++t) state.ahead[t] = beyond < 0 ? lines.tiles[t] + ahead : lines.next[t] + beyond;
        add_sub<tokens, tiles>(lines, begin, at, x, state);
      }
    for (int m = 0; m < tokens; ++m)
      for (int t = 0; t < tiles; ++t)
        for (int half = 0; half < 2; ++half) _mm512_storeu_ps(c + m * ldc + 32 * t + 16 * half, state.sums[t][half][m]);
  }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
