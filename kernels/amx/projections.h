// What the projections of this backend share: how their workspaces are cut, where the panels of an operation are, and
// the outputs of a slice of units, as lines of the residual stream.
#pragma once

#include "amx/amx.h"
#include "amx/gemm_few.h"
#include "amx/gemm_staged.h"
#include "amx/heads.h"
#include "common/units.h"

namespace qinfer::kernels::amx {
namespace {

/// Outputs of one unit of a linear layer.
inline constexpr std::int64_t kUnitRows = 2 * kRegisterRows;

inline std::int64_t units_of(std::int64_t rows) { return kernels::units_of(rows, kUnitRows); }

/// A worker's own workspace: with few tokens blocks of sums, the ring of decoded rows, a panel of what is row-major,
/// split tokens, and turned panels; with many what it stages. `whole`: row pairs that go together. `cols`: of the
/// widest operand.
struct OwnSpace {
  std::byte* memory;

  OwnSpace(const Workspace& workspace, std::int32_t worker) : memory(workspace.of(worker)) {}
  std::uint32_t* panel() const {
    return reinterpret_cast<std::uint32_t*>(memory + sums_bytes(kMostPairsAtOnce) + kRingBytes);
  }
  FewRoom few(std::int64_t cols) const {
    std::byte *ring = memory + sums_bytes(kMostPairsAtOnce), *split = ring + kRingBytes + panels_bytes(1, cols);
    return {reinterpret_cast<float*>(memory), ring, reinterpret_cast<float*>(split),
            reinterpret_cast<std::uint32_t*>(split + split_bytes(kVectorTokens, cols))};
  }

  static std::uint64_t bytes(std::uint32_t batch, std::int64_t whole, std::int64_t cols) {
    const std::uint64_t few = sums_bytes(kMostPairsAtOnce) + kRingBytes + panels_bytes(1, cols) +
                              split_bytes(kVectorTokens, cols) +
                              panels_bytes(smaller(std::int64_t{batch}, 2 * kPanelLanes), cols);
    return panel_count(batch) <= 2 ? few : larger(few, Staging::bytes(panel_count(batch), whole));
  }
};

/// Multiplies all panels with row pairs 0 .. n_pairs - 1: see multiply_few(), multiply_several() and multiply_many().
template <typename RowsAt, typename Sink>
inline void multiply(const Panels& x, std::int64_t n_pairs, std::int64_t whole, const OwnSpace& own, RowsAt rows,
                     Sink sink) {
  if (x.count() <= 2) return multiply_few(x, n_pairs, own.few(x.cols), rows, sink);
  bool as_they_are = x.count() <= kSeveralPanels;
  for (std::int64_t i = 0; as_they_are && i < n_pairs; ++i)
    as_they_are = x.turned != nullptr ? rows(i).in_pairs() : !rows(i).has_pairs();
  as_they_are ? multiply_several(x, n_pairs, whole, own.few(x.cols).sums, rows, sink)
              : multiply_many(x, n_pairs, whole, Staging(own.memory), rows, sink);
}

/// Operands as panels: as they are, or few rows packed by the worker; up to two panels turned, if the weights take
/// them so.
inline Panels panels_of(const Activations& x, std::int64_t n, std::int64_t cols, bool turned, const OwnSpace& own) {
  const auto row = [&](std::int64_t m) { return x.row(m); };
  if (x.is_row_major() && turned) {
    pack_rows(n, cols, row, own.panel());
    return {nullptr, n, cols, own.panel()};
  }
  if (x.is_row_major()) {
    pack_panel(n, cols, row, own.panel());
    return {own.panel(), n, cols};
  }
  if (!turned || panel_count(n) > 2) return {x.pairs(), n, cols};
  std::uint32_t* out = own.few(cols).turned;
  turn_panels(x.pairs(), panel_count(n), cols, out, panel_dwords(cols));
  return {nullptr, n, cols, out};
}

/// write_inner() of the values that tiles multiply: row-major ones are rounded to bf16 as pack_rows() rounds them,
/// where numbers smaller than 2^-126 become zero, so that a row gives the same in batches of any size.
inline void write_rounded_inner(std::initializer_list<const Linear*> layers, const Activations& x, Slice slice) {
  write_inner_of(layers, slice, [&](std::int64_t m, std::int64_t k) {
    const float value = operand_at(x, m, k);
    return value > -0x1p-126f && value < 0x1p-126f ? 0.0f : bf16_to_f32(f32_to_bf16(value));
  });
}

// ---- turned panels: up to two each worker makes for itself, more a phase of their own makes for all ----

/// Whether these matrices are multiplied with turned panels.
inline bool takes_turned(std::initializer_list<const Linear*> layers) {
  bool turned = true;
  for (const Linear* w : layers) turned = turned && (w->data == nullptr || w->format.layout != WeightLayout::row_major);
  return turned;
}
/// Panels of n rows to turn for all workers, each a unit.
inline std::int64_t turn_units(std::initializer_list<const Linear*> layers, std::int64_t n) {
  return panel_count(n) > 2 && takes_turned(layers) ? panel_count(n) : 0;
}
inline std::uint64_t turned_bytes(std::uint32_t batch, std::int64_t cols) {
  return panel_count(batch) > 2 ? static_cast<std::uint64_t>(panel_count(batch) * spread_dwords(cols)) * 4 : 0;
}

/// What comes before some layers multiply n rows of x: units of additions, then of panels to turn.
inline std::int64_t prepare_units(std::initializer_list<const Linear*> layers, std::int64_t n) {
  return inner_units(layers) + turn_units(layers, n);
}
inline void prepare(std::initializer_list<const Linear*> layers, const Activations& x, std::int64_t n, Slice slice,
                    std::uint32_t* turned) {
  write_rounded_inner(layers, x, slice);
  const std::int64_t first = inner_units(layers), cols = (*layers.begin())->cols, stride = spread_dwords(cols);
  const std::int64_t begin = larger(slice.begin - first, std::int64_t{0}),
                     end = smaller(slice.end - first, turn_units(layers, n));
  if (begin < end)
    turn_panels(x.pairs() + begin * panel_dwords(cols), end - begin, cols, turned + begin * stride, stride);
}

/// Operands of layers for which prepare() has been called.
inline Panels prepared(std::initializer_list<const Linear*> layers, const Activations& x, std::int64_t n,
                       const std::uint32_t* turned, const OwnSpace& own) {
  const std::int64_t cols = (*layers.begin())->cols;
  if (turn_units(layers, n) > 0) return {nullptr, n, cols, turned, spread_dwords(cols)};
  return panels_of(x, n, cols, takes_turned(layers), own);
}

/// Multiplies with the rows of a slice of units; every block goes to sink(block, its first output).
template <typename Sink>
inline void project(const Panels& x, const Matrix& w, Slice slice, const OwnSpace& own, Sink sink) {
  multiply(
      x, slice.end - slice.begin, 1, own,
      [&](std::int64_t i) { return rows_of(w, (slice.begin + i) * kUnitRows, w.rows); },
      [&](const SumBlock& block) { sink(block, (slice.begin + block.pair) * kUnitRows); });
}

/// The outputs of a slice of units, into the residual stream.
inline void project_residual(const Panels& x, const Linear& w, bool accumulate, Slice slice, const OwnSpace& own,
                             const Activations& out) {
  project(x, w, slice, own, [&](const SumBlock& block, std::int64_t feature) {
    if (!out.is_row_major()) return store_lines(block, feature, w, accumulate, out);
    store_rows(block, x.n, feature, w, accumulate, [&](std::int64_t m) { return out.row(m); });
  });
}

// ---- queries, keys and values: a unit is a head ----

inline std::int64_t pairs_of_head(std::int64_t head_dim) { return units_of(head_dim); }

/// A worker's own workspace: the values of one head for two panels or few rows, their rope tables where they are not
/// shared, then that of any projection.
struct HeadSpace {
  float *values, *rope;
  std::int64_t head_floats, rope_panel;  ///< of one panel
  OwnSpace own;

  HeadSpace(Workspace workspace, std::int32_t worker, std::int64_t head_dim)
      : values(reinterpret_cast<float*>(workspace.of(worker))),
        rope(values + 2 * value_floats(head_dim)),
        head_floats(value_floats(head_dim)),
        rope_panel(rope_floats(head_dim)),
        own(after(workspace, head_bytes(head_dim)), worker) {}
  static std::uint64_t bytes(std::uint32_t batch, std::int64_t head_dim, std::int64_t cols) {
    return head_bytes(head_dim) + OwnSpace::bytes(batch, pairs_of_head(head_dim), cols);
  }

 private:
  static std::int64_t value_floats(std::int64_t head_dim) { return padded_k(head_dim) * kPanelLanes; }
  static std::uint64_t head_bytes(std::int64_t head_dim) {
    return static_cast<std::uint64_t>(2 * (value_floats(head_dim) + rope_floats(head_dim))) * sizeof(float);
  }
  static Workspace after(Workspace workspace, std::uint64_t bytes) {
    workspace.per_worker += bytes;
    return workspace;
  }
};

/// The shared workspace of a feed-forward network: panels of activation(gate) * up, turned if the down projection takes
/// them so; then turned operands.
inline std::uint32_t* inner_panels(const FfnArgs& args) {
  return reinterpret_cast<std::uint32_t*>(args.workspace.shared);
}
inline std::uint32_t* turned_operands(const FfnArgs& args) {
  return inner_panels(args) + panel_count(args.n) * panel_dwords(args.gate.rows);
}

}  // namespace
}  // namespace qinfer::kernels::amx
