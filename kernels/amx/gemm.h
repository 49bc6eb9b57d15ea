// Matrix multiplications over weights in file layout, in pairs, or quantised: what rows, panels and blocks of sums are,
// the multiplication of up to eight panels, and what becomes of finished sums. Up to two panels: gemm_few.h, many:
// gemm_staged.h. Every output is one sum over k in steps of 32, whatever the number of tokens.
#pragma once

#include "amx/quant_rows.h"
#include "common/additions.h"

namespace qinfer::kernels::amx {
namespace {

inline constexpr std::int64_t kSumFloats = 4 * kTileFloats;

/// Bytes of the sums of this many row pairs and a pair of panels each.
inline std::uint64_t sums_bytes(std::int64_t pairs) {
  return static_cast<std::uint64_t>(pairs * kSumFloats) * sizeof(float);
}

/// 16 rows of a matrix from `row` on, of which those before `end` exist; `ahead` rows further on are the next ones.
inline RowTile tile_of(const Matrix& w, std::int64_t row, std::int64_t end, std::int64_t ahead) {
  const std::int64_t count = smaller(larger(end - row, std::int64_t{0}), kRegisterRows);
  RowTile tile;
  tile.count = count;
  if (!is_plain(w.format.encoding)) {
    tile.quant = &quant_pairs(w.format.encoding);
    const QuantLayout& layout = tile.quant->layout;
    tile.jump = (layout.subs == 1 ? w.cols / 32 : w.cols / 256) * layout.block;
    tile.at = w.data + smaller(row, end) / 32 * tile.jump;
    tile.next = w.data + (row + ahead) / 32 * tile.jump;
    tile.first = smaller(row, end) % 32;
    return tile;
  }
  if (w.format.layout == WeightLayout::pairs16) {
    tile.in_pairs = true;
    tile.jump = padded_k(w.cols) / kStep * kPairStepBytes;
    tile.at = tile_of_row(w.data, smaller(row, end), w.cols);
    tile.next = tile_of_row(w.data, row + ahead, w.cols);
    tile.first = smaller(row, end) % kRegisterRows;
    return tile;
  }
  tile.stride = w.cols * 2;
  tile.at = w.data + smaller(row, end) * tile.stride;
  tile.next = w.data + (row + ahead) * tile.stride;
  return tile;
}

/// 32 rows of a matrix.
inline RowPair rows_of(const Matrix& w, std::int64_t row, std::int64_t end) {
  return {{tile_of(w, row, end, 2 * kRegisterRows), tile_of(w, row + kRegisterRows, end, 2 * kRegisterRows)}};
}

/// `rows`, after which those of `next` are read, if it has any.
inline RowPair followed_by(RowPair rows, const RowPair& next) {
  for (int i = 0; i < 2 && next.tiles[0].at != nullptr; ++i) rows.tiles[i].next = next.tiles[i].at;
  return rows;
}

/// How many of the tiles of a pair have rows: 1 or 2.
inline int row_tiles_of(const RowPair& pair) { return pair.tiles[1].count > 0 ? 2 : 1; }

/// Sums of one row pair and panel pair: [row tile][panel][16 features][16 tokens]; if turned, [16 tokens][16 features].
/// Those of tokens after the last one can be anything.
struct SumBlock {
  std::int64_t pair, first_panel;
  int row_tiles, panels;
  float* sums;
  bool turned = false;

  const float* tile(int row_tile, int panel) const { return sums + (2 * row_tile + panel) * kTileFloats; }
};

/// A block as it is or turned in its place.
inline SumBlock turned_or_not(SumBlock block, bool turned) {
  if (block.turned == turned) return block;
  for (int r = 0; r < block.row_tiles; ++r)
    for (int p = 0; p < block.panels; ++p) turn_sums(block.sums + (2 * r + p) * kTileFloats);
  block.turned = turned;
  return block;
}

/// Calls f<row_tiles, panels>() for numbers, 1 or 2, known at run time.
template <typename F>
inline void with_tiles(int row_tiles, int panels, F f) {
  if (row_tiles == 2) {
    panels == 2 ? f.template operator()<2, 2>() : f.template operator()<2, 1>();
  } else {
    panels == 2 ? f.template operator()<1, 2>() : f.template operator()<1, 1>();
  }
}

/// Panels of n rows of `cols` values. Those that are multiplied with weights in pairs, or decoded to such, can be
/// turned: then `data` are not looked at, and may be null.
struct Panels {
  const std::uint32_t* data = nullptr;
  std::int64_t n = 0, cols = 0;
  const std::uint32_t* turned = nullptr;
  std::int64_t stride = panel_dwords(cols);  ///< from one panel to the next

  std::int64_t count() const { return panel_count(n); }
  PanelPair pair(std::int64_t p) const {
    const std::uint32_t* all = turned != nullptr ? turned : data;
    return {{all + p * stride, all + (p + 1) * stride}};
  }
  /// n rows from panel p on.
  Panels part(std::int64_t p, std::int64_t rows) const {
    const std::int64_t at = p * stride;
    return {turned != nullptr ? nullptr : data + at, rows, cols, turned != nullptr ? turned + at : nullptr, stride};
  }
  /// Of the pair that begins with panel p.
  int panels(std::int64_t p) const { return p + 1 < count() ? 2 : 1; }
};

/// Fetches the rows that a worker will read first, while it still packs; all later ones of its slice are fetched by
/// those before.
inline void prefetch_first(const RowPair& pair, std::int64_t n) {
  if (panel_count(n) > 2) return;
  for (const RowTile& rows : pair.tiles) {
    const std::int64_t bytes = rows.quant != nullptr ? smaller(kFetchedFirst, rows.jump)
                               : rows.in_pairs       ? smaller(kTileStepsAhead * kPairStepBytes, rows.jump)
                                                     : rows.count * rows.stride;
    for (std::int64_t b = 0; b < bytes; b += 64) _mm_prefetch(reinterpret_cast<const char*>(rows.at + b), _MM_HINT_T1);
  }
}

/// Panels that pass rows of the file, or pairs, one row pair after the other (multiply_several()). With more the panels
/// do not stay in the L2, and blocks pay (gemm_staged.h): on a Granite Rapids 64 and 128 tokens take 0.60 and 0.75 of
/// the time that they take with blocks of rows, 512 tokens as much with 1,024 columns and 1.45 times with 4,096.
inline constexpr std::int64_t kSeveralPanels = 8;

/// Multiplies more than two panels with row pairs that are operands as they are, `whole` of them after each other.
/// Their rows pass once for every two panels: first out of memory, then out of the L2. For one pair of panels the sink
/// gets these row pairs in order, one after the other.
template <typename RowsAt, typename Sink>
inline void multiply_several(const Panels& x, std::int64_t n_pairs, std::int64_t whole, float* sums, RowsAt rows,
                             Sink sink) {
  const bool turned = x.turned != nullptr;
  for (std::int64_t first = 0; first < n_pairs; first += whole)
    for (std::int64_t p = 0; p < x.count(); p += 2)
      for (std::int64_t i = first; i < first + whole; ++i) {
        const RowPair w = rows(i);
        const PanelPair pair = x.pair(p);
        with_tiles(row_tiles_of(w), x.panels(p), [&]<int row_tiles, int panels>() {
          if (turned) return multiply_turned<row_tiles, panels>(w, padded_k(x.cols) / kStep, pair, p == 0, sums);
          zero_sums<row_tiles, panels>();
          add_columns<row_tiles, panels>(w, x.cols, pair, p == 0);
          store_sums<row_tiles, panels>(sums);
        });
        sink(SumBlock{i, p, row_tiles_of(w), x.panels(p), sums, turned});
      }
}

/// What additions give to output j of 16 rows from m on, which are a line; and to 16 outputs from j on of row m, as far
/// as there are `count`.
[[gnu::noinline]] inline __m512 line_with_shares(const Linear& w, std::int64_t m, std::int64_t j, __m512 line) {
  alignas(64) float values[kPanelLanes];
  _mm512_store_ps(values, line);
  for (std::int64_t t = 0; t < kPanelLanes; ++t) add_shares(w, m + t, j, 1, values + t);
  return _mm512_load_ps(values);
}
[[gnu::noinline]] inline __m512 row_with_shares(const Linear& w, std::int64_t m, std::int64_t j, std::int64_t count,
                                                __m512 row) {
  alignas(64) float values[16];
  _mm512_store_ps(values, row);
  add_shares(w, m, j, larger(smaller(count, std::int64_t{16}), std::int64_t{0}), values);
  return _mm512_load_ps(values);
}

/// Output j of 16 rows from m on, from their sums.
inline __m512 finished_line(const Linear& w, std::int64_t m, std::int64_t j, __m512 value) {
  if (w.bias != nullptr) value = _mm512_add_ps(value, _mm512_set1_ps(w.bias[j]));
  if (!w.additions.empty()) value = line_with_shares(w, m, j, value);
  return _mm512_mul_ps(value, _mm512_set1_ps(w.scale));
}
/// Outputs [j, j + 16) of row m, as far as there are `count`.
inline __m512 finished_row(const Linear& w, std::int64_t m, std::int64_t j, std::int64_t count, __m512 value) {
  if (w.bias != nullptr) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(first_lanes(count), w.bias + j));
  if (!w.additions.empty()) value = row_with_shares(w, m, j, count, value);
  return _mm512_mul_ps(value, _mm512_set1_ps(w.scale));
}

/// Stores a block's outputs, of which the first is output `feature` of the layer, as lines of panels; adds the old
/// values where asked for.
inline void store_lines(const SumBlock& sums_of, std::int64_t feature, const Linear& w, bool accumulate,
                        const Activations& out) {
  const SumBlock block = turned_or_not(sums_of, false);
  for (int i = 0; i < block.row_tiles; ++i) {
    const std::int64_t first = feature + i * kRegisterRows, count = smaller(w.rows - first, kRegisterRows);
    for (int j = 0; j < block.panels; ++j) {
      const float* sums = block.tile(i, j);
      float* line = f32_line(out, block.first_panel + j, first);
      for (std::int64_t r = 0; r < count; ++r, sums += kPanelLanes, line += kPanelLanes) {
        __m512 value = finished_line(w, (block.first_panel + j) * kPanelLanes, first + r, _mm512_load_ps(sums));
        if (accumulate) value = _mm512_add_ps(_mm512_load_ps(line), value);
        _mm512_store_ps(line, value);
      }
    }
  }
}

/// The same in rows, row m of n at row(m).
template <typename RowAt>
inline void store_rows(const SumBlock& sums_of, std::int64_t n, std::int64_t feature, const Linear& w, bool accumulate,
                       RowAt row) {
  const SumBlock block = turned_or_not(sums_of, true);
  for (int i = 0; i < block.row_tiles; ++i) {
    const std::int64_t begin = feature + i * kRegisterRows;
    const __mmask16 lanes = first_lanes(w.rows - begin);
    for (int j = 0; j < block.panels; ++j) {
      const std::int64_t first = (block.first_panel + j) * kPanelLanes, tokens = smaller(n - first, kPanelLanes);
      for (std::int64_t t = 0; t < tokens; ++t) {
        float* out = row(first + t) + begin;
        const __m512 sums = _mm512_load_ps(block.tile(i, j) + 16 * t);
        __m512 value = finished_row(w, first + t, begin, w.rows - begin, sums);
        if (accumulate) value = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, out), value);
        _mm512_mask_storeu_ps(out, lanes, value);
      }
    }
  }
}

}  // namespace
}  // namespace qinfer::kernels::amx
