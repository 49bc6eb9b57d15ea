// Attention, inner loops: scores are the projections' inner loop over K tiles; values times weights, in f32, are here.
// One kernel for each number of queries in a panel. F32Arithmetic says what attention computes with; those of an
// instruction set with narrower products are in its folder.
#pragma once

#include "tiled/attention_panel.h"
#include "tiled/f32_sums.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

/// A V tile, [32 positions][padded], and what it is multiplied with and added to.
struct ValueTile {
  const std::byte* values;
  const float* weights;       ///< of the first query; kWeightsLd further on those of the next
  float* out;                 ///< [query][padded]
  const std::uint32_t* seen;  ///< the lanes that each query sees, one bit each
  const std::byte* next;      ///< the tile, of the same size, to fetch meanwhile
};

/// What is fetched while a strip of a V tile is read, its `bytes` in each row: what is read 12 lines later into the L1,
/// and of the next tile as many lines as are read into the L2.
template <std::int64_t bytes>
struct StripFetch {
  static constexpr auto kRowsAhead = static_cast<std::uint32_t>((12 * 64 + bytes - 1) / bytes);
  std::int64_t row_bytes;
  std::uint32_t end;
  const std::byte* after;  ///< what follows the last row: the next strip of this tile, or the next tile
  const std::byte* far;    ///< the next tile's part

  /// `at`: bytes of a row before the strip; of `rows` those in `read` are read.
  StripFetch(const ValueTile& tile, std::int64_t at, std::int64_t bytes_of_row, Range<std::uint32_t> read,
             std::int64_t rows)
      : row_bytes(bytes_of_row), end(read.end), far(tile.next + at * rows) {
    const std::int64_t first = read.begin * row_bytes;
    after = at + bytes < row_bytes ? tile.values + first + at + bytes : tile.next + first;
  }
  /// With the strip's part of row j, `row`, from `offset` on.
  void line(const std::byte* row, std::uint32_t j, std::int64_t offset) const {
    const std::uint32_t then = j + kRowsAhead;
    prefetch_line((then < end ? row + kRowsAhead * row_bytes : after + (then - end) * row_bytes) + offset);
    prefetch_far(far + j * bytes + offset);
  }
};

/// How many times 16 features are summed at once for this many queries: as many as registers hold sums of, because each
/// sum waits for the one before.
constexpr int groups_for(int queries) {
  int groups = 8;
  while (groups > 1 && queries * groups > kSumTokens * kSumGroups) groups /= 2;
  return groups;
}

/// Calls strip.operator()<groups>(d) for all features d: as many as can be at once, then what is left.
template <int groups, typename Strip>
inline void for_each_strip(std::int64_t padded, std::int64_t d, Strip strip) {
  for (; padded - d >= 16 * groups; d += 16 * groups) strip.template operator()<groups>(d);
  if constexpr (groups > 1) for_each_strip<groups / 2>(padded, d, strip);
}

/// out += weights x V for `count` queries from `first` on and 16 * groups features from d on. `masked`: not all queries
/// see all lanes.
template <DType type, int count, int groups, bool masked>
inline void add_strip(const ValueTile& tile, std::int64_t padded, Range<std::uint32_t> lanes, int first,
                      std::int64_t d) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  const std::int64_t row_bytes = padded * kBytes;
  F32x16 sums[count][groups];
#pragma GCC unroll 12
  for (int m = 0; m < count; ++m)
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) sums[m][g] = load(tile.out + (first + m) * padded + d + 16 * g);
  const StripFetch<16 * groups * kBytes> fetch(tile, d * kBytes, row_bytes, lanes, kTileTokens);
  const float* weights = tile.weights + first * kWeightsLd;
  const std::byte* row = tile.values + lanes.begin * row_bytes + d * kBytes;
  for (std::uint32_t j = lanes.begin; j < lanes.end; ++j, row += row_bytes) {
    F32x16 values[groups];
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) {
      const std::int64_t at = 16 * g * kBytes;
      if (first == 0 && at % 64 == 0) fetch.line(row, j, at);
      values[g] = load16<type>(row + at);
    }
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      if constexpr (masked)
        if ((tile.seen[first + m] >> j & 1u) == 0) continue;
      const F32x16 weight = splat(weights[m * kWeightsLd + static_cast<int>(j)]);
#pragma GCC unroll 8
      for (int g = 0; g < groups; ++g) sums[m][g] = mul_add(values[g], weight, sums[m][g]);
    }
  }
#pragma GCC unroll 12
  for (int m = 0; m < count; ++m)
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) store(tile.out + (first + m) * padded + d + 16 * g, sums[m][g]);
}

/// out += weights x V, as many queries and features at a time as registers hold sums of.
template <DType type, int count, bool masked>
void add_values(const ValueTile* tile, std::int64_t padded, Range<std::uint32_t> lanes) {
  constexpr int kHalf = (count + 1) / 2, kFirst = count <= kSumTokens ? count : kHalf;
  static_assert(kFirst <= kSumTokens);
  for_each_strip<groups_for(kFirst)>(padded, 0, [&]<int groups>(std::int64_t d) {
    add_strip<type, kFirst, groups, masked>(*tile, padded, lanes, 0, d);
    if constexpr (kFirst < count) add_strip<type, count - kFirst, groups, masked>(*tile, padded, lanes, kFirst, d);
  });
}

/// Two tiles that are read line by line in turn, each with its own weights and sums, for one query.
template <DType type, int groups>
inline void add_two_strips(const ValueTile* tiles, std::int64_t padded, Range<std::uint32_t> lanes, int query,
                           std::int64_t d) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  const std::int64_t row_bytes = padded * kBytes;
  F32x16 sums[2][groups];
#pragma GCC unroll 2
  for (int t = 0; t < 2; ++t)
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) sums[t][g] = load(tiles[t].out + query * padded + d + 16 * g);
  using Fetch = StripFetch<16 * groups * kBytes>;
  const Fetch fetch[2] = {{tiles[0], d * kBytes, row_bytes, lanes, kTileTokens},
                          {tiles[1], d * kBytes, row_bytes, lanes, kTileTokens}};
  for (std::uint32_t j = lanes.begin; j < lanes.end; ++j) {
    const std::int64_t at_row = j * row_bytes + d * kBytes, of_query = query * kWeightsLd + static_cast<int>(j);
    const F32x16 weights[2] = {splat(tiles[0].weights[of_query]), splat(tiles[1].weights[of_query])};
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g)
#pragma GCC unroll 2
      for (int t = 0; t < 2; ++t) {
        const std::byte* row = tiles[t].values + at_row;
        const std::int64_t at = 16 * g * kBytes;
        if (at % 64 == 0) fetch[t].line(row, j, at);
        sums[t][g] = mul_add(load16<type>(row + at), weights[t], sums[t][g]);
      }
  }
#pragma GCC unroll 2
  for (int t = 0; t < 2; ++t)
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) store(tiles[t].out + query * padded + d + 16 * g, sums[t][g]);
}

/// out += weights x V for two tiles, query by query: the first brings the tiles into the L1, where the others find
/// them if heads are not too wide for it. What is fetched is asked for with every query, because a core drops
/// prefetches while it waits for many lines: on Zen 4 decoding after 16k tokens takes 8 to 20 % longer if it is asked
/// for once.
template <DType type, int count>
void add_two_values(const ValueTile* tiles, std::int64_t padded, Range<std::uint32_t> lanes) {
  for (int query = 0; query < count; ++query)
    for_each_strip<groups_for(2)>(
        padded, 0, [&]<int groups>(std::int64_t d) { add_two_strips<type, groups>(tiles, padded, lanes, query, d); });
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

  /// K tiles of a head that decode scores at once, at most.
  static constexpr int kScoreTiles = 4;
  /// Whether decode adds the values of two KV heads at once: where registers hold sums of all usual features, so that
  /// tiles are read in the order of memory, and queries are few, so that it waits more than it computes.
  static constexpr bool takes_two(int queries) { return groups_for(2) == 8 && queries <= 4; }
  /// Stores the 32 weights of a tile as the values' inner loop wants them.
  static void store_weights(float* at, F32x16 low, F32x16 high) {
    store(at, low);
    store(at + 16, high);
  }
  template <DType type, int count, bool masked>
  static void add_values(const ValueTile* tile, std::int64_t padded, Range<std::uint32_t> lanes) {
    QINFER_ISA::add_values<type, count, masked>(tile, padded, lanes);
  }
  template <DType type, int count>
  static void add_two_values(const ValueTile* tiles, std::int64_t padded, Range<std::uint32_t> lanes) {
    QINFER_ISA::add_two_values<type, count>(tiles, padded, lanes);
  }
  template <typename F>
  static void with_kv_type(DType type, F f) {
    with_dtype(type, f);
  }
};

/// The inner loops of scores, for as many tiles at once as an arithmetic and its registers allow.
template <typename Sums, int most_tiles>
struct AttentionScores {
  PanelKernel at[kPanelTokens + 1][most_tiles + 1] = {};

  static constexpr int tiles_for(int count) {
    return Sums::tiles_for(count) < most_tiles ? Sums::tiles_for(count) : most_tiles;
  }
  template <int count, int tiles>
  constexpr void fill() {
    at[count][tiles] = &Sums::template run<count, tiles>;
    if constexpr (tiles > 1) {
      fill<count, tiles - 1>();
    } else if constexpr (count > 1) {
      fill<count - 1, tiles_for(count - 1)>();
    }
  }
  constexpr AttentionScores() { fill<kPanelTokens, tiles_for(kPanelTokens)>(); }
};

using ValueKernel = void (*)(const ValueTile* tiles, std::int64_t padded, Range<std::uint32_t> lanes);

template <DType type, typename Arithmetic>
struct ValueKernels {
  ValueKernel at[kPanelTokens + 1][2] = {};  ///< of one tile, not masked and masked
  ValueKernel two[kPanelTokens + 1] = {};    ///< of two, not masked; null where they are not taken

  template <int count>
  constexpr void fill() {
    at[count][0] = &Arithmetic::template add_values<type, count, false>;
    at[count][1] = &Arithmetic::template add_values<type, count, true>;
    if constexpr (Arithmetic::takes_two(count)) two[count] = &Arithmetic::template add_two_values<type, count>;
    if constexpr (count > 1) fill<count - 1>();
  }
  constexpr ValueKernels() { fill<kPanelTokens>(); }
};

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
