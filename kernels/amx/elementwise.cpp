// Embedding lookup and norms: one unit per panel of 16 tokens, features as lines. The norm writes the panels that the
// next multiplication takes, so that nothing is packed in between. Where a batch is row-major, this is AVX-512's.
#include "amx/amx.h"
#include "amx/pairs.h"
#include "base/block_formats.h"
#include "common/quant_tiles.h"
#include "common/table_rows.h"
#include "tiled/tiled.h"

namespace qinfer::kernels::amx {
namespace {

/// Up to 16 values of a row, widened; zeros after them.
template <DType type>
__m512 load_lanes(const std::byte* at, __mmask16 lanes) {
  if constexpr (type == DType::f32) {
    return _mm512_maskz_loadu_ps(lanes, at);
  } else {
    alignas(64) std::byte padded[32];
    _mm256_store_si256(reinterpret_cast<__m256i*>(padded), _mm256_maskz_loadu_epi16(lanes, at));
    return avx512::load16<type>(padded);
  }
}

/// Values [k, k + 16) of row `row` of a table in pairs; zeros after the last one.
__m512 load_pair_lanes(const Matrix& table, std::int64_t row, std::int64_t k) {
  const std::byte* at = tile_of_row(table.data, row, table.cols) + row % kRegisterRows * 4 + k / 2 * 64;
  const __m256i lines = _mm256_setr_epi32(0, 16, 32, 48, 64, 80, 96, 112);
  alignas(64) std::byte values[32];
  _mm256_store_si256(reinterpret_cast<__m256i*>(values),
                     _mm256_i32gather_epi32(reinterpret_cast<const int*>(at), lines, 4));
  return avx512::load16<DType::bf16>(values);
}

template <DType type>
void embed_panel(const EmbedArgs& args, std::int64_t panel) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  const std::int64_t first = panel * kPanelLanes, count = smaller(args.n - first, kPanelLanes);
  const std::int64_t cols = args.table.cols;
  const __m512 scale = _mm512_set1_ps(args.scale);
  const bool in_pairs = args.table.format.layout == WeightLayout::pairs16;
  for (std::int64_t k = 0; k < cols; k += 16) {
    const __mmask16 lanes = first_lanes(cols - k);
    const auto values = [&](std::int64_t row) {
      return in_pairs ? load_pair_lanes(args.table, row, k)
                      : load_lanes<type>(args.table.data + (row * cols + k) * kBytes, lanes);
    };
    __m512 rows[16], lines[16];
    for (std::int64_t m = 0; m < 16; ++m)
      rows[m] = m < count ? _mm512_mul_ps(values(args.tokens[first + m]), scale) : _mm512_setzero_ps();
    transpose(rows, lines);
    for (std::int64_t i = 0; i < 16 && k + i < cols; ++i) _mm512_store_ps(f32_line(args.out, panel, k + i), lines[i]);
  }
}

/// Out of the blocks of a file, or out of tiles: a block of each row at a time.
void embed_quantised_panel(const EmbedArgs& args, std::int64_t panel) {
  const Matrix& table = args.table;
  const EncodingTraits& traits = encoding_traits(table.format.encoding);
  const QuantLayout layout = quant_layout(traits.encoding);
  const std::int64_t first = panel * kPanelLanes, count = smaller(args.n - first, kPanelLanes);
  const std::int64_t count_of_blocks = table.cols / layout.block_cols;
  const __m512 scale = _mm512_set1_ps(args.scale);
  alignas(64) float values[kPanelLanes][blocks::kLongBlock] = {};
  for (std::int64_t b = 0; b < count_of_blocks; ++b) {
    for (std::int64_t m = 0; m < count; ++m) {
      const std::int64_t row = args.tokens[first + m];
      if (table.format.layout == WeightLayout::row_major) {
        traits.to_f32(table.data + (row * count_of_blocks + b) * traits.block_bytes, layout.block_cols, values[m]);
      } else {
        widen_quant_row(table.format.encoding, table.data + (row / kTileRows * count_of_blocks + b) * layout.block,
                        row % kTileRows, layout.block_cols, values[m]);
      }
    }
    for (std::int64_t k = 0; k < layout.block_cols; k += 16) {
      __m512 rows[16], lines[16];
      for (std::int64_t m = 0; m < 16; ++m) rows[m] = _mm512_mul_ps(_mm512_load_ps(values[m] + k), scale);
      transpose(rows, lines);
      for (std::int64_t i = 0; i < 16; ++i)
        _mm512_store_ps(f32_line(args.out, panel, b * layout.block_cols + k + i), lines[i]);
    }
  }
}

/// The rows of further tables.
void add_rows(const EmbedArgs& args, std::int64_t panel) {
  const std::int64_t first = panel * kPanelLanes, count = smaller(args.n - first, kPanelLanes);
  float* const lines = f32_line(args.out, panel, 0);
  for (std::int64_t m = 0; m < count; ++m)
    for_added_values(args, first + m, [&](std::int64_t k, float value) { lines[k * kPanelLanes + m] += value; });
}

void embed_panels(const EmbedArgs& args, Slice slice) {
  if (!is_plain(args.table.format.encoding)) {
    for (std::int64_t panel = slice.begin; panel < slice.end; ++panel) embed_quantised_panel(args, panel);
    return;
  }
  avx512::with_dtype(element_type(args.table.format.encoding), [&]<DType type>() {
    for (std::int64_t panel = slice.begin; panel < slice.end; ++panel) embed_panel<type>(args, panel);
  });
}

/// Rows of a table in pairs, which are row-major then.
void embed_pair_rows(const EmbedArgs& args, Slice slice) {
  const __m512 scale = _mm512_set1_ps(args.scale);
  for (std::int64_t m = slice.begin; m < slice.end; ++m) {
    float* const out = args.out.row(m);
    for (std::int64_t k = 0; k < args.table.cols; k += 16)
      _mm512_mask_storeu_ps(out + k, first_lanes(args.table.cols - k),
                            _mm512_mul_ps(load_pair_lanes(args.table, args.tokens[m], k), scale));
    for_added_values(args, m, [&](std::int64_t k, float value) { out[k] += value; });
  }
}

// ---- norms ----

/// Sixteen rows that are one panel.
struct PanelOf {
  const float* first;
  __m512 operator()(std::int64_t feature) const { return _mm512_load_ps(first + feature * kPanelLanes); }
};

/// Sixteen rows of any panels.
struct LanesOf {
  const float* lanes[16];  ///< null: there is no such row
  __m512 operator()(std::int64_t feature) const {
    alignas(64) float values[16];
    for (int m = 0; m < 16; ++m) values[m] = lanes[m] != nullptr ? lanes[m][feature * kPanelLanes] : 0.0f;
    return _mm512_load_ps(values);
  }
};

LanesOf lanes_of(const NormArgs& args, std::int64_t first) {
  LanesOf lanes{};
  for (std::int64_t m = 0; m < kPanelLanes && first + m < args.n; ++m) {
    const std::int64_t row = args.gather[first + m];
    lanes.lanes[m] = f32_line(args.x, row / kPanelLanes, 0) + row % kPanelLanes;
  }
  return lanes;
}

/// As operands: pairs of features, and zeros up to whole steps.
template <typename Value>
void write_operands(const NormArgs& args, std::int64_t panel, Value value) {
  auto* out = args.out.pairs() + panel * panel_dwords(args.width);
  std::int64_t k = 0;
  for (; k + 2 <= args.width; k += 2, out += kPanelLanes) _mm512_store_si512(out, interleave(value(k), value(k + 1)));
  for (; k < padded_k(args.width); k += 2, out += kPanelLanes)
    _mm512_store_si512(out, k < args.width ? interleave(value(k), _mm512_setzero_ps()) : _mm512_setzero_si512());
}

template <typename Value>
void write_rows(const NormArgs& args, std::int64_t panel, Value value) {
  const std::int64_t first = panel * kPanelLanes, count = smaller(args.n - first, kPanelLanes);
  for (std::int64_t k = 0; k < args.width; k += 16) {
    __m512 lines[16], rows[16];
    for (std::int64_t i = 0; i < 16; ++i) lines[i] = k + i < args.width ? value(k + i) : _mm512_setzero_ps();
    transpose(lines, rows);
    for (std::int64_t m = 0; m < count; ++m)
      _mm512_mask_storeu_ps(args.out.row(first + m) + k, first_lanes(args.width - k), rows[m]);
  }
}

template <typename Value>
void add_lines(const NormArgs& args, std::int64_t panel, Value value) {
  for (std::int64_t k = 0; k < args.width; ++k) {
    float* out = f32_line(args.out, panel, k);
    _mm512_store_ps(out, _mm512_add_ps(_mm512_load_ps(out), value(k)));
  }
}

/// What a norm gives, by value(feature); where it replaces, what it was made of first.
template <typename Value>
void write_normed(const NormArgs& args, std::int64_t panel, Value value) {
  if (args.accumulate) return add_lines(args, panel, value);
  if (args.replaces) {
    float* line = f32_line(args.x, panel, 0);
    for (std::int64_t k = 0; k < args.width; ++k) _mm512_store_ps(line + k * kPanelLanes, value(k));
    const PanelOf replaced{line};
    return args.out.is_row_major() ? write_rows(args, panel, replaced) : write_operands(args, panel, replaced);
  }
  args.out.is_row_major() ? write_rows(args, panel, value) : write_operands(args, panel, value);
}

/// LayerNorm.
template <typename Lines>
void centred_panel(const NormArgs& args, std::int64_t panel, Lines lines) {
  const __m512 mean = mean_lines(args.width, [&](std::int64_t k, __m512 sum) { return _mm512_add_ps(sum, lines(k)); });
  const auto less_mean = [&](std::int64_t k) { return _mm512_sub_ps(lines(k), mean); };
  const __m512 scale = inverse_rms(args.width, args.eps, less_mean);
  write_normed(args, panel, [&](std::int64_t k) {
    const __m512 value = _mm512_mul_ps(_mm512_mul_ps(less_mean(k), scale), _mm512_set1_ps(args.weight[k]));
    return args.bias != nullptr ? _mm512_add_ps(value, _mm512_set1_ps(args.bias[k])) : value;
  });
}

template <typename Lines>
void norm_panel(const NormArgs& args, std::int64_t panel, Lines lines) {
  if (args.weight == nullptr)
    return args.out.is_row_major() ? write_rows(args, panel, lines) : write_operands(args, panel, lines);
  if (args.centred) return centred_panel(args, panel, lines);
  const __m512 scale = inverse_rms(args.width, args.eps, lines);
  write_normed(args, panel, [&](std::int64_t k) {
    return _mm512_mul_ps(_mm512_mul_ps(lines(k), scale), _mm512_set1_ps(args.weight[k]));
  });
}

}  // namespace

std::int64_t embed_units(const EmbedArgs& args, std::int32_t) {
  return args.out.is_row_major() ? args.n : panel_count(args.n);
}

void embed(const EmbedArgs& args, std::int32_t phase, Slice slice) {
  if (args.out.is_row_major()) {
    if (args.table.format.layout == WeightLayout::pairs16) return embed_pair_rows(args, slice);
    return avx512::embed(args, phase, slice);
  }
  embed_panels(args, slice);
  for (std::int64_t panel = slice.begin; panel < slice.end; ++panel) add_rows(args, panel);
}

std::int64_t norm_units(const NormArgs& args, std::int32_t) {
  return args.x.is_row_major() ? args.n : panel_count(args.n);
}

void norm(const NormArgs& args, std::int32_t phase, Slice slice) {
  if (args.x.is_row_major()) return avx512::norm(args, phase, slice);
  for (std::int64_t panel = slice.begin; panel < slice.end; ++panel)
    args.gather != nullptr ? norm_panel(args, panel, lanes_of(args, panel * kPanelLanes))
                           : norm_panel(args, panel, PanelOf{f32_line(args.x, panel, 0)});
}

}  // namespace qinfer::kernels::amx
