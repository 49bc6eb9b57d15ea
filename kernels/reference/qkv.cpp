// Query, key and value projections with head norm, rotary embedding and the write to the KV cache. A unit is one head
// for all rows, so that norm and rotation find the whole head finished.
//
// Tiles hold keys as [head_dim][32 positions] and values as [32 positions][head_dim]: both products of attention then
// run along contiguous memory.
#include <algorithm>
#include <cstring>

#include "reference.h"

namespace qinfer::kernels::reference {
namespace {

/// Rows that one widened row of weights serves; bounds the per-worker scratch.
constexpr std::int64_t kRowBlock = 64;

void store(std::byte* tile, std::int64_t index, float value, DType type) {
  narrow(&value, 1, type, tile + index * static_cast<std::int64_t>(dtype_bytes(type)));
}

/// x' = x cos - y sin, y' = y cos + x sin for the pairs (x, y) = (i, i + d/2).
void rotate(float* head, std::int64_t head_dim, const float* rope_row) {
  const std::int64_t half = head_dim / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const float c = rope_row[2 * i], s = rope_row[2 * i + 1];
    const float a = head[i], b = head[i + half];
    head[i] = a * c - b * s;
    head[i + half] = b * c + a * s;
  }
}

struct Head {
  enum Kind { query, key, value } kind;
  std::uint32_t index;  ///< among the heads of its kind
};

Head head_of_unit(const QkvArgs& args, std::int64_t unit) {
  const auto u = static_cast<std::uint32_t>(unit);
  if (u < args.n_heads) return {Head::query, u};
  if (u < args.n_heads + args.kv.n_kv_heads) return {Head::key, u - args.n_heads};
  return {Head::value, u - args.n_heads - args.kv.n_kv_heads};
}

void write_cache(const QkvArgs& args, const Head& head, const KvView& view, std::uint32_t position,
                 const float* values) {
  std::byte* tile = view.k_tile(args.kv, args.layer, head.index, position / kTileTokens);
  const std::int64_t lane = position % kTileTokens;
  const std::int64_t width = args.kv.head_dim;
  if (head.kind == Head::key) {
    for (std::int64_t i = 0; i < width; ++i) store(tile, i * kTileTokens + lane, values[i], args.kv.type);
  } else {
    std::byte* v_tile = tile + args.kv.tile_bytes();
    narrow(values, width, args.kv.type,
           v_tile + lane * args.kv.head_dim_padded * static_cast<std::int64_t>(dtype_bytes(args.kv.type)));
  }
}

/// Norm, rotation and store of one finished head of one row.
void finish_head(const QkvArgs& args, const Head& head, const Sequence& sequence, std::int64_t row, float* values) {
  const std::int64_t width = args.kv.head_dim;
  const std::uint32_t position = sequence.first_position + static_cast<std::uint32_t>(row - sequence.first_row);
  const float* norm = head.kind == Head::query ? args.q_norm : head.kind == Head::key ? args.k_norm : nullptr;
  if (norm != nullptr) rms_norm_row(values, norm, width, args.norm_eps, values);
  if (head.kind != Head::value) rotate(values, width, args.rope + std::int64_t{position} * width);
  if (head.kind == Head::query) {
    std::memcpy(args.q.row(row) + head.index * width, values, static_cast<std::size_t>(width) * sizeof(float));
  } else {
    write_cache(args, head, sequence.kv, position, values);
  }
}

void project_head(const QkvArgs& args, const Head& head, std::int64_t first, std::int64_t count, float* weights,
                  float* values) {
  const Matrix& w = head.kind == Head::query ? args.wq : head.kind == Head::key ? args.wk : args.wv;
  const float* bias = head.kind == Head::query ? args.bq : head.kind == Head::key ? args.bk : args.bv;
  const std::int64_t width = args.kv.head_dim;
  const Activations block{args.x.row(first), args.x.layout, args.x.ld};
  for (std::int64_t i = 0; i < width; ++i) {
    const std::int64_t j = head.index * width + i;
    dot_rows(block, count, widen_row(w, j, weights), w.cols, values + i, width);
    if (bias == nullptr) continue;
    for (std::int64_t m = 0; m < count; ++m) values[m * width + i] += bias[j];
  }
}

}  // namespace

std::int64_t qkv_units(const QkvArgs& args, std::int32_t) {
  return args.n_heads + (args.writes_kv() ? 2 * args.kv.n_kv_heads : 0);
}

void qkv(const QkvArgs& args, std::int32_t, Slice slice) {
  float* weights = reinterpret_cast<float*>(args.workspace.of(slice.worker));
  float* values = weights + weight_row_bytes(args.wq.cols) / sizeof(float);
  const std::int64_t width = args.kv.head_dim;
  for (std::int64_t unit = slice.begin; unit < slice.end; ++unit) {
    const Head head = head_of_unit(args, unit);
    std::size_t current = 0;  // the sequence that holds the row; rows ascend, so it only moves forward
    for (std::int64_t first = 0; first < args.n; first += kRowBlock) {
      const std::int64_t count = std::min(kRowBlock, args.n - first);
      project_head(args, head, first, count, weights, values);
      for (std::int64_t m = 0; m < count; ++m) {
        while (first + m >= args.sequences[current].first_row + args.sequences[current].n_rows) ++current;
        finish_head(args, head, args.sequences[current], first + m, values + m * width);
      }
    }
  }
}

WorkspaceSize qkv_workspace(const Shape& shape) {
  const std::uint64_t rows = std::min<std::uint64_t>(kRowBlock, shape.batch);
  return {0, weight_row_bytes(shape.hidden) + round_up(rows * shape.head_dim * sizeof(float), 64)};
}

}  // namespace qinfer::kernels::reference
