// Embedding lookup, out of a row-major table or a tile-major LM head, and norms: one unit per row. The soft cap of
// logits, which every LM head applies to its own slice.
#include "common/quant_tiles.h"
#include "common/table_rows.h"
#include "tiled/math.h"
#include "tiled/tiled.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

template <DType type>
void widen_row(const std::byte* at, std::int64_t width, float* out) {
  for (std::int64_t i = 0; i < width; i += 16) {
    const Lanes lanes = first_lanes(width - i);
    if constexpr (type == DType::f32) {
      store(out + i, lanes, load(lanes, at + 4 * i));
    } else {
      store(out + i, lanes, widen<type>(load_halves(lanes, at + 2 * i)));
    }
  }
}

void scale_row(float* row, std::int64_t width, float scale) {
  const F32x16 factor = splat(scale);
  for (std::int64_t i = 0; i < width; i += 16) {
    const Lanes lanes = first_lanes(width - i);
    store(row + i, lanes, mul(load(lanes, row + i), factor));
  }
}

/// One lane of each line: a line is 32 pairs, of a row each.
void gather_pairs(const std::byte* lane, std::int64_t width, float* out) {
  for (std::int64_t k = 0; k < width; ++k)
    out[k] = bf16_to_f32(*reinterpret_cast<const std::uint16_t*>(lane + k / 2 * kTileRows * 4 + k % 2 * 2));
}

/// One lane of each line: a line is 32 rows of one column.
template <DType type>
void gather_row(const std::byte* lane, std::int64_t width, float scale, float* out) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  for (std::int64_t k = 0; k < width; ++k) {
    const std::byte* at = lane + k * kTileRows * kBytes;
    if constexpr (type == DType::f32) {
      out[k] = *reinterpret_cast<const float*>(at);
    } else {
      const auto bits = *reinterpret_cast<const std::uint16_t*>(at);
      const float value = type == DType::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
      out[k] = value * scale;
    }
  }
}

/// Out of the blocks of a file, or out of tiles.
void embed_quantised(const EmbedArgs& args, Slice slice) {
  const Matrix& table = args.table;
  const EncodingTraits& traits = encoding_traits(table.format.encoding);
  const std::int64_t tile_bytes = bytes_of_quant_tile(traits.encoding, table.cols);
  const std::int64_t row_bytes = table.cols / traits.block_values * traits.block_bytes;
  for (std::int64_t m = slice.begin; m < slice.end; ++m) {
    const std::int64_t row = args.tokens[m];
    float* out = args.out.row(m);
    if (table.format.layout == WeightLayout::row_major) {
      traits.to_f32(table.data + row * row_bytes, table.cols, out);
    } else {
      widen_quant_row(table.format.encoding, table.data + row / kTileRows * tile_bytes, row % kTileRows, table.cols,
                      out);
    }
    if (args.scale != 1.0f) scale_row(out, table.cols, args.scale);
  }
}

}  // namespace

std::int64_t embed_units(const EmbedArgs& args, std::int32_t) { return args.n; }

namespace {

void embed_tokens(const EmbedArgs& args, Slice slice) {
  const Matrix& table = args.table;
  if (!is_plain(table.format.encoding)) return embed_quantised(args, slice);
  with_dtype(element_type(table.format.encoding), [&]<DType type>() {
    constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
    for (std::int64_t m = slice.begin; m < slice.end; ++m) {
      const std::int64_t row = args.tokens[m];
      if (table.format.layout == WeightLayout::row_major) {
        widen_row<type>(table.data + row * table.cols * kBytes, table.cols, args.out.row(m));
        if (args.scale != 1.0f) scale_row(args.out.row(m), table.cols, args.scale);
      } else if (table.format.layout == WeightLayout::pairs32) {
        const std::int64_t lane = row / kTileRows * ((table.cols + 1) / 2) * kTileRows + row % kTileRows;
        gather_pairs(table.data + lane * 4, table.cols, args.out.row(m));
        if (args.scale != 1.0f) scale_row(args.out.row(m), table.cols, args.scale);
      } else {
        const std::int64_t lane = row / kTileRows * table.cols * kTileRows + row % kTileRows;
        gather_row<type>(table.data + lane * kBytes, table.cols, table.pack.scale, args.out.row(m));
        if (args.scale != 1.0f) scale_row(args.out.row(m), table.cols, args.scale);
      }
    }
  });
}

}  // namespace

void embed(const EmbedArgs& args, std::int32_t, Slice slice) {
  embed_tokens(args, slice);
  for (std::int64_t m = slice.begin; m < slice.end; ++m) {
    float* const out = args.out.row(m);
    for_added_values(args, m, [&](std::int64_t k, float value) { out[k] += value; });
  }
}

namespace {

template <bool accumulate>
void norm_row(const float* x, const float* weight, std::int64_t width, float eps, float* out) {
  F32x16 squares = zeros();
  for (std::int64_t k = 0; k < width; k += 16) {
    const F32x16 v = load(first_lanes(width - k), x + k);
    squares = mul_add(v, v, squares);
  }
  const float mean = sum_lanes(squares) / static_cast<float>(width) + eps;
  const F32x16 scale = splat(1.0f / __builtin_sqrtf(mean));
  for (std::int64_t k = 0; k < width; k += 16) {
    const Lanes lanes = first_lanes(width - k);
    const F32x16 v = mul(load(lanes, x + k), scale);
    F32x16 value = mul(v, load(lanes, weight + k));
    if constexpr (accumulate) value = add(load(lanes, out + k), value);
    store(out + k, lanes, value);
  }
}

/// LayerNorm. What comes of the lanes after the last value is left out of the sum of squares.
void centred_row(const NormArgs& args, const float* x, float* out) {
  const std::int64_t width = args.width;
  F32x16 sum = zeros(), squares = zeros();
  for (std::int64_t k = 0; k < width; k += 16) sum = add(sum, load(first_lanes(width - k), x + k));
  const F32x16 mean = splat(sum_lanes(sum) / static_cast<float>(width));
  const std::int64_t whole = width / 16 * 16;
  for (std::int64_t k = 0; k < whole; k += 16) {
    const F32x16 v = sub(load(x + k), mean);
    squares = mul_add(v, v, squares);
  }
  if (whole < width) {
    alignas(64) float rest[16] = {};
    store(rest, first_lanes(width - whole), sub(load(first_lanes(width - whole), x + whole), mean));
    const F32x16 v = load(rest);
    squares = mul_add(v, v, squares);
  }
  const F32x16 scale = splat(1.0f / __builtin_sqrtf(sum_lanes(squares) / static_cast<float>(width) + args.eps));
  for (std::int64_t k = 0; k < width; k += 16) {
    const Lanes lanes = first_lanes(width - k);
    F32x16 value = mul(mul(sub(load(lanes, x + k), mean), scale), load(lanes, args.weight + k));
    if (args.bias != nullptr) value = add(value, load(lanes, args.bias + k));
    if (args.accumulate) value = add(load(lanes, out + k), value);
    store(out + k, lanes, value);
  }
}

}  // namespace

void cap_logits(const LmHeadArgs& args, std::int64_t begin, std::int64_t end) {
  const F32x16 inverse = splat(1.0f / args.softcap), cap = splat(args.softcap);
  end = smaller(end, args.w.rows);
  for (std::int64_t m = 0; m < args.n; ++m)
    for (std::int64_t j = begin; j < end; j += 16) {
      const Lanes lanes = first_lanes(end - j);
      const F32x16 x = load(lanes, args.out[m] + j);
      store(args.out[m] + j, lanes, soft_capped<VectorOps>(x, inverse, cap));
    }
}

void rms_norm_row(const float* x, const float* weight, std::int64_t width, float eps, float* out) {
  norm_row<false>(x, weight, width, eps, out);
}

std::int64_t norm_units(const NormArgs& args, std::int32_t) { return args.n; }

void norm(const NormArgs& args, std::int32_t, Slice slice) {
  for (std::int64_t m = slice.begin; m < slice.end; ++m) {
    const std::int64_t source = args.gather != nullptr ? args.gather[m] : m;
    if (args.weight == nullptr) {
      __builtin_memcpy(args.out.row(m), args.x.row(source), static_cast<std::size_t>(args.width) * sizeof(float));
      continue;
    }
    if (args.centred) {
      centred_row(args, args.x.row(source), args.out.row(m));
    } else {
      (args.accumulate ? norm_row<true> : norm_row<false>)(args.x.row(source), args.weight, args.width, args.eps,
                                                           args.out.row(m));
    }
    if (args.replaces)
      __builtin_memcpy(args.x.row(source), args.out.row(m), static_cast<std::size_t>(args.width) * sizeof(float));
  }
}

}  // namespace qinfer::kernels::QINFER_ISA
