// Embedding lookup, out of a row-major table or a tile-major LM head, and RMSNorm: one unit per row. The soft cap of
// logits, which every LM head applies to its own slice.
#include "avx512/avx512.h"
#include "avx512/vec.h"
#include "common/quant_tiles.h"

namespace qinfer::kernels::avx512 {
namespace {

template <DType type>
void widen_row(const std::byte* at, std::int64_t width, float* out) {
  for (std::int64_t i = 0; i < width; i += 16) {
    const __mmask16 lanes = first_lanes(width - i);
    if constexpr (type == DType::f32) {
      _mm512_mask_storeu_ps(out + i, lanes, _mm512_maskz_loadu_ps(lanes, at + 4 * i));
    } else {
      alignas(64) std::byte padded[32];
      _mm256_store_si256(reinterpret_cast<__m256i*>(padded), _mm256_maskz_loadu_epi16(lanes, at + 2 * i));
      _mm512_mask_storeu_ps(out + i, lanes, load16<type>(padded));
    }
  }
}

void scale_row(float* row, std::int64_t width, float scale) {
  const __m512 factor = _mm512_set1_ps(scale);
  for (std::int64_t i = 0; i < width; i += 16) {
    const __mmask16 lanes = first_lanes(width - i);
    _mm512_mask_storeu_ps(row + i, lanes, _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, row + i), factor));
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
      widen_quant_row(traits.encoding, table.data + row / kTileRows * tile_bytes, row % kTileRows, table.cols, out);
    }
    if (args.scale != 1.0f) scale_row(out, table.cols, args.scale);
  }
}

}  // namespace

std::int64_t embed_units(const EmbedArgs& args, std::int32_t) { return args.n; }

void embed(const EmbedArgs& args, std::int32_t, Slice slice) {
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

namespace {

template <bool accumulate>
void norm_row(const float* x, const float* weight, std::int64_t width, float eps, float* out) {
  __m512 squares = _mm512_setzero_ps();
  for (std::int64_t k = 0; k < width; k += 16) {
    const __m512 v = _mm512_maskz_loadu_ps(first_lanes(width - k), x + k);
    squares = _mm512_fmadd_ps(v, v, squares);
  }
  const __m128 mean = _mm_set_ss(sum_lanes(squares) / static_cast<float>(width) + eps);
  const __m512 scale = _mm512_set1_ps(1.0f / _mm_cvtss_f32(_mm_sqrt_ss(mean)));
  for (std::int64_t k = 0; k < width; k += 16) {
    const __mmask16 lanes = first_lanes(width - k);
    const __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, x + k), scale);
    __m512 value = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(lanes, weight + k));
    if constexpr (accumulate) value = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, out + k), value);
    _mm512_mask_storeu_ps(out + k, lanes, value);
  }
}

}  // namespace

void cap_logits(const LmHeadArgs& args, std::int64_t begin, std::int64_t end) {
  const __m512 inverse = _mm512_set1_ps(1.0f / args.softcap), cap = _mm512_set1_ps(args.softcap);
  end = smaller(end, args.w.rows);
  for (std::int64_t m = 0; m < args.n; ++m)
    for (std::int64_t j = begin; j < end; j += 16) {
      const __mmask16 lanes = first_lanes(end - j);
      const __m512 x = _mm512_maskz_loadu_ps(lanes, args.out[m] + j);
      _mm512_mask_storeu_ps(args.out[m] + j, lanes, soft_capped<VectorOps>(x, inverse, cap));
    }
}

void rms_norm_row(const float* x, const float* weight, std::int64_t width, float eps, float* out) {
  norm_row<false>(x, weight, width, eps, out);
}

std::int64_t rms_norm_units(const NormArgs& args, std::int32_t) { return args.n; }

void rms_norm(const NormArgs& args, std::int32_t, Slice slice) {
  for (std::int64_t m = slice.begin; m < slice.end; ++m) {
    const std::int64_t source = args.gather != nullptr ? args.gather[m] : m;
    if (args.weight == nullptr) {
      __builtin_memcpy(args.out.row(m), args.x.row(source), static_cast<std::size_t>(args.width) * sizeof(float));
      continue;
    }
    (args.accumulate ? norm_row<true> : norm_row<false>)(args.x.row(source), args.weight, args.width, args.eps,
                                                         args.out.row(m));
  }
}

}  // namespace qinfer::kernels::avx512
