// What the inner loops of every projection have in common: a panel of up to 12 tokens times a few tiles of 32 weight
// rows, or, of quantised weights, several full panels, or one in tiles of AMX, times one tile (PanelsKernel). The loops
// themselves are of an instruction set, in the gemm_*.h of its folder.
//
// Tiles are [K][32]: one cache line of f16 is column k of 32 rows, so outputs are lanes and an activation is broadcast.
// A panel is [K][tokens] dwords, one f32 each or the same f16 twice, so that its broadcasts have constant offsets.
// Every output is one sum with one order of additions, whatever the number of tokens and tiles at a time:
//   F32Sums   sequential over k in f32, with fused multiply-adds: the same bits in all instruction sets.
//   F16Sums   (AVX512-FP16) sequential in f16 over runs of 64 products cut at absolute k, the runs added in f32.
//   Bf16Sums  (AVX512-BF16) sequential over pairs in f32.
// Those of quantised weights are described in quant_loops.h, quant_bf16_loops.h and
// quant_int16_loops.h.
// While a tile is read, the line kAhead further on is prefetched, at the end of the tile that of the next group; of
// attention, whose tiles are short, the line of the next tile with the same number.
#pragma once

#include "tiled/tile_loops.h"
#include "tiled/vec.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

/// Lines to prefetch ahead, of all tiles together: the distance that read memory fastest when it was chosen.
inline constexpr std::int64_t kAhead = 128;
/// How many lines ahead of its reading a line goes from the L2 into the L1. (No measurement of other numbers is kept.)
inline constexpr std::int64_t kNear = 12;
/// Products that one f16 sum takes. Part of the results: panels.h shows that this many cannot overflow.
inline constexpr std::int64_t kRun = 64;

/// And what to fetch meanwhile.
struct TileGroup : TileLines {
  bool only_next = false;  ///< prefetch nothing but `next`: a whole tile ahead

  /// What to prefetch for tile t at w while the products from `begin` on are added up, at most kRun of them.
  /// `distance`: lines ahead; `line`: bytes of one.
  template <std::int64_t distance, std::int64_t line>
  const std::byte* ahead(int t, const std::byte* w, std::int64_t begin, std::int64_t cols) const {
    if (only_next) return next[t] + begin * line;
    const std::int64_t beyond = begin + (distance > kRun ? distance : kRun) - cols;
    return beyond < 0 ? w + distance * line : next[t] + beyond * line;
  }

  /// How many columns to add up from `begin` on until what to prefetch is asked for again: at most kRun, and such that
  /// the last kNear are by themselves.
  static std::int64_t run_length(std::int64_t begin, std::int64_t cols) {
    const std::int64_t left = cols - begin;
    if (left <= kNear) return left;
    return left - kNear < kRun ? left - kNear : kRun;
  }
  /// What is to go into the L1 meanwhile.
  template <std::int64_t line>
  const std::byte* near(int t, const std::byte* w, std::int64_t begin, std::int64_t cols) const {
    const std::int64_t beyond = begin + kNear - cols;
    return beyond < 0 ? w + kNear * line : next[t] + beyond * line;
  }
};

/// c[m * ldc + 32 * t + lane] = sum over k.
using PanelKernel = void (*)(const std::uint32_t* panel, std::int64_t cols, const TileGroup& group, float* c,
                             std::int64_t ldc);

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
}  // namespace qinfer::kernels::QINFER_ISA
