// Attention over the KV cache, for prefill and decode alike: the portable way to reduce one segment of keys. The rest
// is in attention_segments.h.
#include "common/attention_segments.h"

#include <algorithm>

#include "base/math.h"
#include "reference.h"

namespace qinfer::kernels::reference {
namespace {

/// `bias`: of each key; null: none.
void scores_of_tile(const float* q, const float* keys, std::uint32_t width, const AttentionArgs& args,
                    const float* bias, float* scores) {
  float sums[kTileTokens] = {};  // which no pointer reaches, so that compilers keep it in registers
  for (std::uint32_t i = 0; i < width; ++i)
    for (std::uint32_t j = 0; j < kTileTokens; ++j) sums[j] += q[i] * keys[i * kTileTokens + j];
  for (std::uint32_t j = 0; j < kTileTokens; ++j) scores[j] = sums[j] * args.scale;
  for (std::uint32_t j = 0; j < kTileTokens && bias != nullptr; ++j) scores[j] += bias[j];
  if (args.softcap == 0) return;
  for (std::uint32_t j = 0; j < kTileTokens; ++j) scores[j] = args.softcap * tanh_f32(scores[j] / args.softcap);
}

/// Adds some lanes of a tile to a running softmax. Other lanes are never read as values, so whatever a former user of
/// the block left there cannot matter.
void add_tile(Partial& state, const float* scores, const float* values, std::uint32_t stride,
              const Range<std::uint32_t>& lanes, std::uint32_t width) {
  float largest = state.max;
  for (std::uint32_t j = lanes.begin; j < lanes.end; ++j) largest = scores[j] > largest ? scores[j] : largest;
  // All scores -inf so far: nothing has weight yet (-inf minus -inf would be NaN).
  const float base = largest == kNegativeInfinity ? 0.0f : largest;
  const float rescale = exp_f32(state.max - base);
  state.max = largest;
  state.sum *= rescale;
  float* out = state.out();
  for (std::uint32_t i = 0; i < width; ++i) out[i] *= rescale;
  float weights[kTileTokens];
  for (std::uint32_t j = 0; j < kTileTokens; ++j) weights[j] = exp_f32(scores[j] - base);
  for (std::uint32_t j = lanes.begin; j < lanes.end; ++j) {
    state.sum += weights[j];
    for (std::uint32_t i = 0; i < width; ++i) out[i] += weights[j] * values[j * stride + i];
  }
}

void clear(Partial& partial, std::uint32_t width) {
  partial.max = kNegativeInfinity;
  partial.sum = 0;
  std::fill_n(partial.out(), width, 0.0f);
}

struct Policy {
  /// Each tile of keys is widened once for all rows of a unit.
  static std::int64_t rows_per_unit(std::uint32_t) { return 16; }

  /// A widened tile of keys and of values, and the scores of one query.
  static std::uint64_t scratch_floats(std::uint32_t, std::uint32_t, std::uint32_t padded) {
    return std::uint64_t{2} * kTileTokens * padded + kTileTokens;
  }

  static void reduce(const AttentionArgs& args, const AttentionUnit& unit, std::uint32_t segment, float* scratch,
                     float* states) {
    const std::uint32_t width = args.kv.head_dim, padded = args.kv.head_dim_padded;
    const std::uint32_t group = args.n_heads / args.kv.n_kv_heads;
    const std::int64_t tile_floats = std::int64_t{kTileTokens} * padded;
    float *keys = scratch, *values = keys + tile_floats, *scores = values + tile_floats;
    for (std::int64_t r = 0; r < unit.n_rows * group; ++r)
      clear(partial_at(states, static_cast<std::uint64_t>(r), width), width);
    const Range<std::uint32_t> tiles = tiles_of_segment(segment, unit.all_keys(args));
    for (std::uint32_t tile = tiles.begin; tile < tiles.end; ++tile) {
      const std::byte* k = unit.sequence->kv.k_tile(args.kv, args.layer, unit.kv_head, tile);
      widen(k, args.kv.type, tile_floats, keys);
      widen(k + args.kv.tile_bytes(), args.kv.type, tile_floats, values);
      for (std::int64_t r = 0; r < unit.n_rows; ++r) {
        const Range<std::uint32_t> lanes = lanes_of(unit.keys(args, r), tile * kTileTokens);
        if (lanes.begin >= lanes.end) continue;
        const float* q = args.q.row(unit.sequence->first_row + unit.first_row + r);
        for (std::uint32_t g = 0; g < group; ++g) {
          const std::uint32_t head = unit.kv_head * group + g;
          scores_of_tile(q + head * width, keys, width, args, tile_bias(args, head, unit.position(r), tile), scores);
          add_tile(partial_at(states, static_cast<std::uint64_t>(r) * group + g, width), scores, values, padded, lanes,
                   width);
        }
      }
    }
  }

  static void reduce_heads(const AttentionArgs& args, const HeadRun& run, const HeadRun*, float* scratch,
                           float* states) {
    AttentionUnit unit = run.first;
    const std::uint64_t floats = (args.n_heads / args.kv.n_kv_heads) * partial_floats(args.kv.head_dim);
    for (std::uint32_t i = 0; i < run.n_kv_heads; ++i, ++unit.kv_head, states += floats)
      reduce(args, unit, run.segment, scratch, states);
  }

  static void fold(Partial& total, Partial& part, std::uint32_t width) {
    const float largest = part.max > total.max ? part.max : total.max;
    const float base = largest == kNegativeInfinity ? 0.0f : largest;
    const float old_scale = exp_f32(total.max - base), new_scale = exp_f32(part.max - base);
    total.max = largest;
    total.sum = total.sum * old_scale + part.sum * new_scale;
    for (std::uint32_t i = 0; i < width; ++i) total.out()[i] = total.out()[i] * old_scale + part.out()[i] * new_scale;
  }

  static void write(const AttentionArgs& args, std::uint32_t head, std::int64_t row, std::int64_t n, float* states,
                    std::uint64_t stride) {
    write_rows(args, head, row, n, states, stride, [&](Partial& state, float* out) {
      for (std::uint32_t i = 0; i < args.kv.head_dim; ++i) out[i] = state.out()[i] / state.sum;
    });
  }
};

}  // namespace

std::int32_t attention_phases(const AttentionArgs& args) { return SegmentedAttention<Policy>::phases(args); }

std::int64_t attention_units(const AttentionArgs& args, std::int32_t phase) {
  return SegmentedAttention<Policy>::units(args, phase);
}

void attention(const AttentionArgs& args, std::int32_t phase, Slice slice) {
  SegmentedAttention<Policy>::run(args, phase, slice);
}

WorkspaceSize attention_workspace(const Shape& shape) { return SegmentedAttention<Policy>::workspace(shape); }

std::uint64_t attention_split_bytes(const AttentionArgs& args) { return SegmentedAttention<Policy>::split_bytes(args); }

}  // namespace qinfer::kernels::reference
