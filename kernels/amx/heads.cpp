// See heads.h.
#include "amx/heads.h"

namespace qinfer::kernels::amx {
namespace {

/// Calls f(run) for the tokens of a panel.
template <typename F>
void for_panel_runs(const QkvArgs& args, std::int64_t panel, F f) {
  const std::int64_t first = panel * kPanelLanes;
  for_runs(args, first, smaller(first + kPanelLanes, args.n), f);
}

void normalise(float* values, const float* weight, std::int64_t width, float eps) {
  const auto line = [&](std::int64_t i) { return _mm512_load_ps(values + i * kPanelLanes); };
  const __m512 scale = inverse_rms(width, eps, line);
  for (std::int64_t i = 0; i < width; ++i)
    _mm512_store_ps(values + i * kPanelLanes, _mm512_mul_ps(_mm512_mul_ps(line(i), scale), _mm512_set1_ps(weight[i])));
}

/// A head of 16 tokens as lines, and the lines of their rope tables.
struct PanelHead {
  static constexpr std::int64_t kStep = 1;
  float* values;       ///< [feature][16]
  const float* table;  ///< [head_dim / 2][cos, sin][16]

  __m512 load(std::int64_t i, std::int64_t) const { return _mm512_load_ps(values + i * kPanelLanes); }
  void store(std::int64_t i, std::int64_t, __m512 value) const { _mm512_store_ps(values + i * kPanelLanes, value); }
  void rope(std::int64_t i, std::int64_t, __m512& cos, __m512& sin) const {
    cos = _mm512_load_ps(table + 2 * i * kPanelLanes), sin = _mm512_load_ps(table + (2 * i + 1) * kPanelLanes);
  }
};

/// Queries of a row-major batch.
void store_query_rows(const QkvArgs& args, std::int64_t head, const float* values) {
  const std::int64_t width = args.kv.head_dim;
  for (std::int64_t i = 0; i < width; i += 16) {
    __m512 lines[16], rows[16];
    for (std::int64_t j = 0; j < 16; ++j) lines[j] = _mm512_load_ps(values + (i + j) * kPanelLanes);
    transpose(lines, rows);
    for (std::int64_t m = 0; m < args.n; ++m)
      _mm512_mask_storeu_ps(args.q.row(m) + head * width + i, first_lanes(width - i), rows[m]);
  }
}

void store_query(const QkvArgs& args, std::int64_t head, std::int64_t panel, const float* values) {
  if (args.q.is_row_major()) return store_query_rows(args, head, values);
  const std::int64_t dwords = panel_dwords(args.kv.head_dim);
  auto* out = args.q.pairs() + (panel * args.n_heads + head) * dwords;
  for (std::int64_t at = 0; at < dwords; at += kPanelLanes, values += 2 * kPanelLanes)
    _mm512_store_si512(out + at, interleave(_mm512_load_ps(values), _mm512_load_ps(values + kPanelLanes)));
}

/// Lanes become rows of tiles [32][padded], with zeros after them.
template <DType type>
void store_key(const QkvArgs& args, std::int64_t head, std::int64_t panel, const float* values) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  const std::int64_t padded = args.kv.head_dim_padded;
  std::byte* out[16];
  std::int64_t tokens = 0;
  for_panel_runs(args, panel, [&](const Run& run) {
    std::byte* row = k_tile(args, run, head) + run.position % kTileTokens * padded * kBytes;
    for (std::int64_t i = 0; i < run.count; ++i, row += padded * kBytes) out[tokens++] = row;
  });
  for (std::int64_t i = 0; i < padded; i += 16) {
    __m512 lines[16], rows[16];
    for (std::int64_t j = 0; j < 16; ++j) lines[j] = _mm512_load_ps(values + (i + j) * kPanelLanes);
    transpose(lines, rows);
    for (std::int64_t m = 0; m < tokens; ++m) avx512::store16<type>(out[m] + i * kBytes, 0xffff, rows[m]);
  }
}

/// Lanes become neighbouring lanes of the lines of tiles [head_dim][32].
template <DType type>
void store_value(const QkvArgs& args, std::int64_t head, std::int64_t panel, const float* values) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  for_panel_runs(args, panel, [&](const Run& run) {
    std::byte* out = k_tile(args, run, head) + args.kv.tile_bytes() + std::int64_t{run.position % kTileTokens} * kBytes;
    const auto lanes = static_cast<__mmask16>(first_lanes(run.count) << run.first_row % kPanelLanes);
    for (std::int64_t i = 0; i < args.kv.head_dim; ++i)
      avx512::store16<type>(out + i * kTileTokens * kBytes, first_lanes(run.count),
                            _mm512_maskz_compress_ps(lanes, _mm512_load_ps(values + i * kPanelLanes)));
  });
}

/// What waits for the norm over all heads is after the rope tables in the shared workspace, as panels of
/// waiting_width() features. Returns the line of one of them.
float* waiting_line(const QkvArgs& args, std::int64_t panel, std::int64_t feature) {
  float* first =
      reinterpret_cast<float*>(args.workspace.shared) + shared_rope_panels(args.n) * rope_floats(args.kv.head_dim);
  return first + (panel * waiting_width(args) + feature) * kPanelLanes;
}

/// One head of the tokens of a panel, for finish_head().
struct FinishedHead {
  const QkvArgs& args;
  HeadKind kind;
  std::int64_t index, panel;
  float* values;      ///< [feature][16]
  const float* rope;  ///< of the panel

  void keep() const {
    __builtin_memcpy(waiting_line(args, panel, waiting_at(args, kind, index)), values,
                     static_cast<std::size_t>(args.kv.head_dim * kPanelLanes) * sizeof(float));
  }
  void normalise(const float* weights) const { amx::normalise(values, weights, args.kv.head_dim, args.norm_eps); }
  void turn() const { rotate<avx512::VectorOps>(PanelHead{values, rope}, args.kv.head_dim); }
  void scale() const {
    alignas(64) float factors[kPanelLanes] = {};
    std::int64_t tokens = 0;
    for_panel_runs(args, panel, [&](const Run& run) {
      for (std::int64_t i = 0; i < run.count; ++i)
        factors[tokens++] = query_scale(args, run.position + static_cast<std::uint32_t>(i));
    });
    const __m512 factor = _mm512_load_ps(factors);
    for (std::int64_t i = 0; i < args.kv.head_dim; ++i)
      _mm512_store_ps(values + i * kPanelLanes, _mm512_mul_ps(_mm512_load_ps(values + i * kPanelLanes), factor));
  }
  void write_query() const { store_query(args, index, panel, values); }
  void write_key() const {
    avx512::with_dtype(args.kv.type, [&]<DType type>() { store_key<type>(args, index, panel, values); });
  }
  void write_value() const {
    avx512::with_dtype(args.kv.type, [&]<DType type>() { store_value<type>(args, index, panel, values); });
  }
};

}  // namespace

std::int64_t rope_floats(std::int64_t head_dim) { return (head_dim + 15) / 16 * 16 * kPanelLanes; }

void transpose_rope(const QkvArgs& args, std::int64_t panel, float* out) {
  if (args.rope == nullptr) return;
  const std::int64_t width = args.kv.head_dim;
  const float* table[16];
  std::int64_t tokens = 0;
  for_panel_runs(args, panel, [&](const Run& run) {
    for (std::int64_t i = 0; i < run.count; ++i) table[tokens++] = args.rope + (run.position + i) * width;
  });
  for (std::int64_t i = 0; i < width; i += 16) {
    __m512 rows[16], lines[16];
    for (std::int64_t m = 0; m < 16; ++m)
      rows[m] = m < tokens ? _mm512_maskz_loadu_ps(first_lanes(width - i), table[m] + i) : _mm512_setzero_ps();
    transpose(rows, lines);
    for (std::int64_t j = 0; j < 16; ++j) _mm512_store_ps(out + (i + j) * kPanelLanes, lines[j]);
  }
}

void finish_panel_head(const QkvArgs& args, HeadKind kind, std::int64_t index, std::int64_t panel, float* values,
                       const float* rope) {
  finish_head(args, kind, FinishedHead{args, kind, index, panel, values, rope});
}

void finish_waiting_heads(const QkvArgs& args, HeadKind kind, std::int64_t panel, float* values, const float* rope) {
  const std::int64_t width = args.kv.head_dim, n_heads = projection_of(args, kind).n_heads;
  const float *weights = norm_weights(args, kind), *lines = waiting_line(args, panel, waiting_at(args, kind, 0));
  const auto line = [&](std::int64_t i) { return _mm512_load_ps(lines + i * kPanelLanes); };
  const __m512 scale = inverse_rms(n_heads * width, args.norm_eps, line);
  for (std::int64_t head = 0; head < n_heads; ++head) {
    for (std::int64_t i = 0; i < padded_k(width); ++i) {
      const std::int64_t at = head * width + i;
      const __m512 value =
          i < width ? _mm512_mul_ps(_mm512_mul_ps(line(at), scale), _mm512_set1_ps(weights[at])) : _mm512_setzero_ps();
      _mm512_store_ps(values + i * kPanelLanes, value);
    }
    write_head(args, kind, FinishedHead{args, kind, head, panel, values, rope});
  }
}

}  // namespace qinfer::kernels::amx
