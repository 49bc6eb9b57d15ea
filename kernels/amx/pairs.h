// Weights in pairs (WeightLayout::pairs16): what they are, and their multiplication with up to two panels of tokens.
//
// A step of a tile, 16 rows by 32 columns, is 16 lines of two neighbouring columns of each row: outputs are lanes. That
// is the second operand of a tile multiplication, with tokens as the first, and what AVX-512 wants. Up to
// kVectorTokens tokens are multiplied in AVX-512: it reads memory faster than tile loads do. Several tiles are
// multiplied side by side, since one stream of memory alone does not reach its bandwidth.
//
// AVX-512 adds in the order of TDPBF16PS (Intel SDM, volume 2; equal on silicon), so that the bits do not depend on how
// many tokens there are: over the 16 pairs of a step even columns go into one chain of fused multiply-adds from zero
// and odd ones into another; then sum + (even + odd). Every result is rounded to nearest, and subnormal numbers are
// zeros, as operands and as results.
#pragma once

#include "amx/panels.h"
#include "amx/tile_arithmetic.h"

namespace qinfer::kernels::amx {
namespace {

static_assert(kPairStepBytes == kRegisterRows * 64);
/// Row pairs that AVX-512 multiplies at once, by what there are registers for: each tile is a stream of memory of its
/// own. (One token, in pages of 4 KiB on a Granite Rapids: 20 GB/s with one, 25 with two, 27 with four, 29 with eight.)
template <int tokens>
inline constexpr int kPairsAtOnce = tokens == 1 ? 4 : 2;
inline constexpr int kMostPairsAtOnce = 4;
/// Steps that are fetched ahead, by AVX-512 and by tiles. (Of tiles 1, 2 and 4 were equally fast on a Granite Rapids.)
template <int tiles>
inline constexpr std::int64_t kVectorStepsAhead = tiles > 2 ? 1 : 2;
inline constexpr std::int64_t kTileStepsAhead = 4;

/// Where the tile of a row of a matrix in pairs begins.
template <typename Byte>
inline Byte* tile_of_row(Byte* matrix, std::int64_t row, std::int64_t cols) {
  return matrix + row / kRegisterRows * (padded_k(cols) / kStep * kPairStepBytes);
}

/// A step of sixteen rows that begin anywhere in their tile, zeros after the last row.
[[gnu::noinline]] inline void copy_pairs(const RowTile& rows, std::int64_t step, std::byte* out) {
  const std::int64_t in_first = kRegisterRows - rows.first;
  const __mmask16 low = first_lanes(smaller(in_first, rows.count)), all = first_lanes(rows.count);
  const std::byte* at = rows.at + step * kPairStepBytes + 4 * rows.first;
  const std::byte* beyond = rows.at + rows.jump + step * kPairStepBytes - 4 * in_first;
  for (std::int64_t line = 0; line < kRegisterRows * 64; line += 64) {
    const __m512i first = _mm512_maskz_loadu_epi32(low, at + line);
    const auto rest = static_cast<__mmask16>(all & ~low);
    _mm512_store_si512(out + line, rest == 0 ? first : _mm512_mask_loadu_epi32(first, rest, beyond + line));
  }
}

/// A step as it is.
inline void copy_step(const std::byte* step, std::byte* out) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_store_si512(out + 64 * i, _mm512_loadu_si512(step + 64 * i));
}

/// A step as 16 rows of 32 columns: what a tile multiplication has as its first operand.
inline void turn_pairs(const std::byte* step, std::byte* out) {
  __m512i block[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) block[i] = _mm512_loadu_si512(step + 64 * i);
  avx512::transpose16(block);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(out + 64 * i, block[i]);
}

/// Panels of tokens as such operands, [k / 32][16 tokens][32], one every `stride` dwords.
inline void turn_panels(const std::uint32_t* panels, std::int64_t count, std::int64_t cols, std::uint32_t* out,
                        std::int64_t stride) {
  for (std::int64_t p = 0; p < count; ++p, out += stride) {
    auto* to = reinterpret_cast<std::byte*>(out);
    for (std::int64_t at = 0; at < panel_dwords(cols); at += kPairStepDwords, panels += kPairStepDwords)
      turn_pairs(reinterpret_cast<const std::byte*>(panels), to + at * 4);
  }
}

/// Where a step of a tile is, and where the one that is fetched meanwhile.
struct PairStep {
  const std::byte *at, *later;

  [[gnu::always_inline]] void prefetch(int line) const {
    _mm_prefetch(reinterpret_cast<const char*>(later + 64 * line), _MM_HINT_T0);
  }
};

/// Step s of `count` of a tile, with which the one `ahead` steps later is fetched. `copy`: room for a step.
[[gnu::always_inline]] inline PairStep step_at(const RowTile& tile, std::int64_t s, std::int64_t count,
                                               std::int64_t ahead, std::byte* copy) {
  const std::int64_t after = s + ahead;
  const std::byte* later =
      after < count ? tile.at + after * kPairStepBytes : tile.next + (after - count) * kPairStepBytes;
  if (tile.is_whole()) return {tile.at + s * kPairStepBytes, later};
  copy_pairs(tile, s, copy);
  return {copy, later};
}

/// Floats of a step of one token as AVX-512 multiplies it: of the 32 columns the even ones, then the odd ones.
inline constexpr std::int64_t kSplitFloats = 32;
inline std::uint64_t split_bytes(std::int64_t tokens, std::int64_t cols) {
  return static_cast<std::uint64_t>(tokens * padded_k(cols)) * sizeof(float);
}
/// The first tokens of a turned panel so: [step][token][even columns, odd ones][16].
inline void split_tokens(const std::uint32_t* turned, std::int64_t steps, std::int64_t tokens, float* out) {
  for (std::int64_t step = 0; step < steps; ++step, turned += kPairStepDwords)
    for (std::int64_t t = 0; t < tokens; ++t, out += kSplitFloats) {
      const avx512::Lanes32 columns = avx512::widen_pairs(_mm512_load_si512(turned + 16 * t));
      _mm512_store_ps(out, columns.low), _mm512_store_ps(out + 16, columns.high);
    }
}

/// sums[tile][token] += a step of each tile times the step of tokens at x.
template <int tiles, int tokens>
[[gnu::always_inline]] inline void add_vectors(const PairStep (&w)[tiles], const float* x,
                                               __m512 (&sums)[tiles][tokens]) {
  __m512 even[tiles][tokens], odd[tiles][tokens];
#pragma GCC unroll 8
  for (int i = 0; i < tiles; ++i)
#pragma GCC unroll 4
    for (int t = 0; t < tokens; ++t) even[i][t] = odd[i][t] = _mm512_setzero_ps();
#pragma GCC unroll 16
  for (int pair = 0; pair < 16; ++pair) {
    avx512::Lanes32 token[tokens];
#pragma GCC unroll 4
    for (int t = 0; t < tokens; ++t)
      token[t] = {_mm512_set1_ps(x[t * kSplitFloats + pair]), _mm512_set1_ps(x[t * kSplitFloats + 16 + pair])};
#pragma GCC unroll 8
    for (int i = 0; i < tiles; ++i) {
      w[i].prefetch(pair);
      const avx512::Lanes32 line = avx512::widen_pairs(_mm512_loadu_si512(w[i].at + 64 * pair));
#pragma GCC unroll 4
      for (int t = 0; t < tokens; ++t) {
        even[i][t] = _mm512_fmadd_ps(line.low, token[t].low, even[i][t]);
        odd[i][t] = _mm512_fmadd_ps(line.high, token[t].high, odd[i][t]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < tiles; ++i)
#pragma GCC unroll 4
    for (int t = 0; t < tokens; ++t) sums[i][t] = _mm512_add_ps(sums[i][t], _mm512_add_ps(even[i][t], odd[i][t]));
}

/// Turns a register of sums, 16 rows of 16 floats.
inline void turn_sums(float* tile) {
  turn_pairs(reinterpret_cast<std::byte*>(tile), reinterpret_cast<std::byte*>(tile));
}

/// Sums of tiles and up to kVectorTokens tokens, which split_tokens() has made x of: [token][16 features] of each tile.
template <int tiles, int tokens>
[[gnu::noinline]] void multiply_vectors(const RowTile* const (&w)[tiles], std::int64_t n_steps, const float* x,
                                        float* const (&out)[tiles]) {
  const TileArithmetic arithmetic;
  alignas(64) std::byte copies[tiles][kPairStepBytes];
  __m512 sums[tiles][tokens];
  for (auto& tile : sums)
    for (__m512& sum : tile) sum = _mm512_setzero_ps();
  for (std::int64_t s = 0; s < n_steps; ++s, x += tokens * kSplitFloats) {
    PairStep steps[tiles];
#pragma GCC unroll 8
    for (int i = 0; i < tiles; ++i) steps[i] = step_at(*w[i], s, n_steps, kVectorStepsAhead<tiles>, copies[i]);
    add_vectors<tiles, tokens>(steps, x, sums);
  }
  for (int i = 0; i < tiles; ++i)
    for (int t = 0; t < tokens; ++t) _mm512_store_ps(out[i] + 16 * t, sums[i][t]);
}

/// Sums of a row pair and one or two turned panels by tiles, as store_sums() stores them, tokens as rows. `fetch`: the
/// weights come out of memory.
template <int row_tiles, int panels>
inline void multiply_turned(const RowPair& w, std::int64_t n_steps, const PanelPair& x, bool fetch, float* out) {
  const std::uint32_t *x0 = x.at[0], *x1 = x.at[1];
  alignas(64) std::byte copies[row_tiles][kPairStepBytes];
  const auto step = [&](std::int64_t s, int i) {
    const PairStep one = step_at(w.tiles[i], s, n_steps, kTileStepsAhead, copies[i]);
    if (fetch)
#pragma GCC unroll 16
      for (int line = 0; line < 16; ++line) one.prefetch(line);
    return one.at;
  };
  zero_sums<row_tiles, panels>();
  for (std::int64_t s = 0; s < n_steps; ++s, x0 += kPairStepDwords, x1 += kPairStepDwords)
    multiply_turned_step<row_tiles, panels>([&](int tile) { return step(s, tile); }, x0, x1);
  store_sums<row_tiles, panels>(out);
}

/// Calls f(number of tokens, as a constant).
template <typename F>
inline void with_tokens(std::int64_t n, F f) {
  static_assert(kVectorTokens == 3);
  switch (n) {
    case 1: return f.template operator()<1>();
    case 2: return f.template operator()<2>();
    default: return f.template operator()<3>();
  }
}

}  // namespace
}  // namespace qinfer::kernels::amx
