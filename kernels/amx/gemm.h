// Matrix multiplications over weights in file layout: which rows and which panels meet when.
//
// Up to two panels (32 tokens): every pair of row tiles takes all of k at once, so weights are read once. More: groups
// of row pairs that stay in the L2 meet panel pair after panel pair (Goto and van de Geijn 2008, section 4), and a long
// k is cut so that the panels' part stays there too; sums wait in memory meanwhile, in f32, so the result is the same
// bit for bit: every output is one sum over k in steps of 32, whatever the number of tokens. (Blocks of weights of 256
// KiB with k outermost were slower for two of three shapes with 512 tokens, faster for the one with a long k.)
#pragma once

#include "amx/panels.h"

namespace qinfer::kernels::amx {
namespace {

/// k that a pair of panels takes at once: 32 tokens of it are 128 KiB.
inline constexpr std::int64_t kColumnsAtOnce = 2048;
/// Weights of a group.
inline constexpr std::int64_t kGroupBytes = 768 << 10;
/// Row pairs of a group at most, by the room for their sums.
inline constexpr std::int64_t kGroupPairs = 16;
inline constexpr std::int64_t kSumFloats = 4 * kTileFloats;

/// What the workers need for the sums of a group of `pairs`.
inline std::uint64_t sums_bytes(std::int64_t pairs) {
  return static_cast<std::uint64_t>(pairs * kSumFloats) * sizeof(float);
}

/// 16 rows of a matrix from `row` on, of which those before `end` exist; `ahead` rows further on are the next ones.
inline RowTile tile_of(const Matrix& w, std::int64_t row, std::int64_t end, std::int64_t ahead) {
  const std::int64_t stride = w.cols * 2, there = end - row;
  return {w.data + smaller(row, end) * stride, stride, there >= kTileRows ? kTileRows : larger(there, std::int64_t{0}),
          w.data + (row + ahead) * stride};
}

/// 32 rows of a matrix.
inline RowPair rows_of(const Matrix& w, std::int64_t row, std::int64_t end) {
  return {{tile_of(w, row, end, 2 * kTileRows), tile_of(w, row + kTileRows, end, 2 * kTileRows)}};
}

/// Sums of one row pair and panel pair: [row tile][panel][16 features][16 tokens].
struct SumBlock {
  std::int64_t pair, first_panel;
  int row_tiles, panels;
  const float* sums;

  const float* tile(int row_tile, int panel) const { return sums + (2 * row_tile + panel) * kTileFloats; }
};

template <int row_tiles, int panels, bool prefetch>
inline void run_columns(const RowPair& w, std::int64_t begin, std::int64_t end, std::int64_t cols, const PanelPair& x,
                        float* sums) {
  begin == 0 ? zero_sums<row_tiles, panels>() : load_sums<row_tiles, panels>(sums);
  add_columns<row_tiles, panels, prefetch>(w, begin, end, cols, x);
  store_sums<row_tiles, panels>(sums);
}

/// `panels`, `row_tiles`: 1 or 2.
template <bool prefetch>
inline void run_columns(int row_tiles, int panels, const RowPair& w, std::int64_t begin, std::int64_t end,
                        std::int64_t cols, const PanelPair& x, float* sums) {
  if (row_tiles == 2) {
    panels == 2 ? run_columns<2, 2, prefetch>(w, begin, end, cols, x, sums)
                : run_columns<2, 1, prefetch>(w, begin, end, cols, x, sums);
  } else {
    panels == 2 ? run_columns<1, 2, prefetch>(w, begin, end, cols, x, sums)
                : run_columns<1, 1, prefetch>(w, begin, end, cols, x, sums);
  }
}

/// Panels of n rows of `cols` values.
struct Panels {
  const std::uint32_t* data = nullptr;
  std::int64_t n = 0, cols = 0;

  std::int64_t count() const { return panel_count(n); }
  PanelPair pair(std::int64_t p) const {
    const std::int64_t dwords = panel_dwords(cols);
    return {{data + p * dwords, data + (p + 1) * dwords}};
  }
  std::int64_t tokens(std::int64_t panel) const { return smaller(n - panel * kPanelTokens, kPanelTokens); }
};

/// Row pairs that pass at once when there are `panels`.
inline std::int64_t group_pairs(std::int64_t panels, std::int64_t cols) {
  if (panels <= 2) return 1;
  return larger(std::int64_t{1}, smaller(kGroupPairs, kGroupBytes / (4 * kTileRows * cols)));
}

/// Fetches the rows that a worker will read first, while it still packs; all later ones are fetched by those before.
inline void prefetch_first(const RowPair& pair, std::int64_t n) {
  if (panel_count(n) > 2) return;
  for (const RowTile& rows : pair.tiles)
    for (std::int64_t b = 0; b < rows.count * rows.stride; b += 64)
      _mm_prefetch(reinterpret_cast<const char*>(rows.at + b), _MM_HINT_T1);
}

/// Fetches part i of n of the next panels.
inline void prefetch_part(const std::uint32_t* panels, bool there, std::int64_t i, std::int64_t n, std::int64_t cols) {
  if (!there) return;
  const std::int64_t lines = 2 * padded_k(cols) / 2;
  for (std::int64_t line = lines * i / n; line < lines * (i + 1) / n; ++line)
    _mm_prefetch(reinterpret_cast<const char*>(panels + line * 16), _MM_HINT_T1);
}

/// Multiplies all panels with row pairs 0 .. n_pairs - 1 (rows(i); where its second tile is empty, only the first is
/// computed), `group` of them at a time, and hands every finished block to `sink`: for one pair of panels the row pairs
/// of a group in order. `sums`: room for a group.
template <typename RowsAt, typename Sink>
inline void multiply(const Panels& x, std::int64_t n_pairs, std::int64_t group, float* sums, RowsAt rows, Sink sink) {
  const std::int64_t cols = x.cols, count = x.count();
  const bool once = count <= 2;
  const std::int64_t at_once = once ? cols : kColumnsAtOnce;
  for (std::int64_t first = 0; first < n_pairs; first += group) {
    const std::int64_t end = smaller(first + group, n_pairs);
    for (std::int64_t p = 0; p < count; p += 2) {
      const PanelPair pair = x.pair(p);
      const int panels = p + 1 < count ? 2 : 1;
      for (std::int64_t k = 0; k < cols; k += at_once) {
        const std::int64_t k_end = smaller(k + at_once, cols);
        for (std::int64_t i = first; i < end; ++i) {
          const RowPair w = rows(i);
          const int row_tiles = w.tiles[1].count > 0 ? 2 : 1;
          float* at = sums + (i - first) * kSumFloats;
          if (!once)
            prefetch_part(x.pair(p + 2).at[0] + k / 2 * kPanelTokens, p + 2 < count, i - first, end - first, k_end - k);
          p == 0 ? run_columns<true>(row_tiles, panels, w, k, k_end, cols, pair, at)
                 : run_columns<false>(row_tiles, panels, w, k, k_end, cols, pair, at);
          if (k_end == cols) sink(SumBlock{i, p, row_tiles, panels, at});
        }
      }
    }
  }
}

/// One tile of sums as rows: emit(token, values of 16 features).
template <typename Emit>
inline void transposed(const float* tile, std::int64_t tokens, Emit emit) {
  __m512i block[16];
  for (int r = 0; r < 16; ++r) block[r] = _mm512_load_si512(tile + 16 * r);
  avx512::transpose16(block);
  for (std::int64_t t = 0; t < tokens; ++t) emit(t, _mm512_castsi512_ps(block[t]));
}

/// Adds bias and the old values where asked for, and stores a block's outputs, of which the first is row `feature` of
/// the matrix, in rows. `outputs`: of the matrix.
template <typename RowAt>
inline void store_block(const SumBlock& block, const Panels& x, std::int64_t feature, std::int64_t outputs,
                        const float* bias, bool accumulate, RowAt row) {
  for (int i = 0; i < block.row_tiles; ++i) {
    const std::int64_t first = feature + i * kTileRows;
    const __mmask16 lanes = first_lanes(outputs - first);
    const __m512 added = bias != nullptr ? _mm512_maskz_loadu_ps(lanes, bias + first) : _mm512_setzero_ps();
    for (int j = 0; j < block.panels; ++j) {
      const std::int64_t panel = block.first_panel + j;
      transposed(block.tile(i, j), x.tokens(panel), [&](std::int64_t t, __m512 value) {
        float* out = row(panel * kPanelTokens + t) + first;
        if (bias != nullptr) value = _mm512_add_ps(value, added);
        if (accumulate) value = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, out), value);
        _mm512_mask_storeu_ps(out, lanes, value);
      });
    }
  }
}

}  // namespace
}  // namespace qinfer::kernels::amx
