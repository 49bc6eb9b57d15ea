// The inner loops with sums in f32 (tiled/gemm.h), for weights of every plain type, where registers hold few sums: up
// to six tokens times 16 outputs (12 of the 16 registers of AVX2). A tile is passed in runs of 64 columns that stay in
// the L1, once for each six tokens and each 16 outputs; between runs the sums are in memory, which changes none of
// them.
#pragma once

#include "tiled/gemm.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

template <DType weights>
struct F32Sums {
  static constexpr std::int64_t kBytes = static_cast<std::int64_t>(dtype_bytes(weights));
  static constexpr std::int64_t kLine = kTileRows * kBytes;
  static constexpr std::int64_t tile_bytes(std::int64_t cols) { return cols * kLine; }

  /// One tile at a time is one stream, which memory reads fastest: on Zen 4 by a tenth faster than two or four.
  static constexpr int tiles_for(int) { return 1; }
  /// How far ahead lines are fetched into the L1. On Zen 4 2 and 4 KiB read memory a tenth faster than 8 KiB into the
  /// L2 and from there into the L1.
  static constexpr std::int64_t kAheadBytes = 4096;

  /// What one pass of a run works on.
  struct Pass {
    const float* x;  ///< [k][ld]
    std::int64_t ld, count;
    const std::byte* w;      ///< the line of the run's first column, from the pass's first output on
    const std::byte* ahead;  ///< what to prefetch, a line for each column; null: nothing
    float* c;
    std::int64_t ldc;
    bool first;  ///< sums begin at zero, not with what c holds
  };

  /// `groups` times 16 outputs.
  template <int tokens, int groups>
  static inline void pass(const Pass& p) {
    F32x16 sums[tokens][groups];
#pragma GCC unroll 6
    for (int m = 0; m < tokens; ++m)
#pragma GCC unroll 2
      for (int g = 0; g < groups; ++g) sums[m][g] = p.first ? zeros() : load(p.c + m * p.ldc + 16 * g);
    const float* x = p.x;
    const std::byte *w = p.w, *ahead = p.ahead;
    for (std::int64_t k = 0; k < p.count; ++k, x += p.ld, w += kLine) {
      if (ahead != nullptr)
        for (std::int64_t part = 0; part < kLine; part += 64) prefetch_line(ahead + k * kLine + part);
      F32x16 line[groups];
#pragma GCC unroll 2
      for (int g = 0; g < groups; ++g) line[g] = load16<weights>(w + 16 * g * kBytes);
#pragma GCC unroll 6
      for (int m = 0; m < tokens; ++m) {
        const F32x16 value = splat(x[m]);
#pragma GCC unroll 2
        for (int g = 0; g < groups; ++g) sums[m][g] = mul_add(line[g], value, sums[m][g]);
      }
    }
#pragma GCC unroll 6
    for (int m = 0; m < tokens; ++m)
#pragma GCC unroll 2
      for (int g = 0; g < groups; ++g) store(p.c + m * p.ldc + 16 * g, sums[m][g]);
  }

  /// The 32 outputs of a tile for `tokens`, at most six.
  template <int tokens>
  static inline void pass_tile(Pass p) {
    if constexpr (2 * tokens <= kSumTokens) return pass<tokens, 2>(p);
    pass<tokens, 1>(p);
    p.w += 16 * kBytes, p.c += 16, p.ahead = nullptr;
    pass<tokens, 1>(p);
  }

  /// c = or += the products of `count` columns, from the line `w` on, of all tokens of a panel.
  template <int tokens>
  static inline void add_columns(const float* x, std::int64_t count, const std::byte* w, const std::byte* ahead,
                                 float* c, std::int64_t ldc, bool first) {
    constexpr int kFirst = tokens <= kSumTokens ? tokens : (tokens + 1) / 2;
    pass_tile<kFirst>({x, tokens, count, w, ahead, c, ldc, first});
    if constexpr (kFirst < tokens)
      pass_tile<tokens - kFirst>({x + kFirst, tokens, count, w, nullptr, c + kFirst * ldc, ldc, first});
  }

  template <int tokens, int tiles>
  static void run(const std::uint32_t* panel, std::int64_t cols, const TileGroup& group, float* c, std::int64_t ldc) {
    const float* x = reinterpret_cast<const float*>(panel);
    for (std::int64_t begin = 0; begin < cols; begin += kRun)
      for (int t = 0; t < tiles; ++t) {
        const std::byte* w = group.tiles[t] + begin * kLine;
        add_columns<tokens>(x + begin * tokens, cols - begin < kRun ? cols - begin : kRun, w,
                            group.template ahead<kAheadBytes / kLine, kLine>(t, w, begin, cols), c + 32 * t, ldc,
                            begin == 0);
      }
  }
};

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
