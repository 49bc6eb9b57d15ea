// Attention over the KV cache, for prefill and decode alike.
//
// Keys are cut at absolute positions: tiles of 32 inside segments of 512. Each segment is reduced from empty over its
// tiles with an online softmax (Milakov and Gimelshein 2018, algorithm 3), and the segments are folded in ascending
// order. The result of a query therefore depends on its own position alone: not on the chunk it came in, the other
// rows, the threads, or whether segments were computed in one unit or in several (`split`).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/math.h"
#include "reference.h"

namespace qinfer::kernels::reference {
namespace {

/// Rows of one unit: each tile of keys is widened once for all of them.
constexpr std::int64_t kRowBlock = 16;
constexpr std::uint32_t kSegmentTiles = kSegmentTokens / kTileTokens;
constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();

/// Running softmax of one query head: the largest score, the sum of weights and the weighted sum of values behind it.
struct Partial {
  float max, sum;
  float* out() { return reinterpret_cast<float*>(this) + 2; }
  void clear(std::uint32_t width) {
    max = kNegativeInfinity;
    sum = 0;
    std::fill_n(out(), width, 0.0f);
  }
};

std::uint64_t partial_floats(std::uint32_t head_dim) { return 2 + std::uint64_t{head_dim}; }

Partial& partial_at(float* base, std::uint64_t index, std::uint32_t head_dim) {
  return *reinterpret_cast<Partial*>(base + index * partial_floats(head_dim));
}

struct Range {
  std::uint32_t first, last;  ///< positions, both included
};

/// The keys that position p may see.
Range visible(const AttentionArgs& args, std::uint32_t position) {
  const std::uint32_t first = args.window != 0 && position >= args.window ? position - args.window + 1 : 0;
  return {first, position};
}

void scores_of_tile(const float* q, const float* keys, std::uint32_t width, float scale, float* scores) {
  std::fill_n(scores, kTileTokens, 0.0f);
  for (std::uint32_t i = 0; i < width; ++i)
    for (std::uint32_t j = 0; j < kTileTokens; ++j) scores[j] += q[i] * keys[i * kTileTokens + j];
  for (std::uint32_t j = 0; j < kTileTokens; ++j) scores[j] *= scale;
}

/// Adds the lanes [begin, end) of a tile to a running softmax. Other lanes are never read as values, so whatever a
/// former user of the block left there cannot matter.
void add_tile(Partial& state, const float* scores, const float* values, std::uint32_t stride, std::uint32_t begin,
              std::uint32_t end, std::uint32_t width) {
  float largest = state.max;
  for (std::uint32_t j = begin; j < end; ++j) largest = scores[j] > largest ? scores[j] : largest;
  // All scores -inf so far: nothing has weight yet (-inf minus -inf would be NaN).
  const float base = largest == kNegativeInfinity ? 0.0f : largest;
  const float rescale = exp_f32(state.max - base);
  state.max = largest;
  state.sum *= rescale;
  float* out = state.out();
  for (std::uint32_t i = 0; i < width; ++i) out[i] *= rescale;
  for (std::uint32_t j = begin; j < end; ++j) {
    const float weight = exp_f32(scores[j] - base);
    state.sum += weight;
    for (std::uint32_t i = 0; i < width; ++i) out[i] += weight * values[j * stride + i];
  }
}

void fold(Partial& total, Partial& segment, std::uint32_t width) {
  const float largest = segment.max > total.max ? segment.max : total.max;
  const float base = largest == kNegativeInfinity ? 0.0f : largest;
  const float old_scale = exp_f32(total.max - base), new_scale = exp_f32(segment.max - base);
  total.max = largest;
  total.sum = total.sum * old_scale + segment.sum * new_scale;
  for (std::uint32_t i = 0; i < width; ++i) total.out()[i] = total.out()[i] * old_scale + segment.out()[i] * new_scale;
}

/// Everything of one worker: a widened tile, scores, and the running states of a block of rows.
struct Scratch {
  float *keys, *values, *scores, *states;

  Scratch(std::byte* base, std::uint32_t padded, std::uint32_t) {
    keys = reinterpret_cast<float*>(base);
    values = keys + std::size_t{kTileTokens} * padded;
    scores = values + std::size_t{kTileTokens} * padded;
    states = scores + kTileTokens;
  }
};

struct Unit {
  const Sequence* sequence;
  std::int64_t first_row, n_rows;  ///< rows of the sequence
  std::uint32_t kv_head;
};

/// Reduces segment `segment` for all rows of the unit into states (row, head of the group), from empty.
void reduce_segment(const AttentionArgs& args, const Unit& unit, std::uint32_t segment, Scratch& scratch,
                    float* states) {
  const std::uint32_t width = args.kv.head_dim, padded = args.kv.head_dim_padded;
  const std::uint32_t group = args.n_heads / args.kv.n_kv_heads;
  const std::int64_t tile_floats = std::int64_t{kTileTokens} * padded;
  for (std::int64_t r = 0; r < unit.n_rows * group; ++r)
    partial_at(states, static_cast<std::uint64_t>(r), width).clear(width);
  const std::uint32_t base = unit.sequence->first_position + static_cast<std::uint32_t>(unit.first_row);
  const Range all{visible(args, base).first, base + static_cast<std::uint32_t>(unit.n_rows) - 1};
  const std::uint32_t first_tile = std::max(segment * kSegmentTiles, all.first / kTileTokens);
  const std::uint32_t last_tile = std::min((segment + 1) * kSegmentTiles - 1, all.last / kTileTokens);
  for (std::uint32_t tile = first_tile; tile <= last_tile; ++tile) {
    const std::byte* k = unit.sequence->kv.k_tile(args.kv, args.layer, unit.kv_head, tile);
    widen(k, args.kv.type, tile_floats, scratch.keys);
    widen(k + args.kv.tile_bytes(), args.kv.type, tile_floats, scratch.values);
    const std::uint32_t origin = tile * kTileTokens;
    for (std::int64_t r = 0; r < unit.n_rows; ++r) {
      const Range range = visible(args, base + static_cast<std::uint32_t>(r));
      if (range.last < origin || range.first >= origin + kTileTokens) continue;
      const std::uint32_t begin = range.first > origin ? range.first - origin : 0;
      const std::uint32_t end = std::min(range.last - origin + 1, kTileTokens);
      const float* q = args.q.row(unit.sequence->first_row + unit.first_row + r);
      for (std::uint32_t g = 0; g < group; ++g) {
        scores_of_tile(q + (unit.kv_head * group + g) * width, scratch.keys, width, args.scale, scratch.scores);
        add_tile(partial_at(states, static_cast<std::uint64_t>(r) * group + g, width), scratch.scores, scratch.values,
                 padded, begin, end, width);
      }
    }
  }
}

void write_output(const AttentionArgs& args, std::int64_t row, std::uint32_t head, Partial& state) {
  const std::uint32_t width = args.kv.head_dim;
  float* out = args.out.row(row) + std::int64_t{head} * width;
  for (std::uint32_t i = 0; i < width; ++i) out[i] = state.out()[i] / state.sum;
}

/// All segments of a block of rows, one after the other.
void attend(const AttentionArgs& args, const Unit& unit, Scratch& scratch) {
  const std::uint32_t width = args.kv.head_dim;
  const std::uint32_t group = args.n_heads / args.kv.n_kv_heads;
  const auto count = static_cast<std::uint64_t>(unit.n_rows) * group;
  float* totals = scratch.states;
  float* states = totals + static_cast<std::uint64_t>(kRowBlock) * group * partial_floats(width);
  for (std::uint64_t r = 0; r < count; ++r) partial_at(totals, r, width).clear(width);
  const std::uint32_t base = unit.sequence->first_position + static_cast<std::uint32_t>(unit.first_row);
  const std::uint32_t last = (base + static_cast<std::uint32_t>(unit.n_rows) - 1) / kSegmentTokens;
  for (std::uint32_t segment = visible(args, base).first / kSegmentTokens; segment <= last; ++segment) {
    reduce_segment(args, unit, segment, scratch, states);
    for (std::uint64_t r = 0; r < count; ++r) {
      Partial& state = partial_at(states, r, width);
      // A row that sees nothing of this segment must not be touched by it: folding in "empty" would still round.
      const Range range = visible(args, base + static_cast<std::uint32_t>(r / group));
      if (range.last / kSegmentTokens < segment || range.first / kSegmentTokens > segment) continue;
      fold(partial_at(totals, r, width), state, width);
    }
  }
  for (std::uint64_t r = 0; r < count; ++r)
    write_output(args, unit.sequence->first_row + unit.first_row + static_cast<std::int64_t>(r / group),
                 unit.kv_head * group + static_cast<std::uint32_t>(r % group), partial_at(totals, r, width));
}

struct SegmentRange {
  std::uint32_t first, count;
};

SegmentRange segments_of(const AttentionArgs& args, std::uint32_t position) {
  const Range range = visible(args, position);
  const std::uint32_t first = range.first / kSegmentTokens;
  return {first, range.last / kSegmentTokens - first + 1};
}

/// Finds unit `unit` in the fixed order (sequence, row, segment, kv_head) of a split attention; calls
/// body(sequence, row of sequence, segment, kv_head, index of the first partial of that (row, segment, kv_head)).
template <typename Body>
void for_split_units(const AttentionArgs& args, Slice slice, Body body) {
  const std::uint32_t group = args.n_heads / args.kv.n_kv_heads;
  std::int64_t index = 0;
  for (const Sequence& sequence : args.sequences) {
    for (std::int32_t row = 0; row < sequence.n_rows; ++row) {
      const SegmentRange range = segments_of(args, sequence.first_position + static_cast<std::uint32_t>(row));
      const std::int64_t units = std::int64_t{range.count} * args.kv.n_kv_heads;
      const std::int64_t begin = std::max(slice.begin - index, std::int64_t{0});
      const std::int64_t end = std::min(slice.end - index, units);
      for (std::int64_t u = begin; u < end; ++u) {
        body(sequence, row, range.first + static_cast<std::uint32_t>(u / args.kv.n_kv_heads),
             static_cast<std::uint32_t>(u % args.kv.n_kv_heads), static_cast<std::uint64_t>(index + u) * group);
      }
      index += units;
    }
  }
}

void reduce_split(const AttentionArgs& args, Slice slice, Scratch& scratch) {
  float* partials = reinterpret_cast<float*>(args.workspace.shared);
  for_split_units(args, slice,
                  [&](const Sequence& sequence, std::int32_t row, std::uint32_t segment, std::uint32_t kv_head,
                      std::uint64_t first) {
                    const Unit unit{&sequence, row, 1, kv_head};
                    reduce_segment(args, unit, segment, scratch, partials + first * partial_floats(args.kv.head_dim));
                  });
}

/// One unit per (sequence row, query head).
void fold_split(const AttentionArgs& args, Slice slice, Scratch& scratch) {
  const std::uint32_t width = args.kv.head_dim, heads = args.n_heads, kv_heads = args.kv.n_kv_heads;
  const std::uint32_t group = heads / kv_heads;
  float* partials = reinterpret_cast<float*>(args.workspace.shared);
  std::int64_t unit = 0;
  std::uint64_t first = 0;
  for (const Sequence& sequence : args.sequences) {
    for (std::int32_t row = 0; row < sequence.n_rows; ++row) {
      const SegmentRange range = segments_of(args, sequence.first_position + static_cast<std::uint32_t>(row));
      for (std::uint32_t head = 0; head < heads; ++head, ++unit) {
        if (unit < slice.begin || unit >= slice.end) continue;
        Partial& total = partial_at(scratch.states, 0, width);
        total.clear(width);
        for (std::uint32_t s = 0; s < range.count; ++s) {
          const std::uint64_t at = first + (std::uint64_t{s} * kv_heads + head / group) * group + head % group;
          fold(total, partial_at(partials, at, width), width);
        }
        write_output(args, sequence.first_row + row, head, total);
      }
      first += std::uint64_t{range.count} * heads;
    }
  }
}

std::int64_t total_rows(const AttentionArgs& args) {
  std::int64_t rows = 0;
  for (const Sequence& sequence : args.sequences) rows += sequence.n_rows;
  return rows;
}

std::uint64_t split_partials(const AttentionArgs& args) {
  std::uint64_t count = 0;
  for (const Sequence& sequence : args.sequences)
    for (std::int32_t row = 0; row < sequence.n_rows; ++row)
      count += segments_of(args, sequence.first_position + static_cast<std::uint32_t>(row)).count;
  return count * args.n_heads;
}

}  // namespace

std::int64_t attention_units(const AttentionArgs& args, std::int32_t phase) {
  if (args.split) {
    if (phase == 1) return total_rows(args) * args.n_heads;
    return static_cast<std::int64_t>(split_partials(args) / (args.n_heads / args.kv.n_kv_heads));
  }
  if (phase == 1) return 0;
  std::int64_t blocks = 0;
  for (const Sequence& sequence : args.sequences) blocks += (sequence.n_rows + kRowBlock - 1) / kRowBlock;
  return blocks * args.kv.n_kv_heads;
}

void attention(const AttentionArgs& args, std::int32_t phase, Slice slice) {
  Scratch scratch(args.workspace.of(slice.worker), args.kv.head_dim_padded, args.n_heads);
  if (args.split) {
    phase == 0 ? reduce_split(args, slice, scratch) : fold_split(args, slice, scratch);
    return;
  }
  std::int64_t index = 0;
  for (const Sequence& sequence : args.sequences) {
    for (std::int64_t row = 0; row < sequence.n_rows; row += kRowBlock) {
      for (std::uint32_t kv_head = 0; kv_head < args.kv.n_kv_heads; ++kv_head, ++index) {
        if (index < slice.begin || index >= slice.end) continue;
        attend(args, {&sequence, row, std::min(kRowBlock, sequence.n_rows - row), kv_head}, scratch);
      }
    }
  }
}

std::uint64_t attention_split_bytes(const AttentionArgs& args) {
  return split_partials(args) * partial_floats(args.kv.head_dim) * sizeof(float);
}

WorkspaceSize attention_workspace(const Shape& shape) {
  const std::uint64_t group = shape.n_heads / shape.n_kv_heads;
  const std::uint64_t floats = std::uint64_t{2} * kTileTokens * shape.head_dim_padded + kTileTokens +
                               2 * kRowBlock * group * partial_floats(shape.head_dim);
  // Split attention is for few rows: room for one row at the full context.
  const std::uint64_t segments = ceil_div(shape.context, kSegmentTokens);
  return {round_up(segments * shape.n_heads * partial_floats(shape.head_dim) * sizeof(float), 64),
          round_up(floats * sizeof(float), 64)};
}

}  // namespace qinfer::kernels::reference
