// What the q/k/v operation has in common on every backend: the heads that it computes, which matrix, bias and norm
// belongs to each, what follows their projection in which order, and the walk from rows of a batch to places in the KV
// cache.
#pragma once

#include <algorithm>
#include <cmath>

#include "common/units.h"
#include "kernel_set.h"

namespace qinfer::kernels {

enum class HeadKind : std::uint8_t { query, key, value };

namespace {  // files with different instruction sets include this header

/// What projects all heads of one kind.
struct HeadProjection {
  HeadKind kind;
  const Linear* w;
  std::int64_t n_heads;
};

inline HeadProjection projection_of(const QkvArgs& args, HeadKind kind) {
  switch (kind) {
    case HeadKind::query: break;
    case HeadKind::key: return {kind, &args.wk, args.kv.n_kv_heads};
    case HeadKind::value: return {kind, &args.wv, args.kv.n_kv_heads};
  }
  return {HeadKind::query, &args.wq, args.n_heads};
}

/// The weights of the RMSNorm of a kind; null: none.
inline const float* norm_weights(const QkvArgs& args, HeadKind kind) {
  return kind == HeadKind::query ? args.q_norm : kind == HeadKind::key ? args.k_norm : nullptr;
}

/// Whether heads of a kind are turned by rotary position embedding.
inline bool is_turned(const QkvArgs& args, HeadKind kind) { return kind != HeadKind::value && args.rope != nullptr; }

/// What queries at a position are multiplied by.
inline float query_scale(const QkvArgs& args, std::uint32_t position) {
  const std::uint32_t steps = position / args.rules.query_scale_tokens;
  return static_cast<float>(1 + static_cast<double>(args.rules.query_scaling) * std::log1p(static_cast<double>(steps)));
}

/// Those of the RMSNorm of each head; null: none.
inline const float* head_norm(const QkvArgs& args, HeadKind kind) {
  return args.norm_whole ? nullptr : norm_weights(args, kind);
}

/// Whether what a projection gives waits for the norm over all heads of its row.
inline bool waits_for_norm(const QkvArgs& args, HeadKind kind) { return args.norm_whole && kind != HeadKind::value; }

/// Values of one row that wait: queries, then keys.
inline std::int64_t waiting_width(const QkvArgs& args) {
  return (args.n_heads + (args.writes_kv() ? std::int64_t{args.kv.n_kv_heads} : 0)) * args.kv.head_dim;
}
/// Where among them a head begins.
inline std::int64_t waiting_at(const QkvArgs& args, HeadKind kind, std::int64_t head) {
  return ((kind == HeadKind::key ? std::int64_t{args.n_heads} : 0) + head) * args.kv.head_dim;
}
/// Bytes of n rows of them; 0 where nothing waits.
inline std::uint64_t waiting_bytes(const Shape& shape, std::uint64_t n) {
  return shape.qk_norm_whole ? n * (shape.n_heads + shape.n_kv_heads) * shape.head_dim * sizeof(float) : 0;
}

/// Rows of one unit of the last phase, where rows are not side by side in panels: few rows, most of them of sequences
/// of their own, are cut into single ones; of many, neighbours go to one thread, since they share lines of the cache.
inline std::int64_t waiting_unit_rows(std::int64_t n) { return n <= 16 ? 1 : 16; }
/// Units of that phase, of `step` rows each: the queries of all rows, then the keys.
inline std::int64_t waiting_units(const QkvArgs& args, std::int64_t step) {
  return units_of(args.n, step) * (args.writes_kv() ? 2 : 1);
}
/// Calls f(kind, first row, end) for the units of a slice.
template <typename F>
inline void for_waiting_units(const QkvArgs& args, std::int64_t step, Slice slice, F f) {
  const std::int64_t blocks = units_of(args.n, step);
  for (std::int64_t unit = slice.begin; unit < slice.end; ++unit) {
    const std::int64_t first = unit % blocks * step;
    f(unit < blocks ? HeadKind::query : HeadKind::key, first, std::min(first + step, args.n));
  }
}

/// All heads of the layer: queries, then (where it writes to the cache) keys and values.
inline std::int64_t head_count(const QkvArgs& args) {
  return args.n_heads + (args.writes_kv() ? 2 * std::int64_t{args.kv.n_kv_heads} : 0);
}

struct Head {
  HeadProjection of;
  std::int64_t index;  ///< among the heads of its kind
};

/// Head `i` of those that head_count() counts.
inline Head head_at(const QkvArgs& args, std::int64_t i) {
  const std::int64_t queries = args.n_heads, keys = args.kv.n_kv_heads;
  if (i < queries) return {projection_of(args, HeadKind::query), i};
  if (i < queries + keys) return {projection_of(args, HeadKind::key), i - queries};
  return {projection_of(args, HeadKind::value), i - queries - keys};
}

/// Rows of the batch that are neighbouring positions of one sequence within one tile of the cache.
struct Run {
  const Sequence* sequence;
  std::int64_t first_row, count;
  std::uint32_t position;  ///< of the first row
};

/// Calls f(run) for the rows [first, end) of the batch, in order.
template <typename F>
inline void for_runs(const QkvArgs& args, std::int64_t first, std::int64_t end, F f) {
  const Sequence* sequence =
      std::upper_bound(args.sequences.data(), args.sequences.data() + args.sequences.size(), first,
                       [](std::int64_t row, const Sequence& s) { return row < s.first_row + s.n_rows; });
  for (std::int64_t row = first; row < end;) {
    while (row >= sequence->first_row + sequence->n_rows) ++sequence;
    const auto position = sequence->first_position + static_cast<std::uint32_t>(row - sequence->first_row);
    std::int64_t count = end - row;
    const std::int64_t in_sequence = sequence->first_row + sequence->n_rows - row;
    const std::int64_t in_tile = kTileTokens - position % kTileTokens;
    if (in_sequence < count) count = in_sequence;
    if (in_tile < count) count = in_tile;
    f(Run{sequence, row, count, position});
    row += count;
  }
}

/// The K tile of the cache that holds a run's positions of KV head `head`; the V tile follows it.
inline std::byte* k_tile(const QkvArgs& args, const Run& run, std::int64_t head) {
  return run.sequence->kv.k_tile(args.kv, args.layer, static_cast<std::uint32_t>(head), run.position / kTileTokens);
}

// ---- what follows the projection of a head ----
//
// Head is one head of one or more rows, as a set holds it, with what a set knows how to do: normalise(weights), an
// RMSNorm of the head's values; turn(), rotary position embedding; scale(), by query_scale(); keep(), where the norm is
// of all heads together; and write_query(), write_key(), write_value().

/// The last steps of a head whose norm is done, or which has none, or has it here.
template <typename Head>
inline void write_head(const QkvArgs& args, HeadKind kind, const Head& head) {
  if (is_turned(args, kind)) head.turn();
  if (const float* weights = args.rules.norm_after_rope ? head_norm(args, kind) : nullptr) head.normalise(weights);
  if (kind == HeadKind::query && args.rules.query_scaling != 0) head.scale();
  switch (kind) {
    case HeadKind::query: return head.write_query();
    case HeadKind::key: return head.write_key();
    case HeadKind::value: return head.write_value();
  }
}

/// All steps of a head that was projected; one that waits is only kept, and write_head() ends it.
template <typename Head>
inline void finish_head(const QkvArgs& args, HeadKind kind, const Head& head) {
  if (waits_for_norm(args, kind)) return head.keep();
  if (const float* weights = args.rules.norm_after_rope ? nullptr : head_norm(args, kind)) head.normalise(weights);
  write_head(args, kind, head);
}

}  // namespace
}  // namespace qinfer::kernels
