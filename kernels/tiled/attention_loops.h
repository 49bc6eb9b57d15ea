// Attention, inner loops: scores are the projections' inner loop over K tiles; values times weights, in f32, are here.
// One kernel for each number of queries in a panel. F32Arithmetic says what attention computes with; those of an
// instruction set with narrower products are in its folder.
#pragma once

#include "tiled/attention_panel.h"
#include "tiled/f32_sums.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

/// What add_values() takes of one tile. While it reads the tile it fetches another one, of the same size, line by line:
/// V is [32 positions][padded], so for 32 of its features (d / 32) and a position j it reads one line of 32 values, and
/// fetches line 32 * (d / 32) + j of the next tile. All lines of the next tile are thus fetched once, in the order of
/// memory, whatever the tile holds; where queries see fewer than 32 positions, as many lines fewer.
struct ValueTile {
  const std::byte* values;   ///< the V tile
  const float* weights;      ///< of the panel's first query; kWeightsLd further on those of the next
  std::uint32_t begin, end;  ///< lanes that any query sees
  const std::byte* next;     ///< the tile to fetch
};

/// out += weights x V for `count` queries from `first` on and 16 * groups features from d on. `masked`: not all queries
/// see all lanes from begin to end.
template <DType type, int count, int groups, bool masked>
inline void add_strip(const Panel& panel, const ValueTile& tile, int first, std::int64_t d) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  const std::int64_t padded = panel.padded;
  F32x16 sums[count][groups];
#pragma GCC unroll 12
  for (int m = 0; m < count; ++m)
#pragma GCC unroll 2
    for (int g = 0; g < groups; ++g) sums[m][g] = load(panel.out + (first + m) * padded + d + 16 * g);
  const float* weights = tile.weights + first * kWeightsLd;
  const std::byte* line = tile.values + (tile.begin * padded + d) * kBytes;
  const bool fetches = first == 0 && d % 32 == 0;
  for (std::uint32_t j = tile.begin; j < tile.end; ++j, line += padded * kBytes) {
    if (fetches) {
      prefetch_line(tile.next + (d + j) * 32 * kBytes);
      if constexpr (kBytes > 2) prefetch_line(tile.next + (d + j) * 32 * kBytes + 64);
    }
    F32x16 values[groups];
#pragma GCC unroll 2
    for (int g = 0; g < groups; ++g) values[g] = load16<type>(line + 16 * g * kBytes);
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      if constexpr (masked)
        if ((panel.seen[first + m] >> j & 1u) == 0) continue;
      const F32x16 weight = splat(weights[m * kWeightsLd + static_cast<int>(j)]);
#pragma GCC unroll 2
      for (int g = 0; g < groups; ++g) sums[m][g] = mul_add(values[g], weight, sums[m][g]);
    }
  }
#pragma GCC unroll 12
  for (int m = 0; m < count; ++m)
#pragma GCC unroll 2
    for (int g = 0; g < groups; ++g) store(panel.out + (first + m) * padded + d + 16 * g, sums[m][g]);
}

/// out += weights x V, as many queries and features at a time as registers hold sums of.
template <DType type, int count, bool masked>
void add_values(const Panel& panel, const ValueTile& tile) {
  constexpr int kHalf = (count + 1) / 2, kFirst = count <= kSumTokens ? count : kHalf;
  static_assert(kFirst <= kSumTokens);
  for (std::int64_t d = 0; d < panel.padded; d += 16 * kSumGroups) {
    if (panel.padded - d >= 16 * kSumGroups) {
      add_strip<type, kFirst, kSumGroups, masked>(panel, tile, 0, d);
      if constexpr (kFirst < count) add_strip<type, count - kFirst, kSumGroups, masked>(panel, tile, kFirst, d);
    } else {  // the last 16 features, of sets that take 32 at a time
      add_strip<type, kFirst, 1, masked>(panel, tile, 0, d);
      if constexpr (kFirst < count) add_strip<type, count - kFirst, 1, masked>(panel, tile, kFirst, d);
    }
  }
}

/// All in f32, over caches of every type.
struct F32Arithmetic {
  using Queries = F32Values;
  template <DType type>
  using Scores = F32Sums<type>;
  /// Where there are many queries, keys are widened to f32 once for all of them.
  static constexpr bool kWidens = true;
  /// Positions of a dword of weights.
  static constexpr std::uint32_t kPositions = 1;
  /// log2 of what a weight of the largest score is stored as; the same factor is in sums and outputs, and cancels.
  static constexpr float kWeightExponent = 0;

  /// Stores the 32 weights of a tile as the values' inner loop wants them.
  static void store_weights(float* at, F32x16 low, F32x16 high) {
    store(at, low);
    store(at + 16, high);
  }
  template <DType type, int count, bool masked>
  static void add_values(const Panel& panel, const ValueTile& tile) {
    QINFER_ISA::add_values<type, count, masked>(panel, tile);
  }
  template <typename F>
  static void with_kv_type(DType type, F f) {
    with_dtype(type, f);
  }
};

using ValueKernel = void (*)(const Panel& panel, const ValueTile& tile);

template <typename Sums>
struct AttentionScores {
  PanelKernel at[kPanelTokens + 1] = {};

  template <int count>
  constexpr void fill() {
    at[count] = &Sums::template run<count, 1>;
    if constexpr (count > 1) fill<count - 1>();
  }
  constexpr AttentionScores() { fill<kPanelTokens>(); }
};

template <DType type, typename Arithmetic>
struct ValueKernels {
  ValueKernel at[kPanelTokens + 1][2] = {};

  template <int count>
  constexpr void fill() {
    at[count][0] = &Arithmetic::template add_values<type, count, false>;
    at[count][1] = &Arithmetic::template add_values<type, count, true>;
    if constexpr (count > 1) fill<count - 1>();
  }
  constexpr ValueKernels() { fill<kPanelTokens>(); }
};

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
