// What attention over the KV cache has in common on every backend: which keys a query sees, how the work is cut into
// units, and the order in which partial results are folded.
//
// Keys are cut at absolute positions: tiles of 32 inside segments of 512. Each segment is reduced from empty (how is
// the backend's, the same for every query), and the segments are folded in ascending order as in an online softmax
// (Milakov and Gimelshein 2018, algorithm 3). The result of a query therefore depends on its own position alone: not on
// the chunk it came in, the other rows, the threads, or whether segments were computed in one unit or in several
// (`split`).
//
// A backend brings a Policy:
//   rows_per_unit(group)                          rows of one unit
//   scratch_floats(group, width, padded)          of each worker, besides the states
//   reduce(args, unit, segment, scratch, states)  segment `segment` of every (row, head) of the unit, from empty
//   reduce_heads(args, run, next, ...)            the same for the KV heads of a run, which are of one row; `next`: the
//                                                 run that is reduced after it, or null
//   fold(total, part, width)                      total and part become one
//   write(args, head, row, n, states, stride)     a finished head of n rows of the batch
// and may bring
//   attends(unit), attend(args, unit, scratch)    whether and how it does all of this itself for a unit, in the memory
//                                                 of the worker's states and scratch
// Everything is in an unnamed namespace: files with different instruction sets include this header.
#pragma once

#include <cstring>
#include <limits>

#include "common/range.h"
#include "kernel_set.h"

namespace qinfer::kernels {
namespace {

inline constexpr std::uint32_t kSegmentTiles = kSegmentTokens / kTileTokens;
inline constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();

/// Running softmax of one query head: the largest score, or one near it, by which weights are scaled, and their sum.
/// The weighted sum of values, head_dim floats, follows in memory.
struct Partial {
  float max, sum;
  float* out() { return reinterpret_cast<float*>(this) + 2; }
};

inline std::uint64_t partial_floats(std::uint32_t head_dim) { return 2 + std::uint64_t{head_dim}; }

inline Partial& partial_at(float* base, std::uint64_t index, std::uint32_t head_dim) {
  return *reinterpret_cast<Partial*>(base + index * partial_floats(head_dim));
}

/// Calls write(state, its place in args.out) for a finished head of n row-major rows.
template <typename Write>
inline void write_rows(const AttentionArgs& args, std::uint32_t head, std::int64_t row, std::int64_t n, float* states,
                       std::uint64_t stride, Write write) {
  for (std::int64_t r = 0; r < n; ++r)
    write(partial_at(states + static_cast<std::uint64_t>(r) * stride, 0, args.kv.head_dim),
          args.out.row(row + r) + std::int64_t{head} * args.kv.head_dim);
}

inline void copy_partial(float* to, const float* from, std::uint64_t index, std::uint32_t head_dim) {
  const std::uint64_t floats = partial_floats(head_dim);
  std::memcpy(to + index * floats, from + index * floats, floats * sizeof(float));
}

/// The positions of the keys that position p of a sequence may see.
inline Range<std::uint32_t> visible(const AttentionArgs& args, const Sequence& sequence, std::uint32_t position) {
  const std::uint32_t first = args.window != 0 && position >= args.window ? position - args.window + 1 : 0;
  if (args.causal) return {first, position + 1};
  const std::uint32_t end = sequence.first_position + static_cast<std::uint32_t>(sequence.n_rows);
  const bool all = args.window == 0 || args.window > end - position;
  return {first, all ? end : position + args.window};
}

/// The lanes of the tile that starts at position `origin` which have such positions.
inline Range<std::uint32_t> lanes_of(const Range<std::uint32_t>& positions, std::uint32_t origin) {
  if (positions.end <= origin || positions.begin >= origin + kTileTokens) return {0, 0};
  const std::uint32_t begin = positions.begin > origin ? positions.begin - origin : 0;
  const std::uint32_t end = positions.end - origin < kTileTokens ? positions.end - origin : kTileTokens;
  return {begin, end};
}

/// The tiles of a segment that have such positions.
inline Range<std::uint32_t> tiles_of_segment(std::uint32_t segment, const Range<std::uint32_t>& positions) {
  const std::uint32_t first = segment * kSegmentTiles, begin = positions.begin / kTileTokens,
                      end = (positions.end + kTileTokens - 1) / kTileTokens;
  return {begin > first ? begin : first, end < first + kSegmentTiles ? end : first + kSegmentTiles};
}

/// What is added to a query's scores of a tile; null: nothing.
inline const float* tile_bias(const AttentionArgs& args, std::uint32_t head, std::uint32_t position,
                              std::uint32_t tile) {
  if (args.bias.values == nullptr) return nullptr;
  return args.bias.values + args.bias.of_tile(head, position, tile * kTileTokens);
}

struct AttentionUnit {
  const Sequence* sequence;
  std::int64_t first_row, n_rows;  ///< rows of the sequence
  std::uint32_t kv_head;

  std::uint32_t position(std::int64_t row) const {
    return sequence->first_position + static_cast<std::uint32_t>(first_row + row);
  }
  /// The keys that a row sees.
  Range<std::uint32_t> keys(const AttentionArgs& args, std::int64_t row) const {
    return visible(args, *sequence, position(row));
  }
  /// The keys that any row sees.
  Range<std::uint32_t> all_keys(const AttentionArgs& args) const {
    return {keys(args, 0).begin, keys(args, n_rows - 1).end};
  }
  const std::byte* k_tile(const AttentionArgs& args, std::uint32_t tile) const {
    return sequence->kv.k_tile(args.kv, args.layer, kv_head, tile);
  }
};

/// Neighbouring KV heads of one segment, for one row: what decode reduces at once.
struct HeadRun {
  AttentionUnit first;
  std::uint32_t n_kv_heads, segment;
};

inline Range<std::uint32_t> segments_of(const AttentionArgs& args, const Sequence& sequence, std::uint32_t position) {
  const Range<std::uint32_t> keys = visible(args, sequence, position);
  return {keys.begin / kSegmentTokens, (keys.end - 1) / kSegmentTokens + 1};
}

inline std::uint32_t count_of(const Range<std::uint32_t>& range) { return range.end - range.begin; }

inline std::int64_t total_rows(const AttentionArgs& args) {
  std::int64_t rows = 0;
  for (const Sequence& sequence : args.sequences) rows += sequence.n_rows;
  return rows;
}

inline std::uint64_t split_partials(const AttentionArgs& args) {
  std::uint64_t count = 0;
  for (const Sequence& sequence : args.sequences)
    for (std::int32_t row = 0; row < sequence.n_rows; ++row)
      count += count_of(segments_of(args, sequence, sequence.first_position + static_cast<std::uint32_t>(row)));
  return count * args.n_heads;
}

template <typename Policy>
struct SegmentedAttention {
  static std::uint32_t group(const AttentionArgs& args) { return args.n_heads / args.kv.n_kv_heads; }

  static std::int64_t blocks_of(const AttentionArgs& args, const Sequence& sequence) {
    const std::int64_t rows = Policy::rows_per_unit(group(args));
    return (sequence.n_rows + rows - 1) / rows;
  }

  /// A split attention folds its partial results in a second phase.
  static std::int32_t phases(const AttentionArgs& args) { return args.split ? 2 : 1; }

  static std::int64_t units(const AttentionArgs& args, std::int32_t phase) {
    if (args.split) {
      if (phase == 1) return total_rows(args) * args.n_heads;
      return static_cast<std::int64_t>(split_partials(args) / group(args));
    }
    std::int64_t blocks = 0;
    for (const Sequence& sequence : args.sequences) blocks += blocks_of(args, sequence);
    return blocks * args.kv.n_kv_heads;
  }

  static void run(const AttentionArgs& args, std::int32_t phase, Slice slice) {
    float* scratch = reinterpret_cast<float*>(args.workspace.of(slice.worker));
    if (args.split) {
      phase == 0 ? reduce_split(args, slice, scratch) : fold_split(args, slice);
      return;
    }
    std::int64_t index = 0;
    for (const Sequence& sequence : args.sequences) {
      const std::int64_t blocks = blocks_of(args, sequence), all = blocks * args.kv.n_kv_heads;
      const std::int64_t begin = slice.begin > index ? slice.begin - index : 0;
      const std::int64_t end = slice.end - index < all ? slice.end - index : all;
      for (std::int64_t u = begin; u < end; ++u) whole_unit(args, sequence, blocks, u, scratch);
      index += all;
    }
  }

  static WorkspaceSize workspace(const Shape& shape) {
    const std::uint32_t heads = shape.n_heads / shape.n_kv_heads;
    const auto rows = static_cast<std::uint64_t>(Policy::rows_per_unit(heads));
    const std::uint64_t floats = 2 * rows * heads * partial_floats(shape.head_dim) +
                                 Policy::scratch_floats(heads, shape.head_dim, shape.head_dim_padded);
    // Split attention is for few rows: room for one row at the full context.
    const std::uint64_t segments = ceil_div(shape.context, kSegmentTokens);
    return {round_up(segments * shape.n_heads * partial_floats(shape.head_dim) * sizeof(float), 64),
            round_up(floats * sizeof(float), 64)};
  }

  static std::uint64_t split_bytes(const AttentionArgs& args) {
    return split_partials(args) * partial_floats(args.kv.head_dim) * sizeof(float);
  }

 private:
  /// Blocks of a head are taken from both ends in turn: under the causal mask two neighbours then cost the same
  /// everywhere, and so does every run of units.
  static void whole_unit(const AttentionArgs& args, const Sequence& sequence, std::int64_t blocks, std::int64_t unit,
                         float* scratch) {
    const std::int64_t rows = Policy::rows_per_unit(group(args));
    const std::int64_t i = unit % blocks, block = i % 2 == 0 ? i / 2 : blocks - 1 - i / 2;
    const std::int64_t first = block * rows, rest = sequence.n_rows - first;
    attend(args, {&sequence, first, rest < rows ? rest : rows, static_cast<std::uint32_t>(unit / blocks)}, scratch);
  }

  /// All segments of a block of rows, one after the other.
  static void attend(const AttentionArgs& args, const AttentionUnit& unit, float* scratch) {
    if constexpr (requires { Policy::attends(unit); })
      if (Policy::attends(unit)) return Policy::attend(args, unit, scratch);
    const std::uint32_t width = args.kv.head_dim, heads = group(args);
    const auto count = static_cast<std::uint64_t>(unit.n_rows) * heads;
    float* totals = scratch;
    float* states = totals + static_cast<std::uint64_t>(Policy::rows_per_unit(heads)) * heads * partial_floats(width);
    float* rest = states + (states - totals);
    const Sequence& sequence = *unit.sequence;
    const Range<std::uint32_t> of_first = segments_of(args, sequence, unit.position(0)),
                               of_last = segments_of(args, sequence, unit.position(unit.n_rows - 1));
    std::uint32_t segment = of_first.begin;
    // The common case: all rows begin in the same segment.
    if (of_last.begin == segment) Policy::reduce(args, unit, segment++, rest, totals);
    for (; segment < of_last.end; ++segment) {
      Policy::reduce(args, unit, segment, rest, states);
      for (std::uint64_t r = 0; r < count; ++r) {
        // A row that sees nothing of this segment must not be touched by it: folding in "empty" would still round.
        const Range<std::uint32_t> range =
            segments_of(args, sequence, unit.position(static_cast<std::int64_t>(r / heads)));
        if (segment < range.begin || segment >= range.end) continue;
        if (segment == range.begin) {
          copy_partial(totals, states, r, width);
        } else {
          Policy::fold(partial_at(totals, r, width), partial_at(states, r, width), width);
        }
      }
    }
    for (std::uint32_t h = 0; h < heads; ++h)
      Policy::write(args, unit.kv_head * heads + h, sequence.first_row + unit.first_row, unit.n_rows,
                    totals + h * partial_floats(width), heads * partial_floats(width));
  }

  /// Units in the fixed order (sequence, row, segment, kv_head); partials in the same order, a group at a time.
  static void reduce_split(const AttentionArgs& args, Slice slice, float* scratch) {
    float* partials = reinterpret_cast<float*>(args.workspace.shared);
    const std::uint64_t floats = group(args) * partial_floats(args.kv.head_dim);
    const std::uint32_t kv_heads = args.kv.n_kv_heads;
    std::int64_t index = 0;
    for (const Sequence& sequence : args.sequences) {
      for (std::int32_t row = 0; row < sequence.n_rows; ++row) {
        const Range<std::uint32_t> range =
            segments_of(args, sequence, sequence.first_position + static_cast<std::uint32_t>(row));
        const std::int64_t units = std::int64_t{count_of(range)} * kv_heads;
        const std::int64_t begin = slice.begin > index ? slice.begin - index : 0;
        const std::int64_t end = slice.end - index < units ? slice.end - index : units;
        const auto run_from = [&](std::int64_t u) {
          const auto head = static_cast<std::uint32_t>(u % kv_heads), rest = static_cast<std::uint32_t>(end - u);
          return HeadRun{{&sequence, row, 1, head},
                         kv_heads - head < rest ? kv_heads - head : rest,
                         range.begin + static_cast<std::uint32_t>(u / kv_heads)};
        };
        for (std::int64_t u = begin; u < end;) {
          const HeadRun run = run_from(u);
          const std::int64_t after = u + run.n_kv_heads;
          const HeadRun next = run_from(after < end ? after : u);
          Policy::reduce_heads(args, run, after < end ? &next : nullptr, scratch,
                               partials + static_cast<std::uint64_t>(index + u) * floats);
          u = after;
        }
        index += units;
      }
    }
  }

  /// One unit per (sequence row, query head).
  static void fold_split(const AttentionArgs& args, Slice slice) {
    const std::uint32_t width = args.kv.head_dim, kv_heads = args.kv.n_kv_heads, heads = group(args);
    float* partials = reinterpret_cast<float*>(args.workspace.shared);
    std::int64_t unit = 0;
    std::uint64_t first = 0;
    for (const Sequence& sequence : args.sequences) {
      for (std::int32_t row = 0; row < sequence.n_rows; ++row) {
        const Range<std::uint32_t> range =
            segments_of(args, sequence, sequence.first_position + static_cast<std::uint32_t>(row));
        for (std::uint32_t head = 0; head < args.n_heads; ++head, ++unit) {
          if (unit < slice.begin || unit >= slice.end) continue;
          const auto part = [&](std::uint32_t s) -> Partial& {
            return partial_at(partials, first + (std::uint64_t{s} * kv_heads + head / heads) * heads + head % heads,
                              width);
          };
          for (std::uint32_t s = 1; s < count_of(range); ++s) Policy::fold(part(0), part(s), width);
          Policy::write(args, head, sequence.first_row + row, 1, &part(0).max, 0);
        }
        first += std::uint64_t{count_of(range)} * args.n_heads;
      }
    }
  }
};

}  // namespace
}  // namespace qinfer::kernels
