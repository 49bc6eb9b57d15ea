// What the projections of this backend share: how their workspaces are cut, where the panels of an operation are, and
// a linear layer out of them.
//
// With more than kLocalRows rows a first phase packs the activations into panels that all threads read; with fewer,
// every worker packs them for itself, which is cheaper than a barrier.
#pragma once

#include "amx/amx.h"
#include "amx/gemm_staged.h"
#include "avx512/avx512.h"

namespace qinfer::kernels::amx {
namespace {

inline constexpr std::int64_t kLocalRows = 8;
/// Outputs of one unit of a linear layer.
inline constexpr std::int64_t kUnitRows = 2 * kTileRows;

inline bool packs_locally(std::int64_t n) { return n <= kLocalRows; }

/// Units of the phase that packs shared panels.
inline std::int64_t pack_units(std::int64_t n, std::int64_t cols) {
  return packs_locally(n) ? 0 : panel_count(n) * pack_parts(cols);
}

inline std::int64_t units_of(std::int64_t rows) { return (rows + kUnitRows - 1) / kUnitRows; }

/// A worker's own workspace: with few tokens one block of sums, then panels of up to kLocalRows rows; with many what it
/// stages. `whole`: row pairs that go together.
struct OwnSpace {
  std::byte* memory;

  OwnSpace(const Workspace& workspace, std::int32_t worker) : memory(workspace.of(worker)) {}
  float* sums() const { return reinterpret_cast<float*>(memory); }
  std::uint32_t* panels() const { return reinterpret_cast<std::uint32_t*>(memory + sums_bytes(1)); }

  static std::uint64_t bytes(std::uint32_t batch, std::int64_t whole, std::int64_t cols) {
    const std::uint64_t few = sums_bytes(1) + panels_bytes(smaller(std::int64_t{batch}, kLocalRows), cols);
    return panel_count(batch) <= 2 ? few : larger(few, StagingRoom(whole).bytes());
  }
};

/// Multiplies all panels with row pairs 0 .. n_pairs - 1: see multiply_few() and multiply_many().
template <typename RowsAt, typename Sink>
inline void multiply(const Panels& x, std::int64_t n_pairs, std::int64_t whole, const OwnSpace& own, RowsAt rows,
                     Sink sink) {
  x.count() <= 2 ? multiply_few(x, n_pairs, own.sums(), rows, sink)
                 : multiply_many(x, n_pairs, whole, Staging(own.memory, whole), rows, sink);
}

/// The panels of an operation: shared ones, which a phase before has filled, or the worker's own, filled here.
inline Panels panels_for(const Rows& x, std::int64_t n, std::int64_t cols, const std::byte* shared,
                         const OwnSpace& own) {
  if (!packs_locally(n)) return {reinterpret_cast<const std::uint32_t*>(shared), n, cols};
  pack_rows(x, n, cols, own.panels(), 0, pack_parts(cols));
  return {own.panels(), n, cols};
}

inline void pack_shared(const Rows& x, std::int64_t n, std::int64_t cols, std::byte* shared, Slice slice) {
  pack_rows(x, n, cols, reinterpret_cast<std::uint32_t*>(shared), slice.begin, slice.end);
}

// ---- queries, keys and values: a unit is a head ----

inline std::int64_t pairs_of_head(std::int64_t head_dim) { return units_of(head_dim); }
/// Floats from one token's values of a head to the next one's.
inline std::int64_t head_ld(std::int64_t head_dim) { return (head_dim + 15) / 16 * 16; }

/// A worker's own workspace: the values of one head for 32 tokens, then that of any projection.
struct HeadSpace {
  float* values;
  OwnSpace own;

  HeadSpace(Workspace workspace, std::int32_t worker, std::int64_t head_dim)
      : values(reinterpret_cast<float*>(workspace.of(worker))), own(behind(workspace, value_bytes(head_dim)), worker) {}
  static std::uint64_t bytes(std::uint32_t batch, std::int64_t head_dim, std::int64_t cols) {
    return value_bytes(head_dim) + OwnSpace::bytes(batch, pairs_of_head(head_dim), cols);
  }

 private:
  static std::uint64_t value_bytes(std::int64_t head_dim) {
    return static_cast<std::uint64_t>(2 * kPanelTokens * head_ld(head_dim)) * sizeof(float);
  }
  static Workspace behind(Workspace workspace, std::uint64_t bytes) {
    workspace.per_worker += bytes;
    return workspace;
  }
};

struct Head {
  avx512::HeadBlock::Kind kind;
  const Matrix* w;
  const float* bias;
  std::int64_t index;  ///< among those of its kind
};

inline Head head_of_unit(const QkvArgs& args, std::int64_t unit) {
  using avx512::HeadBlock;
  const std::int64_t queries = args.n_heads, keys = args.kv.n_kv_heads;
  if (unit < queries) return {HeadBlock::query, &args.wq, args.bq, unit};
  if (unit < queries + keys) return {HeadBlock::key, &args.wk, args.bk, unit - queries};
  return {HeadBlock::value, &args.wv, args.bv, unit - queries - keys};
}

/// The shared workspace of a feed-forward network: panels of the input, then those of activation(gate) * up.
inline std::uint32_t* inner_panels(const FfnArgs& args) {
  return reinterpret_cast<std::uint32_t*>(args.workspace.shared + panels_bytes(args.n, args.gate.cols));
}

/// The outputs of a slice of units.
template <typename RowAt>
inline void project_rows(const Panels& x, const Matrix& w, const float* bias, bool accumulate, Slice slice,
                         const OwnSpace& own, RowAt row) {
  multiply(
      x, slice.end - slice.begin, 1, own,
      [&](std::int64_t i) { return rows_of(w, (slice.begin + i) * kUnitRows, w.rows); },
      [&](const SumBlock& block) {
        store_block(block, x, (slice.begin + block.pair) * kUnitRows, w.rows, bias, accumulate, row);
      });
}

}  // namespace
}  // namespace qinfer::kernels::amx
