// Attention over the KV cache: up to 32 queries of one KV head as lanes (rows of one query head; where a unit has fewer
// than 16 rows, those times the heads of the group), one segment of keys at a time: all weights, then all values.
// Queries come and results go as panels, unless the batch is row-major.
//
// Scores are K Q^T: K tiles, [32 positions][d], are the first operand as the cache has them, the queries a pair of
// panels. The sums of a tile, [position][query] in f32, stay in the L1 and become weights while the next tile is
// multiplied (attention_scores.h); weights and their sum run down the lanes, and two neighbouring positions of weights
// are a line of the next panel. Values are V^T P^T with V tiles [d][32 positions]. Everything is summed in one order,
// over d in steps of 32 and over positions in tiles. While many queries pass a segment, keys and values of the next
// one are fetched.
//
// A position that no query sees may hold anything: its score is left out by select, its value replaced by zero. One
// that some see has weight zero for the others, which is enough for finite values; others are added separately.
#include "amx/attention_lanes.h"

namespace qinfer::kernels::amx {
namespace {

/// The weights of open queries in a segment.
void find_weights(const AttentionArgs& args, const AttentionUnit& unit, Queries& queries, TileFetch& fetch) {
  queries.panels == 2 ? ScoreWeights<2>(args, unit, queries, fetch).run()
                      : ScoreWeights<1>(args, unit, queries, fetch).run();
}

/// One segment for open queries of few rows.
void reduce_queries(const AttentionArgs& args, const AttentionUnit& unit, Queries& queries, float* states) {
  TileFetch nothing;
  find_weights(args, unit, queries, nothing);
  avx512::with_dtype(args.kv.type, [&]<DType type>() {
    queries.panels == 2 ? weigh<type, 2>(args, unit, queries, states) : weigh<type, 1>(args, unit, queries, states);
  });
}

/// One segment for open queries of many rows, folded into their states; nothing, where they see nothing of it.
void fold_queries(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, Queries& queries,
                  TileFetch& fetch, const LaneStates& states) {
  if (queries.tiles.begin >= queries.tiles.end) return;
  find_weights(args, unit, queries, fetch);
  avx512::with_dtype(args.kv.type, [&]<DType type>() {
    queries.panels == 2 ? weigh_lanes<type, 2>(args, unit, queries, segment, states)
                        : weigh_lanes<type, 1>(args, unit, queries, segment, states);
  });
}

/// What a unit reads of the segment after this one.
TileFetch next_segment(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment) {
  const Range<std::uint32_t> keys = unit.all_keys(args);
  if (keys.end <= (segment + 1) * kSegmentTokens) return {};
  return {&args, unit, tiles_of_segment(segment + 1, keys), 0, 0};
}

/// States of one head, of rows that are in one panel from lane `lane` on, as operands: lines of this head's features,
/// and after the last head zeros up to whole steps. `end`: lanes from the last row up to this one become zeros.
void write_rows_as_lanes(const AttentionArgs& args, std::uint32_t head, std::int64_t panel, std::int64_t lane,
                         std::int64_t count, std::int64_t end, float* states, std::uint64_t stride) {
  const std::int64_t width = args.kv.head_dim, all = args.n_heads * width, first = head * width;
  auto* out = args.out.pairs() + panel * panel_dwords(all);
  const auto lanes = static_cast<__mmask16>(first_lanes(end - lane) << lane);
  for (std::int64_t k = 0; k < width; k += kStep) {
    __m512i block[16];
    for (std::int64_t m = 0; m < 16; ++m) {
      block[m] = _mm512_setzero_si512();
      if (m < lane || m >= lane + count) continue;
      Partial& state = partial_at(states + static_cast<std::uint64_t>(m - lane) * stride, 0, args.kv.head_dim);
      const __m512 sum = _mm512_set1_ps(state.sum);
      const avx512::Lanes32 values = load_columns(state.out() + k, width - k);
      block[m] = to_bf16_pairs(_mm512_div_ps(values.low, sum), _mm512_div_ps(values.high, sum));
    }
    avx512::transpose16(block);
    for (std::int64_t i = 0; i < 16 && k + 2 * i < width; ++i)
      _mm512_mask_storeu_epi32(out + (first + k + 2 * i) / 2 * kPanelLanes, lanes, block[i]);
  }
  if (head + 1 < args.n_heads) return;
  for (std::int64_t k = all; k < padded_k(all); k += 2)
    _mm512_mask_storeu_epi32(out + k / 2 * kPanelLanes, lanes, _mm512_setzero_si512());
}

struct Policy {
  /// Four times 32 queries, in whole panels of each head unless the group is large: a segment's keys and values come
  /// from memory once.
  static std::int64_t rows_per_unit(std::uint32_t group) {
    if (group > 32) return group >= 128 ? 1 : 128 / group;
    return larger<std::int64_t>(128 / group / kPanelLanes * kPanelLanes, kPanelLanes);
  }

  /// States of lanes begin where those of rows do (SegmentedAttention::workspace()), and may need more room.
  static std::uint64_t scratch_floats(std::uint32_t group, std::uint32_t width, std::uint32_t padded) {
    const auto rows = static_cast<std::uint64_t>(rows_per_unit(group));
    const std::uint64_t of_rows = 2 * rows * group * partial_floats(width),
                        of_lanes = rows < static_cast<std::uint64_t>(kPanelLanes)
                                       ? 0
                                       : group * ceil_div(rows, kLanes) * LaneStates::floats(padded) + 16;
    return Queries::floats(padded) + (of_lanes > of_rows ? of_lanes - of_rows : 0);
  }

  /// Units of many rows, whose states are lanes.
  static bool attends(const AttentionUnit& unit) { return unit.n_rows >= kPanelLanes; }

  static void attend(const AttentionArgs& args, const AttentionUnit& unit, float* scratch) {
    const std::uint32_t group = args.n_heads / args.kv.n_kv_heads, padded = args.kv.head_dim_padded;
    const std::int64_t blocks = kernels::units_of(unit.n_rows, kLanes);  // of each head
    float* memory = scratch + (64 - reinterpret_cast<std::uintptr_t>(scratch) % 64) % 64 / sizeof(float);
    const std::uint64_t floats = LaneStates::floats(padded);
    const auto states_of = [&](std::uint32_t head, std::int64_t row) {
      return LaneStates(memory + static_cast<std::uint64_t>(head * blocks + row / kLanes) * floats, padded);
    };
    const auto count_at = [&](std::int64_t row) { return smaller(unit.n_rows - row, kLanes); };
    Queries queries(args, memory + static_cast<std::uint64_t>(group * blocks) * floats);
    const Range<std::uint32_t> segments{unit.keys(args, 0).begin / kSegmentTokens,
                                        (unit.keys(args, unit.n_rows - 1).end - 1) / kSegmentTokens + 1};
    for (std::uint32_t segment = segments.begin; segment < segments.end; ++segment) {
      TileFetch fetch = next_segment(args, unit, segment);
      std::int64_t rounds = group * blocks;  // that are left
      for (std::uint32_t head = 0; head < group; ++head)
        for (std::int64_t row = 0; row < unit.n_rows; row += kLanes, --rounds) {
          open_rows(args, unit, segment, row, static_cast<int>(count_at(row)), head, queries);
          if (queries.tiles.begin < queries.tiles.end) {
            // The scores of the first tile have no weights beside them.
            const auto steps =
                static_cast<std::uint64_t>(rounds) * (count_of(queries.tiles) - 1) * queries.padded / kStep;
            fetch.each_step = steps == 0 ? 0 : (fetch.lines() + steps - 1) / steps;
          }
          fold_queries(args, unit, segment, queries, fetch, states_of(head, row));
        }
    }
    for (std::uint32_t head = 0; head < group; ++head)
      for (std::int64_t row = 0; row < unit.n_rows; row += kLanes)
        write_lanes(args, unit.kv_head * group + head, unit.sequence->first_row + unit.first_row + row, count_at(row),
                    states_of(head, row));
  }

  /// Few rows.
  static void reduce(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, float* scratch,
                     float* states) {
    Queries queries(args, scratch);
    const std::int64_t all = unit.n_rows * (args.n_heads / args.kv.n_kv_heads);
    for (std::int64_t first = 0; first < all; first += kLanes) {
      open_lanes(args, unit, segment, first, static_cast<int>(smaller(all - first, kLanes)), queries);
      reduce_queries(args, unit, queries, states);
    }
  }

  static void reduce_heads(const AttentionArgs& args, const HeadRun& run, const HeadRun*, float* scratch,
                           float* states) {
    AttentionUnit unit = run.first;
    const std::uint64_t floats = (args.n_heads / args.kv.n_kv_heads) * partial_floats(args.kv.head_dim);
    for (std::uint32_t i = 0; i < run.n_kv_heads; ++i, ++unit.kv_head, states += floats)
      reduce(args, unit, run.segment, scratch, states);
  }

  static void fold(Partial& total, Partial& part, std::uint32_t width) { avx512::fold_partials(total, part, width); }

  static void write(const AttentionArgs& args, std::uint32_t head, std::int64_t row, std::int64_t n, float* states,
                    std::uint64_t stride) {
    if (args.out.is_row_major())
      return write_rows(args, head, row, n, states, stride,
                        [&](Partial& state, float* out) { avx512::write_partial(state, args.kv.head_dim, out); });
    for (std::int64_t r = 0; r < n;) {
      const std::int64_t lane = (row + r) % kPanelLanes, count = smaller(kPanelLanes - lane, n - r);
      const std::int64_t end = row + r + count == args.n ? kPanelLanes : lane + count;
      write_rows_as_lanes(args, head, (row + r) / kPanelLanes, lane, count, end,
                          states + static_cast<std::uint64_t>(r) * stride, stride);
      r += count;
    }
  }
};

}  // namespace

std::int32_t attention_phases(const AttentionArgs& args) { return SegmentedAttention<Policy>::phases(args); }

std::int64_t attention_units(const AttentionArgs& args, std::int32_t phase) {
  return SegmentedAttention<Policy>::units(args, phase);
}

void attention(const AttentionArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 1) return SegmentedAttention<Policy>::run(args, phase, slice);
  const TileRegion region;
  SegmentedAttention<Policy>::run(args, phase, slice);
}

WorkspaceSize attention_workspace(const Shape& shape) { return SegmentedAttention<Policy>::workspace(shape); }

std::uint64_t attention_split_bytes(const AttentionArgs& args) { return SegmentedAttention<Policy>::split_bytes(args); }

}  // namespace qinfer::kernels::amx
