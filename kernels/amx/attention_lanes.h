// Attention of many rows: their states stay as the tiles give them, queries as lanes, from the first segment to the
// last, and become operands, which are lanes too; nothing is transposed. Each element becomes what it becomes as part
// of a row's state (tiled/partials.h, SegmentedAttention): the same operations in the same order.
#pragma once

#include "amx/attention_values.h"

namespace qinfer::kernels::amx {
namespace {

/// The states of up to 32 queries: sums of weighted values, [padded / 32][row tile][panel][16 d][16 lanes], and of each
/// lane what Partial has.
struct LaneStates {
  float* sums;
  float *max, *sum;  ///< [32]

  static std::uint64_t floats(std::uint64_t padded) { return (padded + 2) * kLanes; }
  LaneStates(float* memory, std::uint32_t padded)
      : sums(memory), max(memory + std::int64_t{padded} * kLanes), sum(max + kLanes) {}
  float* block(std::uint32_t d) const { return sums + std::int64_t{d} * kLanes; }
};

/// What a segment is to the lanes of a panel.
struct LaneFolding {
  __mmask16 begins;     ///< it is the first one that they see
  __mmask16 continues;  ///< they have seen others before it
  __m512 old_scale, new_scale;
};

/// Lanes after the last query begin anew each time.
inline LaneFolding lanes_in_segment(const Queries& queries, int panel, std::uint32_t segment) {
  LaneFolding lanes{0, 0, _mm512_setzero_ps(), _mm512_setzero_ps()};
  for (int m = 0; m < 16; ++m) {
    const int lane = 16 * panel + m;
    const auto bit = static_cast<__mmask16>(1U << m);
    const Range<std::uint32_t>& keys = queries.ranges[lane];
    const bool first = lane >= queries.count || keys.begin / kSegmentTokens == segment;
    if (first) lanes.begins |= bit;
    if (!first && keys.begin < segment * kSegmentTokens && keys.end > segment * kSegmentTokens) lanes.continues |= bit;
  }
  return lanes;
}

/// Folds maxima and sums of weights, as fold_partials() does, and finds the scales of both parts.
inline void fold_sums(const Queries& queries, int panel, const LaneStates& states, LaneFolding& lanes) {
  float *at_max = states.max + 16 * panel, *at_sum = states.sum + 16 * panel;
  const __m512 part_max = queries.reference[panel], part_sum = queries.sum[panel];
  const __m512 max = _mm512_load_ps(at_max), sum = _mm512_load_ps(at_sum);
  const __m512 largest = _mm512_mask_mov_ps(max, _mm512_cmp_ps_mask(part_max, max, _CMP_GT_OQ), part_max);
  const __mmask16 nothing = _mm512_cmp_ps_mask(largest, _mm512_set1_ps(kNegativeInfinity), _CMP_EQ_OQ);
  const __m512 base = _mm512_mask_mov_ps(largest, nothing, _mm512_setzero_ps());
  lanes.old_scale = avx512::exp2_ps(_mm512_sub_ps(max, base));
  lanes.new_scale = avx512::exp2_ps(_mm512_sub_ps(part_max, base));
  const __m512 both = _mm512_add_ps(_mm512_mul_ps(sum, lanes.old_scale), _mm512_mul_ps(part_sum, lanes.new_scale));
  _mm512_store_ps(at_max,
                  _mm512_mask_mov_ps(_mm512_mask_mov_ps(max, lanes.continues, largest), lanes.begins, part_max));
  _mm512_store_ps(at_sum, _mm512_mask_mov_ps(_mm512_mask_mov_ps(sum, lanes.continues, both), lanes.begins, part_sum));
}

/// Adds the sums of 32 d in a segment, `part`, to the states.
template <int panels>
inline void fold_lines(const LaneFolding (&lanes)[panels], const float* part, float* total) {
  for (int row_tile = 0; row_tile < 2; ++row_tile)
#pragma GCC unroll 2
    for (int p = 0; p < panels; ++p) {
      const LaneFolding& of = lanes[p];
      const std::int64_t first = (2 * row_tile + p) * kTileFloats;
      for (std::int64_t i = first; i < first + kTileFloats; i += 16) {
        const __m512 before = _mm512_load_ps(total + i), added = _mm512_load_ps(part + i);
        const __m512 both = _mm512_add_ps(_mm512_mul_ps(before, of.old_scale), _mm512_mul_ps(added, of.new_scale));
        const __m512 kept = _mm512_mask_mov_ps(before, of.continues, both);
        _mm512_store_ps(total + i, _mm512_mask_mov_ps(kept, of.begins, added));
      }
    }
}

/// Folds the outputs of queries whose weights in a segment have been found into their states.
template <DType type, int panels>
void weigh_lanes(const AttentionArgs& args, const AttentionUnit& unit, const Queries& queries, std::uint32_t segment,
                 const LaneStates& states) {
  LaneFolding lanes[panels];
  bool all_begin = true;
  for (int p = 0; p < panels; ++p) {
    lanes[p] = lanes_in_segment(queries, p, segment);
    fold_sums(queries, p, states, lanes[p]);
    all_begin = all_begin && lanes[p].begins == 0xffff;
  }
  alignas(64) float part[4 * kTileFloats];
  for (std::uint32_t d = 0; d < queries.padded; d += 32) {
    float* total = states.block(d);
    weigh_values<type, panels>(args, unit, queries, d, all_begin ? total : part);
    if (!all_begin) fold_lines<panels>(lanes, part, total);
  }
}

/// The lanes of 16 rows in the two panels of the batch that have them, from lane `shift` of the first one on. `end`:
/// how many lanes of both are written; those after the rows become zeros.
struct RowLanes {
  std::int64_t panel, shift, end;
  __mmask16 rows;

  /// `count` rows from batch row `row` on, of n.
  RowLanes(std::int64_t row, std::int64_t count, std::int64_t n)
      : panel(row / kPanelLanes), shift(row % kPanelLanes), end(shift + count), rows(first_lanes(count)) {
    if (row + count == n) end = (end + kPanelLanes - 1) / kPanelLanes * kPanelLanes;
  }

  /// `line`: of the rows as lanes from 0 on; `out`: the same line in the first panel; `to_second`: dwords from there to
  /// that of the second panel.
  void store(__m512i line, std::uint32_t* out, std::int64_t to_second) const {
    line = _mm512_maskz_mov_epi32(rows, line);
    if (shift == 0) return _mm512_mask_storeu_epi32(out, first_lanes(end), line);
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i from = _mm512_sub_epi32(lane, _mm512_set1_epi32(static_cast<int>(shift)));  // modulo 16
    const __m512i turned = _mm512_permutexvar_epi32(from, line);
    const auto low = static_cast<__mmask16>(first_lanes(end) & ~first_lanes(shift));
    _mm512_mask_storeu_epi32(out, low, turned);
    if (end > kPanelLanes) _mm512_mask_storeu_epi32(out + to_second, first_lanes(end - kPanelLanes), turned);
  }
};

/// The finished states of rows [first, first + count) of the batch, 32 at most, of one head, as operands.
inline void write_lanes(const AttentionArgs& args, std::uint32_t head, std::int64_t first, std::int64_t count,
                        const LaneStates& states) {
  const std::int64_t width = args.kv.head_dim, all = args.n_heads * width, dwords = panel_dwords(all);
  for (std::int64_t p = 0; 16 * p < count; ++p) {
    const RowLanes lanes(first + 16 * p, smaller(count - 16 * p, kPanelLanes), args.n);
    std::uint32_t* out = args.out.pairs() + lanes.panel * dwords;
    const __m512 sum = _mm512_load_ps(states.sum + 16 * p);
    const auto line = [&](std::int64_t d) {
      if (d >= width) return _mm512_setzero_ps();
      const float* at = states.block(static_cast<std::uint32_t>(d / 32 * 32)) + (d % 32 / 16 * 2 + p) * kTileFloats;
      return _mm512_div_ps(_mm512_load_ps(at + d % 16 * 16), sum);
    };
    for (std::int64_t d = 0; d < width; d += 2)
      lanes.store(interleave(line(d), line(d + 1)), out + (head * width + d) / 2 * kPanelLanes, dwords);
    if (head + 1 < args.n_heads) continue;
    for (std::int64_t k = all; k < padded_k(all); k += 2)
      lanes.store(_mm512_setzero_si512(), out + k / 2 * kPanelLanes, dwords);
  }
}

}  // namespace
}  // namespace qinfer::kernels::amx
