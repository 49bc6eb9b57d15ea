// AMX tile instructions, and the micro-kernel: 32 rows of weights times 32 tokens.
//
// The method is FlashMatrix's: weights are the A operand as they are in the file (row-major bf16, any stride and
// alignment of 2 bytes; with many tokens out of staged tiles, gemm_staged.h), activations the B operand in panels of 16
// tokens (panels.h). The result has features as rows and tokens as lanes. Registers: 0 and 1 weights, 2 and 3
// activations, 4 to 7 sums, [weights 0 | 1][tokens 0 | 1]. Packed weights are in pairs of columns, and quantised ones
// are decoded to such, the form of a B operand: there the operands change places (pairs.h).
//
// One constant configuration serves all shapes; edges are filled with zeros, never reconfigured.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "amx/instructions.h"
#include "amx/quant_pairs.h"

namespace qinfer::kernels::amx {
namespace {

inline constexpr std::int64_t kRegisterRows = 16;                   ///< of a register: features, or pairs of k
inline constexpr std::int64_t kStep = 32;                           ///< k that one instruction takes
inline constexpr std::int64_t kTileFloats = 256;                    ///< of a register of sums
inline constexpr std::int64_t kStepBytes = 2 * kRegisterRows * 64;  ///< of both registers of weights

/// Sixteen rows, of which the first `count` exist, and where those begin that will be read next. They are bf16, rows as
/// in the file or of WeightLayout::pairs16; or quantised, in tiles of 32 rows (WeightLayout::tile32).
struct RowTile {
  const std::byte* at = nullptr;
  std::int64_t stride = 0;  ///< bytes from row to row, of rows as in the file
  std::int64_t count = 0;
  const std::byte* next = nullptr;
  /// Set where they are in pairs, or quantised. Then `at` and `next` are where a tile of 16 or of 32 rows begins,
  /// `jump` is the bytes from there to the next one, and `first` says which of its rows the first row is.
  bool in_pairs = false;
  const QuantPairs* quant = nullptr;
  std::int64_t jump = 0, first = 0;

  /// Whether they are pairs, or are decoded to such.
  bool gives_pairs() const { return in_pairs || quant != nullptr; }
  /// Whether a register can be loaded from them, or they can be decoded together.
  bool is_whole() const {
    if (gives_pairs()) return first % kRegisterRows == 0;
    return count == kRegisterRows;
  }
};

/// The rows of one call of the micro-kernel.
struct RowPair {
  RowTile tiles[2];

  /// Whether some rows are in pairs or decoded to such; whether all are; whether all are in pairs as they are.
  bool has_pairs() const { return tiles[0].gives_pairs() || tiles[1].gives_pairs(); }
  bool gives_pairs() const { return tiles[0].gives_pairs() && (tiles[1].count == 0 || tiles[1].gives_pairs()); }
  bool in_pairs() const { return tiles[0].in_pairs && (tiles[1].count == 0 || tiles[1].in_pairs); }
};

/// Panels of one call: where k = 0 of each is.
struct PanelPair {
  const std::uint32_t* at[2] = {nullptr, nullptr};
};

template <int row_tiles, int panels>
inline void zero_sums() {
  tile_zero<4>();
  if constexpr (panels == 2) tile_zero<5>();
  if constexpr (row_tiles == 2) tile_zero<6>();
  if constexpr (row_tiles == 2 && panels == 2) tile_zero<7>();
}

/// sums: [weights 0 | 1][tokens 0 | 1][16 features][16 tokens].
template <int row_tiles, int panels>
inline void load_sums(const float* sums) {
  tile_load<4>(sums, 64);
  if constexpr (panels == 2) tile_load<5>(sums + kTileFloats, 64);
  if constexpr (row_tiles == 2) tile_load<6>(sums + 2 * kTileFloats, 64);
  if constexpr (row_tiles == 2 && panels == 2) tile_load<7>(sums + 3 * kTileFloats, 64);
}

template <int row_tiles, int panels>
inline void store_sums(float* sums, std::int64_t stride = 64, std::int64_t panel_floats = kTileFloats,
                       std::int64_t row_floats = 2 * kTileFloats) {
  tile_store<4>(sums, stride);
  if constexpr (panels == 2) tile_store<5>(sums + panel_floats, stride);
  if constexpr (row_tiles == 2) tile_store<6>(sums + row_floats, stride);
  if constexpr (row_tiles == 2 && panels == 2) tile_store<7>(sums + row_floats + panel_floats, stride);
}

template <int tile, bool once>
[[gnu::always_inline]] inline void load_activations(const std::uint32_t* at) {
  once ? tile_load_once<tile>(at, 64) : tile_load<tile>(at, 64);
}

/// What is called after each of the four multiplications of a step, with its number, whether there is such a one or
/// not.
struct NothingAfter {
  void operator()(int) const {}
};

/// One step of 32 k: weights at w0 and w1, activations at x0 and x1. `once`: the L1 is for the weights.
template <int row_tiles, int panels, bool once = false, typename After = NothingAfter>
[[gnu::always_inline]] inline void multiply_step(const std::byte* w0, const std::byte* w1, std::int64_t stride,
                                                 const std::uint32_t* x0, const std::uint32_t* x1, After after = {}) {
  load_activations<2, once>(x0);
  if constexpr (panels == 2) load_activations<3, once>(x1);
  tile_load<0>(w0, stride);
  tile_multiply<4, 0, 2>();
  after(0);
  if constexpr (panels == 2) tile_multiply<5, 0, 3>();
  after(1);
  if constexpr (row_tiles == 2) {
    tile_load<1>(w1, stride);
    tile_multiply<6, 1, 2>();
  }
  after(2);
  if constexpr (row_tiles == 2 && panels == 2) tile_multiply<7, 1, 3>();
  after(3);
}

/// The same of weights in pairs and turned panels, whose sums have tokens as rows and features as lanes. Registers have
/// what they have in multiply_step(): the operands change places. weights(i): where tile i is.
template <int row_tiles, int panels, bool once = false, typename WeightsOf, typename After = NothingAfter>
[[gnu::always_inline]] inline void multiply_turned_step(WeightsOf weights, const std::uint32_t* x0,
                                                        const std::uint32_t* x1, After after = {}) {
  load_activations<2, once>(x0);
  if constexpr (panels == 2) load_activations<3, once>(x1);
  tile_load<0>(weights(0), 64);
  tile_multiply<4, 2, 0>();
  after(0);
  if constexpr (panels == 2) tile_multiply<5, 3, 0>();
  after(1);
  if constexpr (row_tiles == 2) {
    tile_load<1>(weights(1), 64);
    tile_multiply<6, 2, 1>();
  }
  after(2);
  if constexpr (row_tiles == 2 && panels == 2) tile_multiply<7, 3, 1>();
  after(3);
}

/// Columns [k, k + 32) of rows that end before `cols`, zeros after them: a tile load would read the next row there,
/// and its NaN times zero is not zero; after the last row it would fault.
inline void copy_edge(const RowTile& rows, std::int64_t k, std::int64_t cols, std::byte* out) {
  const std::int64_t rest = cols - k;
  const __mmask32 lanes = rest >= kStep ? ~__mmask32{0} : (__mmask32{1} << rest) - 1;
  for (std::int64_t r = 0; r < kRegisterRows; ++r) {
    const __mmask32 there = r < rows.count ? lanes : 0;
    _mm512_store_si512(out + 64 * r, _mm512_maskz_loadu_epi16(there, rows.at + r * rows.stride + 2 * k));
  }
}

template <int row_tiles, int panels>
inline void multiply_edge(const RowPair& w, std::int64_t k, std::int64_t cols, const PanelPair& x) {
  alignas(64) std::byte edge[2][kRegisterRows * 64];
  for (int i = 0; i < row_tiles; ++i) copy_edge(w.tiles[i], k, cols, edge[i]);
  multiply_step<row_tiles, panels>(edge[0], edge[1], 64, x.at[0] + k / 2 * 16, x.at[1] + k / 2 * 16);
}

/// Runs of memory that are fetched side by side: with few of them the memory does not reach its bandwidth.
inline constexpr std::int64_t kStreams = 8;

/// Fetches as much of what comes next as a step reads of these rows: a line for each row.
[[gnu::always_inline]] inline void prefetch_rows(const RowTile& rows, std::int64_t k) {
  constexpr std::int64_t kLines = kRegisterRows / kStreams;  // of each run
  const std::byte* at = rows.next + k / kStep * kLines * 64;
#pragma GCC unroll 8
  for (std::int64_t run = 0; run < kStreams; ++run, at += kLines * rows.stride)
#pragma GCC unroll 2
    for (std::int64_t line = 0; line < kLines; ++line)
      _mm_prefetch(reinterpret_cast<const char*>(at + 64 * line), _MM_HINT_T1);
}

/// Adds all of the rows' columns, and fetches the rows that come next, if asked to.
template <int row_tiles, int panels>
inline void add_columns(const RowPair& w, std::int64_t cols, const PanelPair& x, bool fetch) {
  bool whole = true;
  for (int i = 0; i < row_tiles; ++i) whole = whole && w.tiles[i].is_whole();
  std::int64_t k = 0;
  for (; whole && k + kStep <= cols; k += kStep) {
    if (fetch)
#pragma GCC unroll 2
      for (int i = 0; i < row_tiles; ++i) prefetch_rows(w.tiles[i], k);
    multiply_step<row_tiles, panels>(w.tiles[0].at + 2 * k, w.tiles[1].at + 2 * k, w.tiles[0].stride,
                                     x.at[0] + k / 2 * 16, x.at[1] + k / 2 * 16);
  }
  for (; k < cols; k += kStep) multiply_edge<row_tiles, panels>(w, k, cols, x);
}

}  // namespace
}  // namespace qinfer::kernels::amx
