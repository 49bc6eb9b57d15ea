// Query, key and value projections with head norm, rotary embedding and the write to the KV cache. A unit is one head
// for all rows, so that norm and rotation find the whole head finished; a norm over all heads has a separate phase.
//
// Tiles hold keys as [head_dim][32 positions] and values as [32 positions][head_dim]: both products of attention then
// run along contiguous memory.
#include <algorithm>
#include <cstring>

#include "common/heads.h"
#include "projection.h"

namespace qinfer::kernels::reference {
namespace {

/// Rows that one widened row of weights serves; bounds the per-worker scratch. (No measurement of other numbers is
/// kept.)
constexpr std::int64_t kRowBlock = 64;

void store(std::byte* tile, std::int64_t index, float value, DType type) {
  narrow(&value, 1, type, tile + index * static_cast<std::int64_t>(dtype_bytes(type)));
}

/// A head as a row, and the row of the rope table for its position.
struct RowHead {
  static constexpr std::int64_t kStep = 1;
  float* values;
  const float* table;  ///< [head_dim / 2][cos, sin]

  float load(std::int64_t i, std::int64_t) const { return values[i]; }
  void store(std::int64_t i, std::int64_t, float value) const { values[i] = value; }
  void rope(std::int64_t i, std::int64_t, float& cos, float& sin) const { cos = table[2 * i], sin = table[2 * i + 1]; }
};

/// A row of what waits for the norm over all heads.
float* waiting_row(const QkvArgs& args, std::int64_t row) {
  return reinterpret_cast<float*>(args.workspace.shared) + row * waiting_width(args);
}

/// One head of one row of a run, for finish_head().
struct FinishedHead {
  const QkvArgs& args;
  Head head;
  const Run& run;
  std::int64_t row;
  float* values;

  std::int64_t width() const { return args.kv.head_dim; }
  std::int64_t lane() const { return run.position % kTileTokens + (row - run.first_row); }
  std::byte* tile() const { return k_tile(args, run, head.index); }

  void keep() const {
    std::memcpy(waiting_row(args, row) + waiting_at(args, head.of.kind, head.index), values,
                static_cast<std::size_t>(width()) * sizeof(float));
  }
  void normalise(const float* weights) const { rms_norm_row(values, weights, width(), args.norm_eps, values); }
  void turn() const {
    const std::int64_t position = run.position + (row - run.first_row);
    rotate<ScalarOps>(RowHead{values, args.rope + position * width()}, width());
  }
  void scale() const {
    const float factor = query_scale(args, run.position + static_cast<std::uint32_t>(row - run.first_row));
    for (std::int64_t i = 0; i < width(); ++i) values[i] *= factor;
  }
  void write_query() const {
    std::memcpy(args.q.row(row) + head.index * width(), values, static_cast<std::size_t>(width()) * sizeof(float));
  }
  void write_key() const {
    std::byte* lines = tile() + lane() * static_cast<std::int64_t>(dtype_bytes(args.kv.type));
    for (std::int64_t i = 0; i < width(); ++i) store(lines, i * kTileTokens, values[i], args.kv.type);
  }
  void write_value() const {
    const std::int64_t row_bytes = args.kv.head_dim_padded * static_cast<std::int64_t>(dtype_bytes(args.kv.type));
    narrow(values, width(), args.kv.type, tile() + args.kv.tile_bytes() + lane() * row_bytes);
  }
};

void project_head(const QkvArgs& args, const Head& head, std::int64_t first, std::int64_t count, float* weights,
                  float* values) {
  const Linear& w = *head.of.w;
  const std::int64_t width = args.kv.head_dim;
  const Activations block{args.x.row(first), args.x.layout, args.x.ld};
  for (std::int64_t i = 0; i < width; ++i) {
    const std::int64_t j = head.index * width + i;
    dot_rows(block, count, widen_row(w, j, weights), w.cols, values + i, width);
    finish_outputs(w, j, count, values + i, width, first);
  }
}

}  // namespace

std::int32_t qkv_phases(const QkvArgs& args) { return args.norm_whole ? 3 : 2; }

std::int64_t qkv_units(const QkvArgs& args, std::int32_t phase) {
  if (phase == 0) return inner_units({&args.wq, &args.wk, &args.wv});
  return phase == 1 ? head_count(args) : waiting_units(args, waiting_unit_rows(args.n));
}

namespace {

/// The norm over all heads of a kind, and what follows for each of them.
void finish_waiting(const QkvArgs& args, Slice slice) {
  const std::int64_t width = args.kv.head_dim;
  for_waiting_units(args, waiting_unit_rows(args.n), slice, [&](HeadKind kind, std::int64_t first, std::int64_t end) {
    const HeadProjection of = projection_of(args, kind);
    for_runs(args, first, end, [&](const Run& run) {
      for (std::int64_t row = run.first_row; row < run.first_row + run.count; ++row) {
        float* values = waiting_row(args, row) + waiting_at(args, kind, 0);
        rms_norm_row(values, norm_weights(args, kind), of.n_heads * width, args.norm_eps, values);
        for (std::int64_t h = 0; h < of.n_heads; ++h)
          write_head(args, kind, FinishedHead{args, {of, h}, run, row, values + h * width});
      }
    });
  });
}

}  // namespace

void qkv(const QkvArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 0) return write_inner({&args.wq, &args.wk, &args.wv}, args.x, slice);
  if (phase == 2) return finish_waiting(args, slice);
  float* weights = reinterpret_cast<float*>(args.workspace.of(slice.worker));
  float* values = weights + weight_row_bytes(args.wq.cols) / sizeof(float);
  const std::int64_t width = args.kv.head_dim;
  for (std::int64_t unit = slice.begin; unit < slice.end; ++unit) {
    const Head head = head_at(args, unit);
    for (std::int64_t first = 0; first < args.n; first += kRowBlock) {
      const std::int64_t end = std::min(first + kRowBlock, args.n);
      project_head(args, head, first, end - first, weights, values);
      for_runs(args, first, end, [&](const Run& run) {
        for (std::int64_t row = run.first_row; row < run.first_row + run.count; ++row)
          finish_head(args, head.of.kind, FinishedHead{args, head, run, row, values + (row - first) * width});
      });
    }
  }
}

WorkspaceSize qkv_workspace(const Shape& shape) {
  const std::uint64_t rows = std::min<std::uint64_t>(kRowBlock, shape.batch);
  return {round_up(waiting_bytes(shape, shape.batch), 64),
          weight_row_bytes(shape.hidden) + round_up(rows * shape.head_dim * sizeof(float), 64)};
}

}  // namespace qinfer::kernels::reference
