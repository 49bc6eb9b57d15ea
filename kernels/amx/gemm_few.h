// Matrix multiplications of up to two panels (32 tokens): every pair of row tiles takes all of k at once, and weights
// are read once. Up to kVectorTokens tokens go through AVX-512, several row pairs side by side, where weights are in
// pairs, and up to kQuantVectorTokens where they are quantised; all others through tiles.
#pragma once

#include "amx/gemm.h"

namespace qinfer::kernels::amx {
namespace {

/// A worker's room for it: sums of kMostPairsAtOnce blocks, the ring of decoded rows, kVectorTokens split tokens, and
/// up to two turned panels.
struct FewRoom {
  float* sums;
  std::byte* ring;
  float* split;
  std::uint32_t* turned;
};

/// Operands in the forms that multiplications take, each made once if panels do not have it yet.
class Operands {
 public:
  Operands(const Panels& x, const FewRoom& room) : x_(x), room_(room), rows_(x.turned) {}

  const std::uint32_t* turned() {
    if (rows_ == nullptr) {
      turn_panels(x_.data, x_.count(), x_.cols, room_.turned, panel_dwords(x_.cols));
      rows_ = room_.turned;
    }
    return rows_;
  }
  PanelPair turned_pair() {
    const std::int64_t stride = x_.turned != nullptr ? x_.stride : panel_dwords(x_.cols);
    return {{turned(), turned() + stride}};
  }
  /// Of up to kVectorTokens tokens.
  const float* split() {
    if (!is_split_) split_tokens(turned(), steps(), x_.n, room_.split);
    is_split_ = true;
    return room_.split;
  }
  std::int64_t steps() const { return padded_k(x_.cols) / kStep; }

 private:
  const Panels& x_;
  const FewRoom& room_;
  const std::uint32_t* rows_;
  bool is_split_ = false;
};

/// The row pairs that are still to be multiplied, each of which is asked for once: those that are multiplied now, and
/// as many after them.
template <typename RowsAt>
class RowsToCome {
 public:
  RowsToCome(std::int64_t n_pairs, RowsAt rows) : n_pairs_(n_pairs), rows_(rows) { fill(); }

  std::int64_t first() const { return first_; }  ///< the number of the first one
  int available() const { return static_cast<int>(available_); }
  const RowPair& operator[](int i) const { return pairs_[i]; }

  /// The first `count` of them are multiplied at once: what each tile is followed by is its counterpart in those after
  /// them.
  void follow(int count) {
    for (int i = 0; i < count && i + count < available_; ++i) pairs_[i] = followed_by(pairs_[i], pairs_[i + count]);
  }
  void drop(int count) {
    first_ += count, available_ -= count;
    for (std::int64_t i = 0; i < available_; ++i) pairs_[i] = pairs_[i + count];
    fill();
  }

 private:
  void fill() {
    for (; available_ < 2 * kMostPairsAtOnce && first_ + available_ < n_pairs_; ++available_)
      pairs_[available_] = rows_(first_ + available_);
  }

  std::int64_t n_pairs_, first_ = 0, available_ = 0;
  RowsAt rows_;
  RowPair pairs_[2 * kMostPairsAtOnce];
};

/// The sums of some row pairs in pairs, with up to kVectorTokens tokens, in a block for each; all tiles of all pairs
/// but of a single one have rows.
template <int pairs, int row_tiles, int tokens, typename Rows>
inline void multiply_vectors(const Rows& w, Operands& x, float* sums) {
  const RowTile* tiles[pairs * row_tiles];
  float* out[pairs * row_tiles];
  for (int i = 0; i < pairs * row_tiles; ++i) {
    tiles[i] = &w[i / row_tiles].tiles[i % row_tiles];
    out[i] = sums + i / row_tiles * kSumFloats + i % row_tiles * 2 * kTileFloats;
  }
  multiply_vectors<pairs * row_tiles, tokens>(tiles, x.steps(), x.split(), out);
}

/// Multiplies the first row pairs, of which the first is in pairs, with up to kVectorTokens tokens, and returns how
/// many.
template <int tokens, typename Rows>
inline int multiply_few_vectors(Operands& x, float* sums, Rows& w) {
  constexpr int kMost = kPairsAtOnce<tokens>;
  int whole = 0;  // of two tiles in pairs each
  while (whole < kMost && whole < w.available() && w[whole].in_pairs() && row_tiles_of(w[whole]) == 2) ++whole;
  const int count = whole == kMost ? kMost : whole >= 2 ? 2 : 1;
  w.follow(count);
  if (count == kMost) {
    multiply_vectors<kMost, 2, tokens>(w, x, sums);
  } else if (count == 2) {
    multiply_vectors<2, 2, tokens>(w, x, sums);
  } else if (whole == 1) {
    multiply_vectors<1, 2, tokens>(w, x, sums);
  } else {
    multiply_vectors<1, 1, tokens>(w, x, sums);
  }
  return count;
}

/// Whether all rows are decoded by `quant`, and begin where strips do.
inline bool are_strips(const RowPair& w, const QuantPairs* quant) {
  bool alike = quant != nullptr;
  for (int t = 0; t < row_tiles_of(w); ++t) alike = alike && w.tiles[t].quant == quant && w.tiles[t].is_whole();
  return alike;
}

/// The same of row pairs the first of which has strips.
template <int tokens, typename Rows>
inline int multiply_few_quantised(Operands& x, float* sums, Rows& w) {
  const QuantPairs* quant = w[0].tiles[0].quant;
  int count = 0;
  while (count < kPairsAtOnce<tokens> && count < w.available() && are_strips(w[count], quant)) ++count;
  w.follow(count);
  QuantStrips strips;
  float* out[QuantStrips::kMost];
  for (int j = 0; j < count; ++j)
    for (int t = 0; t < row_tiles_of(w[j]); ++t) {
      const RowTile& tile = w[j].tiles[t];
      strips.at[strips.count] = tile.at, strips.next[strips.count] = tile.next;
      strips.half[strips.count] = tile.first / kRegisterRows;
      out[strips.count++] = sums + j * kSumFloats + t * 2 * kTileFloats;
    }
  quant->vectors[tokens - 1](strips, x.steps(), x.split(), out);
  return count;
}

/// Multiplies the first row pairs by AVX-512, and returns how many, which may be none.
template <typename Rows>
inline int multiply_in_vectors(std::int64_t n, Operands& x, float* sums, Rows& w) {
  if (!w[0].gives_pairs() || n > (w[0].in_pairs() ? kVectorTokens : kQuantVectorTokens)) return 0;
  if (!w[0].in_pairs() && !are_strips(w[0], w[0].tiles[0].quant)) return 0;
  int count = 0;
  with_tokens(n, [&]<int tokens>() {
    if (w[0].in_pairs()) {
      count = multiply_few_vectors<tokens>(x, sums, w);
    } else if constexpr (tokens <= kQuantVectorTokens) {
      count = multiply_few_quantised<tokens>(x, sums, w);
    }
  });
  return count;
}

/// Multiplies the first row pair on tiles, or the first two of them, and returns how many. Sums of pairs are turned.
template <typename Rows>
inline int multiply_on_tiles(const Panels& x, Operands& operands, const FewRoom& room, Rows& w) {
  const bool turns = w[0].gives_pairs();
  const std::int64_t steps = operands.steps();
  const PanelPair of_turned = turns ? operands.turned_pair() : PanelPair();
  const auto is_decoded = [](const RowPair& rows) {
    return rows.gives_pairs() && !rows.in_pairs() && row_tiles_of(rows) == 2;
  };
  if (x.count() == 1 && w.available() > 1 && is_decoded(w[0]) && is_decoded(w[1])) {
    w.follow(2);
    multiply_two_decoded(w[0], w[1], steps, of_turned.at[0], room.ring, room.sums, kSumFloats);
    return 2;
  }
  with_tiles(row_tiles_of(w[0]), x.panels(0), [&]<int row_tiles, int panels>() {
    if (w[0].in_pairs()) return multiply_turned<row_tiles, panels>(w[0], steps, of_turned, true, room.sums);
    if (turns) return multiply_decoded<row_tiles, panels>(w[0], steps, of_turned, room.ring, room.sums);
    zero_sums<row_tiles, panels>();
    w[0].has_pairs() ? add_mixed<row_tiles, panels>(w[0], x.cols, x.pair(0), room.ring)
                     : add_columns<row_tiles, panels>(w[0], x.cols, x.pair(0), true);
    store_sums<row_tiles, panels>(room.sums);
  });
  return 1;
}

/// Multiplies up to two panels with row pairs 0 .. n_pairs - 1 (rows(i); where its second tile is empty, only the first
/// is computed) and hands every block to `sink`, in order. `room`: what a worker has for it.
template <typename RowsAt, typename Sink>
inline void multiply_few(const Panels& x, std::int64_t n_pairs, const FewRoom& room, RowsAt rows, Sink sink) {
  Operands operands(x, room);
  for (RowsToCome<RowsAt> w(n_pairs, rows); w.available() > 0;) {
    int count = multiply_in_vectors(x.n, operands, room.sums, w);
    if (count == 0) count = multiply_on_tiles(x, operands, room, w);
    for (int j = 0; j < count; ++j)
      sink(SumBlock{w.first() + j, 0, row_tiles_of(w[j]), x.panels(0), room.sums + j * kSumFloats, w[j].gives_pairs()});
    w.drop(count);
  }
}

}  // namespace
}  // namespace qinfer::kernels::amx
