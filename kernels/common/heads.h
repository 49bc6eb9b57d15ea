// What the q/k/v operation has in common on every backend: the heads that it computes, which matrix, bias and norm
// belongs to each, and the walk from rows of a batch to places in the KV cache.
#pragma once

#include <algorithm>

#include "kernel_set.h"

namespace qinfer::kernels {

enum class HeadKind : std::uint8_t { query, key, value };

namespace {  // files with different instruction sets include this header

/// What projects all heads of one kind.
struct HeadProjection {
  HeadKind kind;
  const Matrix* w;
  const float* bias;  ///< null: none
  std::int64_t n_heads;
};

inline HeadProjection projection_of(const QkvArgs& args, HeadKind kind) {
  switch (kind) {
    case HeadKind::query: break;
    case HeadKind::key: return {kind, &args.wk, args.bk, args.kv.n_kv_heads};
    case HeadKind::value: return {kind, &args.wv, args.bv, args.kv.n_kv_heads};
  }
  return {HeadKind::query, &args.wq, args.bq, args.n_heads};
}

/// The weights of the RMSNorm of each head of a kind; null: none.
inline const float* head_norm(const QkvArgs& args, HeadKind kind) {
  return kind == HeadKind::query ? args.q_norm : kind == HeadKind::key ? args.k_norm : nullptr;
}

/// Whether heads of a kind are turned by rotary position embedding.
inline bool is_turned(const QkvArgs& args, HeadKind kind) { return kind != HeadKind::value && args.rope != nullptr; }

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

}  // namespace
}  // namespace qinfer::kernels
