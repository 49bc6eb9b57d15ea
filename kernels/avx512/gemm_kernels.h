// The inner loops of every projection: a panel of up to 12 tokens times a few tiles of 32 weight rows.
//
// Tiles are [K][32]: one cache line of f16 is column k of 32 rows, so outputs are lanes and an activation is broadcast.
// A panel is [K][tokens] dwords, one f32 each or the same f16 twice, so that its broadcasts have constant offsets.
// Every output is one sum with one order of additions, whatever the number of tokens and tiles at a time:
//   F32Sums  sequential over k in f32.
//   F16Sums  (AVX512-FP16) sequential in f16 over runs of 64 products cut at absolute k, the runs added in f32.
// While a tile is read, the line kAhead further on is prefetched, at the end of the tile that of the next group.
#pragma once

#include "avx512/tile_loops.h"
#include "avx512/vec.h"

namespace qinfer::kernels::avx512 {
namespace {

/// Lines to prefetch ahead, of all tiles together: the distance that read memory fastest when it was chosen.
inline constexpr std::int64_t kAhead = 128;
/// How many lines ahead of its reading a line goes from the L2 into the L1. (No measurement of other numbers is kept.)
inline constexpr std::int64_t kNear = 12;
/// Products that one f16 sum takes. Part of the results: panels.h shows that this many cannot overflow.
inline constexpr std::int64_t kRun = 64;

/// Into the L1, and into the L2.
inline void prefetch_line(const std::byte* at) { _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0); }
inline void prefetch_far(const std::byte* at) { _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1); }

/// And what to fetch meanwhile.
struct TileGroup : TileLines {
  bool only_next = false;  ///< prefetch nothing but `next`: a whole tile ahead

  /// What to prefetch for tile t at w while products begin .. begin + kRun - 1 are added up.
  template <int n_tiles, std::int64_t line>
  const std::byte* ahead(int t, const std::byte* w, std::int64_t begin, std::int64_t cols) const {
    if (only_next) return next[t] + begin * line;
    constexpr std::int64_t distance = kAhead / n_tiles * 64 / line;
    const std::int64_t beyond = begin + (distance > kRun ? distance : kRun) - cols;
    return beyond < 0 ? w + distance * line : next[t] + beyond * line;
  }
};

/// c[m * ldc + 32 * t + lane] = sum over k.
using PanelKernel = void (*)(const std::uint32_t* panel, std::int64_t cols, const TileGroup& group, float* c,
                             std::int64_t ldc);

/// 32 weights of a line as two registers in the order that costs least: for bf16 the even rows and the odd ones;
/// in_order() then puts the sums right.
template <DType type>
inline Lanes32 widen_line(const std::byte* at) {
  if constexpr (type != DType::bf16) return load32<type>(at);
  return widen_pairs(_mm512_loadu_si512(at));
}

template <DType type>
inline Lanes32 in_order(__m512 low, __m512 high) {
  if constexpr (type != DType::bf16) return {low, high};
  const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return {_mm512_permutex2var_ps(low, first, high),
          _mm512_permutex2var_ps(low, _mm512_add_epi32(first, _mm512_set1_epi32(8)), high)};
}

template <DType weights>
struct F32Sums {
  static constexpr std::int64_t kLine = kTileRows * static_cast<std::int64_t>(dtype_bytes(weights));
  static constexpr std::int64_t tile_bytes(std::int64_t cols) { return cols * kLine; }

  /// Tiles at a time: 24 sums in registers at most, two for each token and tile.
  static constexpr int tiles_for(int tokens) { return tokens == 1 ? 8 : tokens <= 3 ? 4 : tokens <= 6 ? 2 : 1; }

  template <int tokens, int tiles>
  static inline void step(const float* x, const std::byte* const (&w)[tiles], __m512 (&sums)[tokens][tiles][2]) {
    Lanes32 line[tiles];
#pragma GCC unroll 8
    for (int t = 0; t < tiles; ++t) line[t] = widen_line<weights>(w[t]);
#pragma GCC unroll 12
    for (int m = 0; m < tokens; ++m) {
      const __m512 value = _mm512_set1_ps(x[m]);
#pragma GCC unroll 8
      for (int t = 0; t < tiles; ++t) {
        sums[m][t][0] = _mm512_fmadd_ps(line[t].low, value, sums[m][t][0]);
        sums[m][t][1] = _mm512_fmadd_ps(line[t].high, value, sums[m][t][1]);
      }
    }
  }

  template <int tokens, int tiles>
  static void run(const std::uint32_t* panel, std::int64_t cols, const TileGroup& group, float* c, std::int64_t ldc) {
    const float* x = reinterpret_cast<const float*>(panel);
    __m512 sums[tokens][tiles][2] = {};
    const std::byte* w[tiles];
    for (int t = 0; t < tiles; ++t) w[t] = group.tiles[t];
    for (std::int64_t begin = 0; begin < cols; begin += kRun) {
      const std::int64_t count = cols - begin < kRun ? cols - begin : kRun;
      const std::byte* ahead[tiles];
      for (int t = 0; t < tiles; ++t) ahead[t] = group.ahead<tiles, kLine>(t, w[t], begin, cols);
      for (std::int64_t k = 0; k < count; ++k, x += tokens) {
        step<tokens, tiles>(x, w, sums);
#pragma GCC unroll 8
        for (int t = 0; t < tiles; ++t) {
          // In two steps, for the L1 can wait for few lines at a time: memory is read a tenth faster where a panel
          // takes one tile at a time.
          for (std::int64_t part = 0; part < kLine; part += 64) {
            prefetch_far(ahead[t] + k * kLine + part);
            prefetch_line(w[t] + kNear * kLine + part);
          }
          w[t] += kLine;
        }
      }
    }
    for (int m = 0; m < tokens; ++m)
      for (int t = 0; t < tiles; ++t) {
        const Lanes32 rows = in_order<weights>(sums[m][t][0], sums[m][t][1]);
        _mm512_storeu_ps(c + m * ldc + 32 * t, rows.low);
        _mm512_storeu_ps(c + m * ldc + 32 * t + 16, rows.high);
      }
  }
};

#ifdef __AVX512FP16__
struct F16Sums {
  static constexpr std::int64_t kLine = 64;
  static constexpr std::int64_t tile_bytes(std::int64_t cols) { return cols * kLine; }
  static constexpr int tiles_for(int tokens) { return tokens <= 2 ? 8 : tokens <= 6 ? 4 : tokens <= 8 ? 3 : 2; }

  template <int tokens, int tiles>
  static inline void step(const std::uint32_t* x, const std::byte* const (&w)[tiles], __m512h (&sums)[tokens][tiles]) {
    __m512h line[tiles];
#pragma GCC unroll 8
    for (int t = 0; t < tiles; ++t) line[t] = _mm512_loadu_ph(w[t]);
#pragma GCC unroll 12
    for (int m = 0; m < tokens; ++m) {
      const __m512h value = _mm512_castsi512_ph(_mm512_set1_epi32(static_cast<int>(x[m])));
#pragma GCC unroll 8
      for (int t = 0; t < tiles; ++t) sums[m][t] = _mm512_fmadd_ph(line[t], value, sums[m][t]);
    }
  }

  /// c = or += the sums of one run, in f32. They go through memory: widening half a register costs an extraction and a
  /// shuffle, widening half a line does not (2 % of a whole projection).
  template <int tokens, int tiles>
  static inline void promote(const __m512h (&sums)[tokens][tiles], bool first, float* c, std::int64_t ldc) {
    alignas(64) std::byte lines[tokens][tiles][64];
#pragma GCC unroll 12
    for (int m = 0; m < tokens; ++m)
#pragma GCC unroll 8
      for (int t = 0; t < tiles; ++t) _mm512_store_ph(lines[m][t], sums[m][t]);
    asm volatile("" : : "r"(&lines) : "memory");  // otherwise the compiler takes them from the registers again
#pragma GCC unroll 12
    for (int m = 0; m < tokens; ++m)
#pragma GCC unroll 8
      for (int t = 0; t < tiles; ++t) {
        float* at = c + m * ldc + 32 * t;
        Lanes32 wide = load32<DType::f16>(lines[m][t]);
        if (!first) {
          wide.low = _mm512_add_ps(_mm512_loadu_ps(at), wide.low);
          wide.high = _mm512_add_ps(_mm512_loadu_ps(at + 16), wide.high);
        }
        _mm512_storeu_ps(at, wide.low);
        _mm512_storeu_ps(at + 16, wide.high);
      }
  }

  template <int tokens, int tiles>
  static void run(const std::uint32_t* panel, std::int64_t cols, const TileGroup& group, float* c, std::int64_t ldc) {
    const std::uint32_t* x = panel;
    const std::byte* w[tiles];
    for (int t = 0; t < tiles; ++t) w[t] = group.tiles[t];
    for (std::int64_t begin = 0; begin < cols; begin += kRun) {
      const std::int64_t count = cols - begin < kRun ? cols - begin : kRun;
      const std::byte* ahead[tiles];
      for (int t = 0; t < tiles; ++t) ahead[t] = group.ahead<tiles, kLine>(t, w[t], begin, cols);
      __m512h sums[tokens][tiles];
#pragma GCC unroll 12
      for (int m = 0; m < tokens; ++m)
#pragma GCC unroll 8
        for (int t = 0; t < tiles; ++t) sums[m][t] = _mm512_setzero_ph();
      for (std::int64_t k = 0; k < count; ++k, x += tokens) {
        step<tokens, tiles>(x, w, sums);
#pragma GCC unroll 8
        for (int t = 0; t < tiles; ++t) {
          prefetch_line(ahead[t] + k * kLine);
          w[t] += kLine;
        }
      }
      promote<tokens, tiles>(sums, begin == 0, c, ldc);
    }
  }
};
#endif

/// The kernel for `tokens` (1 to 12) and `tiles` (1 to tiles_for(tokens)).
template <typename Sums>
struct KernelTable {
  PanelKernel at[kPanelTokens + 1][kMaxTiles + 1] = {};

  template <int tokens, int tiles>
  constexpr void fill_tiles() {
    at[tokens][tiles] = &Sums::template run<tokens, tiles>;
    if constexpr (tiles > 1) fill_tiles<tokens, tiles - 1>();
  }
  template <int tokens>
  constexpr void fill() {
    fill_tiles<tokens, Sums::tiles_for(tokens)>();
    if constexpr (tokens > 1) fill<tokens - 1>();
  }
  constexpr KernelTable() { fill<kPanelTokens>(); }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
