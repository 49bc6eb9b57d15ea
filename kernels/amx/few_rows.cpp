// See few_rows.h.
//
// A bf16 value is the upper half of an f32: a line of 32 weights becomes two registers by a shift and a mask, one of
// the even columns and one of the odd. Activations are split once per slice in the same way, so that a line costs two
// instructions and two multiply-adds per token. Rows pass side by side, each out of a run of memory of its own, far
// from the others: one run alone reaches two thirds of the bandwidth, eight all of it.
#include "amx/few_rows.h"

#include "amx/moe.h"
#include "tiled/tiled.h"

namespace qinfer::kernels::amx {
namespace {

/// Rows of weights that pass at once, by the registers for their sums.
template <int tokens>
inline constexpr int kRuns = tokens <= 2 ? 8 : 4;
/// How far ahead of its reading each run of memory is fetched. (No measurement of other distances is kept.)
inline constexpr std::int64_t kAheadBytes = 2048;

/// Activations split into even and odd columns: [k / 32][2][16] of each token, zeros after the last column.
struct SplitRows {
  const float* rows[kFewRows] = {};
  std::int64_t n = 0, cols = 0;

  SplitRows(std::int64_t n_, std::int64_t cols_) : n(n_), cols(cols_) {}
  /// Rows that follow each other.
  SplitRows(const float* data, std::int64_t n_, std::int64_t cols_) : SplitRows(n_, cols_) {
    for (std::int64_t m = 0; m < n; ++m) rows[m] = data + m * padded_k(cols);
  }
};

void split(__m512 low, __m512 high, float* out) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
  _mm512_store_ps(out, _mm512_permutex2var_ps(low, even, high));
  _mm512_store_ps(out + 16, _mm512_permutex2var_ps(low, odd, high));
}

/// A worker's split copy of n rows, in the room of its panel.
SplitRows split_rows(const Activations& x, std::int64_t n, std::int64_t cols, const OwnSpace& own) {
  auto* out = reinterpret_cast<float*>(own.panel());
  for (std::int64_t m = 0; m < n; ++m)
    for (std::int64_t k = 0; k < cols; k += kStep, out += kStep) {
      const avx512::Lanes32 values = load_columns(x.row(m) + k, cols - k);
      split(values.low, values.high, out);
    }
  return {reinterpret_cast<const float*>(own.panel()), n, cols};
}

/// sums[row][token] += 32 columns: weights at w[row] + 2 * k, of which `lanes` exist.
template <int rows, int tokens, bool whole>
[[gnu::always_inline]] inline void add_line(const std::byte* const (&w)[rows], const SplitRows& x, std::int64_t k,
                                            __mmask32 lanes, __m512 (&sums)[rows][tokens]) {
  __m512 even[tokens], odd[tokens];
#pragma GCC unroll 8
  for (int t = 0; t < tokens; ++t) {
    even[t] = _mm512_load_ps(x.rows[t] + k);
    odd[t] = _mm512_load_ps(x.rows[t] + k + 16);
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    const avx512::Lanes32 line =
        avx512::widen_pairs(whole ? _mm512_loadu_si512(w[r] + 2 * k) : _mm512_maskz_loadu_epi16(lanes, w[r] + 2 * k));
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
      sums[r][t] = _mm512_fmadd_ps(line.low, even[t], sums[r][t]);
      sums[r][t] = _mm512_fmadd_ps(line.high, odd[t], sums[r][t]);
    }
  }
}

/// out[row][token] = sum over k of w[row][k] * x[token][k].
template <int rows, int tokens>
void dot(const std::byte* const (&w)[rows], const SplitRows& x, float (&out)[rows][kFewRows]) {
  __m512 sums[rows][tokens];
  for (auto& row : sums)
    for (__m512& sum : row) sum = _mm512_setzero_ps();
  std::int64_t k = 0;
  for (; k + kStep <= x.cols; k += kStep) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) _mm_prefetch(reinterpret_cast<const char*>(w[r] + 2 * k + kAheadBytes), _MM_HINT_T0);
    add_line<rows, tokens, true>(w, x, k, 0, sums);
  }
  if (k < x.cols) add_line<rows, tokens, false>(w, x, k, (__mmask32{1} << (x.cols - k)) - 1, sums);
  for (int r = 0; r < rows; ++r)
    for (int t = 0; t < tokens; ++t) out[r][t] = avx512::sum_lanes(sums[r][t]);
}

const std::byte* row_of(const Matrix& w, std::int64_t row) { return w.data + row * w.cols * 2; }

/// Rows [first, end) of a matrix: hands emit(row, sums of all tokens) every one.
template <int tokens, typename Emit>
void project(const SplitRows& x, const Matrix& w, std::int64_t first, std::int64_t end, Emit emit) {
  constexpr int kRows = kRuns<tokens>;
  const std::int64_t run = (end - first) / kRows;
  for (std::int64_t i = 0; i < run; ++i) {
    const std::byte* rows[kRows];
    float sums[kRows][kFewRows];
    for (int r = 0; r < kRows; ++r) rows[r] = row_of(w, first + r * run + i);
    dot<kRows, tokens>(rows, x, sums);
    for (int r = 0; r < kRows; ++r) emit(first + r * run + i, sums[r]);
  }
  for (std::int64_t row = first + kRows * run; row < end; ++row) {
    const std::byte* const rows[1] = {row_of(w, row)};
    float sums[1][kFewRows];
    dot<1, tokens>(rows, x, sums);
    emit(row, sums[0]);
  }
}

/// Output j of row m of a layer.
float finished(const Linear& w, std::int64_t m, std::int64_t j, float sum) {
  if (w.bias != nullptr) sum += w.bias[j];
  if (!w.additions.empty()) add_shares(w, m, j, 1, &sum);
  return sum * w.scale;
}

/// Stores outputs of a slice of units in rows, as store_rows() does.
template <typename RowAt>
void project_rows(const SplitRows& x, const Linear& w, bool accumulate, Slice slice, RowAt row) {
  const auto store = [&](std::int64_t j, const float* sums) {
    for (std::int64_t m = 0; m < x.n; ++m) {
      float* out = row(m) + j;
      const float value = finished(w, m, j, sums[m]);
      *out = accumulate ? *out + value : value;
    }
  };
  with_tokens(x.n, [&]<int tokens>() {
    project<tokens>(x, w, slice.begin * kUnitRows, smaller(slice.end * kUnitRows, w.rows), store);
  });
}

}  // namespace

void linear_few_rows(const LinearArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 0) return write_inner({&args.w}, args.x, slice);
  const OwnSpace own(args.workspace, slice.worker);
  project_rows(split_rows(args.x, args.n, args.w.cols, own), args.w, args.accumulate, slice,
               [&](std::int64_t m) { return args.out.row(m); });
}

void lm_head_few_rows(const LmHeadArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 0) return write_inner({&args.w}, args.x, slice);
  const OwnSpace own(args.workspace, slice.worker);
  project_rows(split_rows(args.x, args.n, args.w.cols, own), args.w, false, slice,
               [&](std::int64_t m) { return args.out[m]; });
  if (args.softcap != 0) avx512::cap_logits(args, slice.begin * kUnitRows, slice.end * kUnitRows);
}

// ---- queries, keys and values: a unit is a head ----

void qkv_few_rows(const QkvArgs& args, std::int32_t phase, Slice slice) {
  if (phase == 0) return write_inner({&args.wq, &args.wk, &args.wv}, args.x, slice);
  const std::int64_t width = args.kv.head_dim;
  const HeadSpace space(args.workspace, slice.worker, width);
  const SplitRows x = split_rows(args.x, args.n, args.wq.cols, space.own);
  transpose_rope(args, 0, space.rope);
  for (std::int64_t i = 0; i < space.head_floats; i += kPanelLanes)
    _mm512_store_ps(space.values + i, _mm512_setzero_ps());
  for (std::int64_t unit = slice.begin; unit < slice.end; ++unit) {
    const Head head = head_at(args, unit);
    const std::int64_t first = head.index * width;
    const auto store = [&](std::int64_t j, const float* sums) {
      for (std::int64_t m = 0; m < x.n; ++m)
        space.values[(j - first) * kPanelLanes + m] = finished(*head.of.w, m, j, sums[m]);
    };
    with_tokens(x.n, [&]<int tokens>() { project<tokens>(x, *head.of.w, first, first + width, store); });
    finish_panel_head(args, head.of.kind, head.index, 0, space.values, space.rope);
  }
}

// ---- the feed-forward network ----

namespace {

/// Sums of gate and of up for 32 features.
struct alignas(64) GateAndUp {
  float gate[kFewRows][kUnitRows] = {}, up[kFewRows][kUnitRows] = {};
};

/// activation(gate) * up of the 32 features of a unit, or activation(gate) where there is no up, split for the down
/// projection.
void store_activations(const FfnArgs& args, const GateAndUp& sums, std::int64_t unit, float* inner) {
  const auto product = [&](std::int64_t m, std::int64_t i) {
    const std::int64_t feature = unit * kUnitRows + i, count = larger(args.gate.rows - feature, std::int64_t{0});
    const __m512 gate = finished_row(args.gate, m, feature, count, _mm512_load_ps(sums.gate[m] + i));
    if (!args.has_up()) return activated<avx512::VectorOps>(args.activation, gate);
    return gated<avx512::VectorOps>(args.activation, gate,
                                    finished_row(args.up, m, feature, count, _mm512_load_ps(sums.up[m] + i)));
  };
  for (std::int64_t m = 0; m < args.n; ++m)
    split(product(m, 0), product(m, 16), inner + m * padded_k(args.gate.rows) + unit * kUnitRows);
}

/// Units first, first + step, ... of `runs` runs of units side by side, gate and up of each.
template <int runs, int tokens>
void gate_and_up(const FfnArgs& args, const SplitRows& x, std::int64_t first, std::int64_t step, float* inner) {
  GateAndUp sums[runs];
  for (std::int64_t i = 0; i < kUnitRows; ++i) {
    const std::byte* rows[2 * runs];
    float out[2 * runs][kFewRows];
    for (int r = 0; r < runs; ++r) {
      // After the last feature the last one once more, and what comes of it is not stored.
      const std::int64_t feature = smaller((first + r * step) * kUnitRows + i, args.gate.rows - 1);
      rows[2 * r] = row_of(args.gate, feature), rows[2 * r + 1] = row_of(args.up, feature);
    }
    dot<2 * runs, tokens>(rows, x, out);
    for (int r = 0; r < runs; ++r) {
      if ((first + r * step) * kUnitRows + i >= args.gate.rows) continue;
      for (std::int64_t m = 0; m < tokens; ++m)
        sums[r].gate[m][i] = out[2 * r][m], sums[r].up[m][i] = out[2 * r + 1][m];
    }
  }
  for (int r = 0; r < runs; ++r) store_activations(args, sums[r], first + r * step, inner);
}

/// A slice of units of the first half.
template <int tokens>
void gate_and_up(const FfnArgs& args, const SplitRows& x, Slice slice, float* inner) {
  constexpr int kGateRuns = kRuns<tokens> / 2;
  const std::int64_t step = (slice.end - slice.begin) / kGateRuns;
  for (std::int64_t i = 0; i < step; ++i) gate_and_up<kGateRuns, tokens>(args, x, slice.begin + i, step, inner);
  for (std::int64_t u = slice.begin + kGateRuns * step; u < slice.end; ++u)
    gate_and_up<1, tokens>(args, x, u, 0, inner);
}

/// The same where there is no up.
template <int tokens>
void gate_alone(const FfnArgs& args, const SplitRows& x, Slice slice, float* inner) {
  for (std::int64_t unit = slice.begin; unit < slice.end; ++unit) {
    GateAndUp sums;
    const std::int64_t first = unit * kUnitRows;
    project<tokens>(x, args.gate, first, smaller(first + kUnitRows, args.gate.rows),
                    [&](std::int64_t j, const float* values) {
                      for (std::int64_t m = 0; m < tokens; ++m) sums.gate[m][j - first] = values[m];
                    });
    store_activations(args, sums, unit, inner);
  }
}

}  // namespace

void ffn_few_rows(const FfnArgs& args, std::int32_t phase, Slice slice) {
  auto* inner = reinterpret_cast<float*>(inner_panels(args));
  const std::int64_t padded = padded_k(args.gate.rows);
  if (phase == 0) return write_inner({&args.gate, &args.up}, args.x, slice);
  if (phase == 2)
    return write_inner_of({&args.down}, slice, [&](std::int64_t m, std::int64_t k) {
      return inner[m * padded + k / kStep * kStep + k % 2 * 16 + k % kStep / 2];
    });
  if (phase == 3)
    return project_rows(SplitRows(inner, args.n, args.gate.rows), args.down, args.accumulate, slice,
                        [&](std::int64_t m) { return args.out.row(m); });
  const SplitRows x = split_rows(args.x, args.n, args.gate.cols, OwnSpace(args.workspace, slice.worker));
  with_tokens(x.n, [&]<int tokens>() {
    args.has_up() ? gate_and_up<tokens>(args, x, slice, inner) : gate_alone<tokens>(args, x, slice, inner);
  });
}

// ---- mixtures of experts ----

namespace {

/// The rows of a slot.
SplitRows rows_of_slot(const SplitRows& batch, const Routes& routes, const ExpertSlot& slot) {
  SplitRows x(slot.count, batch.cols);
  for (std::int32_t i = 0; i < slot.count; ++i) x.rows[i] = batch.rows[routes.rows[slot.first + i].row];
  return x;
}

void router_few_rows(const MoeArgs& args, const OwnSpace& own, Slice slice) {
  const Routes routes(args);
  const SplitRows x = split_rows(args.x, args.n, args.router.cols, own);
  for_routers(args, slice, [&](const Linear& w, Slice units, std::int64_t column) {
    project_rows(x, w, false, units, [&](std::int64_t m) { return routes.logits + m * routes.ld + column; });
  });
}

void inner_few_rows(const MoeArgs& args, const OwnSpace& own, Slice slice) {
  const Routes routes(args);
  const SplitRows batch = split_rows(args.x, args.n, args.router.cols, own);
  for_inner_slots(
      args, routes, slice,
      [&](const ExpertSlot& slot, Range<std::int64_t> tiles, const ExpertSlot*, Range<std::int64_t>) {
        const FfnArgs ffn = network_of(args, slot);
        const SplitRows x = rows_of_slot(batch, routes, slot);
        auto* inner = reinterpret_cast<float*>(inner_panels(ffn));
        with_tokens(x.n, [&]<int tokens>() { gate_and_up<tokens>(ffn, x, {tiles.begin, tiles.end}, inner); });
      });
}

void outer_few_rows(const MoeArgs& args, Slice slice) {
  const Routes routes(args);
  RowSums sums(args, slice.worker);
  sums.for_blocks(args, routes, slice, [&](const OuterBlock& block) {
    for (std::int64_t i = 0; i < routes.n_slots(); ++i) {
      const ExpertSlot& slot = routes.slots[i];
      const FfnArgs ffn = network_of(args, slot);
      const std::int64_t first = block.first_unit * kUnitRows, end = smaller(block.end_unit * kUnitRows, ffn.down.rows);
      const SplitRows x(reinterpret_cast<const float*>(inner_panels(ffn)), slot.count, ffn.gate.rows);
      const auto add = [&](std::int64_t j, const float* values) {
        for (std::int64_t m = 0; m < slot.count; ++m) {
          const RoutedRow& routed = routes.rows[slot.first + m];
          float* sum = sums.at(routed.row, j - first);
          const float value = finished(ffn.down, 0, j, values[m]) * routed.weight;
          *sum = routed.first ? value : *sum + value;
        }
      };
      with_tokens(x.n, [&]<int tokens>() { project<tokens>(x, ffn.down, first, end, add); });
    }
  });
}

}  // namespace

void moe_ffn_few_rows(const MoeArgs& args, std::int32_t phase, Slice slice) {
  const OwnSpace own(args.workspace, slice.worker);
  switch (phase) {
    case kRouter: return router_few_rows(args, own, slice);
    case kInner: return inner_few_rows(args, own, slice);
    case kOuter: return outer_few_rows(args, slice);
    default: return moe_ffn(args, phase, slice);
  }
}

}  // namespace qinfer::kernels::amx
