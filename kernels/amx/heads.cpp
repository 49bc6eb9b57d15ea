// See heads.h.
#include "amx/heads.h"

#include <algorithm>

namespace qinfer::kernels::amx {
namespace {

/// Lanes of a panel that are neighbouring positions of one sequence, in one tile of the cache.
struct Run {
  const Sequence* sequence;
  std::int64_t first, count;  ///< lanes
  std::uint32_t position;     ///< of the first
};

/// Calls f(run) for the tokens of a panel.
template <typename F>
void for_runs(const QkvArgs& args, std::int64_t panel, F f) {
  const std::int64_t first = panel * kPanelTokens, end = smaller(first + kPanelTokens, args.n);
  const Sequence* sequence =
      std::upper_bound(args.sequences.data(), args.sequences.data() + args.sequences.size(), first,
                       [](std::int64_t row, const Sequence& s) { return row < s.first_row + s.n_rows; });
  for (std::int64_t row = first; row < end;) {
    while (row >= sequence->first_row + sequence->n_rows) ++sequence;
    const auto position = sequence->first_position + static_cast<std::uint32_t>(row - sequence->first_row);
    const std::int64_t in_tile = kTileTokens - position % kTileTokens,
                       in_sequence = sequence->first_row + sequence->n_rows - row;
    const std::int64_t count = smaller(smaller(in_tile, in_sequence), end - row);
    f(Run{sequence, row - first, count, position});
    row += count;
  }
}

std::byte* k_tile(const QkvArgs& args, const Run& run, std::int64_t head) {
  return run.sequence->kv.k_tile(args.kv, args.layer, static_cast<std::uint32_t>(head), run.position / kTileTokens);
}

void normalise(float* values, const float* weight, std::int64_t width, float eps) {
  const auto line = [&](std::int64_t i) { return _mm512_load_ps(values + i * kPanelTokens); };
  const __m512 scale = inverse_rms(width, eps, line);
  for (std::int64_t i = 0; i < width; ++i)
    _mm512_store_ps(values + i * kPanelTokens, _mm512_mul_ps(_mm512_mul_ps(line(i), scale), _mm512_set1_ps(weight[i])));
}

/// x' = x cos - y sin, y' = y cos + x sin for the pairs (x, y) = (i, i + d/2).
void rotate(float* values, std::int64_t width, const float* rope) {
  const std::int64_t half = width / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    float *low = values + i * kPanelTokens, *high = values + (half + i) * kPanelTokens;
    const __m512 c = _mm512_load_ps(rope + 2 * i * kPanelTokens), s = _mm512_load_ps(rope + (2 * i + 1) * kPanelTokens);
    const __m512 x = _mm512_load_ps(low), y = _mm512_load_ps(high);
    _mm512_store_ps(low, _mm512_fmsub_ps(x, c, _mm512_mul_ps(y, s)));
    _mm512_store_ps(high, _mm512_fmadd_ps(y, c, _mm512_mul_ps(x, s)));
  }
}

/// Queries of a batch that lies in rows.
void store_query_rows(const QkvArgs& args, std::int64_t head, const float* values) {
  const std::int64_t width = args.kv.head_dim;
  for (std::int64_t i = 0; i < width; i += 16) {
    __m512 lines[16], rows[16];
    for (std::int64_t j = 0; j < 16; ++j) lines[j] = _mm512_load_ps(values + (i + j) * kPanelTokens);
    transpose(lines, rows);
    for (std::int64_t m = 0; m < args.n; ++m)
      _mm512_mask_storeu_ps(args.q.row(m) + head * width + i, first_lanes(width - i), rows[m]);
  }
}

void store_query(const QkvArgs& args, std::int64_t head, std::int64_t panel, const float* values) {
  if (args.q.is_row_major()) return store_query_rows(args, head, values);
  const std::int64_t dwords = panel_dwords(args.kv.head_dim);
  auto* out = args.q.pairs() + (panel * args.n_heads + head) * dwords;
  for (std::int64_t at = 0; at < dwords; at += kPanelTokens, values += 2 * kPanelTokens)
    _mm512_store_si512(out + at, interleave(_mm512_load_ps(values), _mm512_load_ps(values + kPanelTokens)));
}

/// Lanes become rows of tiles [32][padded], with zeros behind them.
template <DType type>
void store_key(const QkvArgs& args, std::int64_t head, std::int64_t panel, const float* values) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  const std::int64_t padded = args.kv.head_dim_padded;
  std::byte* out[16];
  std::int64_t tokens = 0;
  for_runs(args, panel, [&](const Run& run) {
    std::byte* row = k_tile(args, run, head) + run.position % kTileTokens * padded * kBytes;
    for (std::int64_t i = 0; i < run.count; ++i, row += padded * kBytes) out[tokens++] = row;
  });
  for (std::int64_t i = 0; i < padded; i += 16) {
    __m512 lines[16], rows[16];
    for (std::int64_t j = 0; j < 16; ++j) lines[j] = _mm512_load_ps(values + (i + j) * kPanelTokens);
    transpose(lines, rows);
    for (std::int64_t m = 0; m < tokens; ++m) avx512::store16<type>(out[m] + i * kBytes, 0xffff, rows[m]);
  }
}

/// Lanes become neighbouring lanes of the lines of tiles [head_dim][32].
template <DType type>
void store_value(const QkvArgs& args, std::int64_t head, std::int64_t panel, const float* values) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  for_runs(args, panel, [&](const Run& run) {
    std::byte* out = k_tile(args, run, head) + args.kv.tile_bytes() + std::int64_t{run.position % kTileTokens} * kBytes;
    const auto lanes = static_cast<__mmask16>(first_lanes(run.count) << run.first);
    for (std::int64_t i = 0; i < args.kv.head_dim; ++i)
      avx512::store16<type>(out + i * kTileTokens * kBytes, first_lanes(run.count),
                            _mm512_maskz_compress_ps(lanes, _mm512_load_ps(values + i * kPanelTokens)));
  });
}

}  // namespace

std::int64_t rope_floats(std::int64_t head_dim) { return (head_dim + 15) / 16 * 16 * kPanelTokens; }

void transpose_rope(const QkvArgs& args, std::int64_t panel, float* out) {
  const std::int64_t width = args.kv.head_dim;
  const float* table[16];
  std::int64_t tokens = 0;
  for_runs(args, panel, [&](const Run& run) {
    for (std::int64_t i = 0; i < run.count; ++i) table[tokens++] = args.rope + (run.position + i) * width;
  });
  for (std::int64_t i = 0; i < width; i += 16) {
    __m512 rows[16], lines[16];
    for (std::int64_t m = 0; m < 16; ++m)
      rows[m] = m < tokens ? _mm512_maskz_loadu_ps(first_lanes(width - i), table[m] + i) : _mm512_setzero_ps();
    transpose(rows, lines);
    for (std::int64_t j = 0; j < 16; ++j) _mm512_store_ps(out + (i + j) * kPanelTokens, lines[j]);
  }
}

void finish_head(const QkvArgs& args, HeadKind kind, std::int64_t index, std::int64_t panel, float* values,
                 const float* rope) {
  const std::int64_t width = args.kv.head_dim;
  if (kind == HeadKind::value)
    return avx512::with_dtype(args.kv.type, [&]<DType type>() { store_value<type>(args, index, panel, values); });
  const float* norm = kind == HeadKind::query ? args.q_norm : args.k_norm;
  if (norm != nullptr) normalise(values, norm, width, args.norm_eps);
  rotate(values, width, rope);
  if (kind == HeadKind::query) return store_query(args, index, panel, values);
  avx512::with_dtype(args.kv.type, [&]<DType type>() { store_key<type>(args, index, panel, values); });
}

}  // namespace qinfer::kernels::amx
